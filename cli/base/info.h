/* A lock as sqlock_list() tells it: as JSON and as words. */
#ifndef SQLOCK_CLI_INFO_H
#define SQLOCK_CLI_INFO_H

#include <jansson.h>
#include <sqlock/admin.h>
#include <sqlock/sqlock.h>

/* "held", "expired" (an owner is there, its lease has run out), "free". */
const char *info_state(const sqlock_info *info);
/* NULL: out of memory. */
json_t *info_json(const sqlock_info *info);
/* Who holds it: "12345@host more", with nothing that a terminal would obey. free() it. */
char *info_holder(const sqlock_info *info);

#endif
