#include "cli/base/shown.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* ---- characters ------------------------------------------------------------------------------ */

/* Bytes of the UTF-8 character at text, 0 if it is none; and its number. */
static size_t utf8_decode(const char *text, size_t len, uint32_t *out)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *s = (const unsigned char *)text;
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc0 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    uint32_t c = n == 1 ? s[0] : s[0] & (0x7fu >> n);

    if (n == 0 || n > len || s[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3fu);
    }
    *out = c;
    return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : n;
}

/* Characters that control a terminal, have no width, look like a space, or change the direction of
 * the text. Names that differ must look different. */
static bool is_unseen(uint32_t c)
{
    static const uint32_t ranges[][2] = {
        {0, 0x1f},          {0x7f, 0xa0},     {0xad, 0xad},     {0x34f, 0x34f},
        {0x61c, 0x61c},     {0x115f, 0x1160}, {0x1680, 0x1680}, {0x17b4, 0x17b5},
        {0x180b, 0x180f},   {0x2000, 0x200f}, {0x2028, 0x202f}, {0x205f, 0x206f},
        {0x3000, 0x3000},   {0x3164, 0x3164}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff},
        {0xffa0, 0xffa0},   {0xfff0, 0xfffb}, {0xfffe, 0xffff}, {0x1d173, 0x1d17a},
        {0xe0000, 0xe0fff},
    };

    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1])
            return true;
    return false;
}

size_t shown_char(const char *text, size_t len)
{
    uint32_t c;
    size_t n = utf8_decode(text, len, &c);

    return n > 0 && !is_unseen(c) ? n : 0;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Spell out the character at text. Returns its length in bytes. */
static size_t char_spell(char **to, const char *text, size_t len)
{
    uint32_t c;
    size_t n = utf8_decode(text, len, &c);

    if (*text == '\\' || *text == '\n' || *text == '\t')
        *to += sprintf(*to, "\\%c", *text == '\n' ? 'n' : *text == '\t' ? 't' : '\\');
    else if (n > 1)
        *to += sprintf(*to, c > 0xffff ? "\\U%08x" : "\\u%04x", (unsigned)c);
    else
        *to += sprintf(*to, "\\x%02x", (unsigned char)*text);
    return n > 0 ? n : 1;
}

/* At most four bytes for one, and room for two quotation marks. */
static char *text_spelled(const char *text, size_t len, bool quoted)
{
    char *out = malloc(4 * len + 3), *to = out;

    if (out == NULL)
        return NULL;
    if (quoted)
        *to++ = '"';
    for (size_t i = 0, n; i < len; i += n) {
        n = shown_char(text + i, len - i);
        if (n == 0 || text[i] == '\\') {
            n = char_spell(&to, text + i, len - i);
            continue;
        }
        if (quoted && text[i] == '"')
            *to++ = '\\';
        to = mempcpy(to, text + i, n);
    }
    if (quoted)
        *to++ = '"';
    *to = '\0';
    return out;
}

char *shown_text(const char *text, size_t len)
{
    return text_spelled(text, len, false);
}

static bool needs_quotes(const char *text, size_t len)
{
    if (len == 0 || text[0] == '"' || text[0] == ' ' || text[len - 1] == ' ')
        return true;
    return memmem(text, len, "  ", 2) != NULL;
}

/* Of a printable text, by the tables of libc (main() has chosen UTF-8). */
static int columns_of(const char *text)
{
    size_t len = strlen(text), n;
    int columns = 0;
    uint32_t c;

    for (size_t i = 0; i < len && (n = utf8_decode(text + i, len - i, &c)) > 0; i += n) {
        int width = wcwidth((wchar_t)c);

        columns += width < 0 ? 1 : width;
    }
    return columns;
}

char *shown_cell(const char *text, size_t len, int columns)
{
    char *cell = text_spelled(text, len, needs_quotes(text, len)), *filled = NULL;
    int missing = cell != NULL ? columns - columns_of(cell) : 0;

    if (missing <= 0)
        return cell;
    if (asprintf(&filled, "%s%*s", cell, missing, "") < 0)
        filled = NULL;
    free(cell);
    return filled;
}

/* ---- words of a shell ------------------------------------------------------------------------ */

/* printf, which every shell has, makes the characters that cannot be shown. (But no newlines at the
 * end.) */
static char *printed_word(const char *text)
{
    size_t len = strlen(text);
    char *out = malloc(4 * len + sizeof "\"$(printf '')\""), *to = out;

    if (out == NULL)
        return NULL;
    to = stpcpy(to, "\"$(printf '");
    for (size_t i = 0, n; i < len; i += n) {
        n = shown_char(text + i, len - i);
        if (n > 0 && text[i] != '\'') {
            to = mempcpy(to, text + i, n);
            if (text[i] == '\\' || text[i] == '%')
                *to++ = text[i];
        } else {
            to += sprintf(to, "\\%03o", (unsigned char)text[i]);
            n = 1;
        }
    }
    strcpy(to, "')\"");
    return out;
}

static bool can_be_shown(const char *text)
{
    size_t len = strlen(text), n;

    for (size_t i = 0; i < len; i += n)
        if ((n = shown_char(text + i, len - i)) == 0)
            return false;
    return true;
}

char *shown_word(const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_./:=@%+,";
    char *out, *to;

    if (!can_be_shown(text))
        return printed_word(text);
    if ((out = to = malloc(4 * strlen(text) + 3)) == NULL)
        return NULL;
    if (*text != '\0' && text[strspn(text, plain)] == '\0')
        return strcpy(out, text);
    *to++ = '\'';
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            to = stpcpy(to, "'\\''");
        else
            *to++ = *text;
    }
    strcpy(to, "'");
    return out;
}

/* ---- text that was cut ----------------------------------------------------------------------- */

size_t shown_whole(const char *text, size_t len)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t at = len, n;

    while (at > 0 && len - at < 3 && (s[at - 1] & 0xc0) == 0x80)
        at--;
    if (at == 0 || s[at - 1] < 0xc0)
        return len;
    n = s[at - 1] < 0xe0 ? 2 : s[at - 1] < 0xf0 ? 3 : 4;
    return n > len - at + 1 ? at - 1 : len;
}

void shown_mend(char *text)
{
    size_t n, len = strlen(text);
    uint32_t c;

    for (; len > 0; text += n, len -= n)
        if ((n = utf8_decode(text, len, &c)) == 0) {
            *text = '?';
            n = 1;
        }
}
