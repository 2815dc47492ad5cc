/* Notes of breaks (P5, P6): the row forgets a break when two others have come and gone, the note
 * does not; and there is none of a break that was not. On every database. */
#include "races.h"

static answer was_broken(conn c, request r)
{
    script s = ours(SQLOCK_STMT_WAS_BROKEN);
    return ask(c, &s, &r);
}

static request granted(conn c, char owner)
{
    request r = request_of(owner, 60000 * MS);
    r.token = acquire(c, r).token;
    return r;
}

static request given_back(conn c, char owner)
{
    request r = granted(c, owner);
    EXPECT(release(c, r), SQLOCK_OUT_DONE);
    return r;
}

/* A's grant is broken, B's is released, and C's. Who asks for A's then. */
static answer forgotten(conn c, const script *how, request *out_b)
{
    request a = granted(c, 'A');
    EXPECT(ask(c, how, &a), SQLOCK_OUT_DONE);
    *out_b = given_back(c, 'B');
    given_back(c, 'C');
    return was_broken(c, a);
}

static void note_outlives_others(conn c)
{
    script right = ours(SQLOCK_STMT_BREAK_NOTED), wrong = ours(SQLOCK_STMT_BREAK);
    request b;
    EXPECT(forgotten(c, &right, &b), SQLOCK_OUT_BROKEN);
    assert_int_equal(was_broken(c, b).rows, 0);
    assert_int_equal(forgotten(c, &wrong, &b).rows, 0); /* wrong: nobody knows */
}

/* Old ones go with the next break, whatever its name; of one that was made and never came true too.
 */
static void old_notes_go(conn c)
{
    script s = ours(SQLOCK_STMT_BREAK_NOTED);
    const char *ages[] = {"UPDATE {broken} SET noted = noted / 2",
                          "UPDATE {broken} SET noted = -noted / 2"};
    request r;
    for (size_t i = 0; i < COUNT(ages); i++) {
        r = granted(c, 'A');
        EXPECT(ask(c, &s, &r), SQLOCK_OUT_DONE);
        run(c, ages[i]);
        r = request_name(request_of('B', 60000 * MS), "other", 5);
        for (int n = 1; n <= 2; n++) {
            r.token = acquire(c, r).token;
            EXPECT(ask(c, &s, &r), SQLOCK_OUT_DONE);
            assert_int_equal(number(c, "SELECT count(*) FROM {broken}"), n);
        }
        run(c, "DELETE FROM {broken}");
    }
}

#define LET_GO                                                                                     \
    "UPDATE {lock} SET owner = NULL, exp = NULL, since = NULL, ended_owner = owner,"               \
    " ended_token = token, ended_why = 1"
#define LET_GO_BY_MY                                                                               \
    "UPDATE {lock} SET ended_owner = owner, owner = NULL, exp = NULL, since = NULL,"               \
    " ended_token = token, ended_why = 1"

static void my_start_last(conn c, script s, request r)
{
    script first = s;
    first.n = s.n - 1;
    s.step[0] = s.step[s.n - 1];
    s.n = 1;
    assert_int_equal(ask(c, &first, &r).rows, 0);
    my_start(c, &s, &r);
}

/* The holder's release has the row when the break comes, and commits then. */
static answer break_behind_a_release(conn holder, conn breaker, const script *s, request r)
{
    if (holder.lite != NULL) {
        run(holder, "BEGIN IMMEDIATE");
        run(holder, LET_GO);
        return ask_behind(breaker, s, r, holder, 200);
    }
    run(holder, "BEGIN");
    run(holder, holder.pg != NULL ? LET_GO : LET_GO_BY_MY);
    if (holder.pg != NULL)
        pg_start(breaker, s, 0, &r);
    else
        my_start_last(breaker, *s, r);
    assert_int_equal(holder.pg != NULL ? pg_waits(breaker) : my_waits(breaker), 1);
    run(holder, "COMMIT");
    return holder.pg != NULL ? pg_finish(breaker) : my_finish(breaker);
}

/* from, which becomes to, makes it note what it is about to do. Another breaker each time: what
 * MariaDB says of who waits may be 0.1 s old. */
