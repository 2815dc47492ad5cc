/* sqlock lead: a command that runs on one host of many, the leader's. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/cli/shell.h"
#include "tests/lib/proxy.h"

/* One waits for the leader's lock. */
static bool one_waits(void)
{
    return atoi(sh("sqlock $G --json ls --waiting | grep -o '\"place\"' | wc -l")->out) == 1;
}

#define await_one_waits() assert_soon(one_waits(), patience_ms(20000))

/* It stands for election. As the leader it adds its token to the file `who`. */
static pid_t stand(const char *options, const char *who)
{
    return sh_start("exec sqlock $G lead --ttl 20s %s scheduler sh -c 'echo $SQLOCK_TOKEN >>$D/%s; "
                    "exec sleep 600' 2>>$D/err.%s",
                    options, who, who);
}

/* Where the test waits for its lease to end. */
#define BRIEF "--ttl 3s"

/* How often it has led; the token of the last time. */
static int times(const char *who)
{
    int n = 0;

    for (const char *at = text_of(who); (at = strchr(at, '\n')) != NULL; at++)
        n++;
    return n;
}

static int64_t token(const char *who)
{
    return atoll(sh("tail -n 1 $D/%s", who)->out);
}

#define await_times(who, n) assert_soon(times(who) == (n), patience_ms(30000))

static void begin_two(pid_t *one, pid_t *two, const char *options)
{
    *one = stand(options, "one");
    await_times("one", 1);
    *two = stand(options, "two");
    await_one_waits();
    assert_int_equal(times("two"), 0);
}

/* The command is ended by the signal too. */
static void end(pid_t candidate)
{
    kill(candidate, SIGTERM);
    assert_int_equal(child_wait(candidate, patience_ms(20000)), 128 + SIGTERM);
}

/* ---- who follows ----------------------------------------------------------------------------- */

TEST(test_next_in_line_leads_when_the_leader_is_killed, ON_ALL)
{
    pid_t one, two;

    begin_two(&one, &two, BRIEF);
    kill_locker(one);
    await_times("two", 1);
    assert_true(token("two") > token("one"));
    end(two);
    assert_says(0, "", "", "sqlock $G ls --held");
}

TEST(test_next_in_line_leads_when_a_signal_ends_the_leader, ON_SQLITE)
{
    pid_t one, two;

    begin_two(&one, &two, "");
    end(one);
    await_times("two", 1);
    end(two);
}

/* It is cut off as if its machine were paused: its command ends before the next one's begins. */
TEST(test_leader_that_was_stopped_stands_for_election_again, ON_SQLITE)
{
    pid_t one, two;

    begin_two(&one, &two, BRIEF);
    kill(one, SIGSTOP);
    await_times("two", 1);
    kill(one, SIGCONT);
    await_one_waits();
    end(two);
    await_times("one", 2);
    end(one);
}

/* P6 */
TEST(test_leader_whose_lock_is_broken_stands_for_election_again, ON_ALL)
{
    pid_t one, two;

    begin_two(&one, &two, "");
    assert_sh("sqlock $G break scheduler --token $($D/token scheduler)");
    await_times("two", 1);
    await_one_waits();
    assert_non_null(strstr(text_of("err.one"), "scheduler: lock lost: "));
    assert_int_equal(times("one"), 1);
    end(two);
    await_times("one", 2);
    end(one);
}

TEST(test_leader_whose_guardian_is_killed_stands_for_election_again, ON_SQLITE)
{
    pid_t one = stand("", "one");

    await_times("one", 1);
    kill(guardian_of(one), SIGKILL);
    await_times("one", 2);
    assert_int_equal(1, atoi(sh("pgrep -c -P $(pgrep -P $(pgrep -P %d))", (int)one)->out));
    end(one);
}

TEST(test_signal_ends_who_waits, ON_ALL)
{
    pid_t one, two;

    begin_two(&one, &two, "");
    end(two);
    assert_sh("sqlock $G ls --waiting | grep -c . | grep -qx 1");
    assert_int_equal(times("two"), 0);
    end(one);
}

/* ---- on request ------------------------------------------------------------------------------ */

TEST(test_leader_hands_over_on_request_and_leads_again_later, ON_ALL)
{
    pid_t one, two;

    assert_says(1, "", "scheduler: no one leads", "sqlock $G lead --resign scheduler");
    begin_two(&one, &two, "");
    sh("sqlock $G lead --resign scheduler");
    assert_said(0, textf("scheduler: requested to resign: %d@", (int)one), "");
    await_times("two", 1);
    await_one_waits();
    assert_true(token("two") > token("one"));
    assert_non_null(
        strstr(text_of("err.one"), "requested to resign; the command is being stopped"));
    assert_says(0, textf("\"pid\":%d,", (int)two), "", "sqlock $G --json lead --resign scheduler");
    await_times("one", 2);
    await_one_waits();
    assert_int_equal(times("two"), 1);
    end(two);
    end(one);
}

/* The request was for the grant before. */
TEST(test_leader_that_resigned_to_no_one_leads_on, ON_SQLITE)
{
    pid_t one = stand("", "one");

    await_times("one", 1);
    assert_sh("sqlock $G lead --resign scheduler");
    await_times("one", 2);
    sleep_ms(2500); /* it looks twice */
    assert_int_equal(times("one"), 2);
    end(one);
}

