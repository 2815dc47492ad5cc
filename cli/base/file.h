/* Files that others read at any moment. */
#ifndef SQLOCK_CLI_FILE_H
#define SQLOCK_CLI_FILE_H

#include <stddef.h>

/* Put text in the place of a file, whole or not at all: written beside it, flushed to the disk, and
 * renamed. What is there and is no plain file is refused, and so is a link (ELOOP), on the way
 * there too if it is neither root's nor ours: root may be told to write into a folder that is
 * another user's. Returns 0 or errno: then the old file is what it was, and nothing lies beside it.
 * Only who is killed on the way leaves a file behind, ".NAME." and a number. */
int file_replace(const char *path, const char *text, size_t len);

/* The text of a small file, at most 64 KiB of it, found in the same way. free() it. NULL: it cannot
 * be read. */
char *file_text(const char *path);

#endif
