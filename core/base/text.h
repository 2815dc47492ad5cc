#ifndef SQLOCK_BASE_TEXT_H
#define SQLOCK_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Well-formed UTF-8 without NUL: no overlong forms, no surrogates, nothing above U+10FFFF. */
bool text_is_utf8(const char *text, size_t len);
/* [a-z][a-z0-9_]{0,23} */
bool text_is_prefix(const char *text);
/* A schema's name: 1 to 63 bytes of UTF-8 without control characters, quotes or backslashes. */
bool text_is_schema(const char *text);
/* An ASCII letter in lower case, whatever the locale. Other bytes stay as they are. */
char text_lower(char c);
/* The length of text without its last character if bytes of that character are missing. */
size_t text_whole(const char *text, size_t len);
/* Copy bytes for a message. Unprintable bytes become '?'. What does not fit is cut off at the start
 * of a character. Returns out. */
const char *text_show(char *out, size_t size, const char *text, size_t len);

#endif
