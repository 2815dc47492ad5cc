/* A server that is not the one that granted before: it lost commits, was promoted, or was started
 * anew on old data (P2). */
#include "races.h"

#define HOUR (3600000 * MS)

/* A server's name: whose data it is, and with the present table, timeline and start, or others (+
 * later). */
static request server_called(conn c, const char *data, int later, char *buffer, size_t size)
{
    int64_t table = number(c, "SELECT '{meta}'::regclass::oid::bigint");
    int64_t timeline = number(c, "SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))"
                                 "::bit(32)::bigint");
    int64_t start = number(c, "SELECT (extract(epoch from pg_postmaster_start_time()) * 1000000)"
                              "::bigint");
    snprintf(buffer, size, "%s/1#%lld/%08llX/%lld", data, (long long)table, (long long)timeline,
             (long long)start + later);
    return request_name(request_of('-', 0), buffer, strlen(buffer));
}

static void put_meta(conn c, const char *server, int64_t floor)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             "UPDATE {meta} SET server = '%s', inc = 3, fence_floor = %lld, lost_at = 0", server,
             (long long)floor);
    run(c, sql);
}

static void put_row(conn c, int64_t token)
{
    char sql[128];
    run(c, "DELETE FROM {lock}");
    snprintf(sql, sizeof sql, "INSERT INTO {lock} (ns, name, token) VALUES ('app', 'job', %lld)",
             (long long)token);
    run(c, sql);
}

/* ---- the floor --------------------------------------------------------------------------------
 */

/* The first server began an hour ago, and granted three times. It is gone, and with it the last
 * commit: the copy that takes over knows of two. *forgotten: the third. */
static answer grant_after_a_lost_commit(const script *meet, const script *s, int64_t *forgotten)
{
    conn c = pg_open();
    char name[96];
    request server = server_called(c, "second", 0, name, sizeof name),
            r = request_of('B', 5000 * MS);
    int64_t began = server_us(c) - HOUR;
    *forgotten = began + 3;
    put_meta(c, "first", began);
    put_row(c, began + 2);
    EXPECT(ask(c, meet, &server), SQLOCK_OUT_DONE);
    return ask(c, s, &r);
}

static void test_tokens_rise_over_what_a_lost_server_granted(void **state)
{
    conn c = pg_open();
    script meet = ours(SQLOCK_STMT_REINCARNATE), right = ours(SQLOCK_STMT_ACQUIRE);
    script wrong = changed(right, "greatest(l.token, k.floor) + 1", "l.token + 1");
    request other = request_name(request_of('B', 5000 * MS), "new", 3), r = request_of('B', MS);
    int64_t before = server_us(c), forgotten;
    answer got;
    (void)state;
    got = grant_after_a_lost_commit(&meet, &right, &forgotten);
    EXPECT(got, SQLOCK_OUT_DONE);
    assert_true(got.token > forgotten && got.token > before);
    assert_true(acquire(c, other).token > before);
    /* Once: the row is above the floor now. */
    EXPECT(release(c, request_token(r, got.token)), SQLOCK_OUT_DONE);
    assert_int_equal(acquire(c, request_of('C', MS)).token, got.token + 1);
    /* Wrong: what was forgotten is granted a second time. */
    got = grant_after_a_lost_commit(&meet, &wrong, &forgotten);
    assert_int_equal(got.token, forgotten);
}

/* Who meets it adds nothing to the clock: C and D are copies of B from before, promoted one after
 * the other within a minute, and neither knows of the other. */
static void test_floor_is_the_clock_and_nothing_more(void **state)
{
    conn c = pg_open();
    char name[96];
    request server = server_called(c, "third", 0, name, sizeof name);
    script right = ours(SQLOCK_STMT_REINCARNATE), wrong;
    int64_t before = server_us(c), of_b, floor;
    (void)state;
    put_meta(c, "first", before - HOUR);
    EXPECT(ask(c, &right, &server), SQLOCK_OUT_DONE);
    of_b = number(c, "SELECT fence_floor FROM {meta}");
    assert_true(of_b >= before && of_b <= server_us(c));
    for (int i = 0; i < 2; i++) { /* C, D */
        int64_t last = i == 0 ? of_b : floor;
        put_meta(c, "second", of_b);
        EXPECT(ask(c, &right, &server), SQLOCK_OUT_DONE);
        floor = number(c, "SELECT fence_floor FROM {meta}");
        assert_true(floor > last && floor <= server_us(c));
    }
    /* Wrong: B's floor lies ahead of every clock for an hour. */
    wrong = changed(right, "THEN i.t ELSE", "THEN i.t + 4294967296 ELSE");
    put_meta(c, "first", before - HOUR);
    EXPECT(ask(c, &wrong, &server), SQLOCK_OUT_DONE);
    put_meta(c, "second", number(c, "SELECT fence_floor FROM {meta}"));
    EXPECT(ask(c, &right, &server), SQLOCK_OUT_BEHIND);
}

