#include "tests/unit/verb.h"

#include <string.h>

struct verb_stage s;

void begin(const struct verb *verb, int64_t wait_us)
{
    sqlock_mem_free(s.op.holder);
    error_forget(&s.op.err);
    error_forget(&s.op.refusal);
    memset(&s, 0, sizeof s);
    s.m.driver = &s.driver;
    s.m.request_us = 5000000;
    s.m.longest = TTL;
    s.m.n_hosts = 1;
    strcpy(s.m.label, "1@here");
    s.lock.m = &s.m;
    s.lock.ns = "";
    s.lock.name = "nightly";
    s.lock.name_len = strlen("nightly");
    s.lock.pending = PENDING_ACQUIRE;
    s.lock.fd = -1;
    s.lock.seat = -1;
    memset(s.lock.owner, 0xab, sizeof s.lock.owner);
    lease_init(&s.lock.lease, TTL, TTL / 3, 0);
    s.op = (sqlock_op){.m = &s.m, .lock = &s.lock, .verb = verb, .begun = NOW, .next_at = NOW};
    s.op.attempt = &s.attempt;
    s.op.once = wait_us == 0;
    s.op.deadline = NOW + (wait_us == 0 ? s.m.request_us : wait_us);
}

void begin_held(const struct verb *verb)
{
    struct answer grant = {.sent = NOW, .now = NOW, .left = TTL, .token = TOKEN};

    begin(verb, 0);
    assert_true(lock_granted(&s.lock, &grant, NOW));
}

void assert_next(sqlock_stmt stmt, int64_t now)
{
    assert_true(s.op.verb->next(&s.op, now));
    assert_int_equal(s.attempt.request.stmt, stmt);
    s.op.tries++;
}

static void answer_with(sqlock_outcome outcome, int64_t sent, int64_t now, const sqlock_rows *rows)
{
    struct answer a = {.outcome = (int)outcome,
                       .token = TOKEN,
                       .left = TTL,
                       .now = sent,
                       .since = sent,
                       .label = "2@there",
                       .sent = sent,
                       .received = now,
                       .rows = rows};

    s.op.verb->on_answer(&s.op, &a, now);
}

void answer(sqlock_outcome outcome, int64_t sent)
{
    answer_with(outcome, sent, sent + 1000, NULL);
}

void answer_late(sqlock_outcome outcome, int64_t sent, int64_t now)
{
    answer_with(outcome, sent, now, NULL);
}

void answer_rows(sqlock_outcome outcome, int64_t sent, const sqlock_rows *rows)
{
    answer_with(outcome, sent, sent + 1000, rows);
}

void fail_request(int code, unsigned flags, int64_t now)
{
    op_error_set(&s.op, code, flags, "it failed");
    if (s.op.verb->on_failure != NULL)
        s.op.verb->on_failure(&s.op, now);
    else
        op_failed(&s.op, now);
}

void assert_done(int code)
{
    assert_true(s.op.decided);
    assert_int_equal(s.op.code, code);
}
