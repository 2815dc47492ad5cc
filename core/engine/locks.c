/* The handles of a manager: their life, and what follows when their state changes. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alarm.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "core/engine/checks.h"
#include "core/engine/locks.h"
#include "core/engine/renewals.h"
#include "core/model/actor.h"

static int lock_copy_label(sqlock_lock *lock, const char *label)
{
    size_t len = text_whole(label, strnlen(label, LABEL_MAX));

    if ((lock->label = sqlock_mem_alloc(len + 1)) == NULL)
        return SQLOCK_ENOMEM;
    memcpy(lock->label, label, len);
    return 0;
}

/* An actor stands behind the manager's label, as far as there is room. */
static int lock_set_label(sqlock_lock *lock, const char *text, const char *actor)
{
    char label[2 * LABEL_MAX + 2];

    if (text == NULL && actor == NULL)
        return 0;
    if (text != NULL)
        manager_label(lock->m, text, label);
    else
        snprintf(label, sizeof label, "%s %s", lock->m->label, actor);
    return lock_copy_label(lock, label);
}

/* Returns 0, or -1 without random bytes. */
static int lock_draw_owner(sqlock_lock *lock, const sqlock_acquire_opts *opts)
{
    if (opts->owner != NULL) {
        memcpy(lock->owner, opts->owner, sizeof lock->owner);
        return 0;
    }
    if (random_bytes(lock->owner, sizeof lock->owner) != 0)
        return -1;
    lock->has_actor = opts->actor != NULL;
    if (lock->has_actor)
        actor_own(opts->actor, strlen(opts->actor), lock->owner);
    return 0;
}

int lock_new(sqlock *m, const char *name, size_t name_len, const sqlock_acquire_opts *opts,
             sqlock_lock **out, sqlock_error *err)
{
    sqlock_lock *lock = sqlock_mem_alloc(sizeof *lock + name_len + LOCK_SEAT_SIZE);
    int64_t lease_us = opts->lease_ms > 0 ? opts->lease_ms * INT64_C(1000) : m->lease_us;
    int64_t every = opts->renew_ms > 0 ? opts->renew_ms * INT64_C(1000) : lease_us / 3;

    if (lock == NULL)
        return error_nomem(err);
    if (lock_draw_owner(lock, opts) != 0) {
        sqlock_mem_free(lock);
        return sqlock_error_set(err, SQLOCK_ESYS, 0, "no random bytes available");
    }
    lock->m = m;
    if (lock_set_label(lock, opts->label, opts->actor) != 0) {
        sqlock_mem_free(lock);
        return error_nomem(err);
    }
    assert(name_len >= 1 && name_len <= SQLOCK_NAME_MAX);
    lock->name = memcpy(lock + 1, name, name_len);
    lock->name_len = lock->key_len = (uint32_t)name_len;
    lock->seat = -1;
    lock->mode = opts->mode;
    lock->ns = m->ns;
    lock->ns_len = (uint32_t)m->ns_len;
    lock->flags = opts->flags;
    lock->on_event = opts->on_event;
    lock->user = opts->user;
    lock->fd = -1;
    lock->refs = 1;
    lock->pending = PENDING_ACQUIRE;
    lease_init(&lock->lease, lease_us, every, opts->max_hold_ms * INT64_C(1000));
    lock->lease.manual = (opts->flags & SQLOCK_NO_RENEW) != 0;
    list_init(&lock->in_manager);
    list_init(&lock->in_events);
    mutex_lock(&m->mu);
    list_append(&m->locks, &lock->in_manager);
    m->refs++;
    mutex_unlock(&m->mu);
    *out = lock;
    return 0;
}

void lock_has_given_owner(sqlock_lock *lock)
{
    mutex_lock(&lock->m->mu);
    lock->given = 1;
    mutex_unlock(&lock->m->mu);
}

int lock_like(sqlock_lock *lock, int64_t mode, int same_owner, sqlock_lock **out, sqlock_error *err)
{
    const sqlock_acquire_opts opts = {.flags = lock->flags,
                                      .on_event = lock->on_event,
                                      .user = lock->user,
                                      .owner = same_owner ? lock->owner : NULL,
                                      .mode = mode};
    int rc = lock_new(lock->m, lock->name, lock->name_len, &opts, out, err);
    sqlock_lock *like = *out;

    if (rc != 0)
        return rc;
    if (lock->label != NULL && lock_copy_label(like, lock->label) != 0) {
        lock_free(like);
        return error_nomem(err);
    }
    mutex_lock(&lock->m->mu);
    lease_init(&like->lease, lock->lease.ttl, lock->lease.every, lock->lease.hold);
    like->given = same_owner && lock->given;
    like->lease.hold_until = lock->lease.hold_until;
    like->lease.manual = lock->lease.manual;
    like->has_actor = actor_has(lock->owner);
    if (like->has_actor && !same_owner)
        actor_succeed(like->owner, lock->owner);
    like->upgrades = mode == SQLOCK_EXCLUSIVE;
    like->downgrades = mode != SQLOCK_EXCLUSIVE;
    mutex_unlock(&lock->m->mu);
    return 0;
}

