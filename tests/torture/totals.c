#include "tests/torture/totals.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 1024 };

/* One write, so that cells that end at the same time do not mix their lines. */
static bool append(const char *path, const char *line)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    bool fine = fd >= 0 && write(fd, line, strlen(line)) == (ssize_t)strlen(line);

    if (!fine)
        perror(path);
    if (fd >= 0)
        close(fd);
    return fine;
}

bool totals_append(const char *path, const struct total *t)
{
    char line[LINE];
    int n = snprintf(line, sizeof line, "%s\t%s\t%s\t%s", t->date, t->engine, t->version, t->fault);

#define TOTALS_PUT(name) n += snprintf(line + n, sizeof line - (size_t)n, "\t%" PRId64, t->name);
    TOTALS_NUMBERS(TOTALS_PUT)
#undef TOTALS_PUT
    snprintf(line + n, sizeof line - (size_t)n, "\n");
    return append(path, line);
}

bool totals_append_skip(const char *path, const char *engine, const char *fault, const char *why)
{
    char line[LINE];

    snprintf(line, sizeof line, "skip\t%s\t%s\t%.800s\n", engine, fault, why);
    return append(path, line);
}

static bool is(const char *wanted, const char *got)
{
    return !wanted || strcmp(wanted, got) == 0;
}

static bool add(char *line, const char *engine, const char *fault, struct total *out)
{
    const char *of_engine, *of_fault, *number;

    strsep(&line, "\t");
    of_engine = strsep(&line, "\t");
    strsep(&line, "\t");
    of_fault = strsep(&line, "\t");
    if (!of_fault)
        return false;
    if (!is(engine, of_engine) || !is(fault, of_fault))
        return true;
    out->cells++;
#define TOTALS_ADD(name)                                                                           \
    if (!(number = strsep(&line, "\t\n")) || !*number)                                             \
        return false;                                                                              \
    out->name += strtoll(number, NULL, 10);
    TOTALS_NUMBERS(TOTALS_ADD)
#undef TOTALS_ADD
    return true;
}

bool totals_sum(const char *path, const char *engine, const char *fault, struct total *out)
{
    FILE *f = fopen(path, "r");
    char line[LINE];
    bool fine = true;

    *out = (struct total){.cells = 0};
    while (f && fine && fgets(line, sizeof line, f))
        fine = strncmp(line, "skip\t", 5) == 0 || add(line, engine, fault, out);
    if (f)
        fclose(f);
    return fine;
}
