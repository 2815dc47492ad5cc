/* The seam between sqlock's core and a database, for those who write a driver.
 *
 * A driver moves bytes and classifies errors. It holds no lock logic: the statements of
 * schema/<dialect>/statements.sql decide which owner is granted a lock, and the driver runs them as
 * it gets them. Core knows no dialect and a driver knows no lock, so a new database needs no change
 * in core.
 *
 * - sqlock/request.h: the requests that core sends, and the columns of their answers
 * - sqlock/dialect.h: the SQL that a driver runs for them
 * - sqlock/adopt.h: a second table, for work on an application's connection; a driver may lack it
 *
 * Threads   One thread at a time uses a connection, not always the same. Only cancel() may be
 *           called from another thread meanwhile.
 * Time      Deadlines are microseconds of sqlock_now_us().
 * Versions  Core and a driver may be of two releases. A struct that starts with its size grows only
 *           at its end. A reader leaves alone the fields that the size does not cover
 *           (SQLOCK_HAS_FIELD), and takes them for 0. A struct without a size never changes. New
 *           requests are appended to SQLOCK_STMTS. When a manager is opened, core compares the name
 *           and parameters of each request:
 *           - the driver lacks some: what needs them is refused (SQLOCK_EREFUSED), the rest works
 *           - the driver has more: core never sends them
 *           - they differ: SQLOCK_EREFUSED
 *
 *           Core sends only requests that the driver's dialect has. So an older driver never gets a
 *           number that it does not know. A driver may do without requests in the same way: those of
 *           its dialect that have no steps. */
#ifndef SQLOCK_DRIVER_H
#define SQLOCK_DRIVER_H

#include <sqlock/dialect.h>
#include <sqlock/request.h>
#include <sqlock/sqlock.h>
#include <sqlock/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 1: the struct at p, which starts with its size, has this field. Fields of the first release are
 * always there. */
#define SQLOCK_HAS_FIELD(p, field)                                                                 \
    ((size_t)((const char *)(&(p)->field + 1) - (const char *)(p)) <= (p)->size)

/* ---- rows ------------------------------------------------------------------------------------ */

/* An answer's rows. Core makes and frees them, a driver fills them. Bytes are copied. Each function
 * returns 0 or SQLOCK_ENOMEM, with which the driver lets its request fail. */
typedef struct sqlock_rows sqlock_rows;
SQLOCK_API int sqlock_rows_add(sqlock_rows *rows, size_t request); /* start a row for a request */
SQLOCK_API int sqlock_rows_put_null(sqlock_rows *rows);
SQLOCK_API int sqlock_rows_put_int(sqlock_rows *rows, int64_t i);
SQLOCK_API int sqlock_rows_put_bytes(sqlock_rows *rows, const void *data, size_t len);
/* Forget the rows from number n on: the answer of a statement that failed then. */
SQLOCK_API void sqlock_rows_cut(sqlock_rows *rows, size_t n);
SQLOCK_API size_t sqlock_rows_count(const sqlock_rows *rows);

/* ---- the driver ------------------------------------------------------------------------------ */

#define SQLOCK_CONN_MAKE 0x10000u /* for migrations: make the database's file if it is absent */

typedef struct sqlock_conn_opts {
    uint32_t size;
    unsigned flags;  /* SQLOCK_OPEN_UNPREPARED, SQLOCK_CONN_MAKE */
    const char *url; /* its scheme, one of the driver's, in lower case; NULL if connect is given */
    sqlock_connect_fn connect; /* makes the native connection; the driver closes it */
    void *connect_user;
    const sqlock_script *scripts; /* with names filled in; they outlive the connection */
    int wake_fd; /* open() fails with SQLOCK_ECANCELLED when it becomes readable; -1, or no such
                    field: there is none */
    uint32_t host; /* connect only to this one of the URL's hosts, counted from 1; 0, or no such
                      field: the URL has one */
} sqlock_conn_opts;

/* What a URL says about its servers. */
typedef struct sqlock_hosts {
    uint32_t size;   /* sizeof(sqlock_hosts) of the caller */
    uint32_t n;      /* how many */
    int64_t each_us; /* the longest time for one of them; 0: not given */
} sqlock_hosts;

