/* Servers of one origin, as failovers leave them: a first one, and copies, each with a disk of its
 * own. They go with the process. */
#ifndef SQLOCK_TESTS_LIB_SERVERS_H
#define SQLOCK_TESTS_LIB_SERVERS_H

#include <stdint.h>

struct server {
    const char *tool; /* the script that makes them */
    char url[256];    /* for who may do everything, without a password */
    char *end;        /* what stops it */
};

/* A new one. Where there can be none the test is skipped, or fails with STRICT=1. In tests alone.
 */
struct server server_postgres(void);
struct server server_mysql(void);
/* With these words on its command line; it forgets nothing when it is killed, and is faster. */
struct server server_mysql_with(const char *args);
/* Earlier than the process's end. */
void server_stop(struct server *s);
/* Its folder, which its socket lies in. */
void server_folder(const struct server *s, char out[256]);
/* PostgreSQL: a standby that follows it. MariaDB, MySQL: a copy of its disk. Neither runs. */
struct server server_copy(const struct server *of);
/* A copy that knows what is committed by now, and nothing that comes later. It grants after
 * server_take_over(), which does not wait for the other's end. */
struct server server_branch(const struct server *of);
void server_take_over(const struct server *copy);
/* A standby follows nobody from now on: what is committed there is missing here. */
void server_cut(const struct server *standby);
void server_promote(const struct server *standby);
/* With -9, and its start on what is on its disk. */
void server_kill(const struct server *s);
void server_again(const struct server *s);

/* PostgreSQL: a setting of the server's, which is valid when this returns; NULL: its default. */
void server_set(const struct server *s, const char *name, const char *value);

/* SQL on it; a failure fails the test. The first value of the first row; NULL and no row are -1. */
#define server_exec(...) ((void)server_number(__VA_ARGS__))
int64_t server_number(const struct server *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
