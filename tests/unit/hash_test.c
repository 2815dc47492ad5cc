/* The hash table, beside a plain array that is searched. */
#include <string.h>

#include "core/model/hash.h"
#include "tests/lib/check.h"
#include "tests/lib/dice.h"

enum { NODES = 200, KEYS = 60, STEPS = 20000 };

static struct thing {
    struct hash_node node;
    bool in;
} things[NODES];

static bool is_found(const struct hash *h, const struct thing *t)
{
    struct hash_node *at = hash_chain(h, t->node.key);

    while (at != NULL && at != &t->node)
        at = at->next;
    return at != NULL;
}

/* Few keys, so that several nodes have the same one. */
TEST(test_what_was_put_in_is_found_until_it_is_taken_out)
{
    struct dice d = dice_new("a hash table");
    struct hash h = {.n = 0};
    size_t n = 0;

    memset(things, 0, sizeof things);
    for (int step = 0; step < STEPS; step++) {
        struct thing *t = &things[dice_below(&d, NODES)];

        if (t->in)
            hash_remove(&h, &t->node);
        else
            hash_put(&h, &t->node, dice_below(&d, KEYS));
        t->in = !t->in;
        n = t->in ? n + 1 : n - 1;
        assert_int_equal(h.n, n);
        assert_int_equal(is_found(&h, t), t->in);
    }
    for (int i = 0; i < NODES; i++) {
        assert_int_equal(is_found(&h, &things[i]), things[i].in);
        if (things[i].in)
            hash_remove(&h, &things[i].node);
    }
    hash_free(&h);
}

TEST_MAIN_EACH(NULL, NULL)