/* The optional parts of a driver: a bit in caps, and its slot. Core refuses a driver that has the
 * bit and lacks the slot (SQLOCK_EINVAL, when a manager is opened). It never calls a slot whose bit
 * is off, refuses what would need it, and emulates nothing. */
#define SQLOCK_CAP_TX_DDL 0x1u      /* no slot. DDL is transactional: a migration is one
                                       transaction, and migrate_lock keeps others out of it. Without
                                       this bit each statement can be repeated, and migrate_lease
                                       keeps others out */
#define SQLOCK_CAP_ONE_WRITER 0x20u /* no slot. A write transaction keeps all other writers out. So
                                       a guard keeps out the holder's renewals too, and has to
                                       extend the lease */
#define SQLOCK_CAP_WHOLE_URL 0x80u  /* whole_url */
#define SQLOCK_CAP_RUNNING 0x100u   /* running */
#define SQLOCK_CAP_HOSTS 0x200u     /* hosts */
#define SQLOCK_CAP_BATCH 0x400u     /* no slot. run() with several requests commits once for all of
                                       them, also where the dialect has no array steps for them */
#define SQLOCK_CAP_PAUSES 0x800u    /* no slot. run() knows SQLOCK_CALL_PAUSES */
#define SQLOCK_CAP_GROUPS 0x1000u   /* no slot. run() knows sqlock_call.more */
#define SQLOCK_CAP_HEARS 0x2000u    /* listen, hear */
#define SQLOCK_CAP_GLIMPSES 0x4000u /* no slot. A look may see a guard where another session only
                                       met a row for a moment. So core looks again, after pauses */

/* With this flag run() does not give up a request that waits for its answer. At the deadline, and
 * after a cancel, it returns SQLOCK_NOT_YET, which is no failure: the request goes on. Core calls
 * run() again, with the same arguments except call and deadline, perhaps on another thread. It goes
 * on with the request, or makes it anew if nothing is left of the first try. Without the flag it
 * now ends. So a thread whose caller leaves can pass the wait for an answer to another one. Once a
 * part of an answer has come, run() may fail as without the flag. */
#define SQLOCK_CALL_PAUSES 0x1u
#define SQLOCK_NOT_YET     1

/* All requests of the call are SQLOCK_REQ_LAZY: its commit need not wait for the disk, nor for a
 * standby. A statement that goes by this names it as the parameter `:lazy`. A driver that cannot do
 * it, or not on this database, takes no notice. What is committed later, and waits, must make this
 * last too. */
#define SQLOCK_CALL_LAZY 0x2u
/* The request will most likely do what it is for. A driver that sends SQLOCK_STEP_LOOK steps ahead of
 * the need for them does not do so here. */
#define SQLOCK_CALL_LIKELY 0x4u

/* Requests of one kind, as run() takes them. */
typedef struct sqlock_group {
    sqlock_stmt stmt;
    const sqlock_value *values; /* n * n_params */
    size_t n;
} sqlock_group;

/* One run(). */
typedef struct sqlock_call {
    uint32_t size;
    unsigned flags;  /* SQLOCK_CALL_... */
    uint64_t number; /* cancel() names it. Rises with each call on a connection; never 0 */
    /* Requests of other kinds, which are run behind those of run()'s arguments, group by group, in
     * the same transaction: so all of them are committed at once, or none. (If run() fails when it
     * has committed some, it adds SQLOCK_MAYBE.) Answers go on with the next request's number. Each
     * kind has array steps, or the driver has SQLOCK_CAP_BATCH. */
    const sqlock_group *more;
    size_t n_more;
} sqlock_call;

/* A step with these flags would do nothing for a request with these values, for it is one WITH a
 * parameter that is NULL or 0, or WITHOUT one that is not. */
static inline int sqlock_step_is_vain(unsigned flags, const sqlock_value *values)
{
    const sqlock_value *v = &values[SQLOCK_STEP_PARAM(flags)];

    if (!(flags & (SQLOCK_STEP_WITH | SQLOCK_STEP_WITHOUT)))
        return 0;
    return (v->type == SQLOCK_NULL || (v->type == SQLOCK_INT && v->i == 0)) ==
           ((flags & SQLOCK_STEP_WITH) != 0);
}

