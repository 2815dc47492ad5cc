/* Names and labels, which come from others, on their way to a terminal or into a shell's line: what
 * would move the cursor, turn the text around or not be seen at all is spelled out. */
#ifndef SQLOCK_CLI_SHOWN_H
#define SQLOCK_CLI_SHOWN_H

#include <stddef.h>

/* Bytes of the character at text, 0 if it cannot be shown: a control character, one that takes no
 * room or looks like a blank or changes the direction, or not UTF-8. */
size_t shown_char(const char *text, size_t len);

/* As text: \n, \x1b, \u202e, and \\ for a backslash. Here and below: free() it; NULL: out of
 * memory. */
char *shown_text(const char *text, size_t len);
/* As a cell of a table, filled up to so many columns of the terminal. One with blanks at its ends,
 * or two in a row, is put into quotation marks. */
char *shown_cell(const char *text, size_t len, int columns);
/* As one word of a shell's line: quoted where that is needed. */
char *shown_word(const char *text);

#endif
