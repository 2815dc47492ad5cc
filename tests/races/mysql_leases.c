/* Leases on MariaDB and MySQL: tokens, time, renewals, owners, names. Each against a statement that
 * looks as good and is wrong. */
#include <sqlock/mysql.h>

#include "races.h"
#include "tests/lib/my.h"

/* Where a packet is stopped after it has read the clock, before it looks at the row. */
#define HELD_BEFORE_ROW "DO {hold};\nUPDATE ("

/* Wrong: what a read said is believed by the write. */
#define READ_THEN_WRITE                                                                            \
    "SELECT token, owner IS NULL OR exp <= " MY_NOW " INTO @t, @free FROM {lock}"                  \
    " WHERE ns = $1 AND name = $2;\nDO {hold};\n"                                                  \
    "UPDATE {lock} SET token = @t + 1, owner = $3, exp = " MY_NOW " + $4, since = " MY_NOW         \
    " WHERE ns = $1 AND name = $2 AND @free;\n"                                                    \
    "SELECT 0, IF(@free, 1, 2), @t + 1 FROM DUAL"

static script my_held(void)
{
    return changed(ours(SQLOCK_STMT_ACQUIRE), "UPDATE (", HELD_BEFORE_ROW);
}

static void make_row(conn c)
{
    request r = request_of('0', 5000 * MS);
    run(c, "DELETE FROM {lock}");
    r.token = acquire(c, r).token;
    EXPECT(release(c, r), SQLOCK_OUT_DONE);
}

/* ---- tokens (P1, P2) --------------------------------------------------------------------------
 */

/* A is stopped in the middle; B is granted the lock and gives it back; A goes on. */
static int64_t tokens_apart(const script *delayed)
{
    conn a = my_open(), b = my_open(), gate = my_open();
    request ra = request_of('A', 5000 * MS), rb = request_of('B', 5000 * MS);
    answer got;
    make_row(b);
    my_hold(gate);
    my_start(a, delayed, &ra);
    assert_int_equal(my_waits(a), 1);
    rb.token = acquire(b, rb).token;
    EXPECT(release(b, rb), SQLOCK_OUT_DONE);
    my_unhold(gate);
    got = my_finish(a);
    EXPECT(got, SQLOCK_OUT_DONE);
    return got.token - rb.token;
}

static void test_delayed_client_draws_the_later_token(void **state)
{
    script right = my_held(), wrong = written(SQLOCK_STMT_ACQUIRE, READ_THEN_WRITE);
    (void)state;
    assert_int_equal(tokens_apart(&right), 1);
    assert_int_equal(tokens_apart(&wrong), 0); /* two grants, one token */
}

/* B holds the lock when A goes on. */
static answer thief_goes_on(const script *delayed)
{
    conn a = my_open(), b = my_open(), gate = my_open();
    request ra = request_of('A', 5000 * MS), rb = request_of('B', 5000 * MS);
    make_row(b);
    my_hold(gate);
    my_start(a, delayed, &ra);
    assert_int_equal(my_waits(a), 1);
    EXPECT(acquire(b, rb), SQLOCK_OUT_DONE);
    my_unhold(gate);
    return my_finish(a);
}

static void test_thief_that_was_delayed_gets_nothing(void **state)
{
    script right = my_held(), wrong = written(SQLOCK_STMT_ACQUIRE, READ_THEN_WRITE);
    (void)state;
    EXPECT(thief_goes_on(&right), SQLOCK_OUT_HELD);
    EXPECT(thief_goes_on(&wrong), SQLOCK_OUT_DONE); /* both have it */
}

/* Wrong: the row goes, and what it knew with it. */
static script prune_and_forget(void)
{
    script s = changed(ours(SQLOCK_STMT_PRUNE), "fence_floor < $4", "fence_floor < 0");
    return changed(s, "AND c.token <= @sqlock_floor", "");
}

static void test_tokens_rise_under_four_clients_and_a_pruner(void **state)
{
    (void)state;
    for (int many = 0; many <= my_skips_locked(); many++) {
        run(my_open(), "UPDATE {meta} SET fence_floor = 0");
        tokens_rise(my_open, 4 * MS, 20,
                    many ? ours_array(SQLOCK_STMT_PRUNE) : ours(SQLOCK_STMT_PRUNE));
        run(my_open(), "DELETE FROM {lock}");
    }
    tokens_fall(my_open, 4 * MS, prune_and_forget());
}

