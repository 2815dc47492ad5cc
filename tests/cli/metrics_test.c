/* reap --metrics-file: what collectors find there, and when it cannot be written. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cli/shell.h"

#define METRICS "--metrics-file $D/orders.prom"

/* A value of the file; -1: it is not there. */
static double value_of(const char *name)
{
    const char *out = sh("sed -n 's/^sqlock_reap_%s //p' $D/orders.prom", name)->out;

    return *out != '\0' ? atof(out) : -1;
}

/* Nothing but the files that the test made: no half one beside them. */
static void assert_nothing_beside(const char *folder)
{
    assert_says(1, "", NULL, "ls -A %s | grep '^\\.orders'", folder);
}

TEST(test_metrics_report_what_a_run_did, ON_ALL)
{
    database_leave(2);
    assert_sh("sqlock $G acquire -n --ttl 1h new");
    assert_sh("umask 027; before=$(date +%%s); sqlock $G -q reap --grace 0 " METRICS "; "
              "echo $before >$D/before");
    assert_true(value_of("rows_cleared{reaper=\"orders\"}") == 2);
    assert_true(value_of("rows_pruned{reaper=\"orders\"}") == 0);
    assert_true(value_of("rows_seen{reaper=\"orders\"}") >= 3);
    assert_true(value_of("exit_code{reaper=\"orders\"}") == 0);
    assert_true(value_of("outcome{reaper=\"orders\",outcome=\"done\"}") == 1);
    assert_true(value_of("outcome{reaper=\"orders\",outcome=\"busy\"}") == 0);
    assert_between(1, (int64_t)(value_of("duration_seconds{reaper=\"orders\"}") * 1e6),
                   patience_ms(20000) * 1000);
    assert_between(3600, (int64_t)value_of("oldest_expired_seconds{reaper=\"orders\"}"),
                   3600 + patience_ms(20000) / 1000);
    assert_between(0,
                   (int64_t)value_of("last_success_timestamp_seconds{reaper=\"orders\"}") -
                       atoi(text_of("before")),
                   patience_ms(20000) / 1000);
    assert_string_equal(sh("stat -c %%a $D/orders.prom")->out, "640\n");
    assert_nothing_beside("$D");
}

/* Each family is announced once, each line is one that a parser takes, and there is an end. */
TEST(test_metrics_are_text_that_collectors_read, ON_SQLITE)
{
    assert_sh(
        "mkdir \"$D/a\\\"b\"; sqlock $G -q reap --metrics-file \"$D/a\\\"b/it's \\\"x\\\".prom\"; "
        "cp \"$D/a\\\"b/it's \\\"x\\\".prom\" $D/orders.prom");
    assert_says(
        1, "", NULL,
        "grep -vE '^# (HELP|TYPE) sqlock_reap_[a-z_]+ .+$|^# EOF$|"
        "^sqlock_reap_[a-z_]+\\{reaper=\"it.s \\\\\"x\\\\\"\"(,outcome=\"[a-z]+\")?\\} [0-9.]+$' "
        "$D/orders.prom");
    assert_string_equal(sh("tail -n 1 $D/orders.prom")->out, "# EOF\n");
    assert_string_equal(sh("sed -n 's/^# TYPE //p' $D/orders.prom | sort | uniq -d")->out, "");
    assert_sh("for n in $(sed -n 's/^\\(sqlock[a-z_]*\\).*/\\1/p' $D/orders.prom); do "
              "grep -q \"^# TYPE $n gauge\" $D/orders.prom || exit 1; done");
    assert_says(1, "0\n", NULL, "grep -cF \"$SQLOCK_URL\" $D/orders.prom");
}

TEST(test_metrics_of_a_failure_keep_the_last_success, ON_SQLITE)
{
    double success;

    assert_sh("sqlock $G reap " METRICS);
    success = value_of("last_success_timestamp_seconds{reaper=\"orders\"}");
    assert_true(success > 0);
    assert_says(69, "", "/nonexistent/x",
                "sleep 1.1; sqlock -U sqlite:/nonexistent/x reap " METRICS);
    assert_true(value_of("outcome{reaper=\"orders\",outcome=\"failed\"}") == 1);
    assert_true(value_of("exit_code{reaper=\"orders\"}") == 69);
    assert_true(value_of("last_success_timestamp_seconds{reaper=\"orders\"}") == success);
    assert_true(value_of("last_run_timestamp_seconds{reaper=\"orders\"}") > success);
    assert_true(value_of("rows_cleared{reaper=\"orders\"}") == -1);
    /* What was wrong on the command line was no run. */
    assert_sh("cp $D/orders.prom $D/copy");
    assert_says(64, "", NULL, "sqlock $G reap --batch 0 " METRICS);
    assert_says(64, "", "--dry-run", "sqlock $G reap --dry-run " METRICS);
    assert_sh("cmp $D/orders.prom $D/copy");
}

