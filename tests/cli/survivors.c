#include "tests/cli/survivors.h"

#include <stdio.h>
#include <string.h>

/* Depth first: whoever is nearest is not asked for. */
pid_t below(pid_t pid, const char *name)
{
    char path[64], comm[32];
    int child = 0, found = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    if ((file = fopen(path, "r")) == NULL)
        return 0;
    if (fscanf(file, "%31s", comm) == 1 && strcmp(comm, name) == 0)
        found = (int)pid;
    fclose(file);
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    if (found > 0 || (file = fopen(path, "r")) == NULL)
        return found;
    while (found == 0 && fscanf(file, "%d", &child) == 1)
        found = (int)below(child, name);
    fclose(file);
    return found;
}

/* The list of children leaves some out while others end; and a pid of 0 would be this test. */
static pid_t helper_of(pid_t run, const char *name)
{
    pid_t helper;

    assert_soon((helper = below(run, name)) > 0, patience_ms(5000));
    return helper;
}

pid_t guardian_of(pid_t run)
{
    return helper_of(run, "lock-guardian");
}

pid_t waker_of(pid_t run)
{
    return helper_of(run, "lock-waker");
}

pid_t start_tree(const char *options, const char *how)
{
    pid_t run = sh_start("exec sqlock $G run %s nightly tests/cli/tree.sh $D %s", options, how);

    wait_for("ready");
    assert_string_equal(sh("wc -l <$D/pids")->out, "4\n");
    assert_string_not_equal(sh(SURVIVORS)->out, "");
    return run;
}

pid_t start_until_ready(const char *words)
{
    pid_t run = sh_start("exec sqlock $G run %s", words);

    wait_for("ready");
    return run;
}

void kill_locker(pid_t run)
{
    kill(run, SIGKILL);
    assert_ends(run, -SIGKILL);
}

void assert_successor_is_alone(void)
{
    const struct said *said =
        sh("sqlock $G run -w 30s nightly sh -c 'date +%%s%%N >$D/granted; " SURVIVORS "'");

    assert_said(0, NULL, NULL);
    assert_string_equal(said->out, "");
    assert_sh("test $(cat $D/granted) -gt $(tail -n 1 $D/beats)");
    assert_no_survivors();
}

void assert_lost_while_stopped(pid_t run)
{
    assert_successor_is_alone();
    assert_false(child_ended(run));
    kill(run, SIGCONT);
    assert_ends(run, 76);
}
