/* Waiters of one manager that wait for the same lock, behind one place in the database's queue. */
#include <assert.h>
#include <string.h>

#include "core/engine/lines.h"
#include "core/engine/op.h"

/* So long someone waits alone at most. Others of other processes may overtake for that time. */
#define ALONE_US INT64_C(50000)

/* FNV-1a (Fowler, Noll, Vo). */
uint64_t line_key(const char *ns, size_t ns_len, const char *name, size_t name_len)
{
    uint64_t key = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < ns_len + name_len; i++)
        key = (key ^ (unsigned char)(i < ns_len ? ns[i] : name[i - ns_len])) *
              UINT64_C(1099511628211);
    return key;
}

static struct line *line_find(const sqlock *m, const char *ns, size_t ns_len, const char *name,
                              size_t name_len)
{
    uint64_t key = line_key(ns, ns_len, name, name_len);
    struct hash_node *at = hash_chain(&m->queue.names, key);

    for (; at != NULL; at = at->next) {
        struct line *l = LIST_MEMBER(at, struct line, by_name);

        if (at->key == key && l->ns_len == ns_len && l->name_len == name_len &&
            memcmp(l->ns, ns, ns_len) == 0 && memcmp(l->ns + ns_len, name, name_len) == 0)
            return l;
    }
    return NULL;
}

struct line *line_of(const sqlock_lock *lock)
{
    if (lock->m->queue.names.n == 0)
        return NULL;
    return line_find(lock->m, lock->ns, lock->ns_len, lock->name, lock->name_len);
}

/* NULL: no memory. */
static struct line *line_new(const sqlock_lock *lock)
{
    struct line *l = sqlock_mem_alloc(sizeof *l + lock->ns_len + lock->name_len);

    if (l == NULL)
        return NULL;
    list_init(&l->alone);
    l->ns_len = lock->ns_len;
    l->name_len = lock->name_len;
    memcpy(l->ns, lock->ns, l->ns_len);
    memcpy(l->ns + l->ns_len, lock->name, l->name_len);
    hash_put(&lock->m->queue.names, &l->by_name,
             line_key(lock->ns, lock->ns_len, lock->name, lock->name_len));
    return l;
}

int line_join(struct place *p, int alone)
{
    sqlock *m = p->op->m;
    struct line *l = line_of(p->op->lock);

    if (l == NULL && (l = line_new(p->op->lock)) == NULL)
        return 0;
    p->line = l;
    l->n++;
    if (alone) {
        list_append(&l->alone, &p->in_line);
        list_append(&m->queue.alone, &p->in_alone);
        worker_wake(m, p->came + ALONE_US);
    }
    return 1;
}

/* The latest answer is right. When the first one has gone, the next answer says who it is now. */
void line_number(struct place *p, int64_t number)
{
    struct line *l = p->line;

    if (l->first == p)
        l->first = NULL;
    p->number = number;
    if (number > 0 && (l->first == NULL || number <= l->first->number))
        l->first = p;
}

void line_part(struct place *p)
{
    struct line *l = p->line;

    line_queue(p);
    line_number(p, 0);
    line_waits_for_seats(p, 0);
    p->line = NULL;
    if (--l->n > 0)
        return;
    hash_remove(&p->op->m->queue.names, &l->by_name);
    sqlock_mem_free(l);
}

void line_queue(struct place *p)
{
    list_remove(&p->in_line);
    list_remove(&p->in_alone);
}

struct place *line_next(const sqlock_lock *lock, int64_t now)
{
    struct line *l = line_of(lock);

    if (l == NULL)
        return NULL;
    LIST_EACH(at, &l->alone)
    {
        struct place *p = LIST_MEMBER(at, struct place, in_line);
        const sqlock_op *op = p->op;

        if (!p->sent && op->parked && op->driven_by == NULL && !op->cancelled &&
            now < op_last_try(op) && op->lock->lease.ttl <= lock->m->longest)
            return p;
    }
    return NULL;
}

void line_passes(const sqlock_lock *lock, int64_t until)
{
    struct line *l = line_of(lock);

    if (l != NULL)
        l->passing = until;
}

void line_waits_for_seats(struct place *p, int waits)
{
    if (waits)
        p->line->for_seats = p;
    else if (p->line->for_seats == p)
        p->line->for_seats = NULL;
}

void line_seat_left(const sqlock_lock *lock)
{
    struct line *l = line_of(lock);

    if (l != NULL && l->for_seats != NULL)
        place_call(l->for_seats);
}

/* Who has waited alone for longest; NULL: no one does. */
static struct place *lines_oldest(const sqlock *m)
{
    const struct link *alone = &m->queue.alone;

    return list_is_empty(alone) ? NULL : LIST_MEMBER(alone->next, struct place, in_alone);
}

int64_t lines_due(const sqlock *m)
{
    const struct place *p = lines_oldest(m);

    return p == NULL ? TIME_NEVER : p->came + ALONE_US;
}

void lines_run(sqlock *m, int64_t now)
{
    while (lines_due(m) <= now) {
        struct place *p = lines_oldest(m);

        line_queue(p);
        place_call(p);
    }
}
