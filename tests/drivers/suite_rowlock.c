/* P12: locks on rows that live and die with the application's transaction. */
#define SUITE_NEEDS GUARDS
#include "tests/drivers/suite_rowlock.h"

/* ---- what a lock is -------------------------------------------------------------------------- */

TEST_AFTER(set_row_stage, test_row_is_kept_from_others_until_the_transaction_ends)
{
    static const char *const ends[] = {"COMMIT", "ROLLBACK"};

    for (const char *const *begin = g.side->begins; *begin; begin++)
        for (int i = 0; i < 2; i++) {
            if (strncmp(*begin, "SAVEPOINT", 9) == 0)
                continue; /* ended in another way */
            app_exec(g.app, *begin);
            ok(lock_row(rs.conn, 1));
            ok(lock_row(rs.conn, 1)); /* it is ours */
            app_exec(rs.other_app, g.side->begins[0]);
            says(SQLOCK_EBUSY, lock_row(rs.other, 1));
            assert_int_equal(said.flags, SQLOCK_RETRY);
            app_exec(g.app, ends[i]);
            ok(lock_row(rs.other, 1)); /* in the transaction that was refused before */
            app_exec(rs.other_app, "COMMIT");
        }
}

TEST_AFTER(set_row_stage, test_other_rows_are_free_but_where_there_is_one_writer)
{
    begin_both();
    ok(lock_row(rs.conn, 1));
    assert_int_equal(lock_row(rs.other, 2), rs.one_writer ? SQLOCK_EBUSY : 0);
    end_both("COMMIT");
}

TEST_AFTER(set_row_stage, test_locked_rows_are_skipped_if_requested)
{
    int outcomes[3];
    sqlock_row_opts o = row_opts(SQLOCK_ROW_SKIP_LOCKED, 0);
    sqlock_column keys[] = {{.name = "id", .value = sqlock_int(2)},
                            {.name = "id", .value = sqlock_int(1)},
                            {.name = "id", .value = sqlock_int(9)}};
    sqlock_row rows[3];

    for (int i = 0; i < 3; i++)
        rows[i] = (sqlock_row){sizeof *rows, NULL, "app_row", &keys[i], 1};
    begin_both();
    ok(lock_row(rs.conn, 1));
    o.outcomes = outcomes;
    if (rs.one_writer) {
        assert_int_equal(sqlock_row_lock(rs.other, rows, 2, &o, &said), SQLOCK_CONFLICT);
        assert_int_equal(outcomes[0], SQLOCK_CONFLICT);
    } else {
        assert_int_equal(sqlock_row_lock(rs.other, rows, 2, &o, &said), SQLOCK_CONFLICT);
        assert_int_equal(outcomes[0], 0);
        assert_int_equal(sqlock_row_lock(rs.other, rows, 3, &o, &said), SQLOCK_ABSENT);
        assert_int_equal(outcomes[2], SQLOCK_ABSENT);
    }
    assert_int_equal(outcomes[1], SQLOCK_CONFLICT);
    end_both("COMMIT");
}

TEST_AFTER(set_row_stage, test_absent_row_is_reported)
{
    for (const char *const *begin = g.side->begins; *begin; begin++) {
        app_exec(g.app, *begin);
        assert_int_equal(lock_row(rs.conn, 7), SQLOCK_ABSENT);
        assert_int_equal(lock_row_with(rs.conn, 7, 0, 100), SQLOCK_ABSENT);
        assert_int_equal(lock_row_with(rs.conn, 7, SQLOCK_ROW_SKIP_LOCKED, 0), SQLOCK_ABSENT);
        app_exec(g.app, "ROLLBACK");
    }
}

/* Locked by us, then deleted by us: it is not there for us. And one that we have just made is. */
TEST_AFTER(set_row_stage, test_own_changes_count)
{
    app_exec(g.app, g.side->begins[0], "INSERT INTO app_row VALUES (5, 50)");
    ok(lock_row(rs.conn, 5));
    app_exec(g.app, "DELETE FROM app_row WHERE id = 5");
    assert_int_equal(lock_row(rs.conn, 5), SQLOCK_ABSENT);
}

/* ---- the transaction's state ----------------------------------------------------------------- */

/* What the transaction has seen is older than the row's newest version. Either only a restart
 * helps, or the lock is that of the newest. */
TEST_AFTER(set_row_stage, test_old_transaction_locks_the_newest_row_or_is_restarted)
{
    int64_t expected = 10;

    be_impatient(rs.other_app);
    for (const char *const *begin = g.side->begins; *begin; begin++) {
        int rc;

        if (strncmp(*begin, "SAVEPOINT", 9) == 0)
            continue;
        app_exec(g.app, *begin);
        seen_by(g.app);
        if (!g.side->exec(rs.other_app, "UPDATE app_row SET n = n + 1 WHERE id = 1")) {
            app_exec(g.app, "ROLLBACK"); /* one writer, who has begun already */
            continue;
        }
        rc = lock_row(rs.conn, 1);
        if (rc != 0)
            assert_restart(rc, &said);
        else
            app_exec(g.app, "UPDATE app_row SET n = n + 100 WHERE id = 1");
        app_exec(g.app, rc != 0 ? "ROLLBACK" : "COMMIT");
        expected += 1 + (rc == 0 ? 100 : 0);
        assert_int_equal(seen_by(rs.other_app), expected);
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

TEST_AFTER(set_row_stage, test_name_is_locked_and_its_row_made_when_missing)
{
    for (int i = 0; i < 2; i++) {
        begin_both();
        ok(lock_row_name(rs.conn, "job", 0));
        ok(lock_row_name(rs.conn, "job", 0));
        says(SQLOCK_EBUSY, lock_row_name(rs.other, "job", 0));
        says(SQLOCK_EBUSY, lock_row_name(rs.other, "job", 100));
        assert_int_equal(lock_row_name(rs.other, "JOB", 0), rs.one_writer ? SQLOCK_EBUSY : 0);
        app_exec(g.app, i ? "COMMIT" : "ROLLBACK");
        ok(lock_row_name(rs.other, "job", 0));
        app_exec(rs.other_app, "COMMIT");
    }
}

TEST_AFTER(set_row_stage, test_name_may_be_made_beforehand)
{
    ok(sqlock_ensure(rs.m, "a b'\"`\\", &said));
    for (const char *const *begin = g.side->begins; *begin; begin++) {
        app_exec(g.app, *begin);
        ok(lock_row_name(rs.conn, "a b'\"`\\", 0));
        app_exec(g.app, "ROLLBACK");
    }
}

TEST_AFTER(set_row_stage, test_new_name_in_an_old_snapshot_is_a_restart_or_locked)
{
    char name[16];
    int n = 0;

    for (const char *const *begin = g.side->begins; *begin; begin++) {
        int rc;

        snprintf(name, sizeof name, "new %d", n++);
        app_exec(g.app, *begin);
        seen_by(g.app);
        if ((rc = lock_row_name(rs.conn, name, 0)) != 0)
            assert_restart(rc, &said);
        app_exec(g.app, "ROLLBACK", *begin);
        ok(lock_row_name(rs.conn, name, 0));
        app_exec(g.app, "ROLLBACK");
    }
}
