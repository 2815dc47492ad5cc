/* Who waits: for whom and at which place, ls --waiting, show with the queue. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cli/shell.h"

/* For sh(): until so many wait. */
#define UNTIL_WAIT(n)                                                                              \
    "until test $(sqlock $G --json ls --waiting | grep -o '\"place\"' | wc -l) -eq " #n            \
    "; do sleep 0.05; done"

static pid_t waiters[2];

/* nightly is held, $D/grant has by whom; "job=one" and "job=two" wait for it. */
static void begin_waiting(void)
{
    assert_sh("sqlock $G acquire -n --ttl 1h nightly >$D/grant && sqlock $G acquire -n other");
    waiters[0] = sh_start("exec sqlock $G run -m job=one nightly true");
    assert_sh(UNTIL_WAIT(1));
    waiters[1] = sh_start("exec sqlock $G run -m job=two nightly true");
    assert_sh(UNTIL_WAIT(2));
}

/* They get the lock, and end. */
static void end_waiting(void)
{
    assert_sh("sqlock $G release nightly $(cat $D/grant)");
    for (int i = 0; i < 2; i++)
        assert_int_equal(child_wait(waiters[i], patience_ms(20000)), 0);
    assert_sh(UNTIL_WAIT(0));
}

TEST(test_ls_shows_who_waits, ON_ALL)
{
    begin_waiting();
    assert_sh("sqlock $G ls --waiting >$D/ls; cat $D/ls");
    assert_sh(
        "test $(grep -c . $D/ls) -eq 3 && head -n 1 $D/ls | grep -q '^NAME  *PLACE  *WAITED  "
        "FOR  *WAITER$' && sed -n 2p $D/ls | grep -q '^nightly  *1 .* exclusive .* job=one$' && "
        "sed -n 3p $D/ls | grep -q '^nightly  *2 .* job=two$'");
    assert_int_equal(2, atoi(sh("sqlock $G ls --waiting 'n*y' | grep -c nightly")->out));
    assert_int_equal(2, atoi(sh("sqlock $G ls --waiting nightly | grep -c nightly")->out));
    assert_int_equal(1, atoi(sh("sqlock $G ls --waiting night | grep -c .")->out));
    assert_int_equal(1, atoi(sh("sqlock $G ls --waiting '' | grep -c .")->out));
    assert_int_equal(1, atoi(sh("sqlock $G ls --waiting --older-than 1h | grep -c .")->out));
    assert_int_equal(3, atoi(sh("sqlock $G ls | grep -c .")->out)); /* the locks alone */
    end_waiting();
    assert_int_equal(1, atoi(sh("sqlock $G ls --waiting | grep -c .")->out));
    assert_says(0, "[]\n", "", "sqlock $G --json ls --waiting");
}

TEST(test_ls_that_watches_shows_who_waits, ON_ALL)
{
    begin_waiting();
    assert_int_equal(3, atoi(sh("sqlock $G ls --watch=100ms | grep -m 3 -c 'job=two$'")->out));
    assert_int_equal(
        3, atoi(sh("sqlock $G ls --watch=100ms --waiting | grep -m 3 -c 'job=two$'")->out));
    assert_int_equal(
        0, atoi(sh("sqlock $G ls --watch=100ms --held | head -n 9 | grep -c 'job=two$'")->out));
    assert_int_equal(
        0, atoi(sh("sqlock $G --json ls --watch=100ms | head -n 3 | grep -c job=two")->out));
    end_waiting();
}

TEST(test_show_has_the_queue, ON_ALL)
{
    begin_waiting();
    assert_sh("sqlock $G show nightly >$D/show; cat $D/show");
    assert_sh(
        "grep -q '^queue       1: .* job=one, exclusive, since 20.*Z (.*s)$' $D/show && "
        "tail -n 1 $D/show | grep -q '^            2: .* job=two, exclusive, since 20.*Z (.*s)$'");
    assert_says(0, "held", "", "sqlock $G show other");
    assert_null(strstr(sh("sqlock $G show other")->out, "queue"));
    end_waiting();
    assert_null(strstr(sh("sqlock $G show nightly")->out, "queue"));
}

