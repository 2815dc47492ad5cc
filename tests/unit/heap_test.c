/* The heap of due times, beside a plain array that is searched. */
#include <string.h>

#include "core/model/heap.h"
#include "tests/lib/check.h"
#include "tests/lib/dice.h"

enum { NODES = 60, STEPS = 20000 };

static struct thing {
    int64_t at; /* when it is to be due, whatever the heap made of that */
    struct heap_node node;
} things[NODES];

static int64_t first_due(void)
{
    int64_t first = HEAP_NEVER;

    for (int i = 0; i < NODES; i++)
        if (things[i].at < first)
            first = things[i].at;
    return first;
}

TEST(test_first_is_always_the_one_that_is_due_first)
{
    struct dice d = dice_new("a heap");
    struct heap h = {NULL};
    int in = 0;

    memset(things, 0, sizeof things);
    for (int i = 0; i < NODES; i++)
        things[i].at = HEAP_NEVER;
    for (int step = 0; step < STEPS; step++) {
        struct thing *t = &things[dice_below(&d, NODES)];
        struct heap_node *node = &t->node;
        int out = dice_below(&d, 3) == 0, was_in = node->link != NULL;

        t->at = out ? HEAP_NEVER : (int64_t)dice_below(&d, 1000);
        heap_set(&h, node, t->at);
        in += !out - was_in;
        assert_int_equal(heap_due(&h), first_due());
        assert_int_equal(node->link == NULL, out);
    }
    while (h.first != NULL) {
        struct thing *t = HEAP_FIRST(&h, struct thing, node);

        assert_int_equal(t->node.at, first_due());
        t->at = HEAP_NEVER;
        heap_set(&h, &t->node, HEAP_NEVER);
        in--;
    }
    assert_int_equal(in, 0); /* none was lost */
    assert_int_equal(heap_due(&h), HEAP_NEVER);
}

TEST(test_node_that_moves_to_its_own_time_stays)
{
    struct heap h = {NULL};
    struct thing t = {0};

    heap_set(&h, &t.node, 5);
    heap_set(&h, &t.node, 5);
    assert_int_equal(heap_due(&h), 5);
    heap_set(&h, &t.node, HEAP_NEVER);
    heap_set(&h, &t.node, HEAP_NEVER);
    assert_null(h.first);
}

TEST_MAIN_EACH(NULL, NULL)
