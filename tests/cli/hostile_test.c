/* `sqlock run` where the system or its surroundings work against it: system calls that are refused,
 * messages that nobody reads, orders that do not arrive, namespaces. No database matters. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/run/wire.h"
#include "tests/cli/shell.h"

/* ---- system calls that are refused ----------------------------------------------------------- */

static int refused, refused_with;

static void refuse(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)refused, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)refused_with),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        _exit(99);
}

static void start_refused(int number, int with)
{
    refused = number;
    refused_with = with;
    sh_before(refuse);
}

/* What a filter of a container or an old kernel answers, to each helper in its turn. */
static struct {
    int number, with;
    bool kills_guardian;
    const char *folder;
    pid_t run;
} filters[] = {
    {SYS_pidfd_open, EPERM, false, NULL, 0},        {SYS_pidfd_open, EPERM, true, NULL, 0},
    {SYS_pidfd_open, ENOSYS, false, NULL, 0},       {SYS_pidfd_open, ENOSYS, true, NULL, 0},
    {SYS_pidfd_open, EMFILE, false, NULL, 0},       {SYS_pidfd_open, EMFILE, true, NULL, 0},
    {SYS_pidfd_send_signal, EPERM, false, NULL, 0}, {SYS_pidfd_send_signal, EPERM, true, NULL, 0},
};
enum { FILTERS = sizeof filters / sizeof *filters };

/* All at once, each with a database of its own. */
TEST(test_refused_system_calls_let_no_one_live, ON_SQLITE)
{
    for (int i = 0; i < FILTERS; i++) {
        database_new();
        filters[i].folder = folder();
        start_refused(filters[i].number, filters[i].with);
        filters[i].run = start_tree("--ttl 2s -k 300ms", "stubborn");
        kill(filters[i].run, SIGSTOP);
        if (filters[i].kills_guardian)
            kill(guardian_of(filters[i].run), SIGKILL);
    }
    for (int i = 0; i < FILTERS; i++) {
        database_again(filters[i].folder);
        assert_successor_is_alone();
        assert_null(strstr(text_of("err"), "another user"));
        kill_locker(filters[i].run);
    }
}

TEST(test_refused_subreaper_runs_nothing, ON_SQLITE)
{
    start_refused(SYS_prctl, EPERM);
    assert_says(78, NULL, "run needs Linux", "sqlock run nightly touch $D/ran");
    assert_sh("test ! -e $D/ran");
}

/* ---- messages that nobody reads -------------------------------------------------------------- */

/* The lock is broken at once; the guardian by itself would act after six seconds. */
TEST(test_full_stderr_does_not_delay_the_order_to_stop, ON_SQLITE)
{
    int64_t begun;
    pid_t run;

    assert_sh("mkfifo $D/p");
    sh_start("exec 3<$D/p; exec sleep 1000");
    run = sh_start("exec 2>$D/p; dd if=/dev/zero of=$D/p oflag=nonblock bs=4096 2>/dev/null; "
                   "exec sqlock run --ttl 9s -k 0 nightly tests/cli/tree.sh $D stubborn");
    wait_for("ready");
    begun = now_us();
    assert_sh("sqlock break nightly --token $($D/token nightly)");
    assert_soon(*sh(SURVIVORS)->out == '\0', patience_ms(20000));
    assert_between(0, (now_us() - begun) / 1000, 6000);
    assert_ends(run, 76);
}

/* Nothing is lost that fits, and its order stays. */
TEST(test_messages_wait_for_their_reader, ON_SQLITE)
{
    pid_t run;

    assert_sh("mkfifo $D/p");
    run = sh_start("exec 2<>$D/p; dd if=/dev/zero of=$D/p oflag=nonblock bs=4096 2>/dev/null; "
                   "exec sqlock -v run nightly sh -c 'echo >$D/ready; exec sleep 1'");
    wait_for("ready");
    assert_sh("timeout 20 grep -a -o -m1 'sqlock: nightly: held, token .*' $D/p >$D/said");
    assert_ends(run, 0);
    assert_sh("grep -x -a \"sqlock: nightly: held, token $($D/token nightly)\" $D/said");
}

