#ifndef SQLOCK_ENGINE_DIALECT_H
#define SQLOCK_ENGINE_DIALECT_H

#include <sqlock/driver.h>

/* A dialect's scripts with the names of one schema and prefix in them. */
struct texts;

/* schema and prefix may be NULL: the dialect's default, "sqlock_". They are checked here.
 * Returns 0, SQLOCK_EINVAL or SQLOCK_ENOMEM. */
int texts_render(const sqlock_dialect *d, const char *schema, const char *prefix,
                 struct texts **out, sqlock_error *err);
/* The same texts where they leave the schema to the connection, in this one; NULL to *out: they do
 * not, or it cannot be named. */
int texts_within(const struct texts *r, const sqlock_dialect *d, const char *schema,
                 struct texts **out, sqlock_error *err);
void texts_free(struct texts *r);
/* SQLOCK_STMT_COUNT of them; they live as long as r. One that the dialect lacks has no steps. */
const sqlock_script *texts_scripts(const struct texts *r);
/* The schema as it was given, unquoted; NULL: the connection's own. */
const char *texts_schema(const struct texts *r);
/* A table of ours by its name without the prefix; unquoted, to out, which is returned. */
const char *texts_table(const struct texts *r, const char *name, char *out, size_t size);
/* 0, or SQLOCK_EREFUSED: the dialect, of an older driver, lacks this request. */
int texts_has(const struct texts *r, sqlock_stmt stmt, sqlock_error *err);
/* One more text of the same dialect, for migrations; NULL: out of memory. sqlock_mem_free() it. */
char *texts_more(const struct texts *r, const char *sql);

#endif
