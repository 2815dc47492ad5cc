/* What needs no database: usage, help, versions, the URL's sources, secret passwords. */
#include <string.h>

#include "tests/cli/shell.h"

static const char *const commands[] = {"run",     "once", "lead", "acquire", "renew",
                                       "release", "ls",   "show", "break",   "waits",
                                       "migrate", "reap", "help"};

/* ---- usage ----------------------------------------------------------------------------------- */

TEST(test_wrong_usage_is_64_before_any_database, ON_SQLITE)
{
    static const struct {
        const char *command, *words; /* each between two | */
    } wrong[] = {
        {"", "|nonsense|--nonsense ls|-Z ls|--local -U sqlite:x ls"},
        {"ls", "--nonsense|a b|--older-than|--older-than 5x|--older-than ''|"
               "--older-than -1|--older-than .|--older-than 1.|--older-than 1e3|"
               "--older-than 25d|--older-than 1h1h|--older-than 30m1h|--older-than 1h30|"
               "--older-than 5M|--held=yes|--version"},
        {"show", "|a b|a -q b"},
        {"acquire", "|a b|-w 1s|--ttl 10ms a|--ttl 8d a|-m novalue a|-m =value a|--owner 12 a"},
        {"renew", "a|a 0123456789abcdef0123456789abcdef|"
                  "a 0123456789abcdef0123456789abcdef 1x|"
                  "--ttl 0 a 0123456789abcdef0123456789abcdef 1|"
                  "--ttl 8d a 0123456789abcdef0123456789abcdef 1|"
                  "a 0123456789abcdef0123456789abcdeg 1"},
        {"release", "a 0123456789abcdef0123456789abcdef|a nonsense 1"},
        {"break", "a|--token 1|--token 0 a|--token 1 --older-than 1h a|--token 1 a b|"
                  "--token 9007199254740992 a"},
        {"run", "a|a --|a -- --|-c a|-c a echo b c|a --no-such-option true|-E 256 a true|"
                "-E x a true|--on-lost hope a true|--status-fd 77 a true|"
                "--max-time x a true"},
        {"migrate", "|sideways"},
        {"reap", "now|--batch 0|--limit x|--loop 30d|--idle 0|--metrics-file ''"},
        {"help", "nonsense|run ls"},
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (const char *at = wrong[i].words, *end; at != NULL;
             at = *end != '\0' ? end + 1 : NULL) {
            end = strchrnul(at, '|');
            assert_says(64, "", "sqlock: ", "SQLOCK_URL=sqlite:/nonexistent/x sqlock %s %.*s",
                        wrong[i].command, (int)(end - at), at);
        }
}

TEST(test_wrong_usage_says_where_to_look, ON_SQLITE)
{
    assert_says(64, "", "sqlock: no command given; try 'sqlock help'\n", "sqlock");
    assert_says(64, "", "unknown command \"nonsense\"; see 'sqlock help'\n", "sqlock nonsense");
    assert_says(64, "", "unknown command \"nonsense\"; see 'sqlock help'\n",
                "sqlock help nonsense");
    assert_says(64, "", "--older-than: invalid duration \"5x\" (use ", "sqlock ls --older-than 5x");
    assert_says(64, "", "--waiting lists no locks", "sqlock ls --waiting --held");
    assert_says(64, "", "; see 'sqlock help run'\n", "sqlock run a");
    assert_says(64, "", "not open for writing", "sqlock run --status-fd 3 a true 3</dev/null");
}

/* Of every long option each beginning that is none itself: one that is taken for the whole is
 * another option for whoever meant another one, and for the next version. */
TEST(test_beginning_of_an_option_is_not_the_option, ON_SQLITE)
{
    static const char *const lines[] = {
        "--wait-d 1 ls",    "--name x ls",          "--l ls",
        "--verb ls",        "run --max 1s a true",  "acquire --own x a",
        "ls --exp",         "break --tok 1 a",      "migrate up --dry",
        "reap --metrics=x", "run --on=kill a true",
    };

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_says(64, "", "unknown option --", "sqlock %s", lines[i]);
    /* On each that help knows, cut by one byte. */
    assert_sh("for c in '' run acquire renew ls break reap migrate; do for o in "
              "$(sqlock help $c | sed -n 's/^  [ -].\\{3\\}\\(--[a-z-]*\\).*/\\1/p'); do "
              "echo $o >>$D/options; "
              "sqlock $c ${o%%?} 2>&1 | grep -q \"unknown option ${o%%?};\" || echo $c $o; done; "
              "done >$D/taken; test $(wc -l <$D/options) -gt 30 && ! grep . $D/taken");
}

TEST(test_options_are_those_of_flock, ON_SQLITE)
{
    static const char *const lines[] = {"--wait 300ms a", "--wait=0.3 a", "-w0.3 a", "--nonblock a",
                                        "-nq a",          "a --wait 0",   "a -n"};

    assert_sh("sqlock acquire --nonblock a");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_says(75, "", NULL, "sqlock acquire %s", lines[i]);
        assert_says(75, "", NULL, "sqlock run %s true", lines[i]);
    }
    assert_says(75, "", NULL, "sqlock run a -n -c 'echo \"ran\"'");
    assert_says(0, "ran\n", "", "sqlock run b -n -c 'echo \"ran\"'");
}