/* ---- orders that do not arrive --------------------------------------------------------------- */

/* The locker's end of what it shares with its guardian: a socket, the only one there is. */
static int socket_of(pid_t run)
{
    int process = (int)syscall(SYS_pidfd_open, run, 0), fd = -1, type;
    socklen_t size = sizeof type;

    for (int i = 3; i < 64 && fd < 0; i++) {
        fd = (int)syscall(SYS_pidfd_getfd, process, i, 0);
        if (fd >= 0 &&
            (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET)) {
            close(fd);
            fd = -1;
        }
    }
    close(process);
    if (fd < 0) {
        print_error("SKIP: descriptors of other processes cannot be had here\n");
        skip();
    }
    return fd;
}

/* One that waits for its lock. */
static pid_t start_waiting(const char *options, const char *command)
{
    pid_t run;

    assert_sh("sqlock acquire -n nightly >$D/grant");
    run = sh_start("exec sqlock -v run %s -c nightly '%s'", options, command);
    guardian_of(run);
    sleep_ms(300);
    return run;
}

/* Its guardian reads nothing while what they share is full. */
TEST(test_order_to_start_is_sent_again, ON_SQLITE)
{
    struct order nonsense = {.kind = 99};
    pid_t run = start_waiting("", "exit 5"), guardian = guardian_of(run), waker = waker_of(run);
    int fd = socket_of(run);

    if (waker > 0)
        kill(waker, SIGSTOP);
    kill(guardian, SIGSTOP);
    while (send(fd, &nonsense, sizeof nonsense, MSG_DONTWAIT) > 0)
        continue;
    close(fd);
    assert_sh("sqlock release nightly $(cat $D/grant)");
    assert_ends(run, 5);
}

/* A guardian that could not read until the lease was over. */
TEST(test_order_that_comes_too_late_starts_nothing, ON_SQLITE)
{
    struct order late = {.kind = ORDER_START, .n = 1, .grants = {{.token = 1, .owner = "00"}}};
    pid_t run = start_waiting("--ttl 1h", "echo ran >$D/ran");
    int fd = socket_of(run);

    late.deadline_us = now_us() - 1;
    assert_true(send(fd, &late, sizeof late, MSG_DONTWAIT) > 0);
    close(fd);
    assert_sh("sleep 0.5; test ! -e $D/ran");
    kill(run, SIGTERM);
    child_wait(run, patience_ms(10000));
}

/* ---- the end of the lease -------------------------------------------------------------------- */

/* From the death of the command to the end of the lease, in ms, when its holder was stopped. */
static int64_t gap_ms(void)
{
    struct pollfd death = {.events = POLLIN};
    const char *left;
    int64_t end;
    pid_t run;

    database_new();
    run = start_tree("--ttl 3s -k 1h", "stubborn");
    kill(run, SIGSTOP);
    death.fd = (int)syscall(SYS_pidfd_open, atoi(text_of("pids")), 0);
    left = strstr(sh("sqlock --json show nightly")->out, "\"left_ms\":");
    assert_non_null(left);
    end = now_us() / 1000 + atoll(left + strlen("\"left_ms\":"));
    assert_int_equal(poll(&death, 1, patience_ms(20000)), 1);
    end -= now_us() / 1000;
    close(death.fd);
    kill_locker(run);
    return end;
}

/* Its guardian gets no processor for so long, as on a busy machine, that another process kills the
 * command. No one sees that it is traced. */
TEST(test_command_of_a_guardian_that_is_late_is_said_to_be_stopped, ON_SQLITE)
{
    struct pollfd death = {.events = POLLIN};
    pid_t run = start_tree("--ttl 1s -k 100ms", "stubborn"), guardian = guardian_of(run);

    death.fd = (int)syscall(SYS_pidfd_open, atoi(text_of("pids")), 0);
    if (ptrace(PTRACE_SEIZE, guardian, NULL, NULL) != 0 ||
        ptrace(PTRACE_INTERRUPT, guardian, NULL, NULL) != 0) {
        print_error("SKIP: other processes cannot be traced here\n");
        kill_locker(run);
        skip();
    }
    assert_int_equal(poll(&death, 1, patience_ms(20000)), 1);
    close(death.fd);
    assert_int_equal(ptrace(PTRACE_DETACH, guardian, NULL, NULL), 0);
    assert_ends(run, 76);
    assert_non_null(strstr(text_of("err"), "the command was stopped before it ends"));
}

