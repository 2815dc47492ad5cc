#include "tests/torture/client_app.h"

#include <inttypes.h>
#include <stdarg.h>
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

/* ---- the application's tables ---------------------------------------------------------------- */

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

/* A statement and its number, if it has one. */
__attribute__((format(printf, 4, 5))) static bool run(const struct app *app, void *native,
                                                      int64_t *out, const char *format, ...)
{
    char sql[512], why[APP_TEXT];
    va_list args;

    va_start(args, format);
    vsnprintf(sql, sizeof sql, format, args);
    va_end(args);
    if (app->exec(native, sql, out) == 0)
        return true;
    app->said(native, why);
    fprintf(stderr, "client: %s: %s\n", sql, why);
    return false;
}

static bool table_new(const struct app *app, void *native, const char *table, const char *column,
                      uint32_t names)
{
    bool fine = run(app, native, NULL, "DROP TABLE IF EXISTS %s", table) &&
                run(app, native, NULL,
                    "CREATE TABLE %s (name %s PRIMARY KEY, n %s NOT NULL, %s %s NOT NULL)%s", table,
                    app->big, app->big, column, app->big, app->engine);

    for (uint32_t i = 0; i < names && fine; i++)
        fine = run(app, native, NULL, "INSERT INTO %s VALUES (%" PRIu32 ", 0, 0)", table, i);
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

bool client_final(const char *url, uint32_t names, struct check_row *out)
{
    const struct app *app = app_of(url);
    void *native = app != NULL ? connect_soon(app, url) : NULL;
    bool fine = native != NULL;

    for (uint32_t i = 0; i < names && fine; i++) {
        const struct {
            const char *what;
            int64_t *to;
        } numbers[] = {{"n FROM torture_guarded", &out[i].guarded},
                       {"token FROM torture_guarded", &out[i].token},
                       {"n FROM torture_rows", &out[i].row},
                       {"version FROM torture_cas", &out[i].version},
                       {"n FROM torture_cas", &out[i].changes}};

        for (size_t k = 0; k < sizeof numbers / sizeof *numbers && fine; k++) {
            *numbers[k].to = CHECK_NOT_READ;
            fine = run(app, native, numbers[k].to, "SELECT %s WHERE name = %" PRIu32,
                       numbers[k].what, i) &&
                   *numbers[k].to >= 0;
        }
    }
    if (native != NULL)
        app->close(native);
    return fine;
}
