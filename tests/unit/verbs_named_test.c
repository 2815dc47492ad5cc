/* The verbs of requests that are not about a handle's lock, by values alone. */
#include <string.h>

#include "core/leases/leases.h"
#include "core/leases/sweep.h"
#include "core/sql/rows.h"
#include "core/sql/texts.h"
#include "core/transaction/adopted.h"
#include "core/transaction/blockers.h"
#include "tests/unit/verb.h"

extern const sqlock_dialect sqlock_fake_dialect;

/* ---- break ----------------------------------------------------------------------------------- */

static struct texts *texts;
static int64_t token;

static void begin_break(void)
{
    sqlock_error err;

    begin(&break_verb, 0);
    if (texts == NULL)
        assert_int_equal(texts_render(&sqlock_fake_dialect, NULL, NULL, &texts, &err), 0);
    s.m.texts = texts;
    token = TOKEN;
    s.op.work = &token;
    assert_next(SQLOCK_STMT_BREAK_NOTED, NOW);
    assert_int_equal(s.attempt.request.values[2].i, TOKEN);
}

TEST(test_break_has_succeeded_before_anyone_is_called)
{
    sqlock_rows *rows = rows_new();

    begin_break();
    answer(SQLOCK_OUT_DONE, NOW);
    assert_true(s.op.succeeded && !s.op.decided);
    assert_next(SQLOCK_STMT_WAITERS, NOW);
    answer_rows(SQLOCK_OUT_NONE, NOW, rows); /* no one waits */
    assert_done(0);
    begin_break();
    answer(SQLOCK_OUT_DONE, NOW);
    assert_next(SQLOCK_STMT_WAITERS, NOW);
    fail_request(SQLOCK_EUNREACH, SQLOCK_RETRY | SQLOCK_RECONNECT, NOW);
    assert_done(0);
    rows_free(rows);
}

/* Another grant is not broken. After a lost reply no one knows who ended the one that was meant. */
TEST(test_break_of_a_grant_that_is_over_says_what_is_known)
{
    begin_break();
    answer(SQLOCK_OUT_TAKEN, NOW);
    assert_done(SQLOCK_ELOST);
    begin_break();
    fail_request(SQLOCK_EUNREACH, SQLOCK_RETRY | SQLOCK_RECONNECT | SQLOCK_MAYBE, NOW);
    assert_true(s.op.unsure && !s.op.decided);
    assert_next(SQLOCK_STMT_BREAK_NOTED, NOW);
    answer(SQLOCK_OUT_TAKEN, NOW);
    assert_done(SQLOCK_EUNSURE);
    begin_break();
    fail_request(SQLOCK_EUNREACH, SQLOCK_RETRY | SQLOCK_RECONNECT | SQLOCK_MAYBE, NOW);
    assert_next(SQLOCK_STMT_BREAK_NOTED, NOW);
    answer(SQLOCK_OUT_BROKEN, NOW);
    assert_true(s.op.succeeded);
}

TEST(test_break_does_without_the_note_in_an_older_schema)
{
    begin_break();
    fail_request(SQLOCK_ESCHEMA, 0, NOW);
    assert_next(SQLOCK_STMT_BREAK, NOW);
    answer(SQLOCK_OUT_DONE, NOW);
    assert_true(s.op.succeeded);
}

/* ---- registers ------------------------------------------------------------------------------- */

static sqlock_rows *register_row(int64_t version, const char *value)
{
    sqlock_rows *rows = rows_new();

    sqlock_rows_add(rows, 0);
    sqlock_rows_put_int(rows, 0);
    sqlock_rows_put_int(rows, SQLOCK_OUT_DONE);
    sqlock_rows_put_int(rows, version);
    sqlock_rows_put_null(rows);
    sqlock_rows_put_int(rows, NOW);
    if (value != NULL)
        sqlock_rows_put_bytes(rows, value, strlen(value));
    return rows;
}