TEST(test_options_that_exclude_one_another_are_refused, ON_SQLITE)
{
    assert_says(64, "", "use only one of -n and -w", "sqlock acquire -n -w 3 a");
    assert_says(64, "", "use only one of -n and -w", "sqlock run -w 3 -n a true");
    assert_says(64, "", "use only one of --held and --expired", "sqlock ls --expired --held");
    assert_says(64, "", "write --watch=5 (or --watch=2s 5, ", "sqlock ls --watch 5");
    assert_says(64, "", "--loop must be at least 100ms", "sqlock reap --loop 0");
    assert_sh("printf '# the URL\\n%%s\\n' $SQLOCK_URL >$D/url");
    assert_says(78, "", "url: no URL in its first line", "sqlock --url-file $D/url ls");
}

TEST(test_options_may_stand_behind_operands, ON_SQLITE)
{
    assert_sh("sqlock acquire a --ttl 1h --json");
    assert_said(0, "{\"name\":\"a\"", NULL);
    assert_says(0, "{\"name\":\"a\"", NULL, "sqlock show a --json");
    assert_says(0, "[{\"name\":\"a\"", NULL, "sqlock ls 'a*' --held -q --json");
    assert_says(0, "[{", NULL, "sqlock migrate status --json");
    assert_says(0, "[{", NULL, "sqlock migrate --exit-code --json status");
    assert_sh(
        "sqlock acquire -n -- -a && sqlock show -- -a && ! sqlock acquire -n -- -a 2>$D/busy; "
        "eval \"$(sed 's/.*dead: //' $D/busy)\"");
    assert_says(64, "", "unknown option -a", "sqlock show -a");
}

TEST(test_two_dashes_may_stand_before_the_command_of_run, ON_SQLITE)
{
    assert_says(
        0, "--jsonbc\n", "",
        "sqlock run -n a -- echo -n --json; sqlock run -n -- a -- echo -n b; sqlock run -n -- a "
        "echo c");
    assert_says(0, "-- b\n", "", "sqlock run -n a echo -- b");
}

TEST(test_name_that_cannot_be_is_wrong_usage, ON_SQLITE)
{
    assert_says(64, "", "name", "sqlock acquire -n ''");
    assert_says(64, "", "name", "sqlock acquire -n \"$(printf '\\377')\"");
    assert_says(64, "", "name", "sqlock run -n \"$(printf '%%256s' x)\" true");
}

