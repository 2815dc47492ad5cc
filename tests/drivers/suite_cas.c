/* P13: compare and set on a row of the application's own table, in its own transaction. */
#define SUITE_NEEDS ADOPTION
#include "tests/drivers/suite_cas.h"

/* ---- what it says ---------------------------------------------------------------------------- */

TEST_AFTER(set_cas_stage, test_row_is_changed_only_from_its_expected_version)
{
    int64_t version = 1000;

    for (const struct way *way = g.side->ways; way->name; way++, version++) {
        go_in(g.app, way);
        said.code = 12345;
        assert_int_equal(set_price(cas.conn, 1, sqlock_int(version - 1), 66), SQLOCK_CONFLICT);
        found_version(version);
        assert_int_equal(set_price(cas.conn, 1, sqlock_null(), 66), SQLOCK_CONFLICT);
        assert_int_equal(set_price(cas.conn, 9, sqlock_int(version), 66), SQLOCK_ABSENT);
        assert_int_equal(said.code, 12345); /* they are no errors */
        assert_int_equal(price_of(g.app, 1), 10);
        ok(set_price(cas.conn, 1, sqlock_int(version), 11));
        found_version(version + 1);
        assert_int_equal(price_of(g.app, 1), 11);
        assert_int_equal(set_price(cas.conn, 1, sqlock_int(version), 12), SQLOCK_CONFLICT);
        ok(set_price(cas.conn, 1, sqlock_int(version + 1), 10)); /* once more */
        go_out(g.app, way, "ROLLBACK");
        assert_int_equal(version_of(g.app, 1), version);
        go_in(g.app, way);
        ok(set_price(cas.conn, 1, sqlock_int(version), 10)); /* the same price */
        assert_true(go_out(g.app, way, "COMMIT"));
        assert_int_equal(version_of(cas.other, 1), version + 1);
    }
}

/* Whatever the level: nobody is told to read again where reading shows the old version for ever. */
TEST_AFTER(set_cas_stage, test_conflict_is_reported_only_where_reading_again_helps)
{
    int conflicts = 0, restarts = 0;

    for (const struct way *way = g.side->ways; way->name; way++) {
        int64_t version, now;
        int rc;

        go_in(g.app, way);
        version = version_of(g.app, 1);
        if (!g.side->exec(cas.other,
                          "UPDATE app_offer SET price = 5, version = version + 1 WHERE id = 1")) {
            ok(set_price(cas.conn, 1, sqlock_int(version), 11));
            go_out(g.app, way, "ROLLBACK");
            continue;
        }
        rc = set_price(cas.conn, 1, sqlock_int(version), 11);
        if (rc == SQLOCK_CONFLICT) {
            conflicts++;
            found_version(version + 1);
            assert_int_equal(version_of(g.app, 1), version + 1);
            ok(set_price(cas.conn, 1, sqlock_int(version + 1), 11));
        } else {
            restarts++;
            assert_restart(rc, &said);
        }
        go_out(g.app, way, "ROLLBACK");
        now = version_of(cas.other, 1);
        assert_int_equal(now, version + 1);
        go_in(g.app, way); /* begun again, it succeeds */
        assert_int_equal(set_price(cas.conn, 1, sqlock_int(version), 11), SQLOCK_CONFLICT);
        ok(set_price(cas.conn, 1, cas.version.found, 11));
        go_out(g.app, way, "ROLLBACK");
    }
    assert_true(conflicts + restarts > 0 || (g.driver->caps & SQLOCK_CAP_ONE_WRITER));
}

/* The same for a row that came, or went, behind the snapshot's back. */
TEST_AFTER(set_cas_stage, test_row_that_a_snapshot_does_not_know_of_is_no_conflict)
{
    for (const struct way *way = g.side->ways; way->name; way++) {
        int rc;

        go_in(g.app, way);
        version_of(g.app, 1);
        if (g.side->exec(cas.other, "DELETE FROM app_offer WHERE id = 2") &&
            g.side->exec(cas.other,
                         "INSERT INTO app_offer (id, price, version) VALUES (3, 3, 3)")) {
            rc = set_price(cas.conn, 2, sqlock_null(), 1);
            if (rc != SQLOCK_ABSENT)
                assert_restart(rc, &said);
            else
                assert_int_equal(price_of(g.app, 2), -1); /* it sees that, too */
            if (rc == SQLOCK_ABSENT) {                    /* else the transaction may have ended */
                rc = insert_offer(3, 8);
                if (rc != SQLOCK_CONFLICT)
                    assert_restart(rc, &said);
                else
                    assert_int_equal(version_of(g.app, 3), 3);
            }
        }
        go_out(g.app, way, "ROLLBACK");
        app_exec(cas.other, "DELETE FROM app_offer WHERE id IN (2, 3)");
        app_exec(cas.other, "INSERT INTO app_offer (id, price) VALUES (2, 20)");
    }
}

TEST_AFTER(set_cas_stage, test_missing_version_is_a_version)
{
    app_exec(g.app, g.side->begins[0]);
    assert_int_equal(set_price(cas.conn, 2, sqlock_int(0), 1), SQLOCK_CONFLICT);
    assert_int_equal(cas.version.found.type, SQLOCK_NULL);
    ok(set_price(cas.conn, 2, sqlock_null(), 21));
    assert_int_equal(cas.version.found.type, SQLOCK_INT);
    assert_true(cas.version.found.i > 0 && cas.version.found.i <= INT64_C(1) << 52);
    assert_int_equal(set_price(cas.conn, 2, sqlock_null(), 1), SQLOCK_CONFLICT);
    ok(set_price(cas.conn, 2, cas.version.found, 22));
    assert_int_equal(price_of(g.app, 2), 22);
    app_exec(g.app, "COMMIT");
}

