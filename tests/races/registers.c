/* Setters of a register that meet (P13), on every database. In these requests the token is the
 * version that is expected, and in answers the one that is there; the value tells who wrote it. */
#include "races.h"

/* What the same race needs in each dialect. Wrong statements are ours with a piece changed, or
 * these: believer  a read decides, and the write believes it upsert    a creator that takes a
 * conflict for its own */
struct db {
    conn (*open)(void);
    const char *believer, *upsert;
    const char *writer, *start, *late; /* pieces of ours, and what damages them */
    const char *no_writer, *one, *never_late;
    const char *above, *next; /* what a version rises above, and what damages that */
    const char *now_us;
    const char *first_byte;
};

static const struct db postgres = {
    .open = pg_open,
    .believer = "UPDATE {register} r SET value = $3, version = $4 + 1, writer = $5, updated = $6 "
                "WHERE r.ns = $1 AND r.name = $2 AND EXISTS (SELECT 1 FROM {register} x "
                "WHERE x.ns = $1 AND x.name = $2 AND x.version = $4) RETURNING 0, 1, r.version",
    .upsert = "INSERT INTO {register} AS r (ns, name, version, value, writer, updated) "
              "VALUES ($1, $2, $4 + 1, $3, $5, $6) ON CONFLICT (ns, name) DO UPDATE SET "
              "value = excluded.value, version = r.version + 1, writer = excluded.writer "
              "RETURNING 0, 1, r.version",
    .writer = "h.writer = $5",
    .no_writer = "false",
    .start = "greatest(" PG_NOW ", m.fence_floor + 1), $3",
    .one = "1, $3",
    .late = "t.now <= $6",
    .never_late = "true",
    .above = "greatest(r.version, m.fence_floor) + 1",
    .next = "r.version + 1",
    .now_us = "SELECT " PG_NOW,
    .first_byte = "SELECT get_byte(value, 0) FROM {register}",
};

static const struct db sqlite = {
    .open = lite_open,
    .believer = "UPDATE {register} SET value = ?3, version = ?4 + 1, writer = ?5, updated = ?6 "
                "WHERE ns = ?1 AND name = ?2 RETURNING 0, 1, version",
    .upsert = "INSERT INTO {register} AS r (ns, name, version, value, writer, updated) "
              "VALUES (?1, ?2, ?4 + 1, ?3, ?5, ?6) ON CONFLICT (ns, name) DO UPDATE SET "
              "value = excluded.value, version = r.version + 1, writer = excluded.writer "
              "RETURNING 0, 1, version",
    .writer = "h.writer = ?5",
    .no_writer = "0",
    .start = LITE_NOW " * 1000 + abs(random() % 1000), ?3",
    .one = "1, ?3",
    .late = "AND " LITE_NOW " * 1000 <= ?6",
    .never_late = "",
    .above = "max(r.version + 1, " LITE_NOW " * 1000)",
    .next = "r.version + 1",
    .now_us = "SELECT " LITE_NOW " * 1000",
    .first_byte = "SELECT unicode(CAST(substr(value, 1, 1) AS TEXT)) FROM {register}",
};

static const struct db mysql = {
    .open = my_open,
    .believer = "SELECT version INTO @v FROM {register} WHERE ns = $1 AND name = $2;\n"
                "UPDATE {register} SET value = $3, version = @v + 1, writer = $5, updated = $6 "
                "WHERE ns = $1 AND name = $2 AND @v = $4;\nSELECT 0, 1, @v + 1",
    .upsert = "INSERT INTO {register} (ns, name, version, value, writer, updated) "
              "VALUES ($1, $2, $4 + 1, $3, $5, $6) ON DUPLICATE KEY UPDATE "
              "value = VALUES(value), version = version + 1, writer = VALUES(writer);\n"
              "SELECT 0, 1, 1",
    .writer = "h.writer = $5",
    .no_writer = "FALSE",
    .start = "GREATEST(@sqlock_t, @sqlock_floor + 1)",
    .one = "1",
    .late = "AND " MY_NOW " <= $6",
    .never_late = "",
    .above = "GREATEST(version, @sqlock_floor) + 1",
    .next = "version + 1",
    .now_us = "SELECT " MY_NOW,
    .first_byte = "SELECT ascii(substr(value, 1, 1)) FROM {register}",
};

/* ---- small steps ------------------------------------------------------------------------------
 */

static request setter(char who, int64_t expected)
{
    return request_token(request_of(who, 0), expected);
}

static script ours_set(void)
{
    return ours(SQLOCK_STMT_REGISTER_SET);
}

static answer set(conn c, request r)
{
    script s = ours_set();
    return ask(c, &s, &r);
}

