/* An application that talks to MariaDB or MySQL through its client library. */
#ifndef SQLOCK_TESTS_LIB_MYSQL_APP_H
#define SQLOCK_TESTS_LIB_MYSQL_APP_H

#ifdef TEST_HAVE_MYSQL
#include <mysql.h>

#include "tests/lib/adopt_app.h"

/* What connect() of mysql_app returns. */
struct mysql_app_conn {
    MYSQL *my;
    MYSQL *keeper;      /* keeps the row of app_kept locked; of the database's first one only */
    MYSQL_RES *reading; /* of start_reading() */
    MYSQL_STMT *stmt;   /* of prepare() */
};

extern const struct adopt_app mysql_app;

#endif
#endif
