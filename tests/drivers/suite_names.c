/* P15: names are bytes. What is wrong with one is told before anything is sent. */
#include "tests/drivers/suite.h"

#include <unistd.h>

static void refused_name(sqlock *m, const char *name)
{
    sqlock_acquire_opts o = wait_opts(0, 0, 0);
    sqlock_lock *lock = NULL;
    sqlock_op *op = NULL;
    long requests = spy_runs(-1), opens = spy_opens();

    says(SQLOCK_EINVAL, sqlock_acquire(m, name, &o, &lock, &said));
    assert_int_equal(said.code, SQLOCK_EINVAL);
    assert_null(lock);
    says(SQLOCK_EINVAL, sqlock_acquire_start(m, name, &o, &op, &said));
    says(SQLOCK_EINVAL, sqlock_break(m, name, 1, &said));
    assert_int_equal(spy_runs(-1), requests);
    assert_int_equal(spy_opens(), opens);
}

/* What is UTF-8 is judged in unit/text_test.c. */
CORE_TEST(test_names_that_are_none_are_refused, m)
{
    static char many[1001], long_by_one[SQLOCK_NAME_MAX + 2];
    const char *const bad[] = {NULL, "", many, long_by_one, "caf\xE9", "\xC0\xAF", "\xED\xA0\x80"};

    memset(many, 'x', sizeof many - 1);
    memset(long_by_one, 'x', sizeof long_by_one - 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused_name(m, bad[i]);
}

/* All can be held at once, and come back as they were given. */
TEST(test_names_that_differ_in_a_byte_are_different_locks)
{
    static const char *const names[] = {"nightly",
                                        "Nightly",
                                        "nightly ",
                                        " nightly",
                                        "nightly\t",
                                        "n\xC3\xAF",
                                        "ni\xCC\x88",
                                        "\x01",
                                        "\xE0\xA0\x80",
                                        "\xED\x9F\xBF",
                                        "\xEF\xBF\xBF",
                                        "\xF0\x90\x80\x80",
                                        "\xF4\x8F\xBF\xBF",
                                        "\xEF\xBB\xBFnightly",
                                        "'",
                                        "\"",
                                        "\\",
                                        "\\x41",
                                        "%",
                                        "_",
                                        "$1",
                                        "{lock}",
                                        "NULL",
                                        "'; DROP TABLE x; --"};
    enum { N = sizeof names / sizeof *names };
    sqlock *m = open_manager(w, NULL);
    sqlock_lock *locks[N];

    for (size_t i = 0; i < N; i++) {
        locks[i] = take_for(m, names[i], 60000, SQLOCK_NO_RENEW);
        assert_string_equal(sqlock_lock_name(locks[i]), names[i]);
    }
    for (size_t i = 0; i < N; i++)
        assert_int_equal(try_once(m, names[i]), SQLOCK_EBUSY);
}

TEST(test_name_of_255_bytes_is_a_name, m)
{
    char name[256] = "", other[256];

    for (int i = 0; i < 63; i++)
        memcpy(name + i * 4, "\xF0\x9F\x94\x92", 4);
    memcpy(name + 252, "abc", 4);
    memcpy(other, name, sizeof other);
    other[254] = 'd'; /* the last byte counts */
    sqlock_lock *lock = take(m, name);
    assert_memory_equal(sqlock_lock_name(lock), name, 256);
    assert_int_equal(try_once(m, name), SQLOCK_EBUSY);
    assert_true(is_free(m, other));
    ok(sqlock_renew(lock, &said));
    give(lock);
}

/* Namespace and name are two things, never glued together. */
TEST(test_namespaces_are_separate)
{
    static const char *const ns[] = {"", "a", "ab", "A", "abc", "a ", NULL};
    static const char *const names[] = {"abc", "bc", "c", "bc", "x", "bc", "aabc"};
    enum { N = sizeof ns / sizeof *ns };
    sqlock_open_opts oo = SQLOCK_OPEN_OPTS_INIT;
    sqlock *m[N];

    for (size_t i = 0; i < N; i++) {
        oo.ns = ns[i];
        m[i] = open_manager(w, &oo);
        take_for(m[i], names[i], 60000, SQLOCK_NO_RENEW);
    }
    for (size_t i = 0; i < N; i++)
        assert_int_equal(try_once(m[i], names[i]), SQLOCK_EBUSY);
    assert_int_equal(try_once(m[0], "aabc"), SQLOCK_EBUSY); /* NULL is the empty one */
}

TEST(test_namespace_has_up_to_63_bytes_of_utf8)
{
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
