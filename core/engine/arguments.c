/* Checks of arguments, made before anything is sent or written (P15). */
#include <string.h>

#include "core/base/text.h"
#include "core/engine/arguments.h"
#include "core/engine/locks.h"

#define REQUEST_MIN_MS 10
#define REQUEST_MAX_MS 3600000
#define PAUSE_MAX_MS   60000
#define AGE_MAX_MS     INT64_C(3153600000000) /* a century: fits into 64 bits as microseconds */

void sqlock_open_opts_init(sqlock_open_opts *opts)
{
    *opts = (sqlock_open_opts)SQLOCK_OPEN_OPTS_INIT;
}

void sqlock_acquire_opts_init(sqlock_acquire_opts *opts)
{
    *opts = (sqlock_acquire_opts)SQLOCK_ACQUIRE_OPTS_INIT;
}

void sqlock_list_opts_init(sqlock_list_opts *opts)
{
    *opts = (sqlock_list_opts)SQLOCK_LIST_OPTS_INIT;
}

void sqlock_reap_opts_init(sqlock_reap_opts *opts)
{
    *opts = (sqlock_reap_opts)SQLOCK_REAP_OPTS_INIT;
}

void sqlock_row_opts_init(sqlock_row_opts *opts)
{
    *opts = (sqlock_row_opts)SQLOCK_ROW_OPTS_INIT;
}

void sqlock_retry_opts_init(sqlock_retry_opts *opts)
{
    *opts = (sqlock_retry_opts)SQLOCK_RETRY_OPTS_INIT;
}

/* The fields of the option structs, except their sizes. A new field is appended here, too. It must
 * not lie in what was padding at the struct's end: the size that an older caller passes includes
 * that padding. */
struct field {
    size_t at, size;
};
#define FIELD(type, name)                                                                          \
    {                                                                                              \
        offsetof(type, name), sizeof(((type *)0)->name)                                            \
    }
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct field open_fields[] = {
    FIELD(sqlock_open_opts, flags),        FIELD(sqlock_open_opts, schema),
    FIELD(sqlock_open_opts, prefix),       FIELD(sqlock_open_opts, ns),
    FIELD(sqlock_open_opts, label),        FIELD(sqlock_open_opts, connect),
    FIELD(sqlock_open_opts, connect_user), FIELD(sqlock_open_opts, connections),
    FIELD(sqlock_open_opts, request_ms),   FIELD(sqlock_open_opts, lease_ms),
    FIELD(sqlock_open_opts, pid),          FIELD(sqlock_open_opts, grace_ms),
};
static const struct field acquire_fields[] = {
    FIELD(sqlock_acquire_opts, wait_ms),  FIELD(sqlock_acquire_opts, lease_ms),
    FIELD(sqlock_acquire_opts, renew_ms), FIELD(sqlock_acquire_opts, max_hold_ms),
    FIELD(sqlock_acquire_opts, flags),    FIELD(sqlock_acquire_opts, label),
    FIELD(sqlock_acquire_opts, cancel),   FIELD(sqlock_acquire_opts, on_event),
    FIELD(sqlock_acquire_opts, user),     FIELD(sqlock_acquire_opts, holder),
    FIELD(sqlock_acquire_opts, owner),    FIELD(sqlock_acquire_opts, mode),
    FIELD(sqlock_acquire_opts, modes),    FIELD(sqlock_acquire_opts, slot),
    FIELD(sqlock_acquire_opts, actor),
};
static const struct field row_fields[] = {
    FIELD(sqlock_row_opts, flags),    FIELD(sqlock_row_opts, wait_ms),
    FIELD(sqlock_row_opts, outcomes), FIELD(sqlock_row_opts, cancel),
    FIELD(sqlock_row_opts, blocker),
};
static const struct field list_fields[] = {
    FIELD(sqlock_list_opts, flags),
    FIELD(sqlock_list_opts, prefix),
};
static const struct field reap_fields[] = {
    FIELD(sqlock_reap_opts, flags),    FIELD(sqlock_reap_opts, batch),
    FIELD(sqlock_reap_opts, pause_ms), FIELD(sqlock_reap_opts, grace_ms),
    FIELD(sqlock_reap_opts, idle_ms),  FIELD(sqlock_reap_opts, limit),
    FIELD(sqlock_reap_opts, max_ms),   FIELD(sqlock_reap_opts, cancel),
};
static const struct field retry_fields[] = {
    FIELD(sqlock_retry_opts, attempts),  FIELD(sqlock_retry_opts, optimistic),
    FIELD(sqlock_retry_opts, base_ms),   FIELD(sqlock_retry_opts, cap_ms),
    FIELD(sqlock_retry_opts, total_ms),  FIELD(sqlock_retry_opts, lease_ms),
    FIELD(sqlock_retry_opts, lock_name), FIELD(sqlock_retry_opts, cancel),
};

