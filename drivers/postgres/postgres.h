/* What the files of the PostgreSQL driver share. */
#ifndef SQLOCK_DRIVERS_POSTGRES_H
#define SQLOCK_DRIVERS_POSTGRES_H

#include <libpq-fe.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <sqlock/adopt.h>
#include <sqlock/driver.h>
#include <sqlock/postgres.h>

#define PG_STEPS_MAX  8   /* steps of a script that are prepared; later ones run unnamed */
#define PG_PARAMS_MAX 64  /* parameters of a request */
#define PG_NAME_SIZE  64  /* of a prepared statement's name */
#define PG_TEXT_SIZE  512 /* core cuts it, between words */
#define PG_ADOPTED    1   /* the number of all calls on an adopted connection */
#define PG_GROUPS_MAX 8   /* of requests in one packet */

/* libpq 14 can send several statements at once. */
#ifdef LIBPQ_HAS_PIPELINING
#define PG_CAP_GROUPS SQLOCK_CAP_GROUPS
#else
#define PG_CAP_GROUPS 0
#endif

#define PG_OLDEST_SERVER 100000 /* 10: what the statements need */
#define PG_OLDEST_LIBPQ  120000 /* 12: gssencmode, tcp_user_timeout, PQhostaddr() */

extern const sqlock_dialect sqlock_postgres_dialect;

/* Limits by which the server ends a statement on an adopted connection: one for a wait for a lock,
 * one for all of it. */
struct pg_limits {
    int64_t lock_us, all_us; /* 0: the application's is shorter, or there is none */
    char lock_was[24], all_was[24];
};

struct pg_conn {
    PGconn *pg;
    int open_wake; /* the caller's, while it opens; then -1 */
    int wake_fd;
    _Atomic uint64_t
        cancelled; /* a call; set before wake_fd is: a wake-up without it is an old one */
    uint64_t call; /* the number of the run() that is under way; 0: none */
    int pauses;    /* it is not given up: it pauses */
    int lazy;      /* its commit need not wait for the disk (SQLOCK_CALL_LAZY) */
    int likely;    /* SQLOCK_CALL_LIKELY */
    int unprepared;
    int listens;   /* for a client: notifications stay until hear() */
    int in_tx;     /* between begin() and commit() or rollback() */
    int broken;    /* SQLOCK_RECONNECT was reported: nothing is sent any more */
    int ahead;     /* the session's settings have been sent, and the answer has not been read */
    int under_way; /* a statement of ours is under way, perhaps while a call pauses */
    struct {       /* where that call goes on */
        size_t request, step;
        char *name;     /* of the statement that is being prepared */
        int unnamed;    /* the present one is not to be prepared */
        PGresult *kept; /* of the present statement */
        int piped;      /* all of a packet has been sent */
        size_t n_answers;
        /* of a packet: the first failure is the last of them, also that of its commit */
        PGresult *answers[PG_GROUPS_MAX + 1];
    } at;
    int64_t answered; /* when the last one was done */
    const sqlock_script *scripts;

    /* For an adopted connection (adopted.c). */
    int adopted;
    int firm;                          /* cancel() does not end the present call */
    int blocking;                      /* its mode, to be restored */
    int muted;                         /* its notice receiver was libpq's own, to be restored */
    int cut;                           /* why the present statement has been cancelled: a code */
    int64_t cut_until;                 /* and until when we wait for its end */
    int soft_cut;                      /* the server is about to end it */
    PQnoticeReceiver default_receiver; /* libpq's own */
    int64_t sent;                      /* when the present statement was sent */
    struct pg_limits limits;           /* while our savepoint stands */

    /* What the notice receiver saw. */
    int doubt;     /* the present statement came with a warning that its commit may not last */
    char ended[6]; /* SQLSTATE with which the server ended the session; "" if it has not */
    char notice[PG_TEXT_SIZE];

    /* Names of prepared statements. The number makes them unique in the connection, the tag among
     * connections that a pooler puts on one server session. */
    uint32_t tag[2];
    unsigned last_prepared;
    char *prepared[SQLOCK_STMT_COUNT][2][PG_STEPS_MAX]; /* [array]; NULL: not prepared */
    uint8_t used[SQLOCK_STMT_COUNT][2][PG_STEPS_MAX];   /* 1: not for the first time any more */
    Oid *types[SQLOCK_STMT_COUNT]; /* of the script's parameters and :lazy; NULL: not read yet */
    uint8_t looked[SQLOCK_STMT_COUNT];  /* 1: the last time the first step did nothing */
    uint8_t crowded[SQLOCK_STMT_COUNT]; /* so many times it begins with the SQLOCK_STEP_CROWDED */
};

