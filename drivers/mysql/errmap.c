/* What an error means: its SQLSTATE, whether the request may have been applied, whether the
 * connection is still usable. One table in core says which code belongs to a SQLSTATE. The server's
 * own SQLSTATEs are too coarse for it, so the number decides first. */
#include <errmsg.h>
#include <string.h>

#include "mysql.h"

#define DOUBT 0x1 /* the commit may have happened */
#define SPENT 0x2 /* the session has ended, or is about to */
#define UNFIT 0x4 /* alive but useless: try another server. An adopted connection stays */

static const struct meaning {
    unsigned number;
    const char *state;
    int what;
} meanings[] = {
    {1205, "55P03", 0},             /* lock wait timeout */
    {3572, "55P03", 0},             /* NOWAIT */
    {1062, "40001", 0},             /* duplicate key: a lost race */
    {1213, "40P01", 0},             /* deadlock */
    {1020, "40001", 0},             /* record has changed (snapshot isolation) */
    {3101, "40001", 0},             /* certification failed */
    {1180, "40001", DOUBT},         /* error during commit */
    {1290, "25006", UNFIT},         /* --read-only */
    {1792, "25006", UNFIT},         /* read-only transaction */
    {1836, "25006", UNFIT},         /* read-only mode */
    {1040, "53300", UNFIT},         /* too many connections */
    {1203, "53300", UNFIT},         /* ... of this user */
    {1226, "53300", UNFIT},         /* ... or a resource limit */
    {1044, "28000", 0},             /* access to the database denied */
    {1045, "28000", UNFIT},         /* login refused */
    {1049, "3D000", UNFIT},         /* unknown database */
    {1046, "3D000", 0},             /* no database chosen */
    {1142, "42501", 0},             /* privileges */
    {1143, "42501", 0},             /* ... on a column */
    {1146, "42P01", 0},             /* no such table */
    {1054, "42703", 0},             /* no such column */
    {1021, "53100", DOUBT},         /* disk full */
    {1114, "53100", 0},             /* table full */
    {1026, "58030", DOUBT},         /* error writing a file */
    {1037, "53200", 0},             /* out of memory */
    {1041, "53200", 0},             /* ... of resources */
    {1047, "57P03", UNFIT},         /* Galera: the node is not ready */
    {1053, "57P01", DOUBT | SPENT}, /* shutdown */
    {1317, "57014", DOUBT},         /* interrupted */
    {1969, "57014", DOUBT},         /* max_statement_time: whatever took so long */
    {3024, "57014", 0},             /* max_execution_time: of queries only */
    {1927, "57P01", DOUBT | SPENT}, /* connection killed */
    {4031, "57P05", SPENT},         /* idle for too long; sent before a request was read */
    {1665, "0A000", 0},             /* statement binlog under READ COMMITTED */
    {CR_OUT_OF_MEMORY, "53200", DOUBT | SPENT},
};

static const struct meaning *meaning_of(unsigned number)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].number == number)
            return &meanings[i];
    return NULL;
}

static int link_spent(struct my_conn *c, unsigned flags, int code)
{
    if (flags & SQLOCK_RECONNECT)
        c->broken = 1;
    return code;
}

static unsigned call_lost_flags(const struct my_call *call)
{
    return SQLOCK_RECONNECT | (call->applies ? SQLOCK_MAYBE : 0u);
}

/* An error of the server's in autocommit means that its statement changed nothing, unless it ended
 * the session or came up in the commit. The statements before it in the packet stand, except in a
 * transaction that is rolled back now: no COMMIT was run. An error of the client library's (2000 to
 * 2999) means that no answer came. */
int my_fail(struct my_conn *c, const struct my_call *call)
{
    unsigned number = mysql_errno(c->my);
    const struct meaning *m = meaning_of(number);
    const char *state = m != NULL ? m->state : mysql_sqlstate(c->my);
    const char *text =
        number == 1046 ? "the URL names no database: mysql://HOST/DATABASE" : mysql_error(c->my);
    int client = number >= CR_MIN_ERROR && number <= CR_MAX_ERROR;
    int what = m != NULL ? m->what : client || number == 0 ? DOUBT | SPENT : 0;
    unsigned flags = what & (c->adopted ? SPENT : SPENT | UNFIT) ? SQLOCK_RECONNECT : 0u;
    int undone = call->rolls_back && !client && !(what & SPENT) && strcmp(call->at, "COMMIT") != 0;

    if (call->applies && !undone && (what & DOUBT || call->applied))
        flags |= SQLOCK_MAYBE;
    if (client && m == NULL)
        state = "08006";
    if (c->adopted && number == 1062) /* in an application's table: no race of ours */
        state = "23505";
    /* a failure inside what must have been autocommit, or of a COMMIT */
    if (!c->adopted && (c->my->server_status & SERVER_STATUS_IN_TRANS) && !undone)
        flags |= SQLOCK_RECONNECT;
    return link_spent(c, flags,
                      sqlock_error_db(call->err, state, (long)number, flags,
                                      *text != '\0' ? text : "the connection was lost"));
}

/* A wait ended without the answer, which may still come. So the connection cannot be used for
 * anything else. */
int my_fail_wait(struct my_conn *c, const struct my_call *call, int code)
{
    unsigned flags = call_lost_flags(call);
    const char *text = "waiting for the server failed";

    if (code == SQLOCK_ECANCELLED)
        text = "cancelled while waiting for the server";
    else if (code == SQLOCK_ETIMEOUT)
        text = "no answer from the server before the deadline";
    return link_spent(c, flags, sqlock_error_set(call->err, code, flags, "%s", text));
}

/* The session had ended before anything was sent: nothing can have been applied. */
int my_fail_ended(struct my_conn *c, const struct my_call *call)
{
    return link_spent(c, SQLOCK_RECONNECT,
                      sqlock_error_db(call->err, "08006", 0, SQLOCK_RECONNECT,
                                      "the server had closed the connection"));
}

int my_fail_connect(struct my_conn *c, sqlock_error *err)
{
    unsigned number = mysql_errno(c->my);
    const struct meaning *m = meaning_of(number);
    const char *state = m != NULL ? m->state : mysql_sqlstate(c->my);

    if (number >= CR_MIN_ERROR && number <= CR_MAX_ERROR && m == NULL)
        state = "08001";
    return sqlock_error_db(err, state, (long)number, 0, mysql_error(c->my));
}
