/* The guard on MariaDB and MySQL: a covering read share-locks the entry of the unique key nt, which
 * a grant must replace, and which no renewal and no release touches. */
#include <sqlock/mysql.h>

#include "races.h"
#include "tests/lib/my.h"

/* Wrong: proves, and locks nothing. */
#define GUARD_THAT_READS                                                                           \
    "SELECT 0 AS i, 1 AS ok, token FROM {lock} FORCE INDEX (nt)"                                   \
    " WHERE ns = $1 AND name = $2 AND token = $4"

/* Wrong: not covered by the key, so the row is locked as well, and with it renewals. */
#define GUARD_OF_THE_ROW                                                                           \
    "SELECT 0 AS i, 1 AS ok, token FROM {lock} FORCE INDEX (nt)"                                   \
    " WHERE ns = $1 AND name = $2 AND token = $4 AND owner = $3 LOCK IN SHARE MODE"

#define LOOK_WITHOUT_LOCK                                                                          \
    "SELECT 0 AS i, 12 AS guarded FROM {lock} WHERE ns = $1 AND name = $2 AND $3 <> ''"

/* Wrong: it was locked a moment ago, so what lets a guard pass must be one. */
#define LOOK_AT_LAST                                                                               \
    "SELECT 0 AS i, 12 AS guarded, token FROM {lock} FORCE INDEX (PRIMARY)"                        \
    " WHERE ns = $1 AND name = $2 AND $3 <> '' LIMIT 1"                                            \
    " FOR UPDATE /*!80001 SKIP LOCKED */ /*M!100600 SKIP LOCKED */"

/* Wrong: looks at the key's entry alone, where two who look are in each other's way. */
#define SHARE "/*!80001 FOR SHARE SKIP LOCKED */ /*M!100600 LOCK IN SHARE MODE SKIP LOCKED */"
#define SKIP  "FOR UPDATE /*!80001 SKIP LOCKED */ /*M!100600 SKIP LOCKED */"
#define LOOK_AT_THE_KEY                                                                            \
    "SELECT 0 AS i, IF(s.n > 0 AND x.n = 0, 12, 1) AS guarded"                                     \
    " FROM (SELECT COUNT(*) AS n FROM (SELECT c.token FROM {lock} c FORCE INDEX (nt)"              \
    "   WHERE c.ns = $1 AND c.name = $2 AND $3 IS NOT NULL LIMIT 1 " SHARE ") a) s"                \
    " STRAIGHT_JOIN (SELECT COUNT(*) AS n FROM (SELECT c.token FROM {lock} c FORCE INDEX (nt)"     \
    "   WHERE c.ns = $1 AND c.name = $2 LIMIT 1 " SKIP ") b) x"
#define LOOKING                                                                                    \
    "BEGIN; SELECT 1 FROM {lock} FORCE INDEX (PRIMARY) WHERE ns = 'app' AND name = 'job' FOR "     \
    "UPDATE; SELECT token FROM {lock} FORCE INDEX (nt) WHERE ns = 'app' AND name = 'job' LOCK IN " \
    "SHARE MODE"

/* Servers that cannot step over locked rows refuse it; what it locks is tried there all the same.
 */
static script our_guard(void)
{
    return changed(ours(SQLOCK_STMT_GUARD), "22 /*!80001 - 21 */ /*M!100600 - 21 */", "1");
}

#define LEVEL "SET SESSION TRANSACTION ISOLATION LEVEL "

static guarding guarding_with(script guard)
{
    return (guarding){.open = my_open,
                      .begins = {LEVEL "READ COMMITTED; BEGIN", LEVEL "REPEATABLE READ; BEGIN",
                                 LEVEL "SERIALIZABLE; BEGIN"},
                      .acquire = ours(SQLOCK_STMT_ACQUIRE),
                      .guard = guard,
                      .told = my_skips_locked()};
}

static guarding right_guarding(void)
{
    return guarding_with(our_guard());
}

static guarding wrong_guarding(void)
{
    return guarding_with(written(SQLOCK_STMT_RELEASE, GUARD_THAT_READS));
}

static void test_guard_lets_renewals_pass_and_keeps_the_thief_out(void **state)
{
    guarding right = right_guarding(), wrong = wrong_guarding();
    (void)state;
    guard_keeps_the_thief_out(&right, &wrong);
}

static void test_guard_outlives_an_early_release_and_a_break(void **state)
{
    guarding right = right_guarding(), wrong = wrong_guarding();
    (void)state;
    guard_outlives_an_early_end(&right, &wrong);
}

