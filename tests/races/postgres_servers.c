/* A server that is not the one that granted before: it lost commits, or was promoted (P2). */
#include "races.h"

/* A server's name that ends with the present table and timeline. */
static request server_called(conn c, const char *id, char *buffer, size_t size)
{
    int64_t timeline = number(c, "SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))"
                                 "::bit(32)::bigint");
    int64_t table = number(c, "SELECT '{meta}'::regclass::oid::bigint");
    snprintf(buffer, size, "%s/1/%lld/%08llX", id, (long long)table, (long long)timeline);
    return request_name(request_of('-', 0), buffer, strlen(buffer));
}

/* Token 7 was granted, and the server that knew it is gone: the next one has the row of before. */
static answer grant_after_a_lost_commit(const script *s)
{
    conn c = pg_open();
    char name[64];
    request server = server_called(c, "second", name, sizeof name), r = request_of('B', 5000 * MS);
    script meet = ours(SQLOCK_STMT_REINCARNATE);
    run(c, "DELETE FROM {lock}; UPDATE {meta} SET server = 'first', inc = 0, fence_floor = 6");
    run(c, "INSERT INTO {lock} (ns, name, token, inc) VALUES ('app', 'job', 6, 0)");
    EXPECT(ask(c, &meet, &server), SQLOCK_OUT_DONE);
    return ask(c, s, &r);
}

static void test_tokens_jump_over_what_a_lost_server_granted(void **state)
{
    conn c = pg_open();
    script right = ours(SQLOCK_STMT_ACQUIRE);
    script wrong =
        changed(right, "ELSE l.token + ((k.inc - l.inc) * 4294967296)", "ELSE l.token + 1");
    request other = request_name(request_of('B', 5000 * MS), "new", 3), r = request_of('B', MS);
    answer got;
    (void)state;
    got = grant_after_a_lost_commit(&right);
    EXPECT(got, SQLOCK_OUT_DONE);
    assert_true(got.token == 6 + JUMP);
    assert_true(acquire(c, other).token > 6 + JUMP);
    /* Once: the row belongs to this incarnation now. */
    EXPECT(release(c, request_token(r, got.token)), SQLOCK_OUT_DONE);
    assert_true(acquire(c, request_of('C', MS)).token == 7 + JUMP);
    /* Wrong: 7 is granted a second time. */
    got = grant_after_a_lost_commit(&wrong);
    assert_int_equal(got.token, 7);
}

/* A's grant is there, with token 6. On the server that is gone it was released, and others were
 * granted 7: A's request, sent again, must not be told 6. */
static void test_grant_that_a_lost_server_had_ended_jumps_too(void **state)
{
    conn c = pg_open();
    char name[64];
    request server = server_called(c, "second", name, sizeof name), r = request_of('A', 5000 * MS);
    script meet = ours(SQLOCK_STMT_REINCARNATE), right = ours(SQLOCK_STMT_ACQUIRE), wrong;
    (void)state;
    for (int i = 0; i < 2; i++) {
        run(c, "DELETE FROM {lock}; UPDATE {meta} SET fence_floor = 5");
        assert_true(acquire(c, r).token == 6);
        run(c, "UPDATE {meta} SET server = 'first'");
        EXPECT(ask(c, &meet, &server), SQLOCK_OUT_DONE);
        if (i == 1)
            wrong = changed(right, "AND l.inc = k.inc THEN l.token", "THEN l.token");
        assert_true(ask(c, i ? &wrong : &right, &r).token == (i ? 6 : 6 + JUMP));
    }
}

