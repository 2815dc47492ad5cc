/* Random numbers: within their bounds, about even, and never the same in two processes. */
#include <string.h>
#include <sys/mman.h>

#include <sqlock/driver.h>

#include "core/base/random.h"
#include "tests/lib/check.h"

TEST(test_number_is_below_its_bound)
{
    const uint32_t bounds[] = {1, 2, 3, 7, 10, 1000, 65536, 250000, UINT32_C(1) << 31, UINT32_MAX};

    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        for (int n = 0; n < 5000; n++)
            assert_true(sqlock_random_below(bounds[i]) < bounds[i]);
    assert_int_equal(sqlock_random_below(0), 0);
}

/* 10000 throws for each part of a range, with a deviation of 95. Ten deviations are left to chance:
 * less likely than a broken machine. Of a wide range the highest bits count. */
TEST(test_numbers_are_about_even_to_the_end_of_their_range)
{
    int tenths[10] = {0}, quarters[4] = {0};

    for (int i = 0; i < 100000; i++)
        tenths[sqlock_random_below(10)]++;
    for (int i = 0; i < 40000; i++)
        quarters[sqlock_random_below(UINT32_MAX) >> 30]++;
    for (int i = 0; i < 10; i++)
        assert_between(10000 - 950, tenths[i], 10000 + 950);
    for (int i = 0; i < 4; i++)
        assert_between(10000 - 870, quarters[i], 10000 + 870);
}

TEST(test_bytes_fill_what_was_requested_and_no_more)
{
    unsigned char bytes[600];
    unsigned char seen[512] = {0};

    for (int round = 0; round < 64; round++) {
        memset(bytes, 0xAA, sizeof bytes);
        assert_int_equal(random_bytes(bytes, sizeof seen), 0);
        for (size_t i = 0; i < sizeof seen; i++)
            seen[i] |= bytes[i] != 0xAA;
        for (size_t i = sizeof seen; i < sizeof bytes; i++)
            assert_int_equal(bytes[i], 0xAA);
    }
    for (size_t i = 0; i < sizeof seen; i++)
        assert_true(seen[i]);
    assert_int_equal(random_bytes(bytes, 0), 0);
    assert_int_equal(bytes[sizeof bytes - 1], 0xAA);
}

#define OWNERS 200

struct draw {
    unsigned char owners[3][OWNERS][SQLOCK_OWNER_SIZE]; /* the parent's, and two children's */
};

static int draw_into(unsigned char owners[OWNERS][SQLOCK_OWNER_SIZE])
{
    for (int i = 0; i < OWNERS; i++)
        if (random_bytes(owners[i], SQLOCK_OWNER_SIZE) != 0)
            return 1;
    return 0;
}

static int draw_first(void *draw)
{
    return draw_into(((struct draw *)draw)->owners[1]);
}

static int draw_second(void *draw)
{
    return draw_into(((struct draw *)draw)->owners[2]);
}

/* A generator that is seeded once would go on the same in both children. */
TEST(test_two_forks_draw_different_owners)
{
    struct draw *d =
        mmap(NULL, sizeof *d, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const unsigned char *all = (const unsigned char *)d;
    unsigned char warm_up[SQLOCK_OWNER_SIZE];
    pid_t first, second;

    assert_ptr_not_equal(d, MAP_FAILED);
    assert_int_equal(random_bytes(warm_up, sizeof warm_up), 0);
    first = child_start(draw_first, d);
    second = child_start(draw_second, d);
    assert_int_equal(draw_into(d->owners[0]), 0);
    assert_int_equal(child_wait(first, patience_ms(10000)), 0);
    assert_int_equal(child_wait(second, patience_ms(10000)), 0);
    for (size_t i = 0; i < sizeof d->owners / SQLOCK_OWNER_SIZE; i++)
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(all + i * SQLOCK_OWNER_SIZE, all + k * SQLOCK_OWNER_SIZE,
                                    SQLOCK_OWNER_SIZE);
    munmap(d, sizeof *d);
}

TEST_MAIN_EACH(NULL, NULL)