void lock_make_own(sqlock_lock *lock)
{
    assert(lock->pending == PENDING_ACQUIRE && lock->token == 0); /* before its first use */
    lock->ns = LOCK_OWN_NS;
    lock->ns_len = sizeof LOCK_OWN_NS - 1;
}

void lock_sit(sqlock_lock *lock, int64_t seat)
{
    unsigned char *end = (unsigned char *)(lock + 1) + lock->name_len;

    assert(seat >= -1 && seat < LOCK_SEATS_MAX);
    lock->seat = (int32_t)seat;
    lock->key_len = lock->name_len + (seat >= 0 ? LOCK_SEAT_SIZE : 0);
    for (int i = 1; seat >= 0 && i < LOCK_SEAT_SIZE; i++)
        end[i] = (unsigned char)(seat >> 8 * (LOCK_SEAT_SIZE - 1 - i));
}

int64_t lock_turn_us(const sqlock_lock *lock)
{
    return lock->mode == SQLOCK_EXCLUSIVE && !lock->upgrades
               ? lock->lease.ttl
               : time_min(lock->lease.ttl, LOCK_TURN_US);
}

int64_t lock_seat_of(const char *key, size_t *len)
{
    const unsigned char *end = (const unsigned char *)key + *len - LOCK_SEAT_SIZE;

    if (*len <= LOCK_SEAT_SIZE || end[0] != '\0')
        return -1;
    *len -= LOCK_SEAT_SIZE;
    return (int64_t)end[1] << 16 | end[2] << 8 | end[3];
}

int lock_order(const sqlock_lock *a, const sqlock_lock *b)
{
    int order = strcmp(a->ns, b->ns);

    if (order == 0)
        order = strcmp(a->name, b->name);
    return order != 0 ? order : (a->seat > b->seat) - (a->seat < b->seat);
}

const char *lock_label(const sqlock_lock *lock)
{
    return lock->label != NULL ? lock->label : lock->m->label;
}

void lock_unref_locked(sqlock_lock *lock)
{
    assert(mutex_is_mine(&lock->m->mu));
    assert(lock->refs > 0);
    if (--lock->refs > 0)
        return;
    assert(!lock->renewing && !lock->reporting);
    assert(lock->in_manager.next == &lock->in_manager); /* lock_free() took it out */
    alarm_close(lock->fd);
    assert(lock->m->refs > 1); /* the caller has a reference to the manager */
    lock->m->refs--;
    sqlock_mem_free(lock->label);
    sqlock_mem_free(lock);
}

void lock_await_callback(sqlock_lock *lock)
{
    sqlock *m = lock->m;

    assert(mutex_is_mine(&m->mu));
    while (lock->reporting && !thread_is_me(m->timer))
        cond_wait_until(&m->reported, &m->mu, TIME_NEVER);
}

/* Nothing is due for it any more. */
static void lock_unplan(sqlock_lock *lock)
{
    sqlock *m = lock->m;

    heap_set(&m->ends, &lock->end, TIME_NEVER);
    heap_set(&m->ticks, &lock->tick, TIME_NEVER);
    heap_set(&m->renewals, &lock->renewal, TIME_NEVER);
    heap_set(&m->checks, &lock->check, TIME_NEVER);
}

void lock_free(sqlock_lock *lock)
{
    sqlock *m = lock->m;

    mutex_lock(&m->mu);
    lock->quiet = 1;
    if (lock->reporting) {
        lock_act(lock); /* no other callback begins meanwhile */
        lock_await_callback(lock);
    }
    list_remove(&lock->in_manager);
    lock_unplan(lock);
    list_remove(&lock->in_events);
    m->refs++; /* keeps the manager until manager_unref_locked() below */
    lock_unref_locked(lock);
    manager_unref_locked(m);
}

static void lock_set_descriptor(sqlock_lock *lock)
{
    sqlock_state state = lock->lease.state;

    if (lock->fd >= 0)
        alarm_set(lock->fd, state == SQLOCK_LOST                              ? 0
                            : state == SQLOCK_HELD || state == SQLOCK_AT_RISK ? lock->lease.deadline
                                                                              : TIME_NEVER);
}

int lock_descriptor(sqlock_lock *lock)
{
    assert(mutex_is_mine(&lock->m->mu));
    if (lock->fd < 0 && (lock->fd = alarm_make()) >= 0)
        lock_set_descriptor(lock);
    return lock->fd;
}

int lock_needs_threads(const sqlock_lock *lock)
{
    int grants = lock->pending == PENDING_ACQUIRE || lock->pending == PENDING_IMPORT;

    return grants && (!(lock->flags & SQLOCK_NO_RENEW) || lock->on_event != NULL);
}

/* From now on the two threads find the lock when it is due. One that was freed, or whose lease is
 * over, is never due. */
