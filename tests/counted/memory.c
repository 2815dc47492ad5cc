/* The library's allocator, in the place of core/base/mem.c: this file's object is linked before the
 * library, so the library's own is left out. It counts what is given out and not given back, and
 * each allocation is a point at which a fault may happen. */
#include <stdatomic.h>
#include <stdlib.h>

#include <sqlock/driver.h>

#include "tests/counted/fault.h"

static atomic_long live;

long memory_live(void)
{
    return atomic_load(&live);
}

void *sqlock_mem_alloc(size_t size)
{
    void *p = fault_at(AT_MEMORY) == FAULT_NONE ? calloc(1, size) : NULL;

    atomic_fetch_add(&live, p != NULL);
    return p;
}

void *sqlock_mem_resize(void *old, size_t size)
{
    void *p = fault_at(AT_MEMORY) == FAULT_NONE ? realloc(old, size) : NULL;

    atomic_fetch_add(&live, p != NULL && old == NULL);
    return p;
}

void sqlock_mem_free(void *p)
{
    atomic_fetch_sub(&live, p != NULL);
    free(p);
}
