/* Option structs: the macro and the function say the same, and older callers' are accepted. */
#include <string.h>

#include <sqlock/rows.h>

#include "core/engine/arguments.h"
#include "tests/lib/check.h"

/* Bytes of a struct up to the end of a field: what lies behind it is padding. */
#define UP_TO(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

static const sqlock a_manager = {.lease_us = SQLOCK_LEASE_DEFAULT_MS * INT64_C(1000)};

#define SAME(type, macro, last)                                                                    \
    do {                                                                                           \
        type by_macro = macro, by_call;                                                            \
        memset(&by_call, 0xAA, sizeof by_call);                                                    \
        type##_init(&by_call);                                                                     \
        assert_memory_equal(&by_macro, &by_call, UP_TO(type, last));                               \
        assert_int_equal(by_call.size, sizeof by_call);                                            \
    } while (0)

TEST(test_macro_and_function_write_the_same_bytes)
{
    SAME(sqlock_open_opts, SQLOCK_OPEN_OPTS_INIT, lease_ms);
    SAME(sqlock_acquire_opts, SQLOCK_ACQUIRE_OPTS_INIT, actor);
    SAME(sqlock_list_opts, SQLOCK_LIST_OPTS_INIT, prefix);
    SAME(sqlock_reap_opts, SQLOCK_REAP_OPTS_INIT, max_ms);
    SAME(sqlock_retry_opts, SQLOCK_RETRY_OPTS_INIT, lease_ms);
}

/* Fields are only appended: what an older program was built with must stay where it was. */
TEST(test_fields_stand_where_programs_were_built_with_them)
{
    assert_int_equal(offsetof(sqlock_open_opts, size), 0);
    assert_int_equal(offsetof(sqlock_acquire_opts, size), 0);
    assert_int_equal(offsetof(sqlock_list_opts, size), 0);
    assert_int_equal(offsetof(sqlock_reap_opts, size), 0);
    assert_int_equal(offsetof(sqlock_retry_opts, size), 0);
    assert_int_equal(offsetof(sqlock_retry_opts, lock_name), 32);
    assert_int_equal(offsetof(sqlock_retry_opts, cancel), 32 + sizeof(void *));
    assert_int_equal(offsetof(sqlock_attempt, lock), 16);
    assert_int_equal(offsetof(sqlock_reap_opts, grace_ms), 16);
    assert_int_equal(offsetof(sqlock_reap_opts, cancel), 40 + sizeof(void *));
    assert_int_equal(offsetof(sqlock_reap_report, size), 0);
    assert_int_equal(offsetof(sqlock_reap_report, cleared), 16);
    assert_int_equal(offsetof(sqlock_reap_report, oldest_ms), 64);
    assert_int_equal(offsetof(sqlock_acquire_opts, wait_ms), 4);
    assert_int_equal(offsetof(sqlock_acquire_opts, label), 24);
    assert_int_equal(offsetof(sqlock_acquire_opts, owner), 24 + 5 * sizeof(void *));
    assert_int_equal(offsetof(sqlock_open_opts, schema), 8);
    assert_int_equal(offsetof(sqlock_open_opts, connections), 8 + 6 * sizeof(void *));
    assert_int_equal(offsetof(sqlock_list_opts, prefix), 8);
    assert_int_equal(offsetof(sqlock_row_opts, outcomes), 16);
    assert_int_equal(offsetof(sqlock_row_opts, cancel), 16 + sizeof(void *));
    assert_int_equal(offsetof(sqlock_row_opts, blocker), 16 + 2 * sizeof(void *));
    assert_int_equal(offsetof(sqlock_blocker, text), 24);
    assert_int_equal(offsetof(sqlock_error, flags), 4);
    assert_int_equal(offsetof(sqlock_error, native), 8);
    assert_int_equal(offsetof(sqlock_error, sqlstate), 16);
    assert_int_equal(offsetof(sqlock_error, text), 24);
    assert_int_equal(sizeof(sqlock_error), 512);
}

/* What the fields of a struct are, all but its size. */
struct field {
    size_t at, size;
};
#define FIELD(type, name)                                                                          \
    {                                                                                              \
        offsetof(type, name), sizeof(((type *)0)->name)                                            \
    }

/* all at each smaller size, at the end of an allocation of its own: one byte read beyond it is a
 * sanitizer's finding. Each field is the caller's if all of it lies within the size, else the
 * default; nothing in between. */
static void check_every_size(const void *all, const void *defaults, const struct field *fields,
                             size_t n, int (*check)(const void *in, void *out))
{
    uint32_t most;
    _Alignas(max_align_t) char out[256];

    memcpy(&most, all, sizeof most);
    assert_true(most <= sizeof out);
    for (uint32_t size = sizeof size; size <= most; size++) {
        char *in = test_malloc(size);

        memcpy(in, all, size);
        memcpy(in, &size, sizeof size);
        assert_int_equal(check(in, out), 0);
        for (size_t i = 0; i < n; i++) {
            size_t at = fields[i].at;
            const char *from = at + fields[i].size <= size ? all : defaults;

            assert_memory_equal(out + at, from + at, fields[i].size);
        }
        test_free(in);
    }
}

