/* `sqlock run` as a job on a terminal: Ctrl-C, Ctrl-Z, fg, reading, a closed terminal. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "tests/cli/shell.h"
#include "tests/lib/proxy.h"

/* ---- a shell with job control, as small as can be -------------------------------------------- */

/* The test's. */
static struct {
    int master; /* what is typed is written here, what is shown is read */
    int orders; /* to the shell: 'f' for fg */
    int events; /* of the shell: struct event */
    pid_t shell;
    char shown[4096];
} t;

struct event {
    int stopped; /* the signal that stopped the job; 0: it ended */
    int code;
};

static void give_terminal(pid_t group)
{
    tcsetpgrp(STDIN_FILENO, group);
}

static pid_t start_job(const char *line, int in_background)
{
    pid_t job = fork();

    if (job == 0) {
        setpgid(0, 0);
        if (!in_background)
            give_terminal(getpid());
        signal(SIGTTOU, SIG_DFL);
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(99);
    }
    setpgid(job, job);
    return job;
}

static void shell(const char *line, int in_background, int orders, int events)
{
    struct event event;
    char order;
    int status;
    pid_t job;

    signal(SIGTTOU, SIG_IGN);
    job = start_job(line, in_background);
    for (;;) {
        if (waitpid(job, &status, WUNTRACED) != job)
            _exit(98);
        memset(&event, 0, sizeof event);
        event.stopped = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
        event.code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
        give_terminal(getpgrp());
        if (write(events, &event, sizeof event) < 0 || !event.stopped)
            _exit(0);
        if (read(orders, &order, 1) != 1)
            _exit(97);
        give_terminal(job);
        kill(-job, SIGCONT);
    }
}

/* DIRECTLY: there is no shell, the line is the session's first process. */
enum how { FOREGROUND, BACKGROUND, DIRECTLY };

static void open_terminal(const char *line, enum how how)
{
    int orders[2], events[2];
    pid_t parent = getpid();

    memset(&t, 0, sizeof t);
    t.master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    assert_true(t.master >= 0 && grantpt(t.master) == 0 && unlockpt(t.master) == 0);
    assert_int_equal(pipe2(orders, O_CLOEXEC), 0);
    assert_int_equal(pipe2(events, O_CLOEXEC), 0);
    fflush(NULL);
    if ((t.shell = fork()) == 0) {
        int tty;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(99);
        setsid();
        tty = open(ptsname(t.master), O_RDWR | O_CLOEXEC);
        ioctl(tty, TIOCSCTTY, 0);
        close(t.master);
        for (int fd = 0; fd < 3; fd++)
            dup2(tty, fd);
        signal(SIGHUP, SIG_DFL); /* whoever started the tests */
        if (how == DIRECTLY)
            execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        shell(line, how == BACKGROUND, orders[0], events[1]);
    }
    close(orders[0]);
    close(events[1]);
    t.orders = orders[1];
    t.events = events[0];
}

static void close_terminal(void)
{
    close(t.master);
    close(t.orders);
    close(t.events);
    child_wait(t.shell, patience_ms(10000));
}

static void type(const char *text)
{
    assert_int_equal(write(t.master, text, strlen(text)), strlen(text));
}

/* What the terminal showed so far. */
static const char *shown(void)
{
    size_t used = strlen(t.shown);
    ssize_t n = read(t.master, t.shown + used, sizeof t.shown - used - 1);

    if (n > 0)
        t.shown[used + (size_t)n] = '\0';
    return t.shown;
}

static struct event next_event(void)
{
    struct event event = {-1, -1};
    ssize_t n = 0;

    fcntl(t.events, F_SETFL, O_NONBLOCK);
    assert_soon((n = read(t.events, &event, sizeof event)) > 0, patience_ms(20000));
    assert_int_equal(n, sizeof event);
    return event;
}

static void assert_ended(int code)
{
    struct event event = next_event();

    shown();
    if (event.stopped != 0 || event.code != code)
        fail_msg("stopped %d, code %d; shown: %s", event.stopped, event.code, t.shown);
}

/* ---- tests ----------------------------------------------------------------------------------- */

TEST(test_ctrl_c_comes_once_and_the_command_decides, ON_SQLITE)
{
    open_terminal(
        "exec sqlock $G run -c nightly 'trap \"echo INT >>$D/heard\" INT; echo >$D/ready; "
        "while [ ! -e $D/enough ]; do sleep 0.02; done; exit 5'",
        FOREGROUND);
    wait_for("ready");
    type("\003");
    wait_for("heard");
    sleep_ms(300);
    assert_string_equal(text_of("heard"), "INT\n");
    assert_sh("touch $D/enough");
    assert_ended(5);
    close_terminal();
}

