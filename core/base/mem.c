/* All memory of the library and its drivers comes from here, so that tests can make allocations
 * fail. */
#include <stdlib.h>

#include <sqlock/driver.h>

void *sqlock_mem_alloc(size_t size)
{
    return calloc(1, size);
}

void *sqlock_mem_resize(void *p, size_t size)
{
    return realloc(p, size);
}

void sqlock_mem_free(void *p)
{
    free(p);
}