int check_size(uint32_t size, const char *what, sqlock_error *err)
{
    if (size >= sizeof size && size <= 4096)
        return 0;
    return sqlock_error_set(err, SQLOCK_EINVAL, 0, "%s", what);
}

/* Every option struct begins with its size, which shows a newer library how old its caller is. A
 * field counts if all of it lies within that size. The struct of a newer caller is longer than ours
 * (`known`). An option that is set there is refused, not ignored (P16). */
static int opts_copy(void *out, size_t known, const struct field *fields, size_t n, const void *in,
                     sqlock_error *err)
{
    const unsigned char *bytes = in;
    uint32_t size;
    int rc;

    if (in == NULL)
        return 0;
    memcpy(&size, in, sizeof size);
    if ((rc = check_size(size, "the options have no size: start from their _INIT macro", err)) != 0)
        return rc;
    for (size_t i = 0; i < n && fields[i].at + fields[i].size <= size; i++)
        memcpy((char *)out + fields[i].at, (const char *)in + fields[i].at, fields[i].size);
    for (size_t i = known; i < size; i++)
        if (bytes[i] != 0)
            return sqlock_error_set(err, SQLOCK_EINVAL, 0,
                                    "this version (" SQLOCK_VERSION
                                    ") does not know an option that is set");
    return 0;
}

static int check_range(const char *what, int64_t value, int64_t least, int64_t most,
                       sqlock_error *err)
{
    if (value >= least && value <= most)
        return 0;
    return sqlock_error_set(err, SQLOCK_EINVAL, 0, "%s is %lld (use %lld to %lld)", what,
                            (long long)value, (long long)least, (long long)most);
}

static int check_text(const char *what, const char *text, size_t most, sqlock_error *err)
{
    size_t len = text != NULL ? strlen(text) : 0;

    if (len > most)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the %s has %zu bytes (at most %zu)", what,
                                len, most);
    if (len > 0 && !text_is_utf8(text, len))
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the %s is not UTF-8", what);
    return 0;
}

int check_open_opts(const sqlock_open_opts *in, sqlock_open_opts *out, sqlock_error *err)
{
    int rc;

    sqlock_open_opts_init(out);
    if ((rc = opts_copy(out, sizeof *out, open_fields, COUNT(open_fields), in, err)) != 0 ||
        (rc = check_range("connections", out->connections, 2, CONNECTIONS_MAX, err)) != 0 ||
        (rc = check_range("request_ms", out->request_ms, REQUEST_MIN_MS, REQUEST_MAX_MS, err)) !=
            0 ||
        (rc = check_range("lease_ms", out->lease_ms, SQLOCK_LEASE_MIN_MS, SQLOCK_LEASE_MAX_MS,
                          err)) != 0 ||
        (rc = check_range("pid", out->pid, 0, INT32_MAX, err)) != 0 ||
        (rc = check_range("grace_ms", out->grace_ms, 0, SQLOCK_LEASE_MAX_MS, err)) != 0 ||
        (rc = check_text("namespace", out->ns, SQLOCK_NAMESPACE_MAX, err)) != 0)
        return rc;
    if (out->flags & ~(SQLOCK_OPEN_ACCEPT_WEAK | SQLOCK_OPEN_UNPREPARED | SQLOCK_OPEN_LIFT_TOKENS |
                       SQLOCK_OPEN_DURABLE_RELEASE))
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "unknown flags 0x%x", out->flags);
    return check_text("label", out->label, LABEL_TEXT_MAX, err);
}

int check_mode(int64_t mode, sqlock_error *err)
{
    return check_range("mode", mode, SQLOCK_SHARED, SQLOCK_SLOTS_MAX, err);
}

int check_one_mode(const sqlock_acquire_opts *opts, sqlock_error *err)
{
    return opts->modes == NULL
               ? 0
               : sqlock_error_set(err, SQLOCK_EINVAL, 0, "modes are for a list of names");
}

