#ifndef SQLOCK_SQL_REQUESTS_H
#define SQLOCK_SQL_REQUESTS_H

#include <sqlock/request.h>

/* What a request is, by the table of sqlock/request.h as this library knows it. A driver of another
 * release may know fewer flags. */
struct request_kind {
    const char *name, *params;
    int since;      /* the oldest schema that it works on */
    unsigned flags; /* SQLOCK_REQ_... */
};

const struct request_kind *request_kind(sqlock_stmt stmt);
/* 1: it has this flag. */
int request_is(sqlock_stmt stmt, unsigned flag);
/* SQLOCK_MAYBE, if a reply that is lost leaves a doubt; otherwise 0. */
unsigned request_doubt(sqlock_stmt stmt);

#endif
