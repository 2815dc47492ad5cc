/* A lock that is held on a majority (a quorum) of several independent databases, of any maker. It is
 * held while one of three databases is stopped, cut off or slow.
 *
 *     struct majority set = {.members = {pg, maria, lite}, .n = 3};      // managers, opened by you
 *     rc = majority_acquire(&set, "nightly", NULL, &lock, &err);
 *     while (rc == 0 && work_is_left() && majority_is_held(lock)) {
 *         ... one step of the work, with majority_token(lock) ...
 *         majority_mend(lock, NULL);                       // now and then: members that came back
 *     }
 *     rc = majority_end(&lock, &err);
 *
 * Read recipes/README.md first: one database with a synchronous standby is often the better choice.
 *
 * How it works: each member has a lock and a register of the name. All members are tried at once, a
 * thread for each. If a quorum of them grants, the lock is held, while a quorum of these leases runs. A
 * member that was slow, or failed, is left out for a while, so that it does not delay all others.
 * Each manager renews its own. Otherwise all is given back, and tried again after a random pause, until
 * the wait is over. So there is no queue: who waits longest need not be first.
 *
 * Which faults are survived. There are n members, and two quorums of q share at least 2q - n of them.
 *   - stopped, cut off, slow: n - q members. The others go on.
 *   - one that forgets (restored from a copy), lies, or whose clock jumps by more than a lease's margin:
 *     fewer than 2q - n members. Then two quorums still share one that is right.
 * So 3 members with a quorum of 2 survive one that is down, and none that forgets. 4 with a quorum of 3
 * survive one of either kind. A member that forgot is right again when a later holder has written its
 * token there, and the leases of before the fault have run out.
 *
 * The token. Each member draws tokens of its own, and these do not compare. So a holder makes one number:
 *   1. It takes the locks of a quorum, and behind each of them reads the member's register.
 *   2. It proposes 1 + the largest of what it read there, and of the tokens of these locks.
 *   3. It sets these registers to that, each only if it is as it was read (compare and set by version).
 *   4. If a quorum of registers was set, and the locks of a quorum are still held after that, the number
 *      is its token. Otherwise it reads again, or gives all back.
 * Why it rises from holder to holder:
 *   - A register's number only rises: it is replaced only by one that is larger than itself.
 *   - Two holders have each set a quorum of registers, so both have set one of the same member. One of
 *     them was first there. The other one read behind that, or its version would not have fitted. So its
 *     number is larger. No lease and no clock is in this argument: also of two who hold at once, because a
 *     clock jumped, one has the larger token, and a resource that refuses smaller ones is safe.
 *   - Who holds later has the larger token. Let B hold behind A, and assume that B set the common
 *     register first. Then B's locks were all held from before that until its last look at them, which
 *     comes behind A's. So at A's last look both held a quorum of locks, and one of the same member: that
 *     member would have two holders.
 * A holder that dies between two registers leaves a larger number on a few members: numbers have gaps. One
 * that is stopped, and writes late, meets another version, and changes nothing. A reply that was lost
 * counts as not set. The tokens of locks are in the sum so that the number follows the members' clocks:
 * it goes on above a lock that was kept on one of these databases before, and above registers that
 * were all deleted, if clocks agree.
 *
 * Not promised:
 *   - sqlock_guard() with a member's lock. It protects the data of that member, while it holds the lock
 *     there. The data of others is protected by the token only.
 *   - a member that lies can end the numbers, by one that is almost 2^53; it cannot lower them.
 *   - a program that uses sqlock_acquire() with this name on one member is not kept out: it only makes
 *     this member busy.
 *
 * Members   Managers on databases that share no machine, disk, power or operator as far as you can help it.
 *           Two names of one database are one member. All programs use the same members and the same
 *           quorum, in any order. To replace a member: end all programs, and wait for a lease. Acquire and end
 *           each name once with NULL in its place: then so many of the others know the token that each later
 *           quorum has one of them. Then put the new one there.
 * Leases    Choose a lease of ten request_ms at least, and a request_ms of a second or so. The lease
 *           counts on each member from before its request was sent.
 * Schema    Version 2: registers. The register of this name belongs to this recipe.
 * Threads   majority_is_held(), majority_token() and the other getters: any. One at a time for the rest.
 *           A call starts a thread for each member, and ends it. No signal is delivered to these.
 * fork      A child must not use the parent's handles.
 */
