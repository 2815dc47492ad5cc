/* What needs no database: usage, help, versions, where the URL comes from, and that passwords stay
 * secret. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cli/shell.h"
#include "tests/cli/survivors.h"

static const char *const commands[] = {"run",  "acquire", "renew",   "release", "ls",
                                       "show", "break",   "migrate", "reap",    "help"};

/* ---- usage ----------------------------------------------------------------------------------- */

static void test_wrong_usage_is_64_before_any_database(void **state)
{
    static const char *const lines[] = {
        "",
        "nonsense",
        "--nonsense ls",
        "-Z ls",
        "ls --nonsense",
        "ls a b",
        "ls --older-than",
        "ls --older-than 5x",
        "ls --older-than ''",
        "ls --older-than -1",
        "ls --older-than .",
        "ls --older-than 1.",
        "ls --older-than 1e3",
        "ls --older-than 25d",
        "ls --older-than 1h1h",
        "ls --older-than 30m1h",
        "ls --older-than 1h30",
        "ls --older-than 5M",
        "ls --held=yes",
        "show",
        "show a b",
        "show a -q b",
        "acquire",
        "acquire a b",
        "acquire -w 1s",
        "acquire --ttl 10ms a",
        "acquire --ttl 8d a",
        "acquire -m novalue a",
        "acquire -m =value a",
        "acquire --owner 12 a",
        "renew a",
        "renew a 0123456789abcdef0123456789abcdef",
        "release a 0123456789abcdef0123456789abcdef",
        "release a nonsense 1",
        "renew a 0123456789abcdef0123456789abcdef 1x",
        "renew --ttl 0 a 0123456789abcdef0123456789abcdef 1",
        "renew --ttl 8d a 0123456789abcdef0123456789abcdef 1",
        "renew a 0123456789abcdef0123456789abcdeg 1",
        "break a",
        "break --token 1",
        "break --token 0 a",
        "break --token 1 --older-than 1h a",
        "break --token 1 a b",
        "break --token 9007199254740992 a",
        "run a",
        "run a --",
        "run a -- --",
        "run -c a",
        "run -c a echo b c",
        "run a --no-such-option true",
        "run -E 256 a true",
        "run -E x a true",
        "run --on-lost hope a true",
        "run --status-fd 77 a true",
        "run --max-time x a true",
        "migrate",
        "reap now",
        "reap --batch 0",
        "reap --limit x",
        "reap --loop 30d",
        "reap --idle 0",
        "migrate sideways",
        "help nonsense",
        "help run ls",
        "--local -U sqlite:x ls",
        "ls --version",
    };

    (void)state;
    database_new();
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        sh("SQLOCK_URL=sqlite:/nonexistent/x sqlock %s", lines[i]);
        assert_said(64, "", "sqlock: ");
    }
}

static void test_wrong_usage_says_where_to_look(void **state)
{
    (void)state;
    database_new();
    sh("sqlock");
    assert_said(64, "", "sqlock: no command given; try 'sqlock help'\n");
    sh("sqlock nonsense");
    assert_said(64, "", "unknown command \"nonsense\"; see `sqlock help`\n");
    sh("sqlock help nonsense");
    assert_said(64, "", "unknown command \"nonsense\"; see `sqlock help`\n");
    sh("sqlock ls --older-than 5x");
    assert_said(64, "", "invalid duration \"5x\" (use ");
    sh("sqlock run a");
    assert_said(64, "", "; see `sqlock help run`\n");
}

/* Of every long option each beginning that is none itself: one that is taken for the whole is
 * another option for whoever meant another one, and for the next version. */
static void test_beginning_of_an_option_is_not_the_option(void **state)
{
    static const char *const lines[] = {
        "--wait-d 1 ls",    "--name x ls",          "--l ls",
        "--verb ls",        "run --max 1s a true",  "acquire --own x a",
        "ls --exp",         "break --tok 1 a",      "migrate up --dry",
        "reap --metrics=x", "run --on=kill a true",
    };

    (void)state;
    database_new();
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        sh("sqlock %s", lines[i]);
        assert_said(64, "", "unknown option --");
    }
    /* On each that help knows, cut by one byte. */
    assert_sh("for c in '' run acquire renew ls break reap migrate; do for o in "
              "$(sqlock help $c | sed -n 's/^  [ -].\\{3\\}\\(--[a-z-]*\\).*/\\1/p'); do "
              "echo $o >>$D/options; "
              "sqlock $c ${o%%?} 2>&1 | grep -q \"unknown option ${o%%?};\" || echo $c $o; done; "
              "done >$D/taken; test $(wc -l <$D/options) -gt 30 && ! grep . $D/taken");
}

