/* A flash sale: 200 units, 1000 orders, 8 processes. Each order reads the stock, thinks, and writes
 * the stock less one from memory. First without a lock, then with one, and with a crash.
 * What to copy is in order.c; this file tells the story around it. */
#include <sqlite3.h> /* before sqlock/sqlite.h, so that it knows which SQLite the program uses */
#include <sqlock/admin.h>
#include <sqlock/migrate.h>
#include <sqlock/sqlite.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crew.h"
#include "operator.h"
#include "order.h"
#include "shop.h"

#define STOCK        200
#define WORKERS      8
#define ORDERS_EACH  125
#define THINK_MS     1
#define PAUSE_MAX_MS 6
#define STUCK_AT     (STOCK / 2) /* units left when one order hangs */
#define STUCK_MS     1500        /* and so long: more than a lease */

/* ---- workers --------------------------------------------------------------------------------- */

static struct crew *crew_of_worker; /* NULL in sales without a lock */

/* A short time; but one order, half way through the sale under the lock, hangs for good. */
void order_think(int stock, int worker)
{
    int no_one = 0;

    pause_ms(THINK_MS);
    if (crew_of_worker == NULL || stock != STUCK_AT)
        return;
    if (atomic_compare_exchange_strong(crew_of_worker->stuck, &no_one, worker))
        for (;;)
            pause_ms(1000);
}

static void note_order(struct crew_note *note, int64_t since)
{
    const int took = (int)(now_ms() - since);

    if (took > atomic_load(&note->longest_ms))
        atomic_store(&note->longest_ms, took);
    atomic_fetch_add(&note->orders, 1);
}

static enum order_result try_order(sqlock *m, sqlite3 *db, int worker)
{
    return m != NULL ? order_under_lock(m, db, worker) : order_make(db, worker, 0);
}

static void work(struct crew *c, int me, sqlite3 *db, sqlock *m)
{
    srandom((unsigned)me + 1); /* or all would pause alike */
    crew_wait_go(c, me);
    for (int i = 0; i < ORDERS_EACH; i++) {
        const int64_t since = now_ms();

        while (try_order(m, db, me + 1) == ORDER_TOO_LATE)
            atomic_fetch_add(&c->note[me].fenced, 1);
        note_order(&c->note[me], since);
        pause_ms(1 + (int)(random() % PAUSE_MAX_MS)); /* until the next customer comes */
    }
}

static sqlock *open_manager(const char *path, int worker)
{
    sqlock_open_opts opts = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err = {0};
    sqlock *m = NULL;
    char url[300];
    char label[32];

    snprintf(url, sizeof url, "sqlite:%s", path);
    snprintf(label, sizeof label, worker > 0 ? "worker %d" : "parent", worker);
    opts.label = label; /* what others read when they find the lock busy */
    opts.request_ms = 15000;
    if (sqlock_open(sqlock_driver_sqlite(), url, &opts, &m, &err) != 0)
        die("%s", err.text);
    return m;
}

static void work_without_lock(struct crew *c, int me, const char *path)
{
    sqlite3 *db = shop_open(path);

    work(c, me, db, NULL);
    shop_close(db);
}

static void work_under_lock(struct crew *c, int me, const char *path)
{
    sqlite3 *db = shop_open(path);
    sqlock *m = open_manager(path, me + 1);

    crew_of_worker = c;
    work(c, me, db, m);
    sqlock_close(m);
    shop_close(db);
}

/* ---- the crash, as an operator sees it ------------------------------------------------------- */

struct seen {
    int found;
    int64_t token;
    int64_t at; /* of now_ms(), just before the database was asked */
    int64_t held_ms;
    int64_t left_ms;
    char label[SQLOCK_LABEL_MAX + 1];
};

static int on_info(const sqlock_info *info, void *user)
{
    struct seen *seen = user;

    if (strcmp(info->name, ORDER_LOCK) != 0)
        return 0;
    seen->found = 1;
    seen->token = info->holder.token;
    seen->held_ms = info->holder.held_ms;
    seen->left_ms = info->holder.left_ms;
    snprintf(seen->label, sizeof seen->label, "%s", info->holder.label);
    return 0;
}

static struct seen list_locks(sqlock *m)
{
    struct seen seen = {.at = now_ms()};
    sqlock_error err = {0};

    if (sqlock_list(m, NULL, on_info, &seen, &err) != 0)
        die("%s", err.text);
    return seen;
}

/* Is it the stuck worker's? Its label starts with its process id. */
static int is_held_by(const struct seen *s, pid_t pid)
{
    return s->found && strtol(s->label, NULL, 10) == pid;
}

