/* Races of a withdrawn acquire that read the same on every database. The acquire was sent and its
 * answer was lost: it may still be on its way. */
#include "races.h"

/* A withdraws; then what it had asked for arrives. */
static answer arrives_after(const script *s, conn a, request r)
{
    EXPECT(ask(a, s, &r), SQLOCK_OUT_EARLY);
    return acquire(a, r);
}

void withdrawn_acquire_arrives(conn a, script no_tombstone)
{
    request r = request_of('A', 5000 * MS), b = request_of('B', 5000 * MS);
    script right = ours(SQLOCK_STMT_WITHDRAW);
    for (int made = 0; made < 2; made++) {
        run(a, "DELETE FROM {lock}");
        if (made) {
            b.token = acquire(a, b).token;
            EXPECT(release(a, b), SQLOCK_OUT_DONE);
        }
        EXPECT(arrives_after(&right, a, r), SQLOCK_OUT_RELEASED);
        assert_int_equal(row_owner(a), -1);
    }
    /* Wrong: granted, and nobody is there to renew or release it. */
    run(a, "DELETE FROM {lock}");
    r = request_of('C', 5000 * MS);
    EXPECT(arrives_after(&no_tombstone, a, r), SQLOCK_OUT_DONE);
    assert_int_equal(row_owner(a), 'C');
}

/* The row was idle for long. After the withdrawal comes the pruner, and then what had been asked
 * for. */
static answer arrives_after_pruner(const script *s, conn a, request r)
{
    script pruner = ours(SQLOCK_STMT_PRUNE);
    EXPECT(
        release(a, request_token(request_of('B', 0), acquire(a, request_of('B', 5000 * MS)).token)),
        SQLOCK_OUT_DONE);
    run(a, "UPDATE {lock} SET idle_since = 1");
    EXPECT(ask(a, s, &r), SQLOCK_OUT_EARLY);
    r.cut = 1000 * MS;
    (void)prune(a, &pruner, r);
    return acquire(a, r);
}

void withdrawn_acquire_arrives_after_the_pruner(conn a, script still_idle)
{
    script right = ours(SQLOCK_STMT_WITHDRAW);
    EXPECT(arrives_after_pruner(&right, a, request_of('A', 5000 * MS)), SQLOCK_OUT_RELEASED);
    assert_int_equal(row_owner(a), -1);
    /* Wrong: granted, and nobody is there to renew or release it. */
    EXPECT(arrives_after_pruner(&still_idle, a, request_of('C', 5000 * MS)), SQLOCK_OUT_DONE);
    assert_int_equal(row_owner(a), 'C');
}

void withdrawal_is_certain_later(conn a, conn b)
{
    request ra = request_of('A', 5000 * MS), rb = request_of('B', 5000 * MS), past = ra;
    script right = ours(SQLOCK_STMT_WITHDRAW), wrong = changed(right, "THEN 15", "THEN 14");
    past.not_after = 1;
    for (int i = 0; i < 2; i++) {
        run(a, "DELETE FROM {lock}");
        EXPECT(ask(a, i ? &wrong : &right, &ra), i ? SQLOCK_OUT_NEVER : SQLOCK_OUT_EARLY);
        EXPECT(withdraw(b, rb), SQLOCK_OUT_EARLY); /* takes the place of A's */
        EXPECT(acquire(a, ra), SQLOCK_OUT_DONE);   /* wrong: what can never be, has come */
    }
    EXPECT(withdraw(a, past), SQLOCK_OUT_DONE);
    assert_int_equal(row_owner(a), -1);
    EXPECT(withdraw(a, past), SQLOCK_OUT_DONE); /* it says the same again */
    past = request_of('C', 5000 * MS);
    past.not_after = 1;
    EXPECT(withdraw(a, past), SQLOCK_OUT_NEVER);
    EXPECT(withdraw(a, past), SQLOCK_OUT_NEVER);
}

/* P6: B's grant ended by `how`; C, who was never granted anything, withdraws; then B asks. */
void withdrawal_leaves_how_others_ended(conn a, conn b)
{
    const struct {
        sqlock_stmt how;
        int outcome;
    } ends[] = {{SQLOCK_STMT_BREAK, SQLOCK_OUT_BROKEN},
                {SQLOCK_STMT_REAP, SQLOCK_OUT_REAPED},
                {SQLOCK_STMT_RELEASE, SQLOCK_OUT_RELEASED}};
    request rc = request_of('C', 5000 * MS), rd = request_of('D', 5000 * MS);
    for (size_t i = 0; i < COUNT(ends); i++) {
        request rb = request_of('B', 5000 * MS);
        script how = ours(ends[i].how);
        run(a, "DELETE FROM {lock}");
        rb.token = acquire(b, rb).token;
        if (ends[i].how == SQLOCK_STMT_REAP)
            let_it_run_out(a);
        EXPECT(ask(a, &how, &rb), SQLOCK_OUT_DONE);
        EXPECT(withdraw(a, rc), SQLOCK_OUT_EARLY);
        EXPECT(renew(b, rb), ends[i].outcome);
        /* and whoever else comes and goes, what C asked for is granted nothing */
        rd.token = acquire(b, rd).token;
        EXPECT(release(b, rd), SQLOCK_OUT_DONE);
        EXPECT(acquire(a, rc), SQLOCK_OUT_RELEASED);
    }
}

void withdrawal_beside_another_holder(conn a, conn b)
{
    request ra = request_of('A', 5000 * MS), rb = request_of('B', 5000 * MS);
    ra.token = acquire(a, ra).token;
    let_it_run_out(a);
    rb.token = acquire(b, rb).token;
    EXPECT(withdraw(a, ra), SQLOCK_OUT_DONE); /* it was granted, and has ended */
    EXPECT(withdraw(a, request_of('C', 5000 * MS)), SQLOCK_OUT_EARLY);
    assert_int_equal(row_owner(b), 'B');
    EXPECT(renew(b, rb), SQLOCK_OUT_DONE);
    EXPECT(release(b, rb), SQLOCK_OUT_DONE);
}