TEST(test_ctrl_c_ends_a_command_that_does_not_care, ON_SQLITE)
{
    open_terminal("exec sqlock $G run -c nightly 'echo >$D/ready; exec sleep 100'", FOREGROUND);
    wait_for("ready");
    sleep_ms(100);
    type("\003");
    assert_ended(128 + SIGINT);
    close_terminal();
    assert_says(0, "free", NULL, "sqlock $G show nightly");
}

TEST(test_command_reads_the_terminal, ON_SQLITE)
{
    open_terminal("exec sqlock $G run -c nightly 'read line; echo \"read $line\"; test -t 0'",
                  FOREGROUND);
    type("a line\n");
    assert_ended(0);
    assert_non_null(strstr(shown(), "read a line"));
    close_terminal();
}

/* The command forks nothing here: while a shell waits for a vfork() whose child the same Ctrl-Z has
 * stopped, it is not stopped itself, with or without us. */
TEST(test_ctrl_z_stops_the_job_and_fg_continues_it, ON_SQLITE)
{
    assert_sh("mkfifo $D/go");
    open_terminal("exec sqlock $G run -c nightly "
                  "'echo $$ >$D/pids; echo >$D/ready; read word <$D/go; exit 5'",
                  FOREGROUND);
    wait_for("ready");
    type("\032");
    assert_int_equal(next_event().stopped, SIGTSTP);
    assert_sh("grep '^State:.T' /proc/$(cat $D/pids)/status");
    assert_says(75, NULL, NULL, "sqlock $G acquire -n nightly");
    assert_int_equal(write(t.orders, "f", 1), 1);
    assert_sh("echo word >$D/go");
    assert_ended(5);
    assert_non_null(strstr(shown(), "nightly: suspended"));
    close_terminal();
}

TEST(test_stopped_job_that_stays_so_loses_its_command, ON_SQLITE)
{
    assert_sh("mkfifo $D/go");
    open_terminal("exec sqlock $G run --ttl 2s -c nightly 'echo $$ >$D/pids; echo >$D/ready; "
                  "read word <$D/go'",
                  FOREGROUND);
    wait_for("ready");
    type("\032");
    assert_int_equal(next_event().stopped, SIGTSTP);
    assert_says(0, "", NULL, "sqlock $G run -w 20s nightly tests/cli/survivors.sh $D");
    assert_string_equal(text_of(".out"), "");
    assert_int_equal(write(t.orders, "f", 1), 1);
    assert_ended(76);
    assert_non_null(strstr(shown(), "lock lost: lease expired while the command was suspended"));
    close_terminal();
}

TEST(test_job_in_the_background_that_reads_is_stopped_as_a_job, ON_SQLITE)
{
    open_terminal("exec sqlock $G run -c nightly 'read line; test \"$line\" = word'", BACKGROUND);
    assert_int_equal(next_event().stopped, SIGTSTP);
    assert_int_equal(write(t.orders, "f", 1), 1);
    type("word\n");
    assert_ended(0);
    close_terminal();
}

TEST(test_closed_terminal_ends_the_command_and_frees_the_lock, ON_SQLITE)
{
    open_terminal("exec sqlock $G run --ttl 10s -c nightly 'echo $$ >$D/pids; echo >$D/ready; "
                  "while :; do sleep 0.02; done'",
                  FOREGROUND);
    wait_for("ready");
    sleep_ms(100);
    close_terminal();
    assert_says(0, "", NULL, "sqlock $G run -w 5s nightly tests/cli/survivors.sh $D");
    assert_string_equal(text_of(".out"), "");
}

TEST(test_killed_locker_of_a_terminal_takes_its_command_along, ON_SQLITE)
{
    open_terminal("echo $$ >$D/locker; exec sqlock $G run --ttl 2s -k 300ms nightly "
                  "tests/cli/tree.sh $D stubborn",
                  FOREGROUND);
    wait_for("ready");
    kill(atoi(text_of("locker")), SIGKILL);
    assert_says(0, "", NULL, "sqlock $G run -w 20s nightly tests/cli/survivors.sh $D");
    assert_string_equal(text_of(".out"), "");
    close_terminal();
}

/* As ssh -t starts it: the first process of the session, which alone is told that it is over. */
TEST(test_closed_terminal_is_reported_to_the_command_of_a_session_leader, ON_SQLITE)
{
    open_terminal("exec sqlock $G run --ttl 10s -c nightly 'trap \"echo HUP >$D/heard; exit\" HUP; "
                  "echo >$D/ready; while :; do sleep 0.02; done'",
                  DIRECTLY);
    wait_for("ready");
    sleep_ms(100);
    close_terminal();
    assert_string_equal(text_of("heard"), "HUP\n");
    assert_sh("sqlock $G acquire -n nightly");
}

