/* Data on stdout, as JSON or as text. A full disk is noticed before the process ends. */
#ifndef SQLOCK_CLI_OUTPUT_H
#define SQLOCK_CLI_OUTPUT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* A string. Bytes that are not UTF-8 are replaced. */
json_t *json_text(const char *text, size_t len);
/* Write one document and a newline, and free it. NULL means out of memory. Returns 0, or the exit
 * code after printing why. */
int output_json(json_t *document);
/* Flush stdout. Returns 0, or EXIT_IO after printing why. */
int output_end(void);

#endif
