/* The MariaDB or MySQL server that tests run on: SQLOCK_TEST_MYSQL_URL, which tests/tools/run.sh
 * sets to a private one. Each test has a database of its own, as root over the socket. */
#ifndef SQLOCK_TESTS_LIB_MY_H
#define SQLOCK_TESTS_LIB_MY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

extern const struct test_server my_server; /* for test_server_is_missing() */
/* The server's URL. Where there is none the test is skipped, loudly; with STRICT=1 it fails. Call
 * it in the test itself: cmocka takes a skip in a setup for an error. */
const char *my_url(void);
/* The path of its socket. */
const char *my_socket_path(void);
/* A new, empty database, "test_" and random letters; dropped by undo_now() (tests/lib/undo.h) or
 * when this process ends. Skips or fails as my_url() does. */
char *my_database_new(void);

/* Run SQL, one statement or several, past the library; a failure fails the test. my_number() is the
 * first column of the last statement's first row; NULL and no row are -1. */
#define my_exec(sql) ((void)my_number(sql))
int64_t my_number(const char *sql);
/* The same as root on the server behind another socket. */
int64_t my_number_at(const char *socket, const char *sql);
/* Whether the server can step over locked rows (MySQL before 8.0 cannot); whether it is MariaDB. */
bool my_skips_locked(void);
bool my_is_mariadb(void);
/* Write a statement's rows, each value behind its column's name. */
void my_put_rows(FILE *f, const char *sql);

#endif
