#include "tests/lib/my_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/lib/my.h"
#include "tests/lib/undo.h"

static char url[256];

static void stop_server(const char *what)
{
    char command[400];

    snprintf(command, sizeof command, "tests/tools/my.sh stop '%s'", what);
    if (system(command) != 0)
        print_error("the private server was not stopped: %s\n", what);
}

const char *my_private_url(void)
{
    FILE *f;

    if (!test_wants("mysql"))
        skip();
    if (url[0] != '\0')
        return url;
    /* Not in /dev/shm: there MariaDB maps its log into memory, and forgets nothing when it is
     * killed.
     */
    f = popen("TMPDIR=/tmp tests/tools/my.sh start", "r");
    if (f == NULL || fgets(url, sizeof url, f) == NULL)
        url[0] = '\0';
    if (f != NULL && pclose(f) != 0)
        url[0] = '\0';
    url[strcspn(url, "\n")] = '\0';
    if (url[0] == '\0') {
        print_error("SKIP: no private MariaDB: tests/tools/my.sh could not start one\n");
        if (test_strict())
            fail_msg("STRICT=1 asks for every test");
        skip();
    }
    undo_later(stop_server, url);
    return url;
}

const char *my_private_socket(void)
{
    return strstr(my_private_url(), "socket=") + strlen("socket=");
}

void my_private_restart(const char *args)
{
    char command[600];

    snprintf(command, sizeof command, "SQLOCK_TEST_MYSQL_ARGS='%s' tests/tools/my.sh crash '%s'",
             args, my_private_url());
    if (system(command) != 0)
        fail_msg("%s", command);
}

__attribute__((format(printf, 1, 0))) static char *text(const char *format, va_list args)
{
    char *sql = NULL;

    if (vasprintf(&sql, format, args) < 0)
        fail_msg("out of memory");
    return sql;
}

void my_private_exec(const char *format, ...)
{
    va_list args;
    char *sql;

    va_start(args, format);
    sql = text(format, args);
    va_end(args);
    my_exec_at(my_private_socket(), sql);
    free(sql);
}

int64_t my_private_number(const char *format, ...)
{
    va_list args;
    int64_t number;
    char *sql;

    va_start(args, format);
    sql = text(format, args);
    va_end(args);
    number = my_number_at(my_private_socket(), sql);
    free(sql);
    return number;
}
