/* Databases that are absent, refusing, damaged, full or silent: what a command ends with, and that
 * it says why. On each database where it can differ. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cli/shell.h"
#include "tests/lib/my.h"
#include "tests/lib/pg.h"
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

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        sh("sqlock $G %s", lines[i]);
        assert_said(code, "", words);
    }
    sh("test -e $D/ran");
    assert_said(1, NULL, NULL);
}

/* ---- 69 -------------------------------------------------------------------------------------- */

static void test_unreachable_database_is_69(void **state)
{
    (void)state;
    database_new();
    if (on_sqlite())
        setenv("SQLOCK_URL", "sqlite:/nonexistent/locks.db", 1);
    else if (on_postgres())
        setenv("SQLOCK_URL", "postgresql:///x?host=/nonexistent", 1);
    else
        setenv("SQLOCK_URL", "mysql://root@localhost/x?socket=/nonexistent/s", 1);
    assert_all_end_with(69, NULL);
    sh("sqlock $G migrate up");
    assert_said(69, "", NULL);
    /* No table of nothing either. */
    assert_string_equal(sh("sqlock $G migrate status")->out, "");
    assert_said(69, NULL, NULL);
}

/* Waiting does not mend it. */
static void test_url_that_names_nothing_is_78_at_once(void **state)
{
    char own[2100], url[4200];

    (void)state;
    database_new();
    snprintf(own, sizeof own, "%s%c", getenv("SQLOCK_URL"),
             strchr(getenv("SQLOCK_URL"), '?') ? '&' : '?');
    snprintf(url, sizeof url, "%s%s", own, on_postgres() ? "sslmode=bogus" : "ssl-mode=bogus");
    setenv("SQLOCK_URL", url, 1);
    assert_true(sh("sqlock $G --wait-db 30s ls")->took_ms < patience_ms(10000));
    assert_said(78, "", on_postgres() ? "bogus" : "ssl-mode is ");
    if (on_postgres())
        snprintf(url, sizeof url, "%sdbname=no_such_db", own);
    else
        snprintf(url, sizeof url, "mysql://root@localhost/no_such_db?socket=%s", my_socket_path());
    setenv("SQLOCK_URL", url, 1);
    assert_true(sh("sqlock --wait-db 30s run a touch $D/ran")->took_ms < patience_ms(10000));
    assert_said(78, "", "no_such_db");
}

static void test_wait_db_waits_for_the_database(void **state)
{
    (void)state;
    database_new();
    assert_sh("mv $D/locks.db $D/away; SQLOCK_URL=sqlite:$D/later/locks.db; export SQLOCK_URL;"
              "(sleep 0.7; mkdir $D/soon; mv $D/away $D/soon/locks.db; mv $D/soon $D/later) & "
              "sqlock --wait-db 20s ls");
    assert_between(600, sh("SQLOCK_URL=sqlite:/nonexistent/x sqlock --wait-db 700ms ls")->took_ms,
                   patience_ms(5000));
    assert_said(69, "", NULL);
}

