/* What the files of the MariaDB and MySQL driver share. */
#ifndef SQLOCK_DRIVERS_MYSQL_H
#define SQLOCK_DRIVERS_MYSQL_H

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <mysql.h>

#include <sqlock/adopt.h>
#include <sqlock/driver.h>
#include <sqlock/mysql.h>

extern const sqlock_dialect sqlock_mysql_dialect;

/* What the statements of a packet have answered. */
#define MY_RESULTS_MAX 48
struct my_result {
    MYSQL_RES *rows; /* NULL: it has none */
    my_ulonglong changed, id;
};
struct my_results {
    struct my_result of[MY_RESULTS_MAX]; /* of those that follow, the last one */
    size_t n, with_rows;
};

struct my_conn {
    MYSQL *my;
    int open_wake; /* ends the opening; -1 once it is done */
    int wake_fd;
    _Atomic uint64_t
        cancelled; /* a call; set before wake_fd is: a wake-up without it is an old one */
    uint64_t call; /* the number of the run() that is under way; 0: none */
    int pauses;    /* it is not given up: it pauses */
    int under_way; /* a packet was sent and not all of its answer is read, perhaps in a pause */
    struct {       /* where that goes on */
        size_t group, request, step;
        char *text;
        const char *statement; /* my_call.at */
        int applied, followed; /* an answer to a statement of the packet has been read */
        int few;               /* groups.c */
        struct my_results got;
    } at;
    int broken;       /* SQLOCK_RECONNECT was reported: nothing is sent any more */
    int skips_locked; /* the server can skip locked rows */
    int waits_not;    /* it can keep one statement from waiting for a row */
    int keeps;        /* it can prepare and execute statements by texts, with values in them */
    int few_rest;     /* groups.c */
    uint8_t kept[SQLOCK_STMT_COUNT]; /* of each request, a bit for each step that is prepared */
    int maria;                       /* it is MariaDB, not MySQL */
    int adopted;                     /* my is the application's, borrowed */
    int ended; /* ... and its transaction ended with the last of our statements */
    unsigned long thread_id;
    int64_t answered; /* when the last answer had come */
    const sqlock_script *scripts;
};

/* One call of a slot of the driver's tables. */
struct my_call {
    int64_t deadline;
    int applies;    /* 1: if the answer is lost, something may have been changed */
    int changes;    /* 1: it is not done without an answer */
    int applied;    /* 1: a statement before this one has changed something */
    int rolls_back; /* 1: the packet is a transaction. If a statement fails, the caller rolls it
                       back */
    const char *at; /* the statement of the packet whose answer is awaited */
    sqlock_error *err;
};

/* signals.c: what the client library must not do to the process. */
struct my_quiet {
    sigset_t before, pending;
};
/* mysql_init(NULL), which sets no signal's handler. */
MYSQL *my_init(void);
/* Around calls of the client library that may write: the thread gets no SIGPIPE for them. In pairs,
 * which may be nested. */
void my_quiet_begin(struct my_quiet *q);
void my_quiet_end(const struct my_quiet *q);

/* conn.c */
int my_open(const sqlock_conn_opts *opts, int64_t deadline, void **out_conn, sqlock_error *err);
void my_close(void *conn);
int my_check_version(struct my_conn *c, sqlock_error *err);

/* adopt.c: adopted connections */
extern const sqlock_adopter my_adopter;
sqlock_tx_state my_adopted_state(void *conn);

/* adopted.c: a statement on such a connection. What the application can still read about its own
 * last statement is kept before the first of ours, and restored after the last. */
struct my_last {
    my_ulonglong affected_rows, insert_id;
    unsigned warning_count, field_count, last_errno;
    char last_error[sizeof((NET *)NULL)->last_error], sqlstate[sizeof((NET *)NULL)->sqlstate];
    ptrdiff_t info_at; /* in the buffer; -1: there is none */
    size_t info_len;
    char info[256];
};
void my_last_keep(struct my_last *last, const MYSQL *my);
void my_last_give_back(const struct my_last *last, MYSQL *my);
int my_adopted_busy(MYSQL *my); /* an answer has not come yet, or has not been read */
int my_adopted_lost(const struct my_conn *c);
int my_adopted_in_transaction(const MYSQL *my);
/* Nothing was sent since our last call. */
int my_adopted_undisturbed(const struct my_conn *c);
/* 0 if a statement can be sent, or an error. */
int my_adopted_ready(struct my_conn *c, const struct my_call *call);
/* One statement, and the state of the transaction after it. The server must end it in time: this
 * waits for its answer also beyond the deadline. *out_res: its rows or NULL, as for my_query(). */
int my_adopted_query(struct my_conn *c, const struct my_call *call, const char *sql, size_t len,
                     MYSQL_RES **out_res);
