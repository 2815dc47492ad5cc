/* What an error means: its SQLSTATE, whether the request may have been applied, whether the
 * connection is still usable. One table in core says which code belongs to a SQLSTATE. */
#include <stdio.h>
#include <string.h>

#include "postgres.h"

#define LOST       "08006" /* connection_failure: there was a connection */
#define NO_CONNECT "08001" /* there never was one */

static int state_is_one_of(const char *state, const char *list)
{
    return strlen(state) == 5 && strstr(list, state) != NULL;
}

static int text_is_sqlstate(const char *s)
{
    return strspn(s, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5;
}

/* LOCATION lines of verbose messages end with `, auth.c:326`, which is of no use to users. */
static int line_is_location(const char *line, size_t len)
{
    size_t digits = 0;

    while (digits < len && line[len - digits - 1] >= '0' && line[len - digits - 1] <= '9')
        digits++;
    return digits > 0 && digits + 3 <= len && memcmp(line + len - digits - 3, ".c:", 3) == 0;
}

/* libpq tries again without TLS, or with it, and reports the server's message for both tries. */
static int line_is_repeated(const char *text, const char *line, size_t len)
{
    for (const char *before = text; before < line; before += strcspn(before, "\r\n") + 1)
        if (strcspn(before, "\r\n") == len && memcmp(before, line, len) == 0)
            return 1;
    return 0;
}

/* libpq guesses at the cause in a line of its own, which begins with a tab. */
void pg_one_line(char *out, size_t size, const char *text)
{
    const char *all = text;
    size_t n = 0;
    int blank = 0, next_line = 0;

    while (*text != '\0') {
        size_t len = strcspn(text, "\r\n");
        int skip = *text == '\t' || line_is_location(text, len) || line_is_repeated(all, text, len);

        for (size_t i = 0; !skip && i < len && n + 3 < size; i++) {
            if (text[i] == ' ' || text[i] == '\t') {
                blank = n > 0;
                continue;
            }
            if (next_line)
                out[n++] = ';';
            if (next_line || blank)
                out[n++] = ' ';
            next_line = blank = 0;
            out[n++] = text[i];
        }
        next_line = n > 0;
        text += len;
        text += strspn(text, "\r\n");
    }
    out[n] = '\0';
}

/* The words of libpq and the resolver: nothing else shows it. */
int pg_is_memory(const char *message)
{
    return strstr(message, "out of memory") != NULL ||
           strstr(message, "Memory allocation failure") != NULL;
}

/* Core's table may want a new connection too. This decides whether the present one is spent. An
 * adopted connection is spent only if flags say so. Then it must be unusable for the application
 * too, because an answer of ours may be on its way. */
static int link_spent(struct pg_conn *c, const struct pg_call *call, unsigned flags, int code)
{
    if (flags & SQLOCK_RECONNECT) {
        c->broken = 1;
        if (c->adopted)
            pg_adopted_sever(c);
    } else if (c->adopted) {
        call->err->flags &= ~(unsigned)SQLOCK_RECONNECT;
    }
    return code;
}

static unsigned call_lost_flags(const struct pg_call *call)
{
    return SQLOCK_RECONNECT | (call->applies ? SQLOCK_MAYBE : 0u);
}

/* An ERROR in autocommit means that nothing was applied: the server sent it instead of the commit.
 * The exceptions end the session, or come from something in between, and may be sent after a
 * commit: the end of the server, a pooler that lost its server (08...), a cancel. The idle timeouts
 * are sent before a request was read, so they leave no doubt. */
static unsigned call_error_flags(const struct pg_conn *c, const struct pg_call *call,
                                 const char *state, const char *severity)
{
    int fatal = strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0;
    unsigned flags = 0;

    if (state_is_one_of(state, "57P03 25P03 57P05"))
        return SQLOCK_RECONNECT;
    if (fatal || strncmp(state, "08", 2) == 0 || state_is_one_of(state, "57P01 57P02"))
        return call_lost_flags(call);
    if (strcmp(state, "57014") == 0 && call->applies)
        flags |= SQLOCK_MAYBE;
    if (PQstatus(c->pg) != CONNECTION_OK)
        flags |= SQLOCK_RECONNECT;
    if (!c->in_tx && PQtransactionStatus(c->pg) != PQTRANS_IDLE)
        flags |= SQLOCK_RECONNECT;
    return flags;
}

/* On an adopted connection: a statement that ended because we cancelled it, or at one of our
 * limits. */
static int call_fail_cut(const struct pg_conn *c, const struct pg_call *call)
{
    return sqlock_error_set(call->err, c->cut, 0,
                            c->cut == SQLOCK_ECANCELLED
                                ? "cancelled while waiting for the server"
                                : "the server had not finished at the deadline");
}

int pg_fail_result(struct pg_conn *c, const struct pg_call *call, const PGresult *res)
{
    const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
    const char *severity = PQresultErrorField(res, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *message = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);
    char text[PG_TEXT_SIZE];
    unsigned flags;

    if (state == NULL || !text_is_sqlstate(state)) /* libpq's own */
        return pg_fail_lost(c, call);
    if (c->cut == 0 && pg_adopted_limited(c, state, message))
        c->cut = SQLOCK_ETIMEOUT;
    if (c->cut != 0 && (strcmp(state, "57014") == 0 || strcmp(state, "55P03") == 0))
        return call_fail_cut(c, call);
    flags = call_error_flags(c, call, state, severity != NULL ? severity : "");
    pg_one_line(text, sizeof text, message != NULL ? message : "no message");
    pg_adopted_text(c, text);
    return link_spent(c, call, flags, sqlock_error_db(call->err, state, 0, flags, text));
}

/* libpq gave up: the connection broke, or there was no memory for an answer. No one knows what it
 * had read by then, so the connection is spent in both cases. On an adopted connection that does
 * not matter if all of the answer has come: it is still in a transaction, and undoes what was
 * done. */
int pg_fail_lost(struct pg_conn *c, const struct pg_call *call)
{
    const char *message = PQerrorMessage(c->pg);
    const char *state = pg_is_memory(message) ? "53200" : LOST;
    int in_order = c->adopted && !c->under_way && pg_native_state(c->pg) != SQLOCK_TX_UNKNOWN;
    unsigned flags = in_order ? 0 : call_lost_flags(call);
    char text[PG_TEXT_SIZE];

    /* Only the first line: libpq adds its own guess, and what else failed. */
    snprintf(text, sizeof text, "%.*s", (int)strcspn(message, "\n"), message);
    if (text[0] == '\0')
        snprintf(text, sizeof text, "the connection was lost");
    return link_spent(c, call, flags, sqlock_error_db(call->err, state, 0, flags, text));
}

/* A wait ended without the answer, which may still come. So the connection cannot be used for
 * anything else. */
int pg_fail_wait(struct pg_conn *c, const struct pg_call *call, int code)
{
    unsigned flags = call_lost_flags(call);
    const char *text = "waiting for the server failed";

    if (code == SQLOCK_ECANCELLED)
        text = "cancelled while waiting for the server";
    else if (code == SQLOCK_ETIMEOUT)
        text = "no answer from the server before the deadline";
    return link_spent(c, call, flags, sqlock_error_set(call->err, code, flags, "%s", text));
}

/* The server answered with success, but the commit may not last. */
int pg_fail_doubt(struct pg_conn *c, const struct pg_call *call, const char *why)
{
    unsigned flags = call_lost_flags(call);

    return link_spent(c, call, flags, sqlock_error_db(call->err, "01000", 0, flags, why));
}

/* The session had ended before anything was sent: nothing can have been applied. */
int pg_fail_ended(struct pg_conn *c, const struct pg_call *call)
{
    const char *state = c->ended[0] != '\0' ? c->ended : LOST;
    const char *text = c->broken ? "the connection was given up before" : c->notice;

    if (text[0] == '\0')
        text = "the server had closed the connection";
    return link_spent(c, call, SQLOCK_RECONNECT,
                      sqlock_error_db(call->err, state, 0, SQLOCK_RECONNECT, text));
}

/* The last `FATAL:  28P01: ` in a verbose message comes from the last host that was tried. The
 * words depend on the server's language, this does not. */
static const char *message_find_sqlstate(const char *message)
{
    const char *found = NULL;

    for (const char *p = strstr(message, ":  "); p != NULL; p = strstr(p + 1, ":  "))
        if (text_is_sqlstate(p + 3) && p[8] == ':')
            found = p + 3;
    return found;
}

/* A fault in the URL or a PG... variable. libpq checks them when it begins to connect, and another
 * try is of no use. Its words are English, unless a program of another language has set
 * LC_MESSAGES. */
static int message_is_setting(const char *message)
{
    return strncmp(message, "invalid ", 8) == 0 || strncmp(message, "could not match ", 16) == 0;
}

int pg_fail_connect(PGconn *pg, sqlock_error *err)
{
    const char *message = PQerrorMessage(pg);
    const char *found = message_find_sqlstate(message);
    char state[6] = NO_CONNECT;
    char text[PG_TEXT_SIZE];

    if (found != NULL)
        memcpy(state, found, 5);
    else if (PQconnectionNeedsPassword(pg))
        memcpy(state, "28P01", 5);
    else if (pg_is_memory(message))
        memcpy(state, "53200", 5);
    pg_one_line(text, sizeof text, message);
    if (found == NULL && message_is_setting(message))
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the URL's settings: %s", text);
    return sqlock_error_db(err, state, 0, 0, text);
}