/* G has read the floor, and a creator is stopped in its INSERT, before or after it has read it too;
 * meanwhile the row is made, granted, given back, and a pruner comes. Then the creator goes on, and
 * then G. What G is granted. */
static int64_t token_beside_a_pruner(const script *creator)
{
    conn a = my_open(), b = my_open(), g = my_open(), gate = my_open();
    request ra = request_of('A', 5000 * MS), rb = request_of('B', 5000 * MS);
    request rg = request_of('G', 5000 * MS);
    script prune = ours(SQLOCK_STMT_PRUNE);
    script slow = changed(my_held(), "DO {hold}", "DO {hold} + SLEEP(0.3)");
    run(b, "DELETE FROM {lock}");
    run(b, "UPDATE {meta} SET fence_floor = 0");
    my_hold(gate);
    my_start(g, &slow, &rg);
    assert_int_equal(my_waits(g), 1);
    my_start(a, creator, &ra);
    assert_int_equal(my_waits(a), 1);
    rb.token = acquire(b, rb).token;
    assert_int_equal(rb.token, 1);
    EXPECT(release(b, rb), SQLOCK_OUT_DONE);
    pause_ms(2);
    rb.cut = number(b, "SELECT " MY_NOW);
    rb.floor = rb.token;
    ask(b, &prune, &rb);
    my_unhold(gate);
    my_finish(a);
    return my_finish(g).token;
}

static void test_stalled_creator_keeps_the_pruner_out(void **state)
{
    script creator = ours(SQLOCK_STMT_ACQUIRE);
    (void)state;
    creator.step[0] = creator.step[1];
    creator.n = 1;
    creator = changed(creator, "WHERE m.id = 1", "WHERE m.id = 1 AND {hold}");
    assert_int_equal(token_beside_a_pruner(&creator), 2);
    /* Wrong: without the share lock the floor is the one before the prune: token 1 comes again.
     * MySQL, and MariaDB from 11 on, stop at the {hold} before they read anything. */
    creator = changed(creator, "LOCK IN SHARE MODE", "");
    if (number(my_open(), "SELECT version() LIKE '10.%MariaDB%'"))
        assert_int_equal(token_beside_a_pruner(&creator), 1);
}

/* ---- time (P4, P5) ----------------------------------------------------------------------------
 */

/* A lease of 400 ms whose grant waited 250 ms for a locked table, from when it no longer had to. */
static int64_t lease_after_a_wait(const script *s)
{
    conn a = my_open(), gate = my_open();
    request r = request_of('A', 400 * MS);
    int64_t let_go = 0;
    make_row(a);
    run(gate, "LOCK TABLES {lock} WRITE");
    my_start(a, s, &r);
    assert_int_equal(my_waits(a), 1);
    pause_ms(250);
    let_go = server_us(gate);
    run(gate, "UNLOCK TABLES");
    assert_int_equal(my_finish(a).error[0], 0);
    return row_end(gate) - let_go;
}

static void test_waiter_gets_a_full_lease(void **state)
{
    script right = ours(SQLOCK_STMT_ACQUIRE);
    script wrong = changed(right, "SYSDATE(6)", "NOW(6)");
    (void)state;
    assert_true(lease_after_a_wait(&right) >= 400 * MS);
    assert_true(lease_after_a_wait(&wrong) < 200 * MS); /* NOW() is when the statement began */
}

static answer comes_too_late(const script *s)
{
    conn a = my_open(), gate = my_open();
    request r = request_of('A', 5000 * MS);
    answer got;
    make_row(a);
    r.not_after = number(a, "SELECT " MY_NOW) + 100 * MS;
    my_hold(gate);
    my_start(a, s, &r);
    assert_int_equal(my_waits(a), 1);
    pause_ms(150);
    my_unhold(gate);
    got = my_finish(a);
    return got;
}