typedef struct sqlock_adopter sqlock_adopter; /* sqlock/adopt.h */

/* Each slot fails with a negative SQLOCK_E code and fills *err, which is never NULL here. For an
 * error of the database or the client library it calls sqlock_error_db(). err->flags must then hold
 * - SQLOCK_RECONNECT if the connection must not be used again; core will close it
 * - SQLOCK_MAYBE if the request was sent and may have been applied: a reply was lost, a deadline or
 *   cancel came after sending. Never if it certainly was not applied, nor if its script's flags say
 *   that it leaves no doubt (SQLOCK_LEAVES_DOUBT)
 *
 * A write is confirmed only when its commit is. After a failure without SQLOCK_RECONNECT the
 * connection is outside any transaction and ready for the next call. */
struct sqlock_driver {
    uint32_t size; /* sizeof(sqlock_driver) when the driver was built; new slots go at the end */
    uint32_t caps; /* SQLOCK_CAP_... */
    const char *name;
    const char *schemes; /* of URLs, lower case, a blank between them: "postgres postgresql" */
    const sqlock_dialect *dialect;

    /* Connect until deadline at the latest; name resolution may take longer. Set for the session
     * what the dialect's statements need: isolation, durability. On failure nothing stays open. */
    int (*open)(const sqlock_conn_opts *opts, int64_t deadline, void **out_conn, sqlock_error *err);
    /* Close, without I/O that can block for long. conn is never NULL. */
    void (*close)(void *conn);
    /* Run a request n times. values holds n * n_params values, the first request's first. Answers
     * go to rows, with the request's number. A request that answers nothing has no row. The call
     * returns at deadline at the latest. Either it has answered all requests of the batch, or it
     * fails. If it fails, rows holds at most the answers of requests that were each committed
     * alone: from the first one on, without a gap. Core uses those of SQLOCK_REQ_EACH. call is NULL
     * if no one will cancel it.
     *
     * A driver knows requests by their scripts alone: what one is, its flags say. */
    int (*run)(void *conn, const sqlock_call *call, sqlock_stmt stmt, const sqlock_value *values,
               size_t n, int64_t deadline, sqlock_rows *rows, sqlock_error *err);
    /* Run one statement of a migration. It has no parameters and no rows. */
    int (*exec)(void *conn, const char *sql, int64_t deadline, sqlock_error *err);
    /* A write transaction around migrations. */
    int (*begin)(void *conn, int64_t deadline, sqlock_error *err);
    int (*commit)(void *conn, int64_t deadline, sqlock_error *err);
    int (*rollback)(void *conn, int64_t deadline, sqlock_error *err);
    /* Let the run() with this number return soon with SQLOCK_ECANCELLED, also if it has not begun
     * yet. It hits no other: if that run() has returned, this changes nothing. The connection stays
     * usable only if nothing of that call can reach a later one: it was not sent, or its answer is
     * the database's own error for a cancel. Otherwise err->flags holds SQLOCK_RECONNECT. Any
     * thread, one at a time, numbers rise. Must not block. */
    void (*cancel)(void *conn, uint64_t call);

    /* ---- optional: all that follow. They may still change. */

    /* Work on an application's connection, in its transaction. NULL: the driver lacks it, and
     * sqlock_adopt() fails with SQLOCK_EREFUSED. */
    SQLOCK_EXPERIMENTAL const sqlock_adopter *adopter;

    /* SQLOCK_CAP_WHOLE_URL: a URL may mean another database after the program has changed something
     * about itself, such as its directory. Core calls this once, when a manager or a migrator is
     * made. It opens each connection by the result, which keeps the meaning that url has now.
     * Without I/O on the database. *out_url comes from sqlock_mem_alloc(), and core frees it. */
    SQLOCK_EXPERIMENTAL int (*whole_url)(const char *url, char **out_url, sqlock_error *err);

    /* SQLOCK_CAP_RUNNING: the database of a connection, as a text that no other database has. For a
     * driver whose dialect cannot know it (SQLOCK_COL_RUNNING). Without a request. */
    SQLOCK_EXPERIMENTAL void (*running)(void *conn, char *out, size_t size);