/* The clock of the server that was here before was ahead, or this one's is behind. */
static void test_clock_behind_the_floor_is_refused_or_lifts_it(void **state)
{
    conn c = pg_open();
    char name[96];
    request server = server_called(c, "second", 0, name, sizeof name), r = request_of('B', MS);
    script right = ours(SQLOCK_STMT_REINCARNATE), wrong;
    int64_t ahead = server_us(c) + HOUR;
    answer got;
    (void)state;
    put_meta(c, "first", ahead);
    put_row(c, ahead + 2);
    got = ask(c, &right, &server);
    EXPECT(got, SQLOCK_OUT_BEHIND);
    assert_true(got.left > HOUR - 60000 * MS && got.left <= HOUR);
    assert_int_equal(number(c, "SELECT fence_floor FROM {meta}"), ahead);
    EXPECT(acquire(c, r), SQLOCK_OUT_STRANGER);
    server.lift = 1;
    EXPECT(ask(c, &right, &server), SQLOCK_OUT_DONE);
    assert_int_equal(number(c, "SELECT fence_floor FROM {meta}"), ahead + LIFT);
    assert_int_equal(acquire(c, r).token, ahead + LIFT + 1);
    /* Who may lift it does so only where there is need. */
    put_meta(c, "first", 5);
    EXPECT(ask(c, &right, &server), SQLOCK_OUT_DONE);
    assert_true(number(c, "SELECT fence_floor FROM {meta}") < ahead);
    /* Wrong: the floor falls. */
    wrong = changed(right, "AND (i.t > i.above OR $2 = 1)", "");
    wrong = changed(wrong, "CASE WHEN i.t > i.above THEN i.t ELSE i.above + 4294967296 END", "i.t");
    server.lift = 0;
    put_meta(c, "first", ahead);
    run(c, "DELETE FROM {lock}");
    EXPECT(ask(c, &wrong, &server), SQLOCK_OUT_DONE);
    assert_true(acquire(c, r).token < ahead);
}

/* meta knows the server, and who asks has met another one since, that draws above `floor`. */
static void test_server_that_was_overtaken_goes_on_above_the_other(void **state)
{
    conn c = pg_open();
    char name[96];
    request server = server_called(c, "first", 0, name, sizeof name), r = request_of('B', MS);
    script right = ours(SQLOCK_STMT_REINCARNATE), wrong;
    int64_t began = server_us(c), floor;
    (void)state;
    put_meta(c, name, began - HOUR);
    EXPECT(acquire(c, r), SQLOCK_OUT_DONE);
    server.floor = began - HOUR / 60;
    EXPECT(ask(c, &right, &server), SQLOCK_OUT_DONE);
    floor = number(c, "SELECT fence_floor FROM {meta}");
    assert_true(floor >= began && floor <= server_us(c));
    assert_true(number(c, "SELECT lost_at FROM {meta}") >= began);
    assert_int_equal(ask(c, &right, &server).rows, 0); /* once */
    run(c, "DELETE FROM {lock}");
    assert_true(acquire(c, r).token > floor);
    /* Wrong: it is believed to be the one that granted last. */
    wrong = changed(right, "(m.server <> convert_from($1, 'UTF8') OR m.fence_floor < $3) AND",
                    "m.server <> convert_from($1, 'UTF8') AND");
    put_meta(c, name, began - HOUR);
    (void)ask(c, &wrong, &server);
    assert_true(number(c, "SELECT fence_floor FROM {meta}") < server.floor);
    /* Its clock is behind the other one's tokens. */
    server.floor = server_us(c) + HOUR;
    EXPECT(ask(c, &right, &server), SQLOCK_OUT_BEHIND);
}

/* A's grant is there, and lasts. On the server that is gone it was released, and others were
 * granted the next one: A's request, sent again, must not be told the old one. */
