/* MariaDB and MySQL: a database for each test, and sessions that can be held still within a packet
 * of statements. */
#include "bench.h"

#include <stdlib.h>
#include <unistd.h>

/* Texts of the dialect have `?` and an order; whoever changes them must not have to count. */
char *my_numbered(const sqlock_step *step)
{
    const uint8_t *order = step->order;
    char *out = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&out, &size);
    for (const char *s = step->sql; *s; s++)
        if (order && *s == '?')
            fprintf(f, "$%d", *order++ + 1);
        else
            fputc(*s, f);
    fclose(f);
    return out;
}

#ifdef TEST_HAVE_MYSQL
#include <mysql.h>

#include "tests/lib/my.h"

extern const sqlock_dialect sqlock_mysql_dialect;

int is_mysql(void)
{
    return bench.dialect == &sqlock_mysql_dialect;
}

/* ---- asking -----------------------------------------------------------------------------------
 */

static void put_value(FILE *f, const sqlock_value *v)
{
    if (v->type == SQLOCK_INT) {
        fprintf(f, "%lld", (long long)v->i);
        return;
    }
    fputs("X'", f);
    for (size_t i = 0; i < v->len; i++)
        fprintf(f, "%02x", ((const unsigned char *)v->data)[i]);
    fputc('\'', f);
}

static void put_piece(FILE *f, const char *s, size_t len, const sqlock_value *v, int index)
{
    for (const char *end = s + len; s < end; s++) {
        char *rest = NULL;
        long n = *s == '$' ? strtol(s + 1, &rest, 10) : 0;
        if (n == 0) {
            fputc(*s, f);
            continue;
        }
        if (n == SQLOCK_ORDER_INDEX + 1)
            fprintf(f, "%d", index);
        else
            put_value(f, &v[n - 1]);
        s = rest - 1;
    }
}

/* The text with the values of n requests; what stands between each and end, once for each. */
static char *bound(const char *s, sqlock_stmt stmt, const request *r, int n)
{
    sqlock_value v[8];
    char *out = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&out, &size);
    const char *each = NULL;
    while ((each = strstr(s, "/*each ")) != NULL) {
        const char *separator = each + 7, *body = strstr(separator, "*/") + 2;
        const char *end = strstr(body, "/*end*/");
        bind_request(stmt, r, v);
        put_piece(f, s, (size_t)(each - s), v, 0);
        for (int i = 0; i < n; i++) {
            bind_request(stmt, &r[i], v);
            if (i > 0)
                fprintf(f, " %.*s", (int)(body - 2 - separator), separator);
            put_piece(f, body, (size_t)(end - body), v, i);
        }
        s = end + 7;
    }
    bind_request(stmt, r, v);
    put_piece(f, s, strlen(s), v, 0);
    fclose(f);
    return out;
}

static void take_row(MYSQL_ROW row, unsigned n, answer *a)
{
    int64_t cell[7] = {-1, 0, 0, 0, 0, 0, 0};
    for (unsigned i = 0; i < n && i < 6; i++)
        if (row[i])
            cell[i] = strtoll(row[i], NULL, 10);
    a->index = (int)cell[SQLOCK_COL_INDEX];
    a->outcome = (int)cell[SQLOCK_COL_OUTCOME];
    a->token = cell[SQLOCK_COL_TOKEN];
    a->left = cell[SQLOCK_COL_LEFT];
    a->now = cell[SQLOCK_COL_NOW];
    a->since = cell[SQLOCK_COL_SINCE];
}

/* All results of a packet; the rows of the last one count. *out_at: the number of the last one. */
static int collect_at(MYSQL *my, int failed, answer *out, int max, int *out_at)
{
    int n = 0;
    *out_at = 0;
    memset(out, 0, (size_t)max * sizeof *out);
    while (!failed) {
        MYSQL_RES *res = mysql_store_result(my);
        MYSQL_ROW row;
        for (n = 0; res && n < max && (row = mysql_fetch_row(res)) != NULL; n++)
            take_row(row, mysql_num_fields(res), &out[n]);
        mysql_free_result(res);
        /* it may have failed in the middle of its rows */
        failed = res == NULL && mysql_errno(my) != 0 ? 1 : mysql_next_result(my);
        if (failed < 0)
            break;
        ++*out_at;
    }
    if (failed > 0)
        snprintf(out[0].error, sizeof out[0].error, "%u", mysql_errno(my));
    if (max == 1)
        out[0].rows = n;
    return n;
}

static int collect(MYSQL *my, int failed, answer *out, int max)
{
    int at = 0;
    return collect_at(my, failed, out, max, &at);
}

static char *behind(char *sql, int statements)
{
    for (; sql && statements > 0; statements--)
        if ((sql = strstr(sql, ";\n")) != NULL)
            sql += 2;
    return sql;
}

/* As the driver does it: a statement that waited too long for a row has found none, and what is
 * behind it in the packet is asked. Only servers that cannot step over locked rows come to it. */
static answer my_step(MYSQL *my, const script *s, int i, const request *r)
{
    char *sql = bound(s->step[i], s->stmt, r, 1), *rest = sql;
    answer a;
    while (rest) {
        int at = 0;
        collect_at(my, mysql_query(my, rest), &a, 1, &at);
        rest = strcmp(a.error, "1205") == 0 ? behind(rest, at + 1) : NULL;
    }
    free(sql);
    return a;
}

answer my_ask(MYSQL *my, const script *s, const request *r)
{
    answer a = {0};
    for (int i = 0; i < s->n && !a.rows && !a.error[0]; i++)
        a = my_step(my, s, i, r);
    return a;
}

