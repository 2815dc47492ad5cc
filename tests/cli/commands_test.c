/* acquire, renew, release, ls, show, break and migrate up. */
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cli/shell.h"

/* ---- acquire, renew, release ----------------------------------------------------------------- */

TEST(test_acquire_prints_what_release_takes, ON_ALL)
{
    assert_sh("sqlock $G acquire -n nightly >$D/grant && sqlock $G show nightly");
    assert_said(0, "state       held", NULL);
    assert_sh("sqlock $G release nightly $(cat $D/grant) && sqlock $G show nightly");
    assert_said(0, "state       free", NULL);
    assert_sh("sqlock $G acquire -n nightly >$D/next && "
              "test $(cut -d' ' -f2 $D/next) -gt $(cut -d' ' -f2 $D/grant) && "
              "sqlock $G show nightly | grep \"^last token  $(cut -d' ' -f2 $D/next)$\"");
}

TEST(test_busy_says_who_and_how_to_take_it_away, ON_ALL)
{
    assert_sh("sqlock $G acquire -n -m job=backup -m run=7 'the night'");
    assert_says(75, "", "'the night' is busy: held by host ", "sqlock $G acquire -n 'the night'");
    assert_said(75, "", "(job=backup run=7 script=");
    assert_said(75, "", ", since 20");
    assert_said(75, "", "expires in ");
    assert_sh("sqlock $G acquire -n 'the night' 2>&1 | grep \"token $($D/token 'the night');\"");
    /* The line that it gives does it. */
    assert_sh("sqlock $G acquire -n 'the night' 2>&1 | sed -n 's/.*holder is dead: //p' >$D/line;"
              "grep -q . $D/line && . $D/line && sqlock $G acquire -n 'the night'");
}

/* acquire has ended before anybody can ask: its pid would be somebody else's. */
TEST(test_acquire_is_reported_as_the_script_that_called, ON_ALL)
{
    assert_sh("sqlock $G acquire -n nightly; sqlock $G show --json nightly >$D/json; "
              "grep \"\\\"pid\\\":$$,\" $D/json");
    assert_said(0, "\"label\":\"script=sh\"", NULL);
    /* What was to be told about it leaves no room. */
    assert_sh("m=key=$(printf '%%0124d' 0); sqlock $G acquire -n -m $m b && sqlock $G show b | "
              "grep \" $m$\"");
}

/* With -v as on a terminal, a second after it began; not to those who do not look on. */
/* The kernel cuts it after 15 bytes, within a character too. */
TEST(test_script_may_have_any_name, ON_SQLITE)
{
    static const char *const names[][2] = {
        {"abcdefghijklmn\303\266p", "script=abcdefghijklmn\n"},
        {"abcdefghijklm\303\266p", "script=abcdefghijklm\303\266\n"},
        {"abcdefghijkl\360\237\224\222", "script=abcdefghijkl\n"},
        {"latin\351", "script=latin?\n"},
        {"\303(a", "script=?(a\n"}};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_sh("printf '#!/bin/sh\nsqlock $G acquire -n a%zu\n' >$D/'%s' && chmod +x $D/'%s'", i,
                  names[i][0], names[i][0]);
        assert_sh("$D/'%s'", names[i][0]);
        assert_says(0, names[i][1], "", "sqlock $G ls a%zu", i);
    }
}

TEST(test_waiter_learns_for_whom, ON_SQLITE)
{
    assert_sh("sqlock $G acquire -n --ttl 1h -m job=x nightly");
    assert_says(75, "", "sqlock: waiting for \"nightly\", held by ",
                "sqlock -v $G run -w 1300ms nightly true");
    assert_said(75, "", " job=x script=sh for ");
    assert_said(75, "", "; Ctrl-C to give up\n");
    assert_null(strstr(sh("sqlock $G acquire -w 1300ms nightly")->err, "waiting"));
    assert_null(strstr(sh("sqlock -v $G acquire -w 500ms nightly")->err, "waiting"));
}

TEST(test_wait_ends_on_time, ON_SQLITE)
{
    assert_sh("sqlock $G acquire -n nightly");
    assert_says(75, NULL, "busy", "sqlock $G acquire -w 700ms nightly");
    assert_between(600, sh("sqlock $G acquire -w 700ms nightly")->took_ms, patience_ms(5000));
}