TEST(test_P13_value_that_does_not_fit_is_only_measured)
{
    sqlock_rows *rows = register_row(3, "value");
    char buf[8] = "";
    struct register_look l = {.buf = buf, .size = 4};

    begin(&register_get_verb, 0);
    s.op.work = &l;
    assert_next(SQLOCK_STMT_REGISTER_GET, NOW);
    answer_rows(SQLOCK_OUT_DONE, NOW, rows);
    assert_done(0);
    assert_int_equal(l.len, 5);
    assert_int_equal(l.version, 3);
    assert_false(l.fits);
    assert_string_equal(buf, "");
    begin(&register_get_verb, 0);
    l = (struct register_look){.buf = buf, .size = sizeof buf};
    s.op.work = &l;
    assert_next(SQLOCK_STMT_REGISTER_GET, NOW);
    answer_rows(SQLOCK_OUT_DONE, NOW, rows);
    assert_true(l.fits);
    assert_string_equal(buf, "value");
    rows_free(rows);
}

/* After a lost reply, another version than the next one may come from this change and one more. */
TEST(test_P13_conflict_after_a_lost_reply_is_unsure)
{
    for (int lost = 0; lost < 2; lost++)
        for (int64_t version = 4; version <= 5; version++) {
            struct register_change c = {.value = "v", .len = 1, .expected = 3};
            sqlock_rows *rows = register_row(version, NULL);

            begin(&register_set_verb, 0);
            s.op.work = &c;
            assert_next(SQLOCK_STMT_REGISTER_SET, NOW);
            assert_int_equal(s.attempt.request.values[3].i, 3);
            if (lost) {
                fail_request(SQLOCK_EUNREACH, SQLOCK_RETRY | SQLOCK_RECONNECT | SQLOCK_MAYBE, NOW);
                assert_next(SQLOCK_STMT_REGISTER_SET, NOW);
            }
            answer_rows(SQLOCK_OUT_CONFLICT, NOW, rows);
            assert_done(lost && version == 5 ? SQLOCK_EUNSURE : 0);
            assert_int_equal(c.conflict, !(lost && version == 5));
            rows_free(rows);
        }
}

/* ---- the reaper ------------------------------------------------------------------------------ */

static void put_row(sqlock_rows *rows, sqlock_outcome outcome, int64_t number, int64_t left)
{
    sqlock_rows_add(rows, 0);
    sqlock_rows_put_int(rows, 0);
    sqlock_rows_put_int(rows, outcome);
    sqlock_rows_put_int(rows, number);
    sqlock_rows_put_int(rows, left);
    sqlock_rows_put_int(rows, NOW);
    sqlock_rows_put_null(rows);
    sqlock_rows_put_null(rows);
    sqlock_rows_put_bytes(rows, "name", 4);
    sqlock_rows_put_bytes(rows, "", 0);
}

static struct sweep sweep;

static void begin_sweep(void)
{
    sqlock_error err;

    sweep = (struct sweep){.o = {.batch = 3,
                                 .grace_ms = 1000,
                                 .idle_ms = 2000,
                                 .limit = SQLOCK_REAP_NO_LIMIT,
                                 .max_ms = SQLOCK_REAP_NO_LIMIT}};
    assert_int_equal(sweep_init(&sweep, &err), 0);
    begin_held(&sweep_verb);
    s.op.work = &sweep;
    assert_next(SQLOCK_STMT_SWEEP, NOW);
    put_row(sweep.page, SQLOCK_OUT_EXPIRED, 5, -7000000);
    put_row(sweep.page, SQLOCK_OUT_IDLE, 9, 0);
    put_row(sweep.page, SQLOCK_OUT_DONE, 2, 0);
    answer(SQLOCK_OUT_DONE, NOW);
}

