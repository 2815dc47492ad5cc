/* SQLite files that are not there, not databases, damaged or read-only; a second SQLite. */
#include <dlfcn.h>
#include <fcntl.h>
#include <grp.h>
#include <sqlite3.h>
#include <sqlock/sqlite.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/input/file.h"
#include "tests/lib/lite.h"

static sqlock_error err;

enum { NOBODY = 65534 };

/* ---- not a database -------------------------------------------------------------------------- */

TEST(test_a_file_that_is_no_database_is_reported_and_not_touched)
{
    static const size_t sizes[] = {15, 99, 100, 512, 5000, 70000};
    char *path = textf("%s/db", temp_dir());
    char text[70000];

    memset(text, 'x', sizeof text);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct stat st;
        size_t len = 0;
        char *after;

        write_file(path, text, sizes[i]);
        assert_code(SQLOCK_ECORRUPT, try_open(path, &err), &err);
        assert_string_equal(err.sqlstate, "XX001");
        assert_code(SQLOCK_ECORRUPT, try_migrate(path, &err), &err);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_size, sizes[i]);
        after = read_file(path, &len);
        assert_memory_equal(after, text, sizes[i]);
    }
}

TEST(test_who_takes_no_error_learns_a_code)
{
    static const char *const urls[] = {"sqlite:", "sqlite:a?b", "sqlite:/nonexistent/db",
                                       "sqlite:nonexistent/db", "sqlite::memory:"};

    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        const sqlock_driver *driver = sqlock_driver_sqlite();
        sqlock *m = NULL;

        assert_true(sqlock_open(driver, urls[i], NULL, &m, NULL) < 0);
        assert_null(m);
        assert_true(sqlock_migrate(driver, urls[i], NULL, NULL, NULL) < 0);
        assert_true(sqlock_migration_verify(driver, urls[i], NULL, NULL) < 0);
    }
}

/* Four slashes are how others write an absolute path. */
TEST(test_all_forms_of_a_path_lead_to_one_file)
{
    static const char *const fronts[] = {"sqlite:", "sqlite://", "sqlite:///", "sqlite:////"};
    char *path = new_migrated();
    int64_t last = 0;

    for (size_t i = 0; i < sizeof fronts / sizeof *fronts; i++) {
        char *url = textf("%s%s", fronts[i], path + (i == 2 || i == 3));
        int64_t token = db_use(db_by(file_db(path), url), "nightly");

        assert_true(token > last);
        last = token;
    }
}

TEST(test_an_empty_file_is_a_database_without_a_schema)
{
    char *path = textf("%s/db", temp_dir());

    write_file(path, "", 0);
    assert_code(SQLOCK_ESCHEMA, try_open(path, &err), &err);
    db_migrate(file_db(path));
    use(path);
}

TEST(test_a_missing_file_is_made_by_migrations_alone)
{
    char *path = textf("%s/db", temp_dir());

    assert_code(SQLOCK_ESCHEMA, try_open(path, &err), &err);
    assert_says(&err, path);
    assert_int_equal(access(path, F_OK), -1);
    db_migrate(file_db(path));
    use(path);
}

TEST(test_a_folder_that_is_missing_or_no_database_is_reported_and_not_made)
{
    const char *dir = temp_dir(), *folder = textf("%s/none", dir);
    const char *const paths[] = {dir, textf("%s/db", folder)};

    for (int i = 0; i < 2; i++) {
        assert_code(SQLOCK_EUNREACH, try_open(paths[i], &err), &err);
        assert_says(&err, paths[i]);
        assert_code(SQLOCK_EUNREACH, try_migrate(paths[i], &err), &err);
    }
    assert_int_equal(access(folder, F_OK), -1);
}

TEST(test_a_pipe_is_refused_as_no_file)
{
    const char *pipe = textf("%s/pipe", temp_dir());

    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_error(SQLOCK_EREFUSED, "not a file", try_open(pipe, &err), &err);
    assert_error(SQLOCK_EREFUSED, "not a file", try_migrate(pipe, &err), &err);
    assert_int_equal(access(textf("%s-journal", pipe), F_OK), -1);
}

/* ---- relative paths -------------------------------------------------------------------------- */

static int back_to = -1; /* where this program works, while a test works elsewhere */

static void work_in(const char *dir)
{
    if (back_to < 0)
        back_to = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(chdir(dir), 0);
}

static int work_here_again(__attribute__((unused)) void **state)
{
    int rc = back_to >= 0 ? fchdir(back_to) : 0;

    if (back_to >= 0)
        close(back_to);
    back_to = -1;
    return rc;
}