/* One call of a slot of the driver's tables. */
struct pg_call {
    int64_t deadline;
    int applies; /* 1: if the answer is lost, something may have been changed */
    sqlock_error *err;
};

/* A step of a script, with what is needed to run it. */
struct pg_step {
    sqlock_stmt stmt;
    int array; /* 1: one of array_steps */
    int once;  /* 1: not worth to be prepared */
    size_t n;  /* its number, from 0 */
    const char *sql;
};

struct pg_params {
    const sqlock_value *values; /* what they are made of */
    int n;
    const Oid *types; /* the script's, or other_types */
    Oid other_types[PG_PARAMS_MAX];
    const char *data[PG_PARAMS_MAX];
    int lens[PG_PARAMS_MAX];
    int formats[PG_PARAMS_MAX];
    uint64_t ints[PG_PARAMS_MAX];     /* storage for data of integers, */
    char decimals[PG_PARAMS_MAX][24]; /* of those that are sent as text, */
    char *owned[PG_PARAMS_MAX];       /* of arrays and texts: n_owned of them */
    int n_owned;
};

/* conn.c */
int pg_open(const sqlock_conn_opts *opts, int64_t deadline, void **out_conn, sqlock_error *err);
void pg_close(void *conn);

/* hosts.c */
struct pg_host { /* "": not said */
    char *name, *address, *port;
};
int pg_hosts(const char *url, sqlock_hosts *out, sqlock_error *err);
/* The URL's host, counted from 1. 0: no memory. Free it in both cases. */
int pg_host_pick(const char *url, uint32_t host, struct pg_host *out);
void pg_host_free(struct pg_host *h);

/* listen.c */
int pg_listen(void *conn, const unsigned char client[16], int64_t deadline, sqlock_error *err);
int pg_hear(void *conn, const sqlock_call *call, int64_t deadline, sqlock_rows *rows,
            sqlock_error *err);

/* adopted.c */
extern const sqlock_adopter pg_adopter;
sqlock_tx_state pg_native_state(const PGconn *pg);
/* Around each call: 0, and pg_adopted_leave() must follow; or an error, and nothing was done. */
int pg_adopted_enter(struct pg_conn *c, const struct pg_call *call, int failed_too);
void pg_adopted_leave(struct pg_conn *c);
/* Make the present statement end, because of this code. 0: its end is still to be read, until
 * c->cut_until. Otherwise the link is of no use any more. */
int pg_adopted_cut(struct pg_conn *c, int code);
/* Whether the server ended a statement because of our limits, by this SQLSTATE and message. */
int pg_adopted_limited(const struct pg_conn *c, const char *state, const char *message);
/* Make the connection unusable, for the application too. */
void pg_adopted_sever(struct pg_conn *c);
/* Whether the server will read this text as it is meant: 0, or an error. */
int pg_adopted_reads(struct pg_conn *c, const struct pg_call *call, const char *sql);
/* Make a text of the server's valid UTF-8, whatever it was. */
void pg_adopted_text(const struct pg_conn *c, char *text);

/* cancel.c: cancel the present statement. 0: the request was sent, or could not be sent; it may
 * also be unknown whether the server will act on it. */
int pg_send_cancel(PGconn *pg, int64_t deadline);

/* wire.c: to the server and back. These return SQLOCK_NOT_YET in a call that pauses; then the same
 * function goes on, if the statement is under way. */
void pg_call_end(struct pg_conn *c);
void pg_cancel(void *conn, uint64_t call);
int pg_is_cancelled(const struct pg_conn *c);
/* Before a statement is sent: 0, or an error and nothing was sent. Behind what was sent ahead no
 * answer is awaited. */
int pg_ready(struct pg_conn *c, const struct pg_call *call);
int pg_ready_behind(struct pg_conn *c, const struct pg_call *call);
/* The next result, NULL behind the last one of a statement. */
int pg_next_result(struct pg_conn *c, const struct pg_call *call, PGresult **out_res);
int pg_result_is_success(const PGresult *res);
/* After ReadyForQuery: whether res, NULL if none came, is a success that lasts. */
int pg_check(struct pg_conn *c, const struct pg_call *call, const PGresult *res);
/* After PQsend...() returned sent: read everything up to ReadyForQuery. On success *out_res is the
 * answer, for the caller to clear. out_res may be NULL. */
int pg_collect(struct pg_conn *c, const struct pg_call *call, int sent, PGresult **out_res);
/* A statement without parameters. */
int pg_command(struct pg_conn *c, const struct pg_call *call, const char *sql, PGresult **out_res);
void pg_take_notice(void *conn, const PGresult *res);

