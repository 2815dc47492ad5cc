/* Children that wait for a lock, and are killed or stopped. */
#include "tests/drivers/suite_gone.h"

#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/adopt_app.h"

static struct family {
    struct world *w;
    int (*waits)(sqlock *m);
    int go[2];
} family;

static int child_waits(void *arg)
{
    sqlock *m = NULL;
    char byte;

    (void)arg;
    close(family.go[1]); /* the test's end is then the end of the wait */
    assert_int_equal(read(family.go[0], &byte, 1), 1);
    ok(open_here(family.w, NULL, &m, &said));
    return family.waits(m);
}

pid_t child_to_wait(struct world *w, int (*waits)(sqlock *m))
{
    pid_t child;

    family = (struct family){.w = w, .waits = waits};
    assert_int_equal(pipe(family.go), 0);
    child = child_start(child_waits, NULL);
    close(family.go[0]);
    return child;
}

void child_goes(void)
{
    assert_int_equal(write(family.go[1], "", 1), 1);
    close(family.go[1]);
}

void end_between_transactions(struct world *w, pid_t pid, int signal)
{
    const char *alone = w->q->app->alone;
    void *app;
    int status;

    if (alone == NULL) {
        assert_int_equal(kill(pid, signal), 0);
        return;
    }
    app = w->q->app->connect(&w->place);
    assert_soon(w->q->app->exec(app, alone), patience_ms(5000));
    assert_int_equal(kill(pid, signal), 0);
    if (signal == SIGSTOP)
        assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    w->q->app->close(app);
}

void child_ends(pid_t pid)
{
    kill(pid, SIGKILL);
    child_wait(pid, patience_ms(5000));
}