static void test_wait_db_waits_for_a_server(void **state)
{
    struct proxy *proxy;
    pid_t waiter;

    (void)state;
    database_new();
    proxy = database_by_proxy();
    proxy_refuse(proxy, 1);
    sh("sqlock $G --wait-db 500ms ls");
    assert_said(69, "", NULL);
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

/* ---- 75 -------------------------------------------------------------------------------------- */

/* By an application's transaction, which has nobody's name; also when its lease has run out. */
static void test_guarded_lock_is_75(void **state)
{
    pid_t guard;

    (void)state;
    database_new();
    assert_sh("sqlock $G acquire -n other; sqlock $G acquire -n --ttl 100ms nightly; sleep 0.3");
    guard = sh_start("(echo 'BEGIN; SELECT 1 FROM %s.sqlock_lock FOR KEY SHARE;'; "
                     "echo '\\! echo >$D/guarded'; sleep 100) | exec psql -Xq $SQLOCK_URL",
                     database_schema());
    wait_for("guarded");
    sh("sqlock $G acquire -n nightly");
    assert_said(75, "", "nightly is busy: ");
    assert_said(75, "", "guard");
    sh("sqlock $G run -w 300ms -E 9 --status-fd 3 nightly touch $D/ran 3>$D/status");
    assert_said(9, "", "guard");
    assert_non_null(strstr(text_of("status"), "\"outcome\":\"busy\",\"exit\":9"));
    /* Broken it is, each of them, though nobody gets it yet. */
    sh("sqlock $G break --older-than 0 --yes >$D/broken; cut -d: -f3- $D/broken | sort | uniq -c");
    assert_said(0, "      2  broken; an open transaction still guards the name\n", "");
    kill(-guard, SIGKILL);
    child_wait(guard, patience_ms(5000));
    assert_sh("test ! -e $D/ran; sqlock $G run -w 20s nightly true");
}

/* ---- 65, 77, 78, 74 -------------------------------------------------------------------------- */

static void test_damaged_database_is_65(void **state)
{
    (void)state;
    database_new();
    if (on_sqlite())
        assert_sh("head -c 8192 /dev/urandom >$D/locks.db; rm -f $D/locks.db-*");
    else
        database_exec("DELETE FROM @meta");
    assert_all_end_with(65, NULL);
}

static void test_refused_by_the_database_is_77(void **state)
{
    (void)state;
    database_new();
    if (on_postgres()) {
        const char *url = pg_url();
        char *other = NULL;

        assert_true(asprintf(&other, "%s%coptions=-crole%%3Dpg_monitor", url,
                             strchr(url, '?') ? '&' : '?') > 0);
        setenv("SQLOCK_URL", other, 1);
        free(other);
    } else if (on_sqlite()) {
        /* root may do everything unless this is taken away */
        assert_sh("chmod 0 $D/locks.db*");
        sh("if test $(id -u) = 0; then setpriv --bounding-set=-dac_override,-dac_read_search "
           "sqlock ls; else sqlock ls; fi");
        assert_said(77, "", NULL);
        return;
    } else {
        char url[4200];

        snprintf(url, sizeof url, "mysql://nobody@localhost/test?socket=%s", my_socket_path());
        setenv("SQLOCK_URL", url, 1);
    }
    assert_all_end_with(77, NULL);
}

static void test_row_of_a_newer_version_is_65(void **state)
{
    (void)state;
    database_new();
    assert_sh("sqlock $G acquire -n nightly >$D/grant");
    database_exec("UPDATE @lock SET kind = 7");
    sh("sqlock $G acquire -n nightly");
    assert_said(65, "", "does not know");
    sh("sqlock $G run -n nightly touch $D/ran");
    assert_said(65, "", "does not know");
    sh("sqlock $G renew nightly $(cat $D/grant)");
    assert_said(65, "", "does not know");
    sh("sqlock $G release nightly $(cat $D/grant)");
    assert_said(65, "", "does not know");
    assert_sh("test ! -e $D/ran; sqlock $G run -n another true");
}

static void assert_no_advice_to_migrate(void)
{
    sh("grep -c 'migrate up' $D/said");
    assert_said(1, "0\n", NULL);
}

/* Migrating would not help, and is not what one is told to do. */
static void test_schema_that_is_too_new_is_78(void **state)
{
    (void)state;
    database_new();
    database_exec("UPDATE @meta SET version = 99, min_reader = 99");
    assert_all_end_with(78, "too new");
    sh("sqlock $G reap 2>$D/said");
    assert_said(78, "", NULL);
    assert_no_advice_to_migrate();
    sh("sqlock $G migrate up");
    assert_said(78, "", "newer");
}

static void test_migration_of_another_file_is_78(void **state)
{
    (void)state;
    database_new();
    database_exec("UPDATE @migration SET checksum = '0123456789abcdef' WHERE version = 1");
    sh("sqlock $G migrate up 2>$D/said; code=$?; cat $D/said >&2; exit $code");
    assert_said(78, "", "another file");
    assert_no_advice_to_migrate();
    sh("sqlock $G migrate verify");
    assert_said(78, "", "another file");
    sh("sqlock $G migrate status");
    assert_said(0, "drifted", "");
    /* Programs at work go on. */
    assert_sh("sqlock $G run -n nightly true");
}

static void test_tables_that_are_gone_are_78(void **state)
{
    (void)state;
    database_new();
    database_exec("DROP TABLE @lock");
    sh("sqlock $G acquire -n nightly");
    assert_said(78, "", "run 'sqlock migrate up'");
    sh("sqlock $G run -n nightly touch $D/ran");
    assert_said(78, "", NULL);
    assert_sh("test ! -e $D/ran");
}

static void test_database_that_can_only_be_read_is_78(void **state)
{
    (void)state;
    database_new();
    if (on_sqlite()) {
        sh("chmod 444 $D/locks.db*; if test $(id -u) = 0; then setpriv "
           "--bounding-set=-dac_override,-dac_read_search sqlock ls; else sqlock ls; fi");
        assert_said(78, "", NULL);
        return;
    }
    setenv("PGOPTIONS", "-cdefault_transaction_read_only=on", 1);
    sh("sqlock $G ls");
    unsetenv("PGOPTIONS");
    assert_said(78, "", NULL);
}

/* Another program's transaction, not a holder: so nobody is named, but the lock is. */
static void test_lock_in_a_file_that_is_locked_is_busy_by_name(void **state)
{
    pid_t other;

    (void)state;
    database_new();
    other = sh_start("(echo 'BEGIN IMMEDIATE;'; echo '.shell echo >$D/locked'; sleep 30) | "
                     "exec sqlite3 $D/locks.db");
    wait_for("locked");
    sh("sqlock acquire -w 300ms nightly");
    assert_said(75, "", "sqlock: nightly is busy: ");
    assert_said(75, "", "kept the database locked");
    kill(-other, SIGKILL);
    child_wait(other, patience_ms(5000));
    assert_sh("sqlock acquire -n nightly");
}

static void test_database_that_cannot_write_is_74(void **state)
{
    (void)state;
    database_new();
    /* Files may not grow beyond a kilobyte: the journal cannot be written. */
    sh("trap '' XFSZ; ulimit -f 1; sqlock acquire -n nightly");
    assert_said(74, "", NULL);
    sh("sqlock show nightly");
    assert_said(1, NULL, NULL);
}

/* A server's own disk: what it answers then, from a trigger on the lock's row. */
static void full_disk(void)
{
    if (on_postgres())
        database_exec("CREATE FUNCTION @full() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE "
                      "SQLSTATE '53100' USING MESSAGE = 'No space left on device'; END$$; "
                      "CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON @lock "
                      "FOR EACH ROW EXECUTE PROCEDURE @full()");
    else
        database_exec("CREATE TRIGGER @full BEFORE UPDATE ON @lock FOR EACH ROW "
                      "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'disk full'");
}

static void test_server_that_cannot_write_is_74(void **state)
{
    (void)state;
    database_new();
    assert_sh("sqlock $G acquire -n nightly >$D/grant");
    full_disk();
    sh("sqlock $G renew nightly $(cat $D/grant)");
    assert_said(74, "", NULL);
    sh("sqlock $G break nightly --token $($D/token nightly)");
    assert_said(74, "", NULL);
    sh("sqlock $G run -w 1s another touch $D/ran");
    assert_said(74, "", NULL);
    assert_sh("test ! -e $D/ran");
}

/* ---- 79 -------------------------------------------------------------------------------------- */

/* Who waits behind the proxy is granted the lock, and the answer does not come back. It asks again
 * and again by then, over its two connections; what it asks next comes to the server after the
 * release.
 */
static void grant_unheard(struct proxy *proxy)
{
    assert_soon(proxy_requests(proxy) >= 20, patience_ms(10000));
    proxy_mode_set(proxy, PROXY_HOLD_UP);
    assert_sh("sqlock $G release nightly $(cat $D/grant)");
    proxy_mode_set(proxy, PROXY_HOLD_DOWN);
}

static void assert_unknown(pid_t waiter)
{
    int code = child_wait(waiter, patience_ms(30000));

    if (code != 79)
        fail_msg("it ended with %d: %s", code, text_of("err"));
}

static void test_lost_reply_is_79_and_its_owner_settles_it(void **state)
{
    struct proxy *proxy;
    pid_t waiter;

    (void)state;
    database_new();
    assert_sh("sqlock $G acquire -n --ttl 1h nightly >$D/grant");
    proxy = database_by_proxy();
    waiter = sh_start("exec sqlock $G acquire -w 12s --ttl 1h nightly");
    database_directly();
    grant_unheard(proxy);
    assert_unknown(waiter);
    proxy_stop(proxy);
    assert_int_equal(strlen(text_of("out")), 33);
    sh("sqlock $G show nightly");
    assert_said(0, "held", NULL);
    assert_sh("sqlock $G acquire -n --owner $(cat $D/out) nightly >$D/settled && "
              "test $(cut -d' ' -f2 $D/settled) = $($D/token nightly) && "
              "test $(cut -d' ' -f2 $D/settled) -gt $(cut -d' ' -f2 $D/grant)");
    assert_sh("sqlock $G release nightly $(cat $D/settled)");
}

static void test_run_gives_back_what_it_was_granted_without_hearing_of_it(void **state)
{
    struct proxy *proxy;
    pid_t waiter;

    (void)state;
    database_new();
    assert_sh("sqlock $G acquire -n --ttl 1h nightly >$D/grant");
    proxy = database_by_proxy();
    waiter = sh_start("exec sqlock $G run -w 12s --ttl 20s nightly touch $D/ran");
    database_directly();
    grant_unheard(proxy);
    assert_unknown(waiter);
    proxy_stop(proxy);
    assert_sh("sqlock $G run -w 40s nightly test ! -e $D/ran");
}

/* The reply to this request of the line is lost, and nobody can be asked again. */
static int code_without_reply(struct proxy *proxy, int request, const char *line)
{
    int accepted = proxy_accepted(proxy), code;
    pid_t asks;

    proxy_delay(proxy, 20);
    proxy_cut_reply(proxy, request);
    asks = sh_start("exec %s", line);
    assert_soon(proxy_accepted(proxy) > accepted, patience_ms(5000));
    proxy_refuse(proxy, 1);
    code = child_wait(asks, patience_ms(30000));
    proxy_refuse(proxy, 0);
    proxy_delay(proxy, 0);
    proxy_cut_reply(proxy, INT32_MAX); /* it had not so many */
    return code;
}

/* From the end of the session to its beginning: first it was answered (0), then it was done and
 * nobody heard (79), and before that nothing was done (69). */
static void assert_lost_reply_is_79(struct proxy *proxy, const char *verb)
{
    char line[200];
    int code = 0;

    snprintf(line, sizeof line, "sqlock $G %s nightly $(cat $D/grant)", verb);
    for (int request = 11; request > 2 && code == 0; request--) {
        assert_sh("sqlock $G acquire -w 20s --ttl 1h nightly >$D/grant");
        code = code_without_reply(proxy, request, line);
        /* Asked again: the same answer as if it had been heard. */
        assert_sh("%s && sqlock $G release nightly $(cat $D/grant)", line);
    }
    if (code != 79)
        fail_msg("%s ended with %d: %s", verb, code, text_of("err"));
}

static void test_release_and_renew_whose_reply_is_lost_are_79(void **state)
{
    struct proxy *proxy;

    (void)state;
    database_new();
    proxy = database_by_proxy();
    assert_lost_reply_is_79(proxy, "renew --ttl 1h");
    assert_lost_reply_is_79(proxy, "release");
    proxy_stop(proxy);
}

int main(void)
{
    static const struct CMUnitTest all[] = {
        cmocka_unit_test(test_unreachable_database_is_69),
        cmocka_unit_test(test_damaged_database_is_65),
        cmocka_unit_test(test_refused_by_the_database_is_77),
        cmocka_unit_test(test_row_of_a_newer_version_is_65),
        cmocka_unit_test(test_schema_that_is_too_new_is_78),
        cmocka_unit_test(test_migration_of_another_file_is_78),
        cmocka_unit_test(test_tables_that_are_gone_are_78),
    };
    /* Where a full disk is one line; and what is the same on all. */
    static const struct CMUnitTest file[] = {
        cmocka_unit_test(test_wait_db_waits_for_the_database),
        cmocka_unit_test(test_database_that_can_only_be_read_is_78),
        cmocka_unit_test(test_lock_in_a_file_that_is_locked_is_busy_by_name),
        cmocka_unit_test(test_database_that_cannot_write_is_74),
    };
    static const struct CMUnitTest postgres[] = {
        cmocka_unit_test(test_guarded_lock_is_75),
        cmocka_unit_test(test_database_that_can_only_be_read_is_78),
    };
    /* Where there is a network. */
    static const struct CMUnitTest server[] = {
        cmocka_unit_test(test_url_that_names_nothing_is_78_at_once),
        cmocka_unit_test(test_wait_db_waits_for_a_server),
        cmocka_unit_test(test_server_that_cannot_write_is_74),
        cmocka_unit_test(test_lost_reply_is_79_and_its_owner_settles_it),
        cmocka_unit_test(test_release_and_renew_whose_reply_is_lost_are_79),
        cmocka_unit_test(test_run_gives_back_what_it_was_granted_without_hearing_of_it),
    };

    return RUN_ON_DATABASES(all) | RUN_ON("sqlite", file) | RUN_ON("postgres", postgres) |
           RUN_ON("postgres", server) | RUN_ON("mysql", server);
}
