/* The CPU time that other processes have used. */
#ifndef BENCH_CPU_H
#define BENCH_CPU_H

#include <sys/types.h>

#define CPU_TREE_MAX 4096

/* A process and all that descends from it. */
struct cpu_tree {
    pid_t pids[CPU_TREE_MAX];
    int n;
};

double cpu_of_process_us(pid_t pid);                   /* all its threads; 0 if it has ended */
void cpu_tree_find(struct cpu_tree *tree, pid_t root); /* 0 has none */
double cpu_of_tree_us(const struct cpu_tree *tree);

#endif
