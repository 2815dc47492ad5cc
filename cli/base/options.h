/* Options from tables: the parser and the help use the same table. Long options must be written in
 * full: getopt_long() accepts prefixes, and would take `--wait 1`, as in flock(1), for `--wait-db
 * 1`. Global options may stand before the command, among its options and behind its operands. */
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
    const char *help;  /* NULL: planned for a later version; this one refuses it by name */
};

enum { OPTION_LONG = 256, OPTIONS_END = -1, OPTIONS_WRONG = -2 };
enum { OPTIONS_ANYWHERE = -1 }; /* `stop`: options may stand behind all operands */

extern const struct option_spec global_options[];

struct options {
    struct cli *cli;
    const struct option_spec *own; /* NULL: global ones only */
    int stop;                      /* options end behind so many operands: the rest is not ours */
    int argc;
    char **argv;
    int at;          /* the next word */
    char *letters;   /* the rest of "-nE0" */
    char *rest;      /* what stands behind an option: its value */
    char **operands; /* after OPTIONS_END: n of them, and NULL */
    int n;
    const struct option_spec *spec; /* the option that was read last */
    const char *value;              /* its value */
    bool wrong;                     /* a value was wrong, and that was reported */
};

/* argv[0] is skipped. Words are moved within argv. */
void options_begin(struct options *o, struct cli *cli, const struct option_spec *own, int stop,
                   int argc, char **argv);
/* The key of the command's next own option; OPTIONS_END; or OPTIONS_WRONG after printing why. -h
 * prints help and ends the process. */
int options_next(struct options *o);

/* Read the value as a duration or a number. False, and o->wrong, if it is none. */
bool options_duration(struct options *o, int32_t *out_ms); /* at most 24 days */
bool options_long_duration(struct options *o, int64_t *out_ms);
bool options_period(struct options *o, int64_t *out_ms); /* the same, and not 0 */
bool options_number(struct options *o, int64_t min, int64_t max, int64_t *out);
/* Print what is wrong, and "see 'sqlock help NAME'". Returns EXIT_USAGE. */
int options_refuse(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Print the table as lines of help, at most 80 columns wide. */
void options_print(FILE *to, const struct option_spec *specs);

#endif
