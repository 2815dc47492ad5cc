/* Races of leases that read the same on several databases: names, late releases, late statements,
 * a grace. What damages a statement is each database's own. */
#include "races.h"

/* ---- names (P1, P15) --------------------------------------------------------------------------
 */

void names_are_bytes(conn c, const char *too_long)
{
    char longest[256], other[256];
    request r = request_of('A', 5000 * MS);
    const struct {
        const char *name;
        size_t len;
    } names[] = {{"job", 3},         {"Job", 3},  {"job ", 4},    {"job\0", 4}, {"job\xff", 4},
                 {"job\xff\xfe", 5}, {" job", 4}, {longest, 255}, {other, 255}, {longest, 254}};
    memset(longest, 'x', sizeof longest);
    memset(other, 'x', sizeof other);
    other[254] = 'y';
    for (size_t i = 0; i < COUNT(names); i++) {
        answer got = acquire(c, request_name(r, names[i].name, names[i].len));
        EXPECT(got, SQLOCK_OUT_DONE);
    }
    assert_int_equal(number(c, "SELECT count(*) FROM {lock}"), COUNT(names));
    assert_string_equal(acquire(c, request_name(r, longest, 256)).error, too_long);
}

/* The first is held as "bc" of "a", and each as it comes: all that are asked for are of "ab". */
void names_are_told_apart(conn c, const mistaken *wrong, size_t n)
{
    request r = request_name(request_of('A', 5000 * MS), "bc", 2);
    r.ns = "a", r.ns_len = 1;
    run(c, "DELETE FROM {lock}");
    EXPECT(acquire(c, r), SQLOCK_OUT_DONE);
    r.ns = "ab", r.ns_len = 2;
    for (size_t i = 0; i < n; i++) {
        r = request_name(r, wrong[i].name, strlen(wrong[i].name));
        memset(r.owner, 'B' + (int)i, sizeof r.owner);
        EXPECT(ask(c, &wrong[i].how, &r), SQLOCK_OUT_HELD);
        EXPECT(acquire(c, r), SQLOCK_OUT_DONE);
    }
}

/* ---- owners (P3) ------------------------------------------------------------------------------
 */

/* A's lease ran out, `successor` was granted the lock, and A's release comes late. */
static answer late_release(conn a, conn b, const script *s, char successor)
{
    request ra = request_of('A', 5000 * MS), rb = request_of(successor, 5000 * MS);
    run(a, "DELETE FROM {lock}");
    ra.token = acquire(a, ra).token;
    let_it_run_out(a);
    rb.token = acquire(b, rb).token;
    assert_true(rb.token > ra.token);
    return ask(a, s, &ra);
}

void late_release_frees_nobody(conn a, conn b, script by_name, script by_owner)
{
    script right = ours(SQLOCK_STMT_RELEASE);
    EXPECT(late_release(a, b, &right, 'B'), SQLOCK_OUT_TAKEN);
    assert_int_equal(row_owner(a), 'B');
    EXPECT(late_release(a, b, &right, 'A'), SQLOCK_OUT_TAKEN); /* the same request, granted again */
    assert_int_equal(row_owner(a), 'A');
    EXPECT(late_release(a, b, &by_name, 'B'), SQLOCK_OUT_DONE);
    assert_int_equal(row_owner(a), -1);
    EXPECT(late_release(a, b, &by_owner, 'A'), SQLOCK_OUT_DONE);
    assert_int_equal(row_owner(a), -1);
}

/* ---- time (P4, P5) ----------------------------------------------------------------------------
 */

void nothing_is_done_too_late(conn c, answer (*late)(const script *, request), script wrong_grant,
                              script wrong_renewal)
{
    request r = request_of('A', 5000 * MS), too_late = request_of('B', 5000 * MS);
    script grant = ours(SQLOCK_STMT_ACQUIRE), extend = ours(SQLOCK_STMT_RENEW);
    int64_t rows = number(c, "SELECT count(*) FROM {lock}"), exp = 0;
    EXPECT(late(&grant, r), SQLOCK_OUT_LATE);
    assert_int_equal(number(c, "SELECT count(*) FROM {lock}"), rows);
    if (rows > 0)
        assert_int_equal(row_owner(c), 'X');
    /* Wrong: whoever asked has given up; the lock is held by nobody for a whole lease. */
    EXPECT(late(&wrong_grant, r), SQLOCK_OUT_DONE);
    assert_int_equal(row_owner(c), 'A');
    too_late.not_after = 1;
    EXPECT(acquire(c, too_late),
           SQLOCK_OUT_HELD); /* who waits is told of the holder all the same */

    r.token = number(c, "SELECT token FROM {lock}");
    exp = number(c, "SELECT exp FROM {lock}");
    EXPECT(late(&extend, r), SQLOCK_OUT_LATE);
    assert_int_equal(number(c, "SELECT exp FROM {lock}"), exp);
    EXPECT(late(&wrong_renewal, r), SQLOCK_OUT_DONE);
    assert_true(number(c, "SELECT exp FROM {lock}") > exp);
}

/* ---- grace ------------------------------------------------------------------------------------
 */

/* Ten seconds ago the server took over, and may lack commits; no lease was longer than a minute. */
void nobody_is_granted_a_lock_in_a_grace(conn c, script eager)
{
    int64_t lost_at = server_us(c) - 10000 * MS;
    request a = request_of('A', 5000 * MS), b = request_of('B', 5000 * MS);
    request new = request_name(b, "new", 3);
    char lost[96];
    answer got;
    run(c, "UPDATE {meta} SET longest = 60000000");
    a.token = acquire(c, a).token;
    snprintf(lost, sizeof lost, "UPDATE {meta} SET lost_at = %lld", (long long)lost_at);
    run(c, lost); /* on another's connection: this one is not greeted anew */
    a.grace = b.grace = new.grace = 30000 * MS;
    EXPECT(acquire(c, b), SQLOCK_OUT_HELD);
    EXPECT(renew(c, a), SQLOCK_OUT_DONE); /* what is known goes on: with its token, */
    got = acquire(c, a);                  /* and if it is asked for again */
    EXPECT(got, SQLOCK_OUT_DONE);
    assert_int_equal(got.token, a.token);
    EXPECT(release(c, a), SQLOCK_OUT_DONE);
    got = acquire(c, b);
    EXPECT(got, SQLOCK_OUT_GRACE);
    assert_true(got.left > 15000 * MS && got.left <= 20000 * MS);
    EXPECT(acquire(c, new), SQLOCK_OUT_GRACE);
    EXPECT(ask(c, &eager, &new), SQLOCK_OUT_DONE); /* wrong: somebody may believe that it has it */
    run(c, "DELETE FROM {lock}");
    /* The longest lease, if that is shorter. */
    new.grace = 120000 * MS;
    got = acquire(c, new);
    EXPECT(got, SQLOCK_OUT_GRACE);
    assert_true(got.left > 45000 * MS && got.left <= 50000 * MS);
    run(c, "UPDATE {meta} SET longest = 9000000");
    EXPECT(acquire(c, new), SQLOCK_OUT_DONE);
    run(c, "UPDATE {meta} SET longest = 60000000");
    b.grace = 0;
    EXPECT(acquire(c, b), SQLOCK_OUT_DONE);
    run(c, "DELETE FROM {lock}");
    b.grace = 9000 * MS;
    EXPECT(acquire(c, b), SQLOCK_OUT_DONE);
    run(c, "DELETE FROM {lock}; UPDATE {meta} SET lost_at = 0");
    b.grace = 120000 * MS;
    EXPECT(acquire(c, b), SQLOCK_OUT_DONE);
}
