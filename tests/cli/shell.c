#include "tests/cli/shell.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/mysql_quirks.h"
#include "tests/lib/pg.h"
#include "tests/lib/postgres_quirks.h"
#include "tests/lib/proxy.h"
#include "tests/lib/sqlite_quirks.h"

static const struct quirks *database;
static struct place place;
static const char *test_folder;
static struct said last;

/* ---- databases ------------------------------------------------------------------------------- */

const char *database_name(void)
{
    return database->name;
}

/* $D/token NAME: of its last grant. */
static void token_script(void)
{
    const char *path = textf("%s/token", test_folder);
    FILE *file;

    if ((file = fopen(path, "w")) == NULL)
        fail_msg("%s: %s", path, strerror(errno));
    fputs("#!/bin/sh\n"
          "exec sqlock $G show --json \"$@\" | sed 's/.*\"token\":\\([0-9]*\\).*/\\1/'\n",
          file);
    fchmod(fileno(file), 0700);
    fclose(file);
}

static void folder_new(void)
{
    const char *path = getenv("PATH");
    char *build = textf("%s", TEST_COMMAND), *slash;

    test_folder = temp_dir();
    setenv("D", test_folder, 1);
    token_script();
    unsetenv("DATABASE_URL");
    if ((slash = strrchr(build, '/')) != NULL)
        *slash = '\0';
    if (strncmp(path, build, strlen(build)) != 0)
        setenv("PATH", textf("%s:%s", build, path), 1);
}

/* SQLite's file is in the test's folder. */
static void database_empty(void)
{
    folder_new();
    place = (struct place){.url = textf("sqlite:%s/locks.db", test_folder)};
    if (database->has_schemas)
        database->make(&place);
    setenv("SQLOCK_URL", place.url, 1);
    setenv("G", place.schema != NULL ? textf("--schema %s", place.schema) : "", 1);
}

void database_new(void)
{
    database_empty();
    assert_sh("sqlock $G migrate up");
}

void database_again(const char *its_folder)
{
    test_folder = its_folder;
    setenv("D", its_folder, 1);
    setenv("SQLOCK_URL", textf("sqlite:%s/locks.db", its_folder), 1);
}

void database_exec(const char *sql)
{
    char *text = NULL;
    size_t len;
    FILE *to = open_memstream(&text, &len);

    for (; *sql != '\0'; sql++)
        if (*sql == '@' && place.schema != NULL)
            fprintf(to, "%s.sqlock_", place.schema);
        else if (*sql == '@')
            fputs("sqlock_", to);
        else
            fputc(*sql, to);
    fclose(to);
    database->execute(&place, text);
    free(text);
}

void database_leave(int n)
{
    database->leave(&place, n);
}

const char *database_schema(void)
{
    return place.schema;
}

struct proxy *database_by_proxy(void)
{
    struct proxy *proxy = proxy_start_pg();

    setenv("SQLOCK_URL", proxy_url(proxy), 1);
    return proxy;
}

