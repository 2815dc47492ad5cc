/* P15: names are bytes. What is wrong with one is told before anything is sent. */
#include "tests/drivers/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void refused_name(sqlock *m, const char *name, size_t len)
{
    sqlock_acquire_opts o = wait_opts(0, 0, 0);
    sqlock_lock *lock = NULL;
    sqlock_op *op = NULL;
    long requests = spy_runs(-1), opens = spy_opens();

    o.name_len = len;
    says(SQLOCK_EINVAL, sqlock_acquire(m, name, &o, &lock, &said));
    assert_int_equal(said.code, SQLOCK_EINVAL);
    assert_null(lock);
    says(SQLOCK_EINVAL, sqlock_acquire_start(m, name, &o, &op, &said));
    says(SQLOCK_EINVAL, sqlock_break(m, name, len, 1, &said));
    assert_int_equal(spy_runs(-1), requests);
    assert_int_equal(spy_opens(), opens);
}

/* What is UTF-8 is judged in unit/text_test.c. */
static void test_names_that_are_none_are_refused(void **state)
{
    static char many[1001];
    static const struct {
        const char *name;
        size_t len;
    } bad[] = {{NULL, SQLOCK_LEN_STRING},
               {"", SQLOCK_LEN_STRING},
               {"x", 0},
               {many, SQLOCK_LEN_STRING},
               {many, 256},
               {many, 1000},
               {"a\0b", 3},
               {"\0", 1},
               {"ab\0", 3},
               {"caf\xE9", 4},
               {"\xC0\xAF", 2},
               {"\xED\xA0\x80", 3}};
    sqlock *m = manager(state);

    memset(many, 'x', sizeof many - 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused_name(m, bad[i].name, bad[i].len);
}

/* All can be held at once, and come back as they were given. */
static void test_names_that_differ_in_a_byte_are_different_locks(void **state)
{
    static const char *const names[] = {"nightly",
                                        "Nightly",
                                        "nightly ",
                                        " nightly",
                                        "nightly\t",
                                        "nightly\n",
                                        "n\xC3\xAF",
                                        "ni\xCC\x88",
                                        "n",
                                        "\x01",
                                        "\x7F",
                                        "\xC2\x80",
                                        "\xE0\xA0\x80",
                                        "\xED\x9F\xBF",
                                        "\xEE\x80\x80",
                                        "\xEF\xBF\xBF",
                                        "\xF0\x90\x80\x80",
                                        "\xF4\x8F\xBF\xBF",
                                        "\xEF\xBB\xBFnightly",
                                        "'",
                                        "''",
                                        "\"",
                                        "\\",
                                        "\\x41",
                                        "A",
                                        "%",
                                        "_",
                                        "$1",
                                        "?1",
                                        "{lock}",
                                        "NULL",
                                        "'; DROP TABLE sqlock_lock; --"};
    enum { N = sizeof names / sizeof *names };
    sqlock *m = manager(state);
    sqlock_lock *locks[N];
    size_t len;

    for (size_t i = 0; i < N; i++) {
        locks[i] = take_for(m, names[i], 60000, SQLOCK_NO_RENEW);
        assert_string_equal(sqlock_lock_name(locks[i], &len), names[i]);
        assert_int_equal(len, strlen(names[i]));
    }
    for (size_t i = 0; i < N; i++)
        assert_int_equal(try_once(m, names[i]), SQLOCK_EBUSY);
    for (size_t i = 0; i < N; i++)
        sqlock_lock_free(locks[i]);
}

static void test_name_of_255_bytes_is_a_name(void **state)
{
    sqlock *m = manager(state);
    char name[256] = "", other[256];
    size_t len;

    for (int i = 0; i < 63; i++)
        memcpy(name + i * 4, "\xF0\x9F\x94\x92", 4);
    memcpy(name + 252, "abc", 4);
    memcpy(other, name, sizeof other);
    other[254] = 'd'; /* the last byte counts */
    sqlock_lock *lock = take(m, name);
    assert_memory_equal(sqlock_lock_name(lock, &len), name, 256);
    assert_int_equal(len, 255);
    assert_int_equal(try_once(m, name), SQLOCK_EBUSY);
    assert_true(is_free(m, other));
    ok(sqlock_renew(lock, &said));
    give(lock);
}

/* A name at the very end of what may be read; so a byte behind it ends the child. */
static int use_name_at_the_end(void *arg)
{
    long page = sysconf(_SC_PAGESIZE);
    char *area =
        mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sqlock_acquire_opts o = wait_opts(0, 0, 0);
    sqlock_lock *lock = NULL, *none = NULL;
    struct world *w = arg;
    sqlock *m = NULL;
    char *name;

    if (area == MAP_FAILED || mprotect(area + page, (size_t)page, PROT_NONE) != 0)
        return 90;
    name = area + page - 3;
    memcpy(name, "abc", 3);
    o.name_len = 3;
    if (open_here(w, NULL, &m, NULL) != 0)
        return 91;
    if (sqlock_acquire(m, name, &o, &lock, NULL) != 0)
        return 1;
    if (sqlock_acquire(m, name, &o, &none, NULL) != SQLOCK_EBUSY ||
        try_once(m, "abc") != SQLOCK_EBUSY || strcmp(sqlock_lock_name(lock, NULL), "abc") != 0)
        return 2;
    if (sqlock_break(m, name, 3, sqlock_lock_token(lock), NULL) != 0)
        return 3;
    if (sqlock_break(m, name, 3, sqlock_lock_token(lock), NULL) != SQLOCK_ELOST)
        return 4;
    sqlock_lock_free(lock);
    sqlock_close(m);
    return 0;
}

static void test_name_with_a_length_needs_no_nul_behind_it(void **state)
{
    struct world *w = world(state);
    pid_t child = child_start(use_name_at_the_end, w);

    assert_int_equal(child_wait(child, patience_ms(20000)), 0);
}

/* Namespace and name are two things, never glued together. */
static void test_namespaces_are_separate(void **state)
{
    static const char *const ns[] = {"", "a", "ab", "A", "abc", "a ", NULL};
    static const char *const names[] = {"abc", "bc", "c", "bc", "x", "bc", "aabc"};
    enum { N = sizeof ns / sizeof *ns };
    struct world *w = world(state);
    sqlock_open_opts oo = SQLOCK_OPEN_OPTS_INIT;
    sqlock_lock *locks[N];
    sqlock *m[N];

    for (size_t i = 0; i < N; i++) {
        oo.ns = ns[i];
        m[i] = open_manager(w, &oo);
        locks[i] = take_for(m[i], names[i], 60000, SQLOCK_NO_RENEW);
    }
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(try_once(m[i], names[i]), SQLOCK_EBUSY);
        sqlock_lock_free(locks[i]);
    }
    assert_int_equal(try_once(m[0], "aabc"), SQLOCK_EBUSY); /* NULL is the empty one */
}