/* Each connection made later would look at a file of the same name elsewhere, with other locks. */
TEST(test_relative_path_stays_where_it_was_when_the_program_works_elsewhere)
{
    char *path = new_migrated(), *elsewhere = new_migrated();
    char *dir = strdup(path), *other_dir = strdup(elsewhere);
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL, *none = NULL;
    sqlock *m = NULL, *direct = NULL;
    int64_t deadline;

    *strrchr(dir, '/') = *strrchr(other_dir, '/') = '\0';
    work_in(dir);
    m = db_open(file_db("db"));
    work_in(other_dir);
    o.lease_ms = 900; /* its renewals have a connection of their own */
    assert_ok(sqlock_acquire(m, "x", &o, &lock, &err), &err);
    deadline = sqlock_lock_deadline_us(lock);
    assert_soon(sqlock_lock_deadline_us(lock) > deadline, patience_ms(3000));
    direct = db_open(file_db(path));
    assert_code(SQLOCK_EBUSY, lock_try(direct, "x", 0, &none, &err), &err);
    lock_give(lock);
    sqlock_close(direct);
    direct = db_open(file_db(elsewhere));
    none = lock_now(direct, "x"); /* nobody was granted it here */
    sqlock_lock_free(none);
    sqlock_close(m);
    sqlock_close(direct);
}

TEST(test_relative_path_without_a_folder_is_refused)
{
    char *dir = textf("%s/gone", temp_dir());

    assert_int_equal(mkdir(dir, 0755), 0);
    work_in(dir);
    assert_int_equal(rmdir(dir), 0);
    assert_code(SQLOCK_ESYS, try_migrate("db", &err), &err);
    assert_error(SQLOCK_ESYS, "the current directory", try_open("db", &err), &err);
}

/* ---- damaged pages --------------------------------------------------------------------------- */

enum { FINE = 0, TOLD_CORRUPT = 1, GRANTED_TWICE = 2, STRANGE = 3 };

static int is_expected(int rc)
{
    return rc == SQLOCK_OK || rc == SQLOCK_EBUSY || rc == SQLOCK_ECORRUPT || rc == SQLOCK_ESCHEMA ||
           rc == SQLOCK_EDB;
}

/* In a child, because it must be seen if it crashes. Two managers ask for the same names, old ones
 * and a new one; at most one may get each. Nothing is said about a holder whose row was damaged: no
 * one can know what stood there. */
static int request_locks(void *arg)
{
    static const char *const names[] = {"name 007", "name 150", "new"};
    const char *path = arg;
    sqlock *m[2] = {NULL};
    int told = 0;

    for (int i = 0; i < 2; i++) {
        int rc = db_open_to(file_db(path), &m[i], &err);

        told |= rc == SQLOCK_ECORRUPT;
        if (!is_expected(rc)) {
            print_error("open: %s\n", err.text);
            return STRANGE;
        }
    }
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        int granted = 0;

        for (int i = 0; i < 2; i++) {
            sqlock_lock *lock = NULL;
            int rc = m[i] ? lock_try(m[i], names[n], 0, &lock, &err) : SQLOCK_EBUSY;

            granted += rc == SQLOCK_OK;
            told |= rc == SQLOCK_ECORRUPT;
            if (!is_expected(rc)) {
                print_error("%s\n", err.text);
                return STRANGE;
            }
        }
        if (granted > 1)
            return GRANTED_TWICE;
    }
    return told ? TOLD_CORRUPT : FINE;
}

/* Whether somebody was told. */
static bool judge_damage(const char *path, const char *data, size_t len, const char *what)
{
    int result;

    write_file(path, data, len);
    result = child_wait(child_start(request_locks, (void *)(uintptr_t)path), patience_ms(10000));
    if (result != FINE && result != TOLD_CORRUPT)
        fail_msg("%s: %s (%d)", what,
                 result == GRANTED_TWICE ? "a lock was granted twice"
                 : result < 0            ? "it crashed"
                                         : "an unexpected code",
                 result);
    return result == TOLD_CORRUPT;
}

TEST(test_a_damaged_file_neither_crashes_nor_grants_a_lock_twice)
{
    char *good = new_migrated(), *path = textf("%s/db", temp_dir());
    size_t len = 0, told = 0;
    char *data, *bad;

    lite_exec_at(good,
                 "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) "
                 "INSERT INTO sqlock_lock (ns, name, token) SELECT x'', "
                 "CAST(printf('name %03d', i) AS BLOB), i FROM n");
    data = read_file(good, &len);
    bad = kept(malloc(len));
    assert_true(len >= 5 * 4096);
    for (size_t page = 0; page < len; page += 4096)
        for (int kind = 0; kind < 4; kind++) {
            size_t at = page + (page == 0 ? 100 : 0); /* behind the file's own header */

            memcpy(bad, data, len);
            if (kind == 0)
                memset(bad + at, 0, 4096 - (at - page));
            else if (kind == 1)
                memset(bad + at, 0xFF, 8); /* the page's header */
            else if (kind == 2)
                memset(bad + at + 8, 0x5A, 64); /* where its cells are */
            else
                memset(bad + page + 4000, 0xA5, 96); /* and what is in them */
            told += judge_damage(path, bad, len, textf("damage %d of the page at %zu", kind, page));
        }
    assert_true(told > 0);
    for (size_t size = 512; size < len; size += 1536)
        judge_damage(path, data, size, textf("cut to %zu bytes", size));
}

/* ---- read-only ------------------------------------------------------------------------------- */

struct asked {
    const char *path;
    int code;
};

