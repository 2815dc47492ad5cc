/* An application that talks to PostgreSQL through libpq. */
#ifndef SQLOCK_TESTS_LIB_POSTGRES_APP_H
#define SQLOCK_TESTS_LIB_POSTGRES_APP_H

#ifdef TEST_HAVE_POSTGRES

#include <libpq-fe.h>

#include "tests/lib/adopt_app.h"

/* What connect() of postgres_app returns. */
struct postgres_app_conn {
    PGconn *pg;
    PGresult *last; /* of the last exec() */
};

extern const struct adopt_app postgres_app;

static inline PGconn *native(void *app)
{
    return ((struct postgres_app_conn *)app)->pg;
}

#endif
#endif
