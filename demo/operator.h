/* What an operator types at a terminal meanwhile: the command `sqlock`, on the shop's file. */
#ifndef DEMO_OPERATOR_H
#define DEMO_OPERATOR_H

/* Where the command is, and the file. */
void operator_begin(const char *command, const char *path);

/* Type a line (words for a shell behind "sqlock "), and show it with what the command prints.
 * Returns that, until the next call. It ends the program when the command fails. */
const char *operator_types(const char *line);
/* `sqlock ls` once more: its rows alone, with a remark. */
void operator_looks_again(const char *remark);

#endif