static void test_statement_held_up_past_not_after_does_nothing(void **state)
{
    script right = my_held(), wrong;
    request t = request_of('B', 5000 * MS);
    (void)state;
    EXPECT(comes_too_late(&right), SQLOCK_OUT_LATE);
    wrong = changed(right, "AND " MY_NOW " <= $5 AND @sqlock_floor", "AND @sqlock_floor");
    EXPECT(comes_too_late(&wrong), SQLOCK_OUT_DONE);
    t.not_after = 1;
    EXPECT(acquire(my_open(), t),
           SQLOCK_OUT_HELD); /* who waits is told of the holder all the same */
}

/* ---- renewals (P3, P7) ------------------------------------------------------------------------
 */

static void test_renewal_is_for_the_exact_grant_and_not_after_the_end(void **state)
{
    conn a = my_open(), b = my_open();
    request r = request_of('A', 5000 * MS), t = request_of('B', 5000 * MS);
    script wrong = ours(SQLOCK_STMT_RENEW);
    (void)state;
    r.token = acquire(a, r).token;
    EXPECT(renew(a, r), SQLOCK_OUT_DONE);
    EXPECT(renew(a, request_token(r, r.token + 1)), SQLOCK_OUT_TAKEN);
    let_it_run_out(b);
    EXPECT(renew(a, r), SQLOCK_OUT_EXPIRED);
    wrong = changed(wrong, "AND c.exp > " MY_NOW, "");
    wrong = changed(wrong, "AND l.exp > " MY_NOW, "");
    EXPECT(ask(a, &wrong, &r), SQLOCK_OUT_DONE); /* a lease that was told as lost lives again */
    let_it_run_out(b);
    EXPECT(acquire(b, t), SQLOCK_OUT_DONE);
    EXPECT(renew(a, r), SQLOCK_OUT_TAKEN);
}

enum { MANY = 5 };

static void hold_many(conn c, request *r)
{
    static char names[MANY][8];
    run(c, "DELETE FROM {lock}");
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        r[i] = request_name(request_of((char)('a' + i), 5000 * MS), names[i], strlen(names[i]));
        r[i].token = acquire(c, r[i]).token;
    }
}

/* One statement for a batch is sent only to servers that can step over locked rows. */
static void skip_without_batches(void)
{
    if (my_skips_locked())
        return;
    printf("SKIP: the server cannot step over locked rows: no batches are sent to it\n");
    skip();
}

static void test_batch_renews_the_others_at_once(void **state)
{
    conn c = my_open(), other = my_open();
    script right = ours_array(SQLOCK_STMT_RENEW), wrong;
    request r[MANY];
    answer got[MANY];
    int64_t begun = 0;
    (void)state;
    skip_without_batches();
    hold_many(c, r);
    run(other, "BEGIN; SELECT 1 FROM {lock} WHERE ns = 'app' AND name = 'n2' FOR UPDATE");
    begun = clock_us();
    assert_int_equal(my_ask_array(c, &right, r, MANY, got), MANY);
    assert_true(clock_us() - begun < 900 * MS);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(got[i].outcome, got[i].index == 2 ? SQLOCK_OUT_SKIPPED : SQLOCK_OUT_DONE);
    /* Wrong: waits for the locked row, and none is renewed. */
    wrong = changed(right, "FOR UPDATE /*!80001 SKIP LOCKED */ /*M!100600 SKIP LOCKED */", "");
    my_ask_array(c, &wrong, r, MANY, got);
    assert_string_equal(got[0].error, "1205");
    run(other, "ROLLBACK");
}

static void test_batch_does_not_renew_what_was_taken_meanwhile(void **state)
{
    conn c = my_open(), thief = my_open();
    request r[MANY], t = request_of('T', 5000 * MS);
    answer got[MANY];
    script right = ours_array(SQLOCK_STMT_RENEW);
    (void)state;
    skip_without_batches();
    hold_many(c, r);
    let_it_run_out(c);
    t = request_name(t, "n1", 2);
    EXPECT(acquire(thief, t), SQLOCK_OUT_DONE);
    assert_int_equal(my_ask_array(c, &right, r, MANY, got), MANY);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(got[i].outcome, got[i].index == 1 ? SQLOCK_OUT_TAKEN : SQLOCK_OUT_EXPIRED);
    EXPECT(renew(thief, request_token(t, r[1].token + 1)), SQLOCK_OUT_DONE);
}