static void late_break_leaves_no_note(conn (*open)(void), const char *from, const char *to)
{
    script right = ours(SQLOCK_STMT_BREAK_NOTED), wrong;
    conn a = open(), b = open();
    request r = granted(a, 'A');
    answer got = break_behind_a_release(a, b, &right, r);
    if (got.outcome == SQLOCK_OUT_SKIPPED)
        got = ask(b, &right, &r);
    EXPECT(got, SQLOCK_OUT_RELEASED);
    assert_int_equal(was_broken(b, r).rows, 0);
    wrong = changed(right, from, to);
    r = granted(a, 'B');
    break_behind_a_release(a, open(), &wrong, r);
    EXPECT(was_broken(b, r), SQLOCK_OUT_BROKEN); /* wrong: it was released */
}

/* By two operators; the first one's reply may have been lost. */
static void second_break_finds_the_first(conn a, conn b)
{
    script s = ours(SQLOCK_STMT_BREAK_NOTED);
    request r = granted(a, 'A');
    int64_t first = r.token;
    char again[64];
    EXPECT(ask(a, &s, &r), SQLOCK_OUT_DONE);
    EXPECT(ask(b, &s, &r), SQLOCK_OUT_BROKEN);
    given_back(a, 'B');
    given_back(a, 'C');
    EXPECT(ask(b, &s, &r), SQLOCK_OUT_BROKEN);
    assert_int_equal(number(a, "SELECT count(*) FROM {broken}"), 1);
    /* Tokens may come again where somebody deleted rows by hand: that must not keep anybody from
     * it. */
    run(a, "DELETE FROM {lock}");
    r = request_token(granted(a, 'D'), first);
    snprintf(again, sizeof again, "UPDATE {lock} SET token = %lld", (long long)first);
    run(a, again);
    EXPECT(ask(b, &s, &r), SQLOCK_OUT_DONE);
}

/* ---- running ----------------------------------------------------------------------------------
 */

#define TESTS_ON(db, open, from, to)                                                               \
    static void test_note_outlives_others_##db(void **state)                                       \
    {                                                                                              \
        (void)state;                                                                               \
        note_outlives_others(open());                                                              \
    }                                                                                              \
    static void test_old_notes_go_##db(void **state)                                               \
    {                                                                                              \
        (void)state;                                                                               \
        old_notes_go(open());                                                                      \
    }                                                                                              \
    static void test_late_break_leaves_no_note_##db(void **state)                                  \
    {                                                                                              \
        (void)state;                                                                               \
        late_break_leaves_no_note(open, from, to);                                                 \
    }                                                                                              \
    static void test_second_break_finds_the_first_##db(void **state)                               \
    {                                                                                              \
        (void)state;                                                                               \
        second_break_finds_the_first(open(), open());                                              \
    }

TESTS_ON(sqlite, lite_open, "h.owner IS NOT NULL AND ", "")
TESTS_ON(postgres, pg_open, " FROM g\n", " FROM (SELECT $1 AS ns, $2 AS name, $3 AS token) g\n")
TESTS_ON(mysql, my_open, "h.token, -", "h.token, ")

#define RACES(ON, db)                                                                              \
    ON(test_note_outlives_others_##db), ON(test_old_notes_go_##db),                                \
        ON(test_late_break_leaves_no_note_##db), ON(test_second_break_finds_the_first_##db)

int main(void)
{
    const struct CMUnitTest on_sqlite[] = {RACES(ON_WAL, sqlite), RACES(ON_ROLLBACK, sqlite)};
    const struct CMUnitTest on_postgres[] = {RACES(ON_POSTGRES, postgres)};
    const struct CMUnitTest on_mysql[] = {RACES(ON_MYSQL, mysql)};
    int no_postgres = pg_missing(), no_mysql = my_missing();
    int failed = cmocka_run_group_tests_name("breaks on SQLite", on_sqlite, NULL, NULL);
    failed += no_postgres
                  ? no_postgres - 1
                  : cmocka_run_group_tests_name("breaks on PostgreSQL", on_postgres, NULL, NULL);
    failed += no_mysql ? no_mysql - 1
                       : cmocka_run_group_tests_name("breaks on MariaDB", on_mysql, NULL, NULL);
    return failed;
}