TEST(test_what_comes_later_is_refused_by_name, ON_SQLITE)
{
    static const char *const lines[] = {"doctor",
                                        "metrics",
                                        "completion bash",
                                        "help doctor",
                                        "once -s --every 1d a true",
                                        "once -l b --every 1d a true",
                                        "once --slots 2 --every 1d a true"};

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_says(64, "", "not available in this version yet", "sqlock %s", lines[i]);
}

TEST(test_durations_are_what_people_write, ON_SQLITE)
{
    static const char *const good[] = {"500ms", "30s",  "5m", "2h",    "1d",       "7",
                                       "0.5s",  "1.5h", "0",  "1h30m", "1w2d500ms"};

    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_sh("sqlock ls --older-than %s", good[i]);
    assert_sh("sqlock acquire -n --ttl 1.5h nightly");
    assert_says(0, "1h2", NULL, "sqlock show nightly");
    assert_sh("sqlock acquire -n --ttl 1h59m59s999ms nightly.2");
    assert_says(0, "1h59m", NULL, "sqlock show nightly.2");
    assert_says(64, "", "too long (at most 24d)", "sqlock ls --older-than 3w6d23h");
    assert_says(64, "", "too long (at most 10000d)", "sqlock reap --grace 10001d");
    assert_says(75, NULL, NULL, "sqlock acquire -w 0.3 nightly");
}

/* ---- help ------------------------------------------------------------------------------------ */

TEST(test_help_fits_and_goes_to_stdout, ON_SQLITE)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        assert_says(0, "Usage: sqlock [GLOBAL]", "",
                    "sqlock help %s && sqlock %s --help >/dev/null", commands[i], commands[i]);
        assert_sh("sqlock help | grep -q '^  %s '", commands[i]);
        assert_says(0, "", "", "sqlock help %s | awk 'length > 80'", commands[i]);
        assert_string_equal(sh("sqlock help %s | awk 'length > 80'", commands[i])->out, "");
    }
    assert_string_equal(sh("sqlock --help | awk 'length > 80'")->out, "");
    assert_sh("sqlock --help >$D/a; sqlock help | cmp - $D/a; sqlock -h | cmp - $D/a");
    assert_sh(
        "sqlock help run >$D/a; sqlock run -h | cmp - $D/a; sqlock run a -n --help | cmp - $D/a");
}

TEST(test_version_is_that_of_the_header, ON_SQLITE)
{
    assert_says(0, "sqlock " SQLOCK_VERSION " (library " SQLOCK_VERSION ")\n", NULL,
                "sqlock --version");
    assert_says(0, "sqlock " SQLOCK_VERSION " (library " SQLOCK_VERSION ")\n", NULL, "sqlock -V");
    assert_says(0, "{\"command\":\"" SQLOCK_VERSION "\",", NULL, "sqlock --json --version");
    assert_says(0, "{\"command\":\"" SQLOCK_VERSION "\",", NULL, "sqlock --version --json");
}

/* ---- output ---------------------------------------------------------------------------------- */

TEST(test_output_that_fails_is_74, ON_SQLITE)
{
    assert_says(74, NULL, "standard output", "sqlock help >/dev/full");
    assert_says(74, NULL, "standard output", "sqlock ls >&-");
    assert_says(74, NULL, "standard output", "sqlock --json acquire -n nightly >&-");
    assert_says(0, "free", NULL, "sqlock show nightly");
}

/* ---- the URL --------------------------------------------------------------------------------- */

TEST(test_without_a_url_nothing_is_locked, ON_SQLITE)
{
    assert_says(78, "", "no database given: set SQLOCK_URL, or use --url",
                "unset SQLOCK_URL; HOME=$D sqlock run nightly touch $D/ran");
    assert_says(78, "", "no database given: set SQLOCK_URL, or use --url",
                "SQLOCK_URL= HOME=$D sqlock run nightly touch $D/ran");
    assert_says(1, NULL, NULL, "test -e $D/ran");
}