static void test_options_are_those_of_flock(void **state)
{
    static const char *const lines[] = {"--wait 300ms a", "--wait=0.3 a", "-w0.3 a", "--nonblock a",
                                        "-nq a",          "a --wait 0",   "a -n"};

    (void)state;
    database_new();
    assert_sh("sqlock acquire --nonblock a");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        sh("sqlock acquire %s", lines[i]);
        assert_said(75, "", NULL);
        sh("sqlock run %s true", lines[i]);
        assert_said(75, "", NULL);
    }
    sh("sqlock run a -n -c 'echo \"ran\"'");
    assert_said(75, "", NULL);
    sh("sqlock run b -n -c 'echo \"ran\"'");
    assert_said(0, "ran\n", "");
}

static void test_options_may_stand_behind_operands(void **state)
{
    (void)state;
    database_new();
    assert_sh("sqlock acquire a --ttl 1h --json");
    assert_said(0, "{\"name\":\"a\"", NULL);
    sh("sqlock show a --json");
    assert_said(0, "{\"name\":\"a\"", NULL);
    sh("sqlock ls 'a*' --held -q --json");
    assert_said(0, "[{\"name\":\"a\"", NULL);
    sh("sqlock migrate status --json");
    assert_said(0, "[{", NULL);
    sh("sqlock migrate --exit-code --json status");
    assert_said(0, "[{", NULL);
    assert_sh("sqlock acquire -n -- -a && sqlock show -- -a && "
              "sqlock break --token $($D/token -- -a) -- -a");
    sh("sqlock show -a");
    assert_said(64, "", "unknown option -a");
}

static void test_two_dashes_may_stand_before_the_command_of_run(void **state)
{
    (void)state;
    database_new();
    sh("sqlock run -n a -- echo -n --json; sqlock run -n -- a -- echo -n b; sqlock run -n -- a "
       "echo c");
    assert_said(0, "--jsonbc\n", "");
    sh("sqlock run -n a echo -- b");
    assert_said(0, "-- b\n", "");
}

static void test_name_that_cannot_be_is_wrong_usage(void **state)
{
    (void)state;
    database_new();
    sh("sqlock acquire -n ''");
    assert_said(64, "", "name");
    sh("sqlock acquire -n \"$(printf '\\377')\"");
    assert_said(64, "", "name");
    sh("sqlock run -n \"$(printf '%%256s' x)\" true");
    assert_said(64, "", "name");
}

static void test_what_comes_later_is_refused_by_name(void **state)
{
    static const char *const lines[] = {
        "waits",
        "doctor",
        "metrics",
        "completion bash",
        "help waits",
        "run -s a true",
        "acquire -s a",
        "run -l b a true",
        "acquire --slots 3 a",
        "ls --waiting",
        "run --slots 2 a true",
    };

    (void)state;
    database_new();
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        sh("sqlock %s", lines[i]);
        assert_said(64, "", "this version does not have it yet");
    }
}

static void test_durations_are_what_people_write(void **state)
{
    static const char *const good[] = {"500ms", "30s",  "5m", "2h",    "1d",       "7",
                                       "0.5s",  "1.5h", "0",  "1h30m", "1w2d500ms"};

    (void)state;
    database_new();
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_sh("sqlock ls --older-than %s", good[i]);
    assert_sh("sqlock acquire -n --ttl 1.5h nightly");
    sh("sqlock show nightly");
    assert_said(0, "1h2", NULL);
    assert_sh("sqlock acquire -n --ttl 1h59m59s999ms nightly.2");
    sh("sqlock show nightly.2");
    assert_said(0, "1h59m", NULL);
    sh("sqlock ls --older-than 3w6d23h");
    assert_said(64, "", "too long (at most 24d)");
    sh("sqlock acquire -w 0.3 nightly");
    assert_said(75, NULL, NULL);
}

/* ---- help ------------------------------------------------------------------------------------ */

static void test_help_fits_and_goes_to_stdout(void **state)
{
    (void)state;
    database_new();
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        sh("sqlock help %s && sqlock %s --help >/dev/null", commands[i], commands[i]);
        assert_said(0, "Usage: sqlock [GLOBAL]", "");
        assert_sh("sqlock help | grep -q '^  %s '", commands[i]);
        sh("sqlock help %s | awk 'length > 80'", commands[i]);
        assert_said(0, "", "");
        assert_string_equal(sh("sqlock help %s | awk 'length > 80'", commands[i])->out, "");
    }
    assert_string_equal(sh("sqlock --help | awk 'length > 80'")->out, "");
    assert_sh("sqlock --help >$D/a; sqlock help | cmp - $D/a; sqlock -h | cmp - $D/a");
    assert_sh(
        "sqlock help run >$D/a; sqlock run -h | cmp - $D/a; sqlock run a -n --help | cmp - $D/a");
}