int my_ask_array(conn c, const script *s, const request *r, int n, answer *out)
{
    int rows = 0;
    for (int i = 0; i < s->n && rows == 0; i++) {
        char *sql = bound(s->step[i], s->stmt, r, n);
        rows = collect(c.my, mysql_query(c.my, sql), out, n);
        free(sql);
    }
    return rows;
}

int my_try(MYSQL *my, const char *sql)
{
    answer a;
    collect(my, mysql_query(my, sql), &a, 1);
    return a.error[0] ? -1 : 0;
}

int64_t my_count(MYSQL *my, const char *sql)
{
    MYSQL_RES *res = mysql_query(my, sql) == 0 ? mysql_store_result(my) : NULL;
    MYSQL_ROW row = res ? mysql_fetch_row(res) : NULL;
    int64_t n = row && row[0] ? strtoll(row[0], NULL, 10) : -1;
    if (!row)
        fail_msg("%s: %s", sql, mysql_error(my));
    mysql_free_result(res);
    return n;
}

void my_close(MYSQL *my)
{
    if (my)
        mysql_close(my);
}

/* ---- a test's database -------------------------------------------------------------------------
 */

int my_missing(void)
{
    const char *strict = getenv("STRICT");
    if (getenv("SQLOCK_TEST_MYSQL_URL"))
        return 0;
    printf("SKIP: SQLOCK_TEST_MYSQL_URL is not set: the races on MariaDB did not run\n");
    return strict && strcmp(strict, "1") == 0 ? 2 : 1;
}

conn my_open(void)
{
    conn c = {.my = mysql_init(NULL)};
    track(c);
    if (!mysql_real_connect(c.my, NULL, "root", "", NULL, 0, my_socket_path(),
                            CLIENT_MULTI_STATEMENTS))
        fail_msg("connect: %s", mysql_error(c.my));
    run(c,
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;"
        "SET time_zone = '+00:00', innodb_lock_wait_timeout = 1, sql_mode = 'STRICT_ALL_TABLES'");
    return c;
}

/* As the library does when it first meets a server. */
static void introduce(conn c)
{
    script handshake = ours(SQLOCK_STMT_HANDSHAKE), meet = ours(SQLOCK_STMT_REINCARNATE);
    request r = request_of('-', 0);
    char *sql = bound(handshake.step[handshake.n - 1], handshake.stmt, &r, 1);
    MYSQL_RES *res = mysql_query(c.my, sql) == 0 ? mysql_store_result(c.my) : NULL;
    MYSQL_ROW row = res ? mysql_fetch_row(res) : NULL;
    assert_non_null(row);
    r = request_name(r, row[SQLOCK_COL_SERVER], mysql_fetch_lengths(res)[SQLOCK_COL_SERVER]);
    EXPECT(my_ask(c.my, &meet, &r), SQLOCK_OUT_DONE);
    run(c, "UPDATE {meta} SET fence_floor = 0"); /* so that tokens begin at 1 */
    mysql_free_result(res);
    free(sql);
}

int my_setup(void **state)
{
    conn c;
    (void)state;
    bench.dialect = &sqlock_mysql_dialect;
    snprintf(bench.schema, sizeof bench.schema, "race_%d_%d", (int)getpid(), ++bench.number);
    c = my_open();
    run(c, "CREATE DATABASE {schema}");
    migrate(c);
    introduce(c);
    return 0;
}

/* ---- held still --------------------------------------------------------------------------------
 */

void my_start(conn c, const script *s, const request *r)
{
    char *sql = bound(s->step[0], s->stmt, r, 1);
    assert_int_equal(mysql_send_query(c.my, sql, (unsigned long)strlen(sql)), 0);
    free(sql);
}

answer my_finish(conn c)
{
    answer a;
    collect(c.my, mysql_read_query_result(c.my), &a, 1);
    return a;
}

int my_waits(conn c)
{
    conn watch = bench.conns[0]; /* of the setup: no test talks on it */
    char sql[400];
    snprintf(sql, sizeof sql,
             "SELECT (SELECT count(*) FROM information_schema.innodb_trx WHERE"
             "  trx_mysql_thread_id = %lu AND trx_state = 'LOCK WAIT')"
             " + (SELECT count(*) FROM information_schema.processlist WHERE id = %lu"
             "  AND (state LIKE 'User lock' OR state LIKE 'Waiting for %%lock'))",
             mysql_thread_id(c.my), mysql_thread_id(c.my));
    for (int i = 0; i < 100; i++) {
        if (my_count(watch.my, sql) > 0)
            return 1;
        pause_ms(i < 50 ? 1 : 110); /* innodb_trx is made anew when nobody looked for 100 ms */
    }
    fail_msg("a statement does not wait");
    return -1;
}

void my_hold(conn c)
{
    char sql[64];
    snprintf(sql, sizeof sql, "DO GET_LOCK('race_%d', 20)", (int)getpid());
    run(c, sql);
}

void my_unhold(conn c)
{
    char sql[64];
    snprintf(sql, sizeof sql, "DO RELEASE_LOCK('race_%d')", (int)getpid());
    run(c, sql);
}
#else
int is_mysql(void)
{
    return 0;
}

answer my_ask(struct st_mysql *my, const script *s, const request *r)
{
    (void)my, (void)s, (void)r;
    return (answer){0};
}

int my_try(struct st_mysql *my, const char *sql)
{
    (void)my, (void)sql;
    return -1;
}

int64_t my_count(struct st_mysql *my, const char *sql)
{
    (void)my, (void)sql;
    return -1;
}

void my_close(struct st_mysql *my)
{
    (void)my;
}
#endif
