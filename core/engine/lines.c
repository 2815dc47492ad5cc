/* Waiters of one manager that wait for the same lock, behind one place in the database's queue. */
#include <assert.h>
#include <string.h>

#include "core/engine/lines.h"
#include "core/engine/op.h"

/* The holder may be of this manager too, and pass the lock on at once. Only if it does not is a
 * place worth a request. */
#define HELD_US INT64_C(5000)

/* So long someone waits alone at most. Others of other processes may overtake for that time. */
#define ALONE_US INT64_C(50000)

/* FNV-1a (Fowler, Noll, Vo). */
static uint64_t line_key(const char *ns, size_t ns_len, const char *name, size_t name_len)
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
    return line_find(lock->m, lock->ns, lock->ns_len, lock->name, lock->name_len);
}

/* NULL: no memory. */
static struct line *line_new(struct place *p)
{
    struct line *l = sqlock_mem_alloc(sizeof *l + p->ns_len + p->name_len);

    if (l == NULL)
        return NULL;
    list_init(&l->alone);
    list_init(&l->in_due);
    l->ns_len = p->ns_len;
    l->name_len = p->name_len;
    memcpy(l->ns, p->ns, p->ns_len + p->name_len);
    hash_put(&p->m->queue.names, &l->by_name, line_key(p->ns, p->ns_len, p->name, p->name_len));
    return l;
}

/* Its first one is to get a place then. Who is late already goes before others. */
static void line_set_due(sqlock *m, struct line *l, int64_t due)
{
    list_remove(&l->in_due);
    l->due = due;
    list_append(due == 0 ? m->queue.lines.next : &m->queue.lines, &l->in_due);
    worker_wake(m, due);
}

int line_join(struct place *p, int alone)
{
    struct line *l = line_find(p->m, p->ns, p->ns_len, p->name, p->name_len);

    if (l == NULL && (l = line_new(p)) == NULL)
        return 0;
    p->line = l;
    if (!alone) {
        l->queued++;
        list_remove(&l->in_due);
    } else {
        p->came = sqlock_now_us();
        list_append(&l->alone, &p->in_line);
        list_append(&p->m->queue.alone, &p->in_alone);
        worker_wake(p->m, p->came + ALONE_US);
    }
    return 1;
}

void line_part(struct place *p, int granted)
{
    struct line *l = p->line;

    if (list_is_empty(&p->in_line))
        l->queued--;
    list_remove(&p->in_line);
    list_remove(&p->in_alone);
    p->line = NULL;
    if (l->queued > 0)
        return;
    if (list_is_empty(&l->alone)) {
        list_remove(&l->in_due);
        hash_remove(&p->m->queue.names, &l->by_name);
        sqlock_mem_free(l);
    } else if (granted) {
        line_set_due(p->m, l, sqlock_now_us() + HELD_US);
    } else if (list_is_empty(&l->in_due)) {
        line_set_due(p->m, l, 0);
    }
}

void line_queue(struct place *p)
{
    if (list_is_empty(&p->in_line))
        return;
    list_remove(&p->in_line);
    list_remove(&p->in_alone);
    list_remove(&p->line->in_due);
    p->line->queued++;
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

int64_t line_number(const struct place *p)
{
    int64_t ahead = (int64_t)p->line->queued;

    if (list_is_empty(&p->in_line))
        return p->number;
    LIST_EACH(at, &p->line->alone)
    {
        ahead++;
        if (at == &p->in_line)
            break;
    }
    return ahead;
}

/* The first one of a line that has no one in the queue; NULL: no such line is due. */
static struct place *lines_first(const sqlock *m, int64_t now)
{
    struct line *l = LIST_MEMBER(m->queue.lines.next, struct line, in_due);

    return list_is_empty(&m->queue.lines) || l->due > now
               ? NULL
               : LIST_MEMBER(l->alone.next, struct place, in_line);
}

/* Who has waited alone for longest; NULL: no one for too long. */
static struct place *lines_oldest(const sqlock *m, int64_t now)
{
    struct place *p = LIST_MEMBER(m->queue.alone.next, struct place, in_alone);

    return list_is_empty(&m->queue.alone) || p->came + ALONE_US > now ? NULL : p;
}

int64_t lines_due(const sqlock *m)
{
    const struct queue *q = &m->queue;
    int64_t due = TIME_NEVER;

    if (!list_is_empty(&q->lines))
        due = LIST_MEMBER(q->lines.next, struct line, in_due)->due;
    if (!list_is_empty(&q->alone))
        due = time_min(due, LIST_MEMBER(q->alone.next, struct place, in_alone)->came + ALONE_US);
    return due;
}

void lines_run(sqlock *m, int64_t now)
{
    struct place *p;

    while ((p = lines_first(m, now)) != NULL || (p = lines_oldest(m, now)) != NULL) {
        line_queue(p);
        place_call(p);
    }
}
