/* Names and identifiers. The decoder that text.c is compared with builds the code point and judges
 * the number, where text.c judges the bytes by a table. */
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "tests/lib/check.h"
#include "tests/lib/dice.h"

/* Bytes of the character at p by its number: read it, then ask whether it had to be written so. */
static size_t read_char(const unsigned char *p, size_t left)
{
    static const unsigned long least[] = {0, 0x1, 0x80, 0x800, 0x10000};
    size_t n = (p[0] & 0x80) == 0      ? 1
               : (p[0] & 0xE0) == 0xC0 ? 2
               : (p[0] & 0xF0) == 0xE0 ? 3
               : (p[0] & 0xF8) == 0xF0 ? 4
                                       : 0;
    unsigned long number;

    if (n == 0 || n > left)
        return 0;
    number = n == 1 ? p[0] : p[0] & (0x7Fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 0;
        number = number << 6 | (p[i] & 0x3F);
    }
    if (number < least[n] || number > 0x10FFFF || (number >= 0xD800 && number <= 0xDFFF))
        return 0;
    return n;
}

static bool is_utf8(const unsigned char *p, size_t len)
{
    size_t n;

    for (; len > 0; p += n, len -= n)
        if ((n = read_char(p, len)) == 0)
            return false;
    return true;
}

static void check_same(const unsigned char *bytes, size_t len)
{
    if (text_is_utf8((const char *)bytes, len) != is_utf8(bytes, len))
        fail_msg("%zu bytes, %02x %02x %02x %02x: not what the number says", len, bytes[0],
                 len > 1 ? bytes[1] : 0u, len > 2 ? bytes[2] : 0u, len > 3 ? bytes[3] : 0u);
}

TEST(test_all_sequences_of_one_to_three_bytes_are_judged_by_their_numbers)
{
    for (unsigned a = 0; a < 256; a++) {
        unsigned char one[] = {(unsigned char)a};

        check_same(one, 1);
        for (unsigned b = 0; b < 256; b++) {
            unsigned char two[] = {(unsigned char)a, (unsigned char)b};

            check_same(two, 2);
            for (unsigned c = 0; c < 256; c++) {
                unsigned char three[] = {(unsigned char)a, (unsigned char)b, (unsigned char)c};

                check_same(three, 3);
            }
        }
    }
}

/* Four bytes: every beginning, and the edges of what may follow. */
TEST(test_sequences_of_four_bytes_are_judged_by_their_numbers)
{
    static const unsigned char edges[] = {0x00, 0x7F, 0x80, 0x8F, 0x90,
                                          0x9F, 0xA0, 0xBF, 0xC0, 0xFF};

    for (unsigned a = 0; a < 256; a++)
        for (unsigned b = 0; b < 256; b++)
            for (size_t c = 0; c < sizeof edges; c++)
                for (size_t e = 0; e < sizeof edges; e++) {
                    unsigned char four[] = {(unsigned char)a, (unsigned char)b, edges[c], edges[e]};

                    check_same(four, 4);
                }
}

TEST(test_random_mixtures_are_judged_by_their_numbers)
{
    static const unsigned char favourites[] = {0x00, 0x41, 0x7F, 0x80, 0xBF, 0xC2, 0xDF,
                                               0xE0, 0xA0, 0xED, 0x9F, 0xF0, 0x90, 0xF4};
    struct dice d = dice_new("text");

    for (int i = 0; i < 200000; i++) {
        unsigned char bytes[12] = {0};
        size_t len = dice_below(&d, sizeof bytes) + 1;

        for (size_t k = 0; k < len; k++)
            bytes[k] = dice_below(&d, 3) == 0 ? (unsigned char)dice_below(&d, 256)
                                              : favourites[dice_below(&d, sizeof favourites)];
        check_same(bytes, len);
    }
}

