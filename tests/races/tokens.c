/* Tokens: tokens.races, and here under four clients. */
#include "races.h"

/* Wrong: the row goes, and what it knew with it. */
static script prune_and_forget(int on_mysql)
{
    script s = changed(ours(SQLOCK_STMT_PRUNE), "fence_floor < $4", "fence_floor < 0");
    return changed(s, on_mysql ? "AND c.token <= @sqlock_floor" : "AND c.token <= m.fence_floor",
                   "");
}

static void tokens_rise_under_four_clients_and_two_reapers(void)
{
    tokens_rise(4 * MS, 20, ours(SQLOCK_STMT_PRUNE));
    tokens_fall(4 * MS, prune_and_forget(0));
}

static void tokens_rise_under_four_clients_and_a_pruner(void)
{
    tokens_rise(4 * MS, 20, ours(SQLOCK_STMT_PRUNE));
    tokens_fall(4 * MS, prune_and_forget(1));
}

static void tokens_rise_under_four_clients_and_a_pruner_of_many(void)
{
    if (!skips_locked())
        skip();
    tokens_rise(4 * MS, 20, ours_many(SQLOCK_STMT_PRUNE));
}

/* One writer at a time, and so fewer grants. */
static void tokens_rise_under_four_clients_in_a_file(void)
{
    tokens_rise(6 * MS, 10, ours(SQLOCK_STMT_PRUNE));
}

static const struct race_test tests[] = {
    RACE_TEST(tokens_rise_under_four_clients_and_two_reapers, ON_POSTGRES),
    RACE_TEST(tokens_rise_under_four_clients_and_a_pruner, ON_MYSQL),
    RACE_TEST(tokens_rise_under_four_clients_and_a_pruner_of_many, ON_MYSQL),
    RACE_TEST(tokens_rise_under_four_clients_in_a_file, ON_SQLITE),
};

int main(void)
{
    return run_races("tokens", tests, COUNT(tests));
}