static void test_two_who_meet_a_new_server_jump_once(void **state)
{
    conn a = pg_open(), b = pg_open();
    char name[64];
    request server = server_called(a, "second", name, sizeof name);
    script right = ours(SQLOCK_STMT_REINCARNATE);
    script wrong = changed(right, "AND m.server <> convert_from($1, 'UTF8')", "");
    answer got;
    (void)state;
    for (int i = 0; i < 2; i++) {
        run(a, "UPDATE {meta} SET server = 'first', inc = 3, fence_floor = 6");
        run(a, "BEGIN");
        EXPECT(ask(a, i ? &wrong : &right, &server), SQLOCK_OUT_DONE);
        pg_start(b, i ? &wrong : &right, 0, &server);
        assert_int_equal(pg_waits(b), 1);
        run(a, "COMMIT");
        got = pg_finish(b);
        assert_string_equal(got.error, "");
        assert_int_equal(got.rows, i);
        assert_int_equal(number(a, "SELECT inc FROM {meta}"), 4 + i); /* wrong: twice */
    }
}

static void test_server_of_another_timeline_grants_nothing(void **state)
{
    conn c = pg_open();
    request r = request_of('A', 5000 * MS), new = request_name(r, "new", 3);
    script right = ours(SQLOCK_STMT_ACQUIRE);
    script wrong = changed(
        right, "split_part(m.server, '/', 4) = left(pg_walfile_name(pg_current_wal_lsn()), 8)",
        "true");
    (void)state;
    r.token = acquire(c, r).token;
    EXPECT(release(c, r), SQLOCK_OUT_DONE);
    memset(r.owner, 'B', sizeof r.owner);
    run(c, "UPDATE {meta} SET server = 'same/1/' || '{meta}'::regclass::oid || '/7FFFFFFF'");
    EXPECT(ask(c, &right, &r), SQLOCK_OUT_STRANGER);
    EXPECT(ask(c, &right, &new), SQLOCK_OUT_STRANGER);
    assert_int_equal(number(c, "SELECT count(*) FROM {lock} WHERE owner IS NOT NULL"), 0);
    /* Wrong: a session that lived on through a promotion grants before anyone said hello. */
    EXPECT(ask(c, &wrong, &r), SQLOCK_OUT_DONE);
}

/* B has read the incarnation when somebody makes a new one, and another is granted the lock. */
static answer grant_with_an_old_incarnation(const script *held)
{
    conn a = pg_open(), c = pg_open(), gate = pg_open();
    request ra = request_of('A', 5000 * MS), rb = request_of('B', 5000 * MS);
    answer got;
    run(a, "DELETE FROM {lock}; UPDATE {meta} SET inc = 1");
    run(a, "INSERT INTO {lock} (ns, name, token, inc) VALUES ('app', 'job', 6, 1)");
    pg_hold(gate);
    pg_start(c, held, 0, &rb);
    assert_int_equal(pg_waits(c), 1);
    run(a, "UPDATE {meta} SET inc = 2");
    ra.token = acquire(a, ra).token;
    assert_true(ra.token == 6 + JUMP);
    EXPECT(release(a, ra), SQLOCK_OUT_DONE);
    pg_unhold(gate);
    got = pg_finish(c);
    assert_string_equal(got.error, "");
    return got;
}

static void test_incarnation_that_was_read_earlier_lowers_no_token(void **state)
{
    script right = ours_held(), wrong;
    answer got;
    (void)state;
    got = grant_with_an_old_incarnation(&right);
    EXPECT(got, SQLOCK_OUT_SKIPPED); /* it asks again */
    assert_true(acquire(pg_open(), request_of('B', MS)).token == 7 + JUMP);
    wrong = changed(right, "AND c.inc <= m.inc", "");
    got = grant_with_an_old_incarnation(&wrong);
    EXPECT(got, SQLOCK_OUT_DONE);
    assert_int_equal(got.token, 6); /* wrong: a second time, and below what was granted */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_POSTGRES(test_tokens_jump_over_what_a_lost_server_granted),
        ON_POSTGRES(test_grant_that_a_lost_server_had_ended_jumps_too),
        ON_POSTGRES(test_two_who_meet_a_new_server_jump_once),
        ON_POSTGRES(test_server_of_another_timeline_grants_nothing),
        ON_POSTGRES(test_incarnation_that_was_read_earlier_lowers_no_token),
    };
    int missing = pg_missing();
    if (missing)
        return missing - 1;
    return cmocka_run_group_tests_name("servers on PostgreSQL", tests, NULL, NULL);
}