/* The command has its -k, though the lease is shorter: the lock is held until it has ended. */
TEST(test_command_of_a_leader_that_resigns_has_time_to_end, ON_SQLITE)
{
    pid_t one = sh_start("exec sqlock $G lead --ttl 1s -k 60s --on-lost kill scheduler sh -c "
                         "'trap \"sleep 2; echo >$D/tidy; exit 7\" TERM; echo >$D/one; "
                         "while :; do sleep 0.05; done'"),
          two;

    wait_for("one");
    two = sh_start("exec sqlock $G run scheduler sh -c 'test -e $D/tidy && echo >$D/after'");
    await_one_waits();
    assert_sh("rm $D/one && sqlock $G lead --resign scheduler");
    assert_int_equal(child_wait(two, patience_ms(30000)), 0);
    assert_sh("test -e $D/after");
    wait_for("one"); /* it leads again */
    kill(one, SIGTERM);
    assert_int_equal(child_wait(one, patience_ms(20000)), 7);
}

TEST(test_command_that_does_not_end_on_request_is_killed, ON_SQLITE)
{
    pid_t one = sh_start("exec sqlock $G lead -k 300ms --status-fd 3 scheduler sh -c "
                         "'trap \"\" TERM; echo $$ >>$D/one; while :; do sleep 0.05; done' "
                         "3>$D/status");

    await_times("one", 1);
    assert_sh("sqlock $G lead --resign scheduler");
    await_times("one", 2);
    assert_sh("! kill -0 $(head -n 1 $D/one)");
    assert_int_equal(times("status"), 1);
    assert_non_null(strstr(text_of("status"), "\"outcome\":\"resigned\",\"exit\":137,"));
    kill_locker(one);
}

/* Who holds it otherwise is no leader that looks, and the register may be another program's. */
TEST(test_request_that_cannot_be_made_is_refused, ON_SQLITE)
{
    pid_t one;

    assert_sh("sqlock $G once --every 9000d scheduler true");
    one = stand("", "one");
    await_times("one", 1);
    assert_says(65, "", "something else", "sqlock $G lead --resign scheduler");
    assert_sh("! sqlock $G lead --resign '' 2>/dev/null");
    end(one);
    assert_int_equal(times("one"), 1);
}

/* ---- the command's end ----------------------------------------------------------------------- */

TEST(test_command_that_ends_ends_the_election, ON_ALL)
{
    assert_says(7, "out\n", "err\n",
                "sqlock $G lead scheduler -- sh -c 'echo out; echo err >&2; exit 7'");
    assert_says(0, "", "",
                "sqlock $G lead -c scheduler 'test $SQLOCK_NAME$SQLOCK_HELD = "
                "scheduler1 -a $SQLOCK_TOKEN -gt 0'");
    assert_says(127, "", NULL, "sqlock $G lead --again scheduler ./not-there");
    assert_says(124, "", NULL, "sqlock $G lead --max-time 200ms scheduler sleep 60");
    assert_says(0, "", "", "sqlock $G ls --held");
}

/* What it was started with is there for each of its commands. */
TEST(test_again_stands_for_election_after_the_commands_end, ON_ALL)
{
    pid_t one;

    assert_sh("echo $SQLOCK_URL >$D/url; printf 'a\\nb\\nc\\n' >$D/in");
    one = sh_start("exec sqlock $G --url-file $D/url lead --again scheduler sh -c 'read line; "
                   "echo $line; echo $SQLOCK_TOKEN >>$D/one; test $line = c && exec sleep 60; "
                   "exit 3' <$D/in >$D/lines");
    await_times("one", 3);
    assert_string_equal(text_of("lines"), "a\nb\nc\n");
    end(one);
    assert_sh("sort -n -u $D/one | cmp - $D/one && test $(wc -l <$D/one) -eq 3");
}

/* ---- the database ---------------------------------------------------------------------------- */

TEST(test_leader_comes_back_when_the_database_answers_again, ON_POSTGRES)
{
    struct proxy *proxy = database_by_proxy();
    pid_t one;

    proxy_refuse(proxy, 1);
    one = stand(BRIEF, "one");
    assert_soon(strstr(text_of("err.one"), "trying again, each second") != NULL,
                patience_ms(20000));
    proxy_refuse(proxy, 0);
    await_times("one", 1);
    proxy_refuse(proxy, 1);
    proxy_cut(proxy);
    database_directly();
    assert_sh("sqlock $G run -w 60s scheduler true"); /* its lease has ended */
    proxy_refuse(proxy, 0);
    await_times("one", 2);
    end(one);
    proxy_stop(proxy);
}

TEST(test_what_time_does_not_set_right_ends_it, ON_SQLITE | EMPTY)
{
    assert_says(78, "", "migrate up", "sqlock $G lead scheduler true");
    assert_says(78, "", "unknown kind", "sqlock -U nonsense://x lead scheduler true");
}

/* ---- usage ----------------------------------------------------------------------------------- */

TEST(test_wrong_usage_is_refused, ON_SQLITE)
{
    assert_says(64, "", "lead needs a NAME and a CMD", "sqlock $G lead scheduler");
    assert_says(64, "", "lead --resign needs one NAME", "sqlock $G lead --resign");
    assert_says(64, "", "lead --resign needs one NAME", "sqlock $G lead --resign scheduler true");
    assert_says(64, "", "use term or kill", "sqlock $G lead --on-lost warn scheduler true");
    assert_says(64, "", "unknown option -n", "sqlock $G lead -n scheduler true");
    assert_says(64, "", "outer", "sqlock $G run scheduler sqlock $G lead scheduler true");
}

TEST_MAIN_OF_COMMAND
