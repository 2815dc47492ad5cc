#ifndef SQLOCK_BASE_LIST_H
#define SQLOCK_BASE_LIST_H

#include <assert.h>
#include <stddef.h>

/* A circular list. Its links are fields of its members, and its head is a link, too. */
struct link {
    struct link *next, *prev;
};

#define LIST_MEMBER(at, type, field) ((type *)(void *)((char *)(at)-offsetof(type, field)))
#define LIST_EACH(at, head)          for (struct link *at = (head)->next; at != (head); at = at->next)

static inline void list_init(struct link *head)
{
    head->next = head->prev = head;
}

static inline int list_is_empty(const struct link *head)
{
    return head->next == head;
}

static inline void list_append(struct link *head, struct link *at)
{
    assert(head->prev->next == head && head->next->prev == head);
    assert(at->next == at); /* it is in no other list */
    at->prev = head->prev;
    at->next = head;
    head->prev->next = at;
    head->prev = at;
}

/* Take `at` out of its list. Taking it out twice does nothing. */
static inline void list_remove(struct link *at)
{
    assert(at->prev->next == at && at->next->prev == at);
    at->prev->next = at->next;
    at->next->prev = at->prev;
    list_init(at);
}

#endif