/* As somebody whom permissions apply to. */
static int open_unprivileged(void *arg)
{
    struct asked *asked = arg;

    if (geteuid() == 0 && (setgroups(0, NULL) != 0 || setresgid(NOBODY, NOBODY, NOBODY) != 0 ||
                           setresuid(NOBODY, NOBODY, NOBODY) != 0))
        return 99;
    assert_code(asked->code, try_open(asked->path, &err), &err);
    assert_says(&err, asked->path);
    return 0;
}

static void assert_unprivileged(const char *path, int code)
{
    struct asked asked = {path, code};

    assert_int_equal(child_wait(child_start(open_unprivileged, &asked), patience_ms(10000)), 0);
}

static void set_modes(const char *path, mode_t folder, mode_t file)
{
    char *dir = textf("%s", path);

    *strrchr(dir, '/') = '\0';
    assert_int_equal(chmod(path, file), 0);
    assert_int_equal(chmod(dir, folder), 0);
}

TEST(test_what_permissions_forbid_is_refused_at_open)
{
    static const struct {
        mode_t folder, file;
        int code;
    } modes[] = {
        {0777, 0444, SQLOCK_EREADONLY}, {0555, 0666, SQLOCK_EREADONLY}, {0777, 0, SQLOCK_EDENIED}};
    char *dir = temp_dir();

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char *path = new_migrated();

        set_modes(path, modes[i].folder, modes[i].file);
        assert_unprivileged(path, modes[i].code);
        set_modes(path, 0777, 0666);
    }
    assert_int_equal(chmod(dir, 0555), 0);
    assert_unprivileged(textf("%s/db", dir), SQLOCK_EREADONLY); /* there is no such file */
    assert_int_equal(chmod(dir, 0755), 0);
}

/* ---- two copies of SQLite -------------------------------------------------------------------- */

static int other_version(void)
{
    return SQLITE_VERSION_NUMBER;
}

TEST(test_a_caller_with_another_copy_of_SQLite_is_refused)
{
    struct db db = file_db(new_migrated());

    db.driver = sqlock_driver_sqlite_for(other_version);
    assert_error(SQLOCK_EREFUSED, "two copies", db_try(db, &err), &err);
    assert_code(SQLOCK_EREFUSED, db_try_migrate(db, &err), &err);
}

static int load_a_second_copy(void *arg)
{
    char *path = arg, *copy;
    Dl_info info;

    if (!dladdr((void *)(uintptr_t)sqlite3_libversion, &info) || !strstr(info.dli_fname, ".so"))
        return NOT_HERE;
    copy = textf("%.*s/libother.so", (int)(strrchr(path, '/') - path), path);
    assert_int_equal(system(textf("cp -L '%s' '%s'", info.dli_fname, copy)), 0);
    assert_ok(try_open(path, &err), &err);
    assert_non_null(dlopen(copy, RTLD_NOW | RTLD_LOCAL));
    assert_error(SQLOCK_EREFUSED, "libother.so", try_open(path, &err), &err);
    return 0;
}

/* A plugin may bring one along at any time: it is found without its help. */
TEST(test_a_second_copy_of_SQLite_in_the_process_is_found)
{
    in_child_or_skip(load_a_second_copy, new_migrated(),
                     "SQLite is linked statically: there is nothing to copy");
}

static int connect_by_dotfile(void *user, void **out_native, sqlock_error *out_err)
{
    sqlite3 *db = NULL;

    (void)out_err;
    if (sqlite3_open_v2(user, &db, SQLITE_OPEN_READWRITE, "unix-dotfile") != SQLITE_OK)
        return SQLOCK_EUNREACH;
    *out_native = db;
    return 0;
}

/* Whoever opens the file in the usual way does not see those locks, and writes at the same time. */
TEST(test_P1_a_connection_that_locks_in_another_way_is_refused)
{
    char *path = new_migrated();
    struct db db = {
        .driver = sqlock_driver_sqlite(), .connect = connect_by_dotfile, .connect_user = path};

    assert_code(SQLOCK_EREFUSED, db_try(db, &err), &err);
    use(path);
}

/* ---- the WAL --------------------------------------------------------------------------------- */

static int64_t size_of_wal(const char *path)
{
    struct stat st;

    assert_int_equal(stat(textf("%s-wal", path), &st), 0);
    return st.st_size;
}

/* A reader that stays, or a large transaction, makes it long. The next grant begins it anew. */
TEST(test_long_wal_is_cut_once_nobody_needs_it)
{
    enum { LIMIT = 64 << 20 };
    char *path = new_migrated();
    struct sqlite3 *app = lite_open(path);
    sqlock *m = db_open(file_db(path));

    lite_exec(app, "CREATE TABLE long (a)");
    lite_exec(app, "INSERT INTO long VALUES (zeroblob(70000000))");
    assert_true(size_of_wal(path) > LIMIT);
    lock_give(lock_now(m, "x"));
    assert_int_equal(size_of_wal(path), LIMIT);
    sqlock_close(m);
    sqlite3_close(app);
}

TEST_MAIN_EACH(NULL, work_here_again)
