/* Two servers, of which the second follows the first: PostgreSQL with a synchronous standby,
 * MariaDB with a replica. Private ones, started at the first use and gone with the process. */
#ifndef SQLOCK_TESTS_LIB_PAIR_H
#define SQLOCK_TESTS_LIB_PAIR_H

#include "tests/lib/servers.h"

enum pair_kind { PAIR_POSTGRES, PAIR_MARIADB };
struct pair {
    enum pair_kind kind;
    struct server servers[2];
    char dirs[2][256];
    struct proxy *proxies[2];
    char url[600];
};

/* The first one grants locks; the second has what it had so far. Where there can be none the test
 * is skipped, loudly; with STRICT=1 it fails. Ends with pair_stop(), or with the process. */
struct pair *pair_start(enum pair_kind kind);
void pair_stop(struct pair *p);
/* A URL that names both, the first one first. */
const char *pair_url(const struct pair *p);
/* Until the second has all that the first has committed; as a synchronous standby has. */
void pair_await(struct pair *p);
/* The first one's end without a word, or its rest: all of its processes are killed, or stopped. */
void pair_kill(struct pair *p);
void pair_freeze(struct pair *p);
/* From now on the second one grants. */
void pair_promote(struct pair *p);

#endif
