/* What the command ends with. Scripts and monitors rely on these numbers: none ever changes. `run`
 * hands on its child's status besides. */
#ifndef SQLOCK_CLI_EXITS_H
#define SQLOCK_CLI_EXITS_H

enum exit_code {
    EXIT_DONE = 0,
    EXIT_NO = 1,           /* the answer is no: nothing is there, the grant is gone */
    EXIT_USAGE = 64,       /* wrong usage */
    EXIT_DATA = 65,        /* the database file or a row is not what it must be */
    EXIT_UNREACHABLE = 69, /* the database cannot be reached, or does not answer */
    EXIT_INTERNAL = 70,    /* an error that has no number of its own */
    EXIT_IO = 74,          /* input or output failed; the database could not write */
    EXIT_BUSY = 75,        /* held by someone else until the wait ran out */
    EXIT_LOST = 76,        /* the lock was lost while the command ran, which was stopped */
    EXIT_DENIED = 77,      /* refused by the database: login, privileges */
    EXIT_SETUP = 78,       /* no URL, no driver, no schema, a replica, a promise it cannot keep */
    EXIT_UNSURE = 79,      /* the reply was lost and what it said could not be found out */
    EXIT_MAX_TIME = 124,   /* --max-time was reached */
    EXIT_NOT_RUNNABLE = 126,
    EXIT_NOT_FOUND = 127,
    EXIT_SIGNAL = 128 /* and the number of the signal */
};

#endif
