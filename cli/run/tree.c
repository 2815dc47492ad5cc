#include "cli/run/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct process {
    pid_t pid, parent;
};

struct tree {
    struct process *list;
    size_t n, room;
};

/* ---- finding --------------------------------------------------------------------------------- */

static void tree_add(struct tree *t, pid_t pid, pid_t parent)
{
    if (t->n == t->room) {
        size_t room = t->room > 0 ? 2 * t->room : 64;
        struct process *list = realloc(t->list, room * sizeof *list);

        if (list == NULL)
            return; /* those in the list die first; the others are found the next time */
        t->list = list;
        t->room = room;
    }
    t->list[t->n++] = (struct process){pid, parent};
}

/* The children that one thread of a process has made or adopted. */
static bool read_children(struct tree *t, pid_t parent, const char *thread)
{
    char path[300];
    FILE *file;
    int pid;

    snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)parent, thread);
    if ((file = fopen(path, "re")) == NULL)
        return false;
    while (fscanf(file, "%d", &pid) == 1)
        tree_add(t, pid, parent);
    fclose(file);
    return true;
}

static bool add_children(struct tree *t, pid_t parent)
{
    bool could = false;
    char path[64];
    const struct dirent *entry;
    DIR *dir;

    snprintf(path, sizeof path, "/proc/%d/task", (int)parent);
    if ((dir = opendir(path)) == NULL)
        return false;
    while ((entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.' && read_children(t, parent, entry->d_name))
            could = true;
    closedir(dir);
    return could;
}

/* Parents come before their children. Processes that start meanwhile are found the next time. */
static bool read_tree(struct tree *t, pid_t root)
{
    bool could;

    t->n = 0;
    could = add_children(t, root);
    for (size_t i = 0; i < t->n; i++)
        add_children(t, t->list[i].pid);
    return could;
}

/* In another namespace's /proc our number belongs to a stranger, with a stranger's children. */
static bool is_proc_ours(void)
{
    char number[32] = "";

    return readlink("/proc/self", number, sizeof number - 1) > 0 && atoi(number) == getpid();
}

bool tree_adopt(void)
{
    struct tree t = {0};
    bool could =
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0 && is_proc_ours() && read_tree(&t, getpid());

    free(t.list);
    return could;
}

/* ---- signalling ------------------------------------------------------------------------------ */

static pid_t parent_of(pid_t pid)
{
    char path[64], line[512], *end;
    FILE *file;
    int parent = -1;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if ((file = fopen(path, "re")) == NULL)
        return -1;
    /* The program's name, in parentheses, may contain anything. */
    if (fgets(line, sizeof line, file) != NULL && (end = strrchr(line, ')')) != NULL)
        sscanf(end + 1, " %*c %d", &parent);
    fclose(file);
    return parent;
}

/* A child of ours is, until we wait for it. Another process may have been waited for by its parent
 * since the list was read, and its number may now be a stranger's. It is still the same one if it
 * is a child of the parent in the list, or an orphan that one of us adopted. */
static bool is_in_tree(const struct process *p, pid_t root)
{
    pid_t parent;

    if (p->parent == getpid())
        return true;
    parent = parent_of(p->pid);
    return parent == p->parent || parent == root || parent == getpid();
}

/* First open a descriptor, which stays with one process, then check. If there is none (an old
 * kernel, a filter of system calls, no room), the number has to do: of all errors only ESRCH says
 * something about the process. Returns 0 or errno. */
static int process_signal(const struct process *p, pid_t root, int signal)
{
    int fd = (int)syscall(SYS_pidfd_open, p->pid, 0), rc = fd < 0 ? errno : 0;

    if (rc == ESRCH)
        return rc;
    if (!is_in_tree(p, root))
        rc = ESRCH;
    else if (fd >= 0 && syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) == 0)
        rc = 0;
    else if (fd >= 0 && errno == ESRCH)
        rc = ESRCH;
    else
        rc = kill(p->pid, signal) == 0 ? 0 : errno;
    if (fd >= 0)
        close(fd);
    return rc;
}

/* Returns how many belong to another user. */
static int send_all(const struct tree *t, pid_t root, int signal)
{
    int denied = 0;

    for (size_t i = 0; i < t->n; i++)
        denied += process_signal(&t->list[i], root, signal) == EPERM;
    return denied;
}

int tree_signal(pid_t root, int signal)
{
    struct tree t = {0};
    int n;

    read_tree(&t, root);
    send_all(&t, root, signal);
    n = (int)t.n;
    free(t.list);
    return n;
}

/* If they were killed one by one, a process could fork between the look and the signal, and a
 * parent could replace each child that dies. So stop them first, until a look finds no new ones: a
 * stopped process makes no children. The number of passes is limited, because processes that fork
 * faster than we look must be killed too. What escapes becomes our orphan, and the next call finds
 * it. */
int tree_kill(pid_t root)
{
    struct tree t = {0};
    size_t before = 0;
    int denied;

    read_tree(&t, root);
    for (int pass = 0; pass < 16 && t.n != before; pass++) {
        before = t.n;
        send_all(&t, root, SIGSTOP);
        read_tree(&t, root);
    }
    denied = send_all(&t, root, SIGKILL);
    free(t.list);
    return denied;
}