/* stmt.c */
int pg_run(void *conn, const sqlock_call *number, sqlock_stmt stmt, const sqlock_value *values,
           size_t n, int64_t deadline, sqlock_rows *rows, sqlock_error *err);
int pg_run_script(void *conn, const sqlock_script *script, const sqlock_value *values,
                  int64_t deadline, sqlock_rows *rows, sqlock_error *err);
/* The parameters of one request, or of an array of them. pg_params_free() follows, also after an
 * error. */
int pg_params_of(struct pg_conn *c, const struct pg_call *call, const sqlock_group *g, int array,
                 struct pg_params *p);
/* Whether this use of a step is not worth to prepare its statement: that would be a round trip. */
int pg_is_unnamed(const struct pg_conn *c, const struct pg_step *step);
void pg_note_use(struct pg_conn *c, const struct pg_step *step);
/* Prepare a step's statement, for parameters of these types. */
int pg_prepare(struct pg_conn *c, const struct pg_call *call, const struct pg_step *step,
               const struct pg_params *p);
/* Run one step, prepared if it is worth that. */
int pg_step_run(struct pg_conn *c, const struct pg_call *call, const struct pg_step *step,
                const struct pg_params *p, PGresult **out_res);
/* The error is one that a new name and plan cure, and nothing was applied. */
int pg_is_stale(const struct pg_conn *c, const sqlock_error *err);
int pg_exec(void *conn, const char *sql, int64_t deadline, sqlock_error *err);
int pg_begin(void *conn, int64_t deadline, sqlock_error *err);
int pg_commit(void *conn, int64_t deadline, sqlock_error *err);
int pg_rollback(void *conn, int64_t deadline, sqlock_error *err);

/* script.c */
/* The first step that returns a row ends the script: its rows are added, as those of this request.
 * Returns 0 also if no step returned one. */
int pg_script_run(struct pg_conn *c, const struct pg_call *call, const sqlock_script *script,
                  sqlock_stmt stmt, int array, const struct pg_params *p, sqlock_rows *rows,
                  size_t request);

/* A statement of a packet, and its values. */
struct pg_part {
    struct pg_step step;
    const struct pg_params *params;
};

/* groups.c: some statements in one packet. */
/* Two commands in a transaction of their own, whose answer is read with that of the next packet, or
 * before the next statement. If they fail, so does that, and the connection is of no use. */
int pg_send_ahead(struct pg_conn *c, const struct pg_call *call, const char *first,
                  const char *second);
int pg_read_ahead(struct pg_conn *c, const struct pg_call *call);
/* In one transaction. On success c->at.answers has what they answered, and pg_packet_clear() must
 * follow. */
int pg_run_packet(struct pg_conn *c, const struct pg_call *call, const struct pg_part *parts,
                  size_t n);
void pg_packet_clear(struct pg_conn *c);
/* The first group, and those behind it. */
int pg_run_groups(struct pg_conn *c, const struct pg_call *call, const sqlock_group *first,
                  const sqlock_call *more, sqlock_rows *rows);

/* value.c: parameters to the binary format, rows from it; 0 or a code, err stays */
/* The types that a script names. *out is the caller's, to be freed; without parameters it stays. */
int pg_params_types(const sqlock_script *script, Oid **out);
int pg_params_one(struct pg_params *p, const Oid *types, const sqlock_value *values, int n);
int pg_params_array(struct pg_params *p, const Oid *types, const sqlock_value *values, int n_params,
                    size_t n);
/* Behind them, for a script that is SQLOCK_REQ_LAZY. */
void pg_params_add_lazy(struct pg_params *p, int lazy);
/* Values of any type, for a script that names none. */
int pg_params_loose(struct pg_params *p, const sqlock_value *values, int n);
void pg_params_free(struct pg_params *p);
int pg_rows_take(const PGresult *res, sqlock_rows *rows, size_t request);

/* errmap.c: each fills the error, returns its code, and notes if the connection is spent */
int pg_fail_result(struct pg_conn *c, const struct pg_call *call, const PGresult *res);
int pg_fail_lost(struct pg_conn *c, const struct pg_call *call);
int pg_fail_wait(struct pg_conn *c, const struct pg_call *call, int code);
int pg_fail_doubt(struct pg_conn *c, const struct pg_call *call, const char *why);
int pg_fail_ended(struct pg_conn *c, const struct pg_call *call);
int pg_fail_connect(PGconn *pg, sqlock_error *err);
/* Whether a message of libpq's means that there was no memory. */
int pg_is_memory(const char *message);
/* Copy a message of libpq's or the server's as one line. */
void pg_one_line(char *out, size_t size, const char *text);

#endif