/* As the ls of JSON has it, and with the name there. */
static void check_waiters(json_t *rows, const char *name)
{
    static const char *const labels[] = {"job=one", "job=two"};

    assert_int_equal(json_array_size(rows), 2);
    for (size_t i = 0; i < 2; i++) {
        json_t *row = json_array_get(rows, i);
        const char *owner, *label, *host;
        json_int_t place, waited, pid;

        assert_int_equal(json_unpack(row, "{s:I, s:I, s:s, s:I, s:s, s:s}", "place", &place,
                                     "waited_ms", &waited, "owner", &owner, "pid", &pid, "host",
                                     &host, "label", &label),
                         0);
        assert_int_equal(place, i + 1);
        assert_between(0, waited, patience_ms(20000));
        assert_int_equal(strlen(owner), 32);
        assert_int_equal(pid, waiters[i]);
        assert_string_equal(label, labels[i]);
        if (name != NULL)
            assert_string_equal(json_string_value(json_object_get(row, "name")), name);
    }
    json_decref(rows);
}

TEST(test_json_shows_who_waits, ON_ALL)
{
    json_t *show;

    begin_waiting();
    check_waiters(json_loads(sh("sqlock $G --json ls --waiting")->out, 0, NULL), "nightly");
    show = json_loads(sh("sqlock $G --json show nightly")->out, 0, NULL);
    check_waiters(json_incref(json_object_get(show, "queue")), NULL);
    json_decref(show);
    assert_says(0, ",\"queue\":[]}", "", "sqlock $G --json show other");
    end_waiting();
}

TEST(test_waiter_learns_its_place, ON_ALL)
{
    assert_sh("sqlock $G acquire -n --ttl 1h -m job=x nightly");
    sh_start("exec sqlock $G run nightly true");
    assert_sh(UNTIL_WAIT(1));
    assert_says(75, "", "sqlock: waiting for \"nightly\", held by ",
                "sqlock -v $G run -w 3s nightly true");
    assert_said(75, "", ", place 2 in the queue; Ctrl-C to give up\n");
    assert_said(75, "", ", place 2 in the queue; if the holder is dead: ");
    assert_says(75, "", ", place 2 in the queue; Ctrl-C to give up\n",
                "sqlock -v $G acquire -w 3s nightly");
    assert_null(strstr(sh("sqlock $G acquire -w 1300ms nightly")->err, "waiting for"));
}

/* Shared holders and slots have rows of their own, and who is next for them has no number. */
TEST(test_waiter_learns_one_of_several_holders, ON_ALL)
{
    assert_sh("sqlock $G acquire -n -s --ttl 1h -m job=x nightly; "
              "sqlock $G acquire -n -s --ttl 1h -m job=y nightly");
    assert_says(75, "", "waiting for \"nightly\", held by ", "sqlock -v $G run -w 3s nightly true");
    assert_said(75, "", " job=x script=sh for ");
    assert_said(75, "", ", and 1 more, next in line; Ctrl-C to give up\n");
    assert_says(75, "", "waiting for \"free, nightly\", of which \"nightly\" is held by ",
                "sqlock -v $G run -w 3s -l free -l nightly true");
    assert_said(75, "", ", and 1 more, next in line; Ctrl-C to give up\n");
}

/* Who may see locks only, sees them. */
TEST(test_queue_that_may_not_be_read_is_reported, ON_POSTGRES)
{
    const char *schema = database_schema(), *url = getenv("SQLOCK_URL");

    assert_sh("sqlock $G acquire -n nightly");
    database_exec(textf("GRANT USAGE ON SCHEMA %s TO pg_monitor", schema));
    database_exec("GRANT SELECT, INSERT, UPDATE ON @lock, @meta TO pg_monitor");
    setenv("SQLOCK_URL",
           textf("%s%coptions=-crole%%3Dpg_monitor", url, strchr(url, '?') ? '&' : '?'), 1);
    assert_says(0, "state       held", "the queue is not shown: ", "sqlock $G show nightly");
    assert_says(0, "\"state\":\"held\"", "SQLOCK_EDENIED", "sqlock $G --json show nightly");
    assert_null(strstr(sh("sqlock $G --json show nightly")->out, "queue"));
    assert_says(77, NULL, "permission denied", "sqlock $G ls --waiting");
    assert_int_equal(3, atoi(sh("sqlock $G ls --watch=100ms | grep -m 3 -c nightly")->out));
}

