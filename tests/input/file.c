#include "tests/input/file.h"

#ifdef TEST_HAVE_SQLITE
#include <sqlock/sqlite.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct db file_db(const char *path)
{
    return (struct db){.driver = sqlock_driver_sqlite(), .url = textf("sqlite:%s", path)};
}

int try_open(const char *path, sqlock_error *err)
{
    return db_try(file_db(path), err);
}

int try_migrate(const char *path, sqlock_error *err)
{
    return db_try_migrate(file_db(path), err);
}

char *new_migrated(void)
{
    char *path = textf("%s/db", temp_dir());

    db_migrate(file_db(path));
    return path;
}

char *new_without_wal(void)
{
    char *path = new_migrated();

    lite_exec_at(path, "PRAGMA journal_mode = DELETE");
    return path;
}

void use(const char *path)
{
    db_use(file_db(path), "x");
}

static int run_in_child(int (*fn)(void *), const void *arg)
{
    return child_wait(child_start(fn, (void *)(uintptr_t)arg), patience_ms(20000));
}

void in_child(int (*fn)(void *), const void *arg)
{
    assert_int_equal(run_in_child(fn, arg), 0);
}

void in_child_or_skip(int (*fn)(void *), const void *arg, const char *why)
{
    int result = run_in_child(fn, arg);

    if (result == NOT_HERE && geteuid() == 0)
        skip_loudly("%s", why);
    if (result == NOT_HERE) {
        print_error("SKIP: %s\n", why);
        skip();
    }
    assert_int_equal(result, 0);
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
    data = kept(malloc((size_t)st.st_size + 1));
    *out_len = fread(data, 1, (size_t)st.st_size, f);
    fclose(f);
    return data;
}
#endif
