/* make bench: what a lock costs, beside what the database alone costs.
 *
 *   bench [--runs N] [--ms N] [--leases N] [--only PART] [--instructions OURS/ALL] [--json FILE]
 * NAME[:PID]=URL... bench --pairs N NAME=URL bench --port
 *
 * Tables on stdout, the same figures in FILE. The second form makes N pairs on one thread, and
 * measures nothing: instructions.sh counts what they take. The third prints a
 * port that is free, the fourth the peers that it knows, the fifth locks something once. */
#include <arpa/inet.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <sqlock/migrate.h>

#include "bench.h"
#include "core/sql/texts.h"

#define LEASES_OF_LOOK 1000
#define ARGS_MAX       16

static const struct bench_client *const clients[] = {
#ifdef BENCH_HAVE_SQLITE
    &bench_sqlite,
#endif
#ifdef BENCH_HAVE_POSTGRES
    &bench_postgres,
#endif
#ifdef BENCH_HAVE_MYSQL
    &bench_mysql,
#endif
    NULL,
};

static const struct bench_client *find_client(const char *name)
{
    for (const struct bench_client *const *c = clients; *c != NULL; c++)
        if (strcmp((*c)->database, name) == 0)
            return *c;
    bench_die("there is no database called %s here", name);
}

/* NAME=URL, or NAME:PID=URL. Changes the text. */
static struct bench_db read_db(char *text)
{
    struct bench_db db = {.name = text};
    char *eq = strchr(text, '='), *colon;

    if (eq == NULL)
        bench_die("%s is not NAME=URL", text);
    *eq = '\0';
    db.url = eq + 1;
    if ((colon = strchr(text, ':')) != NULL) {
        *colon = '\0';
        db.pid = atoi(colon + 1);
    }
    return db;
}

static json_t *visit(struct bench_db db, const struct bench_settings *s)
{
    struct texts *texts = NULL;
    sqlock_error err;
    json_t *out = NULL;

    db.client = find_client(db.name);
    db.driver = db.client->driver();
    if (db.client->create != NULL)
        db.client->create(db.url);
    if (sqlock_migrate(db.driver, db.url, NULL, NULL, &err) != 0 ||
        texts_render(db.driver->dialect, NULL, NULL, &texts, &err) != 0)
        bench_die("%s", err.text);
    db.scripts = texts_scripts(texts);
    if (s->pairs > 0)
        bench_pairs(&db, s->pairs);
    else
        out = bench_measure(&db, s);
    texts_free(texts);
    return out;
}

/* The peers first: the databases are measured beside them. */
static void visit_all(char **args, int n, const struct bench_settings *s, json_t *out)
{
    struct bench_db databases[ARGS_MAX];
    int n_databases = 0;

    if (n > ARGS_MAX)
        bench_die("too many servers");
    for (int i = 0; i < n; i++) {
        databases[n_databases] = read_db(args[i]);
        if (!bench_peer_add(&databases[n_databases]))
            n_databases++;
    }
    for (int i = 0; i < n_databases; i++)
        json_array_append_new(out, visit(databases[i], s));
}

static void try_peer(char *text)
{
    const struct bench_db db = read_db(text);

    if (!bench_peer_add(&db))
        bench_die("there is no peer called %s here", db.name);
    bench_peer_try(bench_peer(0));
    exit(0);
}

static void print_peers(void)
{
    bench_peers_print();
    exit(0);
}

static void print_free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (bind(fd, (struct sockaddr *)&at, len) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) != 0)
        bench_die("there is no free port");
    printf("%d\n", ntohs(at.sin_port));
    exit(0);
}

static void read_options(int argc, char **argv, struct bench_settings *s)
{
    static const struct option options[] = {
        {"runs", required_argument, NULL, 'r'},   {"ms", required_argument, NULL, 'm'},
        {"leases", required_argument, NULL, 'l'}, {"only", required_argument, NULL, 'o'},
        {"pairs", required_argument, NULL, 'p'},  {"instructions", required_argument, NULL, 'i'},
        {"json", required_argument, NULL, 'j'},   {"command", required_argument, NULL, 'c'},
        {"peers", no_argument, NULL, 'e'},        {"try", required_argument, NULL, 't'},
        {"port", no_argument, NULL, 'P'},         {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 'r')
            s->runs = atoi(optarg);
        else if (c == 'm')
            s->ms = atoi(optarg);
        else if (c == 'l')
            s->leases = atoi(optarg);
        else if (c == 'o')
            s->only = optarg;
        else if (c == 'p')
            s->pairs = atoi(optarg);
        else if (c == 'i')
            sscanf(optarg, "%lf/%lf", &s->instructions, &s->all_instructions);
        else if (c == 'j')
            s->json = optarg;
        else if (c == 'c')
            s->command = optarg;
        else if (c == 'e')
            print_peers();
        else if (c == 't')
            try_peer(optarg);
        else if (c == 'P')
            print_free_port();
        else
            exit(64);
    }
    if (s->leases == 0)
        s->leases = s->ms < BENCH_LOOK_MS ? LEASES_OF_LOOK : BENCH_LEASES;
    if (s->runs < 1 || s->runs > BENCH_RUNS_MAX || s->ms < 10 || s->leases < 1 || optind == argc)
        bench_die("usage: bench [--runs 1..%d] [--ms 10..] [--leases N] [--only PART] [--json "
                  "FILE] NAME=URL...",
                  BENCH_RUNS_MAX);
}

static void print_head(const struct bench_settings *s)
{
    if (s->pairs > 0)
        return;
    printf(
        "Acquire and release, each client its own lock; medians of %d runs of %d ms each way, run\n"
        "in turns. n: clients, or clients of a process x processes. slow: pairs of the slowest\n"
        "client, of the mean. stmts, commits: what the server does for a pair. cpu us, server: "
        "CPU\n"
        "time of a pair, of the clients and of the server. ratio: of the first way to this one, "
        "the\n"
        "median of the %d, with the least and the most.\n\n",
        s->runs, s->ms, s->runs);
    bench_print_head();
}

int main(int argc, char **argv)
{
    struct bench_settings s = {.runs = 5, .ms = 1000};
    json_t *all = json_object(), *databases = json_array();

    read_options(argc, argv, &s);
    print_head(&s);
    visit_all(argv + optind, argc - optind, &s, databases);
    json_object_set_new(all, "databases", databases);
    if (s.pairs == 0)
        json_object_set_new(all, "figures", bench_figures());
    if (s.json != NULL && json_dump_file(all, s.json, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) != 0)
        bench_die("%s cannot be written", s.json);
    json_decref(all);
    return 0;
}
