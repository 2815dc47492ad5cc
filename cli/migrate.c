/* sqlock migrate: the schema, there and back. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <sqlock/migrate.h>

#include "cli/base/connect.h"
#include "cli/base/driver.h"
#include "cli/base/output.h"
#include "cli/base/say.h"
#include "cli/base/text.h"
#include "cli/cli.h"

enum { TO = OPTION_LONG, FROM, DRY_RUN, YES, EXIT_CODE, DRIVER, FORMAT };

static const struct option_spec options[] = {
    {TO, "to", "V", "up, down, sql: to this version; default: the newest"},
    {FROM, "from", "V", "sql: from this version; default: 0"},
    {DRY_RUN, "dry-run", NULL, "up, down: only count"},
    {YES, "yes", NULL, "down: confirm that newer versions' data is deleted"},
    {EXIT_CODE, "exit-code", NULL, "status: exit with 1 if migrations are pending"},
    {DRIVER, "driver", "D", "sql: postgres, sqlite or mysql"},
    {FORMAT, "format", "plain", "sql: for the database's own client"},
    {'o', NULL, "DIR", NULL},
    {0, NULL, NULL, NULL},
};

struct job {
    struct cli *cli;
    const char *operand;
    int to, from;
    bool has_to, dry_run, yes, exit_code;
    const char *driver;
    struct database db; /* not of sql */
    int pending;        /* of status */
    json_t *rows;
    bool has_head; /* of status' table */
};

/* ---- up, down -------------------------------------------------------------------------------- */

/* The version is the newest, but what it made may be gone or changed since. */
static int migrate_check(const struct job *job)
{
    sqlock_error err = {0};
    int rc = sqlock_migration_verify(job->db.driver, job->cli->url, &job->db.opts, &err);

    if (rc != SQLOCK_ESCHEMA)
        return 0;
    if (strstr(err.text, "there is no table") != NULL)
        return fail_with(rc, &err);
    say(SAY_NOTE, "'sqlock migrate verify' fails: %s", err.text);
    return 0;
}

static int migrate_schema(struct job *job, unsigned flags)
{
    sqlock_error err = {0};
    int steps = 0, rc;

    flags |= job->dry_run ? SQLOCK_MIGRATE_DRY_RUN : 0;
    rc = sqlock_migrate_to(job->db.driver, job->cli->url, &job->db.opts, job->to, flags, &steps,
                           &err);
    if (rc != 0)
        return fail_with(rc, &err);
    if (steps == 0 && job->to == SQLOCK_SCHEMA_LATEST && !(flags & SQLOCK_MIGRATE_DOWN) &&
        (rc = migrate_check(job)) != 0)
        return rc;
    if (job->cli->json)
        return output_json(json_pack("{s:i, s:b}", "steps", steps, "dry_run", job->dry_run));
    if (say_is_quiet())
        return 0;
    printf("%d %s %s%s\n", steps, steps == 1 ? "migration" : "migrations",
           job->dry_run ? "would be " : "", flags & SQLOCK_MIGRATE_DOWN ? "undone" : "applied");
    return output_end();
}

static int migrate_up(struct job *job)
{
    return migrate_schema(job, 0);
}

static int migrate_down(struct job *job)
{
    if (!job->has_to || !(job->yes || job->dry_run))
        return options_refuse(job->cli, "migrate down deletes data: --to V and --yes are needed");
    return migrate_schema(job, SQLOCK_MIGRATE_DOWN);
}

/* ---- status, verify, baseline ---------------------------------------------------------------- */

static json_t *text_or_null(const char *text)
{
    return text != NULL ? json_text(text, strlen(text)) : json_null();
}

/* Before the first row: a status that fails prints no table. */
static void print_head(struct job *job)
{
    if (!job->has_head)
        printf("%7s  %-24s %-10s  %s\n", "VERSION", "NAME", "STATE", "APPLIED");
    job->has_head = true;
}

static void print_step(const sqlock_migration_info *info)
{
    char when[TEXT_MOMENT];

    printf("%7d  %-24s %-10s  %s\n", info->version, info->name != NULL ? info->name : "?",
           sqlock_migration_state_name(info->state),
           info->applied_us > 0 ? text_moment(when, info->applied_us / 1000000) : "-");
}