TEST(test_expired_lock_is_granted_to_who_waits, ON_ALL)
{
    assert_sh("sqlock $G acquire -n --ttl 500ms nightly");
    assert_sh("t=$($D/token nightly); sqlock $G acquire -w 20s nightly >$D/grant && "
              "test $(cut -d' ' -f2 $D/grant) -gt $t");
}

TEST(test_renewed_lock_outlives_its_first_lease, ON_SQLITE)
{
    assert_sh("sqlock $G acquire -n --ttl 1s nightly >$D/grant");
    assert_sh("sqlock $G renew --ttl 1h nightly $(cat $D/grant)");
    assert_says(75, NULL, "expires in 59m", "sleep 1.5; sqlock $G acquire -n nightly");
}

TEST(test_grant_that_is_gone_is_answered_no, ON_ALL)
{
    assert_sh("sqlock $G acquire -n nightly >$D/grant; sqlock $G break nightly --token $($D/token "
              "nightly)");
    assert_says(1, "", "renew: this grant of \"nightly\" no longer exists (",
                "sqlock $G renew nightly $(cat $D/grant)");
    assert_says(1, "", "release: this grant of \"nightly\" no longer exists (",
                "sqlock $G release nightly $(cat $D/grant)");
    /* Its successor is not touched by either. */
    assert_sh("sqlock $G acquire -n nightly");
    assert_says(1, "", "nightly", "sqlock $G renew nightly $(cat $D/grant)");
    assert_says(1, "", "nightly", "sqlock $G release nightly $(cat $D/grant)");
    assert_says(0, "held", NULL, "sqlock $G show nightly");
}

TEST(test_release_sent_again_is_released, ON_ALL)
{
    assert_sh("sqlock $G acquire -n nightly >$D/grant; sqlock $G release nightly $(cat $D/grant)");
    assert_sh("sqlock $G release nightly $(cat $D/grant)");
}

TEST(test_owner_settles_what_it_was_granted, ON_ALL)
{
    assert_sh("sqlock $G acquire -n nightly >$D/grant");
    /* The same owner, asked again as after a lost reply: the same grant. */
    assert_sh("sqlock $G acquire -n --owner $(cut -d' ' -f1 $D/grant) nightly | cmp - $D/grant");
    assert_sh("sqlock $G release nightly $(cat $D/grant)");
    assert_says(1, "", NULL, "sqlock $G acquire -n --owner $(cut -d' ' -f1 $D/grant) nightly");
}

TEST(test_acquire_that_cannot_print_holds_nothing, ON_ALL)
{
    assert_says(74, NULL, "standard output", "sqlock $G acquire -n nightly >/dev/full");
    assert_says(0, "free", NULL, "sqlock $G show nightly");
}

TEST(test_signal_ends_a_wait_and_leaves_nothing_behind, ON_SQLITE)
{
    pid_t waiter;

    assert_sh("sqlock $G acquire -n --ttl 1h nightly >$D/grant");
    waiter = sh_start("exec sqlock -v $G acquire nightly");
    sleep_ms(300);
    assert_false(child_ended(waiter));
    kill(waiter, SIGTERM);
    /* While it was still opening the database, the signal itself ended it. */
    int code = child_wait(waiter, patience_ms(10000));
    assert_true(code == 128 + SIGTERM || code == -SIGTERM);
    if (code > 0)
        assert_non_null(strstr(text_of("err"), "gave up waiting for \"nightly\" after "));
    assert_sh("sqlock $G release nightly $(cat $D/grant) && sqlock $G acquire -n nightly");
}

/* ---- ls, show -------------------------------------------------------------------------------- */

TEST(test_ls_picks_by_glob_state_and_age, ON_ALL)
{
    assert_sh("sqlock $G acquire -n --ttl 100ms a.old; sqlock $G acquire -n a.new;"
              "sqlock $G acquire -n b.new; sleep 1");
    assert_int_equal(4, atoi(sh("sqlock $G ls | wc -l")->out));
    assert_int_equal(3, atoi(sh("sqlock $G ls 'a.*' | wc -l")->out));
    assert_int_equal(2, atoi(sh("sqlock $G ls --expired | wc -l")->out));
    assert_says(0, "a.old", NULL, "sqlock $G ls --expired");
    assert_int_equal(2, atoi(sh("sqlock $G ls --held '*.[n]ew' | grep -c new")->out));
    assert_int_equal(0, atoi(sh("sqlock $G ls --older-than 1h | grep -c new")->out));
}

