/* P5, P13: registers whose requests and replies are lost, or late. */
#include "tests/drivers/suite_register.h"

/* ---- a driver that lets a test act before a set, or keeps one back --------------------------- */

static struct {
    int n;                                     /* sets so far */
    void (*before)(void *user, int n, void *); /* NULL: nothing */
    void *user;
    int lose; /* so many sets do not arrive; the first is kept */
    bool arrive;
    sqlock_value values[8];
    char bytes[8][256];
} tap;

static void keep_back(const sqlock_value *values)
{
    size_t n = spied_driver()->dialect->scripts[SQLOCK_STMT_REGISTER_SET].n_params;

    memcpy(tap.values, values, n * sizeof *values);
    for (size_t i = 0; i < n; i++)
        if (values[i].type == SQLOCK_BYTES && values[i].len > 0) {
            memcpy(tap.bytes[i], values[i].data, values[i].len);
            tap.values[i].data = tap.bytes[i];
        }
}

static int tap_run(void *conn, sqlock_stmt stmt, const sqlock_value *values, size_t n,
                   int64_t deadline, sqlock_rows *rows, sqlock_error *err)
{
    const sqlock_driver *real = spied_driver();

    if (tap.arrive) {
        size_t before = sqlock_rows_count(rows);
        int64_t its_own = sqlock_now_us() + INT64_C(10000000);

        tap.arrive = false;
        assert_int_equal(
            real->run(conn, SQLOCK_STMT_REGISTER_SET, tap.values, 1, its_own, rows, err), 0);
        sqlock_rows_cut(rows, before);
    }
    if (stmt == SQLOCK_STMT_REGISTER_SET) {
        tap.n++;
        if (tap.n == 1)
            keep_back(values);
        if (tap.before)
            tap.before(tap.user, tap.n, conn);
        if (tap.n <= tap.lose)
            return sqlock_error_db(err, "08006", 0, SQLOCK_RECONNECT | SQLOCK_MAYBE, "kept back");
    }
    return real->run(conn, stmt, values, n, deadline, rows, err);
}

static sqlock *open_tapped(struct world *w, int32_t request_ms)
{
    memset(&tap, 0, sizeof tap);
    w->driver.run = tap_run;
    return open_changed(w, request_ms);
}

/* ---- replies and requests that are lost ------------------------------------------------------ */

/* Before the second attempt others change the register, so many times. */
struct others {
    sqlock *m;
    int times;
    int64_t version;
};

static void change_it(void *user, int n, void *conn)
{
    struct others *o = user;

    (void)conn;
    for (int i = 0; n == 2 && i < o->times; i++)
        o->version = set_register(o->m, NAME, "theirs", read_register(o->m, NAME, NULL));
}

static int set_with_others(struct world *w, bool applied, int times, int64_t *out_before,
                           int64_t *out_told, struct others *others)
{
    sqlock *m = open_tapped(w, patience_ms(5000));

    others->m = open_manager(w, NULL);
    others->times = times;
    *out_before = set_register(others->m, NAME, "before", read_register(others->m, NAME, NULL));
    tap.before = change_it;
    tap.user = others;
    if (applied)
        spy_lose_reply(SQLOCK_STMT_REGISTER_SET);
    else
        tap.lose = 1;
    *out_told = -7;
    return set_register_code(m, NAME, "ours", *out_before, out_told, &said);
}

TEST(test_lost_reply_is_told_as_far_as_anybody_can_know)
{
    struct others o = {0};
    int64_t before, told;
    int rc;

    /* It was not applied: the very next version is somebody else's. Where versions follow the clock
     * others mostly leave a gap, and then nobody can know. */
    rc = set_with_others(w, false, 1, &before, &told, &o);
    assert_int_equal(rc, o.version == before + 1 ? SQLOCK_CONFLICT : SQLOCK_EUNSURE);
    assert_int_equal(told, rc == SQLOCK_CONFLICT ? before + 1 : -7);
    assert_next(w, read_register(o.m, NAME, "theirs"), before);
    /* It was applied, and changed from there; then it was not, and changed twice: they look alike.
     */
    assert_int_equal(set_with_others(w, true, 1, &before, &told, &o), SQLOCK_EUNSURE);
    assert_int_equal(told, -7);
    assert_next(w, read_register(o.m, NAME, "theirs"), before + 1);
    assert_int_equal(set_with_others(w, false, 2, &before, &told, &o), SQLOCK_EUNSURE);
    assert_next(w, read_register(o.m, NAME, "theirs"), before + 1);
}

/* The link is gone until the call has ended; what it sent arrives afterwards. */
static void set_arrives(struct world *w, bool in_time)
{
    sqlock *m = open_tapped(w, in_time ? patience_ms(5000) : 1000);
    sqlock *other = open_manager(w, NULL);
    int64_t version = set_register(other, NAME, "before", read_register(other, NAME, NULL)),
            told = -7;

    tap.lose = 1000000;
    if (!in_time) {
        says(SQLOCK_EUNSURE, set_register_code(m, NAME, "late", version, &told, &said));
        assert_int_equal(told, -7);
        sleep_ms(100); /* the clocks are known to a fraction of that */
    } else {
        tap.lose = 1;
        tap.before = NULL;
        told = set_register(m, NAME, "late", version); /* the second attempt; the first is kept */
        assert_next(w, told, version);
    }
    tap.arrive = true;
    if (in_time) /* it finds what the second one did */
        assert_int_equal(read_register(m, NAME, "late"), told);
    else
        assert_int_equal(read_register(m, NAME, "before"), version);
    assert_false(tap.arrive);
}

TEST(test_set_that_arrives_late_does_nothing)
{
    set_arrives(w, true);
    set_arrives(w, false);
}
