/* Options from tables: the same table is read by and printed by the help. Long ones are known by
 * their whole names only: getopt_long() takes a beginning for the whole, and `--wait 1`, which
 * flock(1) has, was `--wait-db 1`. The global options may stand before the command, among its
 * options and behind its operands. */
#ifndef SQLOCK_CLI_OPTIONS_H
#define SQLOCK_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct cli;

/* A table ends with an entry whose key is 0. */
struct option_spec {
    int key;           /* its letter, or OPTION_LONG + n for one without a letter */
    const char *name;  /* "max-time"; NULL: it has a letter only */
    const char *value; /* "DUR"; "[DUR]": may be left out; NULL: it takes none */
    const char *help;  /* NULL: a later version has it, this one refuses it by name */
};

enum { OPTION_LONG = 256, OPTIONS_END = -1, OPTIONS_WRONG = -2 };
enum { OPTIONS_ANYWHERE = -1 }; /* `stop`: options may stand behind all operands */

extern const struct option_spec global_options[];

struct options {
    struct cli *cli;
    const struct option_spec *own; /* NULL: global ones only */
    int stop; /* options end behind so many operands: what follows belongs to somebody else */
    int argc;
    char **argv;
    int at;          /* the next word */
    char *letters;   /* the rest of "-nE0" */
    char *rest;      /* what stands behind an option: its value */
    char **operands; /* after OPTIONS_END: n of them, and NULL */
    int n;
    const char *value; /* of the option that options_next() returned */
    bool wrong;        /* a value was refused, and that was told */
};

/* argv[0] is skipped. Words are moved within argv. */
void options_begin(struct options *o, struct cli *cli, const struct option_spec *own, int stop,
                   int argc, char **argv);
/* The key of the next option of the command's own; OPTIONS_END; OPTIONS_WRONG, which has been told.
 * -h prints help and ends the process. */
int options_next(struct options *o);

/* The value as a duration, a number, a code: false, and o->wrong, if it is none. */
bool options_duration(struct options *o, int32_t *out_ms); /* at most 24 days */
bool options_long_duration(struct options *o, int64_t *out_ms);
bool options_number(struct options *o, int64_t min, int64_t max, int64_t *out);
/* Told to the user: "see `sqlock help NAME`". Returns EXIT_USAGE. */
int options_refuse(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The table as lines of help, at most 80 columns. */
void options_print(FILE *to, const struct option_spec *specs);

#endif
