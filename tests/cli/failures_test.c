/* Databases that are absent, refusing, damaged, full or silent: what a command ends with, and that
 * it says why. On each database where it can differ. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cli/shell.h"
#include "tests/lib/my.h"
#include "tests/lib/pg.h"
#include "tests/lib/pq.h"
#include "tests/lib/proxy.h"

static int on_sqlite(void)
{
    return strcmp(database_name(), "sqlite") == 0;
}

static int on_postgres(void)
{
    return strcmp(database_name(), "postgres") == 0;
}

/* Every command that opens a database ends with this code. */
static void assert_all_end_with(int code, const char *words)
{
    static const char *const lines[] = {
        "ls",
        "show a",
        "acquire -n a",
        "run -n a touch $D/ran",
        "break --token 1 a",
        "release a 0123456789abcdef0123456789abcdef 1",
        "renew a 0123456789abcdef0123456789abcdef 1",
    };

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_says(code, "", words, "sqlock $G %s", lines[i]);
    assert_says(1, NULL, NULL, "test -e $D/ran");
}

/* ---- 69 -------------------------------------------------------------------------------------- */

TEST(test_unreachable_database_is_69, ON_ALL)
{
    if (on_sqlite())
        setenv("SQLOCK_URL", "sqlite:/nonexistent/locks.db", 1);
    else if (on_postgres())
        setenv("SQLOCK_URL", "postgresql:///x?host=/nonexistent", 1);
    else
        setenv("SQLOCK_URL", "mysql://root@localhost/x?socket=/nonexistent/s", 1);
    assert_all_end_with(69, NULL);
    assert_says(69, "", NULL, "sqlock $G migrate up");
    /* No table of nothing either. */
    assert_string_equal(sh("sqlock $G migrate status")->out, "");
    assert_said(69, NULL, NULL);
}

TEST(test_file_that_cannot_be_there_is_named, ON_SQLITE)
{
    assert_says(69, "", "/nonexistent/x: its folder is not there",
                "sqlock -U sqlite:/nonexistent/x migrate up");
    assert_says(69, "", "is a folder", "sqlock -U sqlite:$D ls");
    assert_says(78, "", "the path is empty", "sqlock -U sqlite: ls");
    assert_says(78, "", "there is no host", "sqlock -U sqlite://x/y ls");
    assert_says(78, "", "options after", "sqlock -U 'sqlite:/x?mode=ro' ls");
}

/* Waiting does not mend it. */
TEST(test_url_that_names_nothing_is_78_at_once, ON_SERVERS)
{
    const char *own =
        textf("%s%c", getenv("SQLOCK_URL"), strchr(getenv("SQLOCK_URL"), '?') ? '&' : '?');

    setenv("SQLOCK_URL", textf("%s%s", own, on_postgres() ? "sslmode=bogus" : "ssl-mode=bogus"), 1);
    assert_true(sh("sqlock $G --wait-db 30s ls")->took_ms < patience_ms(10000));
    assert_said(78, "", on_postgres() ? "bogus" : "ssl-mode is ");
    setenv("SQLOCK_URL",
           on_postgres() ? textf("%sdbname=no_such_db", own)
                         : textf("mysql://root@localhost/no_such_db?socket=%s", my_socket_path()),
           1);
    assert_true(sh("sqlock --wait-db 30s run a touch $D/ran")->took_ms < patience_ms(10000));
    assert_said(78, "", "no_such_db");
}

TEST(test_wait_db_waits_for_a_server, ON_POSTGRES)
{
    pid_t waiter;
    struct proxy *proxy = database_by_proxy();

    proxy_refuse(proxy, 1);
    assert_says(69, "", NULL, "sqlock $G --wait-db 500ms ls");
    assert_between(400, sh("sqlock $G --wait-db 500ms run nightly touch $D/ran")->took_ms,
                   patience_ms(5000));
    assert_said(69, "", NULL);
    waiter = sh_start("exec sqlock $G --wait-db 50s run nightly touch $D/ran");
    sleep_ms(700);
    assert_false(child_ended(waiter));
    assert_sh("test ! -e $D/ran");
    proxy_refuse(proxy, 0);
    assert_int_equal(child_wait(waiter, patience_ms(20000)), 0);
    assert_sh("test -e $D/ran");
    proxy_stop(proxy);
}