/* Others wait until the lease ends then, so it is told also with -q. */
TEST(test_release_without_the_rights_for_waiting_is_told, ON_POSTGRES)
{
    const char *schema = database_schema(), *url = getenv("SQLOCK_URL");

    database_exec(textf("GRANT USAGE ON SCHEMA %s TO pg_monitor", schema));
    database_exec("GRANT SELECT, INSERT, UPDATE ON @lock, @meta TO pg_monitor");
    setenv("ALL_RIGHTS", url, 1);
    setenv("SQLOCK_URL",
           textf("%s%coptions=-crole%%3Dpg_monitor", url, strchr(url, '?') ? '&' : '?'), 1);
    assert_says(3, "", "permission denied for table sqlock_waiter; the lease will end by itself\n",
                "(until test -e $D/held; do sleep 0.05; done; "
                "SQLOCK_URL=\"$ALL_RIGHTS\" exec sqlock -q $G run -w 30 nightly true) & "
                "sqlock -q $G run -n --ttl 4 nightly sh -c \"touch $D/held; "
                "export SQLOCK_URL='$ALL_RIGHTS'; until sqlock $G ls --waiting | "
                "grep -q nightly; do sleep 0.1; done; exit 3\"; code=$?; wait; exit $code");
}

TEST(test_waits_shows_who_waits_for_whom, ON_ALL)
{
    begin_waiting();
    assert_sh("sqlock $G waits >$D/waits; test $(grep -c . $D/waits) -eq 3 && "
              "sed -n 2p $D/waits | grep -q '^nightly  *1 .* job=one  *[0-9]*@.*script=' && "
              "sed -n 3p $D/waits | grep -q '^nightly  *2 .* job=two  *[0-9]*@.*script='");
    assert_sh("sqlock $G --json waits | grep -q '\"waits_for\":\\[\"[0-9]*@'");
    assert_says(0, "\"circles\":[]", "", "sqlock $G --json waits");
    assert_sh(
        "sqlock $G waits --dot >$D/dot; head -n 1 $D/dot | grep -q '^digraph' && "
        "grep -c 'label=\"nightly\"' $D/dot | grep -q '^2$' && tail -n 1 $D/dot | grep -q '^}$'");
    end_waiting();
    assert_int_equal(1, atoi(sh("sqlock $G waits | grep -c .")->out));
}

/* The one behind who is next waits for that one too. */
TEST(test_waits_names_all_shared_holders, ON_SQLITE)
{
    pid_t next;

    assert_sh("sqlock $G acquire -n -s -m at=1 door >$D/one; sqlock $G acquire -n -s -m at=2 door "
              ">$D/two");
    next = sh_start("exec sqlock $G run door true");
    assert_sh("until sqlock -q $G run -n -s door true; test $? = 75; do sleep 0.05; done");
    assert_sh(
        "sqlock $G run -s door true & until sqlock $G waits | grep '^door  *1 ' >$D/waits; do "
        "sleep 0.05; done; grep -q 'at=1.*, .*at=2.*, .* (next)$' $D/waits && sqlock $G waits | "
        "grep '^door  *0 ' | grep -qv next; rc=$?; sqlock $G release door $(cat $D/one); "
        "sqlock $G release door $(cat $D/two); wait; exit $rc");
    assert_int_equal(child_wait(next, patience_ms(20000)), 0);
}

/* A program's threads wait for each other all the time. Here a script waits for itself. */
TEST(test_one_that_waits_for_itself_is_no_circle, ON_SQLITE)
{
    pid_t one = sh_start("sqlock $G acquire -n door && sqlock $G acquire -w 60s door; exit 0");

    assert_sh(UNTIL_WAIT(1));
    assert_says(0, "\"circles\":[]", "", "sqlock $G --json waits");
    assert_sh("pkill -INT -P %d", (int)one);
    assert_int_equal(child_wait(one, patience_ms(20000)), 0);
}

/* Each script holds what the other one wants. */
TEST(test_waits_shows_a_circle, ON_ALL)
{
    static const char script[] =
        "sqlock $G acquire -n %s && echo >$D/in.%s && while ! test -e $D/go; do "
        "sleep 0.05; done; sqlock $G acquire -w 60s %s; exit 0";
    pid_t one = sh_start(script, "door", "door", "gate"), two;

    wait_for("in.door");
    two = sh_start(script, "gate", "gate", "door");
    wait_for("in.gate");
    assert_sh("echo >$D/go; " UNTIL_WAIT(2));
    assert_sh(
        "sqlock $G waits | grep -q '^circle: .* waits for door, held by .*; .* waits for gate, "
        "held by '");
    assert_sh("sqlock $G --json waits | grep -q '\"circles\":\\[\\[\"'");
    assert_sh("pkill -INT -P %d && pkill -INT -P %d", (int)one, (int)two);
    assert_int_equal(child_wait(one, patience_ms(20000)), 0);
    assert_int_equal(child_wait(two, patience_ms(20000)), 0);
}

