/* An adopted connection: whether the driver can work on it, the state of its transaction, our
 * savepoint in it; and the table of such connections. */
#include <dlfcn.h>
#include <string.h>

#include "mysql.h"

/* ---- whose library --------------------------------------------------------------------------- */

/* Where the program or library that has this address begins; NULL: none has it. */
static const void *address_object(const void *address)
{
    Dl_info info;

    return address != NULL && dladdr(address, &info) != 0 ? info.dli_fbase : NULL;
}

/* The copy of the client library that this driver calls: charsets are constants within it. The
 * address of a function would not do: in a program that is not position independent it is that of a
 * stub. */
static const void *library_own(void)
{
    MYSQL *own = my_init();
    const void *library = own != NULL ? address_object(own->charset) : NULL;

    mysql_close(own);
    return library;
}

/* The caller uses the same copy if it names the same function. Or it names one within that copy, if
 * the loader gave the two of us different addresses for it. In a program that is linked together
 * with this driver, everything is one object, which proves nothing. */
static int library_is_same(void (*theirs)(void), const void *library)
{
    static const char here;
    void *function = NULL;

    if (theirs == (void (*)(void))mysql_init)
        return 1;
    memcpy(&function, &theirs, sizeof function);
    return library != NULL && library != address_object(&here) &&
           address_object(function) == library;
}

static int library_check(const sqlock_adopt_opts *opts, sqlock_error *err)
{
    const MYSQL *my = opts->native;
    const void *library;

    if (opts->native_size != 0 && opts->native_size != sizeof(MYSQL))
        return sqlock_error_set(
            err, SQLOCK_EREFUSED, 0,
            "the program was compiled for another client library: its MYSQL has "
            "%zu bytes, the driver's %zu",
            opts->native_size, sizeof(MYSQL));
    library = library_own();
    if (opts->library != NULL && !library_is_same(opts->library, library))
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                "the program and sqlock use two client libraries in one process");
    if (my->methods != NULL && address_object(my->methods) != library)
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                "another client library than sqlock's made the connection");
    return 0;
}

/* ---- adopting -------------------------------------------------------------------------------- */

static int native_check(MYSQL *my, sqlock_error *err)
{
    const char *mode;

    if (my_client_socket(my) < 0)
        return sqlock_error_set(err, SQLOCK_ESTATE, 0, "the connection is not connected");
    if (my_adopted_busy(my))
        return sqlock_error_set(err, SQLOCK_ESTATE, 0,
                                "an answer on the connection has not been read to its end");
    if ((mode = my_client_strays(my)) != NULL)
        return sqlock_error_set(err, SQLOCK_ESTATE, 0, "the connection has %s", mode);
    return 0;
}

static int adopted_make(const sqlock_adopt_opts *opts, void **out_conn, sqlock_error *err)
{
    struct my_conn *c = NULL;
    int rc;

    if (opts->native == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "there is no connection to adopt");
    if ((rc = library_check(opts, err)) != 0 || (rc = native_check(opts->native, err)) != 0)
        return rc;
    if ((c = sqlock_mem_alloc(sizeof *c)) == NULL)
        return sqlock_error_set(err, SQLOCK_ENOMEM, 0, "out of memory");
    c->adopted = 1;
    c->my = opts->native;
    c->scripts = opts->scripts;
    c->thread_id = mysql_thread_id(c->my);
    c->open_wake = c->wake_fd = -1;
    c->call = MY_ADOPTED;
    atomic_init(&c->cancelled, 0);
    if ((rc = my_check_version(c, err)) != 0) {
        sqlock_mem_free(c);
        return rc;
    }
    *out_conn = c;
    return 0;
}

/* ---- its transaction ------------------------------------------------------------------------- */

/* With autocommit off, a transaction that has no statement yet counts as open: the next one runs in
 * it. An error as an answer says nothing of the transaction, so the library knows no more than
 * before. SET looks again. */
sqlock_tx_state my_adopted_state(void *conn)
{
    struct my_conn *c = conn;

    if (my_adopted_lost(c) || my_adopted_busy(c->my))
        return SQLOCK_TX_UNKNOWN;
    if (c->ended && my_adopted_undisturbed(c))
        return SQLOCK_TX_IDLE;
    return my_adopted_in_transaction(c->my) ? SQLOCK_TX_ACTIVE : SQLOCK_TX_IDLE;
}

#define POINT "sqlock_adopted"

/* UNDO works after the deadline too: otherwise the savepoint would stay. */
static int adopted_savepoint(void *conn, sqlock_savepoint what, int64_t deadline, sqlock_error *err)
{
    static const char *const words[] = {[SQLOCK_SAVEPOINT_SET] = "SAVEPOINT " POINT,
                                        [SQLOCK_SAVEPOINT_RELEASE] = "RELEASE SAVEPOINT " POINT,
                                        [SQLOCK_SAVEPOINT_UNDO] = "ROLLBACK TO SAVEPOINT " POINT};
    struct my_conn *c = conn;
    struct my_call call = {.deadline = deadline, .err = err};
    struct my_last last;
    int rc = my_adopted_ready(c, &call);

    if (rc == 0 && what == SQLOCK_SAVEPOINT_SET && sqlock_now_us() >= deadline)
        rc = sqlock_error_set(err, SQLOCK_ETIMEOUT, 0, "no time left to send the request");
    if (rc != 0)
        return rc;
    my_last_keep(&last, c->my);
    rc = my_adopted_exec(c, &call, words[what]);
    if (rc == 0 && what == SQLOCK_SAVEPOINT_UNDO)
        rc = my_adopted_exec(c, &call, words[SQLOCK_SAVEPOINT_RELEASE]);
    if (rc == 0 && !my_adopted_in_transaction(c->my))
        rc = sqlock_error_set(err, SQLOCK_ESTATE, 0, "no transaction is open any more");
    my_last_give_back(&last, c->my);
    return rc;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void adopted_cancel(void *conn)
{
    my_cancel(conn, MY_ADOPTED);
}

const sqlock_adopter my_adopter = {
    .size = sizeof(sqlock_adopter),
    .flags = SQLOCK_ADOPT_BESIDE,
    .adopt = adopted_make,
    .close = my_close,
    .tx_state = my_adopted_state,
    .savepoint = adopted_savepoint,
    .run = my_adopted_run,
    .run_script = my_adopted_run_script,
    .cancel = adopted_cancel,
};
