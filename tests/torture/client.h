/* The load of a cell: processes whose threads do all that the library can do, on a few names, and
 * write the history of what they asked and were told.
 *
 * A client is a process that was executed, not only forked (SQLite). It is this program again:
 *
 *     client --folder DIR --process N --url URL --seed S --names K --threads T --lease MS --seconds
 * S
 *            [--mix "WORD=NUMBER ..."] [--allow "SQLOCK_EFULL ..."] [--unprepared] [--command]
 *            [--grace MS] [--side N]
 *
 * It writes DIR/N.history and ends by itself after its time, or on SIGTERM. Then it gives back what
 * it holds and closes what it has opened. It ends with 0, or it says a sentence on stderr: it was
 * given an answer that nothing explains (which codes a cell's faults explain is told by --allow; a
 * lock that is busy or lost, a reply that was lost and a database that is away need no
 * explanation), or a descriptor was left open.
 *
 * The seed decides how many managers the threads share. --mix changes the weights and chances of
 * client_plan.h. --side is what V_SIDE says of it. --command is another
 * kind of client, which runs the command again and again; its holders are `held` (below). */
#ifndef SQLOCK_TESTS_TORTURE_CLIENT_H
#define SQLOCK_TESTS_TORTURE_CLIENT_H

#include "tests/torture/check.h"

/* What a program of this folder does first: if argv[1] is "client" or "held" it is one, and this is
 * what to end with; else -1. */
int client_dispatch(int argc, char **argv);

/* Both take what is behind that word. */
int client_main(int argc, char **argv);
/* The command's child: held --folder DIR --process N --asked US --work-ms MS, with $SQLOCK_NAME and
 * $SQLOCK_TOKEN. It notes the grant and beats as long as it works, and its thread is its pid. */
int client_held(int argc, char **argv);

/* Make the tables of the application, torture_guarded, torture_rows and torture_cas, with a row for
 * each name, all of it anew; the library's schema is there already. False: why is on stderr. */
bool client_tables(const char *url, uint32_t names);

/* What is in them, for the checker: of so many names. Waits up to 10 s for a lost database. */
bool client_final(const char *url, uint32_t names, struct check_row *out);

/* What a process has: descriptors that are open, threads, memory that is allocated. What a client
 * has more at its end than at its begin, it left behind. */
struct left {
    int descriptors, threads;
    int64_t bytes; /* by malloc(), in all threads */
};

/* At a client's begin, before it has threads. They share one arena of malloc(): each takes some KiB
 * that would look like something left. */
struct left left_begin(void);
struct left left_now(void);
/* Whether nothing is left of what came since; else it is told on `say`. What the C library keeps of
 * so many threads is nothing. */
bool left_nothing(const struct left *before, int64_t threads, FILE *say);

#endif
