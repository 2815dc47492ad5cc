/* Files that others read at any moment. */
#ifndef SQLOCK_CLI_FILE_H
#define SQLOCK_CLI_FILE_H

#include <stddef.h>

/* Replace a file by text, as a whole or not at all: write a new file beside it, flush it, rename
 * it. It refuses a target that is not a plain file, and a link as the target (ELOOP). It refuses a
 * link in the path that belongs neither to root nor to us: root may write into another user's
 * folder. Returns 0, or errno; then the old file is unchanged, and no new one is left. Only a
 * process that is killed in the middle leaves one, ".NAME." and a number. */
int file_replace(const char *path, const char *text, size_t len);

/* The text of a file, at most its first 64 KiB, opened with the same care. free() it. NULL: it
 * cannot be read. */
char *file_text(const char *path);

#endif
