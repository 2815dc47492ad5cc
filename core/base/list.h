#ifndef SQLOCK_BASE_LIST_H
#define SQLOCK_BASE_LIST_H

#include <stddef.h>

/* A circular list whose links live in its members; a head is a link of its own. */
struct link {
    struct link *next, *prev;
};

#define LIST_MEMBER(at, type, field) ((type *)(void *)((char *)(at)-offsetof(type, field)))
#define LIST_EACH(at, head)          for (struct link *at = (head)->next; at != (head); at = at->next)

static inline void list_init(struct link *head)
{
    head->next = head->prev = head;
}

static inline void list_append(struct link *head, struct link *at)
{
    at->prev = head->prev;
    at->next = head;
    head->prev->next = at;
    head->prev = at;
}

/* Takes at out of its list; taking it out twice does nothing. */
static inline void list_remove(struct link *at)
{
    at->prev->next = at->next;
    at->next->prev = at->prev;
    list_init(at);
}

#endif
