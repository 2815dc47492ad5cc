#include "tests/torture/totals.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/torture/fault.h"

/* The bar of `make torture`: what all cells together are to reach. */
enum {
    BAR_OPERATIONS = 5000000,
    BAR_SETTLED = 3000,
    BAR_FROZEN = 2000,
    BAR_STEPS = 200,
    BAR_EVENTS = 10,
    BAR_GRANTS = 1000,
    BAR_FAILOVERS = 40,
    LINE = 1024
};

/* ---- writing ----------------------------------------------------------------------------------
 */

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
    TOTALS_LATER(TOTALS_PUT)
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

/* ---- reading ----------------------------------------------------------------------------------
 */

static bool take(char **rest, char *out, size_t size)
{
    char *field = strsep(rest, "\t\n");

    return field && snprintf(out, size, "%s", field) < (int)size;
}

static bool parse(char *line, struct total *t)
{
    char *rest = line;
    char number[32];
    char *end;

    *t = (struct total){.cells = 1};
    if (!take(&rest, t->date, sizeof t->date) || !take(&rest, t->engine, sizeof t->engine) ||
        !take(&rest, t->version, sizeof t->version) || !take(&rest, t->fault, sizeof t->fault))
        return false;
#define TOTALS_TAKE(name)                                                                          \
    if (!take(&rest, number, sizeof number) || !*number)                                           \
        return false;                                                                              \
    t->name = strtoll(number, &end, 10);                                                           \
    if (*end)                                                                                      \
        return false;
    TOTALS_NUMBERS(TOTALS_TAKE)
    if (!rest || !*rest)
        return true;
    TOTALS_LATER(TOTALS_TAKE)
#undef TOTALS_TAKE
    return true;
}

static bool add(struct totals *out, const struct total *t)
{
    struct total *more = realloc(out->lines, (out->n + 1) * sizeof *more);

    if (!more)
        return false;
    out->lines = more;
    out->lines[out->n++] = *t;
    return true;
}

bool totals_read(const char *path, struct totals *out)
{
    FILE *f = fopen(path, "r");
    char line[LINE];
    bool fine = true;

    *out = (struct totals){NULL, 0};
    for (int number = 1; f && fine && fgets(line, sizeof line, f); number++) {
        struct total t;

        if (strncmp(line, "skip\t", 5) == 0 || line[0] == '#')
            continue;
        fine = parse(line, &t) && add(out, &t);
        if (!fine)
            fprintf(stderr, "%s:%d: not a line of totals\n", path, number);
    }
    if (f)
        fclose(f);
    return fine;
}

void totals_free(struct totals *t)
{
    free(t->lines);
    *t = (struct totals){NULL, 0};
}

static bool is(const char *wanted, const char *got)
{
    return !wanted || strcmp(wanted, got) == 0;
}

struct total totals_sum(const struct totals *t, const char *engine, const char *fault)
{
    struct total sum = {.cells = 0};

    for (size_t i = 0; i < t->n; i++) {
        const struct total *l = &t->lines[i];

        if (!is(engine, l->engine) || !is(fault, l->fault))
            continue;
        sum.cells += l->cells;
        memcpy(sum.version, l->version, sizeof sum.version);
#define TOTALS_ADD(name) sum.name += l->name;
        TOTALS_NUMBERS(TOTALS_ADD)
        TOTALS_LATER(TOTALS_ADD)
#undef TOTALS_ADD
    }
    return sum;
}

/* ---- the report -------------------------------------------------------------------------------
 */

static int kinds_done(const struct totals *t, const char *engine)
{
    int n = 0;

    for (size_t i = 0; fault_at(i); i++) {
        struct total sum = totals_sum(t, engine, fault_at(i)->word);

        n += sum.events >= BAR_EVENTS && sum.grants >= BAR_GRANTS;
    }
    return n;
}

static void put_engines(const struct totals *t, FILE *f)
{
    fputs("| engine | version | cells | kinds of faults | operations | grants | faults | "
          "replies lost, settled | holders frozen, late writes | clock steps | violations |\n"
          "|---|---|---|---|---|---|---|---|---|---|---|\n",
          f);
    for (size_t i = 0; engine_at(i); i++) {
        struct total s = totals_sum(t, engine_at(i)->name, NULL);

        if (s.cells == 0) {
            fprintf(f, "| %s | never run |\n", engine_at(i)->name);
            continue;
        }
        fprintf(f,
                "| %s | %s | %" PRId64 " | %d | %" PRId64 " | %" PRId64 " | %" PRId64 " | %" PRId64
                ", %" PRId64 " | %" PRId64 ", %" PRId64 " | %" PRId64 " | %" PRId64 " |\n",
                engine_at(i)->name, s.version, s.cells, kinds_done(t, engine_at(i)->name),
                s.operations, s.grants, s.events, s.unsure, s.settled, s.frozen, s.late,
                s.clock_steps, s.violations);
    }
}

