/* Which SQLite this is, and whether it is the only one. And the table that core calls. */
#include "sqlite.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

/* ---- two copies ------------------------------------------------------------------------------ */

/* The names of the loaded objects, one after the other, each with its NUL. */
typedef struct names {
    char *text;
    size_t used;
    size_t size;
    int failed;
} names;

static int names_add(struct dl_phdr_info *info, size_t size, void *user)
{
    names *list = user;
    const char *name = info->dlpi_name != NULL ? info->dlpi_name : "";
    const size_t len = strlen(name) + 1;
    (void)size;

    if (list->used + len > list->size) {
        const size_t want = 2 * (list->size + len);
        char *text = sqlock_mem_resize(list->text, want);

        list->failed = text == NULL;
        if (list->failed)
            return 1;
        list->text = text;
        list->size = want;
    }
    memcpy(list->text + list->used, name, len);
    list->used += len;
    return 0;
}

/* It compares the string that sqlite3_sourceid() returns, a constant of the copy that runs. The
 * function's own address would not do: in a program that is not position independent it is the
 * address of a stub in the program, so one copy would look like two. */
static int object_is_other_copy(const char *object)
{
    const char *(*source_id)(void) = NULL;
    void *handle = dlopen(object[0] != '\0' ? object : NULL, RTLD_LAZY | RTLD_NOLOAD);
    void *symbol = NULL;
    int other = 0;

    if (handle == NULL)
        return 0; /* not an object that can have symbols, or unloaded since */
    symbol = dlsym(handle, "sqlite3_sourceid"); /* of the object, or of what it depends on */
    if (symbol != NULL) {
        memcpy(&source_id, &symbol, sizeof source_id);
        other = source_id() != sqlite3_sourceid();
    }
    dlclose(handle);
    return other;
}

/* Each open looks again: a plugin with its own copy may have been loaded since. */
static int library_check_copies(sqlock_error *err)
{
    names list = {NULL, 0, 0, 0};
    int rc = 0;

    /* dlopen() within the walk could deadlock with a thread that loads a library, because that
     * thread takes the loader's two locks in the other order. So it collects the names first, then
     * looks at each. */
    dl_iterate_phdr(names_add, &list);
    if (list.failed)
        rc = sqlock_error_set(err, SQLOCK_ENOMEM, 0, "out of memory");
    for (size_t at = 0; rc == 0 && at < list.used; at += strlen(list.text + at) + 1)
        if (object_is_other_copy(list.text + at))
            rc = sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                  "a second copy of SQLite is loaded in this process (%s)",
                                  list.text[at] != '\0' ? list.text + at : "the program itself");
    sqlock_mem_free(list.text);
    return rc;
}

static int library_check_build(sqlock_error *err)
{
    if (sqlite3_libversion_number() < LITE_VERSION_MIN)
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0, "SQLite %s is too old: 3.37 is needed",
                                sqlite3_libversion());
    if (sqlite3_threadsafe() == 0)
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                "this SQLite was built without support for threads");
    return 0;
}

int lite_library_check(sqlock_error *err)
{
    const int rc = library_check_build(err);

    return rc != 0 ? rc : library_check_copies(err);
}

static const char two_copies[] = "the program and sqlock use two copies of SQLite in one process";

/* 1: code and datum lie in the same loaded object. */
static int address_shares_object(void (*code)(void), const void *datum)
{
    Dl_info a, b;
    void *address = NULL;

    memcpy(&address, &code, sizeof address);
    return dladdr(address, &a) != 0 && dladdr(datum, &b) != 0 && a.dli_fbase == b.dli_fbase;
}

/* Two equal addresses mean one copy: the linker gives a function the same address in a program and
 * in its libraries, even if it is that of a stub. Two different addresses mean two copies. The
 * exception is a caller that looked the function up: it has the address of the body, which lies in
 * the copy that we run. A doubt counts as a second copy. */
int lite_library_check_caller(void (*library)(void), sqlock_error *err)
{
    const int rc = library_check_build(err);

    if (rc != 0 || library == (void (*)(void))sqlite3_libversion_number)
        return rc;
    if (library == NULL)
        return library_check_copies(err);
    if (!address_shares_object(library, sqlite3_sourceid()))
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0, two_copies);
    return 0;
}

/* ---- the driver ------------------------------------------------------------------------------ */

static int driver_refuse_open(const sqlock_conn_opts *opts, int64_t deadline, void **out_conn,
                              sqlock_error *err)
{
    (void)opts;
    (void)deadline;
    *out_conn = NULL;
    return sqlock_error_set(err, SQLOCK_EREFUSED, 0, two_copies);
}

#define LITE_DRIVER(open_slot, adopter_table)                                                      \
    {                                                                                              \
        .size = sizeof(sqlock_driver),                                                             \
        .caps = SQLOCK_CAP_TX_DDL | SQLOCK_CAP_ONE_WRITER | SQLOCK_CAP_WHOLE_URL |                 \
                SQLOCK_CAP_RUNNING | SQLOCK_CAP_BATCH | SQLOCK_CAP_PAUSES | SQLOCK_CAP_GROUPS |    \
                SQLOCK_CAP_HEARS,                                                                  \
        .name = "sqlite", .schemes = "sqlite", .dialect = &sqlock_sqlite_dialect,                  \
        .open = (open_slot), .close = lite_close, .run = lite_run, .exec = lite_exec,              \
        .begin = lite_begin, .commit = lite_commit, .rollback = lite_rollback,                     \
        .cancel = lite_cancel, .adopter = (adopter_table), .whole_url = lite_whole_url,            \
        .running = lite_running, .listen = lite_listen, .hear = lite_hear                          \
    }

static const sqlock_driver driver = LITE_DRIVER(lite_open, &lite_adopter);
/* For a caller with another copy of SQLite. It refuses to open, so there is never a manager for
 * which it could adopt. */
static const sqlock_driver refusing_driver = LITE_DRIVER(driver_refuse_open, NULL);

/* In parentheses: for callers with SQLite's header the name is a macro too. */
const sqlock_driver *(sqlock_driver_sqlite)(void)
{
    return &driver;
}

const sqlock_driver *sqlock_driver_sqlite_for(int (*caller_version)(void))
{
    if (caller_version != NULL && caller_version != sqlite3_libversion_number)
        return &refusing_driver;
    return &driver;
}
