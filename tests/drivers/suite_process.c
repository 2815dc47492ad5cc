/* P19: what is the whole process's, and a client library might set. */
#include "tests/drivers/suite_process.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static void put(char **at, const char *end, const char *text)
{
    *at += snprintf(*at, (size_t)(end - *at), "%s\n", text != NULL ? text : "");
    assert_true(*at < end);
}

void process_look(struct process_state *s)
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

const char *process_changed(const struct process_state *s)
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
