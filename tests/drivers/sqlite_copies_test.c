/* P14 on SQLite: connections that are not adopted, since what would be locked there is not safe:
 * those without locks, those of a second copy of SQLite, and those of a child with a manager. */
#include <dlfcn.h>

#include <sqlock/sqlite.h>

#include "tests/drivers/suite_in_transaction.h"
#include "tests/lib/sqlite_app.h"
#include "tests/lib/sqlite_quirks.h"

enum { NOT_HERE = 77 };

/* By a caller who tells this of his library. */
static int adopt_by(void (*library)(void), sqlite3 *db, void **out_conn)
{
    sqlock_adopt_opts o = {.size = sizeof o, .native = db, .library = library};

    o.scripts = g.scripts;
    return g.adopter->adopt(&o, out_conn, &said);
}

TEST_AFTER(begin_adopted, test_connection_without_locks_is_refused)
{
    char url[4300];
    sqlite3 *db = NULL;
    void *conn;

    snprintf(url, sizeof url, "file:%s?nolock=1", database_file(g.app));
    assert_int_equal(sqlite3_open_v2(url, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI, NULL),
                     SQLITE_OK);
    says(SQLOCK_EREFUSED, adopt_by(NULL, db, &conn));
    assert_null(conn);
    sqlite3_close(db);
}

TEST_AFTER(begin_adopted, test_connection_that_did_not_open_is_refused)
{
    sqlite3 *db = NULL;
    void *conn;

    assert_int_equal(sqlite3_open_v2("/no/such/folder/db", &db, SQLITE_OPEN_READWRITE, NULL),
                     SQLITE_CANTOPEN);
    says(SQLOCK_ESTATE, adopt_by(NULL, db, &conn));
    sqlite3_close(db);
}

static void *symbol(void *object, const char *name)
{
    void *found = dlsym(object, name);

    assert_non_null(found);
    return found;
}

/* A copy is one when it calls itself. Without this it would call the first one for much of its
 * work, and open connections of that; sanitizers that come with a runtime do not take it. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DEEPBIND 0
#else
#define DEEPBIND RTLD_DEEPBIND
#endif

/* All in a child, which then has two copies. */
static int adopt_from_a_second_copy(void *arg)
{
    char copy[4300], command[8700];
    int (*open_other)(const char *, sqlite3 **) = NULL;
    void (*library)(void) = NULL;
    void *object, *found, *conn;
    sqlite3 *db = NULL;
    Dl_info info;

    (void)arg;
    if (!dladdr((void *)(uintptr_t)sqlite3_libversion, &info) || !strstr(info.dli_fname, ".so"))
        return NOT_HERE;
    found = symbol(RTLD_DEFAULT, "sqlite3_libversion_number");
    memcpy(&library, &found, sizeof library);
    ok(adopt_by(library, native(g.app), &conn)); /* looked up: the same copy */
    g.adopter->close(conn);
    snprintf(copy, sizeof copy, "%.*s/libother.so",
             (int)(strrchr(database_file(g.app), '/') - database_file(g.app)),
             database_file(g.app));
    snprintf(command, sizeof command, "cp -L '%s' '%s'", info.dli_fname, copy);
    assert_int_equal(system(command), 0);
    object = dlopen(copy, RTLD_NOW | RTLD_LOCAL | DEEPBIND);
    assert_non_null(object);
    found = symbol(object, "sqlite3_open");
    memcpy(&open_other, &found, sizeof open_other);
    assert_int_equal(open_other(":memory:", &db), SQLITE_OK);
    found = symbol(object, "sqlite3_libversion_number");
    memcpy(&library, &found, sizeof library);
    says(SQLOCK_EREFUSED, adopt_by(library, db, &conn));
    assert_non_null(strstr(said.text, "two copies"));
    says(SQLOCK_EREFUSED, adopt_by(NULL, native(g.app), &conn)); /* not told: looked for */
    assert_non_null(strstr(said.text, "libother.so"));
    /* Not the truth: the connection is of the other one. */
    if (DEEPBIND == 0)
        return 0;
    says(SQLOCK_EREFUSED, adopt_by((void (*)(void))sqlite3_libversion_number, db, &conn));
    assert_non_null(strstr(said.text, "second copy"));
    return 0;
}

TEST_AFTER(begin_adopted, test_connection_of_a_second_copy_is_refused)
{
    int result = child_wait(child_start(adopt_from_a_second_copy, NULL), patience_ms(20000));

    end_adopted();
    if (result == NOT_HERE) {
        print_error("SKIP: SQLite is linked statically: there is nothing to copy\n");
        skip();
    }
    assert_int_equal(result, 0);
}

static int adopt_in_a_child(void *arg)
{
    void *conn;

    (void)arg;
    says(SQLOCK_EREFUSED, adopt_by(NULL, native(g.app), &conn));
    return 0;
}

/* SQLite believes there in locks that it has not: nothing that is guarded so is safe. */
TEST_AFTER(begin_adopted, test_child_of_a_process_with_a_manager_adopts_nothing)
{
    open_manager(g.w, NULL);
    assert_int_equal(child_wait(child_start(adopt_in_a_child, NULL), patience_ms(10000)), 0);
}

TEST_MAIN_ON(sqlite)