static void test_version_is_that_of_the_header(void **state)
{
    (void)state;
    database_new();
    sh("sqlock --version");
    assert_said(0, "sqlock " SQLOCK_VERSION " (library " SQLOCK_VERSION ")\n", NULL);
    sh("sqlock -V");
    assert_said(0, "sqlock " SQLOCK_VERSION " (library " SQLOCK_VERSION ")\n", NULL);
    sh("sqlock --json --version");
    assert_said(0, "{\"command\":\"" SQLOCK_VERSION "\",", NULL);
    sh("sqlock --version --json");
    assert_said(0, "{\"command\":\"" SQLOCK_VERSION "\",", NULL);
}

/* ---- output ---------------------------------------------------------------------------------- */

static void test_output_that_fails_is_74(void **state)
{
    (void)state;
    database_new();
    sh("sqlock help >/dev/full");
    assert_said(74, NULL, "standard output");
    sh("sqlock ls >&-");
    assert_said(74, NULL, "standard output");
    sh("sqlock --json acquire -n nightly >&-");
    assert_said(74, NULL, "standard output");
    sh("sqlock show nightly");
    assert_said(0, "free", NULL);
}

/* ---- the URL --------------------------------------------------------------------------------- */

static void test_without_a_url_nothing_is_locked(void **state)
{
    (void)state;
    database_new();
    sh("unset SQLOCK_URL; HOME=$D sqlock run nightly touch $D/ran");
    assert_said(78, "", "no database given: set SQLOCK_URL, or use --url");
    sh("SQLOCK_URL= HOME=$D sqlock run nightly touch $D/ran");
    assert_said(78, "", "no database given: set SQLOCK_URL, or use --url");
    sh("test -e $D/ran");
    assert_said(1, NULL, NULL);
}

static void test_option_goes_before_environment(void **state)
{
    (void)state;
    database_new();
    assert_sh("export U=$SQLOCK_URL; unset SQLOCK_URL; DATABASE_URL=$U sqlock ls");
    assert_sh("export U=$SQLOCK_URL; SQLOCK_URL=$U DATABASE_URL=sqlite:/nonexistent/x sqlock ls");
    assert_sh("export U=$SQLOCK_URL; SQLOCK_URL=sqlite:/nonexistent/x sqlock -U $U ls");
    assert_sh("export U=$SQLOCK_URL; SQLOCK_URL=sqlite:/nonexistent/x sqlock ls --url=$U");
    assert_sh("echo $SQLOCK_URL >$D/url; SQLOCK_URL=sqlite:/nonexistent/x "
              "sqlock --url-file $D/url ls");
    sh("sqlock --url-file $D/absent ls");
    assert_said(78, "", "absent");
    sh("sqlock --url-file /dev/null ls");
    assert_said(78, "", "no URL");
}

static void test_local_is_a_file_of_the_user(void **state)
{
    (void)state;
    database_new();
    assert_sh("unset SQLOCK_URL XDG_STATE_HOME; HOME=$D/home sqlock --local run -n nightly true");
    assert_sh("test \"$(stat -c %%a $D/home/.local/state/sqlock)\" = 700");
    assert_sh("unset SQLOCK_URL; XDG_STATE_HOME=$D/state sqlock --local acquire -n nightly");
    sh("unset SQLOCK_URL; XDG_STATE_HOME=$D/state sqlock --local run -n nightly true");
    assert_said(75, NULL, "sqlock --local break nightly");
    sh("unset SQLOCK_URL XDG_STATE_HOME HOME; sqlock --local ls");
    assert_said(78, NULL, "HOME");
}

static void test_unknown_scheme_is_not_repeated(void **state)
{
    (void)state;
    database_new();
    sh("sqlock -U s3cret ls");
    assert_said(78, "", "sqlite:");
    assert_null(strstr(sh("sqlock -U s3cret:s3cret@host ls")->err, "s3cret"));
}