/* A lease of 3 s is believed for 2.7 s, and KILL comes 0.3 s before that. A machine that stands
 * still makes it late: once of three has to do. */
TEST(test_kill_comes_a_slack_before_the_deadline, ON_SQLITE)
{
    int64_t gap = 0;

    for (int i = 0; i < 3 && gap < 535; i++)
        gap = gap_ms();
    assert_between(535, gap, 3000);
}

/* ---- namespaces ------------------------------------------------------------------------------ */

static void need_namespaces(void)
{
    if (sh("unshare -pf --mount-proc true")->code != 0) {
        print_error("SKIP: no namespace can be made here: being process 1 is not tested\n");
        skip();
    }
}

TEST(test_process_1_of_a_container_runs_a_command, ON_SQLITE)
{
    pid_t run;

    need_namespaces();
    assert_says(
        3, "", "1 leftover process",
        "unshare -pf --mount-proc sqlock run nightly sh -c '(setsid sleep 1000 &); exit 3'");
    run = sh_start("exec unshare -pf --mount-proc sqlock run -c nightly "
                   "'trap \"exit 6\" TERM; echo >$D/ready; while :; do sleep 0.02; done'");
    wait_for("ready");
    kill(below(run, "sqlock"), SIGTERM);
    assert_int_equal(child_wait(run, patience_ms(10000)), 6);
}

/* Its /proc tells of other processes by the same numbers. */
TEST(test_proc_of_another_namespace_runs_nothing, ON_SQLITE)
{
    need_namespaces();
    assert_says(78, NULL, "of this namespace", "unshare -pf sqlock run nightly touch $D/ran");
#ifndef __SANITIZE_ADDRESS__ /* without /proc it reads no options, and looks for leaks in vain */
    assert_says(
        78, NULL, "run needs Linux",
        "unshare -m sh -c 'umount -l /proc && LD_LIBRARY_PATH=$(dirname $(command -v sqlock)) && "
        "export LD_LIBRARY_PATH && exec sqlock run nightly touch $D/ran'");
#endif
    assert_sh("test ! -e $D/ran");
}

/* With hidepid=2 a process that may not be read (here, its program may not) is not even named in
 * /proc, though it may be killed. */
TEST(test_processes_that_proc_hides_are_ended, ON_SQLITE)
{
    assert_sh(
        "chmod 777 $D; chmod 666 $D/locks.db*; cp $(readlink -f $(command -v sleep)) $D/hidden; "
        "chmod 111 $D/hidden; cat >$D/inside <<'END'\n"
        "sqlock run --ttl 2s -k 100ms nightly sh -c "
        "'trap \"\" TERM; $D/hidden 1000 & echo $! >$D/pids; exec $D/hidden 1000' & run=$!\n"
        "while ! test -s $D/pids && test -e /proc/$run; do sleep 0.02; done\n"
        "sleep 0.2; ! test -e /proc/$(cat $D/pids) || echo seen >$D/seen\n"
        "kill -9 $run; sqlock run -w 20s nightly true\n"
        "END\n");
#define AS_NOBODY "setpriv --reuid=65534 --regid=65534 --clear-groups "
    if (sh("unshare -m mount -t proc -o hidepid=2 proc /proc && " AS_NOBODY "sqlock show nightly")
            ->code != 1) {
        print_error("SKIP: not root, or nobody may not use this folder: a /proc that hides is not "
                    "tested\n");
        skip();
    }
    assert_sh("unshare -m sh -c 'mount -t proc -o hidepid=2 proc /proc && exec " AS_NOBODY
              "sh $D/inside'; test ! -e $D/seen");
    assert_no_survivors();
}

TEST_MAIN_OF_COMMAND