static int each_step(const sqlock_migration_info *info, void *user)
{
    struct job *job = user;

    if (info->state == SQLOCK_MIGRATION_PENDING)
        job->pending++;
    if (!job->cli->json) {
        print_head(job);
        print_step(info);
        return 0;
    }
    return json_array_append_new(
        job->rows,
        json_pack("{s:i, s:o, s:s, s:o, s:o, s:o}", "version", info->version, "name",
                  text_or_null(info->name), "state", sqlock_migration_state_name(info->state),
                  "applied_us", info->applied_us > 0 ? json_integer(info->applied_us) : json_null(),
                  "checksum", text_or_null(info->checksum), "recorded",
                  text_or_null(info->recorded)));
}

static int migrate_status(struct job *job)
{
    sqlock_error err = {0};
    int rc;

    if (job->cli->json)
        job->rows = json_array();
    rc =
        sqlock_migration_status(job->db.driver, job->cli->url, &job->db.opts, each_step, job, &err);
    if (rc != 0 && err.code == rc) {
        json_decref(job->rows);
        return fail_with(rc, &err);
    }
    rc = job->cli->json ? output_json(job->rows) : output_end();
    return rc == 0 && job->exit_code && job->pending > 0 ? EXIT_NO : rc;
}

static int note_newest(const sqlock_migration_info *info, void *user)
{
    *(int *)user = info->version;
    return 0;
}

static int migrate_verify(struct job *job)
{
    sqlock_error err = {0};
    int version = 0;
    int rc = sqlock_migration_verify(job->db.driver, job->cli->url, &job->db.opts, &err);

    if (rc != 0)
        return fail_with(rc, &err);
    rc = sqlock_migration_status(job->db.driver, job->cli->url, &job->db.opts, note_newest,
                                 &version, &err);
    if (rc != 0)
        return fail_with(rc, &err);
    if (job->cli->json)
        return output_json(json_pack("{s:b, s:i}", "verified", 1, "version", version));
    if (say_is_quiet())
        return 0;
    printf("schema OK (version %d)\n", version);
    return output_end();
}

static int migrate_baseline(struct job *job)
{
    sqlock_error err = {0};
    int64_t version;
    int rc;

    if (!text_number(job->operand, 1, INT_MAX, &version))
        return options_refuse(job->cli, "invalid version \"%s\"", job->operand);
    rc =
        sqlock_migration_baseline(job->db.driver, job->cli->url, &job->db.opts, (int)version, &err);
    if (rc != 0)
        return fail_with(rc, &err);
    if (job->cli->json)
        return output_json(json_pack("{s:i}", "recorded", (int)version));
    if (say_is_quiet())
        return 0;
    printf("recorded as applied: all migrations up to version %d\n", (int)version);
    return output_end();
}

/* ---- sql ------------------------------------------------------------------------------------- */

static int write_text(const char *text, size_t len, void *user)
{
    (void)user;
    return fwrite(text, 1, len, stdout) == len ? 0 : 1;
}

/* Offline: it needs no URL. */
static int migrate_sql(struct job *job)
{
    const sqlock_driver *driver;
    sqlock_open_opts opts = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err = {0};
    int rc;

    if (job->driver == NULL)
        return options_refuse(job->cli, "migrate sql needs --driver D");
    if ((rc = driver_by_name(job->driver, &driver)) != 0)
        return rc;
    opts.schema = job->cli->schema;
    opts.prefix = job->cli->prefix;
    rc = sqlock_migration_sql(driver, &opts, job->from, job->to, 0, write_text, NULL, &err);
    return rc < 0 ? fail_with(rc, &err) : output_end();
}

/* ---- which ----------------------------------------------------------------------------------- */

static const struct step {
    const char *name;
    const char *takes; /* its options, by name, each followed by a space */
    int operands;
    bool offline;
    int (*run)(struct job *job);
} steps[] = {
    {"up", "to dry-run ", 0, false, migrate_up},
    {"down", "to dry-run yes ", 0, false, migrate_down},
    {"status", "exit-code ", 0, false, migrate_status},
    {"verify", "", 0, false, migrate_verify},
    {"baseline", "", 1, false, migrate_baseline},
    {"sql", "to from driver format ", 0, true, migrate_sql},
};