static int erase(int64_t id, sqlock_value expected)
{
    return sqlock_cas_delete(cas.conn, ROW("app_offer", id), expect_version(expected), &said);
}

/* Deleted and inserted, a row is another one: who read the first must not change the second. */
TEST_AFTER(set_cas_stage, test_deleted_rows_versions_do_not_come_back)
{
    int64_t first;

    for (const struct way *way = g.side->ways; way->name; way++) {
        go_in(g.app, way);
        assert_int_equal(erase(1, sqlock_int(999)), SQLOCK_CONFLICT);
        assert_int_equal(erase(9, sqlock_int(1000)), SQLOCK_ABSENT);
        ok(erase(1, sqlock_int(1000)));
        found_version(1000);
        assert_int_equal(erase(1, sqlock_int(1000)), SQLOCK_ABSENT);
        ok(insert_offer(1, 70));
        first = cas.version.found.i;
        assert_int_equal(version_of(g.app, 1), first);
        ok(erase(1, sqlock_int(first)));
        ok(insert_offer(1, 70));
        assert_true(first != cas.version.found.i);
        assert_int_equal(set_price(cas.conn, 1, sqlock_int(first), 1), SQLOCK_CONFLICT);
        go_out(g.app, way, "ROLLBACK");
    }
}

TEST_AFTER(set_cas_stage, test_insert_meets_a_row_of_its_key_or_of_another)
{
    for (const struct way *way = g.side->ways; way->name; way++) {
        go_in(g.app, way);
        assert_int_equal(insert_offer(1, 8), SQLOCK_CONFLICT);
        found_version(1000);
        assert_int_equal(insert_offer(2, 8), SQLOCK_CONFLICT);
        assert_int_equal(cas.version.found.type, SQLOCK_NULL);
        says(SQLOCK_EDB, insert_offer(3, 7)); /* code 7 is number 1's */
        ok(insert_offer(3, 8));
        assert_true(go_out(g.app, way, "COMMIT"));
        assert_int_equal(price_of(cas.other, 3), 77);
        app_exec(cas.other, "DELETE FROM app_offer WHERE id = 3");
    }
}

/* ---- the transaction and the session --------------------------------------------------------- */

TEST_AFTER(set_cas_stage, test_failure_leaves_the_transaction_as_it_was)
{
    for (const struct way *way = g.side->ways; way->name; way++) {
        go_in(g.app, way);
        app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 1");
        says(SQLOCK_EDB, assign("code", sqlock_int(9), NULL)); /* number 2's */
        assert_true(assign("price", sqlock_null(), "no_such_function(1)") < 0);
        assert_true(assign("price", sqlock_null(), ")") < 0);
        assert_true(assign("no_such_column", sqlock_int(1), NULL) < 0);
        assert_true(said.code != SQLOCK_ETXRESTART && said.code != SQLOCK_ETXGONE);
        ok(set_price(cas.conn, 1, sqlock_int(version_of(g.app, 1)), 12));
        assert_true(go_out(g.app, way, "COMMIT"));
        assert_int_equal(price_of(cas.other, 1), 12);
    }
    assert_int_equal(version_of(cas.other, 1), 1000 + seen_by(cas.other) - 10);
}

/* ---- others at the same row ------------------------------------------------------------------ */

/* It waits for whoever is changing the row, and then sees what they made of it. */
TEST_AFTER(set_cas_stage, test_change_under_way_is_waited_for_and_then_compared)
{
    int rc;

    app_exec(cas.other, g.side->begins[0]);
    app_exec(cas.other, "UPDATE app_offer SET price = 5, version = version + 1 WHERE id = 1");
    app_exec(g.app, g.side->begins[0]);
    exec_later(REQUEST_MS / 4, cas.other, "COMMIT");
    rc = set_price(cas.conn, 1, sqlock_int(1000), 11);
    await_later();
    assert_int_equal(rc, SQLOCK_CONFLICT);
    found_version(1001);
    app_exec(g.app, "COMMIT");
    assert_int_equal(price_of(cas.other, 1), 5);
}

TEST_AFTER(set_brief_cas_stage, test_row_that_stays_locked_is_given_up_in_time)
{
    int64_t before;

    app_exec(cas.other, g.side->begins[0], "UPDATE app_offer SET price = 5 WHERE id = 1");
    for (const struct way *way = g.side->ways; way->name; way++) {
        if (way->begin && strcmp(way->begin, "BEGIN IMMEDIATE") == 0)
            continue;
        go_in(g.app, way);
        before = sqlock_now_us();
        says(SQLOCK_ETIMEOUT, set_price(cas.conn, 1, sqlock_int(1000), 11));
        assert_true(sqlock_now_us() - before >= REQUEST_MS * 1000 / 2);
        assert_true(sqlock_now_us() - before < (REQUEST_MS + patience_ms(2000)) * 1000);
        assert_int_equal(seen_by(g.app), 10); /* it goes on */
        go_out(g.app, way, "COMMIT");
    }
}