/* Made by '0'; its version. */
static int64_t make(conn c)
{
    answer a;
    run(c, "DELETE FROM {register}");
    a = set(c, setter('0', 0));
    EXPECT(a, SQLOCK_OUT_DONE);
    return a.token;
}

/* The first one's transaction is open when the second asks, beginning with a step, and ends while
 * it waits. What told nothing is asked again, as the library does. */
static answer behind(const struct db *db, const script *s, int step, request first, request second)
{
    conn a = db->open(), b = db->open();
    script from = *s;
    answer got;
    from.step[0] = s->step[step];
    run(a, a.lite ? "BEGIN IMMEDIATE" : "BEGIN");
    EXPECT(set(a, first), SQLOCK_OUT_DONE);
    if (a.lite)
        return ask_behind(b, s, second, a, 20);
    if (a.pg)
        pg_start(b, &from, 0, &second);
    else
        my_start(b, &from, &second);
    assert_int_equal(a.pg ? pg_waits(b) : my_waits(b), 1);
    run(a, "COMMIT");
    got = a.pg ? pg_finish(b) : my_finish(b);
    return got.rows == 1 && got.outcome != SQLOCK_OUT_SKIPPED ? got : ask(b, s, &second);
}

/* ---- races ------------------------------------------------------------------------------------
 */

/* A and B have read the same version. */
static void second_setter_finds_the_first(const struct db *db)
{
    conn c = db->open();
    script right = ours_set(), wrong = written(SQLOCK_STMT_REGISTER_SET, db->believer);
    int64_t version = make(c);
    answer b = behind(db, &right, 0, setter('A', version), setter('B', version));
    EXPECT(b, SQLOCK_OUT_CONFLICT);
    assert_true(b.token > version);
    assert_int_equal(number(c, db->first_byte), 'A');
    /* Wrong: both are told that they have set it, and what A wrote is lost. */
    version = make(c);
    b = behind(db, &wrong, 0, setter('A', version), setter('B', version));
    EXPECT(b, SQLOCK_OUT_DONE);
    assert_int_equal(number(c, db->first_byte), 'B');
}

/* Neither has seen a register. The step that makes it is what waits. */
static void second_creator_finds_the_first(const struct db *db)
{
    conn c = db->open();
    script right = ours_set(), wrong = written(SQLOCK_STMT_REGISTER_SET, db->upsert);
    answer b;
    b = behind(db, &right, c.lite ? 0 : 1, setter('A', 0), setter('B', 0));
    EXPECT(b, SQLOCK_OUT_CONFLICT);
    assert_int_equal(number(c, db->first_byte), 'A');
    run(c, "DELETE FROM {register}");
    b = behind(db, &wrong, 0, setter('A', 0), setter('B', 0));
    EXPECT(b, SQLOCK_OUT_DONE);
    assert_int_equal(number(c, db->first_byte), 'B');
}

/* Its reply was lost. */
static void set_that_is_asked_again_is_known(const struct db *db)
{
    conn c = db->open();
    script wrong = changed(ours_set(), db->writer, db->no_writer);
    request r = setter('A', 0), next;
    answer first = set(c, r), again = set(c, r);
    EXPECT(first, SQLOCK_OUT_DONE);
    EXPECT(again, SQLOCK_OUT_DONE);
    assert_int_equal(again.token, first.token);
    next = setter('B', first.token);
    first = set(c, next);
    EXPECT(first, SQLOCK_OUT_DONE);
    assert_true(first.token > again.token);
    again = set(c, next);
    EXPECT(again, SQLOCK_OUT_DONE);
    assert_int_equal(again.token, first.token);
    EXPECT(set(c, r), SQLOCK_OUT_CONFLICT); /* A's, after B */
    /* Wrong: it was done, and a conflict is told. */
    EXPECT(ask(c, &wrong, &next), SQLOCK_OUT_CONFLICT);
}

/* B waits behind somebody who keeps the row and changes nothing, until it is too late. */
static answer held_up(const struct db *db, const script *s, int64_t version)
{
    conn a = db->open(), b = db->open();
    request r = setter('B', version);
    r.not_after = number(b, db->now_us) + 100 * MS;
    run(a, a.lite ? "BEGIN IMMEDIATE" : "BEGIN");
    if (a.lite)
        return ask_behind(b, s, r, a, 200);
    run(a, "SELECT 1 FROM {register} FOR UPDATE");
    if (a.pg)
        pg_start(b, s, 0, &r);
    else
        my_start(b, s, &r);
    assert_int_equal(a.pg ? pg_waits(b) : my_waits(b), 1);
    pause_ms(200);
    run(a, "COMMIT");
    return a.pg ? pg_finish(b) : my_finish(b);
}

