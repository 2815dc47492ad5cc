/* A folder that holds a history, and beside it the rules that it is checked by. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "tests/torture/check.h"
#include "tests/torture/text.h"

/* Rules with room for what they point to. */
struct kept {
    struct check_rules rules;
    char engine[64], fault[64];
    struct check_row *rows;
};

static FILE *open_rules(const char *folder, const char *mode)
{
    return fopen(text("%s/rules", folder), mode);
}

int check_rules_save(const struct check_rules *r)
{
    FILE *f = open_rules(r->folder, "w");

    if (!f)
        return -1;
    fprintf(f,
            "engine %s\nfault %s\nseed %" PRIu64 "\nlease_ms %" PRId32 "\nslack_ms %" PRId32
            "\nmin_rate %" PRId64 "\nmin_grants %" PRId64 "\nmin_faults %" PRId64 "\n",
            r->engine, r->fault, r->seed, r->lease_ms, r->slack_ms, r->min_rate, r->min_grants,
            r->min_faults);
    for (uint32_t i = 0; r->rows && i < r->n_rows; i++)
        fprintf(f, "n%" PRIu32 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", i,
                r->rows[i].guarded, r->rows[i].token, r->rows[i].row, r->rows[i].version,
                r->rows[i].changes);
    return fclose(f) == 0 ? 0 : -1;
}

static bool add_row(struct kept *k, const char *line)
{
    struct check_row row, *more;
    uint32_t i;

    if (sscanf(line, "n%" SCNu32 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64, &i,
               &row.guarded, &row.token, &row.row, &row.version, &row.changes) != 6 ||
        i != k->rules.n_rows || !(more = realloc(k->rows, (i + (size_t)1) * sizeof *more)))
        return false;
    k->rules.rows = k->rows = more;
    k->rows[k->rules.n_rows++] = row;
    return true;
}

static bool read_line(struct kept *k, const char *line)
{
    struct check_rules *r = &k->rules;

    return sscanf(line, "engine %63[^\n]", k->engine) == 1 ||
           sscanf(line, "fault %63[^\n]", k->fault) == 1 ||
           sscanf(line, "seed %" SCNu64, &r->seed) == 1 ||
           sscanf(line, "lease_ms %" SCNd32, &r->lease_ms) == 1 ||
           sscanf(line, "slack_ms %" SCNd32, &r->slack_ms) == 1 ||
           sscanf(line, "min_rate %" SCNd64, &r->min_rate) == 1 ||
           sscanf(line, "min_grants %" SCNd64, &r->min_grants) == 1 ||
           sscanf(line, "min_faults %" SCNd64, &r->min_faults) == 1 || add_row(k, line);
}

/* A folder without rules is checked without a cell's: only for what can never be true. */
static bool read_rules(struct kept *k)
{
    FILE *f = open_rules(k->rules.folder, "r");
    bool fine = f || errno == ENOENT;
    char line[512];

    if (!fine)
        perror(k->rules.folder);
    while (f && fine && fgets(line, sizeof line, f))
        if (!(fine = read_line(k, line)))
            fprintf(stderr, "%s/rules: not a rule: %s", k->rules.folder, line);
    if (f)
        fclose(f);
    return fine;
}

int check_main(int argc, char **argv)
{
    struct kept k = {.rules = {.slack_ms = 2000}, .engine = "-", .fault = "-"};
    struct check_verdict v = {0};
    struct event *events = NULL;
    int64_t n;
    int rc = -1;

    if (argc != 2) {
        fputs("usage: check FOLDER\n", stderr);
        return 2;
    }
    k.rules.folder = argv[1];
    k.rules.engine = k.engine;
    k.rules.fault = k.fault;
    if (read_rules(&k) && (n = history_read(k.rules.folder, &events)) >= 0)
        rc = check_history(&k.rules, events, n, &v, stdout);
    if (rc >= 0)
        check_print(&v, stdout);
    free(events);
    free(k.rows);
    return rc < 0 ? 2 : rc;
}