TEST(test_ls_that_watches_outlasts_a_server_that_is_away, ON_POSTGRES)
{
    struct proxy *proxy = database_by_proxy();
    pid_t watch;

    assert_sh("sqlock $G acquire -n --ttl 1h nightly");
    watch = sh_start("exec sqlock $G ls --watch=100ms");
    wait_for("out");
    proxy_refuse(proxy, 1);
    proxy_cut(proxy);
    wait_for("err");
    database_directly();
    assert_sh("sqlock $G acquire -n --ttl 1h later");
    proxy_refuse(proxy, 0);
    assert_soon(strstr(text_of("out"), "\nlater ") != NULL, patience_ms(20000));
    database_exec("ALTER TABLE @lock RENAME TO sqlock_gone"); /* an error that stays */
    assert_int_equal(child_wait(watch, patience_ms(20000)), 78);
    proxy_stop(proxy);
}

/* ---- 75 -------------------------------------------------------------------------------------- */

/* By an application's transaction, which has nobody's name; also when its lease has run out. */
TEST(test_guarded_lock_is_75, ON_POSTGRES)
{
    pid_t guard;

    assert_sh("sqlock $G acquire -n other; sqlock $G acquire -n --ttl 100ms nightly; sleep 0.3");
    guard = sh_start("(echo 'BEGIN; SELECT 1 FROM %s.sqlock_lock FOR KEY SHARE;'; "
                     "echo '\\! echo >$D/guarded'; sleep 100) | exec psql -Xq $SQLOCK_URL",
                     database_schema());
    wait_for("guarded");
    assert_says(75, "", "nightly is busy: ", "sqlock $G acquire -n nightly");
    assert_said(75, "", "guard");
    assert_says(9, "", "guard",
                "sqlock $G run -w 300ms -E 9 --status-fd 3 nightly touch $D/ran 3>$D/status");
    assert_non_null(strstr(text_of("status"), "\"outcome\":\"busy\",\"exit\":9"));
    assert_says(75, "", "\"nightly\", which no one holds: a transaction may guard it",
                "sqlock -v $G run -w 3s nightly touch $D/ran");
    assert_says(0, "", NULL, "sqlock -q $G run -n -E 0 nightly touch $D/ran");
    assert_string_equal(sh("sqlock -q $G run -n -E 0 nightly touch $D/ran")->err, "");
    /* Broken it is, each of them, though nobody gets it yet. */
    assert_says(
        0, "      2  broken; an open transaction still guards the name\n", "",
        "sqlock $G break --older-than 0 --yes >$D/broken; cut -d: -f3- $D/broken | sort | uniq -c");
    kill(-guard, SIGKILL);
    child_wait(guard, patience_ms(5000));
    assert_sh("test ! -e $D/ran; sqlock $G run -w 20s nightly true");
}

/* ---- 65, 77, 78, 74 -------------------------------------------------------------------------- */

TEST(test_damaged_database_is_65, ON_ALL)
{
    if (on_sqlite())
        assert_sh("head -c 8192 /dev/urandom >$D/locks.db; rm -f $D/locks.db-*");
    else
        database_exec("DELETE FROM @meta");
    assert_all_end_with(65, NULL);
}

TEST(test_refused_by_the_database_is_77, ON_ALL)
{
    if (on_postgres()) {
        const char *url = pg_url();

        setenv("SQLOCK_URL",
               textf("%s%coptions=-crole%%3Dpg_monitor", url, strchr(url, '?') ? '&' : '?'), 1);
    } else if (on_sqlite()) {
        /* root may do everything unless this is taken away */
        assert_sh("chmod 0 $D/locks.db*");
        assert_says(
            77, "", NULL,
            "if test $(id -u) = 0; then setpriv --bounding-set=-dac_override,-dac_read_search "
            "sqlock ls; else sqlock ls; fi");
        return;
    } else {
        setenv("SQLOCK_URL", textf("mysql://nobody@localhost/test?socket=%s", my_socket_path()), 1);
    }
    assert_all_end_with(77, NULL);
}

