/* The races of SQLite's statements, in WAL and in rollback mode. Each is run twice: with the
 * statement that decides rightly, and with one that looks as good and is wrong, which must be seen
 * to break what the other keeps. There is one writer at a time; what can go wrong lies between a
 * read and the wait for the write lock, and between a row and its commit. */
#include "races.h"

static int64_t row_left(conn c)
{
    return number(c, "SELECT exp - " LITE_NOW " FROM {lock}") * MS;
}

/* The first byte of the owner; -1: free. */
static int64_t row_owner(conn c)
{
    return number(c, "SELECT CASE WHEN owner IS NULL THEN -1 ELSE instr('ABCTX',"
                     " CAST(substr(owner, 1, 1) AS TEXT)) END FROM {lock}");
}

#define FREE    (-1)
#define OWNER_A 1
#define OWNER_B 2
#define OWNER_T 4

static void let_it_run_out(conn c)
{
    run(c, "UPDATE {lock} SET exp = " LITE_NOW " - 1 WHERE owner IS NOT NULL");
}

/* What of a request is still to be run after its first step, the read, told nothing. */
static script after_the_read(script s)
{
    s.n--;
    for (int i = 0; i < s.n; i++) {
        s.step[i] = s.step[i + 1];
        s.flags[i] = s.flags[i + 1];
    }
    return s;
}

static script only_the_read(script s)
{
    s.n = 1;
    return s;
}

/* Our acquire with another text in the place of its decision. */
static script read_then(const char *text)
{
    script s = ours(SQLOCK_STMT_ACQUIRE);
    s.step[1] = fill(text);
    s.n = 2;
    return s;
}

/* A text for which the client computed a number beforehand. */
static script with_number(script s, int64_t n)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)n);
    return changed(s, "@number", digits);
}

/* ---- waiting for the write lock ----------------------------------------------------------------
 */

struct writer {
    conn c;
    int ms;
};

static int end_of_writer(void *arg, int tries)
{
    struct writer *w = arg;
    (void)tries;
    if (sqlite3_get_autocommit(w->c.lite))
        return 0;
    pause_ms(w->ms);
    return sqlite3_exec(w->c.lite, "COMMIT", NULL, NULL, NULL) == SQLITE_OK;
}

/* c asks while the writer has an open write transaction, which commits ms after c began to wait. */
static answer ask_behind(conn c, const script *s, request r, conn writer, int ms)
{
    struct writer w = {writer, ms};
    answer a;
    sqlite3_busy_handler(c.lite, end_of_writer, &w);
    a = ask(c, s, &r);
    sqlite3_busy_handler(c.lite, NULL, NULL);
    assert_int_equal(sqlite3_get_autocommit(writer.lite), 1); /* c did wait */
    return a;
}

/* ---- tokens -----------------------------------------------------------------------------------
 */

#define READ_TOKEN                                                                                 \
    "UPDATE {lock} SET owner = ?3, exp = " LITE_NOW " + ?4 / 1000, token = @number"                \
    " WHERE ns = ?1 AND name = ?2 AND owner IS NULL RETURNING 0, 1, token"

static void test_token_is_drawn_under_the_write_lock(void **state)
{
    conn a = lite_open(), b = lite_open();
    request ra = request_of('A', 5000 * MS), rb = request_of('B', 5000 * MS);
    script read = only_the_read(ours(SQLOCK_STMT_ACQUIRE));
    script decide = after_the_read(ours(SQLOCK_STMT_ACQUIRE));
    script wrong;
    answer got;
    (void)state;
    for (int i = 0; i < 2; i++) {
        run(a, "DELETE FROM {lock}");
        rb.token = acquire(b, rb).token;
        EXPECT(release(b, rb), SQLOCK_OUT_DONE);
        /* A reads; B is granted the lock and gives it back; A goes on. Wrong: with what it read. */
        assert_int_equal(ask(a, &read, &ra).rows, 0);
        wrong = with_number(written(SQLOCK_STMT_ACQUIRE, READ_TOKEN),
                            number(a, "SELECT token FROM {lock}") + 1);
        memset(rb.owner, 'C', sizeof rb.owner);
        rb.token = acquire(b, rb).token;
        EXPECT(release(b, rb), SQLOCK_OUT_DONE);
        got = ask(a, i ? &wrong : &decide, &ra);
        EXPECT(got, SQLOCK_OUT_DONE);
        assert_int_equal(got.token, i ? rb.token : rb.token + 1); /* wrong: granted twice */
        memset(rb.owner, 'B', sizeof rb.owner);
    }
}

