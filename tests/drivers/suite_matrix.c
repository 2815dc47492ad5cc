/* P14: every call on an adopted connection, in every kind of transaction, in every state that an
 * application may be in when it calls. What the application did before and does behind it commits
 * or is rolled back as if sqlock had not been there, and its session is as it was. */
#define SUITE_NEEDS GUARDS
#include <sqlock/rows.h>

#include "tests/drivers/suite_cas.h"

enum { LEASE_MS = 60000, TOKEN = 7 };

typedef enum situation {
    FRESH,   /* nothing was said yet but the beginning */
    OLD,     /* it has read and written */
    POINT,   /* it has savepoints of its own */
    READING, /* it has read half of an answer */
    FAILED,  /* its last statement failed */
    SITUATIONS
} situation;

static const char *const names[SITUATIONS] = {"fresh", "old", "savepoint", "half-read", "failed"};

static sqlock_lock *lock;

/* ---- the calls ------------------------------------------------------------------------------- */

static int call_guard(void)
{
    return sqlock_guard(lock, cas.conn, &said);
}

static int call_row_lock(void)
{
    return sqlock_row_lock(cas.conn, ROW("app_offer", 1), 1, NULL, &said);
}

static int call_name_lock(void)
{
    return sqlock_name_lock(cas.conn, "turn", NULL, &said);
}

static int call_update(void)
{
    return set_price(cas.conn, 1, sqlock_int(1000), 11);
}

static int call_insert(void)
{
    return insert_offer(50, 50);
}

static int call_delete(void)
{
    return sqlock_cas_delete(cas.conn, ROW("app_offer", 2), expect_version(sqlock_int(5)), &said);
}

static int call_fence(void)
{
    return sqlock_fence(cas.conn, ROW("app_fenced", 1), "fence", TOKEN, &said);
}

/* What is seen of it once it is committed: a number, before and after. */
static const struct call {
    int (*run)(void);
    const char *seen;
    int64_t before, after;
} guard = {call_guard, "SELECT 1", 1, 1}, row_lock = {call_row_lock, "SELECT 1", 1, 1},
  name_lock = {call_name_lock, "SELECT 1", 1, 1},
  update = {call_update, "SELECT price FROM app_offer WHERE id = 1", 10, 11},
  insert = {call_insert, "SELECT COUNT(*) FROM app_offer WHERE id = 50", 0, 1},
  delete = {call_delete, "SELECT COUNT(*) FROM app_offer WHERE id = 2", 1, 0},
  fence = {call_fence, "SELECT COALESCE(MAX(fence), 0) FROM app_fenced", 0, TOKEN};

/* ---- the stage ------------------------------------------------------------------------------- */

static void set_stage(struct world *w)
{
    set_cas_stage(w);
    app_exec(g.app, "CREATE TABLE app_fenced (id INTEGER PRIMARY KEY, fence BIGINT)");
    app_exec(g.app, "INSERT INTO app_fenced (id) VALUES (1)");
    ok(sqlock_ensure(cas.m, "turn", &said));
    lock = take_for(cas.m, "sale", LEASE_MS, SQLOCK_NO_RENEW);
}

static void reset(void)
{
    app_exec(cas.other, "DELETE FROM app_offer WHERE id IN (2, 50)");
    app_exec(cas.other, "INSERT INTO app_offer (id, price, version, code) VALUES (2, 20, 5, 9)");
    app_exec(cas.other, "UPDATE app_offer SET price = 10, version = 1000 WHERE id = 1");
    app_exec(cas.other, "UPDATE app_fenced SET fence = NULL");
    app_exec(cas.other, "UPDATE app_row SET n = 10 WHERE id = 1");
}

/* ---- one cell -------------------------------------------------------------------------------- */

/* Returns its session's settings then, or NULL where they cannot be asked for. */
static char *put_into(situation s)
{
    char *settings = NULL;

    if (s == POINT)
        app_exec(g.app, "SAVEPOINT theirs");
    if (s == OLD)
        seen_by(g.app);
    if (s != FRESH)
        app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 1");
    if (s == FAILED)
        assert_false(g.side->exec(g.app, OUR_WRONG));
    if (s != FAILED || !g.side->fails_whole)
        settings = g.side->settings(g.app);
    if (s == READING)
        g.side->start_reading(g.app);
    return settings;
}

/* What the application does behind the call, and how it ends. Returns what becomes of n. */
static int64_t go_on(const struct way *way, situation s, const char *end)
{
    bool commits = strcmp(end, "COMMIT") == 0;

    if (s == FAILED && g.side->fails_whole) {
        go_out(g.app, way, "ROLLBACK");
        return 10;
    }
    app_exec(g.app, "UPDATE app_row SET n = n + 10 WHERE id = 1");
    if (s == POINT) {
        app_exec(g.app, "ROLLBACK TO SAVEPOINT theirs", "RELEASE SAVEPOINT theirs");
    }
    assert_true(go_out(g.app, way, end));
    return !commits || s == POINT ? 10 : s == FRESH ? 20 : 21;
}

static void try_cell(const struct call *c, const struct way *way, situation s, const char *end)
{
    bool fit = !(s == READING && g.side->one_answer) && !(s == FAILED && g.side->fails_whole);
    char *outside, *inside, *last;
    int64_t n;

    reset();
    outside = g.side->settings(g.app);
    go_in(g.app, way);
    inside = put_into(s);
    last = s == READING ? NULL : g.side->last(g.app);
    if (fit)
        ok(c->run());
    else
        says(SQLOCK_ESTATE, c->run());
    still_says(last, g.side->last);
    if (s == READING)
        assert_int_equal(g.side->read_rest(g.app), APP_ROWS - 1);
    still_says(inside, g.side->settings);
    n = go_on(way, s, end);
    still_says(outside, g.side->settings);
    assert_int_equal(seen_by(cas.other), n);
    assert_int_equal(app_number(cas.other, c->seen),
                     fit && s != POINT && strcmp(end, "COMMIT") == 0 ? c->after : c->before);
}

static void try_all(const struct call *c)
{
    says(SQLOCK_ESTATE, c->run()); /* idle */
    for (const struct way *way = g.side->ways; way->name; way++)
        for (situation s = FRESH; s < SITUATIONS; s++) {
            print_message("%s, %s\n", way->name, names[s]);
            try_cell(c, way, s, "COMMIT");
            try_cell(c, way, s, "ROLLBACK");
        }
}

/* ---- the tests ------------------------------------------------------------------------------- */

#define MATRIX(call)                                                                               \
    TEST_AFTER(set_stage, test_##call##_is_adopted_in_every_transaction)                           \
    {                                                                                              \
        try_all(&call);                                                                            \
    }
MATRIX(guard)
MATRIX(row_lock)
MATRIX(name_lock)
MATRIX(update)
MATRIX(insert)
MATRIX(delete)
MATRIX(fence)
