/* What the statements cost the server: no WAL for a refusal, HOT updates for the rest. */
#include "races.h"

#include <stdlib.h>

/* Ten tries while the lock is held. *wal: bytes of the least busy of up to fifty rounds (other
 * sessions and the server itself write too). Returns whether a transaction id was drawn. */
static int refused(conn c, const script *s, int64_t *wal)
{
    request r = request_of('B', 5000 * MS);
    int64_t id = 0;
    *wal = INT64_MAX;
    for (int round = 0; round < 50 && *wal > 0; round++) {
        int64_t before = 0, after = 0;
        run(c, "BEGIN");
        before = number(c, "SELECT pg_current_wal_insert_lsn() - '0/0'");
        for (int i = 0; i < 10; i++) {
            answer a = ask(c, s, &r);
            assert_string_equal(a.error, "");
            assert_int_not_equal(a.outcome, SQLOCK_OUT_DONE);
        }
        after = number(c, "SELECT pg_current_wal_insert_lsn() - '0/0'");
        id = number(c, "SELECT count(txid_current_if_assigned())");
        run(c, "COMMIT");
        *wal = after - before < *wal ? after - before : *wal;
        if (*wal > 0)
            sleep_ms(100);
    }
    return id > 0;
}

/* Wrong: DO UPDATE locks the row before it asks its WHERE: a transaction id and WAL for each try.
 */
#define UPSERT_REFUSED                                                                             \
    "INSERT INTO {lock} AS l (ns, name, owner, token, exp)"                                        \
    " VALUES ($1, $2, $3, 1, {now} + $4)"                                                          \
    " ON CONFLICT (ns, name) DO UPDATE SET owner = excluded.owner, token = l.token + 1,"           \
    "  exp = {now} + $4 WHERE l.owner IS NULL OR l.exp <= {now} RETURNING 0, {DONE}, token"

TEST(refusals_write_nothing, ON_POSTGRES)
{
    conn c = open_conn(), guard = open_conn();
    script right = ours(SQLOCK_STMT_ACQUIRE), wrong = written(SQLOCK_STMT_ACQUIRE, UPSERT_REFUSED);
    int64_t wal = 0;
    EXPECT(acquire(c, request_of('A', 60000 * MS)), SQLOCK_OUT_DONE);
    assert_int_equal(refused(c, &right, &wal), 0);
    assert_int_equal(wal, 0);
    /* Nor does the try against a row that is free but locked. */
    let_it_run_out(guard);
    run(guard, "BEGIN; SELECT 1 FROM {lock} FOR KEY SHARE");
    assert_int_equal(refused(c, &right, &wal), 0);
    assert_int_equal(wal, 0);
    run(guard, "COMMIT; UPDATE {lock} SET exp = {now} + 60000000");
    assert_int_equal(refused(c, &wrong, &wal), 1);
    assert_true(wal > 0);
}

#define CYCLES 1000

/* Of how many updates of CYCLES leases how many were HOT? */
static void updates_of_cycles(int64_t *updates, int64_t *hot)
{
    conn c = {.pg = PQconnectdb(getenv("SQLOCK_TEST_POSTGRES_URL"))}, watch = open_conn();
    script grant = ours(SQLOCK_STMT_ACQUIRE), extend = ours(SQLOCK_STMT_RENEW),
           end = ours(SQLOCK_STMT_RELEASE);
    int faults = 0;
    int64_t before = number(watch, "SELECT pg_stat_get_tuples_updated({lock:text}::regclass)");
    int64_t hot_before =
        number(watch, "SELECT pg_stat_get_tuples_hot_updated({lock:text}::regclass)");
    faults += try_run(c, "SET synchronous_commit = off") != 0; /* only for speed */
    for (int i = 0; i < CYCLES; i++) {
        request r = request_of('A', 5000 * MS);
        memcpy(r.owner, &i, sizeof i);
        r.token = ask(c, &grant, &r).token;
        faults += ask(c, &extend, &r).outcome != SQLOCK_OUT_DONE;
        faults += ask(c, &end, &r).outcome != SQLOCK_OUT_DONE;
    }
    PQfinish(c.pg); /* a session hands in its counts at its end, at the latest */
    assert_int_equal(faults, 0);
    for (int i = 0; i < 200; i++) {
        *updates =
            number(watch, "SELECT pg_stat_get_tuples_updated({lock:text}::regclass)") - before;
        *hot = number(watch, "SELECT pg_stat_get_tuples_hot_updated({lock:text}::regclass)") -
               hot_before;
        if (*updates >= 3 * CYCLES)
            return;
        pause_ms(10);
    }
    fail_msg("the statistics never came: %lld updates", (long long)*updates);
}

TEST(grants_renewals_and_releases_are_hot, ON_POSTGRES)
{
    conn c = open_conn();
    int64_t updates = 0, hot = 0;
    updates_of_cycles(&updates, &hot);
    assert_int_equal(updates, 3 * CYCLES);
    /* Not all: an old snapshot of another program's test on this server keeps dead rows for a
     * while, and a full page makes the next update a cold one. */
    assert_true(hot * 5 > updates * 4);
    /* Wrong: an index for the reaper's sake. */
    run(c, "CREATE INDEX ON {lock} (exp)");
    updates_of_cycles(&updates, &hot);
    assert_true(hot * 20 < updates);
}

TEST_MAIN_OF_RACES("cost")
