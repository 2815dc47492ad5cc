/* The private server: killed, set back and started again. */
#include "tests/lib/private.h"
#include "tests/lib/check.h"

#ifdef TEST_HAVE_POSTGRES
static void test_server_that_was_set_back_forgot_what_came_after(void **state)
{
    (void)state;
    private_exec("CREATE TABLE known (n int); INSERT INTO known VALUES (1)");
    private_save();
    private_exec("INSERT INTO known VALUES (2)");
    private_kill();
    private_start();
    assert_int_equal(private_number("SELECT sum(n) FROM known"), 3);
    private_kill();
    private_restore();
    private_start();
    assert_int_equal(private_number("SELECT sum(n) FROM known"), 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_server_that_was_set_back_forgot_what_came_after),
};

TEST_MAIN(tests)
#else
int main(void)
{
    print_message("SKIP: there is no PostgreSQL\n");
    return 0;
}
#endif
