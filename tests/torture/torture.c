/* The program of the cells, and of what they start: this program again, as a client, as the child
 * of a command, as a writer that dies. Without a word it is short.c. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "tests/torture/cell.h"
#include "tests/torture/client.h"
#include "tests/torture/fault.h"

enum { USAGE = 2, BROKEN_TRIES = 3 };

static int usage(void)
{
    fputs("usage: torture                                      the short form, as tests\n"
          "       torture cell ENGINE FAULT [--seconds S] [--seed N] [--totals FILE] [--share N]\n"
          "       torture check FOLDER                         a history that was kept\n"
          "       torture list                                 all cells there are\n"
          "       torture kinds                                engines, faults and cells, for "
          "totals.awk\n"
          "       torture tables URL                           what clients write to, for "
          "patroni.sh\n",
          stderr);
    return USAGE;
}

static int64_t number_of(const char *text)
{
    char *end = NULL;
    int64_t n = strtoll(text, &end, 10);

    return *text && !*end && n > 0 ? n : -1;
}

static int cell_main(int argc, char **argv)
{
    const struct engine_kind *kind = argc > 0 ? engine_kind_of(argv[0]) : NULL;
    const struct fault_kind *fault = argc > 1 ? fault_kind_of(argv[1]) : NULL;
    const char *totals = NULL;
    struct total total;
    struct cell cell = {.kind = kind, .fault = fault, .seed = 1, .seconds = 16, .share = 1};
    int rc = CELL_BROKE;

    if (argc < 2 || argc % 2 != 0)
        return usage();
    if (!kind || !fault || !fault_exists(fault, kind)) {
        fprintf(stderr, "torture: there is no cell %s %s (torture list tells all)\n", argv[0],
                argv[1]);
        return USAGE;
    }
    for (int i = 2; i < argc; i += 2) {
        int64_t n = number_of(argv[i + 1]);

        if (strcmp(argv[i], "--totals") == 0)
            totals = argv[i + 1];
        else if (strcmp(argv[i], "--seed") == 0 && n > 0)
            cell.seed = (uint64_t)n;
        else if (strcmp(argv[i], "--seconds") == 0 && n > 0 && n < 100000)
            cell.seconds = (int32_t)n;
        else if (strcmp(argv[i], "--share") == 0 && n > 0 && n < 100)
            cell.share = (int32_t)n;
        else
            return usage();
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* nobody waits for the cell of a run that was ended */
    for (int tries = 0; tries < BROKEN_TRIES; tries++) {
        struct cell again = {.kind = kind,
                             .fault = fault,
                             .seed = cell.seed,
                             .seconds = cell.seconds,
                             .share = cell.share};

        cell = again;
        rc = cell_run(&cell, &total, stdout);
        if (rc != CELL_BROKE)
            break;
    }
    if (totals && cell.engine.why[0])
        totals_append_skip(totals, kind->name, fault->word, cell.engine.why);
    else if (totals && total.date[0] && !totals_append(totals, &total))
        rc = 1;
    return rc;
}

static int list_cells(const char *before, char between)
{
    for (size_t i = 0; engine_at(i); i++)
        for (size_t k = 0; fault_at(k); k++)
            if (fault_exists(fault_at(k), engine_at(i)))
                printf("%s%s%c%s\n", before, engine_at(i)->name, between, fault_at(k)->word);
    return 0;
}

static int kinds_main(void)
{
    for (size_t i = 0; engine_at(i); i++)
        printf("engine\t%s\n", engine_at(i)->name);
    for (size_t k = 0; fault_at(k); k++)
        printf("fault\t%s\t%s\t%d\n", fault_at(k)->word, fault_at(k)->sentence,
               fault_at(k)->servers != 0);
    return list_cells("cell\t", '\t');
}

int main(int argc, char **argv)
{
    int rc;

    engine_sqlite_clock();
    rc = client_dispatch(argc, argv);
    if (rc >= 0)
        return rc;
    if (argc == 1)
        return short_main();
    if (strcmp(argv[1], "cell") == 0)
        return cell_main(argc - 2, argv + 2);
    if (strcmp(argv[1], "check") == 0)
        return check_main(argc - 1, argv + 1);
    if (strcmp(argv[1], "list") == 0)
        return list_cells("", ' ');
    if (strcmp(argv[1], "kinds") == 0)
        return kinds_main();
    if (strcmp(argv[1], "tables") == 0 && argc == 3)
        return client_tables(argv[2], CELL_NAMES) ? 0 : 1;
    if (strcmp(argv[1], "writer") == 0 && argc == 3)
        return fault_writer_main(argv[2]);
    return usage();
}