static const char *PRUNE[] = {
    "BEGIN IMMEDIATE",
    "UPDATE {meta} SET fence_floor = max(fence_floor,"
    " (SELECT coalesce(max(token), 0) FROM {lock} WHERE owner IS NULL)) WHERE id = 1",
    "DELETE FROM {lock} WHERE owner IS NULL", "COMMIT"};

/* Wrong: the row goes, and what it knew with it. */
#define PRUNE_AND_FORGET "DELETE FROM {lock} WHERE owner IS NULL"

static void pruned_stress(stress *s, const char *const *prune, int n)
{
    *s = (stress){.open = lite_open, .ttl = 6 * MS, .ms = 900};
    s->acquire = ours(SQLOCK_STMT_ACQUIRE);
    s->release = ours(SQLOCK_STMT_RELEASE);
    for (int i = 0; i < n; i++)
        s->prune[i] = fill(prune[i]);
    stress_run(s);
}

static void test_tokens_rise_under_four_clients_and_a_pruner(void **state)
{
    static stress s;
    const char *forget[] = {PRUNE_AND_FORGET};
    (void)state;
    pruned_stress(&s, PRUNE, COUNT(PRUNE));
    assert_int_equal(s.errors, 0);
    assert_true(s.grants > 10);
    assert_true(number(lite_open(), "SELECT fence_floor FROM {meta}") > 0); /* rows did go */
    assert_int_equal(stress_faults(&s), 0);

    for (int i = 0, faults = 0; !faults; i++) { /* a busy machine may need a second round */
        assert_true(i < 5);
        pruned_stress(&s, forget, 1);
        faults = stress_faults(&s);
    }
}

/* ---- time -------------------------------------------------------------------------------------
 */

#define READ_EXP                                                                                   \
    "UPDATE {lock} SET owner = ?3, exp = @number, token = token + 1"                               \
    " WHERE ns = ?1 AND name = ?2 AND exp <= " LITE_NOW " RETURNING 0, 1, token"

static void test_waiter_gets_a_full_lease(void **state)
{
    conn a = lite_open(), other = lite_open();
    request r = request_of('A', 2000 * MS);
    script right = ours(SQLOCK_STMT_ACQUIRE), wrong;
    (void)state;
    EXPECT(acquire(other, request_of('X', 1)), SQLOCK_OUT_DONE);
    pause_ms(2);
    run(other, "BEGIN IMMEDIATE");
    EXPECT(ask_behind(a, &right, r, other, 400), SQLOCK_OUT_DONE);
    assert_true(row_left(a) > 1800 * MS);

    /* Wrong: the end of the lease is computed before the wait. */
    let_it_run_out(a);
    wrong =
        with_number(written(SQLOCK_STMT_ACQUIRE, READ_EXP), number(a, "SELECT " LITE_NOW) + 2000);
    run(other, "BEGIN IMMEDIATE");
    EXPECT(ask_behind(a, &wrong, r, other, 400), SQLOCK_OUT_DONE);
    assert_true(row_left(a) <= 1600 * MS);

    /* In a transaction that began long ago. */
    let_it_run_out(a);
    run(a, "BEGIN IMMEDIATE");
    number(a, "SELECT " LITE_NOW);
    pause_ms(300);
    EXPECT(acquire(a, r), SQLOCK_OUT_DONE);
    assert_true(row_left(a) > 1800 * MS);
    run(a, "COMMIT");
}

static answer late(const script *s, request r)
{
    conn a = lite_open(), other = lite_open();
    r.not_after = number(other, "SELECT " LITE_NOW) * MS + 100 * MS;
    run(other, "BEGIN IMMEDIATE");
    return ask_behind(a, s, r, other, 200);
}