static int check_actor(const sqlock_acquire_opts *opts, sqlock_error *err)
{
    if (opts->actor == NULL)
        return 0;
    if (*opts->actor == '\0')
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the actor is empty");
    if (opts->owner != NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "an owner that is given has its actor");
    return check_text("actor", opts->actor, SQLOCK_ACTOR_MAX, err);
}

int check_cancel(const sqlock_cancel *cancel, sqlock_error *err)
{
    if (cancel == NULL || cancel->process == sqlock_process_id())
        return 0;
    return sqlock_error_set(err, SQLOCK_EFORK, 0,
                            "the cancel object belongs to the parent process: make one here");
}

int check_acquire_opts(const sqlock *m, const sqlock_acquire_opts *in, sqlock_acquire_opts *out,
                       sqlock_error *err)
{
    int64_t lease_ms;
    int rc;

    sqlock_acquire_opts_init(out);
    if ((rc = opts_copy(out, sizeof *out, acquire_fields, COUNT(acquire_fields), in, err)) != 0 ||
        (rc = check_wait(out->wait_ms, err)) != 0 || (rc = check_cancel(out->cancel, err)) != 0 ||
        (rc = check_range("max_hold_ms", out->max_hold_ms, 0, INT32_MAX, err)) != 0 ||
        (rc = check_mode(out->mode, err)) != 0)
        return rc;
    if (out->owner != NULL && out->mode != SQLOCK_EXCLUSIVE)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0,
                                "an owner may be given to exclusive acquires only");
    if (out->lease_ms != 0 && (rc = check_range("lease_ms", out->lease_ms, SQLOCK_LEASE_MIN_MS,
                                                SQLOCK_LEASE_MAX_MS, err)) != 0)
        return rc;
    if ((rc = check_range("slot", out->slot, -1, LOCK_SEATS_MAX - 1, err)) != 0 ||
        (rc = check_actor(out, err)) != 0)
        return rc;
    lease_ms = out->lease_ms != 0 ? out->lease_ms : m->lease_us / 1000;
    if (out->flags & ~SQLOCK_NO_RENEW)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "unknown flags 0x%x", out->flags);
    if (out->renew_ms != 0 && (out->renew_ms < 10 || out->renew_ms > lease_ms / 2))
        return sqlock_error_set(err, SQLOCK_EINVAL, 0,
                                "renew_ms is %d (use 10 to half of the lease of %lld)",
                                (int)out->renew_ms, (long long)lease_ms);
    if ((rc = check_text("label", out->label, LABEL_TEXT_MAX, err)) != 0)
        return rc;
    return out->holder == NULL ? 0
                               : check_size(out->holder->size, "the holder's size is not set", err);
}

int check_row_opts(const sqlock_row_opts *in, sqlock_row_opts *out, sqlock_error *err)
{
    int rc;

    sqlock_row_opts_init(out);
    if ((rc = opts_copy(out, sizeof *out, row_fields, COUNT(row_fields), in, err)) != 0 ||
        (rc = check_cancel(out->cancel, err)) != 0 || (rc = check_wait(out->wait_ms, err)) != 0)
        return rc;
    if (out->flags & ~(SQLOCK_ROW_SKIP_LOCKED | SQLOCK_ROW_KEEPS_KEY))
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "unknown flags 0x%x", out->flags);
    return out->blocker == NULL
               ? 0
               : check_size(out->blocker->size, "the blocker's size is not set", err);
}

int check_list_opts(const sqlock_list_opts *in, sqlock_list_opts *out, sqlock_error *err)
{
    int rc;

    sqlock_list_opts_init(out);
    if ((rc = opts_copy(out, sizeof *out, list_fields, COUNT(list_fields), in, err)) != 0)
        return rc;
    if (out->flags & ~SQLOCK_LIST_FREE)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "unknown flags 0x%x", out->flags);
    return check_text("prefix of names", out->prefix, SQLOCK_NAME_MAX, err);
}

/* A free row is kept for longer than a duplicate of an old request can be under way. Otherwise the
 * duplicate would be granted to an owner that was released. */
_Static_assert(SQLOCK_REAP_IDLE_MIN_MS >= 2 * REQUEST_MAX_MS,
               "a late request could outlive its row");

