/* What the benchmark measures with. A way is one means to acquire and release a lock: sqlock, or a
 * loop over the client library alone. Ways are run in turns, so that a machine that drifts harms
 * all alike; only their ratios mean something. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <sqlock/driver.h>

#define BENCH_CLIENTS_MAX   256
#define BENCH_PROCESSES_MAX 65
#define BENCH_RUNS_MAX      31
#define BENCH_ENTRIES_MAX   12
#define BENCH_LEASE_MS      30000
#define BENCH_LOOK_MS       1000 /* with less for a run it is a look, which is short in all else too */
#define BENCH_LEASES        100000 /* that the bars for leases are about */

/* A server to measure on. A database is migrated and empty of locks. */
struct bench_db {
    const char *name; /* "postgres" */
    const char *url;
    pid_t pid; /* of its first process; 0: unknown, or it has none */
    /* NULL where it is not one of sqlock's databases. */
    const sqlock_driver *driver;
    const sqlock_script *scripts; /* rendered, for the bare loops */
    const struct bench_client *client;
};

/* All of it ends the program with a message when the server fails: a benchmark that went on would
 * measure something else. */
struct bench_way {
    const char *name;
    /* Before its first process starts, and after the last has ended; NULL: nothing to do. */
    void (*prepare)(const struct bench_db *db, int clients);
    void (*clean)(const struct bench_db *db);
    /* What all threads of a process share; NULL where there is nothing. */
    void *(*open)(const struct bench_db *db, int threads);
    void (*close)(void *shared);
    /* One thread's own. Clients have numbers from 0, over all processes. */
    void *(*start)(const struct bench_db *db, void *shared, int client);
    void (*end)(void *own);
    /* Acquire and release the client's own lock once. */
    void (*pair)(void *own);
    /* What counts of that pair, in microseconds; below 0: nothing does. NULL: all of it does. */
    double (*took)(void *own);
    int requests; /* that a pair sends, where nothing can count them */
};

extern const struct bench_way bench_sqlock;         /* a connection for each thread */
extern const struct bench_way bench_sqlock_durable; /* the same, and releases wait for the disk */
extern const struct bench_way bench_swap;           /* so, and each pair is one swap of two names */
extern const struct bench_way bench_shared;         /* a connection each, and a shared lock */
extern const struct bench_way bench_readers;        /* so, and all of one name */
extern const struct bench_way bench_one;            /* a manager with default options */
extern const struct bench_way bench_one_durable;    /* the same, and releases wait for the disk */
extern const struct bench_way bench_one_alone;      /* default, and each request goes alone */

extern const struct bench_way bench_redis_always, bench_redis_everysec, bench_etcd, bench_zookeeper;

/* All clients want the same lock, and hold it for a while; what counts is the hand-over, or all of
 * the pair. See line.h. */
extern const struct bench_way bench_line, bench_line_waits, bench_redis_line, bench_postgres_line;

/* A server that is no database of sqlock's. */
struct bench_peer {
    struct bench_db db;
    const struct bench_way *way;
    const struct bench_way *line; /* NULL: none is measured */
};
void bench_peers_print(void); /* the names of those that bench was built with */
/* Returns 0 if no peer is called like that. */
int bench_peer_add(const struct bench_db *db);
/* NULL: it was not added. */
const struct bench_peer *bench_peer_named(const char *name);
/* Number i of those that were added; NULL after the last. */
const struct bench_peer *bench_peer(size_t i);
/* Lock something once, in this process. */
void bench_peer_try(const struct bench_peer *peer);

/* What a server has done so far; less than 0: nobody knows. */
struct bench_counts {
    double statements, commits;
};