static void test_grant_that_a_lost_server_had_ended_is_drawn_anew(void **state)
{
    conn c = pg_open();
    char name[96];
    request server = server_called(c, "second", 0, name, sizeof name),
            r = request_of('A', 5000 * MS);
    script meet = ours(SQLOCK_STMT_REINCARNATE), grant = ours(SQLOCK_STMT_ACQUIRE);
    (void)state;
    for (int i = 0; i < 2; i++) {
        int64_t first, again;
        if (i == 1) /* wrong */
            grant = changed(grant, "AND l.token > k.floor THEN l.token", "THEN l.token");
        run(c, "DELETE FROM {lock}");
        put_meta(c, name, server_us(c) - HOUR);
        first = acquire(c, r).token;
        put_meta(c, "first", first);
        EXPECT(ask(c, &meet, &server), SQLOCK_OUT_DONE);
        again = ask(c, &grant, &r).token;
        assert_int_equal(again > first + 1, i == 0);
        r.token = again; /* a renewal does not draw: what is held goes on */
        EXPECT(renew(c, r), SQLOCK_OUT_DONE);
    }
}

/* B has read the floor when somebody raises it, and another is granted the lock above it. */
static int64_t grant_with_an_old_floor(const script *held, int64_t *last)
{
    conn a = pg_open(), c = pg_open(), gate = pg_open();
    request ra = request_of('A', 5000 * MS), rb = request_of('B', 5000 * MS);
    answer got;
    run(a, "UPDATE {meta} SET fence_floor = 5");
    put_row(a, 5);
    pg_hold(gate);
    pg_start(c, held, 0, &rb);
    assert_int_equal(pg_waits(c), 1);
    run(a, "UPDATE {meta} SET fence_floor = 1000");
    ra.token = *last = acquire(a, ra).token;
    assert_int_equal(ra.token, 1001);
    EXPECT(release(a, ra), SQLOCK_OUT_DONE);
    pg_unhold(gate);
    got = pg_finish(c);
    EXPECT(got, SQLOCK_OUT_DONE);
    return got.token;
}

static void test_floor_that_was_read_earlier_lowers_no_token(void **state)
{
    script right = ours_held(), wrong;
    int64_t last = 0, got;
    (void)state;
    got = grant_with_an_old_floor(&right, &last);
    assert_int_equal(got, last + 1);
    wrong = changed(right, "greatest(l.token, k.floor) + 1", "k.floor + 1");
    got = grant_with_an_old_floor(&wrong, &last);
    assert_true(got < last);
}

