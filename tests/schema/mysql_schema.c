/* The schema in MariaDB and MySQL: what migrations make of an empty database, where each of their
 * statements commits by itself. */
#include "tests/schema/schema.h"

#include <sqlock/mysql.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/my.h"

static sqlock_error err;

extern const sqlock_dialect sqlock_mysql_dialect;

const struct damage place_damages[] = {
    {"KEY noted (noted)", "KEY noted (token)", false},
    {"min_reader INT NOT NULL", "min_reader INT", true},
    {"fence_floor BIGINT", "fence_floor INT", true},
    {"longest BIGINT NOT NULL", "longest BIGINT", true},
    {"ttl BIGINT NOT NULL DEFAULT 0", "ttl BIGINT NOT NULL DEFAULT 1", false},
    {"ns VARBINARY(63)", "ns VARBINARY(64)", false},
    {"ns VARBINARY(63)", "ns VARCHAR(63)", true},
    {"kind SMALLINT NOT NULL DEFAULT 0", "kind SMALLINT NOT NULL DEFAULT 1", false},
    {"PRIMARY KEY (ns, name)", "PRIMARY KEY (name, ns)", true},
    {"PRIMARY KEY (ns, name)", "UNIQUE KEY (ns, name)", true},
    {"UNIQUE KEY nt (ns, name, token DESC)", "KEY nt (ns, name, token)", true},
    {"UNIQUE KEY nt (ns, name, token DESC)", "UNIQUE KEY nt (ns, token, name)", true},
    {"UNIQUE KEY nt (ns, name, token DESC)", "UNIQUE KEY nt (ns, name, token), UNIQUE KEY (owner)",
     true},
    {"UNIQUE KEY nt (ns, name, token DESC)", "UNIQUE KEY nt (ns, name, token), KEY (exp)", false},
    {"CHECK ((owner IS NULL) = (exp IS NULL))", "CHECK (kind = kind)", false},
    {",\n    CHECK ((owner IS NULL) = (exp IS NULL))", "", true},
    {"owner VARBINARY(16) CHECK", "owner VARBINARY(16) NOT NULL CHECK", true},
    {"next_ticket", "next_tickets", true},
    {"octet_length(value) <= 65536", "octet_length(value) <= 65535", false},
    {"MEDIUMBLOB", "BLOB", true},
    {"writer VARBINARY(16) NOT NULL", "writer VARBINARY(16)", true},
    {"version BIGINT NOT NULL CHECK (version > 0)", "version BIGINT NOT NULL", true},
    {"VALUES (1, 0, 4, 0, '', 0, 0, 0)", "VALUES (1, 0, 4, 0, '', 7, 0, 0)", false},
    {NULL, NULL, false}};

const char *const place_end_lease =
    "UPDATE {lock} SET exp = 1 WHERE ns = X'0073716c6f636b' AND owner IS NOT NULL";

struct place place_new(void)
{
    struct place p = {.driver = sqlock_driver_mysql(),
                      .dialect = &sqlock_mysql_dialect,
                      .schema = my_database_new(),
                      .prefix = "sqlock_"};

    snprintf(p.url, sizeof p.url, "%s", my_url());
    return p;
}

bool place_keeps_checks(void)
{
    return my_is_mariadb() || my_skips_locked(); /* MySQL 8.0.16 and newer, as good as */
}

void place_exec_text(const struct place *p, const char *sql)
{
    (void)p;
    my_exec(sql);
}

int64_t place_number_text(const struct place *p, const char *sql)
{
    (void)p;
    return my_number(sql);
}

bool place_has_locks(const struct place *p)
{
    return place_number(p, "SELECT COUNT(*) FROM information_schema.tables WHERE "
                           "table_schema = '{schema}' AND table_name = '{prefix}lock'") == 1;
}

bool place_pipe(const struct place *p, const char *sql)
{
    (void)p;
    return pipe_to("mysql", textf("mysql -u root -S '%s' >/dev/null", my_socket_path()), sql);
}

/* Once the server is known the floor is the clock. */
#define META_AS_MIGRATED                                                                           \
    "SELECT id, min_reader, CASE WHEN fence_floor < 1000000000 THEN fence_floor ELSE 0 END, "      \
    "lost_at, longest FROM {meta}"

