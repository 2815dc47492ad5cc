/* The driver of all managers of worlds: the real one, which counts, and fails as it is told. */
#include "tests/drivers/suite.h"

#include <stdatomic.h>

static const sqlock_driver *real;
static sqlock_driver spied;
static atomic_int lost_stmt, dead_stmt; /* + 1 */
static atomic_int dead_skip, denials, ended_owners;
static atomic_int failing_stmt; /* + 1 */
static atomic_llong failure_at;
static atomic_long opens, runs[SQLOCK_STMT_COUNT], requests[SQLOCK_STMT_COUNT];

static int count_open(const sqlock_conn_opts *opts, int64_t deadline, void **out_conn,
                      sqlock_error *err)
{
    int rc = real->open(opts, deadline, out_conn, err);

    atomic_fetch_add(&opens, 1); /* once it is over: a socket has been made close-on-exec by then */
    return rc;
}

/* A request that is on its way on a connection which its client has given up. */
static struct held_back {
    pthread_mutex_t mu;
    int on; /* 1: they do not arrive; 2: the first of them arrives before the next request */
    sqlock_stmt stmt;
    int n, most; /* so many of them */
    sqlock_value values[16];
    unsigned char bytes[16][SQLOCK_LABEL_MAX + 1];
} held_back = {.mu = PTHREAD_MUTEX_INITIALIZER};

static void hold_back(const sqlock_value *values)
{
    size_t n;

    if (held_back.n++ > 0 || held_back.stmt == SQLOCK_STMT_COUNT)
        return;
    n = real->dialect->scripts[held_back.stmt].n_params;
    memcpy(held_back.values, values, n * sizeof *values);
    for (size_t i = 0; i < n; i++)
        if (values[i].type == SQLOCK_BYTES && values[i].len > 0) {
            memcpy(held_back.bytes[i], values[i].data, values[i].len);
            held_back.values[i].data = held_back.bytes[i];
        }
}

/* 1: this request does not arrive. */
static int is_held_back(void *conn, sqlock_stmt stmt, const sqlock_value *values, int64_t deadline,
                        sqlock_rows *rows, sqlock_error *err)
{
    int back;

    pthread_mutex_lock(&held_back.mu);
    back = held_back.on == 1 && held_back.n < held_back.most &&
           (stmt == held_back.stmt || held_back.stmt == SQLOCK_STMT_COUNT);
    if (back)
        hold_back(values);
    if (held_back.on == 2) {
        size_t before = sqlock_rows_count(rows);

        held_back.on = 0;
        real->run(conn, NULL, held_back.stmt, held_back.values, 1, deadline, rows, err);
        sqlock_rows_cut(rows, before);
    }
    pthread_mutex_unlock(&held_back.mu);
    return back;
}

void spy_hold_back(sqlock_stmt stmt, int most)
{
    pthread_mutex_lock(&held_back.mu);
    held_back.on = 1;
    held_back.stmt = stmt;
    held_back.n = 0;
    held_back.most = most;
    pthread_mutex_unlock(&held_back.mu);
}

int spy_held_back(void)
{
    int n;

    pthread_mutex_lock(&held_back.mu);
    n = held_back.n;
    pthread_mutex_unlock(&held_back.mu);
    return n;
}

void spy_arrive(int arrive)
{
    pthread_mutex_lock(&held_back.mu);
    held_back.on = arrive ? 2 : 0;
    pthread_mutex_unlock(&held_back.mu);
}

int spy_answer(sqlock_rows *rows, size_t request, sqlock_outcome outcome)
{
    return sqlock_rows_add(rows, request) != 0 || sqlock_rows_put_int(rows, 0) != 0 ||
                   sqlock_rows_put_int(rows, outcome) != 0
               ? SQLOCK_ENOMEM
               : 0;
}

/* Each of the requests has this outcome. */
static int answer_all(size_t n, sqlock_rows *rows, sqlock_outcome outcome)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = spy_answer(rows, i, outcome);
    return rc;
}

static void sleep_until(int64_t at_us)
{
    while (sqlock_now_us() < at_us)
        sleep_ms(1);
}

