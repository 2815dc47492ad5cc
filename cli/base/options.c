#include "cli/base/options.h"

#include <getopt.h>
#include <sqlock/sqlock.h>
#include <stdarg.h>
#include <string.h>

#include "cli/base/say.h"
#include "cli/base/text.h"
#include "cli/base/url.h"
#include "cli/cli.h"

enum {
    SPECS_MAX = 48,
    URL_FILE = OPTION_LONG - 64,
    LOCAL,
    SCHEMA,
    PREFIX,
    NAMESPACE,
    WAIT_DB,
    ACCEPT_WEAK,
    UNPREPARED,
    JSON
};

const struct option_spec global_options[] = {
    {'U', "url", "URL", "the database; else SQLOCK_URL, else DATABASE_URL"},
    {URL_FILE, "url-file", "FILE", "read the URL from this file's first line"},
    {LOCAL, "local", NULL, "a SQLite file of this user's, for one machine only"},
    {SCHEMA, "schema", "S", "the schema that holds the tables (PostgreSQL)"},
    {PREFIX, "prefix", "P", "what table names begin with: sqlock_"},
    {NAMESPACE, "namespace", "NS", "names of locks count within it: empty"},
    {WAIT_DB, "wait-db", "DUR", "try so long to reach the database: 0"},
    {UNPREPARED, "unprepared", NULL, "for poolers in transaction mode (PostgreSQL)"},
    {ACCEPT_WEAK, "accept-weak", NULL, "use a server that may forget commits in a crash"},
    {JSON, "json", NULL, "write data as JSON"},
    {'q', NULL, NULL, "tell errors only, and data that was asked for"},
    {'v', NULL, NULL, "tell more"},
    {0, NULL, NULL, NULL},
};

/* ---- reading --------------------------------------------------------------------------------- */

static const struct option_spec *find(const struct option_spec *specs, int key)
{
    for (; specs != NULL && specs->key != 0; specs++)
        if (specs->key == key)
            return specs;
    return NULL;
}

/* What getopt_long wants of one table. */
static void add_table(const struct option_spec *specs, char *letters, struct option *longs,
                      size_t *n)
{
    char *to = letters + strlen(letters);

    for (; specs != NULL && specs->key != 0 && *n < SPECS_MAX; specs++) {
        const char *colons = specs->value == NULL ? "" : specs->value[0] == '[' ? "::" : ":";

        if (specs->key < OPTION_LONG - 64) {
            *to++ = (char)specs->key;
            to = stpcpy(to, colons);
        }
        if (specs->name != NULL)
            longs[(*n)++] = (struct option){specs->name, (int)strlen(colons), NULL, specs->key};
    }
    *to = '\0';
    longs[*n] = (struct option){NULL, 0, NULL, 0};
}

void options_begin(struct options *o, struct cli *cli, const struct option_spec *own, int argc,
                   char **argv)
{
    *o = (struct options){.cli = cli, .own = own, .argc = argc, .argv = argv};
    optind = 0; /* from the start, whatever was read before */
    opterr = 0;
}

void options_resume(struct options *o, int at)
{
    /* getopt skips argv[0]. */
    o->argc -= at - 1;
    o->argv += at - 1;
    optind = 0;
}

int options_refuse(const struct cli *cli, const char *format, ...)
{
    /* `sqlock help nonsense` is not helped by the help of help. */
    const char *name =
        cli->command != NULL && cli->command != &command_help ? cli->command->name : NULL;
    char text[512], *url;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    /* What was typed may be a URL in the wrong place, with a password in it. */
    if ((url = strstr(text, "://")) != NULL)
        *url = '\0';
    say(SAY_ERROR, "%s%s; see `sqlock help%s%s`", text, url != NULL ? "://..." : "",
        name != NULL ? " " : "", name != NULL ? name : "");
    return EXIT_USAGE;
}

/* As the user wrote it. A value is left away: it may be a URL with a password. */
static int tell_wrong(struct options *o, int key)
{
    const char *word = o->argv[optind > 0 ? optind - 1 : 0];
    int len = (int)strcspn(word, "=");

    if (strncmp(word, "--", 2) != 0 || optopt != 0) {
        const struct option_spec *spec = find(o->own, optopt);

        spec = spec != NULL ? spec : find(global_options, optopt);
        if (spec != NULL && spec->key >= OPTION_LONG - 64)
            options_refuse(o->cli, key == ':' ? "--%s needs a value" : "--%s takes no value",
                           spec->name);
        else
            options_refuse(o->cli, key == ':' ? "-%c needs a value" : "there is no option -%c",
                           optopt);
    } else {
        options_refuse(o->cli, "there is no option %.*s, or more than one begins so", len, word);
    }
    return OPTIONS_WRONG;
}

