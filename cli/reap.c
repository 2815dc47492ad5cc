/* sqlock reap: clean up. No lock needs it. */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include <sqlock/admin.h>

#include "cli/base/connect.h"
#include "cli/base/output.h"
#include "cli/base/say.h"
#include "cli/base/signals.h"
#include "cli/base/text.h"
#include "cli/cli.h"
#include "cli/reap/metrics.h"

enum { GRACE = OPTION_LONG, IDLE, BATCH, LIMIT, DRY_RUN, LOOP, METRICS_FILE };
enum { LOOP_LEAST_MS = 100 };

static const struct option_spec options[] = {
    {GRACE, "grace", "DUR", "clear locks that expired this long ago; default: 1m"},
    {IDLE, "idle", "DUR", "delete rows unused for this long; default: 7d"},
    {BATCH, "batch", "N", "rows in one statement; default: 500"},
    {LIMIT, "limit", "N", "change at most this many rows"},
    {DRY_RUN, "dry-run", NULL, "only count"},
    {LOOP, "loop", "DUR", "repeat, with pauses of this length"},
    {METRICS_FILE, "metrics-file", "FILE", "write there what each run did"},
    {0, NULL, NULL, NULL},
};

/* A second thread does the work, so that this one can receive signals and cancel it. */
struct job {
    const struct cli *cli;
    sqlock *m;
    sqlock_reap_opts opts;
    bool loops;
    int32_t pause_ms;
    const char *metrics; /* a file, or NULL */
    struct signals signals;
    int done_fd;
    int rc, caught;
    sqlock_reap_report report;
    sqlock_error err;
};

static int read_options(struct cli *cli, int argc, char **argv, struct job *job)
{
    struct options o;
    int64_t number;
    int key;

    options_begin(&o, cli, options, OPTIONS_ANYWHERE, argc, argv);
    while ((key = options_next(&o)) >= 0)
        if (key == GRACE)
            options_long_duration(&o, &job->opts.grace_ms);
        else if (key == IDLE)
            options_long_duration(&o, &job->opts.idle_ms);
        else if (key == BATCH && options_number(&o, 1, SQLOCK_REAP_BATCH_MAX, &number))
            job->opts.batch = (int32_t)number;
        else if (key == LIMIT)
            options_number(&o, 0, INT64_MAX / 16, &job->opts.limit);
        else if (key == DRY_RUN)
            job->opts.flags |= SQLOCK_REAP_DRY_RUN;
        else if (key == LOOP)
            job->loops = options_duration(&o, &job->pause_ms);
        else if (key == METRICS_FILE)
            job->metrics = o.value;
    if (key == OPTIONS_WRONG)
        return EXIT_USAGE;
    if (job->metrics != NULL && *job->metrics == '\0')
        return options_refuse(cli, "--metrics-file needs the name of a file");
    if (job->metrics != NULL && (job->opts.flags & SQLOCK_REAP_DRY_RUN))
        return options_refuse(cli, "use only one of --metrics-file and --dry-run");
    if (job->loops && job->pause_ms < LOOP_LEAST_MS)
        return options_refuse(cli, "--loop must be at least 100ms");
    if (job->opts.idle_ms < SQLOCK_REAP_IDLE_MIN_MS)
        return options_refuse(cli, "--idle must be at least 2h");
    return o.n == 0 ? 0 : options_refuse(cli, "reap takes no argument");
}

static int print_report(const struct job *job)
{
    const sqlock_reap_report *r = &job->report;
    bool dry = (job->opts.flags & SQLOCK_REAP_DRY_RUN) != 0;
    char span[TEXT_DURATION];

    if (job->cli->json)
        return output_json(json_pack(
            "{s:b, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "ran", r->ran, "dry_run", dry,
            "more", r->more, "cleared", (json_int_t)r->cleared, "pruned", (json_int_t)r->pruned,
            "seen", (json_int_t)r->seen, "batches", (json_int_t)r->batches, "duration_ms",
            (json_int_t)(r->duration_us / 1000), "longest_ms", (json_int_t)(r->longest_us / 1000),
            "oldest_ms", (json_int_t)r->oldest_ms));
    if (say_is_quiet())
        return 0;
    if (!r->ran) {
        say(SAY_NOTE, "another reaper is running");
        return 0;
    }
    printf("%s %lld, %s %lld of %lld rows in %s%s\n", dry ? "would clear" : "cleared",
           (long long)r->cleared, dry ? "would prune" : "pruned", (long long)r->pruned,
           (long long)r->seen, text_span(span, r->duration_us / 1000),
           r->more ? "; there may be more" : "");
    return output_end();
}