static const struct step *find_step(const char *name)
{
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (strcmp(steps[i].name, name) == 0)
            return &steps[i];
    return NULL;
}

static bool step_takes(const struct step *step, const struct option_spec *spec)
{
    char word[32];

    snprintf(word, sizeof word, "%s ", spec->name);
    return strstr(step->takes, word) != NULL;
}

static bool take_option(struct options *o, int key, struct job *job)
{
    int64_t version = 0;

    switch (key) {
    case TO:
        job->has_to = options_number(o, 0, INT_MAX, &version);
        job->to = (int)version;
        return job->has_to;
    case FROM:
        if (!options_number(o, 0, INT_MAX, &version))
            return false;
        job->from = (int)version;
        return true;
    case DRY_RUN:
        return job->dry_run = true;
    case YES:
        return job->yes = true;
    case EXIT_CODE:
        return job->exit_code = true;
    case DRIVER:
        job->driver = o->value;
        return true;
    default:
        if (strcmp(o->value, "plain") == 0)
            return true;
        options_refuse(o->cli, "--format %s: not available in this version yet", o->value);
        return false;
    }
}

static int read_step(struct cli *cli, const struct options *o, const struct step **out)
{
    if (o->n == 0)
        return options_refuse(cli, "migrate needs one of: up, down, status, verify, baseline, sql");
    if ((*out = find_step(o->operands[0])) != NULL)
        return 0;
    if (strcmp(o->operands[0], "grants") == 0)
        return options_refuse(cli, "migrate grants: not available in this version yet");
    return options_refuse(cli, "unknown command \"migrate %s\"", o->operands[0]);
}

/* Options may stand before the step's name, so check them when all have been read. */
static int check_step(struct cli *cli, const struct options *o, unsigned seen,
                      const struct step *step)
{
    for (const struct option_spec *spec = options; spec->key != 0; spec++)
        if (spec->key >= OPTION_LONG && (seen & 1u << (spec->key - OPTION_LONG)) &&
            !step_takes(step, spec))
            return options_refuse(cli, "migrate %s does not take --%s", step->name, spec->name);
    if (o->n - 1 != step->operands)
        return options_refuse(cli, "migrate %s takes %s", step->name,
                              step->operands > 0 ? "one version" : "no argument");
    return 0;
}

static int read_options(struct job *job, int argc, char **argv, const struct step **out)
{
    struct options o;
    unsigned seen = 0;
    int key, rc;

    options_begin(&o, job->cli, options, OPTIONS_ANYWHERE, argc, argv);
    while ((key = options_next(&o)) >= 0) {
        seen |= 1u << (key - OPTION_LONG);
        if (!take_option(&o, key, job))
            return EXIT_USAGE;
    }
    if (key == OPTIONS_WRONG)
        return EXIT_USAGE;
    if ((rc = read_step(job->cli, &o, out)) == 0)
        rc = check_step(job->cli, &o, seen, *out);
    job->operand = o.n > 0 ? o.operands[1] : NULL;
    return rc;
}

static int migrate_run(struct cli *cli, int argc, char **argv)
{
    struct job job = {.cli = cli, .to = SQLOCK_SCHEMA_LATEST};
    const struct step *step;
    int rc;

    if ((rc = read_options(&job, argc, argv, &step)) != 0)
        return rc;
    if (!step->offline && (rc = database_find(cli, &job.db)) != 0)
        return rc;
    return step->run(&job);
}

const struct command command_migrate = {
    .name = "migrate",
    .synopsis = "up [--to V] [--dry-run]\ndown --to V --yes [--dry-run]\nstatus [--exit-code]\n"
                "verify\nbaseline V\nsql --driver D [--from V] [--to V] [--format plain]",
    .summary = "create, upgrade or check the tables",
    .help = "up        create or upgrade the tables; only --local does this by itself\n"
            "down      go back to an older version, and delete what newer ones stored\n"
            "status    list the migrations\n"
            "verify    check that the tables are as the migrations make them\n"
            "baseline  record migrations up to V as applied, if another tool has run them\n"
            "sql       print migrations for the database's own client; needs no database\n",
    .options = options,
    .run = migrate_run,
};
