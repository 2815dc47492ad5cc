/* Seeing locks, and breaking them. */
#include "tests/drivers/suite.h"

#include <unistd.h>

enum { SEEN_MAX = 2048 };

struct seen {
    size_t n;
    size_t stop_at; /* 0: never */
    struct entry {
        char name[SQLOCK_NAME_MAX + 1];
        size_t len;
        int held;
        int64_t token, left_ms, held_ms;
    } all[SEEN_MAX];
};

static struct seen seen; /* too large for a stack */

static int note(const sqlock_info *info, void *user)
{
    struct seen *s = user;
    struct entry *e = &s->all[s->n];

    if (s->n == SEEN_MAX || info->name[info->name_len] != '\0')
        return -99;
    memcpy(e->name, info->name, info->name_len + 1);
    e->len = info->name_len;
    e->held = info->held;
    e->token = info->holder.token;
    e->left_ms = info->holder.left_ms;
    e->held_ms = info->holder.held_ms;
    s->n++;
    return s->stop_at != 0 && s->n == s->stop_at ? 77 : 0;
}

static void look(sqlock *m, const char *prefix, unsigned flags)
{
    sqlock_list_opts o = SQLOCK_LIST_OPTS_INIT;

    memset(&seen, 0, sizeof seen);
    o.prefix = prefix;
    o.flags = flags;
    ok(sqlock_list(m, &o, note, &seen, &said));
}

TEST(test_list_shows_what_is_held_in_byte_order, m)
{
    static const char *const names[] = {"b", "a b", "B", "\xC3\xA4", "a", "aa", "a\x01"};
    static const char *const order[] = {"B", "a", "a\x01", "a b", "aa", "b", "\xC3\xA4"};
    enum { N = sizeof names / sizeof *names };
    sqlock_lock *locks[N];

    for (size_t i = 0; i < N; i++)
        locks[i] = take_for(m, names[i], 60000, SQLOCK_NO_RENEW);
    look(open_manager(w, NULL), NULL, 0);
    assert_int_equal(seen.n, N);
    for (size_t i = 0; i < N; i++) {
        assert_string_equal(seen.all[i].name, order[i]);
        assert_int_equal(seen.all[i].len, strlen(order[i]));
        assert_int_equal(seen.all[i].held, 1);
    }
    for (size_t i = 0; i < N; i++)
        give(locks[i]);
}

TEST(test_list_shows_free_rows_only_when_requested, m)
{
    sqlock_lock *lock = take(m, "free");
    int64_t token = sqlock_lock_token(lock);

    give(lock);
    lock = take(m, "held");
    look(m, NULL, 0);
    assert_int_equal(seen.n, 1);
    assert_string_equal(seen.all[0].name, "held");
    look(m, NULL, SQLOCK_LIST_FREE);
    assert_int_equal(seen.n, 2);
    assert_string_equal(seen.all[0].name, "free");
    assert_int_equal(seen.all[0].held, 0);
    assert_int_equal(seen.all[0].token, token); /* of the last grant */
    assert_int_equal(seen.all[0].held_ms, 0);
    assert_int_equal(seen.all[1].held, 1);
    give(lock);
}

TEST(test_list_shows_a_lease_that_ran_out, m)
{
    take_for(m, "nightly", 200, SQLOCK_NO_RENEW);
    sleep_ms(250);
    look(m, NULL, 0);
    assert_int_equal(seen.n, 1);
    assert_int_equal(seen.all[0].held, 1);
    assert_between(-patience_ms(5000), seen.all[0].left_ms, 0);
}

/* The prefix is bytes: no pattern. */
TEST(test_list_by_prefix)
{
    static const char *const names[] = {"a%",  "a_x", "ab", "abc",       "abd",
                                        "b/a", "b/b", "b0", "\xC3\xA4x", "\xC3\xA5"};
    static const struct {
        const char *prefix;
        size_t n;
    } asked[] = {{"", 10}, {"a", 5},  {"ab", 3}, {"abc", 1}, {"abcd", 0},    {"a%", 1},
                 {"%", 0}, {"a_", 1}, {"b/", 2}, {"c", 0},   {"\xC3\xA4", 1}};
    sqlock *m = open_manager(w, NULL);

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        take_for(m, names[i], 60000, SQLOCK_NO_RENEW);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        look(m, asked[i].prefix, 0);
        if (seen.n != asked[i].n)
            fail_msg("prefix \"%s\": %zu names, not %zu", asked[i].prefix, seen.n, asked[i].n);
    }
}

