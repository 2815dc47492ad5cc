/* Tokens: tokens.races, and here under four clients. */
#include "races.h"

/* Wrong: the row goes, and what it knew with it. */
static script prune_and_forget(int on_mysql)
{
    script s = changed(ours(SQLOCK_STMT_PRUNE), "fence_floor < $4", "fence_floor < 0");
    return changed(s, on_mysql ? "AND c.token <= @sqlock_floor" : "AND c.token <= m.fence_floor",
                   "");
}

TEST(tokens_rise_under_four_clients_and_two_reapers, ON_POSTGRES)
{
    tokens_rise(4 * MS, 20, ours(SQLOCK_STMT_PRUNE));
    tokens_fall(4 * MS, prune_and_forget(0));
}

TEST(tokens_rise_under_four_clients_and_a_pruner, ON_MYSQL)
{
    tokens_rise(4 * MS, 20, ours(SQLOCK_STMT_PRUNE));
    tokens_fall(4 * MS, prune_and_forget(1));
}

TEST(tokens_rise_under_four_clients_and_a_pruner_of_many, ON_MYSQL)
{
    if (!skips_locked())
        skip();
    tokens_rise(4 * MS, 20, ours_many(SQLOCK_STMT_PRUNE));
}

/* One writer at a time, and so fewer grants. */
TEST(tokens_rise_under_four_clients_in_a_file, ON_SQLITE)
{
    tokens_rise(6 * MS, 10, ours(SQLOCK_STMT_PRUNE));
}

TEST_MAIN_OF_RACES("tokens")