/* It may be cut within a character. */
TEST(test_ls_finds_nothing_by_what_is_longer_than_a_name, ON_SQLITE)
{
    assert_sh("printf '\303\274%%.0s' $(seq 130) >$D/glob");
    assert_says(0, "[]\n", "", "sqlock $G --json ls \"$(cat $D/glob)\"");
    assert_says(0, "[]\n", "", "sqlock $G --json ls \"x$(cat $D/glob)*\"");
    assert_says(64, "", "UTF-8", "sqlock $G ls \"$(printf 'x\303*')\"");
}

/* Its lease is over, and so is what it counts. */
TEST(test_ls_distinguishes_what_has_run_out_from_what_is_held, ON_SQLITE)
{
    assert_sh("sqlock $G acquire -n --ttl 1s a; sqlock $G acquire -n b; sleep 2.5; "
              "sqlock $G ls | tr -s ' ' | sed 's/ [0-9]\\{8,\\} / T /'");
    assert_said(0, "\na T expired 1s -1.", NULL);
    assert_said(0, "\nb T held 2.", NULL);
}

TEST(test_ls_shows_control_characters_and_does_not_send_them, ON_ALL)
{
    assert_sh("sqlock $G acquire -n \"$(printf 'a\\033[31m\\nb')\"");
    assert_says(0, "a\\x1b[31m\\nb ", NULL, "sqlock $G ls");
    assert_null(strchr(
        sh("sqlock $G ls; sqlock $G acquire -n \"$(printf 'a\\033[31m\\nb')\" 2>&1")->out, '\033'));
}

/* By display columns, which are neither bytes nor characters. */
TEST(test_ls_keeps_its_columns_whatever_the_names, ON_ALL)
{
    assert_sh("for n in plain caf\xc3\xa9 cafe\xcc\x81 "
              "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e '  b ' "
              "\"$(printf 'a\\033b')\"; do sqlock $G acquire -n \"$n\"; done");
    assert_says(0, "\nplain                                   1  held ", NULL,
                "LC_ALL=C sqlock $G ls | sed 's/ [0-9]\\{16\\} /                1 /'");
    assert_said(0, "\ncaf\xc3\xa9                                    1  held ", NULL);
    assert_said(0, "\ncafe\xcc\x81                                    1  held ", NULL);
    assert_said(0,
                "\n\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e                                  1  held ",
                NULL);
    assert_said(0, "\n\"  b \"                                  1  held ", NULL);
    assert_said(0, "\na\\x1bb                                  1  held ", NULL);
    assert_says(0, "caf\xc3\xa9 ", NULL, "LC_ALL=C sqlock $G ls 'caf?'");
    assert_null(strstr(sh("sqlock $G ls 'caf?'")->out, "cafe"));
}

/* A blank at the end, one that is another character, one that has no width, text that runs to the
 * left: each is a name of its own, and looks like one. */
TEST(test_names_that_differ_look_different, ON_ALL)
{
    static const char *const names[] = {"a b",
                                        "a b ",
                                        "a  b",
                                        "a\xc2\xa0"
                                        "b",
                                        "a\xe2\x80\x8b b",
                                        "a\xe2\x80\xae b",
                                        "\"a b\""};
    static const char *const shown[] = {
        "\na b ",        "\n\"a b \" ",   "\n\"a  b\" ",       "\na\\u00a0b ",
        "\na\\u200b b ", "\na\\u202e b ", "\n\"\\\"a b\\\"\" "};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_sh("sqlock $G acquire -n '%s'", names[i]);
    sh("sqlock $G ls");
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        assert_said(0, shown[i], NULL);
    assert_sh("sqlock $G show 'a b '");
    assert_said(0, "name        \"a b \"\n", NULL);
}

