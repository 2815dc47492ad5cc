#ifndef SQLOCK_MODEL_HASH_H
#define SQLOCK_MODEL_HASH_H

#include <stddef.h>
#include <stdint.h>

/* What has this key? A hash table with chains. Its nodes are fields of what they stand for. Keys
 * are owners, which are random, so their last bytes are the hash. Without memory to grow, chains
 * only get longer. */
struct hash_node {
    struct hash_node *next; /* in its chain */
    uint64_t key;
};

struct hash {
    struct hash_node **chains; /* NULL: it is empty, and never grew */
    size_t n_chains;           /* a power of two, or 0 */
    size_t n;                  /* nodes */
    struct hash_node *few;     /* the only chain, until there is memory for more */
};

void hash_put(struct hash *h, struct hash_node *node, uint64_t key);
/* The node is in the table. */
void hash_remove(struct hash *h, struct hash_node *node);
/* The first node of the chain in which nodes with this key are; go on by `next`. NULL: none. */
struct hash_node *hash_chain(const struct hash *h, uint64_t key);
/* Free its memory; the nodes are not touched. */
void hash_free(struct hash *h);

#endif