TEST(test_length_ends_the_text_and_not_what_follows_it)
{
    assert_true(text_is_utf8("", 0));
    assert_true(text_is_utf8("\xFF", 0));
    assert_true(text_is_utf8("abc\xFF", 3));
    /* the character would be whole with the byte behind the end */
    assert_false(text_is_utf8("\xE2\x82\xAC", 2));
}

TEST(test_prefix_is_letters_digits_and_underscores)
{
    assert_true(text_is_prefix("a"));
    assert_true(text_is_prefix("sqlock_"));
    assert_true(text_is_prefix("z9_09"));
    assert_true(text_is_prefix("abcdefghijklmnopqrstuvwx"));   /* 24 */
    assert_false(text_is_prefix("abcdefghijklmnopqrstuvwxy")); /* 25 */
    assert_false(text_is_prefix(""));
    assert_false(text_is_prefix("1a"));
    assert_false(text_is_prefix("_a"));
    assert_false(text_is_prefix("\xC3\xA9"));
    for (unsigned c = 1; c < 256; c++) {
        char s[] = {'a', (char)c, '\0'};
        bool good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';

        assert_int_equal(text_is_prefix(s), good);
    }
}

TEST(test_schema_is_what_quoting_can_hold_in_63_bytes)
{
    char longest[65];

    for (unsigned c = 1; c < 128; c++) {
        char s[] = {'a', (char)c, '\0'};
        bool good = c >= 0x20 && c != 0x7F && strchr("\"'`\\;", (int)c) == NULL;

        if (text_is_schema(s) != good)
            fail_msg("byte %02x", c);
    }
    assert_true(text_is_schema("Sch\xC3\xA9ma mit Leerzeichen.und Punkt"));
    assert_false(text_is_schema("\xC3"));
    assert_false(text_is_schema(""));
    memset(longest, 's', sizeof longest);
    longest[64] = '\0';
    assert_false(text_is_schema(longest));
    longest[63] = '\0';
    assert_true(text_is_schema(longest));
}

TEST(test_shown_text_is_cut_and_printable)
{
    char out[6];

    assert_string_equal(text_show(out, sizeof out, "abc", 3), "abc");
    assert_string_equal(text_show(out, sizeof out, "abcdefgh", 8), "abcde");
    assert_string_equal(text_show(out, sizeof out, "a\0\n\x7F\x1F", 5), "a????");
    assert_string_equal(text_show(out, sizeof out, "", 0), "");
    assert_string_equal(text_show(out, 1, "abc", 3), "");
    assert_ptr_equal(text_show(out, sizeof out, "abc", 2), out);
    assert_string_equal(out, "ab");
}

/* Every place to cut, in a text of characters of all lengths: what is left is whole, and as much as
 * there is room for. */
TEST(test_text_is_cut_at_the_start_of_a_character)
{
    const char text[] = "a\xC3\xA9"
                        "b\xE2\x82\xAC"
                        "c\xF0\x9F\x98\x80\xC3\xA9";
    const size_t len = sizeof text - 1;
    char out[sizeof text + 8];

    for (size_t size = 1; size <= sizeof text; size++) {
        size_t n = strlen(text_show(out, size, text, len));

        assert_true(text_is_utf8(out, n));
        assert_memory_equal(out, text, n);
        assert_between((int64_t)size - 4, (int64_t)n, (int64_t)size - 1);
        if (n + 1 < size)
            assert_false(text_is_utf8(text, size - 1));
        assert_int_equal(text_whole(text, size - 1), n);
    }
}

TEST(test_bytes_that_are_no_characters_are_not_taken_for_a_cut)
{
    assert_int_equal(text_whole("", 0), 0);
    assert_int_equal(text_whole("\x80\x80\x80\x80\x80", 5), 5);
    assert_int_equal(text_whole("\xBF", 1), 1);
    assert_int_equal(text_whole("a\xFF", 2), 2);
    assert_int_equal(text_whole("\xC3", 1), 0);
}

TEST_MAIN_EACH(NULL, NULL)