#ifndef SQLOCK_RECIPES_MAJORITY_H
#define SQLOCK_RECIPES_MAJORITY_H

#include <sqlock/sqlock.h>

#define MAJORITY_MOST    16  /* members */
#define MAJORITY_SLOW_MS 100 /* the default of slow_ms */

/* Yours, and so are the managers: close them after all locks were ended. Any number of locks and threads
 * may share it. Begin with zeros. */
struct majority {
    sqlock *members[MAJORITY_MOST]; /* NULL: this one could not be opened, and counts as down */
    size_t n;                       /* 1 to MAJORITY_MOST; also the NULLs among them */
    size_t quorum;                  /* 0: n / 2 + 1; or more, at most n */
    int32_t slow_ms; /* a member that takes longer than this, or fails, is left out for five seconds,
                        unless a quorum cannot answer without it. 0: the default */
    _Atomic int64_t left_out_until_us[MAJORITY_MOST]; /* the recipe's own */
};

typedef struct majority_lock majority_lock;

/* Acquire the lock called name on a quorum of the members. It tries until opts->wait_ms is over, and no
 * try begins later. A try takes as long as the slowest member that is not left out; one that falls
 * silent costs a try up to five times the managers' request_ms, and is then left out.
 * opts:      of each member's lock, or NULL. flags, mode, on_event and owner must be 0. holder is that of one
 *            member that was busy.
 * Ownership: on success *out_lock is yours; end it with majority_end(). Otherwise it is NULL. set must live
 *            as long.
 * Returns:   0 (a quorum is held), or
 *            SQLOCK_EBUSY      others held so many members that no quorum was left; also while others try
 *                              at the same time. Guarded ones count too
 *            SQLOCK_ETIMEOUT   leases ran out before a quorum was complete: take a longer one. Or too few
 *                              members answered in time
 *            SQLOCK_ECANCELLED by opts->cancel
 *            SQLOCK_ECORRUPT   a register holds what this recipe has not written, or a number at the end
 *            SQLOCK_EINVAL     n, quorum, a manager twice, name or options; before any I/O. An actor is shown to
 *                              others, but never gets SQLOCK_EDEADLOCK: no member is waited for in its queue
 *            SQLOCK_EFORK, SQLOCK_ENOMEM, SQLOCK_ESYS; or, if too few members answered, what
 *            sqlock_acquire(), sqlock_register_get() or _set() returned for the first that did not.
 *            Never SQLOCK_EUNSURE: a grant whose reply was lost is given back, or runs out with its lease. */
int majority_acquire(struct majority *set, const char *name, const sqlock_acquire_opts *opts,
                     majority_lock **out_lock, sqlock_error *err);

/* Try the members that do not hold the lock for us, once: one that was down, or slow, or lost it. Call it
 * now and then during a long hold, or the loss of one more member may end it. While all hold it, it sends
 * nothing. A member that is added gets our token into its register, which heals one that forgot.
 * A lock that was lost is not mended: others may have held it meanwhile.
 * It takes as long as a try of majority_acquire().
 * Returns: 0 (all members hold it); SQLOCK_ELOST (there is no quorum any more); or the code of the first
 *          member that does not hold it, and then the lock is still held. */
int majority_mend(majority_lock *lock, sqlock_error *err);

/* Getters: no I/O, any thread, while the lock was not ended. */

/* 1 while a quorum of leases runs, else 0. Once 0, it stays 0. Check before each step that must not happen
 * without the lock. */
int majority_is_held(majority_lock *lock);
/* On how many members the lease runs now. */
size_t majority_count(majority_lock *lock);
/* The fencing token: positive, below 2^53. Store it with your data, and refuse smaller ones. */
int64_t majority_token(majority_lock *lock);

/* Release it on all members at once, free the handle, and set *lock to NULL. *lock may be NULL. It takes at
 * most the managers' request_ms. Where a member does not answer, the lease runs out.
 * Returns: 0 (it is released on a quorum at least); SQLOCK_ELOST (it was lost before); or the code of the
 *          first member where it could not be released: it may be busy until its lease ends. */
int majority_end(majority_lock **lock, sqlock_error *err);

#endif
