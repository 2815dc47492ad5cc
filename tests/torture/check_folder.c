/* A folder that holds a history, and beside it the rules that it is checked by. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/torture/check.h"

/* Rules with room for what they point to. */
struct kept {
    struct check_rules rules;
    char engine[64], fault[64];
    struct check_row *rows;
};

#define ROW "n%" PRIu32 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64

/* ---- writing ----------------------------------------------------------------------------------
 */

static FILE *open_rules(const char *folder, const char *mode)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/rules", folder);
    return fopen(path, mode);
}

int check_rules_save(const struct check_rules *r)
{
    FILE *f = open_rules(r->folder, "w");

    if (!f)
        return -1;
    fprintf(f, "engine %s\nfault %s\nseed %" PRIu64 "\n", r->engine ? r->engine : "-",
            r->fault ? r->fault : "-", r->seed);
    fprintf(f, "lease_ms %" PRId32 "\nslack_ms %" PRId32 "\n", r->lease_ms, r->slack_ms);
    fprintf(f, "min_rate %" PRId64 "\nmin_grants %" PRId64 "\nmin_faults %" PRId64 "\n",
            r->min_rate, r->min_grants, r->min_faults);
    for (uint32_t i = 0; r->rows && i < r->n_rows; i++) {
        const struct check_row *row = &r->rows[i];

        fprintf(f, ROW "\n", i, row->guarded, row->token, row->row, row->version, row->changes);
    }
    return fclose(f) == 0 ? 0 : -1;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static bool add_row(struct kept *k, const char *line)
{
    struct check_row row, *more;
    uint32_t i;

    if (sscanf(line, "n%" SCNu32 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64, &i,
               &row.guarded, &row.token, &row.row, &row.version, &row.changes) != 6 ||
        i != k->rules.n_rows)
        return false;
    more = realloc(k->rows, (i + (size_t)1) * sizeof *more);
    if (!more)
        return false;
    k->rows = more;
    k->rows[i] = row;
    k->rules.n_rows = i + 1;
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
static bool read_rules(struct kept *k, const char *folder)
{
    FILE *f = open_rules(folder, "r");
    char line[512];
    bool fine = true;

    if (!f && errno != ENOENT) {
        perror(folder);
        return false;
    }
    while (f && fine && fgets(line, sizeof line, f)) {
        fine = read_line(k, line);
        if (!fine)
            fprintf(stderr, "%s/rules: not a rule: %s", folder, line);
    }
    if (f)
        fclose(f);
    k->rules.folder = folder;
    k->rules.engine = k->engine;
    k->rules.fault = k->fault;
    k->rules.rows = k->rows;
    return fine;
}

static int check_kept(const struct kept *k, struct check_verdict *out, FILE *say)
{
    struct event *events = NULL;
    int64_t n = history_read(k->rules.folder, &events);
    int rc = -1;

    if (n >= 0)
        rc = check_history(&k->rules, events, n, out, say);
    free(events);
    return rc;
}

int check_folder(const char *folder, struct check_verdict *out, FILE *say)
{
    struct kept k = {.rules = {.slack_ms = 2000}, .engine = "-", .fault = "-"};
    int rc = -1;

    if (read_rules(&k, folder))
        rc = check_kept(&k, out, say);
    free(k.rows);
    return rc;
}

/* ---- by hand ----------------------------------------------------------------------------------
 */

static int usage(void)
{
    fprintf(stderr, "usage: check FOLDER [--lease MS] [--rate N] [--grants N] [--faults N]\n");
    return 2;
}

static bool read_options(struct kept *k, int argc, char **argv)
{
    static const struct option options[] = {{"lease", required_argument, NULL, 'l'},
                                            {"rate", required_argument, NULL, 'r'},
                                            {"grants", required_argument, NULL, 'g'},
                                            {"faults", required_argument, NULL, 'f'},
                                            {0}};
    int c;

    optind = 1;
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        int64_t n = optarg ? strtoll(optarg, NULL, 10) : 0;

        if (c == 'l')
            k->rules.lease_ms = (int32_t)n;
        else if (c == 'r')
            k->rules.min_rate = n;
        else if (c == 'g')
            k->rules.min_grants = n;
        else if (c == 'f')
            k->rules.min_faults = n;
        else
            return false;
    }
    return true;
}

int check_main(int argc, char **argv)
{
    struct kept k = {.rules = {.slack_ms = 2000}, .engine = "-", .fault = "-"};
    struct check_verdict v = {0};
    int rc = -1;

    if (argc < 2 || argv[1][0] == '-' || !read_options(&k, argc - 1, argv + 1))
        return usage();
    if (read_rules(&k, argv[1]) && read_options(&k, argc - 1, argv + 1))
        rc = check_kept(&k, &v, stdout);
    if (rc >= 0)
        check_print(&v, stdout);
    free(k.rows);
    return rc < 0 ? 2 : rc;
}