TEST(test_line_to_copy_works_for_names_that_cannot_be_shown, ON_ALL)
{
    assert_sh("n=$(printf 'it'\\''s \\033[31m\\n\\302\\233 100%%%% \\\\ \\342\\200\\256'); sqlock "
              "$G acquire -n \"$n\";"
              "sqlock $G acquire -n \"$n\" 2>&1 | sed -n 's/.*holder is dead: //p' >$D/line;"
              "cat $D/line; . $D/line; sqlock $G acquire -n \"$n\"");
    assert_null(strpbrk(sh("cat $D/line")->out, "\033\302\342"));
}

static json_t *json_of(const char *text)
{
    json_error_t error;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &error);

    if (json == NULL)
        fail_msg("%s is no JSON: %s", text, error.text);
    return json;
}

TEST(test_json_shows_all_of_a_lock, ON_ALL)
{
    json_t *json, *row;
    json_int_t granted, token, pid;
    const char *name, *is, *owner, *label;

    json = json_of(sh("sqlock $G --json acquire -n -m job=x 'a \"b\" \xc3\xa9'")->out);
    assert_int_equal(
        json_unpack(json, "{s:s, s:I, s:s}", "name", &name, "token", &granted, "owner", &owner), 0);
    assert_string_equal(name, "a \"b\" \xc3\xa9");
    assert_int_equal(strlen(owner), 32);
    row = json_of(sh("sqlock $G ls --json")->out);
    assert_int_equal(json_array_size(row), 1);
    assert_int_equal(json_unpack(row, "[{s:s, s:s, s:I, s:s, s:I}]", "name", &name, "state", &is,
                                 "token", &token, "label", &label, "pid", &pid),
                     0);
    assert_string_equal(name, "a \"b\" \xc3\xa9");
    assert_string_equal(is, "held");
    assert_string_equal(label, "job=x script=sh");
    assert_int_equal(token, granted);
    assert_in_range((unsigned long)pid, 2, INT32_MAX);
    json_decref(row);
    row = json_of(sh("sqlock $G show --json 'a \"b\" \xc3\xa9'")->out);
    assert_string_equal(json_string_value(json_object_get(row, "owner")), owner);
    json_decref(row);
    json_decref(json);
}

TEST(test_ls_of_100000_locks_takes_less_than_a_second, ON_ALL)
{
    int64_t words = INT64_MAX, json = INT64_MAX;

    database_leave(100000);
    late_begin();
    /* The best of some: what else runs on this machine is not the matter. */
    for (int i = 0; i < 8 && words > late_ms(1000); i++)
        words = sh("sqlock $G ls >$D/ls")->took_ms;
    for (int i = 0; i < 8 && json > late_ms(1000); i++)
        json = sh("sqlock $G --json ls >$D/json")->took_ms;
    assert_string_equal(sh("wc -l <$D/ls")->out, "100001\n");
    assert_string_equal(sh("grep -o '\"token\":1,' $D/json | wc -l")->out, "100000\n");
    assert_between(1, words, late_ms(1000));
    assert_between(1, json, late_ms(1000));
    assert_between(1, sh("sqlock $G ls 'dead/0009999?'")->took_ms, late_ms(500));
    assert_int_equal(10, atoi(sh("sqlock $G ls 'dead/0009999?' | grep -c dead")->out));
}

TEST(test_ls_watches_until_no_one_reads, ON_SQLITE)
{
    assert_sh("sqlock $G acquire -n nightly");
    assert_int_equal(3, atoi(sh("sqlock $G ls --watch=100ms | grep -m 3 -c nightly")->out));
}

TEST(test_show_of_nothing_is_no, ON_ALL)
{
    assert_says(0, "[]", "", "sqlock $G --json ls");
    assert_sh("sqlock $G acquire -n nightly.2");
    assert_says(1, "", "no lock \"nightly\"", "sqlock $G show nightly");
}

