/* A MariaDB or MySQL server to misconfigure and kill, from its first use to the process's end. */
#ifndef SQLOCK_TESTS_LIB_MY_PRIVATE_H
#define SQLOCK_TESTS_LIB_MY_PRIVATE_H

#include <stdint.h>

#include "tests/lib/servers.h"

/* Its URL, for root without a password. Where there can be none the test is skipped, loudly; with
 * STRICT=1 it fails. Call it in the test itself. */
const char *my_private_url(void);
/* The path of its socket. */
const char *my_private_socket(void);
/* Its end without a word, with -9, and its start, with these words on its command line. */
void my_private_restart(const char *args);

/* The server itself, and SQL on it. */
const struct server *my_private_server(void);
#define my_private_exec(...)   server_exec(my_private_server(), __VA_ARGS__)
#define my_private_number(...) server_number(my_private_server(), __VA_ARGS__)

#endif
