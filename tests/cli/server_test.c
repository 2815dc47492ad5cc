/* Servers as they come: behind a pooler, with a standby, forgetful. The options that are about
 * them, and what a user who lacks one is told. */
#include <stdlib.h>
#include <string.h>

#include "tests/cli/shell.h"
#include "tests/lib/my_private.h"
#include "tests/lib/pair.h"
#include "tests/lib/pg.h"
#include "tests/lib/pooler.h"
#include "tests/lib/private.h"

/* Another server than the test's; $G leads to a schema on it. */
__attribute__((unused)) static void database_at(const char *url, const char *schema)
{
    setenv("SQLOCK_URL", url, 1);
    setenv("G", textf("--schema %s", schema), 1);
}

/* The whole life of a lock, and what people and cron do. */
__attribute__((unused)) static void assert_all_work(const char *option)
{
    setenv("O", option, 1);
    assert_sh("sqlock $G $O migrate up && sqlock $G $O migrate verify && "
              "sqlock $G $O migrate status --exit-code");
    assert_sh("sqlock $G $O acquire -n nightly >$D/grant && "
              "sqlock $G $O renew nightly $(cat $D/grant)");
    assert_says(75, "", "is busy", "sqlock $G $O run -n nightly true");
    assert_sh("sqlock $G $O run -n nightly true 2>&1 | sed -n 's/.*holder is dead: //p' >$D/line; "
              "grep -q -- \"$O\" $D/line && . $D/line");
    assert_says(1, "", NULL, "sqlock $G $O release nightly $(cat $D/grant)");
    assert_says(0, "held", "",
                "sqlock $G $O run --ttl 5s nightly sh -c 'sleep 6; sqlock $G $O show nightly'");
    assert_says(0, "free", "", "sqlock $G $O show nightly; sqlock $G $O ls; sqlock $G $O reap");
}

/* ---- files ----------------------------------------------------------------------------------- */

/* No other process would ever see it. */
TEST(test_sqlite_in_memory_is_refused_by_name, ON_SQLITE | EMPTY)
{
    assert_says(78, "",
                ":memory:", "sqlock -U sqlite::memory: --accept-weak run nightly touch $D/ran");
    assert_says(1, NULL, NULL, "test -e $D/ran");
}

/* ---- pgbouncer ------------------------------------------------------------------------------- */

#ifdef TEST_HAVE_POSTGRES
/* What other clients of the pool find in its sessions. */
static const char *path_in_the_pool(void)
{
    return sh("psql -XAtc 'SHOW search_path' \"$SQLOCK_URL\"")->out;
}

TEST(test_unprepared_leaves_a_poolers_sessions_as_they_were, ON_POSTGRES | EMPTY)
{
    private_exec("DROP SCHEMA IF EXISTS guest CASCADE; CREATE SCHEMA guest");
    database_at(pooler_url(), "guest");
    assert_string_equal(path_in_the_pool(), "\"$user\", public\n");
    assert_all_work("--unprepared");
    assert_string_equal(path_in_the_pool(), "\"$user\", public\n");
    assert_string_equal(
        sh("psql -XAtc 'SELECT count(*) FROM pg_prepared_statements' \"$SQLOCK_URL\"")->out, "0\n");
    /* What it is for: without it the session of the next client has another path. */
    assert_sh("sqlock $G run nightly true");
    assert_string_equal(path_in_the_pool(), "pg_catalog, pg_temp\n");
}

/* ---- a standby ------------------------------------------------------------------------------- */

/* The URL names two servers, and the first one's end is not the command's. */
TEST(test_P7_run_outlives_a_failover, ON_POSTGRES | EMPTY)
{
    struct pair *pair = pair_start(PAIR_POSTGRES);
    pid_t run;

    setenv("SQLOCK_URL", pair_url(pair), 1);
    setenv("G", "", 1);
    assert_sh("sqlock migrate up");
    run =
        sh_start("sqlock run --ttl 12s nightly sh -c 'echo on >$D/begun; sleep 7; echo >$D/ended'");
    wait_for("begun");
    pair_await(pair);
    pair_kill(pair);
    pair_promote(pair);
    assert_int_equal(child_wait(run, patience_ms(30000)), 0);
    assert_string_equal(text_of("ended"), "\n");
    assert_sh("sqlock run -w 5s nightly true");
    pair_stop(pair);
}

/* ---- weak durability ------------------------------------------------------------------------- */

static void set_fsync(const char *value)
{
    private_exec("ALTER SYSTEM SET fsync = %s", value);
    private_exec("SELECT pg_reload_conf()");
    assert_soon(private_number("SELECT (current_setting('fsync') = '%s')::int", value) == 1,
                patience_ms(5000));
}

/* Programs are told of a flag, people of the option. */
static void assert_refused_as_weak(const char *why)
{
    static const char *const lines[] = {"ls", "acquire -n a", "run -n a touch $D/ran", "reap"};

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_says(78, "", why, "sqlock $G %s", lines[i]);
        assert_said(78, "", "(--accept-weak accepts that)\n");
        assert_null(strstr(sh("sqlock $G %s", lines[i])->err, "SQLOCK_OPEN"));
    }
    assert_says(1, NULL, NULL, "test -e $D/ran");
}

