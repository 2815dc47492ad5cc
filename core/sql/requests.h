#ifndef SQLOCK_SQL_REQUESTS_H
#define SQLOCK_SQL_REQUESTS_H

#include <assert.h>

#include <sqlock/request.h>
#include <sqlock/sqlock.h>

/* What a request is, by the table of sqlock/request.h as this library knows it. A driver of another
 * release may know fewer flags. */
struct request_kind {
    const char *name, *params;
    int since;      /* the oldest schema that it works on */
    unsigned flags; /* SQLOCK_REQ_... */
};

extern const struct request_kind request_kinds[SQLOCK_STMT_COUNT];

static inline const struct request_kind *request_kind(sqlock_stmt stmt)
{
    assert(stmt < SQLOCK_STMT_COUNT);
    return &request_kinds[stmt];
}

/* 1: it has this flag. */
static inline int request_is(sqlock_stmt stmt, unsigned flag)
{
    return (request_kind(stmt)->flags & flag) != 0;
}

/* SQLOCK_MAYBE, if a reply that is lost leaves a doubt; otherwise 0. */
static inline unsigned request_doubt(sqlock_stmt stmt)
{
    return SQLOCK_LEAVES_DOUBT(request_kind(stmt)->flags) ? SQLOCK_MAYBE : 0;
}

#endif