/* What is written with a client library alone. */
struct bench_client {
    const char *database; /* "postgres" */
    const sqlock_driver *(*driver)(void);
    /* Before all else; makes the database itself as applications have it. NULL: nothing to do. */
    void (*create)(const char *url);
    /* Run a statement without an answer, on a connection of its own. */
    void (*run)(const char *url, const char *sql);
    /* A connection as an application opens it, and its end. */
    void *(*login)(const char *url);
    void (*logout)(void *conn);
    /* Begin to count, and end it; NULL: the database always does. */
    void (*counting)(const struct bench_db *db, int on);
    struct bench_counts (*count)(const struct bench_db *db);
    /* sqlock's own statements. */
    const struct bench_way *bare;
    /* The database's advisory locks, which no disk keeps. Without a name: it has none. */
    struct bench_way advisory;
    /* What a user would write who wants nothing but the lock: a kept row, one UPDATE to take it,
     * one to give it back. lean_table creates its table, bench_lean. */
    struct bench_way lean;
    const char *lean_table;
    /* The same, on the table of the lean way beside it, and it does not wait for the disk when it
     * gives the lock back. Without a name: the database cannot. */
    struct bench_way lean_lazy;
    /* The same table: each pair gives one name back and takes another one, in one commit.
     * Without a name: the client library cannot. */
    struct bench_way lean_swap;
    /* The same for a list of names, for which @ stands, as texts: one statement takes them, one
     * gives them back, one renews them. */
    const char *lean_take, *lean_give, *lean_renew;
    /* Run a text on a connection, and read its answer. Returns the number of rows that it changed.
     */
    int (*say)(void *conn, const char *sql);
    /* The least that hands a lock over to a parked waiter; NULL: it is not measured. */
    const struct bench_way *line;
};

/* The lean loop's table, with two rows for each client, and two for its swaps: the same on each
 * database. */
void bench_lean_prepare(const struct bench_db *db, int clients);
void bench_lean_clean(const struct bench_db *db);
/* What bench_many() and bench_renew() measure, by the lean statements. */
struct bench_ratio bench_lean_many(const struct bench_db *db, int n, int runs);
struct bench_ratio bench_lean_renew(const struct bench_db *db, int runs);
/* Take a lock on a connection that is new, and give it back. Returns when it was taken. */
int64_t bench_lean_first(const struct bench_db *db, void *conn);
/* One of the client's texts, for the first n names. */
#define BENCH_LEAN_TEXT 20480
void bench_lean_text(char out[BENCH_LEAN_TEXT], const char *text, int n);

extern const struct bench_client bench_sqlite, bench_postgres, bench_mysql;

struct bench_settings {
    int runs, ms; /* of each way, and how long each of them is */
    int leases;
    int pairs;                             /* 0: measure; else only make so many */
    double instructions, all_instructions; /* of a pair: core and driver, the process; 0: unknown */
    const char *only;                      /* a part's key; NULL: all parts */
    const char *json;                      /* NULL: write none */
    const char *command;                   /* sqlock; NULL: there is none */
};

/* Measure all of a database, or acquire and release alone; print it, and return it as JSON. */
struct json_t *bench_measure(const struct bench_db *db, const struct bench_settings *s);
struct json_t *bench_measure_pairs(const struct bench_db *db, const struct bench_settings *s);
struct json_t *bench_measure_waiting(const struct bench_db *db, const struct bench_settings *s);

/* So many clients, each a thread, of a way: evenly in so many processes, which are its own. */
struct bench_entry {
    const struct bench_db *db;
    const struct bench_way *way;
    int clients, processes;
};

/* One run of an entry. What nobody knows is less than 0. */
struct bench_run {
    double pairs_per_s;
    double p50_us, p99_us;               /* of what counts of a pair */
    double mean_us, most_us;             /* of the same */
    double slowest;                      /* pairs of the slowest client, of the clients' mean */
    double client_cpu_us, server_cpu_us; /* of all threads of all processes, for a pair */
    double statements, commits;          /* that the server did, for a pair; of the first run */
};

/* A figure of several runs, or a ratio of two, run by run. */
struct bench_ratio {
    double median, least, most;
};

struct bench_ratio bench_ratio_of(double *values, int n); /* sorts values */
struct bench_ratio bench_single(double value);            /* measured once */

struct bench_comparison {
    int runs, ms, n;
    struct bench_entry entries[BENCH_ENTRIES_MAX];
    struct bench_run all[BENCH_ENTRIES_MAX][BENCH_RUNS_MAX];
};

/* Run n entries in turns: so many runs, in each of which every one works for ms milliseconds. */
void bench_compare(struct bench_comparison *out, const struct bench_entry *entries, int n,
                   const struct bench_settings *s);
/* Of one field of entry number i. */
struct bench_ratio bench_spread(const struct bench_comparison *c, int i, size_t field);
/* Of one field of entry number i to the same of number k. */
struct bench_ratio bench_ratio_to(const struct bench_comparison *c, int i, int k, size_t field);
#define BENCH_SPREAD(c, i, field)      bench_spread(c, i, offsetof(struct bench_run, field))
#define BENCH_RATIO_TO(c, i, k, field) bench_ratio_to(c, i, k, offsetof(struct bench_run, field))

