/* MariaDB and MySQL: a database for each test, and sessions to be held still within a packet. */
#include "bench.h"

#include <stdlib.h>

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

/* ---- asking ---------------------------------------------------------------------------------- */

static void put_value(FILE *f, const sqlock_value *v)
{
    if (v->type == SQLOCK_INT) {
        fprintf(f, "%lld", (long long)v->i);
        return;
    }
    if (v->data == NULL) {
        fputs("NULL", f);
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
    sqlock_value v[MAX_PARAMS];
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
    for (unsigned i = 0; i < n && i < CELLS; i++)
        if (row[i])
            a->cell[i] = strtoll(row[i], NULL, 10);
}

/* What the last statement changed. The client library forgets it when it looks for a next one. */
static struct {
    my_ulonglong rows, id;
} changes;

/* As the driver does it, where that is a step's answer. */
static void take_given(unsigned flags, answer *a)
{
    if (!(flags & SQLOCK_STEP_GIVES_NOW) || a->rows)
        return;
    if (strcmp(a->error, "1205") == 0)
        a->error[0] = '\0';
    else if (!a->error[0] && changes.rows == 1 && changes.id != 0) {
        a->rows = 1;
        a->outcome = SQLOCK_OUT_DONE;
        a->cell[SQLOCK_COL_NOW] = (int64_t)changes.id;
    }
}

/* All results of a packet; the rows of the last one that has any count. *at rises to the last one's
 * number. */
static int collect(MYSQL *my, int failed, answer *out, int max, int *at)
{
    int n = 0;
    memset(out, 0, (size_t)max * sizeof *out);
    while (!failed) {
        MYSQL_RES *res = mysql_store_result(my);
        MYSQL_ROW row;
        for (int i = 0; res && i < max && (row = mysql_fetch_row(res)) != NULL; i++)
            take_row(row, mysql_num_fields(res), &out[i]);
        if (res)
            n = (int)mysql_num_rows(res) < max ? (int)mysql_num_rows(res) : max;
        mysql_free_result(res);
        changes.rows = mysql_affected_rows(my);
        changes.id = mysql_insert_id(my);
        /* it may have failed in the middle of its rows */
        failed = res == NULL && mysql_errno(my) != 0 ? 1 : mysql_next_result(my);
        if (failed < 0)
            break;
        ++*at;
    }
    if (failed > 0)
        snprintf(out[0].error, sizeof out[0].error, "%u", mysql_errno(my));
    if (max == 1)
        out[0].rows = n;
    return n;
}

static char *behind(char *sql, int statements)
{
    for (; sql && statements > 0; statements--)
        if ((sql = strstr(sql, ";\n")) != NULL)
            sql += 2;
    return sql;
}

/* As the driver does it: a statement that waited too long for a row has found none, and what is
 * behind it in the packet is asked. A transaction is rolled back. Only servers that cannot step
 * over locked rows come to it. */
static answer my_step(MYSQL *my, const script *s, int i, const request *r)
{
    char *sql = bound(s->step[i], s->stmt, r, 1), *rest = sql;
    int is_transaction = strncmp(sql, "START TRANSACTION", 17) == 0;
    answer a;
    while (rest) {
        int at = 0;
        collect(my, mysql_query(my, rest), &a, 1, &at);
        rest = strcmp(a.error, "1205") == 0 && !is_transaction ? behind(rest, at + 1) : NULL;
    }
    if (is_transaction && (strcmp(a.error, "1205") == 0 || strcmp(a.error, "1213") == 0)) {
        mysql_query(my, "ROLLBACK");
        memset(&a, 0, sizeof a);
    }
    take_given(s->flags[i], &a);
    free(sql);
    return a;
}

/* MySQL cannot keep a statement from waiting. */
static int is_step_of(MYSQL *my, const script *s, int i)
{
    return !(s->flags[i] & SQLOCK_STEP_NOWAIT) || strstr(mysql_get_server_info(my), "MariaDB");
}

static answer my_fetch(conn c, const script *s, const request *r)
{
    answer a = {0};
    for (int i = 0; i < s->n && !a.rows && !a.error[0]; i++)
        if (is_step_of(c.my, s, i))
            a = my_step(c.my, s, i, r);
    return a;
}

/* What was sent on each connection, until its answer comes. */
static struct {
    MYSQL *my;
    unsigned flags;
} sent[COUNT(bench.conns)];

static unsigned *sent_on(MYSQL *my)
{
    size_t i = 0;
    while (i < COUNT(sent) - 1 && sent[i].my != NULL && sent[i].my != my)
        i++;
    sent[i].my = my;
    return &sent[i].flags;
}

static void my_start(conn c, const script *s, const request *r, int n)
{
    int first = 0;
    char *sql;
    while (!is_step_of(c.my, s, first))
        first++;
    sql = bound(s->step[first], s->stmt, r, n);
    *sent_on(c.my) = s->flags[first];
    if (mysql_send_query(c.my, sql, (unsigned long)strlen(sql)) != 0)
        broken("send: %s", mysql_error(c.my));
    free(sql);
}

static int my_finish(conn c, answer *out, int max)
{
    int n = collect(c.my, mysql_read_query_result(c.my), out, max, &(int){0});
    if (max == 0 || n > 0 || *sent_on(c.my) == 0)
        return n;
    take_given(*sent_on(c.my), out);
    return out->outcome == SQLOCK_OUT_DONE;
}

static int my_try(conn c, const char *sql)
{
    answer a;
    collect(c.my, mysql_query(c.my, sql), &a, 1, &(int){0});
    return a.error[0] ? -1 : 0;
}

static char *my_value(conn c, const char *sql, int column)
{
    MYSQL_RES *res = mysql_query(c.my, sql) == 0 ? mysql_store_result(c.my) : NULL;
    MYSQL_ROW row = res ? mysql_fetch_row(res) : NULL;
    char *out = row && row[column] ? strdup(row[column]) : NULL;
    if (!row)
        broken("%s: %s", sql, mysql_error(c.my));
    mysql_free_result(res);
    return out;
}

static const char *my_error(conn c)
{
    return mysql_error(c.my);
}

/* ---- a test's database ----------------------------------------------------------------------- */

/* As the handshake does, where there is a schema already. */
static void my_note_server(conn c)
{
    script handshake = ours(SQLOCK_STMT_HANDSHAKE);
    (void)my_try(c, handshake.step[handshake.n - 2]);
}

static conn my_open(void)
{
    conn c = {.my = mysql_init(NULL)};
    if (!mysql_real_connect(c.my, NULL, "root", "", NULL, 0, my_socket_path(),
                            CLIENT_MULTI_STATEMENTS))
        broken("connect: %s", mysql_error(c.my));
    /* the session that the driver sets */
    if (my_try(c,
               "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET time_zone = '+00:00',"
               " innodb_lock_wait_timeout = 1, sql_mode = 'STRICT_ALL_TABLES'") != 0)
        broken("connect: %s", mysql_error(c.my));
    my_note_server(c);
    return c;
}

static void my_close(conn c)
{
    memset(sent, 0, sizeof sent);
    mysql_close(c.my);
}

/* ---- held still ------------------------------------------------------------------------------ */

/* Whether InnoDB's report says so of the thread. Each transaction has some lines of its own, and
 * one of them is "LOCK WAIT ...", before that of its thread. */
static int status_waits(const char *status, unsigned long thread)
{
    /* What comes before the first transaction is about a deadlock of the past. */
    const char *begin = strstr(status, "---TRANSACTION "), *next;
    char word[40];
    size_t len = (size_t)snprintf(word, sizeof word, "thread id %lu,", thread);

    for (; begin != NULL; begin = next) {
        const char *wait = strstr(begin, "\nLOCK WAIT "), *at = strstr(begin, word);

        next = strstr(begin + 1, "---TRANSACTION ");
        if (at == NULL)
            return 0;
        if (next == NULL || at + len <= next)
            return wait != NULL && wait < at;
    }
    return 0;
}

/* Waits for a row. The table innodb_trx would be easier to read, but is made anew only when nobody
 * has looked for 100 ms, and other programs look too. */
static int row_waits(MYSQL *watch, unsigned long thread)
{
    MYSQL_RES *res = NULL;
    MYSQL_ROW row;
    int waits = 0;

    if (mysql_query(watch, "SHOW ENGINE INNODB STATUS") == 0 &&
        (res = mysql_store_result(watch)) != NULL && (row = mysql_fetch_row(res)) != NULL &&
        mysql_num_fields(res) >= 3)
        waits = status_waits(row[2], thread);
    mysql_free_result(res);
    return waits;
}

static int my_waits(conn c)
{
    conn watch = bench.conns[0]; /* of the setup: no test talks on it */
    unsigned long thread = mysql_thread_id(c.my);
    char sql[200];

    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM information_schema.processlist WHERE id = %lu"
             " AND (state LIKE 'User lock' OR state LIKE 'Waiting for %%lock')",
             thread);
    for (int i = 0; i < 500; i++) {
        if (row_waits(watch.my, thread) || number(watch, sql) > 0)
            return 1;
        sleep_ms(i < 50 ? 1 : 10);
    }
    return 0;
}

const struct database mysql = {
    .name = "mysql",
    .mode = "mysql",
    .driver = "mysql",
    .server = &my_server,
    .dialect = &sqlock_mysql_dialect,
    .now = "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) +"
           " TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)))",
    .ms = "1000",
    .owner = "SELECT ascii(substr(owner, 1, 1)) FROM {lock}",
    .held = "GET_LOCK('race_{pid}', 20) + RELEASE_LOCK('race_{pid}') = 2",
    .hold = "DO GET_LOCK('race_{pid}', 20)",
    .unhold = "DO RELEASE_LOCK('race_{pid}')",
    .quote = '`',
    .skips_locked = my_skips_locked,
    .create = create_schema,
    .open = my_open,
    .close = my_close,
    .ask = my_fetch,
    .start = my_start,
    .waits = my_waits,
    .finish = my_finish,
    .try_run = my_try,
    .value = my_value,
    .error = my_error,
};
#else
const struct database mysql = {.name = "mysql", .driver = "mysql"};
#endif
