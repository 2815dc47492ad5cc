/* Reads a file of races, and makes a test of each for each database that is there. */
#include <assert.h>
#include <stdlib.h>

#include "play.h"
#include "races.h"

/* ---- a file ---------------------------------------------------------------------------------- */

static struct line lines[2000];
static int n_lines;
enum { RACES_MOST = 96 };

static struct race races[RACES_MOST];
static int n_races;

/* A whole line, or what goes on with the one before. */
static void take_line(int at, char *text)
{
    size_t len = strlen(text), indent = strspn(text, " ");
    struct line *last = &lines[n_lines - 1];
    while (len > 0 && strchr("\n ", text[len - 1]))
        text[--len] = '\0';
    if (len == 0 || text[indent] == '#')
        return;
    if (indent > 4) {
        last->text = realloc(last->text, strlen(last->text) + len + 2);
        strcat(strcat(last->text, "\n"), text + indent);
        return;
    }
    assert(n_lines < (int)COUNT(lines));
    lines[n_lines++] = (struct line){at, indent == 0, strdup(text + indent)};
}

FILE *source(const char *path)
{
    const char *root = getenv("SQLOCK_SOURCE_DIR");
    char whole[4096];
    snprintf(whole, sizeof whole, "%s/%s", root != NULL && *root != '\0' ? root : ".", path);
    return fopen(whole, "r");
}

static void read_races(const char *subject)
{
    static char file[64];
    char text[512];
    FILE *f = NULL;
    snprintf(file, sizeof file, "tests/races/%s.races", subject);
    f = source(file);
    assert(f != NULL);
    for (int at = 1; fgets(text, sizeof text, f) != NULL; at++) {
        assert(strchr(text, '\n') != NULL);
        take_line(at, text);
    }
    fclose(f);
    for (int i = 0; i < n_lines; i++) {
        const char *known = " define race on ours wrong with steps ";
        size_t len = strcspn(lines[i].text, " :");
        if (lines[i].heading && memmem(known, strlen(known), lines[i].text, len) == NULL)
            printf("%s:%d: what is %s?\n", file, lines[i].at, lines[i].text), abort();
        if (lines[i].heading && strncmp(lines[i].text, "race ", 5) == 0) {
            assert(n_races < RACES_MOST);
            races[n_races++] = (struct race){file, lines, lines + i, i, 0};
        }
        if (n_races > 0)
            races[n_races - 1].n_lines++;
        if (n_races > 1)
            races[n_races - 1].n_defines = races[0].n_defines;
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

struct job {
    const struct database *db;
    const struct race *race;
    char name[160];
};

static int job_begin(void **state)
{
    struct job *job = *state;
    bench_begin(job->db);
    return 0;
}

static void job_run(void **state)
{
    struct job *job = *state;
    play(job->race);
}

static int job_end(void **state)
{
    (void)state;
    bench_end();
    return 0;
}

static int run_on(const struct database *db)
{
    static struct job jobs[COUNT(races)];
    struct CMUnitTest units[COUNT(jobs)];
    size_t n_units = 0;
    char group[64];
    int code = 0;
    for (int i = 0; i < n_races; i++) {
        struct job *job = &jobs[n_units];
        if (!race_is_on(&races[i], db->name, db->mode))
            continue;
        *job = (struct job){db, &races[i], ""};
        snprintf(job->name, sizeof job->name, "test_%s_%s",
                 races[i].lines[0].text + strlen("race "), db->mode);
        units[n_units++] = (struct CMUnitTest){job->name, job_run, job_begin, job_end, job};
    }
    if (n_units == 0)
        return 0;
    if (db->server != NULL && test_server_is_missing(db->server, &code))
        return code;
    snprintf(group, sizeof group, "races on %s", db->mode);
    return _cmocka_run_group_tests(group, units, n_units, NULL, NULL);
}

int run_races(const char *subject)
{
    const struct database *all[] = {&sqlite_wal, &sqlite_rollback, &postgres, &mysql};
    int failed = 0;
    read_races(subject);
    for (size_t i = 0; i < COUNT(all); i++)
        if (all[i]->open != NULL && test_wants(all[i]->driver))
            failed += run_on(all[i]);
    return failed;
}