static int wait_stuck(struct crew *c)
{
    const int64_t patience = now_ms() + CREW_PATIENCE_MS;

    while (atomic_load(c->stuck) == 0) {
        pause_ms(1);
        if (now_ms() > patience)
            die("no order has come half way");
    }
    return atomic_load(c->stuck) - 1;
}

/* Look until the lock has gone to another grant. */
static struct seen wait_successor(sqlock *m, int64_t token)
{
    const int64_t patience = now_ms() + CREW_PATIENCE_MS;
    struct seen seen;

    do {
        pause_ms(5);
        seen = list_locks(m);
        if (now_ms() > patience)
            die("the lock of a dead process is not handed on");
    } while (!seen.found || seen.token <= token);
    return seen;
}

/* What was seen of the crash. */
struct crash {
    int shown;       /* 1: as promised; 0: not; -1: the lease was lost before the kill */
    int64_t token;   /* of the killed one */
    int64_t took_ms; /* from the hang to the next grant */
};

static int is_as_promised(const struct seen *before, const struct seen *dead,
                          const struct seen *next, pid_t pid, int64_t got)
{
    const int64_t end = dead->at + dead->left_ms; /* of the lease, in our clock and to a few ms */

    return dead->token == before->token && before->held_ms > ORDER_LEASE_MS && next->found &&
           !is_held_by(next, pid) && got >= end - 50;
}

/* An order hangs for longer than the lease: it is renewed. Its process is killed: the renewals end,
 * and others get in when the lease has run out, not before. */
static struct crash crash_the_stuck_one(struct crew *c, sqlock *m)
{
    const int victim = wait_stuck(c);
    const pid_t pid = c->pid[victim];
    const int64_t stuck_at = now_ms();
    struct seen before, dead, next;
    struct crash out = {0};
    int64_t got;

    printf("   Half of the stock is sold, and an order of worker %d hangs:\n\n", victim + 1);
    operator_types("ls");
    pause_ms(STUCK_MS);
    before = list_locks(m);
    operator_looks_again("1.5 s later");
    crew_kill(c, victim);
    dead = list_locks(m);
    operator_looks_again("after kill -9");
    if (!is_held_by(&before, pid) || !is_held_by(&dead, pid)) {
        printf("\n   The machine stood still for longer than a lease: the lock was lost before "
               "the kill. Once more.\n\n");
        return (struct crash){.shown = -1};
    }
    next = wait_successor(m, before.token);

    got = next.at - next.held_ms;
    out.shown = is_as_promised(&before, &dead, &next, pid, got);
    out.token = before.token;
    out.took_ms = got - stuck_at;
    printf(
        "\n   Worker %d hung for longer than its lease of %d ms: the lease was renewed. After the "
        "kill\n   it had %lld ms left, and %lld ms after it %s held the lock, token %lld.%s\n",
        victim + 1, ORDER_LEASE_MS, (long long)dead.left_ms, (long long)(got - dead.at), next.label,
        (long long)next.token, out.shown ? "" : " THIS IS NOT AS PROMISED.");
    return out;
}

/* ---- the two ways ---------------------------------------------------------------------------- */

struct outcome {
    const char *way;
    struct shop_books books;
    int orders;     /* answered */
    int fenced;     /* tries that were stopped by the token */
    int longest_ms; /* for an order */
    int64_t took_ms;
    int failed; /* workers that ended badly */
    struct crash crash;
    int dead_written; /* rows of the killed one's last order */
};

static struct outcome hold_sale(const char *way, const char *path, int with_lock)
{
    struct outcome out = {.way = way};
    struct crew crew;
    sqlite3 *db = shop_open(path);
    sqlock *m = NULL;
    int64_t since;

    shop_fill(db, STOCK);
    shop_close(db); /* before the fork */
    crew_start(&crew, WORKERS, with_lock ? work_under_lock : work_without_lock, path);
    since = now_ms();
    if (with_lock) {
        m = open_manager(path, 0); /* after the fork, for the workers have to open their own */
        out.crash = crash_the_stuck_one(&crew, m);
    }
    out.failed = crew_wait_end(&crew);
    out.took_ms = now_ms() - since;
    sqlock_close(m);
    for (int i = 0; i < crew.size; i++) {
        const int longest = atomic_load(&crew.note[i].longest_ms);

        out.orders += atomic_load(&crew.note[i].orders);
        out.fenced += atomic_load(&crew.note[i].fenced);
        out.longest_ms = longest > out.longest_ms ? longest : out.longest_ms;
    }
    db = shop_open(path);
    out.books = shop_count(db);
    out.dead_written = shop_has_token(db, out.crash.token);
    shop_close(db);
    return out;
}

