/* Which process this is. */
#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/process.h"

/* A pid alone does not distinguish a child from its parent. With pid namespaces both may be number
 * 1, and a late child may get the number of an ancestor that has ended. So a second number goes
 * with the pid. It is in a page that the kernel clears in every child, even where no
 * pthread_atfork() handler runs. A child draws the next number from a counter that it inherits. So
 * its number differs from those of all processes whose handles it can have. A child of vfork()
 * shares the memory, and differs by its pid.
 *
 * These are static because a child knows its parents only by the memory that it inherits. The
 * application cannot set them. */
static _Atomic(atomic_uint *) number;
static atomic_uint drawn;
/* Stands in for the page if the system has none. Then pids alone count. */
static atomic_uint never_wiped;

/* The page, which is made at the first call. It must stay at one place: two pages would give the
 * process two numbers. */
static atomic_uint *process_number_place(void)
{
    atomic_uint *place = atomic_load(&number), *before = NULL;
    void *page = MAP_FAILED;

    if (place != NULL)
        return place;
#ifdef MADV_WIPEONFORK
    page = mmap(NULL, sizeof *place, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED && madvise(page, sizeof *place, MADV_WIPEONFORK) == 0)
        place = page;
#endif
    if (place == NULL)
        place = &never_wiped;
    /* Two threads may get here at once, and one of them may be forked in the middle. So a page
     * counts only from here on, and no number was drawn before. */
    if (!atomic_compare_exchange_strong(&number, &before, place))
        place = before;
    if (page != MAP_FAILED && place != page)
        munmap(page, sizeof *place);
    return place;
}

int64_t sqlock_process_id(void)
{
    atomic_uint *place = process_number_place();
    unsigned now = atomic_load(place);

    if (now == 0) {
        const unsigned next = atomic_fetch_add(&drawn, 1) + 1;

        if (atomic_compare_exchange_strong(place, &now, next))
            now = next;
    }
    assert(now != 0); /* a parent and its child would have the same number */
    return (int64_t)((uint64_t)now << 32 | (uint32_t)getpid());
}

void process_name(long pid, char *out, unsigned long size)
{
    char host[65] = "";

    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    snprintf(out, size, "%ld@%s", pid > 0 ? pid : (long)getpid(), host);
}
