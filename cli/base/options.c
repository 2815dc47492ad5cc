#include "cli/base/options.h"

#include <sqlock/sqlock.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/say.h"
#include "cli/base/text.h"
#include "cli/base/url.h"
#include "cli/cli.h"

enum {
    URL_FILE = OPTION_LONG,
    LOCAL,
    SCHEMA,
    PREFIX,
    NAMESPACE,
    WAIT_DB,
    ACCEPT_WEAK,
    LIFT_TOKENS,
    UNPREPARED,
    DURABLE_RELEASE,
    JSON
};

const struct option_spec global_options[] = {
    {'U', "url", "URL", "the database; default: SQLOCK_URL, then DATABASE_URL"},
    {URL_FILE, "url-file", "FILE", "read the URL from the first line of this file"},
    {LOCAL, "local", NULL, "use a SQLite file of your own, on this machine only"},
    {SCHEMA, "schema", "S", "the tables' schema (MySQL: database); or SQLOCK_SCHEMA"},
    {PREFIX, "prefix", "P", "first part of table names; or SQLOCK_PREFIX"},
    {NAMESPACE, "namespace", "NS", "namespace for lock names; or SQLOCK_NAMESPACE"},
    {WAIT_DB, "wait-db", "DUR", "how long to try again to reach it; one try: up to 5s"},
    {UNPREPARED, "unprepared", NULL, "PostgreSQL: for poolers in transaction mode"},
    {ACCEPT_WEAK, "accept-weak", NULL, "use a server that may lose commits in a crash"},
    {DURABLE_RELEASE, "durable-release", NULL,
     "PostgreSQL, SQLite in WAL mode: a release waits too"},
    {LIFT_TOKENS, "lift-tokens", NULL, "add 2^32 to tokens if the server's clock is behind"},
    {JSON, "json", NULL, "print data and messages as JSON"},
    {'q', "quiet", NULL, "print only errors, and the requested data"},
    {'v', "verbose", NULL, "print more messages"},
    {'h', "help", NULL, "print help"},
    {0, NULL, NULL, NULL},
};

/* ---- reading --------------------------------------------------------------------------------- */

static const struct option_spec *spec_by_key(const struct option_spec *specs, int key)
{
    for (; specs != NULL && specs->key != 0; specs++)
        if (specs->key == key)
            return specs;
    return NULL;
}

/* Compare the whole name: a prefix may belong to another option, now or in a later version. */
static const struct option_spec *spec_by_name(const struct option_spec *specs, const char *name,
                                              size_t len)
{
    for (; specs != NULL && specs->key != 0; specs++)
        if (specs->name != NULL && strlen(specs->name) == len &&
            memcmp(specs->name, name, len) == 0)
            return specs;
    return NULL;
}

void options_begin(struct options *o, struct cli *cli, const struct option_spec *own, int stop,
                   int argc, char **argv)
{
    *o =
        (struct options){.cli = cli, .own = own, .stop = stop, .argc = argc, .argv = argv, .at = 1};
}

int options_refuse(const struct cli *cli, const char *format, ...)
{
    /* After `sqlock help nonsense`, the help of help does not help. */
    const char *name =
        cli->command != NULL && cli->command != &command_help ? cli->command->name : NULL;
    char text[512], *url;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    /* The user may have typed a URL in the wrong place, with a password. */
    if ((url = strstr(text, "://")) != NULL)
        *url = '\0';
    say(SAY_ERROR, "%s%s; see 'sqlock help%s%s'", text, url != NULL ? "://..." : "",
        name != NULL ? " " : "", name != NULL ? name : "");
    return EXIT_USAGE;
}

static bool take_global(struct options *o, int key, char *value)
{
    struct cli *cli = o->cli;

    switch (key) {
    case 'U':
        return url_from_argument(cli, value);
    case URL_FILE:
        cli->url_file = value;
        break;
    case LOCAL:
        cli->local = true;
        break;
    case SCHEMA:
        cli->schema = value;
        break;
    case PREFIX:
        cli->prefix = value;
        break;
    case NAMESPACE:
        cli->ns = value;
        break;
    case WAIT_DB:
        o->value = value;
        return options_duration(o, &cli->wait_db_ms);
    case ACCEPT_WEAK:
        cli->flags |= SQLOCK_OPEN_ACCEPT_WEAK;
        break;
    case LIFT_TOKENS:
        cli->lift_tokens = true;
        break;
    case UNPREPARED:
        cli->flags |= SQLOCK_OPEN_UNPREPARED;
        break;
    case DURABLE_RELEASE:
        cli->flags |= SQLOCK_OPEN_DURABLE_RELEASE;
        break;
    case JSON:
        cli->json = true;
        say_as_json();
        break;
    case 'h':
        exit(help_print(cli->command));
    default:
        say_more(key == 'v' ? 1 : -1);
    }
    return true;
}

/* "--name", "--name=value". */
static const struct option_spec *read_word(struct options *o, char *word)
{
    size_t len = strcspn(word, "=");
    const struct option_spec *spec = spec_by_name(o->own, word, len);

    if (spec == NULL)
        spec = spec_by_name(global_options, word, len);
    o->rest = word[len] == '=' ? word + len + 1 : NULL;
    if (spec == NULL)
        options_refuse(o->cli, "unknown option --%.*s", (int)len, word);
    return spec;
}