static void test_statement_held_up_past_not_after_does_nothing(void **state)
{
    conn c = lite_open();
    request r = request_of('A', 5000 * MS);
    script grant = ours(SQLOCK_STMT_ACQUIRE), extend = ours(SQLOCK_STMT_RENEW);
    script grant_wrong = changed(grant, "AND " LITE_NOW " * 1000 <= ?5", "");
    script extend_wrong = changed(extend, "AND " LITE_NOW " * 1000 <= ?6", "");
    int64_t exp = 0;
    (void)state;
    EXPECT(late(&grant, r), SQLOCK_OUT_LATE); /* nor is the missing row made */
    assert_int_equal(number(c, "SELECT count(*) FROM {lock}"), 0);
    /* Wrong: whoever asked has given up; the lock is held by nobody for a whole lease. */
    EXPECT(late(&grant_wrong, r), SQLOCK_OUT_DONE);
    assert_int_equal(row_owner(c), OWNER_A);

    r.token = number(c, "SELECT token FROM {lock}");
    exp = number(c, "SELECT exp FROM {lock}");
    EXPECT(late(&extend, r), SQLOCK_OUT_LATE);
    assert_int_equal(number(c, "SELECT exp FROM {lock}"), exp);
    EXPECT(late(&extend_wrong, r), SQLOCK_OUT_DONE);
    assert_true(number(c, "SELECT exp FROM {lock}") > exp);
}

/* ---- renewals ---------------------------------------------------------------------------------
 */

/* The renewal came in time but is not committed when the old lease runs out. A thief reads then,
 * waits for the write lock, and decides after the renewal's commit. Returns the owner in the end.
 */
static int64_t thief_and_renewal(const script *thief, answer *got)
{
    conn a = lite_open(), t = lite_open();
    request ra = request_of('A', 150 * MS);
    run(a, "DELETE FROM {lock}");
    ra.token = acquire(a, ra).token;
    ra.ttl = 5000 * MS;
    run(a, "BEGIN IMMEDIATE");
    EXPECT(renew(a, ra), SQLOCK_OUT_DONE);
    pause_ms(200);
    *got = ask_behind(t, thief, request_of('T', 5000 * MS), a, 0);
    return row_owner(a);
}

static void test_thief_gets_nothing_when_the_renewal_came_first(void **state)
{
    /* Wrong: the read decides, and the write believes it. */
    script wrong = read_then("UPDATE {lock} SET owner = ?3, token = token + 1,"
                             " exp = " LITE_NOW " + ?4 / 1000"
                             " WHERE ns = ?1 AND name = ?2 RETURNING 0, 1, token");
    script right = ours(SQLOCK_STMT_ACQUIRE);
    answer got;
    (void)state;
    assert_int_equal(thief_and_renewal(&right, &got), OWNER_A);
    EXPECT(got, SQLOCK_OUT_HELD);
    assert_int_equal(thief_and_renewal(&wrong, &got), OWNER_T);
    EXPECT(got, SQLOCK_OUT_DONE);
}

static void test_renewal_after_the_end_is_refused(void **state)
{
    conn c = lite_open(), other = lite_open();
    request r = request_of('A', 50 * MS);
    script right = ours(SQLOCK_STMT_RENEW);
    script wrong = changed(right, "AND exp > " LITE_NOW " AND", "AND");
    (void)state;
    r.token = acquire(c, r).token;
    pause_ms(60);
    EXPECT(ask(c, &right, &r), SQLOCK_OUT_EXPIRED);
    /* Wrong: the holder may have been told of the loss; now it holds the lock and does not know. */
    EXPECT(ask(c, &wrong, &r), SQLOCK_OUT_DONE);
    /* Sent in time, run too late. */
    run(c, "UPDATE {lock} SET exp = " LITE_NOW " + 100");
    run(other, "BEGIN IMMEDIATE");
    EXPECT(ask_behind(c, &right, r, other, 150), SQLOCK_OUT_EXPIRED);
}

/* A's lease ran out and the same request was granted again; a renewal of the first grant is late.
 */
static void test_renewal_is_for_the_exact_grant(void **state)
{
    conn c = lite_open();
    request r = request_of('A', 5000 * MS);
    script right = ours(SQLOCK_STMT_RENEW);
    script wrong = changed(right, "AND token = ?4 AND exp >", "AND exp >");
    (void)state;
    r.token = acquire(c, r).token;
    let_it_run_out(c);
    assert_int_equal(acquire(c, r).token, r.token + 1);
    EXPECT(ask(c, &right, &r), SQLOCK_OUT_TAKEN);
    /* Wrong: who writes with the old token believes in a lease that is not its own. */
    EXPECT(ask(c, &wrong, &r), SQLOCK_OUT_DONE);
}

/* ---- owners -----------------------------------------------------------------------------------
 */