/* One comes too late, another asks for less than is left: it is set, not raised. */
static void test_batch_judges_each_lease_by_its_own_times(void **state)
{
    conn c = my_open();
    request r[MANY];
    answer got[MANY];
    script right = ours_array(SQLOCK_STMT_RENEW);
    (void)state;
    skip_without_batches();
    hold_many(c, r);
    r[0].not_after = number(c, "SELECT " MY_NOW) - 1;
    r[1].ttl = 1000 * MS;
    run(c, "UPDATE {lock} SET exp = exp - 1000000");
    assert_int_equal(my_ask_array(c, &right, r, MANY, got), MANY);
    for (int i = 0; i < MANY; i++)
        if (got[i].index != 1) /* what is left is no proof of a renewal for so short a time */
            assert_int_equal(got[i].outcome, got[i].index == 0 ? SQLOCK_OUT_LATE : SQLOCK_OUT_DONE);
    assert_true(number(c, "SELECT exp - " MY_NOW " FROM {lock} WHERE name = 'n0'") <= 4000 * MS);
    assert_true(number(c, "SELECT exp - " MY_NOW " FROM {lock} WHERE name = 'n1'") <= 1000 * MS);
    assert_true(number(c, "SELECT exp - " MY_NOW " FROM {lock} WHERE name = 'n2'") > 4000 * MS);
}

static void free_many(conn c, request *r)
{
    hold_many(c, r);
    for (int i = 0; i < MANY; i++) {
        EXPECT(release(c, r[i]), SQLOCK_OUT_DONE);
        r[i].floor = number(c, "SELECT max(token) FROM {lock}");
    }
    run(c, "UPDATE {lock} SET idle_since = 1");
}

static void test_batch_prunes_the_others_at_once_and_tokens_rise(void **state)
{
    conn c = my_open(), other = my_open();
    script right = ours_array(SQLOCK_STMT_PRUNE), wrong;
    request r[MANY];
    answer got[MANY];
    int64_t begun = 0;
    (void)state;
    skip_without_batches();
    free_many(c, r);
    run(other, "BEGIN; SELECT 1 FROM {lock} WHERE ns = 'app' AND name = 'n2' FOR UPDATE");
    begun = clock_us();
    assert_int_equal(my_ask_array(c, &right, r, MANY, got), MANY - 1);
    assert_true(clock_us() - begun < 900 * MS);
    assert_int_equal(number(c, "SELECT count(*) FROM {lock} WHERE name = 'n2'"), 1);
    assert_int_equal(number(c, "SELECT count(*) FROM {lock}"), 1);
    assert_int_equal(acquire(c, r[0]).token, r[0].floor + 1);
    run(other, "ROLLBACK");
    /* Wrong: waits for the locked row, and none is deleted. */
    free_many(c, r);
    run(other, "BEGIN; SELECT 1 FROM {lock} WHERE ns = 'app' AND name = 'n2' FOR UPDATE");
    wrong = changed(right, "FOR UPDATE /*!80001 SKIP LOCKED */ /*M!100600 SKIP LOCKED */", "");
    my_ask_array(c, &wrong, r, MANY, got);
    assert_string_equal(got[0].error, "1205");
    run(other, "ROLLBACK");
    /* Wrong: without the floor who makes the row again draws the same tokens. */
    wrong = changed(right, "SET fence_floor = @sqlock_top", "SET fence_floor = fence_floor");
    wrong = changed(wrong, "<= @sqlock_floor", "IS NOT NULL");
    run(c, "UPDATE {meta} SET fence_floor = 0");
    assert_int_equal(my_ask_array(c, &wrong, r, MANY, got), MANY);
    assert_int_equal(acquire(c, r[0]).token, 1);
}

/* ---- owners (P3, P5) --------------------------------------------------------------------------
 */

static void test_same_request_twice_is_one_grant(void **state)
{
    conn a = my_open(), b = my_open();
    request r = request_of('A', 5000 * MS);
    answer first, second;
    (void)state;
    first = acquire(a, r);
    second = acquire(b, r);
    EXPECT(first, SQLOCK_OUT_DONE);
    EXPECT(second, SQLOCK_OUT_DONE);
    assert_int_equal(first.token, second.token);
    EXPECT(acquire(b, request_of('B', 5000 * MS)), SQLOCK_OUT_HELD);
    EXPECT(release(a, request_token(r, first.token)), SQLOCK_OUT_DONE);
    EXPECT(acquire(b, r), SQLOCK_OUT_RELEASED); /* a ghost that comes late grants nothing */
}

