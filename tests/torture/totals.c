#include "tests/torture/totals.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/torture/text.h"

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
    const char *line = text("%s\t%s\t%s\t%s", t->date, t->engine, t->version, t->fault);

#define TOTALS_PUT(name) line = text("%s\t%" PRId64, line, t->name);
    TOTALS_NUMBERS(TOTALS_PUT)
#undef TOTALS_PUT
    return append(path, text("%s\n", line));
}

bool totals_append_skip(const char *path, const char *engine, const char *fault, const char *why)
{
    return append(path, text("skip\t%s\t%s\t%.800s\n", engine, fault, why));
}

static bool add(char *line, const char *engine, const char *fault, struct total *out)
{
    const char *words[4], *number;

    for (int i = 0; i < 4; i++) /* the date, the engine, its version, the fault */
        if (!(words[i] = strsep(&line, "\t")))
            return false;
    if ((engine && strcmp(engine, words[1]) != 0) || (fault && strcmp(fault, words[3]) != 0))
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
    char line[1024];
    bool fine = true;

    *out = (struct total){.cells = 0};
    while (f && fine && fgets(line, sizeof line, f))
        fine = strncmp(line, "skip\t", 5) == 0 || add(line, engine, fault, out);
    if (f)
        fclose(f);
    return fine;
}
