/* A pairing heap of due times. */
#include <assert.h>

#include "core/model/heap.h"

static void heap_point(struct heap_node **link, struct heap_node *node)
{
    *link = node;
    if (node != NULL)
        node->link = link;
}

/* The later one becomes a child of the earlier one. Both are roots, beside nothing. */
static struct heap_node *heap_meld(struct heap_node *a, struct heap_node *b)
{
    struct heap_node *first = b->at < a->at ? b : a, *later = first == a ? b : a;

    assert(a->next == NULL && b->next == NULL);
    heap_point(&later->next, first->child);
    heap_point(&first->child, later);
    return first;
}

/* Pair the brothers from left to right, then meld the pairs from right to left. Not a part of
 * heap_move(), which rarely comes here: few nodes have a child. */
static __attribute__((noinline)) struct heap_node *heap_join(struct heap_node *brothers)
{
    struct heap_node *pairs = NULL, *all = NULL;

    while (brothers != NULL) {
        struct heap_node *a = brothers, *b = a->next;

        brothers = b != NULL ? b->next : NULL;
        a->next = NULL;
        if (b != NULL) {
            b->next = NULL;
            a = heap_meld(a, b);
        }
        a->next = pairs;
        pairs = a;
    }
    while (pairs != NULL) {
        struct heap_node *pair = pairs;

        pairs = pair->next;
        pair->next = NULL;
        all = all != NULL ? heap_meld(all, pair) : pair;
    }
    return all;
}

static void heap_add(struct heap *h, struct heap_node *node)
{
    assert(node->child == NULL && node->next == NULL);
    heap_point(&h->first, h->first != NULL ? heap_meld(h->first, node) : node);
}

static void heap_remove(struct heap *h, struct heap_node *node)
{
    struct heap_node *children = node->child != NULL ? heap_join(node->child) : NULL;

    assert(*node->link == node);
    heap_point(node->link, node->next);
    node->child = node->next = NULL;
    node->link = NULL;
    if (children != NULL)
        heap_point(&h->first, h->first != NULL ? heap_meld(h->first, children) : children);
}

void heap_move(struct heap *h, struct heap_node *node, int64_t at)
{
    if (node->link != NULL)
        heap_remove(h, node);
    node->at = at;
    if (at != HEAP_NEVER)
        heap_add(h, node);
}
