/* Texts that are made for a moment, and commands made of them. */
#ifndef SQLOCK_TESTS_TORTURE_TEXT_H
#define SQLOCK_TESTS_TORTURE_TEXT_H

#include <stdbool.h>
#include <stdio.h>

/* printf() into a buffer of this thread: good until TEXTS more were made. TEXT_SIZE at most. */
enum { TEXTS = 24, TEXT_SIZE = 2048 };
char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Run it by the shell; whether it ended with 0. */
bool shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