/* ---- whenever they look ---------------------------------------------------------------------- */

TEST(test_metrics_are_never_half_there, ON_SQLITE)
{
    pid_t reaper = sh_start("exec sqlock $G -q reap --loop 100ms " METRICS);

    wait_for("orders.prom");
    assert_sh("i=0; while [ $i -lt 300 ]; do i=$((i + 1)); "
              "t=$(cat $D/orders.prom) && case $t in *'# EOF') ;; *) exit 1 ;; esac; done");
    kill(reaper, SIGTERM);
    assert_int_equal(child_wait(reaper, patience_ms(10000)), 128 + SIGTERM);
    assert_nothing_beside("$D");
}

/* Who may write in the folder chooses what is replaced, if links are followed. */
TEST(test_metrics_follow_no_link, ON_SQLITE)
{
    assert_sh(
        "mkdir $D/there; echo old >$D/there/orders.prom; ln -s there/orders.prom $D/orders.prom");
    assert_says(74, NULL, "it is a symbolic link", "sqlock $G reap " METRICS);
    assert_sh("test -L $D/orders.prom && echo old | cmp - $D/there/orders.prom");
    assert_nothing_beside("$D/there");
    /* Nor one that leads nowhere yet. */
    assert_sh("ln -sf there/new.prom $D/orders.prom");
    assert_says(74, NULL, "it is a symbolic link", "sqlock $G reap " METRICS);
    assert_sh("test ! -e $D/there/new.prom");
}

/* A link of root's or our own on the way is what an administrator has made of the system. */
TEST(test_metrics_follow_our_own_folders_only, ON_SQLITE)
{
    assert_sh("mkdir $D/there; ln -s there $D/way; ln -s $D/way $D/far; "
              "sqlock $G reap --metrics-file $D/far/../way/orders.prom; "
              "grep -q EOF $D/there/orders.prom");
    if (sh("test $(id -u) = 0 && chown -h 65534 $D/way")->code != 0) {
        print_error("SKIP: not root: a link of another user's is not tested\n");
        skip();
    }
    assert_says(74, NULL, "another user's",
                "echo old >$D/there/orders.prom; sqlock $G reap --metrics-file $D/far/orders.prom");
    assert_sh("echo old | cmp - $D/there/orders.prom");
    assert_nothing_beside("$D/there");
}

/* ---- when it cannot be written --------------------------------------------------------------- */

/* The work was done all the same. */
static void assert_refused(const char *file, const char *why)
{
    assert_sh("sqlock $G acquire -n --ttl 100ms old; sleep 0.2");
    assert_says(74, "\"cleared\":1,", why, "sqlock $G --json reap --grace 0 --metrics-file %s",
                file);
    assert_said(74, NULL, "--metrics-file");
}

TEST(test_metrics_that_cannot_be_written_are_74, ON_SQLITE)
{
    assert_sh("mkdir $D/folder; mkfifo $D/pipe");
    assert_refused("$D/folder", "Is a directory");
    assert_refused("$D/absent/orders.prom", "No such file");
    assert_refused("$D/folder/", "Is a directory");
    assert_refused("$D/pipe", "Invalid argument");
    assert_refused("/dev/full", "Invalid argument");
    assert_sh("test -p $D/pipe && test -c /dev/full && test -z \"$(ls -A $D/folder)\"");
}

/* Files may not grow at all, or not to the end of this one: a server's disk is not cut. */
TEST(test_metrics_cut_short_keep_the_old_file, ON_POSTGRES)
{
    assert_sh("sqlock $G reap " METRICS "; cp $D/orders.prom $D/copy");
    assert_sh("ulimit -f 0; trap '' XFSZ; sqlock $G reap " METRICS
              " >/dev/null 2>&1; test $? = 74");
    assert_sh("cmp $D/orders.prom $D/copy");
    assert_says(0, "File too large", NULL,
                "ulimit -f 1; trap '' XFSZ; sqlock $G reap " METRICS " 2>&1 | grep too");
    assert_sh("cmp $D/orders.prom $D/copy");
    assert_nothing_beside("$D");
}

/* The disk is full for a while: the loop goes on. */
TEST(test_loop_outlives_metrics_that_cannot_be_written, ON_SQLITE)
{
    pid_t reaper =
        sh_start("exec sqlock $G -q reap --loop 100ms --metrics-file $D/later/orders.prom");

    assert_soon(strstr(text_of("err"), "No such file") != NULL, patience_ms(10000));
    assert_false(child_ended(reaper));
    assert_sh("mkdir $D/later");
    wait_for("later/orders.prom");
    kill(reaper, SIGTERM);
    assert_int_equal(child_wait(reaper, patience_ms(10000)), 128 + SIGTERM);
}

TEST_MAIN_OF_COMMAND