TEST(test_postgres_without_fsync_is_refused_unless_accepted, ON_POSTGRES | EMPTY)
{
    private_exec("DROP SCHEMA IF EXISTS weak CASCADE; CREATE SCHEMA weak");
    database_at(private_url(), "weak");
    assert_sh("sqlock $G migrate up");
    set_fsync("off");
    assert_refused_as_weak("fsync is off");
    assert_all_work("--accept-weak");
    set_fsync("on");
    assert_sh("sqlock $G ls");
}

/* ---- a server that becomes a replica, or was one ----------------------------------------------
 */

static void set_read_only(const char *value)
{
    private_exec("ALTER SYSTEM SET default_transaction_read_only = %s", value);
    private_exec("SELECT pg_reload_conf()");
    sleep_ms(300);
}

TEST(test_switchover_is_waited_for_on_request, ON_POSTGRES | EMPTY)
{
    pid_t waits, leads;

    private_exec("DROP SCHEMA IF EXISTS turn CASCADE; CREATE SCHEMA turn");
    database_at(private_url(), "turn");
    assert_sh("sqlock $G migrate up");
    set_read_only("on");
    assert_says(78, "", "this server cannot hold locks", "sqlock $G run -n nightly true");
    waits = sh_start("exec sqlock $G --wait-db 60s run nightly sh -c 'echo >$D/ran'");
    leads = sh_start("exec sqlock $G lead scheduler sh -c 'echo >$D/led'");
    sleep_ms(1500);
    assert_sh("test ! -e $D/ran -a ! -e $D/led");
    set_read_only("off");
    assert_int_equal(child_wait(waits, patience_ms(30000)), 0);
    assert_int_equal(child_wait(leads, patience_ms(30000)), 0);
    assert_sh("test -e $D/ran -a -e $D/led");
}

#endif

#ifdef TEST_HAVE_MYSQL
#endif

/* ---- passwords ------------------------------------------------------------------------------- */

/* $PW_URL leads to the database, by a password that counts or not. Whatever sqlock says and shows
 * is put into files of $D/all; while a command runs, the process list of it and of all its
 * processes, and what it is given. */
__attribute__((unused)) static void assert_password_is_seen_nowhere(void)
{
    static const char *const ways[] = {"-U \"$PW_URL\"", "--url=\"$PW_URL\"", "--url-file $D/url"};

    unsetenv("SQLOCK_URL");
    assert_sh("mkdir $D/all; echo \"$PW_URL\" >$D/url");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        assert_sh("s() { sqlock -v $G %s \"$@\"; }; exec >>$D/all/said 2>&1; "
                  "s migrate up; s migrate status; s acquire -n a; "
                  "s run -n a true; s acquire -n a; s ls; s --json ls; s show a; s waits; "
                  "s break --yes --older-than 0; s reap --metrics-file $D/all/reap.prom; "
                  "s ls --nonsense; s run -n b $D/absent; s --schema nowhere ls; true",
                  ways[i]);
        assert_sh("sqlock -v $G %s run --status-fd 3 b sh -c 'unset PW_URL; sleep 0.2; "
                  "cat /proc/self/environ /proc/[0-9]*/cmdline; echo' "
                  "3>$D/all/status >$D/all/seen.%d 2>>$D/all/said",
                  ways[i], (int)i);
    }
    /* From the environment: what it was given there a command may find there. */
    assert_sh("SQLOCK_URL=$PW_URL sqlock -v $G run b sh -c 'cat /proc/[0-9]*/cmdline' "
              ">$D/all/seen.env 2>>$D/all/said; "
              "SQLOCK_URL=$PW_URL sqlock -v $G run -n b $D/absent 2>>$D/all/said; true");
    assert_sh("grep -q 'a is busy' $D/all/said && grep -q sqlock_reap $D/all/reap.prom && "
              "grep -q -a 'lock-guardian.b' $D/all/seen.0 && grep -q token $D/all/status");
    assert_says(1, "", NULL, "grep -r -a -l 'h0rse\\|h0r%%73e' $D/all");
}

#ifdef TEST_HAVE_POSTGRES
TEST(test_password_for_postgres_is_seen_nowhere, ON_POSTGRES | EMPTY)
{
    private_exec("DROP SCHEMA IF EXISTS secret CASCADE; CREATE SCHEMA secret");
    database_at(private_url(), "secret");
    setenv("PW_URL", textf("postgresql://postgres:h0rse@/postgres?host=%s", private_dir()), 1);
    assert_password_is_seen_nowhere();
    assert_sh("sqlock -U \"$PW_URL\" $G run b true 2>/dev/null");
    unsetenv("PW_URL");
    assert_int_equal(private_number("SELECT count(*) FROM pg_stat_activity a "
                                    "WHERE to_jsonb(a)::text LIKE '%%h0' || 'rse%%'"),
                     0);
}
#endif

#ifdef TEST_HAVE_MYSQL
TEST(test_password_for_mysql_is_seen_nowhere, ON_MYSQL | EMPTY)
{
    my_private_exec("CREATE DATABASE IF NOT EXISTS secret; CREATE USER keeper@localhost "
                    "IDENTIFIED BY 'h0rse'; GRANT ALL ON *.* TO keeper@localhost");
    database_at(my_private_url(), "secret");
    setenv("PW_URL", textf("mysql://keeper:h0r%%73e@localhost/test?socket=%s", my_private_socket()),
           1);
    assert_password_is_seen_nowhere();
    unsetenv("PW_URL");
}

#endif

TEST_MAIN_OF_COMMAND
