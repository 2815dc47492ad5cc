/* Notifications: a message from process to process, and a look whether the file has changed. */
#include "sqlite.h"

#include <poll.h>

#define GAP_US INT64_C(10000)

/* Without messages the waiter sees that the file has changed. The first hear() finds so at once. */
int lite_listen(void *arg, const unsigned char client[SQLOCK_MESSAGE_SIZE], int64_t deadline,
                sqlock_error *err)
{
    lite_conn *conn = arg;

    (void)deadline;
    (void)err;
    conn->heard = -1;
    conn->look_at = 0;
    sqlock_message_close(conn->ear);
    conn->ear = sqlock_message_listen(client);
    return 0;
}

/* sqlock_notify(client, owner), for the request `notify`. */
static void notify_call(sqlite3_context *context, int n, sqlite3_value **values)
{
    (void)n;
    if (sqlite3_value_bytes(values[0]) == SQLOCK_MESSAGE_SIZE &&
        sqlite3_value_bytes(values[1]) == SQLOCK_MESSAGE_SIZE)
        sqlock_message_send(sqlite3_value_blob(values[0]), sqlite3_value_blob(values[1]));
    sqlite3_result_int(context, 1);
}

int lite_notify_make(lite_conn *conn, sqlock_error *err)
{
    int rc = sqlite3_create_function(conn->db, "sqlock_notify", 2, SQLITE_UTF8 | SQLITE_DIRECTONLY,
                                     NULL, notify_call, NULL, NULL);

    return rc == SQLITE_OK ? 0 : lite_error(conn, rc, 0, NULL, err);
}

static int hear_report(const unsigned char owner[SQLOCK_MESSAGE_SIZE], sqlock_rows *rows,
                       sqlock_error *err)
{
    int rc = sqlock_rows_add(rows, 0);

    rc = rc == 0 ? sqlock_rows_put_bytes(rows, owner, SQLOCK_MESSAGE_SIZE) : rc;
    return rc == 0 ? 0 : sqlock_error_set(err, rc, 0, "out of memory");
}

/* Anyone on this machine may send, so a message is a reason to look, and no more. */
static int hear_messages(const lite_conn *conn, sqlock_rows *rows, sqlock_error *err)
{
    unsigned char owner[SQLOCK_MESSAGE_SIZE];
    int rc = 0;

    while (rc == 0 && sqlock_message_take(conn->ear, owner))
        rc = hear_report(owner, rows, err);
    return rc;
}

/* data_version counts the commits of others, in this process and elsewhere, as this connection gets
 * to know of them. To read it takes a shared lock for a moment, and writes nothing. */
static int version_read(lite_conn *conn, int64_t *out, sqlock_error *err)
{
    int rc = 0, step;

    if (conn->version == NULL)
        rc = lite_prepare(conn, "PRAGMA main.data_version", &conn->version, err);
    if (rc != 0)
        return rc;
    step = sqlite3_step(conn->version);
    if (step == SQLITE_ROW)
        *out = sqlite3_column_int64(conn->version, 0);
    else if ((step & 0xff) != SQLITE_BUSY && (step & 0xff) != SQLITE_INTERRUPT)
        rc = lite_error(conn, step, 0, NULL, err);
    sqlite3_reset(conn->version);
    return rc;
}

/* No owner: all waiters of the client should look. A file that changes all the time does not cost
 * all the time: the next look is a moment later. */
static int hear_change(lite_conn *conn, int64_t now, sqlock_rows *rows, sqlock_error *err)
{
    static const unsigned char all[SQLOCK_MESSAGE_SIZE];
    int64_t version = conn->heard;
    int rc = version_read(conn, &version, err);

    conn->look_at = now + GAP_US;
    if (rc != 0 || version == conn->heard)
        return rc;
    conn->heard = version;
    return hear_report(all, rows, err);
}

/* Without threads this wait lets the application's loop go on. */
static int hear_wait(const lite_conn *conn, int64_t until, sqlock_error *err)
{
    int rc = sqlock_wait_fd(conn->ear, POLLIN, conn->wake_fd, until);

    if (rc == 2)
        sqlock_wake_clear(conn->wake_fd);
    return rc >= 0 ? 0 : sqlock_error_set(err, rc, SQLOCK_RETRY, "poll failed");
}

int lite_hear(void *arg, const sqlock_call *number, int64_t deadline, sqlock_rows *rows,
              sqlock_error *err)
{
    const size_t n_rows = sqlock_rows_count(rows);
    lite_conn *conn = arg;
    int rc;

    conn->call = number->number;
    lite_call_start(conn, deadline);
    while ((rc = hear_messages(conn, rows, err)) == 0 && sqlock_rows_count(rows) == n_rows) {
        int64_t now = sqlock_now_us();

        if (now >= conn->look_at && (rc = hear_change(conn, now, rows, err)) != 0)
            break;
        if (sqlock_rows_count(rows) > n_rows || now >= deadline || lite_is_cancelled(conn))
            break;
        rc = hear_wait(conn, deadline < conn->look_at ? deadline : conn->look_at, err);
        if (rc != 0)
            break;
    }
    lite_call_end(conn);
    return rc;
}
