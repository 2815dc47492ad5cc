/* Two of the three processes of `sqlock run` are stopped or killed, in every order: nothing of the
 * command is alive when the lease ends. All cases at once, each with a database of its own. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cli/shell.h"

enum { LOCKER, GUARDIAN, WAKER, MEMBERS, CASES = 36 };

struct hurt {
    int who, how;
};

struct scene {
    struct hurt first, second; /* how: 0: it is not hurt */
    int command;               /* what is done to the command itself before: a signal, or 0 */
    pid_t run, members[MEMBERS], successor;
};

static const char *const names[] = {"locker", "guardian", "waker"};

static size_t all_of(struct scene *scenes, int command)
{
    static const int hows[] = {SIGSTOP, SIGKILL};
    size_t n = 0;

    for (int a = 0; a < MEMBERS; a++)
        for (int b = 0; b < MEMBERS; b++)
            for (int how = 0; how < 4; how++)
                if (a != b || how < 2)
                    scenes[n++] = (struct scene){
                        {a, hows[how & 1]}, {b, a == b ? 0 : hows[how >> 1]}, command, 0, {0}, 0};
    return n;
}

/* A child, a daemon in a session of its own with an empty environment, and their parent, none of
 * which obeys TERM. */
static void begin(struct scene *s, size_t i)
{
    s->run = sh_start(
        "mkdir $D/%zu; cp $D/locks.db $D/%zu; exec sqlock -U sqlite:$D/%zu/locks.db run --ttl 3s "
        "--max-time 6s -k 300ms -c nightly "
        "'trap \"\" TERM HUP; echo $$ >>$D/%zu/pids; sleep 1000 & echo $! >>$D/%zu/pids; "
        "(setsid env -i sh -c \"echo \\$\\$ >>$D/%zu/pids; exec sleep 1000\" &); "
        "while test $(wc -l <$D/%zu/pids) -lt 3; do sleep 0.02; done; echo $$ >$D/%zu/ready; wait'",
        i, i, i, i, i, i, i, i);
}

static void hurt(struct scene *s, size_t i)
{
    const char *file = textf("%zu/ready", i);

    wait_for(file);
    s->members[LOCKER] = s->run;
    s->members[GUARDIAN] = guardian_of(s->run);
    s->members[WAKER] = waker_of(s->run);
    if (s->command != 0)
        kill(atoi(text_of(file)), s->command);
    kill(s->members[s->first.who], s->first.how);
    if (s->second.how != 0)
        kill(s->members[s->second.who], s->second.how);
    s->successor = sh_start("exec sqlock -U sqlite:$D/%zu/locks.db run -w 30s nightly "
                            "tests/cli/survivors.sh $D/%zu >$D/%zu/left",
                            i, i, i);
}

static bool judge(const struct scene *s, size_t i)
{
    const char *file = textf("%zu/left", i);
    int code = child_wait(s->successor, patience_ms(30000));

    /* Who is stopped in a transaction keeps the file locked, and nobody gets the lock at all. */
    if (code == 70 || code == 75)
        code = sh("tests/cli/survivors.sh $D/%zu >$D/%zu/left", i, i)->code;
    if (code == 0 && *text_of(file) == '\0')
        return true;
    print_error("%s %s, then %s %s, command %d: %d\n%s", names[s->first.who],
                strsignal(s->first.how), names[s->second.who],
                s->second.how != 0 ? strsignal(s->second.how) : "-", s->command, code,
                text_of(file));
    return false;
}

static void sweep(int command)
{
    struct scene scenes[CASES];
    size_t n, bad = 0;

    n = all_of(scenes, command);
    for (size_t i = 0; i < n; i++)
        begin(&scenes[i], i);
    for (size_t i = 0; i < n; i++)
        hurt(&scenes[i], i);
    for (size_t i = 0; i < n; i++)
        bad += !judge(&scenes[i], i);
    for (size_t i = 0; i < n; i++) {
        kill(scenes[i].run, SIGCONT);
        child_wait(scenes[i].run, patience_ms(20000));
    }
    assert_int_equal(bad, 0);
}

TEST(test_two_that_are_hurt_leave_nothing_of_the_command, ON_SQLITE)
{
    sweep(0);
}

TEST(test_two_that_are_hurt_leave_nothing_of_a_stopped_command, ON_SQLITE)
{
    sweep(SIGSTOP);
}

TEST(test_two_that_are_hurt_leave_nothing_of_a_killed_command, ON_SQLITE)
{
    sweep(SIGKILL);
}

TEST_MAIN_OF_COMMAND