static bool take_global(struct options *o, int key)
{
    struct cli *cli = o->cli;

    switch (key) {
    case 'U':
        return url_from_argument(cli, optarg);
    case URL_FILE:
        cli->url_file = optarg;
        break;
    case LOCAL:
        cli->local = true;
        break;
    case SCHEMA:
        cli->schema = optarg;
        break;
    case PREFIX:
        cli->prefix = optarg;
        break;
    case NAMESPACE:
        cli->ns = optarg;
        break;
    case WAIT_DB:
        o->value = optarg;
        return options_duration(o, &cli->wait_db_ms);
    case ACCEPT_WEAK:
        cli->flags |= SQLOCK_OPEN_ACCEPT_WEAK;
        break;
    case UNPREPARED:
        cli->flags |= SQLOCK_OPEN_UNPREPARED;
        break;
    case JSON:
        cli->json = true;
        break;
    default:
        say_more(key == 'v' ? 1 : -1);
    }
    return true;
}

int options_next(struct options *o)
{
    char letters[2 * SPECS_MAX] = "+:";
    struct option longs[SPECS_MAX + 1];
    const struct option_spec *spec;
    size_t n = 0;
    int key;

    add_table(o->own, letters, longs, &n);
    add_table(global_options, letters, longs, &n);
    for (;;) {
        key = getopt_long(o->argc, o->argv, letters, longs, NULL);
        if (key == -1)
            break;
        if (key == '?' || key == ':')
            return tell_wrong(o, key);
        if ((spec = find(o->own, key)) != NULL) {
            if (spec->help == NULL) {
                options_refuse(o->cli, "%s%.*s%s: this version does not have it yet",
                               spec->name != NULL ? "--" : "-", spec->name != NULL ? 0 : 1,
                               spec->name != NULL ? "" : (const char[]){(char)key, '\0'},
                               spec->name != NULL ? spec->name : "");
                return OPTIONS_WRONG;
            }
            o->value = optarg;
            return key;
        }
        if (!take_global(o, key))
            return OPTIONS_WRONG;
    }
    o->at = optind;
    return o->wrong ? OPTIONS_WRONG : OPTIONS_END;
}

static bool read_duration(struct options *o, int64_t max_ms, int64_t *out_ms)
{
    if (text_duration(o->value, out_ms) && *out_ms <= max_ms)
        return true;
    o->wrong = true;
    options_refuse(o->cli, "\"%s\" is no duration: 500ms 30s 5m 2h 1d, at most %lldd", o->value,
                   (long long)(max_ms / 86400000));
    return false;
}

bool options_duration(struct options *o, int32_t *out_ms)
{
    int64_t ms;

    if (!read_duration(o, INT32_MAX, &ms))
        return false;
    *out_ms = (int32_t)ms;
    return true;
}

bool options_long_duration(struct options *o, int64_t *out_ms)
{
    return read_duration(o, INT64_C(864000000000), out_ms);
}

bool options_number(struct options *o, int64_t min, int64_t max, int64_t *out)
{
    if (text_number(o->value, min, max, out))
        return true;
    o->wrong = true;
    options_refuse(o->cli, "\"%s\" is no number from %lld to %lld", o->value, (long long)min,
                   (long long)max);
    return false;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_one(FILE *to, const struct option_spec *spec)
{
    char left[64] = "";
    size_t used = 0;

    if (spec->key < OPTION_LONG - 64)
        used += (size_t)snprintf(left, sizeof left, "-%c%s", spec->key, spec->name ? ", " : "");
    else
        used += (size_t)snprintf(left, sizeof left, "    ");
    if (spec->name != NULL)
        used += (size_t)snprintf(left + used, sizeof left - used, "--%s", spec->name);
    if (spec->value != NULL && spec->value[0] == '[')
        snprintf(left + used, sizeof left - used, "[=%s", spec->value + 1);
    else if (spec->value != NULL)
        snprintf(left + used, sizeof left - used, " %s", spec->value);
    fprintf(to, "  %-23s %s\n", left, spec->help);
}

void options_print(FILE *to, const struct option_spec *specs)
{
    for (; specs != NULL && specs->key != 0; specs++)
        if (specs->help != NULL)
            print_one(to, specs);
}