TEST(test_json_is_what_messages_are_too, ON_ALL)
{
    static const struct {
        const char *line, *level, *code;
        int exit;
    } lines[] = {
        {"release a 0123456789abcdef0123456789abcdef 1", "error", "SQLOCK_ELOST", 1},
        {"acquire -n b", "note", "SQLOCK_EBUSY", 75},
        {"--prefix other_ ls", "error", "SQLOCK_ESCHEMA", 78},
        {"ls a b", "error", NULL, 64},
        {"show \"$(printf 'a\\033\\042')\"", "note", NULL, 1},
    };

    assert_sh("sqlock $G acquire -n b");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        json_t *json = json_of(sh("sqlock --json $G %s", lines[i].line)->err);
        const char *code = json_string_value(json_object_get(json, "code"));

        assert_said(lines[i].exit, "", NULL);
        assert_string_equal(json_string_value(json_object_get(json, "level")), lines[i].level);
        assert_true(json_string_length(json_object_get(json, "text")) > 0);
        assert_string_equal(code != NULL ? code : "none",
                            lines[i].code != NULL ? lines[i].code : "none");
        json_decref(json);
    }
}

/* What runs under a lock and asks about it means the same tables. */
TEST(test_command_of_run_looks_where_run_did, ON_ALL)
{
    assert_says(0, "\nnightly ", NULL,
                "sqlock $G --namespace one run nightly sh -c \"sqlock $G ls; sqlock $G --namespace "
                "'' ls\"");
    assert_int_equal(1, atoi(sh("sqlock $G --namespace one run nightly sh -c \"sqlock $G ls; "
                                "sqlock $G --namespace '' ls\" | grep -c nightly")
                                 ->out));
    assert_says(
        75, NULL, "--namespace one break a",
        "SQLOCK_NAMESPACE=one sqlock $G acquire -n a; sqlock $G --namespace one acquire -n a");
    assert_sh("sqlock $G --prefix other_ migrate up; sqlock $G --prefix other_ run nightly "
              "sh -c 'sqlock $G ls | grep nightly'");
}

TEST(test_namespaces_do_not_see_each_other, ON_ALL)
{
    assert_sh("sqlock $G --namespace one acquire -n nightly");
    assert_sh("sqlock $G --namespace two acquire -n nightly");
    sh("sqlock $G --namespace one acquire -n nightly");
    assert_sh(
        "sqlock $G --namespace one acquire -n nightly 2>&1 | "
        "grep -e \"--namespace one break nightly --token $($D/token --namespace one nightly)\"");
    assert_says(1, NULL, NULL, "sqlock $G show nightly");
}

/* ---- break ----------------------------------------------------------------------------------- */

TEST(test_break_takes_only_the_grant_with_this_token, ON_ALL)
{
    assert_sh("sqlock $G acquire -n nightly");
    assert_says(1, "", "no grant", "sqlock $G break --token 1 nightly");
    assert_says(0, "would be broken", NULL,
                "sqlock $G break nightly --token $($D/token nightly) --dry-run");
    assert_says(0, "held", NULL, "sqlock $G show nightly");
    assert_sh("sqlock $G break nightly --token $($D/token nightly)");
    assert_says(0, "free", NULL, "sqlock $G show nightly");
}

TEST(test_break_by_age_confirms_first, ON_ALL)
{
    assert_sh("sqlock $G acquire -n a.1; sqlock $G acquire -n a.2; sqlock $G acquire -n b");
    /* Without a terminal there is nobody to ask. */
    assert_says(64, NULL, "2 locks", "setsid -w sqlock $G break --older-than 0 'a.*'");
    assert_int_equal(3, atoi(sh("sqlock $G ls | grep -c held")->out));
    sh("setsid -w sqlock $G break --older-than 0 --dry-run 'a.*'");
    assert_sh("setsid -w sqlock $G break --older-than 0 --dry-run 'a.*' | "
              "grep \"^a.2: token $($D/token a.2): would be broken\"");
    assert_sh("setsid -w sqlock $G break --older-than 0 --yes 'a.*'");
    assert_int_equal(1, atoi(sh("sqlock $G ls | grep -c held")->out));
    assert_says(0, "", "nothing to break: no lock that matches a.* was granted that long ago",
                "setsid -w sqlock $G break --older-than 1h 'a.*'");
    assert_int_equal(1, atoi(sh("sqlock $G ls | grep -c held")->out));
}

TEST(test_without_its_schema_a_command_says_what_to_run, ON_ALL | EMPTY)
{
    assert_says(78, "", "no sqlock tables", "sqlock $G ls");
    assert_said(78, "", "; run 'sqlock migrate up'\n");
    assert_sh("sqlock $G migrate up && sqlock $G ls");
}

TEST_MAIN_OF_COMMAND