/* Of an actor's locks each may be held by another process. Without --actor no one gives up. */
TEST(test_waits_knows_an_actor_by_its_owners, ON_ALL)
{
    static const char holds[] = "sh -c 'sqlock $G acquire -n --owner %s %s; :' >$D/out";
    static const char wants[] = "sqlock $G acquire -w 60s --owner %s %s; exit 0";
    /* as core/model/actor.h makes them of two actors, and of the numbers 1 and 2 */
    static const char *const one[] = {"aaaaaaaaaaaaaaaa0000000000011d23",
                                      "aaaaaaaaaaaaaaaa000000000002d144"},
                             *const two[] = {"bbbbbbbbbbbbbbbb000000000001f0a5",
                                             "bbbbbbbbbbbbbbbb00000000000260d1"};
    pid_t a, b;

    assert_sh(holds, one[0], "door");
    assert_sh(holds, two[0], "gate");
    a = sh_start(wants, one[1], "gate");
    assert_sh(UNTIL_WAIT(1));
    assert_says(0, "\"circles\":[]", "", "sqlock $G --json waits");
    b = sh_start(wants, two[1], "door");
    assert_sh(UNTIL_WAIT(2));
    assert_sh(
        "sqlock $G waits | grep -q '^circle: .* waits for door, held by .*; .* waits for gate, "
        "held by '");
    assert_sh("p=$(sqlock $G show door | sed -n 's/^holder  *\\([0-9]*@\\).*/\\1/p') && "
              "test -n \"$p\" && sqlock $G waits | grep -q \"waits for door, held by $p\"");
    /* Each is one node of the graph, so the circle is one there. */
    assert_sh("sqlock $G waits --dot | awk -F'\"' '/->/ { n++; edge[$2, $4]; back[$4, $2] } "
              "END { for (e in edge) if (!(e in back)) exit 1; exit n != 2 }'");
    assert_sh("pkill -INT -P %d && pkill -INT -P %d", (int)a, (int)b);
    assert_int_equal(child_wait(a, patience_ms(20000)), 0);
    assert_int_equal(child_wait(b, patience_ms(20000)), 0);
}

/* The outer runs hold a lock each, and the inner ones want the other's: of one job each. */
TEST(test_P26_of_actors_in_a_circle_one_exits_with_80, ON_ALL)
{
    static const char script[] =
        "exec sqlock $G run --actor 'job %d' --status-fd 3 %s sh -c 'echo >$D/in.%d; until test -e "
        "$D/in.1 -a -e $D/in.2; do sleep 0.05; done; exec sqlock $G run --actor \"job %d\" "
        "--status-fd 3 -w 60s %s true 3>$D/inner.%d' 2>$D/err.%d 3>$D/outer.%d";
    pid_t one = sh_start(script, 1, "door", 1, 1, "gate", 1, 1, 1);
    pid_t two = sh_start(script, 2, "gate", 2, 2, "door", 2, 2, 2);
    int code = child_wait(one, patience_ms(20000)), other = child_wait(two, patience_ms(20000));

    assert_int_equal(code + other, 80);
    assert_true(code == 0 || other == 0);
    assert_sh("grep -q 'a deadlock: .* job [12] waits for .* of .* job [12], ' $D/err.%d",
              code != 0 ? 1 : 2);
    assert_sh("grep -q '\"outcome\":\"deadlock\"' $D/inner.%d", code != 0 ? 1 : 2);
    assert_sh("test ! -s $D/err.%d", code != 0 ? 2 : 1);
}

TEST(test_actor_is_checked_before_anything_is_sent, ON_SQLITE)
{
    assert_says(64, "", "invalid --actor (use 1 to 255 bytes)", "sqlock run --actor '' a true");
    assert_says(64, "", "use only one of --owner and --actor",
                "sqlock acquire --actor a --owner aaaaaaaaaaaaaaaa0000000000000001 a");
}

TEST_MAIN_OF_COMMAND
