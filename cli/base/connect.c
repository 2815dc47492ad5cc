#include <sqlock/migrate.h>

#include "cli/base/connect.h"

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/base/driver.h"
#include "cli/base/say.h"
#include "cli/base/url.h"
#include "cli/cli.h"

int exit_of(int code)
{
    switch (code) {
    case 0:
        return EXIT_DONE;
    case SQLOCK_EBUSY:
    case SQLOCK_EGUARDED:
        return EXIT_BUSY;
    case SQLOCK_ELOST:
        return EXIT_NO;
    case SQLOCK_EUNSURE:
        return EXIT_UNSURE;
    case SQLOCK_EDEADLOCK:
        return EXIT_DEADLOCK;
    case SQLOCK_EINVAL:
        return EXIT_USAGE;
    case SQLOCK_ETIMEOUT:
    case SQLOCK_EUNREACH:
        return EXIT_UNREACHABLE;
    case SQLOCK_EDENIED:
        return EXIT_DENIED;
    case SQLOCK_ECORRUPT:
        return EXIT_DATA;
    case SQLOCK_ESCHEMA:
    case SQLOCK_EREADONLY:
    case SQLOCK_EREFUSED:
        return EXIT_SETUP;
    case SQLOCK_EFULL:
        return EXIT_IO;
    default:
        return EXIT_INTERNAL;
    }
}

void error_for_shell(sqlock_error *err)
{
    static const char *const words[][2] = {
        {"SQLOCK_OPEN_ACCEPT_WEAK", "--accept-weak"},
        {"SQLOCK_OPEN_UNPREPARED", "--unprepared"},
        {"SQLOCK_OPEN_LIFT_TOKENS", "--lift-tokens"},
        {"the option grace_ms", "--grace"},
        {": a baseline makes one", "; run 'sqlock migrate baseline'"},
        {": run the migrations", "; run 'sqlock migrate up'"},
        {" (SQLOCK_MIGRATE_DOWN migrates down)", "; see 'sqlock migrate down'"},
        {" (SQLOCK_MIGRATE_HELD migrates down all the same)", "; release or break them first"}};
    const size_t size = sizeof err->text;
    char *text = err->text, *at, rest[sizeof err->text];

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        while ((at = strstr(text, words[i][0])) != NULL) {
            snprintf(rest, sizeof rest, "%s", at + strlen(words[i][0]));
            snprintf(at, size - (size_t)(at - text), "%s%s", words[i][1], rest);
        }
}

/* A table is absent, or too old for this request; the database and its schema (3F000) exist. */
static bool up_would_help(int code, const sqlock_error *err)
{
    return code == SQLOCK_ESCHEMA && err->sqlstate[0] != '\0' &&
           strcmp(err->sqlstate, "3D000") != 0 && strcmp(err->sqlstate, "3F000") != 0;
}

/* The library has one code for a schema and for a row that a newer version has written. */
static bool is_row_unknown(int code, const sqlock_error *err)
{
    return code == SQLOCK_ESCHEMA && strstr(err->text, "row is of a kind") != NULL;
}

bool setup_is_wrong(int code, const sqlock_error *err)
{
    return (code == SQLOCK_EINVAL && strstr(err->text, "the URL") != NULL) ||
           strcmp(err->sqlstate, "3D000") == 0;
}

int fail_with(int code, const sqlock_error *err)
{
    sqlock_error shown = *err;

    error_for_shell(&shown);
    say_code(SAY_ERROR, sqlock_code_name(code), "%s",
             shown.text[0] != '\0' ? shown.text : sqlock_strerror(code));
    if (up_would_help(code, err))
        say(SAY_NOTE, "run 'sqlock migrate up' to bring the tables to this version");
    if (setup_is_wrong(code, err))
        return EXIT_SETUP;
    if (code == SQLOCK_EDB && strcmp(err->sqlstate, "55P03") == 0) /* SQLite's file is locked */
        return EXIT_BUSY;
    return is_row_unknown(code, err) ? EXIT_DATA : exit_of(code);
}

