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
    unsigned char out[ACTOR_SIZE];
    char text[15];

    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)i;
    for (size_t len = 0; len < 3; len++) {
        actor_bytes(text, len, out);
        assert_memory_equal(out, expected[len], ACTOR_SIZE);
    }
    actor_bytes(text, 15, out);
    assert_memory_equal(out, of_15, ACTOR_SIZE);
}

TEST_MAIN_EACH(NULL, NULL)