static void test_same_request_twice_is_one_grant(void **state)
{
    conn a = lite_open(), again = lite_open();
    request r = request_of('A', 5000 * MS);
    script wrong;
    answer first, second;
    (void)state;
    first = acquire(a, r);
    EXPECT(first, SQLOCK_OUT_DONE);
    second = acquire(again, r);
    EXPECT(second, SQLOCK_OUT_DONE);
    assert_int_equal(second.token, first.token);
    assert_int_equal(second.since, first.since);
    assert_int_equal(number(a, "SELECT count(*) FROM {lock}"), 1);
    /* Wrong: it meets its own ghost and is told to wait for it. */
    wrong = changed(ours(SQLOCK_STMT_ACQUIRE), "owner IS NOT NULL AND owner <> ?3 AND exp",
                    "owner IS NOT NULL AND exp");
    EXPECT(ask(again, &wrong, &r), SQLOCK_OUT_HELD);
}

static void test_released_owner_is_never_granted_again(void **state)
{
    conn a = lite_open(), dup = lite_open();
    request r = request_of('A', 5000 * MS);
    script right = ours(SQLOCK_STMT_ACQUIRE), read = only_the_read(right), rest;
    script wrong =
        changed(right, "(l.ended_why <> 1 OR l.ended_owner IS NOT excluded.owner)", "true");
    (void)state;
    for (int i = 0; i < 2; i++) {
        run(a, "DELETE FROM {lock}");
        r.token = acquire(a, r).token;
        /* The duplicate reads before the release and decides after it. */
        assert_int_equal(ask(dup, &read, &r).rows, 0);
        EXPECT(release(a, r), SQLOCK_OUT_DONE);
        rest = after_the_read(i ? wrong : right);
        EXPECT(ask(dup, &rest, &r), i ? SQLOCK_OUT_DONE : SQLOCK_OUT_RELEASED);
        assert_int_equal(row_owner(a), i ? OWNER_A : FREE); /* wrong: held by nobody */
        if (!i)
            EXPECT(acquire(dup, r), SQLOCK_OUT_RELEASED);
    }
}

/* A's lease ran out, `successor` was granted the lock, and A's release comes late. */
static answer late_release(const script *s, char successor)
{
    conn a = lite_open(), b = lite_open();
    request ra = request_of('A', 5000 * MS), rb = request_of(successor, 5000 * MS);
    run(a, "DELETE FROM {lock}");
    ra.token = acquire(a, ra).token;
    let_it_run_out(a);
    rb.token = acquire(b, rb).token;
    assert_int_equal(rb.token, ra.token + 1);
    return ask(a, s, &ra);
}

static void test_late_release_does_not_free_the_successor(void **state)
{
    conn c = lite_open();
    script right = ours(SQLOCK_STMT_RELEASE);
    script by_name = changed(right, "AND owner = ?3 AND (?4 = 0 OR token = ?4)", "");
    script by_owner = changed(right, "AND owner = ?3 AND (?4 = 0 OR token = ?4)", "AND owner = ?3");
    (void)state;
    EXPECT(late_release(&right, 'B'), SQLOCK_OUT_TAKEN);
    assert_int_equal(row_owner(c), OWNER_B);
    EXPECT(late_release(&right, 'A'), SQLOCK_OUT_TAKEN); /* the same request, granted again */
    assert_int_equal(row_owner(c), OWNER_A);
    EXPECT(late_release(&by_name, 'B'), SQLOCK_OUT_DONE);
    assert_int_equal(row_owner(c), FREE);
    EXPECT(late_release(&by_owner, 'A'), SQLOCK_OUT_DONE);
    assert_int_equal(row_owner(c), FREE);
}

/* ---- creation, incarnations, names -------------------------------------------------------------
 */

static void test_two_creators_make_one_row(void **state)
{
    conn a = lite_open(), b = lite_open();
    request ra = request_of('A', 5000 * MS), rb = request_of('B', 5000 * MS);
    script right = ours(SQLOCK_STMT_ACQUIRE), read = only_the_read(right), rest;
    script wrong = read_then("INSERT INTO {lock} (ns, name, owner, token, exp, inc)"
                             " VALUES (?1, ?2, ?3, 1, " LITE_NOW " + ?4 / 1000, 0)"
                             " RETURNING 0, 1, token");
    (void)state;
    for (int i = 0; i < 2; i++) {
        run(a, "DELETE FROM {lock}");
        assert_int_equal(ask(a, &read, &ra).rows + ask(b, &read, &rb).rows, 0);
        rest = after_the_read(i ? wrong : right);
        EXPECT(ask(a, &rest, &ra), SQLOCK_OUT_DONE);
        if (i) /* wrong: look, then insert */
            assert_string_equal(ask(b, &rest, &rb).error, "CONSTRAINT");
        else
            EXPECT(ask(b, &rest, &rb), SQLOCK_OUT_HELD);
        assert_int_equal(number(a, "SELECT count(*) FROM {lock}"), 1);
    }
}

