/* An engine: a database of one cell's own, which it may kill, stop, clock and fill. A server is the
 * cell's child, and ends with it. */
#ifndef SQLOCK_TESTS_TORTURE_ENGINE_H
#define SQLOCK_TESTS_TORTURE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <sqlock/sqlock.h>

#include "tests/torture/text.h"

enum engine_family { FAMILY_SQLITE = 1, FAMILY_POSTGRES = 2, FAMILY_MYSQL = 4 };

/* What a cell needs of its engine beyond its being there. */
enum {
    ENGINE_CLOCK = 1,
    ENGINE_SMALL_DISK = 2,
    ENGINE_FOLLOWED = 4, /* others follow it, and may be promoted */
    ENGINE_FRONTED = 8   /* a pooler before it finds it by way of engine_front() */
};

struct engine;

/* What each database does in its own way; those that do not exist there are NULL. First what
 * servers do that follow one another (followers.c). */
struct follow_ops {
    bool (*prepare)(struct engine *primary); /* once: what followers need to be let in; NULL */
    /* These data were copied from a server that was stopped: what is to be changed before they are
     * started, and after that (NULL: nothing). */
    bool (*adapt)(struct engine *e, const struct engine *primary);
    bool (*follow)(struct engine *e, const struct engine *primary);
    /* On the primary: how many are connected. From now on a commit is answered when a follower has
     * it; and whether it is so by now (above 0). */
    const char *followers, *send_synchronous, *reload, *is_synchronous; /* reload: or NULL */
    void (*stall)(struct engine *primary, struct engine *e);            /* it gets nothing more */
    /* It takes over with all that it has got. */
    bool (*promote)(struct engine *e);
    const char *url[2]; /* of all of them: what stands before their hosts, and behind them */
};

struct engine_ops {
    /* The server's command line, which `tests/tools` has. NULL: it is a file. */
    const char *script;
    /* Before the script makes its folder: what that is to know. Of a file: folder and URL. False:
     * e->why. */
    bool (*create)(struct engine *e);
    /* What is to be done after the first start, and e->version. */
    bool (*prepare)(struct engine *e);
    /* How many sessions clients have; end: end them as an administrator does. -1: no answer. */
    int (*sessions)(struct engine *e, bool end);
    void (*end)(void);               /* of what is before the server */
    const char *bulk[3];             /* statements that want room: make, fill, drop */
    const struct follow_ops *follow; /* NULL: none can follow another */
};

struct engine_kind {
    const char *name, *driver;
    enum engine_family family;
    const struct engine_ops *ops;
    const char *variant; /* what makes it another engine than the one of its family */
    bool unprepared;     /* its clients need SQLOCK_OPEN_UNPREPARED */
    const char *mix;     /* what its clients leave out, because it is refused there; NULL */
    const char *spared;  /* the kind of faults that the server itself does not get over; NULL */
    bool followed;       /* it is tried in pairs and triples */
    int32_t unseen_ms;   /* so long a killed waiter may go unseen, and its offers keep others out */
};

struct engine {
    const struct engine_kind *kind;
    unsigned wants;
    char url[512];        /* of the database itself */
    char client_url[512]; /* that clients use: of a pooler before it, of all servers, or the same */
    char args[600];       /* on its command line; "" */
    int port;             /* on 127.0.0.1; 0: none */
    int number;           /* of those that follow one another: 1, 2, 3 */
    char front[256];      /* the link that leads to the folder of whichever is the primary; "" */
    char dir[256];        /* of the server, or of the file */
    char top[256];        /* the small disk, "" */
    char clock[320];      /* the file that tells how far the clock is stepped */
    char version[96];
    char why[512]; /* there can be none here */
    pid_t server;
    bool stopped;  /* by SIGSTOP */
    void *session; /* of the cell's own, for engine_exec(): see client_app.h */
};

/* NULL: no engine is called so. engine_at(): all of them, NULL behind the last. */
const struct engine_kind *engine_kind_of(const char *name);
const struct engine_kind *engine_at(size_t i);

/* Make and start one. False: it cannot be had here, for the reason in e->why; or, without a reason,
 * it did not work, which is told on stderr. */
bool engine_start(struct engine *e, const struct engine_kind *kind, unsigned wants);
/* Only its folder and URL, for a copy of another's data; number: 2, 3 ... */
bool engine_create(struct engine *e, const struct engine_kind *kind, unsigned wants, int number);
void engine_stop(struct engine *e);

/* A server's end without a word: all its processes, with -9. engine_launch() starts it again on
 * what is on its disk, and returns when it answers. */
void engine_kill(struct engine *e);
bool engine_launch(struct engine *e);
/* Whether it is up, or has ended by itself. */
bool engine_runs(struct engine *e);
/* All its processes, with SIGSTOP and SIGCONT. */
void engine_pause(struct engine *e, bool stopped);
/* Put its wall clock so many seconds before the true one; of an engine with ENGINE_CLOCK. Under
 * SQLite it is the clock of all clients, as a machine's is: engine_env() tells them of it. */
void engine_clock(struct engine *e, int seconds);
void engine_env(const struct engine *e); /* in a client, before exec */

const sqlock_driver *engine_driver(const struct engine *e);
/* A statement in a session of the cell's own, which is made when it is needed. False: refused, or
 * the session is gone. */
bool engine_exec(struct engine *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The first number of the first row, or -1. */
int64_t engine_number(struct engine *e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void engine_forget(struct engine *e);
/* The folder that a server's data, socket and log lie in: a text(). */
const char *engine_folder(const struct engine *e);
/* Lead e->front, which is made at the first time, to the folder of this one. False: e->why. */
bool engine_front(struct engine *e);

/* Leave no room on the small disk, and give it back. */
void engine_fill(struct engine *e);
void engine_free(struct engine *e);

/* ---- engine_machine.c ------------------------------------------------------------------------ */

/* What the engine wants of it. False: e->why. */
bool engine_machine(struct engine *e);
void engine_machine_end(const struct engine *e);
void engine_clock_env(const struct engine *e); /* in a server, before exec */
/* The server has aborted by itself, as libfaketime lets PostgreSQL do on a busy machine: it calls
 * malloc() in signal handlers. The crash may lose a release. */
bool engine_clock_broke(const struct engine *e);

/* ---- the families ---------------------------------------------------------------------------- */

extern const struct engine_ops engine_sqlite, engine_postgres, engine_mysql;

/* With TORTURE_CLOCK in the environment, the clock of a SQLite file: see the time by it. */
void engine_sqlite_clock(void);

/* Of the scripts in tests/tools: what it prints in one line. False: e->why. */
bool engine_script(struct engine *e, const char *command, char *out, size_t size);

#endif