static void test_password_is_neither_listed_nor_told(void **state)
{
    static const char *const urls[] = {
        "postgresql://user:s3cret@/db?host=/nonexistent",
        "postgresql://user@/db?host=/nonexistent&password=s3cret",
        "postgres://user:s3cret@[::1:5/db",
        "postgresql://user:s3cret",
        "sqlite:/nonexistent/x?password=s3cret",
    };

    (void)state;
    database_new();
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        sh("sqlock -v -U '%s' ls; SQLOCK_URL='%s' sqlock -v ls", urls[i], urls[i]);
        assert_null(
            strstr(sh("sqlock -v -U '%s' ls; SQLOCK_URL='%s' sqlock -v ls", urls[i], urls[i])->err,
                   "s3cret"));
    }
}

/* A message that repeats what was typed tells all of it. */
static void test_password_in_the_wrong_place_is_not_told(void **state)
{
    static const char *const lines[] = {
        "$U ls",
        "help $U",
        "migrate $U",
        "migrate sql --format $U",
        "--url-file $U ls",
        "reap --grace $U",
        "reap --limit $U",
        "run --on-lost $U a true",
        "run -E $U a true",
        "acquire --$U a",
    };
    static const char *const urls[] = {
        "postgresql://user:s3cret@host/db",
        "mysql://host/db?password=s3cret",
    };

    (void)state;
    database_new();
    for (size_t i = 0; i < 2 * (sizeof lines / sizeof *lines); i++) {
        assert_null(strstr(sh("U='%s'; sqlock %s", urls[i % 2], lines[i / 2])->err, "s3cret"));
        assert_said(64, "", "sqlock: ");
    }
}

#ifdef TEST_HAVE_POSTGRES
static void test_password_leaves_the_process_list(void **state)
{
    const struct said *said;
    pid_t pid;

    (void)state;
    database_new();
    pid = sh_start("exec sqlock -U 'postgresql://user:s3cret@/db?host=/nonexistent' "
                   "--wait-db 20s run nightly true");
    assert_soon(strstr(sh("tr '\\0' ' ' </proc/%d/cmdline", (int)pid)->out, "****") != NULL,
                patience_ms(5000));
    said = sh("cat /proc/%d/cmdline /proc/%d/cmdline /proc/%d/cmdline | tr '\\0' ' '", (int)pid,
              (int)waker_of(pid), (int)guardian_of(pid));
    assert_said(0, "run nightly true", NULL);
    assert_said(0, "lock-waker nightly", NULL);
    assert_said(0, "lock-guardian nightly", NULL);
    assert_null(strstr(said->out, "s3cret"));
    kill(pid, SIGKILL);
    child_wait(pid, patience_ms(5000));
}
#endif

/* ---- drivers --------------------------------------------------------------------------------- */

static void test_missing_driver_says_what_to_install(void **state)
{
    (void)state;
    database_new();
    assert_sh("mkdir $D/bin; cp -L $(dirname $(command -v sqlock))/libsqlock.so.0 $D/bin; "
              "cp $(command -v sqlock) $D/bin");
    sh("$D/bin/sqlock ls");
    assert_said(78, "", "install the driver libsqlock-sqlite");
    sh("$D/bin/sqlock -U postgresql:///x ls");
    assert_said(78, "", "install the driver libsqlock-postgres");
    sh("$D/bin/sqlock -U mariadb://x/y ls");
    assert_said(78, "", "install the driver libsqlock-mysql");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_usage_is_64_before_any_database),
        cmocka_unit_test(test_wrong_usage_says_where_to_look),
        cmocka_unit_test(test_beginning_of_an_option_is_not_the_option),
        cmocka_unit_test(test_options_are_those_of_flock),
        cmocka_unit_test(test_options_may_stand_behind_operands),
        cmocka_unit_test(test_two_dashes_may_stand_before_the_command_of_run),
        cmocka_unit_test(test_name_that_cannot_be_is_wrong_usage),
        cmocka_unit_test(test_what_comes_later_is_refused_by_name),
        cmocka_unit_test(test_durations_are_what_people_write),
        cmocka_unit_test(test_help_fits_and_goes_to_stdout),
        cmocka_unit_test(test_version_is_that_of_the_header),
        cmocka_unit_test(test_output_that_fails_is_74),
        cmocka_unit_test(test_without_a_url_nothing_is_locked),
        cmocka_unit_test(test_option_goes_before_environment),
        cmocka_unit_test(test_local_is_a_file_of_the_user),
        cmocka_unit_test(test_unknown_scheme_is_not_repeated),
        cmocka_unit_test(test_password_is_neither_listed_nor_told),
        cmocka_unit_test(test_password_in_the_wrong_place_is_not_told),
#ifdef TEST_HAVE_POSTGRES
        cmocka_unit_test(test_password_leaves_the_process_list),
#endif
        cmocka_unit_test(test_missing_driver_says_what_to_install),
    };

    return RUN_ON("sqlite", tests);
}