CORE_TEST(test_list_stops_when_its_callback_says_so, m)
{
    sqlock_lock *locks[3] = {take(m, "a"), take(m, "b"), take(m, "c")};

    memset(&seen, 0, sizeof seen);
    seen.stop_at = 2;
    assert_int_equal(sqlock_list(m, NULL, note, &seen, NULL), 77);
    assert_int_equal(seen.n, 2);
    for (int i = 0; i < 3; i++)
        give(locks[i]);
}

TEST(test_list_keeps_to_its_namespace)
{
    sqlock *plain = open_manager(w, NULL), *tenant;

    tenant = open_with(w, with.ns = "tenant");
    sqlock_lock *a = take(plain, "a"), *b = take(tenant, "b");
    look(plain, NULL, SQLOCK_LIST_FREE);
    assert_int_equal(seen.n, 1);
    assert_string_equal(seen.all[0].name, "a");
    look(tenant, NULL, SQLOCK_LIST_FREE);
    assert_int_equal(seen.n, 1);
    assert_string_equal(seen.all[0].name, "b");
    give(a);
    give(b);
}

enum { MANY = 1200 };

TEST(test_list_goes_over_many_pages, m)
{
    char name[32];

    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "page/%04d", (i * 7) % MANY);
        drop(take_for(m, name, 600000, SQLOCK_NO_RENEW));
    }
    look(m, NULL, 0);
    assert_int_equal(seen.n, MANY);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "page/%04d", i);
        assert_string_equal(seen.all[i].name, name);
    }
    look(m, "page/10", 0);
    assert_int_equal(seen.n, 100);
}

/* ---- breaking -------------------------------------------------------------------------------- */

TEST(test_one_lock_is_found_by_its_name_with_its_holder, other)
{
    sqlock *m = open_with(w, with.label = "billing");
    sqlock_lock *lock = take_for(m, "nightly", 60000, SQLOCK_NO_RENEW);
    sqlock_info info = {.size = sizeof info};
    char who[64];

    give(take(m, "nightly2"));
    sleep_ms(100);
    snprintf(who, sizeof who, "%ld@", (long)getpid());
    ok(sqlock_find(other, "nightly", &info, &said));
    assert_string_equal(info.name, "nightly");
    assert_int_equal(info.name_len, 7);
    assert_int_equal(info.held, 1);
    assert_int_equal(info.holder.token, sqlock_lock_token(lock));
    assert_memory_equal(info.owner, sqlock_lock_owner(lock), SQLOCK_OWNER_SIZE);
    assert_between(100 - GRAIN_MS, info.holder.held_ms, 100 + patience_ms(3000));
    assert_between(59900 - patience_ms(3000), info.holder.left_ms, 59900 + GRAIN_MS);
    assert_int_equal(strncmp(info.holder.label, who, strlen(who)), 0);
    assert_non_null(strstr(info.holder.label, " billing"));
    snprintf(said.text, sizeof said.text, "as it was"); /* no error, and it is left alone */
    assert_int_equal(sqlock_find(other, "night", &info, &said), SQLOCK_ABSENT);
    assert_string_equal(said.text, "as it was");
    assert_int_equal(sqlock_find(other, "nightly23", &info, &said), SQLOCK_ABSENT);
    give(lock);
    ok(sqlock_find(other, "nightly", &info, &said));
    assert_int_equal(info.held, 0);
    says(SQLOCK_EINVAL, sqlock_find(other, "", &info, &said));
    says(SQLOCK_EINVAL, sqlock_find(other, "nightly", NULL, &said));
    info.size = 0;
    says(SQLOCK_EINVAL, sqlock_find(other, "nightly", &info, &said));
}

