/* Notifications: which owners of a client should look at their locks. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "postgres.h"

#define CLIENT_SIZE 16
#define OWNER_SIZE  16

/* The name is what the request `notify` sends to. It goes by the client alone, which is random. */
int pg_listen(void *conn, const unsigned char client[CLIENT_SIZE], int64_t deadline,
              sqlock_error *err)
{
    struct pg_conn *c = conn;
    struct pg_call call = {deadline, 0, err};
    char sql[64] = "LISTEN sqlock_", *at = sql + strlen(sql);
    int rc;

    for (int i = 0; i < CLIENT_SIZE; i++, at += 2)
        snprintf(at, 3, "%02x", client[i]);
    c->listens = 1;
    rc = pg_command(c, &call, sql, NULL);
    pg_call_end(c);
    return rc;
}

static int note_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Anyone may notify, so the text is not trusted. */
static int note_owner(const char *text, unsigned char owner[OWNER_SIZE])
{
    for (int i = 0; i < OWNER_SIZE; i++) {
        int high = note_digit(text[2 * i]), low = high < 0 ? -1 : note_digit(text[2 * i + 1]);

        if (low < 0)
            return 0;
        owner[i] = (unsigned char)(high * 16 + low);
    }
    return text[2 * OWNER_SIZE] == '\0';
}

static int notes_take(struct pg_conn *c, sqlock_rows *rows)
{
    unsigned char owner[OWNER_SIZE];
    PGnotify *note;
    int rc = 0;

    while (rc == 0 && (note = PQnotifies(c->pg)) != NULL) {
        if (note_owner(note->extra, owner)) {
            rc = sqlock_rows_add(rows, 0);
            rc = rc == 0 ? sqlock_rows_put_bytes(rows, owner, sizeof owner) : rc;
        }
        PQfreemem(note);
    }
    return rc;
}

/* Returns 1 if the wait is over. */
static int hear_wait(struct pg_conn *c, const struct pg_call *call, int *out_rc)
{
    int r;

    if (pg_is_cancelled(c))
        return 1;
    r = sqlock_wait_fd(PQsocket(c->pg), POLLIN, c->wake_fd, call->deadline);
    if (r == 2)
        sqlock_wake_clear(c->wake_fd);
    else if (r == SQLOCK_ESYS)
        *out_rc = sqlock_error_set(call->err, SQLOCK_ESYS, SQLOCK_RETRY, "poll failed");
    return r == 0 || r == SQLOCK_ESYS;
}

int pg_hear(void *conn, const sqlock_call *number, int64_t deadline, sqlock_rows *rows,
            sqlock_error *err)
{
    struct pg_conn *c = conn;
    struct pg_call call = {deadline, 0, err};
    int rc = 0;

    c->call = number->number;
    for (;;) {
        if (c->broken || !PQconsumeInput(c->pg) || c->ended[0] != '\0' ||
            PQstatus(c->pg) != CONNECTION_OK) {
            rc = pg_fail_ended(c, &call);
            break;
        }
        PQisBusy(c->pg); /* reads what came in */
        if (notes_take(c, rows) != 0)
            rc = sqlock_error_set(err, SQLOCK_ENOMEM, 0, "out of memory");
        if (rc != 0 || sqlock_rows_count(rows) > 0 || hear_wait(c, &call, &rc))
            break;
    }
    pg_call_end(c);
    return rc;
}