int my_adopted_exec(struct my_conn *c, const struct my_call *call, const char *sql);
/* 0: it is no XA transaction. */
int my_adopted_refuse_xa(struct my_conn *c, const struct my_call *call);
/* Cut the link: the application must not go on with it. */
void my_adopted_hang_up(struct my_conn *c);

/* adopted_run.c */
int my_adopted_run(void *conn, sqlock_stmt stmt, const sqlock_value *values, int64_t deadline,
                   sqlock_rows *rows, sqlock_error *err);
int my_adopted_run_script(void *conn, const sqlock_script *script, const sqlock_value *values,
                          int64_t deadline, sqlock_rows *rows, sqlock_error *err);

/* client_mariadb.c or client_mysql.c: what each client library does in its own way. */
enum my_ssl_mode {
    MY_SSL_UNSAID, /* as in the option files, or else the client library's default */
    MY_SSL_DISABLED,
    MY_SSL_PREFERRED,
    MY_SSL_REQUIRED,
    MY_SSL_VERIFY_CA,
    MY_SSL_VERIFY_IDENTITY
};
struct my_target { /* NULL or 0: not said */
    const char *user, *password, *host, *database, *socket;
    unsigned port;
    enum my_ssl_mode tls;
    int64_t deadline;
};
/* A call in pieces: {0} before the first. A piece returns 1 if it would block: wait with my_wait(),
 * and call it again with the same arguments. 0: done, or failed. */
struct my_op {
    int status;     /* the client library's, or how far the call has come */
    int events;     /* what to wait for, in poll()'s words */
    int64_t nap_us; /* go on after this time even if nothing came; 0: no */
    int failed;
    int idle;    /* nothing of a call of the client library is under way: the request may pause */
    int looked;  /* the server's first packet has been looked at */
    int refused; /* it has no TLS */
};
/* -1: none. */
int my_client_socket(MYSQL *my);
/* Before it connects; 0: no memory. */
int my_client_prepare(MYSQL *my);
/* 1 if the driver can work on a connected one; 0: *out_why it cannot. */
int my_client_adopts(MYSQL *my, const char **out_why);
/* The name of a mode in which the application's connection would answer for another session, or not
 * at all; NULL: none. */
const char *my_client_strays(MYSQL *my);
/* NULL, or why the client library cannot do that. *mode: as in the URL; MY_SSL_UNSAID becomes what
 * the option files say. */
const char *my_client_tls(MYSQL *my, MYSQL *files, enum my_ssl_mode *mode);
int my_client_connect(MYSQL *my, struct my_op *op, const struct my_target *t);
int my_client_send(MYSQL *my, struct my_op *op, const char *sql, size_t len);
int my_client_answer(MYSQL *my, struct my_op *op, const char *sql, size_t len);
int my_client_next(MYSQL *my, struct my_op *op);
int my_client_store(MYSQL *my, struct my_op *op, MYSQL_RES **out_res);
/* 1: a write to a server that is gone may raise SIGPIPE. */
int my_client_signals(MYSQL *my);
/* 1: a part of the next answer may be with the client library already, and not in the socket. For
 * the first answer of a packet, or after one without rows. */
int my_client_has_read(const MYSQL *my);
#ifdef MARIADB_PACKAGE_VERSION_ID
#define MY_CLIENT_CAPS (SQLOCK_CAP_PAUSES | SQLOCK_CAP_GROUPS)
#else
#define MY_CLIENT_CAPS 0u
#endif

/* url.c */
enum my_option {
    MY_SOCKET,
    MY_DEFAULTS_FILE,
    MY_SSL_MODE,
    MY_SSL_CA,
    MY_SSL_CAPATH,
    MY_SSL_CERT,
    MY_SSL_KEY,
    MY_SSL_CIPHER,
    MY_TLS_VERSION,
    MY_CONNECT_TIMEOUT,
    MY_OPTIONS
};
struct my_url {
    struct my_target to;             /* all except the socket */
    const char *options[MY_OPTIONS]; /* NULL: not said */
    char *text, *room;               /* storage of `to`, and what is left of it */
    void *query;                     /* of options */
    char *alone;                     /* the URL with one host of a list; NULL: it has no list */
    int connect_s;                   /* seconds for each; 0: not said */
};
int my_hosts(const char *url, sqlock_hosts *out, sqlock_error *err);
/* host: which one of a list, from 1. Free out also after a failure. */
int my_url_parse(const char *url, uint32_t host, struct my_url *out, sqlock_error *err);
void my_url_free(struct my_url *u);

/* options.c: set all this before my connects. What *out points to belongs to the URL, or to files,
 * a handle of its own for this. */