static void test_late_release_does_not_free_the_successor(void **state)
{
    script right = ours(SQLOCK_STMT_RELEASE);
    script by_name = changed(right, "AND c.owner = $3 AND c.token = $4", "");
    script by_owner = changed(right, "AND c.owner = $3 AND c.token = $4", "AND c.owner = $3");
    (void)state;
    late_release_frees_nobody(my_open(), my_open(), by_name, by_owner);
}

/* After the release and before the look, others came and went: the row remembers only the last. */
static answer release_then_others(const script *s)
{
    conn a = my_open(), b = my_open(), gate = my_open();
    request r = request_of('A', 5000 * MS), t = request_of('B', 5000 * MS);
    answer got;
    run(b, "DELETE FROM {lock}");
    r.token = acquire(a, r).token;
    my_hold(gate);
    my_start(a, s, &r);
    assert_int_equal(my_waits(a), 1);
    t.token = acquire(b, t).token;
    EXPECT(release(b, t), SQLOCK_OUT_DONE);
    my_unhold(gate);
    got = my_finish(a);
    return got;
}

static void test_release_is_told_by_its_own_count(void **state)
{
    script right = changed(ours(SQLOCK_STMT_RELEASE), "WHEN ROW_COUNT() > 0", "WHEN @rc > 0"),
           wrong;
    (void)state;
    right = changed(right, ";\nSELECT 0,", ";\nSET @rc = ROW_COUNT();\nDO {hold};\nSELECT 0,");
    EXPECT(release_then_others(&right), SQLOCK_OUT_DONE);
    wrong = changed(right, "WHEN @rc > 0 THEN 1", "WHEN FALSE THEN 1");
    EXPECT(release_then_others(&wrong), SQLOCK_OUT_TAKEN); /* it had been released, and says lost */
}

/* ---- names and sessions (P15) -----------------------------------------------------------------
 */

static void test_names_are_bytes(void **state)
{
    static const struct {
        const char *name;
        size_t len;
    } names[] = {{"job", 3},
                 {"Job", 3},
                 {"job ", 4},
                 {"j\xC3\xB6"
                  "b",
                  4},
                 {"jo\0b", 4}};
    conn c = my_open();
    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        request r =
            request_name(request_of((char)('a' + i), 5000 * MS), names[i].name, names[i].len);
        EXPECT(acquire(c, r), SQLOCK_OUT_DONE);
    }
    assert_int_equal(number(c, "SELECT count(*) FROM {lock}"), COUNT(names));
    /* Wrong: a column of text takes them for one another. */
    run(c, "CREATE TABLE {schema}.t (name VARCHAR(190) PRIMARY KEY) ENGINE = InnoDB"
           " DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_general_ci");
    run(c, "INSERT INTO {schema}.t VALUES ('job')");
    assert_int_equal(try_run(c, fill("INSERT INTO {schema}.t VALUES ('Job')")), -1);
    assert_int_equal(try_run(c, fill("INSERT INTO {schema}.t VALUES ('job ')")), -1);
}

