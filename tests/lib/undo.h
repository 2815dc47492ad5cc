/* What a test made outside its process and must not leave behind, whichever way the test ends: a
 * failed assertion jumps over the rest of a test. */
#ifndef SQLOCK_TESTS_LIB_UNDO_H
#define SQLOCK_TESTS_LIB_UNDO_H

#include <stdbool.h>

/* At the end of this process (not of its children) call undo(what). The text is copied; the copy is
 * returned and lives until then, or until it was undone. Main thread only. */
char *undo_later(void (*undo)(const char *what), const char *what);
/* Do it now and forget it. False: what is not one of the texts that undo_later() returned. */
bool undo_now(char *what);

#endif
