/* Leader election: of many programs one leads, and another one follows when it ends, dies or is cut
 * off from the database.
 *
 *     static int lead(sqlock_lock *lock, void *user)
 *     {
 *         sqlock *m = user;
 *         while (sqlock_is_held(lock) && !lead_is_asked_to_resign(lock, m))
 *             ... one step of the leader's work, with its token ...
 *         return LEAD_AGAIN;                      // to the end of the queue
 *     }
 *     rc = lead_campaign(m, "scheduler", NULL, lead, m, &err);   // in a thread of its own
 *
 * How it works: the leader is who holds the lock. Candidates wait in its queue, first come first
 * served. A leader that is cut off learns at its deadline that it leads no more, before another one
 * can: so it must look at sqlock_is_held() before each step. A leader that was stopped may wake up
 * later and not know. Only the token protects data from it: store it, and refuse smaller ones.
 *
 * Seeing    sqlock_find() tells who leads, and since when; sqlock_list_waiters() who would follow.
 * Threads   Any. lead_campaign() keeps its own until it ends.
 */
#ifndef SQLOCK_RECIPES_LEAD_H
#define SQLOCK_RECIPES_LEAD_H

#include <sqlock/admin.h>

/* What the leader's function returns. */
#define LEAD_AGAIN 0 /* it leads no more, and stands for election again */
#define LEAD_END   1 /* it leads no more, and lead_campaign() ends */

/* Stand for election until opts->cancel is fired, or lead() returns something else than LEAD_AGAIN.
 * A cancel does not end lead(): let it look at something of yours that you set before.
 * lead() is called each time this program becomes the leader. When it returns, the lock is released,
 * and the next in line leads. While the database does not answer, no one leads, and this tries again
 * each second.
 * opts:    of the lock, or NULL; wait_ms is not used. It is exclusive. owner must be NULL: an owner is granted the lock
 *          once, and each time as the leader needs a new one.
 * Returns: 0 after LEAD_END; SQLOCK_ECANCELLED; SQLOCK_EINVAL (an owner, another mode, no lead, name or options; before
 *          any I/O); or another code that will not go away by itself, such as SQLOCK_EDENIED, SQLOCK_ESCHEMA. */
int lead_campaign(sqlock *m, const char *name, const sqlock_acquire_opts *opts, sqlock_work_fn lead,
                  void *user, sqlock_error *err);

/* For programs with a loop of their own: may the same work later? code is what a call of the library
 * returned, and err what it said. Returns 1 if the database did not answer, answers again after a
 * failover, or a guard that was left open ends; else 0. */
int lead_may_try_again(int code, const sqlock_error *err);

/* ---- handing over on request, by the register of this name (sqlock/register.h) --------------- */

/* Ask the leader of now to resign. Another leader is not asked.
 * out_leader: as in sqlock_find(), whom this has asked; NULL: the caller need not know.
 * Returns: 0; SQLOCK_ABSENT if no one leads; SQLOCK_ECORRUPT if the register holds something that
 *          this recipe has not written; or the codes of sqlock_find() and sqlock_register_set(). */
int lead_ask_to_resign(sqlock *m, const char *name, sqlock_info *out_leader, sqlock_error *err);
/* For the leader, with the manager of its lock: 1 if it was asked. It costs a request. If that fails, 0. */
int lead_is_asked_to_resign(sqlock_lock *lock, sqlock *m);

#endif