/* The next of several letters in one word: "-nE0". */
static const struct option_spec *read_letter(struct options *o)
{
    int letter = (unsigned char)*o->letters++;
    const struct option_spec *spec = spec_by_key(o->own, letter);

    if (spec == NULL)
        spec = spec_by_key(global_options, letter);
    o->rest = NULL;
    if (spec == NULL)
        options_refuse(o->cli, "unknown option -%c", letter);
    else if (spec->value != NULL && *o->letters != '\0') {
        o->rest = o->letters;
        o->letters = "";
    }
    return spec;
}

enum { SPEC_TEXT_MAX = 32 };

/* "--name" or "-n". */
static const char *spec_text(const struct option_spec *spec, char text[static SPEC_TEXT_MAX])
{
    if (spec->name != NULL)
        snprintf(text, SPEC_TEXT_MAX, "--%s", spec->name);
    else
        snprintf(text, SPEC_TEXT_MAX, "-%c", spec->key);
    return text;
}

/* Name the option without its value, which may be a URL with a password. */
static void spec_refuse(const struct options *o, const struct option_spec *spec, const char *what)
{
    char text[SPEC_TEXT_MAX];

    options_refuse(o->cli, "%s%s", spec_text(spec, text), what);
}

/* Its value, if it takes one: the rest of the word, or the next word. */
static bool read_value(struct options *o, const struct option_spec *spec)
{
    if (spec->help == NULL)
        spec_refuse(o, spec, ": not available in this version yet");
    else if (spec->value == NULL && o->rest != NULL)
        spec_refuse(o, spec, " takes no value");
    else if (spec->value != NULL && spec->value[0] != '[' && o->rest == NULL && o->at == o->argc)
        spec_refuse(o, spec, " needs a value");
    else {
        if (spec->value != NULL && spec->value[0] != '[' && o->rest == NULL)
            o->rest = o->argv[o->at++];
        o->spec = spec;
        o->value = o->rest;
        return true;
    }
    return false;
}

/* Operands were gathered at the front. Put them in front of the words that were not read, in their
 * order. */
static int options_end(struct options *o)
{
    memmove(o->argv + o->at - o->n, o->argv + 1, (size_t)o->n * sizeof *o->argv);
    o->operands = o->argv + o->at - o->n;
    o->n += o->argc - o->at;
    return o->wrong ? OPTIONS_WRONG : OPTIONS_END;
}

int options_next(struct options *o)
{
    const struct option_spec *spec;

    for (;;) {
        if (o->letters != NULL && *o->letters != '\0') {
            spec = read_letter(o);
        } else {
            char *word = o->at < o->argc ? o->argv[o->at] : NULL;

            if (word == NULL || o->n == o->stop)
                return options_end(o);
            o->at++;
            if (strcmp(word, "--") == 0)
                return options_end(o);
            if (word[0] != '-' || word[1] == '\0') {
                o->argv[1 + o->n++] = word;
                continue;
            }
            if (word[1] != '-') {
                o->letters = word + 1;
                continue;
            }
            spec = read_word(o, word + 2);
        }
        if (spec == NULL || !read_value(o, spec))
            return OPTIONS_WRONG;
        /* A key may stand in both tables: the commands number theirs for themselves. */
        if (spec_by_key(o->own, spec->key) == spec)
            return spec->key;
        if (!take_global(o, spec->key, o->rest))
            return OPTIONS_WRONG;
    }
}

static bool read_duration(struct options *o, int64_t max_ms, int64_t *out_ms)
{
    bool valid = text_duration(o->value, out_ms);
    char option[SPEC_TEXT_MAX];

    if (valid && *out_ms <= max_ms)
        return true;
    o->wrong = true;
    if (valid)
        options_refuse(o->cli, "%s: duration \"%s\" is too long (at most %lldd)",
                       spec_text(o->spec, option), o->value, (long long)(max_ms / 86400000));
    else
        options_refuse(o->cli, "%s: invalid duration \"%s\" (use 500ms, 30s, 5m, 1h30m, 1d, 2w)",
                       spec_text(o->spec, option), o->value);
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

bool options_period(struct options *o, int64_t *out_ms)
{
    char option[SPEC_TEXT_MAX];

    if (!options_long_duration(o, out_ms))
        return false;
    if (*out_ms > 0)
        return true;
    o->wrong = true;
    options_refuse(o->cli, "%s: a period needs a length (use 30s, 1h, 1d)",
                   spec_text(o->spec, option));
    return false;
}

bool options_number(struct options *o, int64_t min, int64_t max, int64_t *out)
{
    char option[SPEC_TEXT_MAX];

    if (text_number(o->value, min, max, out))
        return true;
    o->wrong = true;
    options_refuse(o->cli, "%s: invalid number \"%s\" (use %lld to %lld)",
                   spec_text(o->spec, option), o->value, (long long)min, (long long)max);
    return false;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_one(FILE *to, const struct option_spec *spec)
{
    char left[64] = "";
    size_t used = 0;

    if (spec->key < OPTION_LONG)
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
