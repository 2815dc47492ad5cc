/* Errors: names, sentences, what SQLSTATEs ask for, texts that are longer than their place. */
#include <stdio.h>
#include <string.h>

#include "core/base/error.h"
#include "core/base/text.h"
#include "tests/lib/check.h"

#define BOTH (SQLOCK_RETRY | SQLOCK_RECONNECT)

static const struct {
    int code;
    const char *name, *text;
} codes[] = {
#define CODE_ROW(c, value, t) {value, #c, t},
    SQLOCK_ERRORS(CODE_ROW)
#undef CODE_ROW
};
#define N_CODES (sizeof codes / sizeof *codes)

static sqlock_error filled(void)
{
    sqlock_error err;

    memset(&err, 'x', sizeof err);
    return err;
}

TEST(test_every_code_has_its_name_and_sentence)
{
    for (size_t i = 0; i < N_CODES; i++) {
        assert_true(codes[i].code < 0);
        assert_string_equal(sqlock_code_name(codes[i].code), codes[i].name);
        assert_string_equal(sqlock_strerror(codes[i].code), codes[i].text);
        for (size_t k = 0; k < i; k++) {
            assert_int_not_equal(codes[i].code, codes[k].code);
            assert_string_not_equal(codes[i].text, codes[k].text);
        }
    }
    assert_string_equal(sqlock_code_name(SQLOCK_OK), "SQLOCK_OK");
    assert_string_equal(sqlock_strerror(SQLOCK_OK), "no error");
}

TEST(test_error_forgets_what_was_in_it)
{
    sqlock_error err = filled();

    assert_int_equal(
        sqlock_error_set(&err, SQLOCK_EBUSY, SQLOCK_RETRY, "held by %s, %d", "7@host", 5),
        SQLOCK_EBUSY);
    assert_int_equal(err.code, SQLOCK_EBUSY);
    assert_int_equal(err.flags, SQLOCK_RETRY);
    assert_string_equal(err.text, "held by 7@host, 5");
    assert_string_equal(err.sqlstate, "");
    assert_int_equal(err.native, 0);
}

TEST(test_long_text_of_words_is_cut_between_them)
{
    sqlock_error err;
    char text[600] = "";

    for (int shift = 0; shift < 8; shift++) {
        memset(text, 'x', (size_t)shift);
        text[shift] = '\0';
        while (strlen(text) < sizeof err.text + 44)
            strcat(text, " letters");
        sqlock_error_set(&err, SQLOCK_EDB, 0, "%s", text);
        assert_string_equal(err.text + strlen(err.text) - strlen(" letters ..."), " letters ...");
        assert_between((int64_t)sizeof err.text - 13, (int64_t)strlen(err.text),
                       (int64_t)sizeof err.text - 1);
        text[sizeof err.text - 5] = '\0';
        sqlock_error_set(&err, SQLOCK_EDB, 0, "%s", text);
        error_prefix(&err, "some context");
        assert_string_equal(err.text + strlen(err.text) - strlen(" letters ..."), " letters ...");
    }
}

TEST(test_error_may_be_null_everywhere)
{
    const sqlock_error from = {.code = SQLOCK_ELOST};

    assert_int_equal(sqlock_error_set(NULL, SQLOCK_EBUSY, 0, "%d", 1), SQLOCK_EBUSY);
    assert_int_equal(sqlock_error_db(NULL, "42P01", 7, 0, "no such table"), SQLOCK_ESCHEMA);
    assert_int_equal(error_nomem(NULL), SQLOCK_ENOMEM);
    assert_int_equal(error_give(NULL, &from), SQLOCK_ELOST);
    error_prefix(NULL, "acquire \"%s\"", "x");
}

/* ---- context --------------------------------------------------------------------------------- */

TEST(test_context_is_put_before_the_text_and_changes_nothing_else)
{
    sqlock_error err = filled();

    sqlock_error_db(&err, "08006", 42, SQLOCK_MAYBE, "refused");
    error_prefix(&err, "connect");
    error_prefix(&err, "acquire \"%s\"", "nightly");
    assert_string_equal(err.text, "acquire \"nightly\": connect: refused");
    assert_int_equal(err.code, SQLOCK_EUNREACH);
    assert_int_equal(err.flags, BOTH | SQLOCK_MAYBE);
    assert_string_equal(err.sqlstate, "08006");
    assert_int_equal(err.native, 42);
}

