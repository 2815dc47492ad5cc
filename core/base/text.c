/* Checks of names and identifiers, made before any I/O. */
#include <assert.h>
#include <string.h>

#include "core/base/text.h"

/* How many bytes a character has that starts with this byte. 0: no character does. */
static size_t utf8_length(unsigned char first)
{
    if (first >= 0x01 && first <= 0x7F)
        return 1;
    if (first >= 0xC2 && first <= 0xDF)
        return 2;
    if (first >= 0xE0 && first <= 0xEF)
        return 3;
    return first >= 0xF0 && first <= 0xF4 ? 4 : 0;
}

/* The length of the character at p, or 0 if it is not UTF-8. The table is that of RFC 3629, section
 * 4. */
static size_t utf8_char(const unsigned char *p, size_t left)
{
    unsigned char low = 0x80, high = 0xBF;
    size_t n = utf8_length(p[0]);

    if (n < 2)
        return n;
    if (p[0] == 0xE0)
        low = 0xA0;
    else if (p[0] == 0xED)
        high = 0x9F;
    else if (p[0] == 0xF0)
        low = 0x90;
    else if (p[0] == 0xF4)
        high = 0x8F;
    if (left < n || p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++)
        if (p[i] < 0x80 || p[i] > 0xBF)
            return 0;
    return n;
}

bool text_is_utf8(const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;

    for (size_t at = 0; at < len;) {
        size_t n = utf8_char(p + at, len - at);

        if (n == 0)
            return false;
        at += n;
    }
    return true;
}

bool text_is_prefix(const char *text)
{
    size_t len = strlen(text);

    return len >= 1 && len <= 24 && text[0] >= 'a' && text[0] <= 'z' &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") == len;
}

bool text_is_schema(const char *text)
{
    size_t len = strlen(text);

    if (len < 1 || len > 63 || !text_is_utf8(text, len))
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7F || strchr("\"'`\\;", text[i]) != NULL)
            return false;
    return true;
}

char text_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

size_t text_whole(const char *text, size_t len)
{
    size_t back = 0;

    while (back < 3 && back < len && ((unsigned char)text[len - 1 - back] & 0xC0) == 0x80)
        back++;
    if (back == len || utf8_length((unsigned char)text[len - 1 - back]) <= back + 1)
        return len; /* the last character is whole, or this is not UTF-8 */
    return len - 1 - back;
}

const char *text_show(char *out, size_t size, const char *text, size_t len)
{
    size_t n = len < size ? len : text_whole(text, size - 1);

    assert(size > 0 && n < size);
    for (size_t i = 0; i < n; i++)
        out[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7F ? '?' : text[i];
    out[n] = '\0';
    return out;
}
