#include "tests/input/mysql_open.h"

#include <string.h>

#include "tests/lib/check.h"
#include "tests/lib/my_private.h"

#ifdef TEST_HAVE_MYSQL
#include <sqlock/mysql.h>

int mysql_try(const char *url, unsigned flags, sqlock_error *err)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock *m = NULL;
    int rc;

    memset(err, 0, sizeof *err);
    o.flags = flags;
    o.request_ms = patience_ms(2000);
    rc = sqlock_open(sqlock_driver_mysql(), url, &o, &m, err);
    sqlock_close(m);
    return rc;
}

void mysql_migrated(void)
{
    sqlock_error err = {0};

    assert_ok(sqlock_migrate(sqlock_driver_mysql(), my_private_url(), NULL, NULL, &err), &err);
}
#endif