static int lose(sqlock_stmt stmt, const char *text, sqlock_error *err)
{
    unsigned doubt = SQLOCK_LEAVES_DOUBT(real->dialect->scripts[stmt].flags) ? SQLOCK_MAYBE : 0;

    return sqlock_error_db(err, "08006", 0, SQLOCK_RECONNECT | doubt, text);
}

static int hang(int64_t deadline, sqlock_error *err)
{
    sleep_until(deadline);
    return sqlock_error_set(err, SQLOCK_ETIMEOUT, SQLOCK_MAYBE | SQLOCK_RETRY | SQLOCK_RECONNECT,
                            "nothing answers");
}

static int count_run(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                     const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                     sqlock_error *err)
{
    atomic_fetch_add(&runs[stmt], 1);
    atomic_fetch_add(&requests[stmt], (long)n);
    int lost = (int)stmt + 1;

    if (atomic_load(&dead_stmt) == (int)stmt + 1 && atomic_fetch_sub(&dead_skip, 1) == 0)
        return sqlock_error_db(err, "08006", 0, SQLOCK_RECONNECT, "the connection was dead");
    if (stmt == SQLOCK_STMT_RENEW && atomic_load(&denials) > 0) {
        atomic_fetch_sub(&denials, 1);
        /* as a statement answers that has seen a row as it was before somebody's change */
        return answer_all(n, rows, SQLOCK_OUT_TAKEN);
    }
    if (stmt == SQLOCK_STMT_ACQUIRE && atomic_load(&ended_owners) > 0) {
        atomic_fetch_sub(&ended_owners, 1);
        return answer_all(n, rows, SQLOCK_OUT_RELEASED);
    }
    if (is_held_back(conn, stmt, values, deadline, rows, err))
        return held_back.stmt == SQLOCK_STMT_COUNT ? hang(deadline, err)
                                                   : lose(stmt, "held back", err);
    int rc = real->run(conn, call, stmt, values, n, deadline, rows, err);

    if (rc != 0 && atomic_load(&failing_stmt) == (int)stmt + 1)
        sleep_until(atomic_load(&failure_at));
    if (rc != 0 || !atomic_compare_exchange_strong(&lost_stmt, &lost, 0))
        return rc;
    return lose(stmt, "the reply is lost", err);
}

void spy_deny_renewals(int n)
{
    atomic_store(&denials, n);
}

void spy_end_owners(int n)
{
    atomic_store(&ended_owners, n);
}

void spy_stop_failures(sqlock_stmt stmt, int64_t until_us)
{
    atomic_store(&failure_at, until_us);
    atomic_store(&failing_stmt, (int)stmt + 1);
}

void spy_find_dead(sqlock_stmt stmt, int skip)
{
    atomic_store(&dead_skip, skip);
    atomic_store(&dead_stmt, (int)stmt + 1);
}

void spy_lose_reply(sqlock_stmt stmt)
{
    atomic_store(&lost_stmt, (int)stmt + 1);
}

void spy_start(const struct quirks *q)
{
    real = q->driver();
    spied = *real;
    spied.open = count_open;
    spied.run = count_run;
    atomic_store(&lost_stmt, 0);
    atomic_store(&dead_stmt, 0);
    atomic_store(&denials, 0);
    atomic_store(&ended_owners, 0);
    atomic_store(&failing_stmt, 0);
    held_back.on = held_back.n = 0;
    atomic_store(&opens, 0);
    for (int i = 0; i < SQLOCK_STMT_COUNT; i++) {
        atomic_store(&runs[i], 0);
        atomic_store(&requests[i], 0);
    }
}

const sqlock_driver *spied_driver(void)
{
    return &spied;
}

static long sum(atomic_long *of, int stmt)
{
    long n = 0;

    for (int i = 0; i < SQLOCK_STMT_COUNT; i++)
        n += stmt == -1 || stmt == i ? atomic_load(&of[i]) : 0;
    return n;
}

long spy_opens(void)
{
    return atomic_load(&opens);
}

long spy_runs(int stmt)
{
    return sum(runs, stmt);
}

long spy_requests(int stmt)
{
    return sum(requests, stmt);
}