char *place_catalogue(const struct place *p)
{
    char *out = NULL, *names = NULL, *rest, *name;
    size_t size = 0;
    FILE *f = open_memstream(&names, &size);

    my_put_rows(f, place_fill(p, "SELECT table_name AS t FROM information_schema.tables "
                                 "WHERE table_schema = '{schema}' ORDER BY table_name"));
    fclose(f);
    f = open_memstream(&out, &size);
    for (name = strtok_r(kept(names), "\n", &rest); name; name = strtok_r(NULL, "\n", &rest)) {
        name[strcspn(name, " ")] = '\0';
        my_put_rows(f, textf("SHOW CREATE TABLE `%s`.`%s`", p->schema, name + strlen("t=")));
        if (strstr(name, "meta"))
            my_put_rows(f, place_fill(p, META_AS_MIGRATED));
    }
    fclose(f);
    return text_replace(kept(out), p->schema, "SCHEMA");
}

/* ---- the lease of migrators ------------------------------------------------------------------ */

static int hold_row(void *arg)
{
    const struct place *p = arg;

    place_exec(p,
               "START TRANSACTION; SELECT 1 FROM {lock} WHERE ns = X'0073716c6f636b' FOR UPDATE; "
               "SELECT SLEEP(2.5); COMMIT");
    return 0;
}

static pid_t holder;

static void lock_row_for_a_while(void *user, long call)
{
    if (call == 5) {
        holder = child_start(hold_row, user);
        sleep_ms(900);
    }
}

/* The server gives up waiting for the row before the client does; nobody has taken the lease. */
TEST(test_a_migrator_whose_lease_cannot_be_renewed_for_a_moment_goes_on)
{
    struct place p = place_migrated(), grown = place_grown(&p), tapped;
    struct tap *tap;
    struct db db;

    tapped = place_tapped(&grown, &tap);
    tap->before = lock_row_for_a_while;
    tap->user = &p;
    db = place_db(&tapped);
    db.request_ms = 2000;
    db_migrate(db);
    assert_int_equal(child_wait(holder, patience_ms(10000)), 0);
    assert_int_equal(place_number(&p, "SELECT version FROM {meta}"), 4);
}

static int hold_the_broken_row(void *p)
{
    place_exec(p, "START TRANSACTION; SELECT 1 FROM {lock} WHERE name = 'x' FOR UPDATE; "
                  "SELECT SLEEP(0.8); COMMIT");
    return 0;
}

static int drop_later(void *p)
{
    sleep_ms(200);
    place_exec(p, "DROP TABLE {broken}");
    return 0;
}

/* P5: each statement of a packet commits by itself. The break waits for the row, the DROP for the
 * break, and the packet's look at the notes comes behind both. */
TEST(test_a_break_whose_notes_go_away_behind_it_is_reported_as_one)
{
    struct place p = place_migrated();
    pid_t children[2];
    sqlock *m = place_open(&p);
    sqlock_lock *lock = lock_take(m, "x", 0, SQLOCK_NO_RENEW);

    children[0] = child_start(hold_the_broken_row, &p);
    sleep_ms(200);
    children[1] = child_start(drop_later, &p);
    assert_ok(sqlock_break(m, "x", sqlock_lock_token(lock), &err), &err);
    for (int i = 0; i < 2; i++)
        assert_int_equal(child_wait(children[i], patience_ms(10000)), 0);
    assert_code(SQLOCK_ELOST, sqlock_renew(lock, &err), &err);
    sqlock_lock_free(lock);
    sqlock_close(m);
}

/* The library's own locks are nobody's business. */
TEST(test_the_lease_of_migrators_is_never_listed)
{
    struct place p = place_migrated();
    sqlock *m;

    assert_int_equal(place_number(&p, "SELECT COUNT(*) FROM {lock}"), 1);
    m = place_open(&p);
    assert_int_equal(list_count(m, SQLOCK_LIST_FREE), 0);
    sqlock_close(m);
}

/* A new table would begin with tokens that were given before. */
TEST(test_a_lock_table_that_is_gone_is_reported_and_not_made_anew)
{
    struct place p = place_migrated();

    place_exec(&p, "DROP TABLE {lock}");
    assert_error(SQLOCK_ESCHEMA, "lock table is gone", migrate_code(&p, &err), &err);
    assert_false(place_has_locks(&p));
}

TEST_MAIN_EACH(NULL, NULL)
