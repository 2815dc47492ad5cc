#ifndef SQLOCK_MODEL_HEAP_H
#define SQLOCK_MODEL_HEAP_H

#include <stddef.h>
#include <stdint.h>

/* What is due first? A pairing heap (Fredman, Sedgewick, Sleator, Tarjan, The pairing heap: a new
 * form of self-adjusting heap, 1986). Its nodes are fields of what they stand for, so it needs no
 * memory of its own and cannot fail. To put a node in takes constant time, to take one out
 * logarithmic time on average. */
struct heap_node {
    int64_t at;
    struct heap_node *child; /* the first of those that are due later */
    struct heap_node *next;  /* beside it */
    struct heap_node **link; /* what points to this node; NULL: it is in no heap */
};

struct heap {
    struct heap_node *first; /* NULL: it is empty */
};

#define HEAP_NEVER INT64_MAX

/* When the node is due; HEAP_NEVER: it is in no heap. */
static inline int64_t heap_node_due(const struct heap_node *node)
{
    return node->link != NULL ? node->at : HEAP_NEVER;
}

/* The node is due at another time than before. */
void heap_move(struct heap *h, struct heap_node *node, int64_t at);

/* The node is due at that time, whether it was in the heap or not. HEAP_NEVER takes it out. Most
 * callers look at all of a thing's times when one of them changes, so this is mostly no change.
 * Returns 1 if it was a change. */
static inline int heap_set(struct heap *h, struct heap_node *node, int64_t at)
{
    if (at == heap_node_due(node))
        return 0;
    heap_move(h, node, at);
    return 1;
}

/* When the first node is due; HEAP_NEVER: the heap is empty. */
static inline int64_t heap_due(const struct heap *h)
{
    return h->first != NULL ? h->first->at : HEAP_NEVER;
}

#define HEAP_FIRST(heap, type, field)                                                              \
    ((type *)(void *)((char *)(heap)->first - offsetof(type, field)))

#endif
