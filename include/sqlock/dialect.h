/* A database's SQL, as embed.awk makes it of the files of schema/<dialect> and migrations/<dialect>.
 * For those who write a driver: it runs the steps, and does not look into them. embed.awk is
 * installed: `pkg-config --variable=embed libsqlock`. schema/README.md says how the files are
 * written. */
#ifndef SQLOCK_DIALECT_H
#define SQLOCK_DIALECT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SQLOCK_ORDER_INDEX 255 /* in order[]: not a parameter, but the request's number */
#define SQLOCK_STEP_WRITE 0x1u /* this step and those after it run in one write transaction */
#define SQLOCK_STEP_ASIDE 0x2u /* this step does not do yet what the request is for: if it fails,
                                  SQLOCK_MAYBE is not set */
#define SQLOCK_STEP_HEARS 0x4u /* on an adopted connection: this step mostly waits. cancel() ends it
                                  within half a second or so, and may lose its place in a queue */
#define SQLOCK_STEP_LOOK  0x8u /* this step only reads why those before it did nothing: a driver may
                                  send them in one packet and transaction */
/* A step that returns no row. If it has changed one row, and has set the session's last insert id,
 * the answer is SQLOCK_OUT_DONE with that number as the server's clock. If it waited too long for a
 * locked row, it has changed nothing. */
#define SQLOCK_STEP_GIVES_NOW 0x10u
#define SQLOCK_STEP_FIRST 0x40u /* returns no row: it locks what the next step decides on. A driver
                                   sends both in one packet and transaction, or leaves it out */
/* Where the last requests have come as far as this one, because others were at work, a driver may begin
 * here. If that decides nothing, it begins with the first step again. */
#define SQLOCK_STEP_CROWDED 0x800u
/* Not a part of the request, but a question: if it returns a row, what was written before it must be
 * on the disk, also in a call that is lazy. Such a call is rolled back, and made anew as one that is
 * not. A driver leaves it out where commits wait anyway. */
#define SQLOCK_STEP_DURABLE 0x80u
#define SQLOCK_STEP_NOWAIT 0x20u /* only for servers where one statement can be kept from waiting */
#define SQLOCK_STEP_OFTEN 0x100u /* sent so often that a driver had better prepare it */
/* This step does something only if a parameter is neither NULL nor 0, or only if it is one of these.
 * A driver may leave it out otherwise. */
#define SQLOCK_STEP_WITH    0x200u
#define SQLOCK_STEP_WITHOUT 0x400u
#define SQLOCK_STEP_PARAM_SHIFT 12
#define SQLOCK_STEP_PARAM(flags) ((unsigned)(flags) >> SQLOCK_STEP_PARAM_SHIFT) /* which, from 0 */

/* One statement. For a driver that can send several in one packet: statements with `;` between
 * them, of which the last one's rows count.
 *
 * Placeholders have the numbers of the request's parameters ($2, ?2). Or they are positional (?):
 * then order[] says which parameter, from 0, belongs to each.
 *
 * An array step with positional placeholders has a part between a comment "each SEPARATOR" and a
 * comment "end". The driver writes that part once for each request, with the separator between. All
 * placeholders are in it. */
typedef struct sqlock_step {
    const char *sql;
    const uint8_t *order; /* NULL: numbered */
    uint8_t n_order;
    uint16_t flags; /* SQLOCK_STEP_... */
} sqlock_step;

/* A request's steps, run in order. The first step that returns a row ends the script: its rows are
 * the answer. A script may end without rows. Each step commits by itself, unless SQLOCK_STEP_WRITE
 * puts it into a transaction. */
typedef struct sqlock_script {
    const char *name;
    const char *params; /* "b:ns b:name ..." */
    uint8_t n_params;
    uint8_t n_steps;                /* 0: the driver does without this request */
    uint8_t n_array_steps;          /* 0: the requests of a batch run one after the other */
    uint8_t flags;                  /* SQLOCK_REQ_..., what the request is (sqlock/request.h) */
    /* The number of a step, from 1, that a driver may send in place of the array's for one request
     * beside others of other kinds: it waits for no row either. 0: there is none. */
    uint8_t beside;
    const sqlock_step *steps;       /* for one request */
    const sqlock_step *array_steps; /* for many: each parameter is an array, with an element for
                                       each request */
} sqlock_script;

/* A migration: the statements of migrations/<dialect>/NNN_name.{up,down}.sql. */
typedef struct sqlock_migration {
    int version;
    const char *name;
    const char *checksum; /* of the up file: the first 16 hex digits of its SHA-256 */
    const char *const *up;
    size_t n_up;
    const char *const *down;
    size_t n_down;
} sqlock_migration;

/* Its texts are templates: {lock} and the other tables' names, {schema}, {prefix}. A driver sees
 * them filled in, with quoted and qualified names. The texts of migrate_around are never run:
 * written out, they stand before and after migrations. */
typedef struct sqlock_dialect {
    uint32_t size; /* sizeof(sqlock_dialect) */
    const char *name;
    char quote;                   /* around identifiers: '"' or '`' */
    const char *default_schema;   /* "public", "main"; "": that of the connection */
    int fixed_schema;             /* 1: no other schema is possible */
    const sqlock_script *scripts; /* n_scripts of them, in the order of the enum */
    const sqlock_migration *migrations;
    size_t n_migrations;
    size_t n_scripts; /* SQLOCK_STMT_COUNT when the driver was built */
    char placeholder; /* of parameters, in texts that core makes: '$' ($1, $2), '?' (positional) */
} sqlock_dialect;

#ifdef __cplusplus
}
#endif
#endif