/* The floor that the pruner raises is the largest token that it takes away (P2). */
TEST(test_P12_sweep_frees_and_then_prunes_each_page)
{
    begin_sweep();
    assert_next(SQLOCK_STMT_REAP, NOW);
    assert_int_equal(s.attempt.request.values[5].i, NOW - 1000000);
    put_row(sweep.changed, SQLOCK_OUT_DONE, 1, 0);
    answer(SQLOCK_OUT_DONE, NOW);
    rows_clear(sweep.changed);
    assert_next(SQLOCK_STMT_PRUNE, NOW);
    assert_int_equal(s.attempt.request.n, 1);
    assert_int_equal(s.attempt.request.values[2].i, NOW - 2000000);
    assert_int_equal(s.attempt.request.values[3].i, 9);
    answer(SQLOCK_OUT_NONE, NOW); /* it was taken meanwhile */
    assert_false(s.op.verb->next(&s.op, NOW));
    assert_done(0);
    assert_int_equal(sweep.r.seen, 2);
    assert_int_equal(sweep.r.cleared, 1);
    assert_int_equal(sweep.r.pruned, 0);
    assert_int_equal(sweep.r.oldest_ms, 7000);
    sweep_free(&sweep);
}

TEST(test_P12_sweep_ends_with_its_own_lease)
{
    begin_sweep();
    assert_false(s.op.verb->next(&s.op, s.lock.lease.deadline));
    assert_done(SQLOCK_ELOST);
    sweep_free(&sweep);
}

/* ---- one request ----------------------------------------------------------------------------- */

TEST(test_row_that_was_deleted_at_once_is_made_again)
{
    begin(&ensure_verb, 0);
    assert_next(SQLOCK_STMT_ENSURE, NOW);
    answer(SQLOCK_OUT_NONE, NOW);
    assert_false(s.op.decided);
    assert_next(SQLOCK_STMT_ENSURE, NOW);
    answer(SQLOCK_OUT_DONE, NOW);
    assert_done(0);
}

TEST(test_guard_meets_the_server_by_any_request_behind_a_handshake)
{
    begin_held(&handshake_verb);
    s.op.work = &s.lock;
    assert_next(SQLOCK_STMT_LEASE, NOW);
    assert_true(s.op.needs_handshake);
    answer(SQLOCK_OUT_TAKEN, NOW);
    assert_done(0);
}

TEST(test_opening_is_tried_once)
{
    begin(&opening_verb, 0);
    s.m.flags = SQLOCK_OPEN_ACCEPT_WEAK;
    assert_next(SQLOCK_STMT_HANDSHAKE, NOW);
    assert_int_equal(s.attempt.request.values[0].i, 1);
    fail_request(SQLOCK_EUNREACH, SQLOCK_RETRY, NOW);
    assert_done(SQLOCK_EUNREACH);
    assert_string_equal(error_text(&s.op.err), "open: it failed");
}

/* Less and less often; not again where the right is missing. */
TEST(test_looks_for_blockers_become_rare)
{
    struct blockers b = {.session = 5, .pause = 1000};
    struct sqlock_conn conn = {.m = &s.m};
    int64_t pause = 0;

    b.rows = rows_new();
    b.conn = &conn;
    begin(&blockers_verb, TTL);
    mutex_init(&s.m.mu);
    s.op.work = &b;
    for (int64_t now = NOW, i = 0; i < 3; i++, now = s.op.next_at) {
        assert_next(SQLOCK_STMT_BLOCKERS, now);
        assert_int_equal(s.attempt.request.values[0].i, 5);
        answer(SQLOCK_OUT_NONE, now);
        assert_true(s.op.next_at - now > pause);
        pause = s.op.next_at - now;
    }
    fail_request(SQLOCK_EDENIED, 0, NOW);
    assert_int_equal(s.op.next_at, s.op.deadline);
    mutex_free(&s.m.mu);
    rows_free(b.rows);
}

static int free_texts(void **state)
{
    (void)state;
    texts_free(texts);
    texts = NULL;
    return 0;
}

TEST_MAIN_EACH(NULL, free_texts)