/* All that a server or client may have set otherwise, and the statements do not care about. */
static void test_settings_of_the_session_change_no_decision(void **state)
{
    static const char *const settings[] = {
        "SET sql_mode = ''",
        "SET sql_mode = 'ANSI,STRICT_ALL_TABLES'",
        "SET sql_mode = 'NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH'",
        "SET /*M!100300 sql_mode = 'SIMULTANEOUS_ASSIGNMENT', */ time_zone = '+13:00'",
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET time_zone = '-11:30'"};
    conn a = my_open(), b = my_open();
    (void)state;
    for (size_t i = 0; i < COUNT(settings); i++) {
        request r = request_of('A', 5000 * MS), t = request_of('B', 5000 * MS);
        int64_t asked = 0;
        run(a, settings[i]);
        r.token = acquire(a, r).token;
        asked = server_us(b);
        EXPECT(renew(a, r), SQLOCK_OUT_DONE);
        EXPECT(acquire(b, t), SQLOCK_OUT_HELD);
        assert_true(row_end(b) >= asked + r.ttl);
        let_it_run_out(b);
        t.token = acquire(b, t).token;
        assert_int_equal(t.token, r.token + 1);
        EXPECT(renew(a, r), SQLOCK_OUT_TAKEN);
        assert_int_equal(number(b, "SELECT ended_why * 1000 + ended_token FROM {lock}"),
                         4000 + r.token);
        let_it_run_out(b);
        r.token = acquire(a, r).token; /* a takes over: all columns as they must be */
        assert_int_equal(r.token, t.token + 1);
        assert_int_equal(row_owner(b), 'A');
        assert_int_equal(number(b, "SELECT ended_token FROM {lock}"), t.token);
        EXPECT(release(a, r), SQLOCK_OUT_DONE);
        run(b, "UPDATE {lock} SET ended_why = 0");
    }
}

/* Wrong: what another transaction does not see is no grant. */
static void test_grant_outside_of_autocommit_is_none(void **state)
{
    conn a = my_open(), b = my_open();
    request r = request_of('A', 5000 * MS);
    (void)state;
    make_row(a);
    run(a, "SET autocommit = 0");
    EXPECT(acquire(a, r), SQLOCK_OUT_DONE);
    assert_int_equal(row_owner(b), -1);
    run(a, "ROLLBACK");
    EXPECT(acquire(b, request_of('B', 5000 * MS)), SQLOCK_OUT_DONE);
}

static void test_acquire_that_arrives_after_its_withdrawal_grants_nothing(void **state)
{
    script s = ours(SQLOCK_STMT_WITHDRAW);
    (void)state;
    s = changed(s, "h.withdrawn <=> $3) THEN 3", "1) THEN 3");
    withdrawn_acquire_arrives(my_open(), changed(s, "l.withdrawn = $3", "l.mode = l.mode"));
}

static void test_pruner_leaves_the_mark_of_a_withdrawal(void **state)
{
    script s = ours(SQLOCK_STMT_WITHDRAW);
    (void)state;
    withdrawn_acquire_arrives_after_the_pruner(
        my_open(), changed(s, "l.idle_since = IF(k.owner IS NULL OR k.owner = $3, k.t, NULL)",
                           "l.idle_since = l.idle_since"));
}

/* Another one who withdraws takes the tombstone's place; until not_after nothing is certain. */
static void test_withdrawal_is_certain_only_after_the_last_moment(void **state)
{
    (void)state;
    withdrawal_is_certain_later(my_open(), my_open());
}

static void test_withdrawal_leaves_another_holder_alone(void **state)
{
    (void)state;
    withdrawal_beside_another_holder(my_open(), my_open());
}

static void test_withdrawal_leaves_how_others_ended(void **state)
{
    (void)state;
    withdrawal_leaves_how_others_ended(my_open(), my_open());
}

/* B has read the floor when somebody raises it, and another is granted the lock above it. */
static int64_t grant_with_an_old_floor(const script *held, int64_t *last)
{
    conn a = my_open(), c = my_open(), gate = my_open();
    request ra = request_of('A', 5000 * MS), rb = request_of('B', 5000 * MS);
    answer got;
    run(a, "DELETE FROM {lock}; UPDATE {meta} SET fence_floor = 5");
    run(a, "INSERT INTO {lock} (ns, name, token) VALUES ('app', 'job', 5)");
    my_hold(gate);
    my_start(c, held, &rb);
    assert_int_equal(my_waits(c), 1);
    run(a, "UPDATE {meta} SET fence_floor = 1000");
    ra.token = *last = acquire(a, ra).token;
    assert_int_equal(ra.token, 1001);
    EXPECT(release(a, ra), SQLOCK_OUT_DONE);
    my_unhold(gate);
    got = my_finish(c);
    EXPECT(got, SQLOCK_OUT_DONE);
    return got.token;
}

static void test_floor_that_was_read_earlier_lowers_no_token(void **state)
{
    script right = my_held();
    script wrong = changed(right, "GREATEST(k.token, @sqlock_floor) + 1", "@sqlock_floor + 1");
    int64_t last = 0, got;
    (void)state;
    got = grant_with_an_old_floor(&right, &last);
    assert_int_equal(got, last + 1);
    got = grant_with_an_old_floor(&wrong, &last);
    assert_true(got < last);
}

/* meta knew `before`; what reincarnate says of the server `now`, and whether it may lack commits.
 */
static int meets(const script *meet, const char *before, const char *now)
{
    conn c = my_open();
    request server = request_name(request_of('-', 0), now, strlen(now));
    int64_t began = server_us(c), lost_at, floor;
    char sql[256];
    snprintf(sql, sizeof sql, "UPDATE {meta} SET server = '%s', lost_at = 0, fence_floor = %lld",
             before, (long long)began - 1000);
    run(c, sql);
    EXPECT(ask(c, meet, &server), SQLOCK_OUT_DONE);
    floor = number(c, "SELECT fence_floor FROM {meta}");
    assert_true(floor >= began && floor <= server_us(c)); /* the clock, and nothing more */
    lost_at = number(c, "SELECT lost_at FROM {meta}");
    assert_true(lost_at == 0 || (lost_at >= began && lost_at <= server_us(c)));
    return lost_at != 0;
}

static void test_server_that_was_merely_started_anew_lacks_nothing(void **state)
{
    script right = ours(SQLOCK_STMT_REINCARNATE);
    script wrong = changed(right, "AND SUBSTRING($1, 11, 1) = '='", "");
    (void)state;
    assert_int_equal(meets(&right, "", "1700000000=a:1"), 0); /* the first ever */
    assert_int_equal(meets(&right, "1700000000=a:1", "1700000009=a:1"), 0);
    assert_int_equal(meets(&right, "1700000000=a:1", "1700000000=b:1"), 1);
    assert_int_equal(meets(&right, "1700000000=a:1", "1700000000@a:1"), 1);
    assert_int_equal(meets(&right, "1700000000@a:1", "1700000009=a:1"), 1);
    assert_int_equal(meets(&right, "1700000000@a:1", "1700000009@a:1"), 1);
    /* Wrong: a forgetful one that was started anew is believed to have all. */
    assert_int_equal(meets(&wrong, "1700000000@a:1", "1700000009@a:1"), 0);
}

/* The clock of the server that was here before was ahead, or this one's is behind. */
static void test_clock_behind_the_floor_is_refused_or_lifts_it(void **state)
{
    conn c = my_open();
    request server = request_name(request_of('-', 0), "1700000000=other", 16);
    script right = ours(SQLOCK_STMT_REINCARNATE);
    script wrong =
        changed(right,
                "IF(@sqlock_t > GREATEST(fence_floor, $3), @sqlock_t, GREATEST(fence_floor, $3) + "
                "4294967296)",
                "@sqlock_t");
    int64_t ahead = server_us(c) + 3600000 * MS;
    char sql[128];
    answer got;
    (void)state;
    wrong = changed(wrong, "AND (@sqlock_t > GREATEST(fence_floor, $3) OR $2 = 1)", "");
    snprintf(sql, sizeof sql, "UPDATE {meta} SET inc = 3, server = 'before', fence_floor = %lld",
             (long long)ahead);
    run(c, sql);
    got = ask(c, &right, &server);
    EXPECT(got, SQLOCK_OUT_BEHIND);
    assert_true(got.left > 3500000 * MS && got.left <= 3600000 * MS);
    assert_int_equal(number(c, "SELECT inc FROM {meta} WHERE server = 'before'"), 3);
    assert_int_equal(number(c, "SELECT fence_floor FROM {meta}"), ahead);
    server.lift = 1;
    EXPECT(ask(c, &right, &server), SQLOCK_OUT_DONE);
    assert_int_equal(number(c, "SELECT fence_floor FROM {meta}"), ahead + LIFT);
    EXPECT(ask(c, &right, &server), SQLOCK_OUT_DONE); /* once */
    assert_int_equal(number(c, "SELECT fence_floor FROM {meta}"), ahead + LIFT);
    /* Wrong: the floor falls. */
    run(c, sql);
    server.lift = 0;
    EXPECT(ask(c, &wrong, &server), SQLOCK_OUT_DONE);
    assert_true(number(c, "SELECT fence_floor FROM {meta}") < ahead);
}

/* meta knows the server, and who asks has met another one since, that draws above `floor`. */
static void test_server_that_was_overtaken_goes_on_above_the_other(void **state)
{
    conn c = my_open();
    request server = request_name(request_of('-', 0), "1700000000=a:1", 14);
    script right = ours(SQLOCK_STMT_REINCARNATE), wrong;
    int64_t began = server_us(c);
    char sql[200];
    (void)state;
    wrong = changed(right, "(server <> $1 OR fence_floor < $3)", "server <> $1");
    snprintf(sql, sizeof sql,
             "UPDATE {meta} SET server = '1700000000=a:1', lost_at = 0, fence_floor = %lld",
             (long long)began - 3600000 * MS);
    run(c, sql);
    server.floor = began - 60000 * MS;
    EXPECT(ask(c, &right, &server), SQLOCK_OUT_DONE);
    assert_true(number(c, "SELECT fence_floor FROM {meta}") >= began);
    assert_true(number(c, "SELECT lost_at FROM {meta}") >= began);
    /* Once: who comes later finds it done. */
    began = number(c, "SELECT fence_floor FROM {meta}");
    EXPECT(ask(c, &right, &server), SQLOCK_OUT_DONE);
    assert_int_equal(number(c, "SELECT fence_floor FROM {meta}"), began);
    /* Wrong: it is believed to be the one that granted last. */
    run(c, sql);
    (void)ask(c, &wrong, &server);
    assert_true(number(c, "SELECT fence_floor FROM {meta}") < server.floor);
    /* Its clock is behind the other one's tokens. */
    server.floor = server_us(c) + 3600000 * MS;
    EXPECT(ask(c, &right, &server), SQLOCK_OUT_BEHIND);
}

static void test_nobody_is_granted_a_lock_in_a_grace(void **state)
{
    script eager = changed(ours(SQLOCK_STMT_ACQUIRE), MY_NOW " >= @sqlock_grace", "TRUE");
    (void)state;
    nobody_is_granted_a_lock_in_a_grace(my_open(), eager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_MYSQL(test_delayed_client_draws_the_later_token),
        ON_MYSQL(test_thief_that_was_delayed_gets_nothing),
        ON_MYSQL(test_tokens_rise_under_four_clients_and_a_pruner),
        ON_MYSQL(test_stalled_creator_keeps_the_pruner_out),
        ON_MYSQL(test_waiter_gets_a_full_lease),
        ON_MYSQL(test_statement_held_up_past_not_after_does_nothing),
        ON_MYSQL(test_renewal_is_for_the_exact_grant_and_not_after_the_end),
        ON_MYSQL(test_batch_renews_the_others_at_once),
        ON_MYSQL(test_batch_does_not_renew_what_was_taken_meanwhile),
        ON_MYSQL(test_batch_judges_each_lease_by_its_own_times),
        ON_MYSQL(test_batch_prunes_the_others_at_once_and_tokens_rise),
        ON_MYSQL(test_same_request_twice_is_one_grant),
        ON_MYSQL(test_late_release_does_not_free_the_successor),
        ON_MYSQL(test_release_is_told_by_its_own_count),
        ON_MYSQL(test_acquire_that_arrives_after_its_withdrawal_grants_nothing),
        ON_MYSQL(test_pruner_leaves_the_mark_of_a_withdrawal),
        ON_MYSQL(test_withdrawal_is_certain_only_after_the_last_moment),
        ON_MYSQL(test_withdrawal_leaves_another_holder_alone),
        ON_MYSQL(test_withdrawal_leaves_how_others_ended),
        ON_MYSQL(test_floor_that_was_read_earlier_lowers_no_token),
        ON_MYSQL(test_server_that_was_merely_started_anew_lacks_nothing),
        ON_MYSQL(test_server_that_was_overtaken_goes_on_above_the_other),
        ON_MYSQL(test_clock_behind_the_floor_is_refused_or_lifts_it),
        ON_MYSQL(test_nobody_is_granted_a_lock_in_a_grace),
        ON_MYSQL(test_names_are_bytes),
        ON_MYSQL(test_settings_of_the_session_change_no_decision),
        ON_MYSQL(test_grant_outside_of_autocommit_is_none),
    };
    int missing = my_missing();
    if (missing)
        return missing - 1;
    return cmocka_run_group_tests_name("leases on MariaDB", tests, NULL, NULL);
}
