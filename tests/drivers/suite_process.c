/* A driver's program, and what becomes of it when it is executed again. P19: it looks at what is
 * the whole process's, and a client library might set. */
#include "tests/drivers/suite.h"

#include <locale.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

enum { PROCESS_SIGNALS = 32 };

struct process_state {
    struct sigaction signals[PROCESS_SIGNALS];
    sigset_t mask, pending; /* of this thread */
    mode_t umask;
    char words[65536]; /* folder, locale, environment */
};

static void put(char **at, const char *end, const char *text)
{
    *at += snprintf(*at, (size_t)(end - *at), "%s\n", text != NULL ? text : "");
    assert_true(*at < end);
}

static void process_look(struct process_state *s)
{
    char *at = s->words, folder[1000];

    memset(s, 0, sizeof *s);
    for (int n = 1; n < PROCESS_SIGNALS; n++)
        sigaction(n, NULL, &s->signals[n]);
    sigprocmask(SIG_SETMASK, NULL, &s->mask);
    sigpending(&s->pending);
    s->umask = umask(0);
    umask(s->umask);
    put(&at, s->words + sizeof s->words, getcwd(folder, sizeof folder));
    put(&at, s->words + sizeof s->words, setlocale(LC_ALL, NULL));
    for (char **e = environ; *e != NULL; e++)
        put(&at, s->words + sizeof s->words, *e);
}

/* What is not as it was then; NULL: nothing. */
static const char *process_changed(const struct process_state *s)
{
    static char what[100];
    struct process_state now;

    process_look(&now);
    for (int n = 1; n < PROCESS_SIGNALS; n++) {
        snprintf(what, sizeof what, "what happens at signal %d", n);
        if (now.signals[n].sa_handler != s->signals[n].sa_handler)
            return what;
        snprintf(what, sizeof what, "whether signal %d is blocked", n);
        if (sigismember(&now.mask, n) != sigismember(&s->mask, n))
            return what;
        snprintf(what, sizeof what, "whether signal %d is pending", n);
        if (sigismember(&now.pending, n) != sigismember(&s->pending, n))
            return what;
    }
    if (now.umask != s->umask)
        return "umask";
    return strcmp(now.words, s->words) != 0 ? "folder, locale or environment" : NULL;
}

#define ENV_NAME   "SQLOCK_SUITE_TRY" /* set: the program only tries to get this lock */
#define ENV_URL    "SQLOCK_SUITE_URL"
#define ENV_SCHEMA "SQLOCK_SUITE_SCHEMA"

void suite_execute(const struct world *w, const char *name)
{
    setenv(ENV_NAME, name, 1);
    setenv(ENV_URL, w->place.url, 1);
    if (w->place.schema)
        setenv(ENV_SCHEMA, w->place.schema, 1);
    execl("/proc/self/exe", w->q->name, (char *)NULL);
}

/* A new process is the only one whose client library does anything for the first time. */
static int run_executed(const struct quirks *q)
{
    static struct process_state before;
    struct world w = {.q = q};
    sqlock_error err = {0};
    const char *changed;
    sqlock *m = NULL;
    int rc;

    process_look(&before);
    w.place.url = getenv(ENV_URL);
    w.place.schema = getenv(ENV_SCHEMA);
    spy_start(q);
    if ((rc = open_here(&w, NULL, &m, &err)) != 0)
        fprintf(stderr, "%s\n", err.text);
    else
        rc = try_once(m, getenv(ENV_NAME));
    close_here(m);
    if ((changed = process_changed(&before)) != NULL) {
        fprintf(stderr, "the process is not as it was: %s\n", changed);
        return SUITE_CHANGED;
    }
    return -rc;
}

/* What asks the server what it can do is a use of the client library already. */
int suite_run(const struct quirks *q)
{
    int code = 0;

    if (q->missing && q->missing(&code))
        return code;
    return getenv(ENV_NAME) ? run_executed(q) : suite_run_files(q, "tests/drivers/suite_");
}