static void test_tokens_jump_with_the_incarnation(void **state)
{
    conn c = lite_open();
    request file = request_name(request_of('-', 0), "other", 5), r = request_of('A', 5000 * MS);
    script right = ours(SQLOCK_STMT_ACQUIRE), meet = ours(SQLOCK_STMT_REINCARNATE);
    script wrong =
        changed(right, "ELSE l.token + (excluded.inc - l.inc) * 4294967296", "ELSE l.token + 1");
    (void)state;
    for (int i = 0; i < 2; i++) { /* token 7 was granted, and forgotten with its commit */
        run(c, "DELETE FROM {lock}");
        run(c, "UPDATE {meta} SET server = 'file', inc = 0, fence_floor = 6");
        run(c, "INSERT INTO {lock} (ns, name, token, inc) VALUES (x'617070', x'6a6f62', 6, 0)");
        EXPECT(ask(c, &meet, &file), SQLOCK_OUT_DONE);
        assert_true(ask(c, i ? &wrong : &right, &r).token == (i ? 7 : 6 + JUMP));
        assert_true(acquire(c, request_name(r, "new", 3)).token > 6 + JUMP);
        assert_int_equal(ask(c, &meet, &file).rows, 0);
    }
}

static void test_names_are_bytes(void **state)
{
    char longest[256], other[256];
    conn c = lite_open();
    request r = request_of('A', 5000 * MS), pair = request_of('B', 5000 * MS);
    script right = ours(SQLOCK_STMT_ACQUIRE), glued, text;
    const struct {
        const char *name;
        size_t len;
    } names[] = {{"job", 3},  {"Job", 3},     {"job ", 4},  {"job\xff", 4}, {"job\xff\xfe", 5},
                 {" job", 4}, {longest, 255}, {other, 255}, {longest, 254}};
    (void)state;
    memset(longest, 'x', sizeof longest);
    memset(other, 'x', sizeof other);
    other[254] = 'y';
    for (size_t i = 0; i < COUNT(names); i++) {
        answer got = acquire(c, request_name(r, names[i].name, names[i].len));
        EXPECT(got, SQLOCK_OUT_DONE);
        assert_int_equal(got.token, 1);
    }
    assert_int_equal(number(c, "SELECT count(*) FROM {lock}"), COUNT(names));
    assert_string_equal(acquire(c, request_name(r, longest, 256)).error, "CONSTRAINT");
    /* A name bound as text would be another name than its bytes: refused by the table. */
    text = changed(right, "SELECT ?1, ?2,", "SELECT ?1, CAST(?2 AS TEXT),");
    assert_string_equal(ask(c, &text, (request[]){request_name(r, "t", 1)}).error, "CONSTRAINT");

    run(c, "DELETE FROM {lock}");
    r.ns = "a", r.ns_len = 1, r.name = "bc", r.name_len = 2;
    pair.ns = "ab", pair.ns_len = 2, pair.name = "c", pair.name_len = 1;
    EXPECT(acquire(c, r), SQLOCK_OUT_DONE);
    /* Wrong: one column's worth of comparison for two columns. */
    glued = changed(right, "WHERE ns = ?1 AND name = ?2", "WHERE ns || name = ?1 || ?2");
    EXPECT(ask(c, &glued, &pair), SQLOCK_OUT_HELD);
    EXPECT(acquire(c, pair), SQLOCK_OUT_DONE);
}

/* ---- SQLite's own -----------------------------------------------------------------------------
 */