TEST(test_break_with_a_wrong_token_changes_nothing, m)
{
    sqlock_lock *lock = take(m, "nightly");
    int64_t token = sqlock_lock_token(lock);

    says(SQLOCK_ELOST, sqlock_break(m, "nightly", token + 1, &said));
    says(SQLOCK_ELOST, sqlock_break(m, "nightly", SQLOCK_TOKEN_MAX, &said));
    says(SQLOCK_ELOST, sqlock_break(m, "other", token, &said));
    ok(sqlock_renew(lock, &said));
    assert_int_equal(try_once(m, "nightly"), SQLOCK_EBUSY);
    give(lock);
    says(SQLOCK_ELOST, sqlock_break(m, "nightly", token, &said));
}

static int break_it(const sqlock_info *info, void *user)
{
    return sqlock_break(user, info->name, info->holder.token, NULL);
}

/* As an operator does: with the tokens that the list tells, in its callback. */
TEST(test_break_frees_what_the_list_shows, a, b)
{
    int64_t token = sqlock_lock_token(take(a, "one"));

    take(a, "two");
    ok(sqlock_list(b, NULL, break_it, b, &said));
    assert_true(is_free(b, "one"));
    assert_true(is_free(b, "two"));
    says(SQLOCK_ELOST, sqlock_break(b, "one", token, &said));
}

/* P5: what the second try finds may be its own doing, and may not. */
TEST_IF(NOTES, test_break_whose_reply_was_lost_says_what_the_row_says, m)
{
    sqlock_lock *lock = take_for(m, "nightly", 600000, SQLOCK_NO_RENEW);
    int64_t token = sqlock_lock_token(lock);

    spy_lose_reply(SQLOCK_STMT_BREAK_NOTED);
    says(SQLOCK_ELOST, sqlock_break(m, "nightly", token + 1, &said));
    spy_lose_reply(SQLOCK_STMT_BREAK_NOTED);
    says(SQLOCK_ELOST, sqlock_break(m, "never", token, &said));
    ok(sqlock_renew(lock, &said)); /* nothing of that was applied */
    spy_lose_reply(SQLOCK_STMT_BREAK_NOTED);
    ok(sqlock_break(m, "nightly", token, &said));
    assert_int_equal(spy_runs(SQLOCK_STMT_BREAK_NOTED), 6);
    says(SQLOCK_ELOST, sqlock_renew(lock, &said));
    assert_lost(lock, SQLOCK_WHY_BROKEN);
}

/* The row remembers one ended grant: after the next one ended nobody can tell how the first did,
 * but that it was broken, or was not. */
TEST_IF(NOTES,
        test_break_whose_reply_was_lost_finds_its_own_or_is_unsure_after_others_came_and_went, m)
{
    sqlock_lock *lock = take(m, "nightly"), *next;
    int64_t token = sqlock_lock_token(lock);

    ok(sqlock_break(m, "nightly", token, &said));
    give(take(m, "nightly"));
    give(take(m, "nightly"));
    spy_lose_reply(SQLOCK_STMT_BREAK_NOTED);
    ok(sqlock_break(m, "nightly", token, &said));
    says(SQLOCK_ELOST, sqlock_break(m, "nightly", token, &said));

    lock = take(m, "nightly");
    token = sqlock_lock_token(lock);
    give(lock);
    spy_lose_reply(SQLOCK_STMT_BREAK_NOTED);
    says(SQLOCK_ELOST, sqlock_break(m, "nightly", token, &said));
    give(take(m, "nightly"));
    next = take(m, "nightly");
    spy_lose_reply(SQLOCK_STMT_BREAK_NOTED);
    says(SQLOCK_EUNSURE, sqlock_break(m, "nightly", token, &said));
    assert_true(said.flags & SQLOCK_MAYBE);
    says(SQLOCK_ELOST, sqlock_break(m, "nightly", token, &said));
    ok(sqlock_renew(next, &said));
    give(next);
}
