/* An actor's bytes. */
#include "core/model/actor.h"
#include "tests/lib/check.h"

/* The first ones of the list in the paper on SipHash: of 0, 1, 2 ... bytes, which are 00, 01, 02
 * ...
 */
TEST(test_bytes_of_an_actor_are_the_same_everywhere)
{
    static const unsigned char expected[][ACTOR_SIZE] = {
        {0x31, 0x0e, 0x0e, 0xdd, 0x47, 0xdb, 0x6f, 0x72},
        {0xfd, 0x67, 0xdc, 0x93, 0xc5, 0x39, 0xf8, 0x74},
        {0x5a, 0x4f, 0xa9, 0xd9, 0x09, 0x80, 0x6c, 0x0d}};
    static const unsigned char of_15[ACTOR_SIZE] = {0xe5, 0x45, 0xbe, 0x49, 0x61, 0xca, 0x29, 0xa1};
    unsigned char out[SQLOCK_OWNER_SIZE] = {0};
    char text[15];

    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)i;
    for (size_t len = 0; len < 3; len++) {
        actor_own(text, len, out);
        assert_memory_equal(out, expected[len], ACTOR_SIZE);
    }
    actor_own(text, 15, out);
    assert_memory_equal(out, of_15, ACTOR_SIZE);
}

/* Of an application's own making: they begin alike, and mean nothing by it. */
TEST(test_owners_without_the_mark_are_of_no_actor)
{
    const unsigned char a[] = "invoice-0000000a", b[] = "invoice-0000000b";
    unsigned char c[SQLOCK_OWNER_SIZE] = {0}, d[SQLOCK_OWNER_SIZE] = {0};

    assert_false(actor_same(a, b));
    c[ACTOR_SIZE] = 1;
    d[ACTOR_SIZE] = 2;
    actor_own("job", 3, c);
    actor_own("job", 3, d);
    assert_true(actor_has(c) && actor_same(c, d));
    actor_own("jobs", 4, d);
    assert_false(actor_same(c, d));
}

/* So everyone sees which seat an upgrade gives back, also after many. */
TEST(test_successor_is_of_the_same_actor_and_of_one_owner)
{
    unsigned char a[SQLOCK_OWNER_SIZE] = {0}, b[SQLOCK_OWNER_SIZE] = {0};
    unsigned char c[SQLOCK_OWNER_SIZE] = {0}, again[SQLOCK_OWNER_SIZE] = {0};

    actor_own("job", 3, a);
    actor_succeed(b, a);
    again[ACTOR_SIZE] = 1; /* what was drawn for it */
    actor_succeed(again, a);
    assert_true(actor_succeeds(again, a));
    assert_memory_not_equal(again, b, sizeof b);
    actor_succeed(c, b);
    assert_true(actor_same(a, b) && actor_same(a, c));
    assert_true(actor_succeeds(b, a) && actor_succeeds(c, b));
    assert_false(actor_succeeds(c, a) || actor_succeeds(a, b) || actor_succeeds(a, a));
    a[ACTOR_SIZE] ^= 1;
    assert_false(actor_succeeds(b, a));
}

TEST_MAIN_EACH(NULL, NULL)