static void test_probe_tells_a_guard_from_a_writer_and_from_nobody(void **state)
{
    guarding g = right_guarding();
    (void)state;
    probe_tells_a_guard(&g);
}

static void test_guard_of_the_next_grant_is_not_taken_for_the_last_ones(void **state)
{
    guarding g = right_guarding();
    script wrong = changed(ours(SQLOCK_STMT_PROBE), "l.token = $3", "l.token >= $3");
    (void)state;
    probe_is_for_the_exact_grant(&g, &wrong);
}

static void test_row_being_written_is_not_taken_for_a_guard(void **state)
{
    guarding g = right_guarding();
    script wrong = written(SQLOCK_STMT_GUARDED, LOOK_WITHOUT_LOCK);
    (void)state;
    writer_is_not_taken_for_a_guard(&g, &wrong);
}

static void test_writer_that_has_ended_is_not_taken_for_a_guard(void **state)
{
    guarding g = right_guarding();
    script wrong = written(SQLOCK_STMT_GUARDED, LOOK_AT_LAST);
    (void)state;
    writer_that_has_ended_is_not_taken_for_a_guard(&g, &wrong);
}

static void test_two_who_look_are_not_taken_for_a_guard(void **state)
{
    guarding g = right_guarding();
    script look = written(SQLOCK_STMT_GUARDED, LOOK_AT_THE_KEY);
    script probe = written(SQLOCK_STMT_PROBE, LOOK_AT_THE_KEY);
    (void)state;
    if (!g.told)
        skip(); /* nobody looks there */
    looker_is_not_taken_for_a_guard(&g, LOOKING, &look, &probe);
}

/* Wrong: a guard that is not covered by the key keeps the holder's own renewals out as well. */
static void test_guard_of_the_row_would_block_renewals(void **state)
{
    guarding g = right_guarding();
    script strong = written(SQLOCK_STMT_RELEASE, GUARD_OF_THE_ROW);
    (void)state;
    strong_guard_blocks_renewals(&g, &strong);
}

/* The application's snapshot shows A's lease; since then it was granted to somebody else. */
static void test_guard_with_an_old_snapshot_finds_no_row(void **state)
{
    guarding right = right_guarding(), wrong = wrong_guarding();
    conn a = my_open(), app = my_open(), t = my_open();
    request r = request_of('A', 5000 * MS), rt = request_of('T', 5000 * MS);
    answer got;
    (void)state;
    r.token = acquire(a, r).token;
    run(app, right.begins[1]);
    assert_int_equal(number(app, "SELECT count(*) FROM {lock}"), 1);
    EXPECT(release(a, r), SQLOCK_OUT_DONE);
    EXPECT(acquire(t, rt), SQLOCK_OUT_DONE);
    EXPECT(ask(app, &wrong.guard, &r), SQLOCK_OUT_DONE); /* wrong: the snapshot's word */
    got = ask(app, &right.guard, &r);
    if (got.error[0])
        assert_string_equal(got.error,
                            "1020"); /* MariaDB with innodb_snapshot_isolation: restart */
    else
        EXPECT(got, SQLOCK_OUT_TAKEN);
    run(app, "ROLLBACK");
}

static void test_guarded_transactions_never_overlap(void **state)
{
    guarding right = right_guarding(), wrong = wrong_guarding();
    (void)state;
    if (!right.told)
        skip(); /* it is refused there; on MySQL 5.6 an overlap was seen */
    guarded_transactions_are_alone(&right);
    guarded_transactions_overlap(&wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_MYSQL(test_guard_lets_renewals_pass_and_keeps_the_thief_out),
        ON_MYSQL(test_guard_outlives_an_early_release_and_a_break),
        ON_MYSQL(test_probe_tells_a_guard_from_a_writer_and_from_nobody),
        ON_MYSQL(test_guard_of_the_next_grant_is_not_taken_for_the_last_ones),
        ON_MYSQL(test_row_being_written_is_not_taken_for_a_guard),
        ON_MYSQL(test_writer_that_has_ended_is_not_taken_for_a_guard),
        ON_MYSQL(test_two_who_look_are_not_taken_for_a_guard),
        ON_MYSQL(test_guard_of_the_row_would_block_renewals),
        ON_MYSQL(test_guard_with_an_old_snapshot_finds_no_row),
        ON_MYSQL(test_guarded_transactions_never_overlap),
    };
    int missing = my_missing();
    if (missing)
        return missing - 1;
    return cmocka_run_group_tests_name("the guard on MariaDB", tests, NULL, NULL);
}