/* Every length of context against every length of text: the context stays, the text's end goes. */
TEST(test_context_of_any_length_fits)
{
    char context[600], text[600], whole[1300];

    memset(context, 'c', sizeof context);
    memset(text, 't', sizeof text);
    for (size_t a = 0; a < 530; a += 7)
        for (size_t b = 0; b < 530; b += 5) {
            sqlock_error err;
            size_t in_context = a < sizeof err.text ? a : sizeof err.text - 1;

            sqlock_error_set(&err, SQLOCK_EDB, 0, "%.*s", (int)b, text);
            error_prefix(&err, "%.*s", (int)a, context);
            snprintf(whole, sizeof whole, "%.*s: %.*s", (int)in_context, context, (int)b, text);
            whole[sizeof err.text - 1] = '\0';
            /* The blank is near enough to the place of the cut to cut there. */
            if (a + 2 + b >= sizeof err.text && a + 1 > sizeof err.text - 37 &&
                a + 1 <= sizeof err.text - 5)
                strcpy(whole + a + 1, " ...");
            assert_string_equal(err.text, whole);
        }
}

TEST(test_percent_signs_of_a_server_stay_as_they_are)
{
    sqlock_error err;

    sqlock_error_db(&err, "XX000", 0, 0, "100%s %n of %d");
    error_prefix(&err, "%s", "50%d");
    assert_string_equal(err.text, "50%d: 100%s %n of %d");
}

TEST(test_failure_is_handed_on_whole_and_success_leaves_the_error_alone)
{
    sqlock_error err = filled(), before = err;
    const sqlock_error none = {0};
    sqlock_error from;

    assert_int_equal(error_give(&err, &none), 0);
    assert_memory_equal(&err, &before, sizeof err);
    sqlock_error_db(&from, "53100", 5, 0, "disk full");
    assert_int_equal(error_give(&err, &from), SQLOCK_EFULL);
    assert_memory_equal(&err, &from, sizeof err);
}

/* ---- SQLSTATE -------------------------------------------------------------------------------- */

static const struct {
    const char *state;
    int code;
    unsigned flags;
} classes[] = {
    {"08000", SQLOCK_EUNREACH, BOTH},
    {"08001", SQLOCK_EUNREACH, BOTH},
    {"08006", SQLOCK_EUNREACH, BOTH},
    {"08P01", SQLOCK_EUNREACH, BOTH},
    {"25006", SQLOCK_EREADONLY, 0},
    {"25P02", SQLOCK_EDB, SQLOCK_RECONNECT},
    {"25001", SQLOCK_EDB, 0},
    {"26000", SQLOCK_EDB, BOTH},
    {"28000", SQLOCK_EDENIED, SQLOCK_RECONNECT},
    {"28P01", SQLOCK_EDENIED, SQLOCK_RECONNECT},
    {"3D000", SQLOCK_EUNREACH, SQLOCK_RECONNECT},
    {"3F000", SQLOCK_ESCHEMA, 0},
    {"40001", SQLOCK_EDB, SQLOCK_RETRY},
    {"40P01", SQLOCK_EDB, SQLOCK_RETRY},
    {"42501", SQLOCK_EDENIED, 0},
    {"42601", SQLOCK_EDB, 0},
    {"42703", SQLOCK_ESCHEMA, 0},
    {"42P01", SQLOCK_ESCHEMA, 0},
    {"53100", SQLOCK_EFULL, SQLOCK_RETRY},
    {"53200", SQLOCK_ENOMEM, SQLOCK_RETRY},
    {"53300", SQLOCK_EUNREACH, BOTH},
    {"55000", SQLOCK_EREADONLY, 0},
    {"55P03", SQLOCK_EDB, SQLOCK_RETRY},
    {"57014", SQLOCK_EDB, SQLOCK_RETRY},
    {"57000", SQLOCK_EDB, 0},
    {"57P01", SQLOCK_EUNREACH, BOTH},
    {"57P03", SQLOCK_EUNREACH, BOTH},
    {"58030", SQLOCK_EFULL, SQLOCK_RETRY},
    {"XX000", SQLOCK_EDB, 0},
    {"XX001", SQLOCK_ECORRUPT, 0},
    {"XX002", SQLOCK_ECORRUPT, 0},
    {"", SQLOCK_EDB, 0},
    {"0", SQLOCK_EDB, 0},
    {"5", SQLOCK_EDB, 0},
    {"00000", SQLOCK_EDB, 0},
    {"ZZZZZ", SQLOCK_EDB, 0},
};

TEST(test_sqlstate_says_code_and_what_to_do)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        sqlock_error err = filled();

        assert_code(classes[i].code, sqlock_error_db(&err, classes[i].state, -5, 0, "text"), &err);
        assert_int_equal(err.code, classes[i].code);
        if (err.flags != classes[i].flags)
            fail_msg("%s: flags 0x%x", classes[i].state, err.flags);
        assert_string_equal(err.sqlstate, classes[i].state);
        assert_int_equal(err.native, -5);
        assert_string_equal(err.text, "text");
    }
}