static void lock_plan(sqlock_lock *lock)
{
    sqlock *m = lock->m;
    int is_freed = lock->in_manager.next == &lock->in_manager, work;
    int64_t renewal;

    if (is_freed || !lease_is_live(&lock->lease)) {
        lock_unplan(lock);
        return;
    }
    renewal = renewals_lock_due(lock);
    heap_set(&m->ends, &lock->end,
             renewal != TIME_NEVER && !lease_is_pinned(&lock->lease) ? lock->lease.deadline
                                                                     : TIME_NEVER);
    if (heap_set(&m->ticks, &lock->tick, lease_next_tick(&lock->lease)))
        timer_wake(m, heap_due(&m->ticks));
    work = heap_set(&m->renewals, &lock->renewal, renewal);
    work |= heap_set(&m->checks, &lock->check, checks_lock_due(lock));
    if (renewal != TIME_NEVER)
        renewals_reserve(m, lock, renewal);
    if (m->checks.first != NULL)
        manager_start_threads(m); /* without them, these leases stay at risk */
    if (work)
        worker_wake(m, time_min(heap_due(&m->renewals), heap_due(&m->checks)));
}

/* The timer calls on_event, one lock after the other. */
static void lock_queue_event(sqlock_lock *lock)
{
    int wanted = lock->to_report && !lock->quiet;

    if (wanted == (lock->in_events.next != &lock->in_events))
        return;
    list_remove(&lock->in_events);
    if (wanted) {
        list_append(&lock->m->events, &lock->in_events);
        timer_wake(lock->m, 0);
    }
}

void lock_change(sqlock_lock *lock, enum lease_event event, int64_t now, int64_t arg)
{
    unsigned todo = lease_apply(&lock->lease, event, now, arg);

    lock->to_act |= todo & LEASE_ARM;
    if ((todo & LEASE_REPORT) && lock->on_event != NULL && !lock->quiet)
        lock->to_report = 1;
    assert(!lock->to_report || lock->on_event != NULL);
}

void lock_act(sqlock_lock *lock)
{
    assert(mutex_is_mine(&lock->m->mu));
    if (lock->to_act & LEASE_ARM)
        lock_set_descriptor(lock);
    lock->to_act = 0;
    lock_plan(lock);
    lock_queue_event(lock);
}

void lock_apply(sqlock_lock *lock, enum lease_event event, int64_t arg)
{
    lock_change(lock, event, sqlock_now_us(), arg);
    lock_act(lock);
}

/* Two renewals may be under way: the one that was sent first is answered last. Its end is the later
 * one only if the server ran it last. Other answers count as they come: after a step back of the
 * server's clock, an end is the smaller one. */
void lock_note_end(sqlock_lock *lock, const struct answer *answer, int64_t server)
{
    const int64_t end = answer->now + answer->left;

    if (server == lock->end_server && answer->sent < lock->end_sent && end <= lock->server_end)
        return;
    lock->server_end = end;
    lock->end_server = server;
    lock->end_sent = time_max(answer->sent, lock->end_sent);
}

int lock_granted(sqlock_lock *lock, const struct answer *answer, int64_t now)
{
    int64_t from = call_counts_from(lock->m, answer);

    if (lease_deadline(&lock->lease, from) - now < lock->lease.ttl / 2)
        return 0;
    lock->token = answer->token;
    lock_note_end(lock, answer, answer->server);
    lock->pending = PENDING_NOTHING;
    lock_change(lock, LEASE_GRANTED, now, from);
    if (answer->server != lock->m->server)
        lock_moved(lock, now);
    return 1;
}

void lock_replaced(sqlock_lock *lock, int64_t now)
{
    lock->quiet = 1;
    lock_change(lock, LEASE_RELEASING, now, 0);
    lock_change(lock, LEASE_RELEASED, now, 0);
}

/* An imported token may be wrong, until the row has confirmed it. A server that took over may lack
 * the commit that made the row. */
sqlock_why lock_denied(const sqlock_lock *lock, const struct answer *answer)
{
    sqlock_why why = answer_why(answer, lock->server_end != 0 ? lock->token : 0);
    int moved = lock->server_end != 0 && answer->server != lock->end_server;

    return moved && why == SQLOCK_WHY_GONE ? SQLOCK_WHY_FORGOTTEN : why;
}

void lock_moved(sqlock_lock *lock, int64_t now)
{
    lock->failures = lock->doubted = 0;
    lock->retry_at = 0;
    lock->unchecked = lock->lease.manual;
    lock_change(lock, LEASE_MOVED, now, 0);
}

/* A renewal on another server than the manager's proves nothing. */
void lock_renewed(sqlock_lock *lock, const struct answer *answer, int64_t now)
{
    if (answer->server != lock->m->server)
        return;
    lock->unchecked = 0;
    lock_note_end(lock, answer, answer->server);
    lock->failures = 0;
    lock->doubted = 0;
    lock_change(lock, LEASE_RENEWED, now, call_counts_from(lock->m, answer));
}