TEST(test_row_of_a_newer_version_is_65, ON_ALL)
{
    assert_sh("sqlock $G acquire -n nightly >$D/grant");
    database_exec("UPDATE @lock SET kind = 7");
    assert_says(65, "", "does not know", "sqlock $G acquire -n nightly");
    assert_says(65, "", "does not know", "sqlock $G run -n nightly touch $D/ran");
    assert_says(65, "", "does not know", "sqlock $G renew nightly $(cat $D/grant)");
    assert_says(65, "", "does not know", "sqlock $G release nightly $(cat $D/grant)");
    assert_sh("test ! -e $D/ran; sqlock $G run -n another true");
}

static void assert_no_advice_to_migrate(void)
{
    assert_says(1, "0\n", NULL, "grep -c 'migrate up' $D/said");
}

/* Migrating would not help, and is not what one is told to do. */
TEST(test_schema_that_is_too_new_is_78, ON_ALL)
{
    database_exec("UPDATE @meta SET version = 99, min_reader = 99");
    assert_all_end_with(78, "too new");
    assert_says(78, "", NULL, "sqlock $G reap 2>$D/said");
    assert_no_advice_to_migrate();
    assert_says(78, "", "newer", "sqlock $G migrate up");
}

/* The migrations make tables, not the schema that they are in. */
TEST(test_schema_that_is_absent_is_78, ON_POSTGRES | EMPTY)
{
    assert_says(
        78, "", "does not exist",
        "sqlock $G --schema absent migrate up 2>$D/said; code=$?; cat $D/said >&2; exit $code");
    assert_no_advice_to_migrate();
}

TEST(test_migration_of_another_file_is_78, ON_ALL)
{
    database_exec("UPDATE @migration SET checksum = '0123456789abcdef' WHERE version = 1");
    assert_says(78, "", "differs from the one that was applied",
                "sqlock $G migrate up 2>$D/said; code=$?; cat $D/said >&2; exit $code");
    assert_no_advice_to_migrate();
    assert_says(78, "", "differs from the one that was applied", "sqlock $G migrate verify");
    assert_says(0, "drifted", "", "sqlock $G migrate status");
    /* Programs at work go on. */
    assert_sh("sqlock $G run -n nightly true");
}

TEST(test_tables_that_are_gone_are_78, ON_ALL)
{
    database_exec("DROP TABLE @lock");
    assert_says(78, "", "run 'sqlock migrate up'", "sqlock $G acquire -n nightly");
    assert_says(78, "", NULL, "sqlock $G run -n nightly touch $D/ran");
    assert_sh("test ! -e $D/ran");
}

TEST(test_database_that_can_only_be_read_is_78, ON_SQLITE | ON_POSTGRES)
{
    if (on_sqlite()) {
        assert_says(78, "", NULL,
                    "chmod 444 $D/locks.db*; if test $(id -u) = 0; then setpriv "
                    "--bounding-set=-dac_override,-dac_read_search sqlock ls; else sqlock ls; fi");
        return;
    }
    setenv("PGOPTIONS", "-cdefault_transaction_read_only=on", 1);
    sh("sqlock $G ls");
    unsetenv("PGOPTIONS");
    assert_said(78, "", NULL);
}

/* Another program's transaction, not a holder: so nobody is named, but the lock is. */
TEST(test_lock_in_a_file_that_is_locked_is_busy_by_name, ON_SQLITE)
{
    pid_t other;

    assert_sh("sqlock acquire -n --ttl 1h held >$D/grant");
    other = sh_start("(echo 'BEGIN IMMEDIATE;'; echo '.shell echo >$D/locked'; sleep 30) | "
                     "exec sqlite3 $D/locks.db");
    wait_for("locked");
    assert_says(75, "", "sqlock: nightly is busy: ", "sqlock acquire -w 300ms nightly");
    assert_said(75, "", "kept the database locked");
    /* No one may be at the work, so -E does not skip it. */
    assert_says(75, "", "kept the database locked",
                "sqlock -q run -w 300ms -E 0 nightly touch $D/ran");
    assert_says(75, "", "kept the database locked",
                "sqlock -q run -w 300ms -E 0 -l nightly -l other touch $D/ran");
    assert_says(75, "", "kept the database locked",
                "sqlock break held --token $(cut -d' ' -f2 $D/grant)");
    kill(-other, SIGKILL);
    child_wait(other, patience_ms(5000));
    assert_sh("sqlock acquire -n nightly");
}

