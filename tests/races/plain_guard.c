/* The guard as plain SQL, as schema/<dialect>/guard.sql gives it to applications in any language:
 * run as it stands there, with literals in the place of its parameters. */
#include "races.h"

#include <stdlib.h>

/* The file's statements: without comments, and {lock} in the place of the table's default name. */
static char *read_statements(const char *dialect)
{
    const char *root = getenv("SQLOCK_SOURCE_DIR");
    char path[4096], line[512], *out = NULL;
    size_t size = 0;
    FILE *file, *text = open_memstream(&out, &size);

    snprintf(path, sizeof path, "%s/schema/%s/guard.sql",
             root != NULL && *root != '\0' ? root : ".", dialect);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(text);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "--", 2) != 0)
            fputs(line, text);
    fclose(file);
    fclose(text);
    assert_true(size > 0);
    return out;
}

static char *put_in(char *text, const char *word, const char *value)
{
    char *out = NULL, *at;
    size_t size = 0, n = 0;
    FILE *f = open_memstream(&out, &size);

    for (char *rest = text;; rest = at + strlen(word)) {
        at = strstr(rest, word);
        fprintf(f, "%.*s%s", at != NULL ? (int)(at - rest) : (int)strlen(rest), rest,
                at != NULL ? value : "");
        if (at == NULL)
            break;
        n++;
    }
    fclose(f);
    free(text);
    if (n == 0 && strcmp(word, ":owner") != 0 && strcmp(word, ":ttl") != 0 &&
        strcmp(word, "public.") != 0)
        fail_msg("the guard has no %s", word);
    return out;
}

static char *guard_for(const char *dialect, request r)
{
    char owner[40] = "'", token[32];
    char *text = put_in(read_statements(dialect), "public.", "");

    for (int i = 0; i < 16; i++)
        snprintf(owner + 1 + 2 * i, 4, "%02x'", r.owner[i]);
    snprintf(token, sizeof token, "%lld", (long long)r.token);
    text = put_in(text, "sqlock_lock", "{lock}");
    text = put_in(text, ":owner", owner);
    text = put_in(text, ":token", token);
    text = put_in(text, ":ttl", "400");
    text = put_in(text, ":name", "'job'");
    return put_in(text, ":ns", "'app'");
}

/* 0: all of its statements were run. */
static int guard(conn app, const char *dialect, request r)
{
    char *text = guard_for(dialect, r), *rest = text;
    int rc = 0;

    for (char *end; rc == 0 && (end = strchr(rest, ';')) != NULL; rest = end + 1) {
        *end = '\0';
        rc = try_run(app, fill(rest));
    }
    free(text);
    return rc;
}

static void guards(const char *dialect, conn a, conn app, conn thief, int one_writer)
{
    request r = request_of('A', 400 * MS), t = request_of('T', 400 * MS);

    r.token = acquire(a, r).token;
    run(app, one_writer ? "BEGIN IMMEDIATE" : "BEGIN");
    assert_int_equal(guard(app, dialect, r), 0);
    if (one_writer)
        pause_ms(450);
    for (int i = 0; !one_writer && i < 20; i++)
        EXPECT(renew(a, r), SQLOCK_OUT_DONE);
    if (one_writer)
        assert_string_equal(acquire(thief, t).error, "BUSY");
    else
        let_it_run_out(a), EXPECT(acquire(thief, t), SQLOCK_OUT_SKIPPED);
    run(app, "COMMIT");
    EXPECT(acquire(thief, t), SQLOCK_OUT_DONE);

    run(app, one_writer ? "BEGIN IMMEDIATE" : "BEGIN"); /* the lease is lost: it fails */
    assert_int_not_equal(guard(app, dialect, r), 0);
    run(app, "ROLLBACK");
}

static void test_plain_guard_of_postgres(void **state)
{
    (void)state;
    guards("postgres", pg_open(), pg_open(), pg_open(), 0);
}

static void test_plain_guard_of_mysql(void **state)
{
    (void)state;
    guards("mysql", my_open(), my_open(), my_open(), 0);
}

static void test_plain_guard_of_sqlite(void **state)
{
    (void)state;
    guards("sqlite", lite_open(), lite_open(), lite_open(), 1);
}

int main(void)
{
    const struct CMUnitTest sqlite[] = {ON_SQLITE(test_plain_guard_of_sqlite)};
    const struct CMUnitTest postgres[] = {ON_POSTGRES(test_plain_guard_of_postgres)};
    const struct CMUnitTest mysql[] = {ON_MYSQL(test_plain_guard_of_mysql)};
    int failed = cmocka_run_group_tests_name("the plain guard on SQLite", sqlite, NULL, NULL);
    int missing = pg_missing();

    failed +=
        missing ? missing - 1 : cmocka_run_group_tests_name("on PostgreSQL", postgres, NULL, NULL);
    missing = my_missing();
    return failed +
           (missing ? missing - 1 : cmocka_run_group_tests_name("on MariaDB", mysql, NULL, NULL));
}
