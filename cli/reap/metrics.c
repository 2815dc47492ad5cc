
#include "cli/reap/metrics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/base/file.h"
#include "cli/base/say.h"
#include "cli/base/shown.h"
#include "cli/exits.h"

#define LAST_SUCCESS "sqlock_reap_last_success_timestamp_seconds"

/* Only gauges, and an end mark: so the text is valid both as OpenMetrics and in the older format of
 * Prometheus, which name counters differently. */
struct page {
    FILE *to;
    const char *labels; /* on each line: reaper="orders" */
};

static void page_head(const struct page *p, const char *name, const char *help)
{
    fprintf(p->to, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
}

static void page_whole(const struct page *p, const char *name, const char *help, int64_t value)
{
    page_head(p, name, help);
    fprintf(p->to, "%s{%s} %lld\n", name, p->labels, (long long)value);
}

/* Without floating point, whose text depends on the locale. */
static void page_seconds(const struct page *p, const char *name, const char *help, int64_t us)
{
    page_head(p, name, help);
    fprintf(p->to, "%s{%s} %lld.%06d\n", name, p->labels, (long long)(us / 1000000),
            (int)(us % 1000000));
}

/* ---- the page -------------------------------------------------------------------------------- */

static const char *outcome_of(int code, const sqlock_reap_report *r)
{
    if (code == EXIT_DONE)
        return r->ran ? "done" : "busy";
    return code > EXIT_SIGNAL ? "signal" : "failed";
}

static void page_outcome(const struct page *p, int code, const sqlock_reap_report *r)
{
    static const char *const words[] = {"done", "busy", "signal", "failed"};
    const char *name = "sqlock_reap_outcome", *is = outcome_of(code, r);

    page_head(p, name, "How the last run ended; busy: another reaper was running.");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        fprintf(p->to, "%s{%s,outcome=\"%s\"} %d\n", name, p->labels, words[i],
                strcmp(words[i], is) == 0);
    page_whole(p, "sqlock_reap_exit_code", "Exit code of the last run.", code);
}

static void page_report(const struct page *p, const sqlock_reap_report *r)
{
    page_whole(p, "sqlock_reap_rows_seen", "Rows that the last run looked at.", r->seen);
    page_whole(p, "sqlock_reap_rows_cleared", "Locks that the last run freed.", r->cleared);
    page_whole(p, "sqlock_reap_rows_pruned", "Rows that the last run deleted.", r->pruned);
    page_whole(p, "sqlock_reap_statements", "Statements that the last run sent to change rows.",
               r->batches);
    page_whole(p, "sqlock_reap_more", "1: a limit ended the last run, and there may be more to do.",
               r->more);
    page_seconds(p, "sqlock_reap_duration_seconds", "Duration of the last run.", r->duration_us);
    page_seconds(p, "sqlock_reap_longest_statement_seconds", "Duration of its longest statement.",
                 r->longest_us);
    page_seconds(p, "sqlock_reap_oldest_expired_seconds",
                 "How long ago the oldest expired lock had run out; 0: none had.",
                 r->oldest_ms * 1000);
}

/* From the existing file, so that a failed run keeps it. 0: none. */
static int64_t last_success(const char *path, const char *labels)
{
    char *text = file_text(path), *line = NULL;
    const char *at;
    int64_t s = 0;

    if (text != NULL && asprintf(&line, "\n%s{%s} ", LAST_SUCCESS, labels) > 0 &&
        (at = strstr(text, line)) != NULL)
        s = strtoll(at + strlen(line), NULL, 10);
    free(line);
    free(text);
    return s > 0 ? s : 0;
}

/* Two databases on one host have two files, and their lines need different labels. The label is the
 * file's name, because nothing of the URL is published. free() it. */
static char *labels_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
    size_t len = strlen(base);
    char *labels = malloc(2 * len + sizeof "reaper=\"\""), *to = labels;

    if (labels == NULL)
        return NULL;
    if (len > 5 && strcmp(base + len - 5, ".prom") == 0)
        len -= 5;
    to = stpcpy(to, "reaper=\"");
    for (size_t i = 0, n; i<len; i += n> 0 ? n : 1) {
        if ((n = shown_char(base + i, len - i)) == 0)
            *to++ = '?';
        if (base[i] == '"' || base[i] == '\\')
            *to++ = '\\';
        to = mempcpy(to, base + i, n);
    }
    strcpy(to, "\"");
    return labels;
}

static void page_fill(const struct page *p, const char *path, int code, const sqlock_reap_report *r)
{
    int64_t now = (int64_t)time(NULL);

    page_outcome(p, code, r);
    page_whole(p, "sqlock_reap_last_run_timestamp_seconds", "When the last run ended.", now);
    page_whole(p, LAST_SUCCESS, "When the last run that exited with 0 ended; 0: there was none.",
               code == EXIT_DONE ? now : last_success(path, p->labels));
    if (r->ran)
        page_report(p, r);
    fputs("# EOF\n", p->to);
}

/* free() it; NULL: out of memory. */
static char *page_text(const char *path, int code, const sqlock_reap_report *report,
                       size_t *out_len)
{
    char *labels = labels_of(path), *text = NULL;
    struct page page = {open_memstream(&text, out_len), labels};

    if (page.to != NULL && labels != NULL)
        page_fill(&page, path, code, report);
    if ((page.to != NULL && fclose(page.to) != 0) || labels == NULL) {
        free(text);
        text = NULL;
    }
    free(labels);
    return text;
}

int metrics_write(const char *path, int code, const sqlock_reap_report *report)
{
    size_t len = 0;
    char *text = page_text(path, code, report, &len);
    int failed = text != NULL ? file_replace(path, text, len) : ENOMEM;

    free(text);
    if (failed == 0)
        return 0;
    say(SAY_ERROR, "--metrics-file %s: %s", path,
        failed == ELOOP
            ? "it is a symbolic link, or another user's link leads there; name the file itself"
            : strerror(failed));
    return EXIT_IO;
}