/* Its table, printed, and as JSON. */
void bench_print_head(void);
struct json_t *bench_print(const struct bench_comparison *c);
/* Note what it says about the goals for pairs; and make figures of all that was noted. */
void bench_judge(const struct bench_db *db, const struct bench_comparison *c);
void bench_goals(const struct bench_db *db);

/* So many pairs on one thread, for a tool that counts what they take. */
void bench_pairs(const struct bench_db *db, int pairs);

/* Medians of how long our way and the other one take, each begun from nothing, and their ratio. */
struct bench_first {
    double us, other_us;
    struct bench_ratio ratio;
};
/* Opening a manager until its first grant, beside two bare logins. lean: one bare login and the
 * lean statement beside them. */
struct bench_first bench_first_grant(const struct bench_db *db, int lean, int runs, int times);
/* `sqlock run NAME true` beside the database's own command with `select 1`, on PostgreSQL and
 * SQLite. locks: that command takes the lean lock, runs true, and gives the lock back. All 0 if
 * there is no such command. */
struct bench_first bench_command(const struct bench_db *db, const char *program, int locks,
                                 int runs, int times);

/* How much longer it takes to acquire and release so many names one by one, than at once. */
struct bench_ratio bench_many(const struct bench_db *db, int n, int runs);

#define BENCH_RENEWED 64
/* How much longer that many renewals take one by one, than in one request; 0 if they did not come
 * together on a machine that is too busy. */
struct bench_ratio bench_renew(const struct bench_db *db, int runs);

/* Waiters of a lock that stays held: so many threads of each process. */
struct bench_held {
    int processes, threads;
    double statements_per_s, commits_per_s; /* while it is held; unknown: below 0 */
    double client_cpu, server_cpu;          /* of one core, while it is held */
    double first_us;                        /* from its release to the first grant */
    double all_us;                          /* and until all had it for a moment */
    double statements_each, commits_each;   /* meanwhile, for each waiter; unknown: below 0 */
    int out_of_order; /* so many had it before one who was first in line; unknown: below 0. A
                         process may have it PASSES_MOST times in a row from its first in line on */
};
struct bench_held bench_hold_up(const struct bench_db *db, int processes, int threads, int hold_ms);

#define BENCH_LATE_MOST 9
/* From the release of a lock that was held so long to the grant of its waiter, in another process:
 * n locks, one after the other. */
void bench_late(const struct bench_db *db, int hold_ms, double *out_ms, int n);

/* How long a waiter has waited for a lock behind the end of its lease, so many times: the holder
 * does not renew it, as if it had died. */
void bench_take_over(const struct bench_db *db, double *out_ms, int times);

/* What each of so many requests without a thread takes of its process while it waits. */
struct bench_parked {
    int requests;
    double bytes, descriptors;
};
struct bench_parked bench_park(const struct bench_db *db, int requests);

struct bench_leases {
    int leases, lease_ms;
    int held;                /* at the end */
    double rss_bytes;        /* that the process grew for each lease */
    double heap_bytes;       /* that malloc() gave for each lease */
    double cpu;              /* of one core, this process */
    double cpu_outside;      /* the same, without the time in the driver and the client library */
    double renewed_per_s;    /* leases */
    double leases_per_batch; /* mean */
    double batch_ms;         /* median time of one request */
};
/* A manager holds so many leases, and renews them by itself; measured for some seconds. */
struct bench_leases bench_hold(const struct bench_db *db, int leases, int lease_ms, int seconds);

/* Figures that have a bar, or shall get one. They are printed together at the end. A value below 0
 * was not measured. */
enum bench_bar { BENCH_NO_BAR, BENCH_AT_LEAST, BENCH_AT_MOST };
void bench_figure(const char *database, const char *what, struct bench_ratio value,
                  enum bench_bar is, double bar);
/* Print them with their verdicts, and return them as JSON. */
struct json_t *bench_figures(void);

int bench_is_sqlite(const struct bench_db *db);
int bench_is_look(const struct bench_settings *s);
double bench_cpu_us(void);                                   /* of this process, so far */
double bench_percentile(double *values, size_t n, double p); /* sorts values */
void bench_owner(unsigned char owner[SQLOCK_OWNER_SIZE]);
void bench_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
