/* Names and labels come from other programs. Before they are printed, or put into a shell's line,
 * characters are spelled out that would move the cursor, turn the text around, or be invisible. */
#ifndef SQLOCK_CLI_SHOWN_H
#define SQLOCK_CLI_SHOWN_H

#include <stddef.h>

/* Bytes of the character at text. 0 if it cannot be shown: a control character, one without width,
 * one that looks like a space or changes the direction, or a byte that is not UTF-8. */
size_t shown_char(const char *text, size_t len);

/* As text: \n, \x1b, \u202e, and \\ for a backslash. Here and below: free() it; NULL: out of
 * memory. */
char *shown_text(const char *text, size_t len);
/* As a cell of a table, padded to so many columns. Text with spaces at its ends, or two in a row,
 * is quoted. */
char *shown_cell(const char *text, size_t len, int columns);
/* As one word of a shell's line, quoted if necessary. */
char *shown_word(const char *text);

/* Of the bytes that were cut off a longer text: how many are whole characters. */
size_t shown_whole(const char *text, size_t len);
/* Put "?" in the place of each byte that is not UTF-8. */
void shown_mend(char *text);

#endif
