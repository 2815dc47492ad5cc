/* No public function is forgotten: each that the headers declare is in a table of calls, or in the
 * list of those that have nothing that could fail. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/counted/scene.h"

/* They ask nobody for anything: no database, no memory. */
static const char idle[] = "sqlock_strerror sqlock_code_name sqlock_version "
                           "sqlock_now_us sqlock_open_opts_init sqlock_acquire_opts_init "
                           "sqlock_list_opts_init sqlock_reap_opts_init sqlock_retry_opts_init "
                           "sqlock_row_opts_init sqlock_state_name sqlock_why_name "
                           "sqlock_migration_state_name sqlock_lock_state sqlock_lock_why "
                           "sqlock_is_held sqlock_lock_deadline_us sqlock_lock_token "
                           "sqlock_lock_owner sqlock_lock_name";

/* What is lent to drivers works within the calls, and drivers' own headers declare none. */
static const char *const headers[] = {"sqlock", "error",    "import",      "async",
                                      "admin",  "migrate",  "transaction", "rows",
                                      "cas",    "register", "retry"};

static bool is_covered(const char *name)
{
    for (const struct call *const *table = call_tables; *table != NULL; table++)
        for (const struct call *c = *table; c->name != NULL; c++)
            if (is_word(c->covers, name))
                return true;
    return is_word(idle, name);
}

static char *text_of(const char *header)
{
    char path[64], *text = NULL;
    size_t size = 0;
    FILE *f;

    snprintf(path, sizeof path, "include/sqlock/%s.h", header);
    f = fopen(path, "r");
    if (f == NULL)
        fail_msg("%s cannot be read", path);
    if (getdelim(&text, &size, '\0', f) < 0)
        fail_msg("%s is empty", path);
    fclose(f);
    return text;
}

/* The name in a declaration: what stands before its first bracket. */
static void name_in(const char *declaration, char *out, size_t size)
{
    size_t end = strcspn(declaration, "("), begin = end;

    while (begin > 0 && strchr(" *\n", declaration[begin - 1]) == NULL)
        begin--;
    snprintf(out, size, "%.*s", (int)(end - begin), declaration + begin);
}

static int check_header(const char *header)
{
    char *text = text_of(header), name[80];
    int n = 0;

    for (char *at = text; (at = strstr(at, "\nSQLOCK_API ")) != NULL; n++) {
        at += sizeof "\nSQLOCK_API " - 1;
        name_in(at, name, sizeof name);
        if (!is_covered(name))
            fail_msg("%s() has no line in a table of calls", name);
    }
    free(text);
    return n;
}

static void test_each_public_function_is_called_with_faults_or_has_none(void **state)
{
    int n = 0;
    (void)state;

    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        n += check_header(headers[i]);
    assert_true(n > 55); /* they were found */
    assert_false(is_covered("sqlock_forgotten"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_each_public_function_is_called_with_faults_or_has_none),
};

TEST_MAIN(tests)
