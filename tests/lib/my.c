#include "tests/lib/my.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/lib/undo.h"

const struct test_server my_server = {"mysql", "MariaDB or MySQL", "SQLOCK_TEST_MYSQL_URL"};

const char *my_url(void)
{
    return test_server_url(&my_server);
}

#ifdef TEST_HAVE_MYSQL
#include <mysql.h>

const char *my_socket_path(void)
{
    const char *socket = strstr(my_url(), "socket=");

    if (!socket)
        fail_msg("the URL names no socket");
    return socket + strlen("socket=");
}

static MYSQL *connect_to(const char *socket)
{
    MYSQL *my = mysql_init(NULL);

    if (my && mysql_real_connect(my, NULL, "root", "", NULL, 0, socket, CLIENT_MULTI_STATEMENTS))
        return my;
    print_error("%s\n", my ? mysql_error(my) : "no memory");
    mysql_close(my);
    return NULL;
}

static void put(FILE *f, MYSQL_RES *res)
{
    MYSQL_ROW row;

    while (f && res && (row = mysql_fetch_row(res)) != NULL) {
        for (unsigned i = 0; i < mysql_num_fields(res); i++)
            fprintf(f, "%s=%s ", mysql_fetch_field_direct(res, i)->name, row[i] ? row[i] : "NULL");
        fputc('\n', f);
    }
}

/* 0, or it says why not. f, if not NULL, gets all rows; *out, if not NULL, the last number. */
static int ask(const char *socket, const char *sql, FILE *f, int64_t *out)
{
    MYSQL *my = connect_to(socket);
    int rc = my ? mysql_query(my, sql) : 1;

    while (rc == 0) {
        MYSQL_RES *res = mysql_store_result(my);
        MYSQL_ROW row;

        put(f, res);
        if (res && out) {
            row = mysql_fetch_row(res);
            *out = row && row[0] ? strtoll(row[0], NULL, 10) : -1;
        }
        mysql_free_result(res);
        if ((rc = mysql_next_result(my)) < 0) { /* there is no more */
            rc = 0;
            break;
        }
    }
    if (my && (rc > 0 || mysql_errno(my) != 0)) {
        print_error("%s\n%s\n", sql, mysql_error(my));
        rc = 1;
    }
    mysql_close(my);
    return rc;
}

int64_t my_number_at(const char *socket, const char *sql)
{
    int64_t number = -1;

    if (ask(socket, sql, NULL, &number) != 0)
        fail_msg("a statement of the test failed");
    return number;
}

int64_t my_number(const char *sql)
{
    return my_number_at(my_socket_path(), sql);
}

void my_put_rows(FILE *f, const char *sql)
{
    if (ask(my_socket_path(), sql, f, NULL) != 0)
        fail_msg("a statement of the test failed");
}

/* Also when the process ends, where nothing may fail any more. */
static void drop_database(const char *name)
{
    const char *url = getenv("SQLOCK_TEST_MYSQL_URL"),
               *socket = url ? strstr(url, "socket=") : NULL;

    if (socket)
        (void)ask(socket + strlen("socket="), textf("DROP DATABASE IF EXISTS %s", name), NULL,
                  NULL);
}

char *my_database_new(void)
{
    const char *name = random_name();

    my_exec(textf("CREATE DATABASE %s", name));
    return undo_later(drop_database, name);
}

#else
#pragma GCC diagnostic ignored "-Wunused-parameter"

const char *my_socket_path(void)
{
    return my_url();
}

char *my_database_new(void)
{
    skip();
    return NULL;
}

int64_t my_number_at(const char *socket, const char *sql)
{
    skip();
    return -1;
}

int64_t my_number(const char *sql)
{
    return my_number_at("", sql);
}

void my_put_rows(FILE *f, const char *sql)
{
    skip();
}

#endif

bool my_is_mariadb(void)
{
    return my_number("SELECT VERSION() LIKE '%MariaDB%'") == 1;
}

bool my_skips_locked(void)
{
    return my_number("SELECT VERSION() LIKE '%MariaDB%' OR VERSION() >= '8'") == 1;
}