TEST(test_option_goes_before_environment, ON_SQLITE)
{
    assert_sh("export U=$SQLOCK_URL; unset SQLOCK_URL; DATABASE_URL=$U sqlock ls");
    assert_sh("export U=$SQLOCK_URL; SQLOCK_URL=$U DATABASE_URL=sqlite:/nonexistent/x sqlock ls");
    assert_sh("export U=$SQLOCK_URL; SQLOCK_URL=sqlite:/nonexistent/x sqlock -U $U ls");
    assert_sh("export U=$SQLOCK_URL; SQLOCK_URL=sqlite:/nonexistent/x sqlock ls --url=$U");
    assert_sh("echo $SQLOCK_URL >$D/url; SQLOCK_URL=sqlite:/nonexistent/x "
              "sqlock --url-file $D/url ls");
    assert_says(78, "", "absent", "sqlock --url-file $D/absent ls");
    assert_says(78, "", "no URL", "sqlock --url-file /dev/null ls");
}

TEST(test_local_is_a_file_of_the_user, ON_SQLITE)
{
    assert_sh("unset SQLOCK_URL XDG_STATE_HOME; HOME=$D/home sqlock --local run -n nightly true");
    assert_sh("test \"$(stat -c %%a $D/home/.local/state/sqlock)\" = 700");
    assert_sh("unset SQLOCK_URL; XDG_STATE_HOME=$D/state sqlock --local acquire -n nightly");
    assert_says(75, NULL, "sqlock --local break nightly",
                "unset SQLOCK_URL; XDG_STATE_HOME=$D/state sqlock --local run -n nightly true");
    assert_says(78, NULL, "HOME", "unset SQLOCK_URL XDG_STATE_HOME HOME; sqlock --local ls");
}

TEST(test_password_is_neither_listed_nor_reported, ON_SQLITE)
{
    static const char *const urls[] = {
        "postgresql://user:s3cret@/db?host=/nonexistent",
        "postgresql://user@/db?host=/nonexistent&password=s3cret",
        "postgres://user:s3cret@[::1:5/db",
        "postgresql://user:s3cret",
        "sqlite:/nonexistent/x?password=s3cret",
        "s3cret",
        "s3cret:s3cret@host",
    };

    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        const char *said =
            sh("sqlock -v -U '%s' ls; SQLOCK_URL='%s' sqlock -v ls", urls[i], urls[i])->err;

        assert_true(*said != '\0');
        assert_null(strstr(said, "s3cret"));
    }
}

/* A message that repeats what was typed tells all of it. */
TEST(test_password_in_the_wrong_place_is_not_reported, ON_SQLITE)
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

    for (size_t i = 0; i < 2 * (sizeof lines / sizeof *lines); i++) {
        assert_null(strstr(sh("U='%s'; sqlock %s", urls[i % 2], lines[i / 2])->err, "s3cret"));
        assert_said(64, "", "sqlock: ");
    }
}

#ifdef TEST_HAVE_POSTGRES
TEST(test_password_leaves_the_process_list, ON_SQLITE)
{
    const struct said *said;
    pid_t pid;

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
}
#endif

/* ---- drivers --------------------------------------------------------------------------------- */

TEST(test_missing_driver_says_what_to_install, ON_SQLITE)
{
    assert_sh("mkdir $D/bin; cp -L $(dirname $(command -v sqlock))/libsqlock.so.0 $D/bin; "
              "cp $(command -v sqlock) $D/bin; "
              /* Empty, not absent: else the loader would take those of an installed sqlock. */
              "for db in sqlite postgres mysql; do : >$D/bin/libsqlock-$db.so.0; done");
    assert_says(78, "", "cannot load the driver libsqlock-sqlite", "$D/bin/sqlock ls");
    assert_says(78, "", "cannot load the driver libsqlock-postgres",
                "$D/bin/sqlock -U postgresql:///x ls");
    assert_says(78, "", "cannot load the driver libsqlock-mysql",
                "$D/bin/sqlock -U mariadb://x/y ls");
}

TEST_MAIN_OF_COMMAND