int database_find(struct cli *cli, struct database *out)
{
    int rc = url_find(cli);

    sqlock_open_opts_init(&out->opts);
    out->opts.schema = cli->schema;
    out->opts.prefix = cli->prefix;
    out->opts.ns = cli->ns;
    out->opts.flags = cli->flags;
    out->opts.grace_ms = cli->grace_ms;
    return rc != 0 ? rc : driver_for_url(cli->url, &out->driver);
}

/* Only if the server was refused: then the message has said that its clock is wrong. */
static int lift_tokens(const struct cli *cli, const struct database *db, sqlock **out_m,
                       sqlock_error *err)
{
    sqlock_open_opts opts = db->opts;

    say(SAY_ERROR,
        "%.*s; lifting them by 2^32, which is 71 minutes of a clock: set the server's clock",
        (int)(strstr(err->text, " (SQLOCK_") - err->text), err->text);
    opts.flags |= SQLOCK_OPEN_LIFT_TOKENS;
    return sqlock_open(db->driver, cli->url, &opts, out_m, err);
}

/* A file of the user's own may be migrated without a command. */
static int open_once(struct cli *cli, const struct database *db, sqlock **out_m, sqlock_error *err)
{
    int rc = 0;

    if (cli->local)
        rc = sqlock_migrate(db->driver, cli->url, &db->opts, NULL, err);
    if (rc == 0)
        rc = sqlock_open(db->driver, cli->url, &db->opts, out_m, err);
    if (rc == SQLOCK_EREFUSED && cli->lift_tokens && strstr(err->text, " (SQLOCK_OPEN_LIFT_TOKENS"))
        rc = lift_tokens(cli, db, out_m, err);
    return rc;
}

/* A server that is read-only, or a replica, may be so in the middle of a failover. */
static bool may_come_back(int code, const sqlock_error *err)
{
    if (code == SQLOCK_EREADONLY)
        return (err->flags & SQLOCK_RETRY) != 0;
    return (code == SQLOCK_EUNREACH || code == SQLOCK_ETIMEOUT) && !setup_is_wrong(code, err);
}

/* *err is of the last attempt; code 0: the library did not refuse. */
static int open_patiently(struct cli *cli, int32_t pid, const char *label, sqlock **out_m,
                          sqlock_error *err)
{
    struct database db;
    int64_t end;
    int rc;

    *err = (sqlock_error){0};
    if ((rc = database_find(cli, &db)) != 0)
        return rc;
    db.opts.label = label;
    db.opts.pid = pid;
    end = sqlock_now_us() + (int64_t)cli->wait_db_ms * 1000;
    for (int pause_ms = 100;; pause_ms = pause_ms < 2000 ? pause_ms * 2 : pause_ms) {
        sqlock_error shown;
        int64_t left_ms;

        if ((rc = open_once(cli, &db, out_m, err)) == 0) {
            err->code = 0;
            return 0;
        }
        left_ms = (end - sqlock_now_us()) / 1000;
        if (!may_come_back(rc, err) || left_ms <= 0) {
            err->code = rc;
            return exit_of(rc);
        }
        shown = *err;
        error_for_shell(&shown);
        say(SAY_MORE, "%s; trying again", shown.text);
        poll(NULL, 0, left_ms < pause_ms ? (int)left_ms : pause_ms);
    }
}

int database_open_for(struct cli *cli, int32_t pid, const char *label, sqlock **out_m)
{
    sqlock_error err;
    int rc = open_patiently(cli, pid, label, out_m, &err);

    return err.code != 0 ? fail_with(err.code, &err) : rc;
}

int database_open(struct cli *cli, const char *label, sqlock **out_m)
{
    return database_open_for(cli, 0, label, out_m);
}

int database_try(struct cli *cli, const char *label, sqlock **out_m, sqlock_error *err)
{
    return open_patiently(cli, 0, label, out_m, err);
}