/* P18: contention is the database's answer, never its error. */
TEST(test_no_sqlstate_becomes_an_outcome_of_locking)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const size_t n = sizeof digits - 1;

    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++)
            for (size_t c = 0; c < n; c++)
                for (size_t d = 0; d < n; d++) {
                    char s[] = {digits[a], digits[b], digits[c], '0', digits[d], '\0'};
                    int code = sqlock_error_db(NULL, s, 0, 0, "");

                    if (code == SQLOCK_EBUSY || code == SQLOCK_ELOST || code == SQLOCK_EGUARDED ||
                        code >= 0)
                        fail_msg("%s: %s", s, sqlock_code_name(code));
                }
}

static void check_is_utf8(const sqlock_error *err)
{
    assert_true(text_is_utf8(err->text, strlen(err->text)));
    assert_between((int64_t)sizeof err->text - 4, (int64_t)strlen(err->text),
                   (int64_t)sizeof err->text - 1);
}

TEST(test_what_others_have_locked_is_contention)
{
    static const struct {
        const char *sqlstate;
        int of_one_writer, of_a_server;
    } cases[] = {{"55P03", SQLOCK_EGUARDED, SQLOCK_ETIMEOUT},
                 {"40P01", SQLOCK_EGUARDED, SQLOCK_ETIMEOUT},
                 {"40001", SQLOCK_EDB, SQLOCK_EDB},
                 {"42601", SQLOCK_EDB, SQLOCK_EDB}};
    sqlock_error err;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int one_writer = 0; one_writer <= 1; one_writer++) {
            const int code = one_writer ? cases[i].of_one_writer : cases[i].of_a_server;

            sqlock_error_db(&err, cases[i].sqlstate, 0, 0, "in the way");
            assert_int_equal(error_contention(&err.code, err.sqlstate, one_writer),
                             code != SQLOCK_EDB);
            assert_int_equal(err.code, code);
            assert_string_equal(err.sqlstate, cases[i].sqlstate);
        }
}

TEST(test_kept_error_is_given_as_it_was)
{
    struct kept_error kept = {0}, other = {0};
    sqlock_error err, given = filled();

    error_recall(&kept, NULL);
    assert_string_equal(error_text(&kept), "");
    sqlock_error_db(&err, "08006", 7, SQLOCK_MAYBE, "the link broke");
    error_keep(&kept, &err);
    error_recall(&kept, &given);
    assert_memory_equal(&given, &err, sizeof err);
    error_share(&other, &kept);
    sqlock_error_set(&err, SQLOCK_EDB, 0, "another");
    error_keep(&kept, &err);
    assert_string_equal(error_text(&kept), "another");
    assert_string_equal(error_text(&other), "the link broke");
    error_share(&other, &kept);
    error_share(&kept, &other); /* they have the same text */
    error_forget(&kept);
    assert_int_equal(kept.code, 0);
    assert_string_equal(error_text(&other), "another");
    error_forget(&other);
    error_forget(&other);
}

/* The code is what a caller acts by. */
TEST(test_error_whose_text_had_no_memory_has_the_sentence_of_its_code)
{
    const struct kept_error kept = {.code = SQLOCK_EBUSY, .flags = SQLOCK_RETRY};
    sqlock_error err = filled();

    error_recall(&kept, &err);
    assert_int_equal(err.code, SQLOCK_EBUSY);
    assert_int_equal(err.flags, SQLOCK_RETRY);
    assert_string_equal(err.text, sqlock_strerror(SQLOCK_EBUSY));
}

/* Names and servers' messages are UTF-8, and so is what is left of them. */
TEST(test_texts_are_cut_between_characters)
{
    sqlock_error err;
    char text[600];

    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'x', shift);
        text[shift] = '\0';
        while (strlen(text) + 5 < sizeof text)
            strcat(text, "\xF0\x9F\x98\x80");
        sqlock_error_set(&err, SQLOCK_EDB, 0, "%s", text);
        check_is_utf8(&err);
        sqlock_error_db(&err, "XX000", 0, 0, text);
        check_is_utf8(&err);
        error_prefix(&err, "acquire");
        check_is_utf8(&err);
        sqlock_error_set(&err, SQLOCK_EDB, 0, "short");
        error_prefix(&err, "%s", text);
        check_is_utf8(&err);
        /* by a driver, in a place of its own */
        sqlock_error_set(&err, SQLOCK_EDB, 0, "%.100s", text);
        assert_true(text_is_utf8(err.text, strlen(err.text)));
    }
}

TEST_MAIN_EACH(NULL, NULL)