    /* SQLOCK_CAP_HOSTS: a URL may name several servers, of which one grants at a time. Core calls
     * this once, when a manager or a migrator is made. It goes from one host to the next by itself
     * (sqlock_conn_opts.host). A URL that cannot be read has one host: open() reports what is wrong
     * with it. Without I/O on the database. Fails only with SQLOCK_ENOMEM. */
    SQLOCK_EXPERIMENTAL int (*hosts)(const char *url, sqlock_hosts *out, sqlock_error *err);

    /* SQLOCK_CAP_HEARS: the request `notify`, sent over any connection to the database, reaches the
     * connection that listens for its client. listen: from now on. Requests may run over it in
     * between; no notification is lost as long as the connection lives. */
    SQLOCK_EXPERIMENTAL int (*listen)(void *conn, const unsigned char client[16], int64_t deadline,
                                      sqlock_error *err);
    /* Wait until a notification, the deadline or a cancel. Each row is an owner,
     * in its first column. 16 zero bytes: something has happened, and all waiters of the client
     * should look. No row: nothing was, yet. */
    SQLOCK_EXPERIMENTAL int (*hear)(void *conn, const sqlock_call *call, int64_t deadline,
                                    sqlock_rows *rows, sqlock_error *err);
};

/* ---- functions of core for drivers ----------------------------------------------------------- */

/* Fill err and return code. fmt as for printf; the text is cut to fit. */
SQLOCK_API int sqlock_error_set(sqlock_error *err, int code, unsigned flags, const char *fmt, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;
/* Fill err for an error of the database, and return its code. One table in core turns the SQLSTATE
 * into code and SQLOCK_RETRY. flags are added. */
SQLOCK_API int sqlock_error_db(sqlock_error *err, const char *sqlstate, long native, unsigned flags,
                               const char *text);
/* A number for this process, never 0. A child of fork() has another one, even with the same pid in
 * a new pid namespace. Takes no mutex. Any thread. */
SQLOCK_API int64_t sqlock_process_id(void);
/* Sleep so long. Drivers of in-process databases wait between tries with it. */
SQLOCK_API void sqlock_sleep_us(int64_t us);
/* Uniform random number in [0, below); for jitter. */
SQLOCK_API uint32_t sqlock_random_below(uint32_t below);
/* Memory from the library's allocator. free accepts NULL. */
SQLOCK_API void *sqlock_mem_alloc(size_t size); /* zeroed; NULL if there is none */
SQLOCK_API void *sqlock_mem_resize(void *p, size_t size);
SQLOCK_API void sqlock_mem_free(void *p);

/* A descriptor to wake a poll() from another thread (eventfd). make: >= 0 or SQLOCK_ESYS. */
SQLOCK_API int sqlock_wake_make(void);
SQLOCK_API void sqlock_wake_set(int fd);
SQLOCK_API void sqlock_wake_clear(int fd);
SQLOCK_API void sqlock_wake_close(int fd);
/* Messages between the processes of a machine, for drivers of files. They may be lost, and anyone
 * may send them, so a message is a reason to look, and no more. To listen returns a descriptor that
 * is readable when there is one, or SQLOCK_ESYS. To take returns 1 if there was one. To close
 * accepts whatever to listen has returned. */
#define SQLOCK_MESSAGE_SIZE 16
SQLOCK_API int sqlock_message_listen(const unsigned char to[SQLOCK_MESSAGE_SIZE]);
SQLOCK_API void sqlock_message_send(const unsigned char to[SQLOCK_MESSAGE_SIZE],
                                    const unsigned char text[SQLOCK_MESSAGE_SIZE]);
SQLOCK_API int sqlock_message_take(int fd, unsigned char out[SQLOCK_MESSAGE_SIZE]);
SQLOCK_API void sqlock_message_close(int fd);

/* Wait until fd is ready for the poll() events, wake_fd (or -1) is set, or the deadline.
 * Returns 1 ready, 2 woken, 0 deadline, SQLOCK_ESYS. */
SQLOCK_API int sqlock_wait_fd(int fd, int events, int wake_fd, int64_t deadline);

#ifdef __cplusplus
}
#endif
#endif
