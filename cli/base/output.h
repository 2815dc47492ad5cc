/* Data, on stdout: as JSON or as text. A disk that is full is found out before the process ends. */
#ifndef SQLOCK_CLI_OUTPUT_H
#define SQLOCK_CLI_OUTPUT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* A string that may hold bytes that are not UTF-8: those are replaced. */
json_t *json_text(const char *text, size_t len);
/* Write one document and a newline; frees it. NULL: out of memory while it was made. Returns 0 or
 * what the process ends with, and then has told why. */
int output_json(json_t *document);
/* Flush stdout. Returns 0, or EXIT_IO, and then has told why. */
int output_end(void);

#endif