static void set_that_is_held_up_past_not_after_does_nothing(const struct db *db)
{
    conn c = db->open();
    script right = ours_set(), wrong = changed(right, db->late, db->never_late);
    int64_t version = make(c);
    EXPECT(held_up(db, &right, version), SQLOCK_OUT_LATE);
    assert_int_equal(number(c, db->first_byte), '0');
    assert_int_equal(number(c, "SELECT version FROM {register}"), version);
    EXPECT(held_up(db, &wrong, version), SQLOCK_OUT_DONE);
    assert_int_equal(number(c, db->first_byte), 'B');
}

/* B waits behind a creator who is undone when it is too late for B. How many registers there are.
 */
static int64_t created_behind(const struct db *db, const script *s)
{
    conn a = db->open(), b = db->open();
    request r = setter('B', 0);
    r.not_after = number(b, "SELECT " PG_NOW) + 100 * MS;
    run(a, "BEGIN");
    EXPECT(set(a, setter('A', 0)), SQLOCK_OUT_DONE);
    pg_start(b, s, 1, &r);
    assert_int_equal(pg_waits(b), 1);
    pause_ms(200);
    run(a, "ROLLBACK");
    pg_finish(b);
    return number(a, "SELECT count(*) FROM {register}");
}

static void creator_that_is_held_up_past_not_after_makes_nothing(const struct db *db)
{
    script right = ours_set(),
           wrong = changed(right, "OR 1 / (g.version - g.version) = 0", "OR true");
    assert_int_equal(created_behind(db, &right), 0);
    assert_int_equal(created_behind(db, &wrong), 1);
}

/* An operator deletes the row; somebody makes it again; a client comes with what it read before. */
static answer set_with_a_version_of_a_row_that_was_deleted(const struct db *db, const script *s)
{
    conn c = db->open();
    request r = setter('A', 0);
    answer a;
    int64_t read;
    run(c, "DELETE FROM {register}");
    read = ask(c, s, &r).token;
    r = setter('B', read);
    a = ask(c, s, &r);
    EXPECT(a, SQLOCK_OUT_DONE);
    read = a.token; /* B's value */
    run(c, "DELETE FROM {register}");
    r = setter('C', 0);
    a = ask(c, s, &r);
    EXPECT(a, SQLOCK_OUT_DONE);
    r = setter('D', a.token);
    EXPECT(ask(c, s, &r), SQLOCK_OUT_DONE);
    return set(c, setter('E', read));
}

static void version_of_a_deleted_row_never_comes_again(const struct db *db)
{
    script right = ours_set();
    script wrong = changed(changed(right, db->start, db->one), db->above, db->next);
    EXPECT(set_with_a_version_of_a_row_that_was_deleted(db, &right), SQLOCK_OUT_CONFLICT);
    /* Wrong: D's value is overwritten by who had read B's. */
    EXPECT(set_with_a_version_of_a_row_that_was_deleted(db, &wrong), SQLOCK_OUT_DONE);
}

/* A set was committed, and forgotten: by a failover, or because a copy of the file was put back.
 * The row is as it was, and where servers are known the floor is the clock. */
static answer set_after_a_failover(const struct db *db, const script *s)
{
    conn c = db->open();
    int64_t version = make(c), forgotten;
    char sql[96];
    request r = setter('A', version);
    answer a = ask(c, s, &r);
    EXPECT(a, SQLOCK_OUT_DONE);
    forgotten = a.token;
    r = setter('B', version);
    snprintf(sql, sizeof sql, "UPDATE {register} SET version = %lld", (long long)version);
    run(c, sql);
    pause_ms(5);
    snprintf(sql, sizeof sql, "UPDATE {meta} SET fence_floor = %lld",
             (long long)number(c, db->now_us));
    if (!c.lite)
        run(c, sql);
    EXPECT(ask(c, s, &r), SQLOCK_OUT_DONE);
    return set(c, setter('C', forgotten));
}

static void version_that_a_failover_forgot_never_comes_again(const struct db *db)
{
    script right = ours_set(), wrong = changed(right, db->above, db->next);
    EXPECT(set_after_a_failover(db, &right), SQLOCK_OUT_CONFLICT);
    EXPECT(set_after_a_failover(db, &wrong), SQLOCK_OUT_DONE); /* B's is overwritten */
}

static void set_on_a_server_that_meta_does_not_know_does_nothing(const struct db *db)
{
    conn c = db->open();
    int64_t version = make(c);
    run(c, "UPDATE {meta} SET server = 'another'");
    EXPECT(set(c, setter('A', version)), SQLOCK_OUT_STRANGER);
    EXPECT(set(c, setter('A', version - 1)), SQLOCK_OUT_CONFLICT);
    assert_int_equal(number(c, "SELECT version FROM {register}"), version);
    run(c, "DELETE FROM {register}");
    EXPECT(set(c, setter('A', 0)), SQLOCK_OUT_STRANGER);
    assert_int_equal(number(c, "SELECT count(*) FROM {register}"), 0);
}