int my_options_set(MYSQL *my, MYSQL *files, const struct my_url *u, struct my_target *out,
                   sqlock_error *err);

#define MY_CHUNK      500 /* requests in a packet: below 2 MB also with the longest names and labels */
#define MY_GROUPS_MAX 8

/* wire.c: to the server and back, never past the deadline */
#define MY_ADOPTED 1 /* the number of all calls on an adopted connection */
void my_cancel(void *conn, uint64_t call);
int my_is_cancelled(const struct my_conn *c);
/* Wait until op can go on; 0, an error after which c is broken, or SQLOCK_NOT_YET. */
int my_wait(struct my_conn *c, const struct my_call *call, const struct my_op *op);
/* What follows a statement in its packet; NULL: nothing. */
const char *my_next_statement(const char *sql);
/* Run sql, one statement or several in one packet. *out_res: the rows of the last one that has any,
 * for the caller to free with mysql_free_result(); NULL if none has. After SQLOCK_NOT_YET the same
 * again goes on to wait; sql stays until then. */
int my_query(struct my_conn *c, struct my_call *call, const char *sql, size_t len,
             MYSQL_RES **out_res);
/* The same. c->at.got has the answers of all statements, until they are freed or the next query. */
int my_query_all(struct my_conn *c, struct my_call *call, const char *sql, size_t len);
void my_results_free(struct my_results *results);

/* text.c */
struct my_batch {
    const sqlock_value *values; /* of all requests, one after the other */
    size_t n_params;            /* of each */
    size_t n;                   /* at least 1 */
    const char *charset;        /* of texts; NULL: there are none */
};
/* The step's text for the batch, ended by NUL, for the caller to free; NULL: no memory. */
char *my_text(const sqlock_step *step, const struct my_batch *b, size_t *out_len);
/* The same, to run a statement that the session keeps by that name. keeps, if not NULL: to make the
 * session keep it first. */
char *my_text_execute(const sqlock_step *step, const struct my_batch *b, const char *name,
                      MYSQL *keeps, size_t *out_len);
/* Several steps in one transaction, each for its batch. Those that have one of their own, as
 * schema/README.md says, leave it away. */
struct my_part {
    const sqlock_step *step;
    struct my_batch batch;
    const char *name; /* of a statement that the session keeps; NULL: it is sent whole */
    int keep;         /* it is to be kept first, before the transaction begins */
};
char *my_text_together(const struct my_part *parts, size_t n, MYSQL *my, size_t *out_len);
/* Where `what` is next, outside of names in backquotes, which are the application's and may hold
 * anything. NULL: nowhere. */
const char *my_find(const char *from, const char *end, char what);

/* The step is one transaction. */
int my_step_is_transaction(const sqlock_step *step);

/* groups.c: ends a transaction whose packet failed. */
int my_roll_back(struct my_conn *c, const struct my_call *failed);

/* stmt.c */
#define MY_NAME_SIZE 48
#define MY_NOT_KEPT  1243 /* there is no such prepared statement */
/* 1: the session keeps the statement of the script's step number i. */
int my_step_is_kept(const struct my_conn *c, const sqlock_step *step, size_t i);
void my_step_name(const struct my_conn *c, const sqlock_script *s, size_t i, char *out);
/* The answer of a step that gives, in place of a row. */
int my_give(const struct my_result *result, sqlock_rows *rows, size_t request);
int my_take_rows(MYSQL_RES *res, sqlock_rows *rows, size_t request);
/* Fill the error after it failed. */
int my_fail_rows(const struct my_call *call, int rc, unsigned flags);
int my_run_group(struct my_conn *c, struct my_call *call, const sqlock_group *group,
                 sqlock_rows *rows, size_t first);
int my_run(void *conn, const sqlock_call *number, sqlock_stmt stmt, const sqlock_value *values,
           size_t n, int64_t deadline, sqlock_rows *rows, sqlock_error *err);
int my_exec(void *conn, const char *sql, int64_t deadline, sqlock_error *err);
int my_begin(void *conn, int64_t deadline, sqlock_error *err);
int my_commit(void *conn, int64_t deadline, sqlock_error *err);
int my_rollback(void *conn, int64_t deadline, sqlock_error *err);

/* groups.c: more than one request. Answers are numbered through. */
int my_run_groups(struct my_conn *c, struct my_call *call, const sqlock_group *first,
                  const sqlock_call *more, sqlock_rows *rows);

/* errmap.c: each fills the error, returns its code, and notes if the connection is spent */
int my_fail(struct my_conn *c, const struct my_call *call);
int my_fail_wait(struct my_conn *c, const struct my_call *call, int code);
int my_fail_ended(struct my_conn *c, const struct my_call *call);
int my_fail_connect(struct my_conn *c, sqlock_error *err);

#endif
