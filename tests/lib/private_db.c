#include "tests/lib/private_db.h"

#ifdef TEST_HAVE_POSTGRES
#include <sqlock/postgres.h>

#include "tests/lib/private.h"
#include "tests/lib/words.h"

struct db private_db(const char *schema)
{
    return (struct db){.driver = sqlock_driver_postgres(), .url = private_url(), .schema = schema};
}

struct db private_new(const char *schema)
{
    struct db db = private_db(schema);

    private_exec("DROP SCHEMA IF EXISTS %s CASCADE; CREATE SCHEMA %s", schema, schema);
    db_migrate(db);
    return db;
}

char *private_login(const char *role)
{
    return textf("postgresql:///postgres?host=%s&user=%s", private_dir(), role);
}
#endif
