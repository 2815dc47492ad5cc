#ifndef SQLOCK_LEASES_LEASES_H
#define SQLOCK_LEASES_LEASES_H

#include "core/engine/party.h"

extern const struct verb acquire_verb, renew_verb, release_verb;
/* Each of these keeps in op->work what it needs: break_verb the token (int64_t), sweep_verb a
 * struct sweep, the registers' what stands below. opening_verb keeps nothing. */
extern const struct verb break_verb, sweep_verb, register_get_verb, register_set_verb, opening_verb;

/* What register_get_verb and register_set_verb work on. */
struct register_look {
    void *buf; /* NULL: only length and version are wanted */
    size_t size, len;
    int64_t version;
    int fits;
};

struct register_change {
    const void *value;
    size_t len;
    int64_t expected;
    int64_t version; /* the new version; after a conflict, the present one */
    int conflict;
};

/* How they begin, for the blocking calls, settle and the calls for event loops. */
int acquire_start(sqlock_lock *lock, int32_t wait_ms, sqlock_cancel *cancel, sqlock_op **out_op,
                  sqlock_error *err);
int renew_start(sqlock_lock *lock, int32_t wait_ms, sqlock_op **out_op, sqlock_error *err);
int release_start(sqlock_lock *lock, int32_t wait_ms, sqlock_op **out_op, sqlock_error *err);
/* The same with all checks and a new handle. *out_len becomes the name's length. */
int acquire_begin(sqlock *m, const char *name, const sqlock_acquire_opts *opts, sqlock_op **out_op,
                  size_t *out_len, sqlock_error *err);
/* From here on the lease is not renewed and not believed in. Only the answer decides. lock was
 * checked. */
int release_begin(sqlock_lock *lock, sqlock_op **out_op, sqlock_error *err);
int renew_begin(sqlock_lock *lock, sqlock_op **out_op, sqlock_error *err);
/* max_hold_ms has passed since the first grant. */
int renew_is_past_hold(sqlock_lock *lock);
/* The end of a handle, whose release returned rc. On SQLite a release waits only briefly for a
 * guard, because this thread itself may hold the guard. No one tries again later. So this settles
 * it once more, with the full time: the guard may be of another session. Returns what became of it.
 */
int release_once_more(sqlock_lock *lock, int rc);
/* The last part of a release that blocks: waiters for the lock do not wait for the callback. */
void release_await_callback(sqlock_lock *lock);

/* The time after which op's request must not grant that lock: the end of the attempt, or of the
 * lease it would give if that is first. If its reply is lost, it may be granted until then. */
int64_t verb_not_after(const sqlock_op *op, const sqlock_lock *lock, int64_t now);

/* The answer is a grant, of an acquire or of an import. It ends op, unless it came too late. */
void verb_granted(sqlock_op *op, const struct answer *a, int64_t now);

/* The answer shows no grant of ours, but a request whose reply was lost may still arrive. Look
 * again when it cannot arrive any more. If op ends before that, end it as unsure. */
void verb_early(sqlock_op *op, const struct answer *a, int64_t now);

/* A lease that is longer than all before it: the server has to know its length first. Send that. It
 * was answered. */
int verb_must_lengthen(const sqlock_op *op);
int verb_send_length(sqlock_op *op);
void verb_lengthened(sqlock_op *op);

/* A transaction has locked the row. Try again: a few times at once, then after longer and longer
 * pauses. */
void verb_locked(sqlock_op *op, int64_t now);

/* This answer saw a guard, and one more look has to see it as well. */
int verb_looks_again(sqlock_op *op, const struct answer *a);

/* The grant with this token was given back. Does an open transaction still guard it (P11)? The
 * answer is no also if the look gets no answer, if others work on the row all the while, or if the
 * lock was granted again since. First: can there be such a guard? If so, op has succeeded, whatever
 * happens to the look. */
int verb_may_be_guarded(sqlock_op *op);
int verb_send_probe(sqlock_op *op, int64_t token);
/* text: the error's, if a guard stands. */
void verb_probed(sqlock_op *op, const struct answer *a, const char *text);

/* many.c: for a list of names. */

/* Check all arguments. out_locks becomes NULLs, *o the options, in full. */
int many_check(sqlock *m, const char *const *names, size_t n, const sqlock_acquire_opts *opts,
               sqlock_lock **out_locks, sqlock_acquire_opts *o, sqlock_error *err);
/* Those of name number i. */
sqlock_acquire_opts many_opts(const sqlock_acquire_opts *opts, size_t i);
/* One name of a list waits, as the options say, and the others begin behind it. */
struct many_wait {
    size_t first;
    struct party party;
};

/* Acquire all names, and end by `until` at the latest. wait: NULL, or one goes ahead. Afterwards
 * locks and codes have what became of each, and err is of the first that failed. Of others that
 * have not begun the codes are SQLOCK_ECANCELLED, and err is not of them. */
int many_acquire(sqlock *m, const char *const *names, size_t n, struct many_wait *wait,
                 const sqlock_acquire_opts *opts, int64_t until, sqlock_lock **locks, int *codes,
                 sqlock_error *err);
/* A lock is handed out with at least half of its lease left. Some may have been granted long before
 * the others: those are renewed, all at once. What fails is in codes, and its lock stays in locks.
 * Returns the first failure. */
int many_lengthen(sqlock_lock *const *locks, size_t n, int *codes, sqlock_error *err);

/* A request about a name which is not part of a lock's life. It has a hidden handle, with the name
 * and an owner that was drawn for this request only. */
struct named_request {
    const char *verb; /* errors begin with it */
    const char *name;
    const struct verb *does;
    void *work;    /* op->work */
    int urgent;    /* it ends a grant, and must not starve behind acquires */
    int64_t seat;  /* it is about a seat of the name; -1: about the lock's own row */
    int64_t until; /* it ends by then; 0: only by the manager's request_ms */
};

/* Check manager and name, and make the request on this thread, for request_ms at most. */
int named_request(sqlock *m, const struct named_request *named, sqlock_error *err);
/* The seat whose last grant has this token; -1: there is none. It looks until then. In admin.c. */
int named_seat(sqlock *m, const char *name, int64_t token, int64_t until, int64_t *out_seat,
               sqlock_error *err);

/* Hand a started request to the worker, or to the steps. word: what was called, for errors; or
 * NULL. After a failure the request has ended, and *out_op is NULL. */
int async_go(sqlock_op *op, const char *word, sqlock_op **out_op, sqlock_error *err);
/* The same for a request about a lock, whose name goes into its errors. code: not 0 if it could not
 * begin. lock: may be NULL then. */
int async_begin(int code, const sqlock_lock *lock, const char *word, sqlock_op **out_op,
                sqlock_error *err);

#endif
