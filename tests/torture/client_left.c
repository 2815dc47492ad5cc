#include "tests/torture/client_left.h"

#include <dirent.h>
#include <inttypes.h>
#include <malloc.h>
#include <stddef.h>

/* After 8 s of a cell 1.4 KiB are left: what pthreads keep for the stacks of four threads. A
 * sanitizer has another malloc(), and looks for leaks by itself. */
enum { KEPT_BYTES = 16 * 1024 };

static int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

struct left left_begin(void)
{
    mallopt(M_ARENA_MAX, 1);
    return left_now();
}

struct left left_now(void)
{
    struct left now = {.descriptors = open_descriptors()};
    struct mallinfo2 heap = mallinfo2();

    now.bytes = (int64_t)(heap.uordblks + heap.hblkhd);
    return now;
}

bool left_nothing(const struct left *before, FILE *say)
{
    struct left now = left_now();
    int descriptors = now.descriptors - before->descriptors;
    int64_t bytes = now.bytes - before->bytes;

    if (descriptors != 0)
        fprintf(say, "%d descriptors were left open\n", descriptors);
    if (bytes > KEPT_BYTES)
        fprintf(say, "%" PRId64 " bytes of memory were left behind\n", bytes);
    return descriptors == 0 && bytes <= KEPT_BYTES;
}