/* ---- named rows -------------------------------------------------------------------------------
 */

/* B comes while A's row is not committed, or undone. */
static void row_is_made_once_whoever_comes(const struct db *db)
{
    conn a = db->open(), b = db->open();
    script s = ours(SQLOCK_STMT_ENSURE);
    request r = request_of('A', 0);
    for (int undone = 0; undone < 2; undone++) {
        run(a, "DELETE FROM {row}");
        run(a, "BEGIN");
        EXPECT(ask(a, &s, &r), SQLOCK_OUT_DONE);
        pg_start(b, &s, 1, &r);
        assert_int_equal(pg_waits(b), 1);
        run(a, undone ? "ROLLBACK" : "COMMIT");
        assert_int_equal(pg_finish(b).rows, undone);
        EXPECT(ask(b, &s, &r), SQLOCK_OUT_DONE);
        assert_int_equal(number(a, "SELECT count(*) FROM {row}"), 1);
    }
}

static void row_that_a_transaction_keeps_locked_is_found_at_once(const struct db *db)
{
    conn a = db->open(), b = db->open();
    script s = ours(SQLOCK_STMT_ENSURE);
    request r = request_of('A', 0);
    EXPECT(ask(a, &s, &r), SQLOCK_OUT_DONE);
    run(a, a.lite ? "BEGIN IMMEDIATE" : "BEGIN");
    if (!a.lite)
        run(a, "SELECT 1 FROM {row} FOR UPDATE");
    EXPECT(ask(b, &s, &r), SQLOCK_OUT_DONE);
    run(a, "COMMIT");
}

/* ---- running ----------------------------------------------------------------------------------
 */

#define TEST_ON(db, race)                                                                          \
    static void test_##race##_##db(void **state)                                                   \
    {                                                                                              \
        (void)state;                                                                               \
        race(&db);                                                                                 \
    }
#define TEST_ON_ALL(race) TEST_ON(postgres, race) TEST_ON(sqlite, race) TEST_ON(mysql, race)

TEST_ON_ALL(second_setter_finds_the_first)
TEST_ON_ALL(second_creator_finds_the_first)
TEST_ON_ALL(set_that_is_asked_again_is_known)
TEST_ON_ALL(set_that_is_held_up_past_not_after_does_nothing)
TEST_ON_ALL(version_of_a_deleted_row_never_comes_again)
TEST_ON_ALL(version_that_a_failover_forgot_never_comes_again)
TEST_ON_ALL(row_that_a_transaction_keeps_locked_is_found_at_once)
TEST_ON(postgres, set_on_a_server_that_meta_does_not_know_does_nothing)
TEST_ON(mysql, set_on_a_server_that_meta_does_not_know_does_nothing)
TEST_ON(postgres, creator_that_is_held_up_past_not_after_makes_nothing)
TEST_ON(postgres, row_is_made_once_whoever_comes)

#define RACES(ON, db)                                                                              \
    ON(test_second_setter_finds_the_first_##db), ON(test_second_creator_finds_the_first_##db),     \
        ON(test_set_that_is_asked_again_is_known_##db),                                            \
        ON(test_set_that_is_held_up_past_not_after_does_nothing_##db),                             \
        ON(test_version_of_a_deleted_row_never_comes_again_##db),                                  \
        ON(test_version_that_a_failover_forgot_never_comes_again_##db),                            \
        ON(test_row_that_a_transaction_keeps_locked_is_found_at_once_##db)

int main(void)
{
    const struct CMUnitTest on_sqlite[] = {RACES(ON_WAL, sqlite), RACES(ON_ROLLBACK, sqlite)};
    const struct CMUnitTest on_postgres[] = {
        RACES(ON_POSTGRES, postgres),
        ON_POSTGRES(test_set_on_a_server_that_meta_does_not_know_does_nothing_postgres),
        ON_POSTGRES(test_creator_that_is_held_up_past_not_after_makes_nothing_postgres),
        ON_POSTGRES(test_row_is_made_once_whoever_comes_postgres),
    };
    const struct CMUnitTest on_mysql[] = {
        RACES(ON_MYSQL, mysql),
        ON_MYSQL(test_set_on_a_server_that_meta_does_not_know_does_nothing_mysql),
    };
    int no_postgres = pg_missing(), no_mysql = my_missing();
    int failed = cmocka_run_group_tests_name("registers on SQLite", on_sqlite, NULL, NULL);
    failed += no_postgres
                  ? no_postgres - 1
                  : cmocka_run_group_tests_name("registers on PostgreSQL", on_postgres, NULL, NULL);
    failed += no_mysql ? no_mysql - 1
                       : cmocka_run_group_tests_name("registers on MariaDB", on_mysql, NULL, NULL);
    return failed;
}