/* What pairs and triples of servers are to reach, each kind on each engine. */
static void put_failovers(const struct totals *t, FILE *f)
{
    fputs("| fault | engine | promotions | bar | grants | overlaps where commits were lost | "
          "violations |\n|---|---|---|---|---|---|---|\n",
          f);
    for (size_t k = 0; fault_at(k); k++)
        for (size_t i = 0; engine_at(i); i++) {
            struct total s = totals_sum(t, engine_at(i)->name, fault_at(k)->word);

            if (!fault_at(k)->servers || !fault_exists(fault_at(k), engine_at(i)))
                continue;
            fprintf(f, "| %s | %s | ", fault_at(k)->word, engine_at(i)->name);
            if (s.cells == 0)
                fprintf(f, "not run | %d | | | |\n", BAR_FAILOVERS);
            else
                fprintf(f, "%" PRId64 " | %d | %" PRId64 " | %" PRId64 " | %" PRId64 " |\n",
                        s.events, BAR_FAILOVERS, s.grants, s.overlaps, s.violations);
        }
}

static void put_bar(const struct totals *t, FILE *f)
{
    struct total s = totals_sum(t, NULL, NULL);
    const struct {
        const char *what;
        int64_t got, bar;
    } rows[] = {{"operations in checked histories", s.operations, BAR_OPERATIONS},
                {"lost replies, settled", s.settled, BAR_SETTLED},
                {"holders frozen past their lease", s.frozen, BAR_FROZEN},
                {"steps of a server's clock", s.clock_steps, BAR_STEPS}};

    fputs("| measure | reached | bar |\n|---|---|---|\n", f);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        fprintf(f, "| %s | %" PRId64 " | %" PRId64 " |\n", rows[i].what, rows[i].got, rows[i].bar);
    fprintf(f, "| late guarded writes accepted | %" PRId64 " | 0 |\n", s.late);
    fprintf(f, "| violations | %" PRId64 " | 0 |\n", s.violations);
}

static void put_cells(const struct totals *t, FILE *f)
{
    fputs("| fault |", f);
    for (size_t i = 0; engine_at(i); i++)
        fprintf(f, " %s |", engine_at(i)->name);
    fputs("\n|---|", f);
    for (size_t i = 0; engine_at(i); i++)
        fputs("---|", f);
    fputs("\n", f);
    for (size_t k = 0; fault_at(k); k++) {
        fprintf(f, "| %s: %s |", fault_at(k)->word, fault_at(k)->sentence);
        for (size_t i = 0; engine_at(i); i++) {
            struct total s = totals_sum(t, engine_at(i)->name, fault_at(k)->word);

            if (!fault_exists(fault_at(k), engine_at(i)))
                fputs(" - |", f);
            else if (s.cells == 0)
                fputs(" not run |", f);
            else
                fprintf(f, " %" PRId64 " / %" PRId64 " / %" PRId64 " |", s.events, s.grants,
                        s.violations);
        }
        fputs("\n", f);
    }
}

/* The last reason for each cell that could not be had and has no line. */
static void put_skips(const char *path, const struct totals *t, FILE *f)
{
    FILE *in = fopen(path, "r");
    char line[LINE];
    char *engine, *fault, *why;

    while (in && fgets(line, sizeof line, in)) {
        char *rest = line;

        if (strncmp(line, "skip\t", 5) != 0)
            continue;
        strsep(&rest, "\t");
        engine = strsep(&rest, "\t");
        fault = strsep(&rest, "\t");
        why = strsep(&rest, "\n");
        if (engine && fault && why && totals_sum(t, engine, fault).cells == 0)
            fprintf(f, "- %s, %s: %s\n", engine, fault, why);
    }
    if (in)
        fclose(in);
}

bool totals_report(const char *path, FILE *out)
{
    struct totals t;
    bool fine = totals_read(path, &t);

    if (fine) {
        fputs(
            "# Results\n\nWritten by `make torture` from `totals.tsv`, which holds a line for each "
            "cell.\n\n## Against the bar\n\n",
            out);
        put_bar(&t, out);
        fputs("\n## Engines\n\nA kind of fault counts from 10 events and 1,000 grants on.\n\n",
              out);
        put_engines(&t, out);
        fputs("\n## Failovers\n\nTwo holders of a lock are a violation, but for where commits were "
              "lost and nobody asked for a grace: those are counted. Tokens rise always; in "
              "`split-brain` those of the new server are above the old one's.\n\n",
              out);
        put_failovers(&t, out);
        fputs("\n## Cells: faults / grants / violations\n\n\"-\": there is no such thing on that "
              "engine (see the README).\n\n",
              out);
        put_cells(&t, out);
        fputs("\n## Skipped\n\n", out);
        put_skips(path, &t, out);
    }
    totals_free(&t);
    return fine;
}
