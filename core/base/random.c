/* Random bytes from the kernel. Owners must differ between processes, also after a fork. */
#include <errno.h>
#include <sys/random.h>

#include <sqlock/driver.h>

#include "core/base/random.h"

int random_bytes(void *out, size_t len)
{
    unsigned char *at = out;

    while (len > 0) {
        ssize_t n = getrandom(at, len, 0);

        if (n < 0 && errno != EINTR)
            return -1;
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

uint32_t sqlock_random_below(uint32_t below)
{
    uint32_t r = 0;

    if (below < 2 || random_bytes(&r, sizeof r) != 0)
        return 0;
    /* Multiply and shift instead of a division. The bias is below 2^-32. */
    return (uint32_t)(((uint64_t)r * below) >> 32);
}