static void *reap_work(void *arg)
{
    struct job *job = arg;

    memset(&job->report, 0, sizeof job->report);
    job->report.size = sizeof job->report;
    job->rc = sqlock_reap(job->m, &job->opts, &job->report, &job->err);
    eventfd_write(job->done_fd, 1);
    return NULL;
}

/* One run, complete or ended by a signal. */
static int reap_once(struct job *job)
{
    struct pollfd fds[] = {{.fd = job->done_fd, .events = POLLIN},
                           {.fd = job->signals.fd, .events = POLLIN}};
    pthread_t thread;
    eventfd_t ignored;

    if (pthread_create(&thread, NULL, reap_work, job) != 0) {
        say(SAY_ERROR, "cannot start a thread");
        return EXIT_INTERNAL;
    }
    while (fds[0].revents == 0) {
        poll(fds, 2, -1);
        if (fds[1].revents != 0 && job->caught == 0) {
            job->caught = signals_next(&job->signals, NULL);
            sqlock_cancel_fire(job->opts.cancel);
            fds[1].fd = -1;
        }
    }
    pthread_join(thread, NULL);
    eventfd_read(job->done_fd, &ignored);
    if (job->rc == SQLOCK_ELOST) {
        fail_with(job->rc, &job->err);
        return EXIT_LOST;
    }
    return job->rc == 0 || job->rc == SQLOCK_ECANCELLED ? print_report(job)
                                                        : fail_with(job->rc, &job->err);
}

/* Write the result of a run for the collector. Returns the exit code. */
static int reap_account(const struct job *job, int code)
{
    int rc = job->metrics != NULL ? metrics_write(job->metrics, code, &job->report) : 0;

    return code != 0 ? code : rc;
}

/* With --loop: until a signal. Failures on the way are reported, and the next run tries again: the
 * database restarts, SQLite's file is locked, the disk of the metrics file is full. */
static int reap_loop(struct job *job)
{
    struct pollfd signalled = {.fd = job->signals.fd, .events = POLLIN};
    int ran, rc;

    for (;;) {
        ran = reap_once(job);
        rc = reap_account(job, job->caught != 0 ? EXIT_SIGNAL + job->caught : ran);
        if (job->caught != 0 || !job->loops ||
            (ran != 0 && ran != EXIT_UNREACHABLE && ran != EXIT_LOST && ran != EXIT_BUSY &&
             ran != EXIT_UNSURE))
            return rc;
        if (poll(&signalled, 1, job->pause_ms) > 0 &&
            (job->caught = signals_next(&job->signals, NULL)) != 0)
            return EXIT_SIGNAL + job->caught;
    }
}

static int reap_run(struct cli *cli, int argc, char **argv)
{
    struct job job = {.cli = cli, .opts = SQLOCK_REAP_OPTS_INIT};
    int rc;

    if ((rc = read_options(cli, argc, argv, &job)) != 0)
        return rc;
    if ((rc = database_open(cli, NULL, &job.m)) != 0)
        return reap_account(&job, rc);
    job.done_fd = eventfd(0, EFD_CLOEXEC);
    if (job.done_fd >= 0 && signals_take(&job.signals) &&
        sqlock_cancel_new(&job.opts.cancel, NULL) == 0) {
        rc = reap_loop(&job);
    } else {
        say(SAY_ERROR, "no file descriptor available");
        rc = EXIT_INTERNAL;
    }
    sqlock_cancel_free(job.opts.cancel);
    sqlock_close(job.m);
    return rc;
}

const struct command command_reap = {
    .name = "reap",
    .synopsis = "[--grace DUR] [--idle DUR] [--batch N] [--limit N] [--dry-run] [--loop DUR] "
                "[--metrics-file FILE]",
    .summary = "clear expired locks, and delete rows that are long unused",
    .help = "No lock needs this: an expired one is granted to the next program that wants\n"
            "it, reaped or not. Only one reaper runs at a time; a second one does nothing\n"
            "and exits with 0.\n"
            "\n"
            "--metrics-file writes OpenMetrics text after each run, for the textfile\n"
            "collector of Prometheus' node_exporter: into its folder, to a name that ends in\n"
            ".prom. The name without .prom becomes the label 'reaper'. The file is replaced\n"
            "as a whole. If that fails, the old file stays, and a single run exits with 74.\n",
    .options = options,
    .run = reap_run,
};
