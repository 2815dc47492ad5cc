#include <assert.h>

#include <sqlock/driver.h>

#include "core/model/hash.h"

#define CHAINS_FIRST 16

static struct hash_node **hash_at(const struct hash *h, uint64_t key)
{
    return h->n_chains > 0 ? &h->chains[key & (h->n_chains - 1)] : (struct hash_node **)&h->few;
}

static void hash_hang(struct hash *h, struct hash_node *node)
{
    struct hash_node **chain = hash_at(h, node->key);

    node->next = *chain;
    *chain = node;
}

static void hash_hang_all(struct hash *h, struct hash_node *chain)
{
    while (chain != NULL) {
        struct hash_node *next = chain->next;

        hash_hang(h, chain);
        chain = next;
    }
}

/* As many chains as nodes, at least. */
static void hash_grow(struct hash *h)
{
    struct hash old = *h;

    h->n_chains = old.n_chains > 0 ? old.n_chains * 2 : CHAINS_FIRST;
    h->chains = sqlock_mem_alloc(h->n_chains * sizeof *h->chains);
    if (h->chains == NULL) {
        *h = old;
        return;
    }
    h->few = NULL;
    hash_hang_all(h, old.few);
    for (size_t i = 0; i < old.n_chains; i++)
        hash_hang_all(h, old.chains[i]);
    sqlock_mem_free(old.chains);
}

void hash_put(struct hash *h, struct hash_node *node, uint64_t key)
{
    if (h->n >= h->n_chains)
        hash_grow(h);
    node->key = key;
    hash_hang(h, node);
    h->n++;
}

void hash_remove(struct hash *h, struct hash_node *node)
{
    struct hash_node **at = hash_at(h, node->key);

    while (*at != node) {
        assert(*at != NULL);
        at = &(*at)->next;
    }
    *at = node->next;
    node->next = NULL;
    h->n--;
}

struct hash_node *hash_chain(const struct hash *h, uint64_t key)
{
    return *hash_at(h, key);
}

void hash_free(struct hash *h)
{
    assert(h->n == 0);
    sqlock_mem_free(h->chains);
    h->chains = NULL;
    h->n_chains = 0;
}