int check_reap_opts(const sqlock_reap_opts *in, sqlock_reap_opts *out, sqlock_error *err)
{
    int rc;

    sqlock_reap_opts_init(out);
    if ((rc = opts_copy(out, sizeof *out, reap_fields, COUNT(reap_fields), in, err)) != 0 ||
        (rc = check_cancel(out->cancel, err)) != 0 ||
        (rc = check_range("batch", out->batch, 1, SQLOCK_REAP_BATCH_MAX, err)) != 0 ||
        (rc = check_range("pause_ms", out->pause_ms, 0, PAUSE_MAX_MS, err)) != 0 ||
        (rc = check_range("grace_ms", out->grace_ms, 0, AGE_MAX_MS, err)) != 0 ||
        (rc = check_range("limit", out->limit, SQLOCK_REAP_NO_LIMIT, INT64_MAX, err)) != 0 ||
        (rc = check_range("max_ms", out->max_ms, SQLOCK_REAP_NO_LIMIT, INT32_MAX, err)) != 0)
        return rc;
    if (out->idle_ms != SQLOCK_REAP_KEEP &&
        (rc = check_range("idle_ms", out->idle_ms, SQLOCK_REAP_IDLE_MIN_MS, AGE_MAX_MS, err)) != 0)
        return rc;
    if (out->flags & ~SQLOCK_REAP_DRY_RUN)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "unknown flags 0x%x", out->flags);
    return 0;
}

int check_retry_opts(const sqlock_retry_opts *in, sqlock_retry_opts *out, sqlock_error *err)
{
    int rc;

    sqlock_retry_opts_init(out);
    if ((rc = opts_copy(out, sizeof *out, retry_fields, COUNT(retry_fields), in, err)) != 0 ||
        (rc = check_cancel(out->cancel, err)) != 0 ||
        (rc = check_range("attempts", out->attempts, 1, INT32_MAX, err)) != 0 ||
        (rc = check_range("optimistic", out->optimistic, 0, INT32_MAX, err)) != 0 ||
        (rc = check_range("base_ms", out->base_ms, 0, REQUEST_MAX_MS, err)) != 0 ||
        (rc = check_range("cap_ms", out->cap_ms, 0, REQUEST_MAX_MS, err)) != 0 ||
        (rc = check_wait(out->total_ms, err)) != 0 || out->lease_ms == 0)
        return rc;
    return check_range("lease_ms", out->lease_ms, SQLOCK_LEASE_MIN_MS, SQLOCK_LEASE_MAX_MS, err);
}

int check_name(const char *name, size_t *out_len, sqlock_error *err)
{
    if (name == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the name is NULL");
    *out_len = strnlen(name, SQLOCK_NAME_MAX + 1);
    if (*out_len < 1 || *out_len > SQLOCK_NAME_MAX)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the name %s (use 1 to %d bytes)",
                                *out_len < 1 ? "is empty" : "is too long", SQLOCK_NAME_MAX);
    if (!text_is_utf8(name, *out_len))
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the name is not UTF-8");
    return 0;
}

int check_token(int64_t token, sqlock_error *err)
{
    return check_range("the token", token, 1, SQLOCK_TOKEN_MAX, err);
}

int check_wait(int32_t wait_ms, sqlock_error *err)
{
    return check_range("wait_ms", wait_ms, SQLOCK_WAIT_FOREVER, INT32_MAX, err);
}

int check_out_op(sqlock_op **out_op, const char *verb, sqlock_error *err)
{
    if (out_op == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "%s: out_op is NULL", verb);
    *out_op = NULL;
    return 0;
}

int check_alive(const sqlock *m, sqlock_error *err)
{
    if (m == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the manager is NULL");
    if (m->process != sqlock_process_id())
        return sqlock_error_set(err, SQLOCK_EFORK, 0,
                                "the manager belongs to the parent process: open one here");
    return 0;
}

int check_lock(const sqlock_lock *lock, sqlock_error *err)
{
    if (lock == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the lock is NULL");
    if (lock->m->process != sqlock_process_id())
        return sqlock_error_set(err, SQLOCK_EFORK, 0, "the lock belongs to the parent process");
    return 0;
}

int check_context(sqlock_error *err, const char *verb, const char *name, size_t len, int code)
{
    char shown[64];

    if (code < 0) /* others are no errors, and leave err alone */
        error_prefix(err, len > 0 ? "%s \"%s\"" : "%s", verb,
                     len > 0 ? text_show(shown, sizeof shown, name, len) : "");
    return code;
}
