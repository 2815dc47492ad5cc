/* The CPU time of other processes, by the clocks that the kernel keeps for them: they count
 * nanoseconds, where /proc counts ticks of ten milliseconds. */
#include "bench/cpu.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"

double cpu_of_process_us(pid_t pid)
{
    struct timespec t;
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
        return 0;
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1000;
}

static pid_t parent_of(const char *pid)
{
    char path[64];
    FILE *f;
    int parent = 0;

    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    if ((f = fopen(path, "r")) == NULL)
        return 0;
    /* Names of programs may hold spaces; those of servers and their children end in a bracket. */
    if (fscanf(f, "%*d (%*[^)]) %*c %d", &parent) != 1)
        parent = 0;
    fclose(f);
    return parent;
}

static int has(const struct cpu_tree *tree, pid_t pid)
{
    for (int i = 0; i < tree->n; i++)
        if (tree->pids[i] == pid)
            return 1;
    return 0;
}

/* Adds the children of those that are there. Returns whether there were any. */
static int add_children(struct cpu_tree *tree)
{
    const int before = tree->n;
    DIR *proc = opendir("/proc");
    struct dirent *entry;

    while (proc != NULL && (entry = readdir(proc)) != NULL && tree->n < CPU_TREE_MAX) {
        const pid_t pid = atoi(entry->d_name);

        if (pid > 0 && !has(tree, pid) && has(tree, parent_of(entry->d_name)))
            tree->pids[tree->n++] = pid;
    }
    if (proc != NULL)
        closedir(proc);
    return tree->n > before;
}

void cpu_tree_find(struct cpu_tree *tree, pid_t root)
{
    tree->n = 0;
    if (root == 0)
        return;
    tree->pids[tree->n++] = root;
    while (add_children(tree))
        ;
}

double cpu_of_tree_us(const struct cpu_tree *tree)
{
    double us = 0;

    for (int i = 0; i < tree->n; i++)
        us += cpu_of_process_us(tree->pids[i]);
    return us;
}
