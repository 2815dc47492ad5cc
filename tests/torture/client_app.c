#include "tests/torture/client_app.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/torture/client.h"

struct app_patience app_patience = {.connect_s = 3, .answer_s = 5, .busy_ms = 3000};

static const struct app *const apps[] = {
#ifdef TEST_HAVE_SQLITE
    &client_app_sqlite,
#endif
#ifdef TEST_HAVE_POSTGRES
    &client_app_postgres,
#endif
#ifdef TEST_HAVE_MYSQL
    &client_app_mysql,
#endif
    NULL};

const struct app *app_of(const char *url)
{
    for (size_t i = 0; apps[i] != NULL; i++)
        if (strncmp(url, apps[i]->scheme, strlen(apps[i]->scheme)) == 0)
            return apps[i];
    fprintf(stderr, "client: no database is known for the URL %s\n", url);
    return NULL;
}

/* ---- the application's tables -----------------------------------------------------------------
 */

static void *connect_soon(const struct app *app, const char *url)
{
    const struct timespec pause = {0, 20000000};
    void *native = NULL;

    for (int i = 0; i < 500 && (native = app->connect(url)) == NULL; i++)
        nanosleep(&pause, NULL);
    if (native == NULL)
        fprintf(stderr, "client: nobody answers at %s\n", url);
    return native;
}

static bool run(const struct app *app, void *native, const char *sql)
{
    char why[APP_TEXT];

    if (app->exec(native, sql, NULL) == 0)
        return true;
    app->said(native, why);
    fprintf(stderr, "client: %s: %s\n", sql, why);
    return false;
}

static bool table_new(const struct app *app, void *native, const char *table, const char *columns,
                      uint32_t names)
{
    char sql[512];
    bool fine;

    snprintf(sql, sizeof sql, "DROP TABLE IF EXISTS %s", table);
    fine = run(app, native, sql);
    snprintf(sql, sizeof sql,
             "CREATE TABLE %s (name %s PRIMARY KEY, n %s NOT NULL, %s %s NOT NULL)%s", table,
             app->big, app->big, columns, app->big, app->engine);
    fine = fine && run(app, native, sql);
    for (uint32_t i = 0; i < names && fine; i++) {
        snprintf(sql, sizeof sql, "INSERT INTO %s VALUES (%" PRIu32 ", 0, 0)", table, i);
        fine = run(app, native, sql);
    }
    return fine;
}

bool client_tables(const char *url, uint32_t names)
{
    const struct app *app = app_of(url);
    void *native = app != NULL ? connect_soon(app, url) : NULL;
    bool fine = native != NULL && table_new(app, native, "torture_guarded", "token", names) &&
                table_new(app, native, "torture_rows", "version", names) &&
                table_new(app, native, "torture_cas", "version", names);

    if (native != NULL)
        app->close(native);
    return fine;
}

static bool read_one(const struct app *app, void *native, const char *table, const char *column,
                     uint32_t name, int64_t *out)
{
    char sql[128];

    *out = -1;
    snprintf(sql, sizeof sql, "SELECT %s FROM %s WHERE name = %" PRIu32, column, table, name);
    return app->exec(native, sql, out) == 0 && *out >= 0;
}

static bool read_name(const struct app *app, void *native, uint32_t name, struct client_final *f)
{
    return read_one(app, native, "torture_guarded", "n", name, &f->guarded) &&
           read_one(app, native, "torture_guarded", "token", name, &f->token) &&
           read_one(app, native, "torture_rows", "n", name, &f->row) &&
           read_one(app, native, "torture_cas", "version", name, &f->version) &&
           read_one(app, native, "torture_cas", "n", name, &f->changes);
}

bool client_final(const char *url, uint32_t names, struct client_final *out)
{
    const struct app *app = app_of(url);
    void *native = app != NULL ? connect_soon(app, url) : NULL;
    bool fine = native != NULL;
    char why[APP_TEXT];

    for (uint32_t i = 0; i < names && fine; i++)
        fine = read_name(app, native, i, &out[i]);
    if (native != NULL && !fine) {
        app->said(native, why);
        fprintf(stderr, "client: the final values could not be read: %s\n", why);
    }
    if (native != NULL)
        app->close(native);
    return fine;
}
