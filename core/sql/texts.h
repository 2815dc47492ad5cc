#ifndef SQLOCK_SQL_TEXTS_H
#define SQLOCK_SQL_TEXTS_H

#include <sqlock/driver.h>

/* A dialect's statements, with one schema and one prefix in their names. */
struct texts;

/* schema and prefix may be NULL: the dialect's default, and "sqlock_". They are checked here.
 * Returns 0, SQLOCK_EINVAL or SQLOCK_ENOMEM. */
int texts_render(const sqlock_dialect *d, const char *schema, const char *prefix,
                 struct texts **out, sqlock_error *err);
/* The same texts, but with this schema in them, if r leaves the schema to the connection. *out is
 * NULL if r names its own schema, or if this one is not a valid name. */
int texts_within(const struct texts *r, const sqlock_dialect *d, const char *schema,
                 struct texts **out, sqlock_error *err);
void texts_free(struct texts *r);
/* SQLOCK_STMT_COUNT scripts, which live as long as r. A script that the dialect lacks has no
 * steps. */
const sqlock_script *texts_scripts(const struct texts *r);
/* The schema as the caller gave it, unquoted. NULL: the connection's own. */
const char *texts_schema(const struct texts *r);
/* The unquoted name of one of the library's tables, from its name without prefix. Returns out. */
const char *texts_table(const struct texts *r, const char *name, char *out, size_t size);
/* 0, or SQLOCK_EREFUSED: the dialect lacks this request. Its driver is older, or does without. */
int texts_has(const struct texts *r, sqlock_stmt stmt, sqlock_error *err);
/* One more text of the same dialect, for migrations. NULL: out of memory. Free it with
 * sqlock_mem_free(). */
char *texts_more(const struct texts *r, const char *sql);

#endif
