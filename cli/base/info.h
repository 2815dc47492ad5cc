/* A lock of sqlock_list(), and a waiter of sqlock_list_waiters(), as JSON and as words. */
#ifndef SQLOCK_CLI_INFO_H
#define SQLOCK_CLI_INFO_H

#include <jansson.h>
#include <sqlock/admin.h>
#include <sqlock/sqlock.h>

/* "held", "expired" (it has an owner, but the lease has ended), "free". */
const char *info_state(const sqlock_info *info);
/* Of a row with a slot: "shared", or "slot 0/2". Returns out. */
enum { INFO_SEAT = 48 };
const char *info_seat(const sqlock_info *info, char *out, size_t size);
/* NULL: out of memory. */
json_t *info_json(const sqlock_info *info);
/* Who holds it: "12345@host more", safe to print on a terminal. free() it. */
char *info_holder(const sqlock_info *info);

/* The same for one that waits. What it waits for: "exclusive", "shared", "slot of 2". Returns out.
 */
const char *waiter_wants(const sqlock_waiter *waiter, char *out, size_t size);
json_t *waiter_json(const sqlock_waiter *waiter);
char *waiter_label(const sqlock_waiter *waiter);

#endif
