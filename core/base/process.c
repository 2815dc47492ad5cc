/* Who this process is. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/process.h"

/* A pid alone does not tell a child from its parent: with pid namespaces both may be number 1, and
 * a late child may be given the number of an ancestor that has ended. So a number goes with it that
 * stands in a page which the kernel empties in every child, also in one that no handler of
 * pthread_atfork() is run for. A child draws the next number, from a counter that it inherits: it
 * differs from those of all processes that it can have handles of. What shares the memory, a child
 * of vfork(), is told by its pid.
 *
 * Static, for a child has nothing but its memory to know its parents by; nobody can set it. */
static _Atomic(atomic_uint *) number;
static atomic_uint drawn;
static atomic_uint
    never_wiped; /* in place of the page where there is none: pids alone count then */

/* Always the same place in a process: two would make two numbers of it. */
static atomic_uint *number_place(void)
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
    /* Two threads may come at once, and one of them be forked in the middle: a page counts from
     * here on, and before it nobody was given a number. */
    if (!atomic_compare_exchange_strong(&number, &before, place))
        place = before;
    if (page != MAP_FAILED && place != page)
        munmap(page, sizeof *place);
    return place;
}

int64_t sqlock_process_id(void)
{
    atomic_uint *place = number_place();
    unsigned now = atomic_load(place);

    if (now == 0) {
        const unsigned next = atomic_fetch_add(&drawn, 1) + 1;

        if (atomic_compare_exchange_strong(place, &now, next))
            now = next;
    }
    return (int64_t)((uint64_t)now << 32 | (uint32_t)getpid());
}

void process_name(long pid, char *out, unsigned long size)
{
    char host[65] = "";

    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    snprintf(out, size, "%ld@%s", pid > 0 ? pid : (long)getpid(), host);
}