static void test_two_who_meet_a_new_server_raise_the_floor_once(void **state)
{
    conn a = pg_open(), b = pg_open();
    char name[96];
    request server = server_called(a, "second", 0, name, sizeof name);
    script right = ours(SQLOCK_STMT_REINCARNATE);
    script wrong =
        changed(right, "(m.server <> convert_from($1, 'UTF8') OR m.fence_floor < $3) AND", "");
    answer got;
    (void)state;
    for (int i = 0; i < 2; i++) {
        put_meta(a, "first", 6);
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
    assert_int_equal(ask(b, &right, &server).rows, 0); /* and who comes later finds it done */
}

/* ---- who is known -----------------------------------------------------------------------------
 */

/* A session, or a pooler's client, can live to see another timeline, another start, another meta
 * table. */
static void test_server_that_meta_does_not_know_grants_nothing(void **state)
{
    static const char *const others[] = {
        "regexp_replace(server, '/[0-9A-F]+/', '/7FFFFFFF/')", /* the timeline */
        "regexp_replace(server, '[0-9]+$', '1')",              /* the start */
        "regexp_replace(server, '#[0-9]+', '#1')",             /* the table */
    };
    conn c = pg_open();
    char name[96], sql[160];
    request r = request_of('A', 5000 * MS), new = request_name(r, "new", 3);
    script right = ours(SQLOCK_STMT_ACQUIRE);
    script wrong = changed(right, "split_part(m.server, '#', 2) = ", "'' <> ");
    (void)state;
    server_called(c, "second", 0, name, sizeof name);
    for (size_t i = 0; i < COUNT(others); i++) {
        put_meta(c, name, 5);
        run(c, "DELETE FROM {lock}");
        memset(r.owner, 'A', sizeof r.owner);
        r.token = acquire(c, r).token;
        EXPECT(release(c, r), SQLOCK_OUT_DONE);
        memset(r.owner, 'B', sizeof r.owner);
        snprintf(sql, sizeof sql, "UPDATE {meta} SET server = %s", others[i]);
        run(c, sql);
        EXPECT(ask(c, &right, &r), SQLOCK_OUT_STRANGER);
        EXPECT(ask(c, &right, &new), SQLOCK_OUT_STRANGER);
        assert_int_equal(number(c, "SELECT count(*) FROM {lock} WHERE owner IS NOT NULL"), 0);
        /* Wrong: who lived on grants before anyone said handshake. */
        EXPECT(ask(c, &wrong, &r), SQLOCK_OUT_DONE);
    }
}

/* ---- what may be missing ----------------------------------------------------------------------
 */

/* meta knew `before`; is `now` one that may lack commits? */
static int may_lack_commits(const script *meet, const char *before, const char *now)
{
    conn c = pg_open();
    request server = request_name(request_of('-', 0), now, strlen(now));
    int64_t began = server_us(c), lost_at;
    put_meta(c, before, 6);
    EXPECT(ask(c, meet, &server), SQLOCK_OUT_DONE);
    lost_at = number(c, "SELECT lost_at FROM {meta}");
    assert_true(lost_at == 0 || (lost_at >= began && lost_at <= server_us(c)));
    return lost_at != 0;
}

static void test_server_that_was_merely_started_anew_lacks_nothing(void **state)
{
    script right = ours(SQLOCK_STMT_REINCARNATE);
    script wrong = changed(right, "strpos(i.here, '@') = 0 AND", "");
    static const char known[] = "77/1#16384/00000001/1700000000000000";
    static const char weak[] = "77@/1#16384/00000001/1700000000000000";
    (void)state;
    assert_int_equal(may_lack_commits(&right, "", known), 0); /* the first ever */
    assert_int_equal(may_lack_commits(&right, known, "77/1#16384/00000001/1700000000000009"), 0);
    assert_int_equal(may_lack_commits(&right, known, "77/1#16384/00000002/1700000000000000"), 1);
    assert_int_equal(may_lack_commits(&right, known, "77/1#16385/00000001/1700000000000000"), 1);
    assert_int_equal(may_lack_commits(&right, known, "78/1#16384/00000001/1700000000000000"), 1);
    assert_int_equal(may_lack_commits(&right, known, "77/2#16384/00000001/1700000000000000"), 1);
    assert_int_equal(may_lack_commits(&right, known, weak), 1);
    assert_int_equal(may_lack_commits(&right, weak, known), 1);
    assert_int_equal(may_lack_commits(&right, weak, "77@/1#16384/00000001/1700000000000009"), 1);
    /* Wrong: a forgetful one that was started anew is believed to have all. */
    assert_int_equal(may_lack_commits(&wrong, weak, "77@/1#16384/00000001/1700000000000009"), 0);
}

static void test_nobody_is_granted_a_lock_in_a_grace(void **state)
{
    script right = ours(SQLOCK_STMT_ACQUIRE);
    (void)state;
    nobody_is_granted_a_lock_in_a_grace(
        pg_open(),
        changed(right, "($6 > 0 AND " PG_NOW " < (m.lost_at + least(m.longest, $6)))", "false"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_POSTGRES(test_tokens_rise_over_what_a_lost_server_granted),
        ON_POSTGRES(test_floor_is_the_clock_and_nothing_more),
        ON_POSTGRES(test_clock_behind_the_floor_is_refused_or_lifts_it),
        ON_POSTGRES(test_server_that_was_overtaken_goes_on_above_the_other),
        ON_POSTGRES(test_grant_that_a_lost_server_had_ended_is_drawn_anew),
        ON_POSTGRES(test_floor_that_was_read_earlier_lowers_no_token),
        ON_POSTGRES(test_two_who_meet_a_new_server_raise_the_floor_once),
        ON_POSTGRES(test_server_that_meta_does_not_know_grants_nothing),
        ON_POSTGRES(test_server_that_was_merely_started_anew_lacks_nothing),
        ON_POSTGRES(test_nobody_is_granted_a_lock_in_a_grace),
    };
    int missing = pg_missing();
    if (missing)
        return missing - 1;
    return cmocka_run_group_tests_name("servers on PostgreSQL", tests, NULL, NULL);
}