TEST(test_command_that_is_continued_alone_keeps_its_lock, ON_SQLITE)
{
    open_terminal("exec sqlock $G run --ttl 2s -c nightly 'echo $$ >$D/pids; echo >$D/ready; "
                  "while [ ! -e $D/enough ]; do sleep 0.02; done; exit 5'",
                  FOREGROUND);
    wait_for("ready");
    sleep_ms(100);
    assert_sh("kill -STOP $(cat $D/pids)");
    assert_int_equal(next_event().stopped, SIGTSTP);
    assert_sh("kill -CONT $(cat $D/pids); sleep 2.5; touch $D/enough");
    assert_int_equal(write(t.orders, "f", 1), 1);
    assert_ended(5);
    close_terminal();
}

/* One that does not care goes on, and so does its lock. */
TEST(test_closed_terminal_leaves_a_command_that_ignores_it, ON_SQLITE)
{
    open_terminal("exec sqlock $G run --ttl 2s -c nightly 'trap \"\" HUP; echo >$D/ready; sleep 3; "
                  "echo >$D/done'",
                  FOREGROUND);
    wait_for("ready");
    sleep_ms(100);
    close_terminal();
    assert_says(75, NULL, NULL, "sqlock $G acquire -w 2500ms nightly");
    wait_for("done");
    assert_sh("sqlock $G acquire -w 5s nightly");
}

TEST(test_wait_on_a_terminal_is_reported_and_may_be_given_up, ON_SQLITE)
{
    assert_sh("sqlock $G acquire -n --ttl 1h import");
    open_terminal("exec sqlock $G run import true", FOREGROUND);
    assert_soon(strstr(shown(), "waiting for \"import\", held by ") != NULL, patience_ms(20000));
    assert_soon(strstr(shown(), "; Ctrl-C to give up\r\n") != NULL, patience_ms(20000));
    type("\003");
    assert_ended(128 + SIGINT);
    assert_non_null(strstr(shown(), "gave up waiting for \"import\" after "));
    close_terminal();
}

/* The look for the holder hangs then. */
TEST(test_P8_silent_database_delays_neither_ctrl_c_nor_the_end_of_a_wait, ON_POSTGRES)
{
    struct proxy *proxy;
    int64_t begun;

    assert_sh("sqlock $G acquire -n --ttl 1h import");
    for (int signalled = 0; signalled < 2; signalled++) {
        proxy = database_by_proxy();
        open_terminal(signalled ? "exec sqlock $G run import true"
                                : "exec sqlock $G run -w 2s import true",
                      FOREGROUND);
        assert_sh("until sqlock $G ls --waiting | grep -q ^import; do sleep 0.05; done");
        proxy_mode_set(proxy, PROXY_HOLD);
        sleep_ms(1500);
        begun = now_us();
        if (signalled)
            type("\003");
        assert_ended(signalled ? 128 + SIGINT : 75);
        assert_between(0, (now_us() - begun) / 1000, patience_ms(3000));
        close_terminal();
        proxy_stop(proxy);
        database_directly();
    }
}

TEST(test_quiet_wait_on_a_terminal_is_silent, ON_SQLITE)
{
    assert_sh("sqlock $G acquire -n --ttl 1h import");
    open_terminal("sqlock -q $G run -w 1500ms import true; echo ended", FOREGROUND);
    assert_soon(strstr(shown(), "ended") != NULL, patience_ms(20000));
    assert_null(strstr(shown(), "waiting"));
    close_terminal();
}

TEST(test_break_confirms_with_holder_and_age, ON_SQLITE)
{
    assert_sh("sqlock $G acquire -n -m job=x import");
    open_terminal("exec sqlock $G break --older-than 0", FOREGROUND);
    assert_soon(strstr(shown(), "Break 1 lock? [y/N] ") != NULL, patience_ms(20000));
    assert_non_null(strstr(shown(), "  import: granted to "));
    assert_non_null(strstr(shown(), " job=x script=sh "));
    assert_non_null(strstr(shown(), "s ago\r\n"));
    type("y\n");
    assert_ended(0);
    close_terminal();
}

/* Only --watch begins with an empty screen. */
TEST(test_ls_leaves_what_the_terminal_shows, ON_SQLITE)
{
    open_terminal("exec sqlock $G ls", FOREGROUND);
    assert_ended(0);
    assert_non_null(strstr(shown(), "NAME"));
    assert_null(strchr(shown(), '\033'));
    close_terminal();
}

TEST_MAIN_OF_COMMAND