static void migrate(const char *path)
{
    sqlock_error err = {0};
    char url[300];

    snprintf(url, sizeof url, "sqlite:%s", path);
    if (sqlock_migrate(sqlock_driver_sqlite(), url, NULL, NULL, &err) != 0)
        die("%s", err.text);
}

static int is_whole(const struct outcome *o)
{
    if (o->failed > 0)
        printf("   %d workers ended with an error.\n", o->failed);
    if (strcmp(o->books.damage, "ok") != 0)
        printf("   The file is damaged: %s\n", o->books.damage);
    return o->failed == 0 && strcmp(o->books.damage, "ok") == 0;
}

static int report_without_lock(const struct outcome *o)
{
    const int over = o->books.sold - STOCK;

    printf("   %d units sold of %d: oversold by %d. The stock says %d.\n\n", o->books.sold, STOCK,
           over, o->books.stock);
    return is_whole(o) && over > 0 && o->orders == WORKERS * ORDERS_EACH;
}

static int report_under_lock(const struct outcome *o)
{
    const struct shop_books *b = &o->books;
    const int rose = b->out_of_order == 0 && b->first > 0;
    const int least = (WORKERS - 1) * ORDERS_EACH; /* all but those of the killed worker */

    printf("   The longest that an order took, waiting for the lock included: %d ms.\n",
           o->longest_ms);
    printf("   The killed order is %s.\n",
           o->dead_written ? "in the table"
                           : "not in the table, and its unit was sold to another customer");
    printf("   %d orders are in the table, and the stock is %d.\n", b->sold, b->stock);
    printf("   Tokens of the orders rose all the time, from %lld to %lld: %s.\n",
           (long long)b->first, (long long)b->last, rose ? "yes" : "NO");
    printf("   Tries that were too late and were stopped by their token: %d.\n\n", o->fenced);
    return is_whole(o) && rose && o->crash.shown == 1 && b->sold == STOCK && b->stock == 0 &&
           o->orders >= least && o->orders < WORKERS * ORDERS_EACH;
}

/* ---- tidying up ------------------------------------------------------------------------------ */

/* A script takes a lock by the command and dies. Nobody waits for it; the reaper tidies up. */
static int tidy_up(void)
{
    int ok;

    operator_types("acquire --ttl 200ms 'cart 17' >/dev/null  # by a script, which dies");
    pause_ms(400);
    ok = strstr(operator_types("ls"), " expired ") != NULL;
    ok &= strncmp(operator_types("reap --grace 0"), "cleared 1,", 10) == 0;
    ok &= strstr(operator_types("ls"), "cart 17") == NULL;
    putchar('\n');
    return ok;
}

static void print_row(const struct outcome *o)
{
    printf("%-14s  %6d  %5d  %5d  %8d  %5.1f s\n", o->way, o->orders, o->books.sold, o->books.stock,
           o->books.sold - STOCK, (double)o->took_ms / 1000);
}

int main(int argc, char **argv)
{
    const char *path = crew_folder();
    struct outcome without, with;
    int tries = 0;
    int ok;

    if (argc != 2)
        die("give the path of the command sqlock");
    operator_begin(argv[1], path);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("A flash sale: %d units, %d orders by %d processes, one SQLite file.\n"
           "An order reads the stock, thinks for %d ms, and writes the stock less one.\n\n",
           STOCK, WORKERS * ORDERS_EACH, WORKERS, THINK_MS);
    migrate(path);
    printf("1. Without a lock\n");
    without = hold_sale("without a lock", path, 0);
    ok = report_without_lock(&without);
    printf("2. Every order under a sqlock lease of %d ms, with a crash in the middle\n",
           ORDER_LEASE_MS);
    do
        with = hold_sale("with sqlock", path, 1);
    while (with.crash.shown < 0 && ++tries < 3);
    ok &= report_under_lock(&with);
    printf("3. What dead programs left behind\n");
    ok &= tidy_up();

    printf("way             orders   sold   left  oversold     time\n");
    print_row(&without);
    print_row(&with);
    printf("%35s of which %.1f s: the order that hung, and the rest of its lease\n", "",
           (double)with.crash.took_ms / 1000);
    printf("\n%s\n", ok ? "As promised." : "NOT AS PROMISED.");
    return ok ? 0 : 1;
}