void database_directly(void)
{
    setenv("SQLOCK_URL", pg_url(), 1);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static const struct {
    const struct quirks *quirks;
    unsigned on;
} databases[] = {
#ifdef TEST_HAVE_SQLITE
    {&sqlite_quirks, ON_SQLITE},
#endif
#ifdef TEST_HAVE_POSTGRES
    {&postgres_quirks, ON_POSTGRES},
#endif
#ifdef TEST_HAVE_MYSQL
    {&mysql_quirks, ON_MYSQL},
#endif
};

static void run_on_its_database(void **state)
{
    const struct test *test = *state;

    if (test->where & EMPTY)
        database_empty();
    else
        database_new();
    test->body(state);
}

static int run_on(const struct quirks *quirks, unsigned on)
{
    struct CMUnitTest tests[64];
    size_t n = 0;

    for (struct test *t = test_first(); t != NULL; t = t->next)
        if (t->where & on) {
            assert_true(n < sizeof tests / sizeof *tests);
            tests[n++] = (struct CMUnitTest){
                .name = t->name, .test_func = run_on_its_database, .initial_state = t};
        }
    if (n == 0)
        return 0;
    if (!test_wants(quirks->name)) {
        printf("SKIP: %s is left out\n", quirks->name);
        return 0;
    }
    database = quirks;
    return _cmocka_run_group_tests(quirks->name, tests, n, NULL, NULL);
}

int command_tests_run(void)
{
    int failed = 0;

    for (size_t i = 0; i < sizeof databases / sizeof *databases; i++)
        failed += run_on(databases[i].quirks, databases[i].on);
    return failed == 0 ? 0 : 1;
}

/* ---- shells ---------------------------------------------------------------------------------- */

const char *folder(void)
{
    return test_folder;
}

static char *in_folder(const char *name)
{
    return *name == '/' ? textf("%s", name) : textf("%s/%s", test_folder, name);
}

static char *read_all(const char *name)
{
    FILE *file = fopen(in_folder(name), "r");
    char *text = calloc(1, 65537);

    if (text == NULL)
        fail_msg("out of memory");
    if (file != NULL) {
        size_t n = fread(text, 1, 65536, file);

        text[n] = '\0';
        fclose(file);
    }
    return text;
}

static void redirect(int fd, const char *name, int flags)
{
    int to = open(in_folder(name), flags, 0600);

    if (to < 0 || dup2(to, fd) < 0)
        _exit(99);
    close(to);
}

static void (*before)(void);

void sh_before(void (*fn)(void))
{
    before = fn;
}

static pid_t start(const char *line, const char *out, const char *err)
{
    pid_t parent = getpid(), child;

    fflush(NULL);
    if ((child = fork()) < 0)
        fail_msg("fork: %s", strerror(errno));
    if (child > 0) {
        setpgid(child, child);
        before = NULL;
        return child;
    }
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(99);
    redirect(STDIN_FILENO, "/dev/null", O_RDONLY);
    redirect(STDOUT_FILENO, out, O_WRONLY | O_CREAT | O_TRUNC);
    redirect(STDERR_FILENO, err, O_WRONLY | O_CREAT | O_TRUNC);
    if (before != NULL)
        before();
    execl("/bin/sh", "sh", "-c", line, (char *)NULL);
    _exit(99);
}

__attribute__((format(printf, 1, 0))) static pid_t start_format(const char *format, va_list args,
                                                                const char *out, const char *err)
{
    char *line = NULL;
    pid_t child;

    if (vasprintf(&line, format, args) < 0)
        fail_msg("out of memory");
    child = start(line, out, err);
    free(line);
    return child;
}

const struct said *sh(const char *format, ...)
{
    int64_t begun = now_us();
    va_list args;
    pid_t child;

    va_start(args, format);
    child = start_format(format, args, ".out", ".err");
    va_end(args);
    last.code = child_wait(child, patience_ms(60000));
    last.took_ms = (now_us() - begun) / 1000;
    free(last.out);
    free(last.err);
    last.out = read_all(".out");
    last.err = read_all(".err");
    return &last;
}

pid_t sh_start(const char *format, ...)
{
    va_list args;
    pid_t child;

    va_start(args, format);
    child = start_format(format, args, "out", "err");
    va_end(args);
    return child;
}

const char *text_of(const char *file)
{
    static char *text;

    free(text);
    return text = read_all(file);
}

void wait_for(const char *file)
{
    assert_soon(text_of(file)[0] != '\0', patience_ms(20000));
}

void check_said(int code, const char *out_words, const char *err_words, const char *file, int line)
{
    if (last.code == code && (out_words == NULL || strstr(last.out, out_words) != NULL) &&
        (err_words == NULL || strstr(last.err, err_words) != NULL))
        return;
    print_error(
        "it ended with %d; expected were %d, \"%s\" and \"%s\"\n---- out\n%s---- err\n%s----\n",
        last.code, code, out_words != NULL ? out_words : "", err_words != NULL ? err_words : "",
        last.out, last.err);
    _fail(file, line);
}

/* ---- survivors ------------------------------------------------------------------------------- */

/* Depth first: whoever is nearest is not asked for. */
pid_t below(pid_t pid, const char *name)
{
    FILE *file = fopen(textf("/proc/%d/comm", (int)pid), "r");
    int child = 0, found = 0;
    char comm[32];

    if (file == NULL)
        return 0;
    if (fscanf(file, "%31s", comm) == 1 && strcmp(comm, name) == 0)
        found = (int)pid;
    fclose(file);
    if (found > 0 ||
        (file = fopen(textf("/proc/%d/task/%d/children", (int)pid, (int)pid), "r")) == NULL)
        return found;
    while (found == 0 && fscanf(file, "%d", &child) == 1)
        found = (int)below(child, name);
    fclose(file);
    return found;
}

/* The list of children leaves some out while others end; and a pid of 0 would be this test. */
static pid_t helper_of(pid_t run, const char *name)
{
    pid_t helper;

    assert_soon((helper = below(run, name)) > 0, patience_ms(5000));
    return helper;
}

pid_t guardian_of(pid_t run)
{
    return helper_of(run, "lock-guardian");
}

pid_t waker_of(pid_t run)
{
    return helper_of(run, "lock-waker");
}

pid_t start_tree(const char *options, const char *how)
{
    pid_t run = sh_start("exec sqlock $G run %s nightly tests/cli/tree.sh $D %s", options, how);

    wait_for("ready");
    assert_string_equal(sh("wc -l <$D/pids")->out, "4\n");
    assert_string_not_equal(sh(SURVIVORS)->out, "");
    return run;
}

pid_t start_until_ready(const char *words)
{
    pid_t run = sh_start("exec sqlock $G run %s", words);

    wait_for("ready");
    return run;
}

void kill_locker(pid_t run)
{
    kill(run, SIGKILL);
    assert_ends(run, -SIGKILL);
}

void assert_successor_is_alone(void)
{
    const struct said *said =
        sh("sqlock $G run -w 30s nightly sh -c 'date +%%s%%N >$D/granted; " SURVIVORS "'");

    assert_said(0, NULL, NULL);
    assert_string_equal(said->out, "");
    assert_sh("test $(cat $D/granted) -gt $(tail -n 1 $D/beats)");
    assert_no_survivors();
}

void assert_lost_while_stopped(pid_t run)
{
    assert_successor_is_alone();
    assert_false(child_ended(run));
    kill(run, SIGCONT);
    assert_ends(run, 76);
}
