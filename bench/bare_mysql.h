/* What the two files of MySQL's bare loops share. */
#ifndef BENCH_BARE_MYSQL_H
#define BENCH_BARE_MYSQL_H

#include <mysql.h>

#include "bench.h"

MYSQL *bare_mysql_connect(const char *url);
void bare_mysql_die(MYSQL *my) __attribute__((noreturn));

extern const struct bench_way bare_mysql_texts; /* sqlock's own statements */

#endif