static void test_namespace_has_up_to_63_bytes_of_utf8(void **state)
{
    struct world *w = world(state);
    sqlock_open_opts oo = SQLOCK_OPEN_OPTS_INIT;
    char ns[128];
    sqlock *m = NULL;
    long opens;

    memset(ns, 'n', sizeof ns);
    ns[63] = '\0';
    oo.ns = ns;
    m = open_manager(w, &oo);
    sqlock_lock *lock = take(m, "nightly");
    assert_int_equal(try_once(m, "nightly"), SQLOCK_EBUSY);
    give(lock);

    opens = spy_opens();
    ns[63] = 'n';
    ns[64] = '\0';
    says(SQLOCK_EINVAL, open_here(w, &oo, &m, &said));
    assert_null(m);
    oo.ns = "\xC0\x80";
    says(SQLOCK_EINVAL, open_here(w, &oo, &m, &said));
    assert_int_equal(spy_opens(), opens);
}

static const struct CMUnitTest tests[] = {
    core_test(test_names_that_are_none_are_refused),
    cmocka_unit_test(test_names_that_differ_in_a_byte_are_different_locks),
    cmocka_unit_test(test_name_of_255_bytes_is_a_name),
    core_test(test_name_with_a_length_needs_no_nul_behind_it),
    cmocka_unit_test(test_namespaces_are_separate),
    cmocka_unit_test(test_namespace_has_up_to_63_bytes_of_utf8),
};
PART(suite_names, tests);
