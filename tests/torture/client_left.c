/* What a client left behind. */
#include "tests/torture/client.h"

#include <dirent.h>
#include <inttypes.h>
#include <malloc.h>
#include <stddef.h>

#include "tests/lib/check.h"

/* pthreads keep something for each stack of threads that have ended: 352 bytes. A client has a few
 * threads for each of its own, which are the managers'. A sanitizer has another malloc(), and that
 * for addresses looks for leaks by itself. */
enum { KEPT_BYTES = 2048, KEPT_OF_THREAD_BYTES = 3 * 352 };

/* Who joins a thread is told of its end a moment before it leaves the folder. */
enum { LEAVING_MS = 2000 };

/* Of a folder of /proc. */
static int entries(const char *folder)
{
    DIR *dir = opendir(folder);
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
    struct left now = {.descriptors = entries("/proc/self/fd"),
                       .threads = entries("/proc/self/task")};
    struct mallinfo2 heap = mallinfo2();

    now.bytes = (int64_t)(heap.uordblks + heap.hblkhd);
    return now;
}

static struct left left_when_threads_are_gone(const struct left *before)
{
    struct left now = left_now();

    for (int ms = 0; ms < LEAVING_MS && now.threads > before->threads; ms++) {
        sleep_ms(1);
        now = left_now();
    }
    return now;
}

bool left_nothing(const struct left *before, int64_t threads, FILE *say)
{
    struct left now = left_when_threads_are_gone(before);
    int descriptors = now.descriptors - before->descriptors;
    int running = now.threads - before->threads;
    int64_t bytes = now.bytes - before->bytes;
    bool grown = bytes > KEPT_BYTES + threads * KEPT_OF_THREAD_BYTES;

    if (descriptors != 0)
        fprintf(say, "%d descriptors were left open\n", descriptors);
    if (running != 0)
        fprintf(say, "%d threads were left running\n", running);
    if (grown)
        fprintf(say, "%" PRId64 " bytes of memory were left behind\n", bytes);
    return descriptors == 0 && running == 0 && !grown;
}