TEST(test_database_that_cannot_write_is_74, ON_SQLITE)
{
    /* Files may not grow beyond a kilobyte: the journal cannot be written. */
    assert_says(74, "", NULL, "trap '' XFSZ; ulimit -f 1; sqlock acquire -n nightly");
    assert_says(1, NULL, NULL, "sqlock show nightly");
}

#define FULL "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'disk full'"

/* A server's own disk: what it answers then, from a trigger on the lock's row. */
static void full_disk(void)
{
    if (on_postgres())
        database_exec("CREATE FUNCTION @full() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE "
                      "SQLSTATE '53100' USING MESSAGE = 'No space left on device'; END$$; "
                      "CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON @lock "
                      "FOR EACH ROW EXECUTE PROCEDURE @full()");
    else
        database_exec("CREATE TRIGGER @full BEFORE UPDATE ON @lock FOR EACH ROW " FULL "; "
                      "CREATE TRIGGER @full2 BEFORE INSERT ON @lock FOR EACH ROW " FULL);
}

TEST(test_server_that_cannot_write_is_74, ON_SERVERS)
{
    assert_sh("sqlock $G acquire -n nightly >$D/grant");
    full_disk();
    assert_says(74, "", NULL, "sqlock $G renew nightly $(cat $D/grant)");
    assert_says(74, "", NULL, "sqlock $G break nightly --token $($D/token nightly)");
    assert_says(74, "", NULL, "sqlock $G run -w 1s another touch $D/ran");
    assert_sh("test ! -e $D/ran");
}

/* ---- 79 -------------------------------------------------------------------------------------- */

/* The exit code of a command that tries for a row that is locked: what it sends behind the proxy
 * comes to the server when the row is free, and the answer does not come back. A request that the
 * server had before would be granted the lock when the row comes free, and hear of it. */
static int reply_lost(const char *command)
{
    struct pg_conn *other = pq_open(pg_url());
    struct proxy *proxy;
    pid_t waiter;
    int code;

    assert_sh(
        "sqlock $G acquire -n nightly >$D/grant && sqlock $G release nightly $(cat $D/grant)");
    pq_exec(other, "BEGIN");
    pq_exec(other, "SELECT 1 FROM %s.sqlock_lock WHERE name = 'nightly' FOR UPDATE",
            database_schema());
    proxy = database_by_proxy();
    waiter = sh_start("exec sqlock $G %s", command);
    database_directly();
    assert_soon(proxy_requests(proxy) >= 20, patience_ms(10000));
    proxy_mode_set(proxy, PROXY_HOLD_UP);
    assert_soon(!proxy_awaits_reply(proxy), patience_ms(10000));
    pq_exec(other, "COMMIT");
    proxy_mode_set(proxy, PROXY_HOLD_DOWN);
    code = child_wait(waiter, patience_ms(30000));
    proxy_stop(proxy);
    return code;
}

/* The command is granted the lock and never learns of it. It is busy when the lost reply was that
 * of a look at who holds the row: then again. */
static void grant_unheard(const char *command)
{
    int code = 75;

    for (int tries = 0; code == 75 && tries < 5; tries++)
        code = reply_lost(command);
    if (code != 79)
        fail_msg("it ended with %d: %s", code, text_of("err"));
}

TEST(test_lost_reply_is_79_and_its_owner_settles_it, ON_POSTGRES)
{
    grant_unheard("acquire -w 5s --ttl 1h nightly");
    assert_int_equal(strlen(text_of("out")), 33);
    assert_says(0, "held", NULL, "sqlock $G show nightly");
    assert_sh("sqlock $G acquire -n --owner $(cat $D/out) nightly >$D/settled && "
              "test $(cut -d' ' -f2 $D/settled) = $($D/token nightly) && "
              "test $(cut -d' ' -f2 $D/settled) -gt $(cut -d' ' -f2 $D/grant)");
    assert_sh("sqlock $G release nightly $(cat $D/settled)");
}

TEST(test_run_gives_back_what_it_was_granted_without_hearing_of_it, ON_POSTGRES)
{
    grant_unheard("run -w 5s --ttl 7s nightly touch $D/ran");
    assert_sh("sqlock $G run -w 40s nightly test ! -e $D/ran");
}

TEST_MAIN_OF_COMMAND