/* In WAL mode a transaction that began as a read cannot write once somebody else did. */
static void test_reader_cannot_become_a_holder_after_a_foreign_write(void **state)
{
    conn a = lite_open(), b = lite_open();
    request ra = request_of('A', 5000 * MS), rb = request_of('B', 5000 * MS);
    int64_t start = 0;
    (void)state;
    sqlite3_busy_timeout(a.lite, 2000);
    run(a, "BEGIN"); /* wrong: should be IMMEDIATE */
    assert_int_equal(number(a, "SELECT count(*) FROM {lock}"), 0);
    rb.token = acquire(b, rb).token;
    EXPECT(release(b, rb), SQLOCK_OUT_DONE);
    start = clock_us();
    for (int i = 0; i < 2; i++) /* however often, at once, and whatever the timeout */
        assert_string_equal(acquire(a, ra).error, "BUSY_SNAPSHOT");
    assert_true(clock_us() - start < 1000 * MS);
    run(a, "ROLLBACK");
    EXPECT(acquire(a, ra), SQLOCK_OUT_DONE); /* ours: BEGIN IMMEDIATE */
}

/* In rollback mode a reader keeps the commit out: the row of RETURNING came, and nothing is stored.
 */
static void test_grant_counts_only_when_its_commit_is_confirmed(void **state)
{
    conn a = lite_open(), b = lite_open(), reader = lite_open();
    request ra = request_of('A', 5000 * MS);
    answer early, got;
    (void)state;
    EXPECT(acquire(b, request_of('X', 1)), SQLOCK_OUT_DONE);
    pause_ms(2);
    run(reader, "BEGIN");
    assert_int_equal(number(reader, "SELECT count(*) FROM {lock}"), 1);
    /* Ours takes the answer back. */
    assert_string_equal(acquire(a, ra).error, "BUSY");
    /* Wrong: believes the row. */
    run(a, "BEGIN IMMEDIATE");
    early = acquire(a, ra);
    EXPECT(early, SQLOCK_OUT_DONE);
    assert_int_equal(try_run(a, "COMMIT"), SQLITE_BUSY);
    run(a, "ROLLBACK");
    run(reader, "COMMIT");
    got = acquire(b, request_of('B', 5000 * MS));
    EXPECT(got, SQLOCK_OUT_DONE);
    assert_int_equal(got.token, early.token); /* two believe in one token */
}

static void test_waiting_takes_no_write_lock(void **state)
{
    conn a = lite_open(), writer = lite_open();
    request rb = request_of('B', 5000 * MS);
    script right = ours(SQLOCK_STMT_ACQUIRE), wrong = after_the_read(right);
    int64_t before = 0;
    (void)state;
    EXPECT(acquire(a, request_of('A', 60000 * MS)), SQLOCK_OUT_DONE);
    before = number(writer, "PRAGMA data_version");
    for (int i = 0; i < 100; i++)
        EXPECT(ask(a, &right, &rb), SQLOCK_OUT_HELD);
    assert_int_equal(number(writer, "PRAGMA data_version"), before);
    run(writer, "BEGIN IMMEDIATE");
    EXPECT(ask(a, &right, &rb), SQLOCK_OUT_HELD);
    assert_string_equal(ask(a, &wrong, &rb).error, "BUSY"); /* wrong: no read first */
    run(writer, "COMMIT");
}

#define WAL(test)                                                                                  \
    {                                                                                              \
#test " (WAL)", test, lite_setup_wal, race_teardown, NULL                                  \
    }
#define ROLLBACK(test)                                                                             \
    {                                                                                              \
#test " (rollback)", test, lite_setup_rollback, race_teardown, NULL                        \
    }
#define BOTH(test) WAL(test), ROLLBACK(test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_token_is_drawn_under_the_write_lock),
        BOTH(test_tokens_rise_under_four_clients_and_a_pruner),
        BOTH(test_waiter_gets_a_full_lease),
        BOTH(test_statement_held_up_past_not_after_does_nothing),
        BOTH(test_thief_gets_nothing_when_the_renewal_came_first),
        BOTH(test_renewal_after_the_end_is_refused),
        BOTH(test_renewal_is_for_the_exact_grant),
        BOTH(test_same_request_twice_is_one_grant),
        BOTH(test_released_owner_is_never_granted_again),
        BOTH(test_late_release_does_not_free_the_successor),
        BOTH(test_two_creators_make_one_row),
        BOTH(test_tokens_jump_with_the_incarnation),
        BOTH(test_names_are_bytes),
        BOTH(test_waiting_takes_no_write_lock),
        WAL(test_reader_cannot_become_a_holder_after_a_foreign_write),
        ROLLBACK(test_grant_counts_only_when_its_commit_is_confirmed),
    };
    return cmocka_run_group_tests_name("races on SQLite", tests, NULL, NULL);
}
