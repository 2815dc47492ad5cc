/* Exit codes. Scripts and monitors rely on these numbers, so none ever changes. `run` also returns
 * its child's status. */
#ifndef SQLOCK_CLI_EXITS_H
#define SQLOCK_CLI_EXITS_H

enum exit_code {
    EXIT_DONE = 0,
    EXIT_NO = 1,           /* the answer is no: no such lock, the grant is gone, no one leads */
    EXIT_USAGE = 64,       /* wrong usage */
    EXIT_DATA = 65,        /* the database file or a row is damaged or unknown */
    EXIT_UNREACHABLE = 69, /* the database cannot be reached, or does not answer */
    EXIT_INTERNAL = 70,    /* an error without a number of its own */
    EXIT_IO = 74,          /* input or output failed; the database could not write */
    EXIT_BUSY = 75,        /* held by someone else until the wait ran out */
    EXIT_LOST = 76,        /* the lock was lost, and the command was stopped */
    EXIT_DENIED = 77,      /* refused by the database: login, privileges */
    EXIT_SETUP = 78,       /* no URL, no driver, no schema, a replica, a promise it cannot keep */
    EXIT_UNSURE = 79,      /* the reply was lost, and could not be settled */
    EXIT_DEADLOCK = 80,    /* actors wait for each other in a circle, and this one gave up */
    EXIT_MAX_TIME = 124,   /* --max-time was reached */
    EXIT_NOT_RUNNABLE = 126,
    EXIT_NOT_FOUND = 127,
    EXIT_SIGNAL = 128 /* plus the number of the signal */
};

#endif
