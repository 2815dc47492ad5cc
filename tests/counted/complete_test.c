/* No public function is forgotten: each that the headers declare is in a table of calls, or in the
 * list of those that have nothing that could fail. */
#include <stdio.h>

#include "tests/counted/scene.h"

/* They ask nobody for anything: no database, no memory. */
static const char idle[] = "sqlock_strerror sqlock_code_name sqlock_version "
                           "sqlock_now_us sqlock_open_opts_init sqlock_acquire_opts_init "
                           "sqlock_list_opts_init sqlock_reap_opts_init sqlock_retry_opts_init "
                           "sqlock_row_opts_init sqlock_state_name sqlock_why_name "
                           "sqlock_migration_state_name sqlock_lock_state sqlock_lock_why "
                           "sqlock_is_held sqlock_lock_deadline_us sqlock_lock_token "
                           "sqlock_lock_owner sqlock_lock_name sqlock_lock_slot "
                           "sqlock_lock_mode sqlock_op_place "
                           "sqlock_same_actor";

/* What is lent to drivers works within the calls, and drivers' own headers declare none. */
static const char declared[] =
    "ls include/sqlock/*.h | grep -vE "
    "'/(driver|adopt|dialect|request|value|fake|sqlite|postgres|mysql)\\.h' | "
    "xargs sed -n 's/^SQLOCK_API .*[ *]\\(sqlock_[a-z_]*\\)(.*/\\1/p'";

static bool is_covered(const char *name)
{
    for (const struct call *const *table = call_tables; *table != NULL; table++)
        for (const struct call *c = *table; c->name != NULL; c++)
            if (is_word(c->covers, name))
                return true;
    return is_word(idle, name);
}

TEST(test_each_public_function_is_called_with_faults_or_has_none)
{
    FILE *f = popen(declared, "r");
    char name[80];
    int n = 0;

    assert_non_null(f);
    for (; fscanf(f, "%79s", name) == 1; n++)
        if (!is_covered(name))
            fail_msg("%s() has no line in a table of calls", name);
    pclose(f);
    assert_true(n > 55); /* they were found */
    assert_false(is_covered("sqlock_forgotten"));
}

TEST_MAIN_EACH(NULL, NULL)