static int check_acquire(const void *in, void *out)
{
    return check_acquire_opts(&a_manager, in, out, NULL);
}

static int check_open(const void *in, void *out)
{
    return check_open_opts(in, out, NULL);
}

static int check_list(const void *in, void *out)
{
    return check_list_opts(in, out, NULL);
}

static int check_reap(const void *in, void *out)
{
    return check_reap_opts(in, out, NULL);
}

TEST(test_acquire_options_count_field_by_field_at_every_size)
{
    static const struct field fields[] = {
        FIELD(sqlock_acquire_opts, wait_ms),  FIELD(sqlock_acquire_opts, lease_ms),
        FIELD(sqlock_acquire_opts, renew_ms), FIELD(sqlock_acquire_opts, max_hold_ms),
        FIELD(sqlock_acquire_opts, flags),    FIELD(sqlock_acquire_opts, label),
        FIELD(sqlock_acquire_opts, cancel),   FIELD(sqlock_acquire_opts, on_event),
        FIELD(sqlock_acquire_opts, user),     FIELD(sqlock_acquire_opts, holder),
        FIELD(sqlock_acquire_opts, owner),
    };
    const sqlock_acquire_opts defaults = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_acquire_opts all = defaults;
    sqlock_holder holder = {.size = sizeof holder};
    sqlock_cancel cancel = {.process = sqlock_process_id()};

    all.wait_ms = 0x01020304;
    all.lease_ms = 0x04030201;
    all.renew_ms = 0x01010101;
    all.max_hold_ms = 0x02020202;
    all.flags = SQLOCK_NO_RENEW;
    all.label = "label";
    all.cancel = &cancel;
    memset(&all.on_event, 0x11, sizeof all.on_event);
    all.user = &holder;
    all.holder = &holder;
    all.owner = (const unsigned char *)"0123456789abcdef";
    check_every_size(&all, &defaults, fields, sizeof fields / sizeof *fields, check_acquire);
}

/* What came after the owner, and does not go with one. */
TEST(test_later_acquire_options_count_field_by_field_at_every_size)
{
    static const struct field fields[] = {
        FIELD(sqlock_acquire_opts, mode),
        FIELD(sqlock_acquire_opts, modes),
        FIELD(sqlock_acquire_opts, slot),
        FIELD(sqlock_acquire_opts, actor),
    };
    static const int64_t modes[] = {SQLOCK_SHARED};
    const sqlock_acquire_opts defaults = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_acquire_opts all = defaults;

    all.mode = SQLOCK_SLOTS(77);
    all.modes = modes;
    all.slot = 12;
    all.actor = "job 1";
    check_every_size(&all, &defaults, fields, sizeof fields / sizeof *fields, check_acquire);
}

TEST(test_other_options_count_field_by_field_at_every_size)
{
    static const struct field open_fields[] = {
        FIELD(sqlock_open_opts, flags),        FIELD(sqlock_open_opts, schema),
        FIELD(sqlock_open_opts, prefix),       FIELD(sqlock_open_opts, ns),
        FIELD(sqlock_open_opts, label),        FIELD(sqlock_open_opts, connect),
        FIELD(sqlock_open_opts, connect_user), FIELD(sqlock_open_opts, connections),
        FIELD(sqlock_open_opts, request_ms),   FIELD(sqlock_open_opts, lease_ms),
    };
    static const struct field list_fields[] = {FIELD(sqlock_list_opts, flags),
                                               FIELD(sqlock_list_opts, prefix)};
    static const struct field reap_fields[] = {FIELD(sqlock_reap_opts, batch),
                                               FIELD(sqlock_reap_opts, max_ms)};
    const sqlock_open_opts defaults = SQLOCK_OPEN_OPTS_INIT;
    const sqlock_list_opts list_defaults = SQLOCK_LIST_OPTS_INIT;
    const sqlock_reap_opts reap_defaults = SQLOCK_REAP_OPTS_INIT;
    sqlock_open_opts all = defaults;
    sqlock_list_opts list_all = {sizeof list_all, SQLOCK_LIST_FREE, "prefix"};
    sqlock_reap_opts reap_all = reap_defaults;

    all.flags = SQLOCK_OPEN_ACCEPT_WEAK;
    all.schema = "schema";
    all.prefix = "prefix";
    all.ns = "ns";
    all.label = "label";
    memset(&all.connect, 0x11, sizeof all.connect);
    all.connect_user = &all;
    all.connections = 3;
    all.request_ms = 77;
    all.lease_ms = 0x01020304;
    check_every_size(&all, &defaults, open_fields, sizeof open_fields / sizeof *open_fields,
                     check_open);
    check_every_size(&list_all, &list_defaults, list_fields, 2, check_list);
    reap_all.batch = 7;
    reap_all.max_ms = 77;
    check_every_size(&reap_all, &reap_defaults, reap_fields, 2, check_reap);
}

