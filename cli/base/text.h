/* Small texts: durations, numbers, owners, moments, labels. */
#ifndef SQLOCK_CLI_TEXT_H
#define SQLOCK_CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "500ms", "30s", "1.5m", "1h30m", "1d", "2w"; a bare number is seconds. The caller sets a
 * limit. */
bool text_duration(const char *text, int64_t *out_ms);
/* "4m12s": two units at most; "0s". Returns out. */
enum { TEXT_DURATION = 32 };
const char *text_span(char out[TEXT_DURATION], int64_t ms);
/* The whole text as a number between min and max. */
bool text_number(const char *text, int64_t min, int64_t max, int64_t *out);

/* SQLOCK_OWNER_SIZE bytes as 32 hexadecimal digits, and back. */
enum { TEXT_OWNER = 33 };
const char *text_owner(char out[TEXT_OWNER], const unsigned char *owner);
bool text_owner_read(const char *text, unsigned char *out);

/* So many seconds after 1970, in UTC: "2026-01-31 23:59:59Z". Returns out. */
enum { TEXT_MOMENT = 32 };
const char *text_moment(char out[TEXT_MOMENT], int64_t s);
/* The time that was so long ago, by this machine's clock. */
const char *text_moment_ago(char out[TEXT_MOMENT], int64_t ago_ms);

/* "12345@host and more": the label that managers write. False: it has another form. */
bool text_label(const char *label, int64_t *out_pid, char out_host[256], const char **out_rest);

#endif
