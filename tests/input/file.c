#include "tests/input/file.h"

#ifdef TEST_HAVE_SQLITE
#include <sqlite3.h>
#include <sqlock/sqlite.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *url_of(const char *path)
{
    static char url[4200];

    snprintf(url, sizeof url, "sqlite:%s", path);
    return url;
}

int open_file(const char *path, sqlock **out_m, sqlock_error *err)
{
    memset(err, 0, sizeof *err);
    return sqlock_open(sqlock_driver_sqlite(), url_of(path), NULL, out_m, err);
}

int try_open(const char *path, sqlock_error *err)
{
    sqlock *m = NULL;
    int rc = open_file(path, &m, err);

    sqlock_close(m);
    return rc;
}

int try_migrate(const char *path, sqlock_error *err)
{
    memset(err, 0, sizeof *err);
    return sqlock_migrate(sqlock_driver_sqlite(), url_of(path), NULL, NULL, err);
}

int try_acquire(sqlock *m, const char *name, int32_t wait_ms, sqlock_lock **out_lock,
                sqlock_error *err)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;

    memset(err, 0, sizeof *err);
    o.wait_ms = wait_ms;
    return sqlock_acquire(m, name, &o, out_lock, err);
}

char *path_in(const char *dir, const char *name)
{
    char *path = NULL;

    assert_true(asprintf(&path, "%s/%s", dir, name) > 0);
    return path;
}

char *new_migrated(void)
{
    char *path = path_in(temp_dir(), "db");
    sqlock_error err;

    assert_ok(try_migrate(path, &err), &err);
    return path;
}

void write_file(const char *path, const void *data, size_t len)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

char *read_file(const char *path, size_t *out_len)
{
    struct stat st;
    FILE *f = fopen(path, "r");
    char *data;

    assert_non_null(f);
    assert_int_equal(fstat(fileno(f), &st), 0);
    data = malloc((size_t)st.st_size + 1);
    *out_len = fread(data, 1, (size_t)st.st_size, f);
    fclose(f);
    return data;
}

void sql(const char *path, const char *text)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", text, sqlite3_errmsg(db));
    sqlite3_close(db);
}

void use(const char *path)
{
    sqlock_lock *lock = NULL;
    sqlock_error err;
    sqlock *m = NULL;

    assert_ok(open_file(path, &m, &err), &err);
    assert_ok(try_acquire(m, "x", 0, &lock, &err), &err);
    assert_ok(sqlock_renew(lock, &err), &err);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
    sqlock_close(m);
}

#endif