TEST(test_larger_options_are_accepted_when_what_is_new_is_not_set)
{
    struct {
        sqlock_acquire_opts known;
        char newer[64];
    } in = {SQLOCK_ACQUIRE_OPTS_INIT, ""}, before;
    sqlock_acquire_opts out;

    in.known.size = sizeof in;
    in.known.wait_ms = 3;
    before = in;
    assert_int_equal(check_acquire_opts(&a_manager, &in.known, &out, NULL), 0);
    assert_int_equal(out.wait_ms, 3);
    assert_memory_equal(&in, &before, sizeof in);
    /* Ignoring what somebody asks for would be to promise it. */
    for (size_t i = 0; i < sizeof in.newer; i++) {
        in.newer[i] = 1;
        assert_int_equal(check_acquire_opts(&a_manager, &in.known, &out, NULL), SQLOCK_EINVAL);
        in.newer[i] = 0;
    }
    in.newer[9] = 1; /* not within the size */
    in.known.size = (uint32_t)(offsetof(__typeof__(in), newer) + 9);
    assert_int_equal(check_acquire_opts(&a_manager, &in.known, &out, NULL), 0);
}

TEST(test_options_without_a_size_are_refused)
{
    const uint32_t sizes[] = {0, 1, 3, 4097, UINT32_MAX};
    sqlock_acquire_opts in = SQLOCK_ACQUIRE_OPTS_INIT, out;
    sqlock_error err = {0};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        in.size = sizes[i];
        assert_code(SQLOCK_EINVAL, check_acquire_opts(&a_manager, &in, &out, &err), &err);
        assert_non_null(strstr(err.text, "_INIT"));
    }
}

/* Each of these values of one field is judged so. */
#define JUDGE(type, defaults, check, field, expected, ...)                                         \
    do {                                                                                           \
        const int64_t values[] = {__VA_ARGS__};                                                    \
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {                              \
            type in = defaults, out;                                                               \
            in.field = (__typeof__(in.field))values[i];                                            \
            if (check(&in, &out) != (expected))                                                    \
                fail_msg("%s: %lld is not judged right", #field, (long long)values[i]);            \
        }                                                                                          \
    } while (0)
#define ACQUIRE(...)                                                                               \
    JUDGE(sqlock_acquire_opts, SQLOCK_ACQUIRE_OPTS_INIT, check_acquire, __VA_ARGS__)
#define REAP(...) JUDGE(sqlock_reap_opts, SQLOCK_REAP_OPTS_INIT, check_reap, __VA_ARGS__)

/* Each bound, from both sides. */
TEST(test_bounds_of_durations_are_exact)
{
    const int no = SQLOCK_EINVAL;

    ACQUIRE(wait_ms, 0, SQLOCK_WAIT_FOREVER, 0, INT32_MAX);
    ACQUIRE(wait_ms, no, -2, INT32_MIN);
    ACQUIRE(lease_ms, 0, 0, SQLOCK_LEASE_MIN_MS, SQLOCK_LEASE_MAX_MS);
    ACQUIRE(lease_ms, no, -1, SQLOCK_LEASE_MIN_MS - 1, SQLOCK_LEASE_MAX_MS + 1);
    ACQUIRE(renew_ms, 0, 10, SQLOCK_LEASE_DEFAULT_MS / 2);
    ACQUIRE(renew_ms, no, -1, 9, SQLOCK_LEASE_DEFAULT_MS / 2 + 1);
    ACQUIRE(max_hold_ms, 0, INT32_MAX);
    ACQUIRE(max_hold_ms, no, -1);
    ACQUIRE(flags, 0, SQLOCK_NO_RENEW);
    ACQUIRE(flags, no, SQLOCK_NO_RENEW << 1);
}

TEST(test_bounds_of_reap_options_are_exact)
{
    const int no = SQLOCK_EINVAL;

    REAP(batch, 0, 1, SQLOCK_REAP_BATCH_MAX);
    REAP(batch, no, 0, SQLOCK_REAP_BATCH_MAX + 1);
    REAP(pause_ms, 0, 0, 60000);
    REAP(pause_ms, no, -1, 60001);
    REAP(grace_ms, 0, 0);
    REAP(grace_ms, no, -1, INT64_MAX);
    REAP(idle_ms, 0, SQLOCK_REAP_KEEP, SQLOCK_REAP_IDLE_MIN_MS);
    REAP(idle_ms, no, 0, SQLOCK_REAP_IDLE_MIN_MS - 1, INT64_MAX);
    REAP(limit, 0, SQLOCK_REAP_NO_LIMIT, 0, INT64_MAX);
    REAP(limit, no, -2);
    REAP(max_ms, 0, SQLOCK_REAP_NO_LIMIT, 0);
    REAP(max_ms, no, -2);
    REAP(flags, 0, SQLOCK_REAP_DRY_RUN);
    REAP(flags, no, SQLOCK_REAP_DRY_RUN << 1);
}

TEST_MAIN_EACH(NULL, NULL)
