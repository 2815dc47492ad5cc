/* Opens managers, with drivers of every age. */
#include <string.h>

#include "core/base/text.h"
#include "core/engine/arguments.h"
#include "core/engine/pool.h"
#include "core/sql/requests.h"

/* Connect once, so that the caller learns of a failure now and not at the first acquire. */
static int manager_try_connection(sqlock *m, sqlock_error *err)
{
    struct conn *c;
    int rc;

    mutex_lock(&m->mu);
    rc = pool_take(m, POOL_CALLS, NULL, sqlock_now_us() + m->request_us, &c, err);
    if (rc == 0)
        pool_give(m, c, 0);
    mutex_unlock(&m->mu);
    return rc;
}

int manager_open(const sqlock_driver *driver, const char *url, const sqlock_open_opts *opts,
                 sqlock **out_m, sqlock_error *err)
{
    sqlock_open_opts o;
    sqlock_driver table;
    int rc = check_open_opts(opts, &o, err);

    if (rc == 0)
        rc = check_driver(driver, url, &o, &table, err);
    return rc == 0 ? manager_new(&table, url, &o, out_m, err) : rc;
}

int sqlock_open(const sqlock_driver *driver, const char *url, const sqlock_open_opts *opts,
                sqlock **out_m, sqlock_error *err)
{
    UNCANCELLED;
    sqlock *m = NULL;
    int rc;

    if (out_m == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "open: out_m is NULL");
    *out_m = NULL;
    rc = manager_open(driver, url, opts, &m, err);
    if (rc == 0 && (rc = manager_try_connection(m, err)) != 0)
        sqlock_close(m);
    if (rc != 0) {
        error_prefix(err, "open");
        return rc;
    }
    *out_m = m;
    return 0;
}

void sqlock_close(sqlock *m)
{
    UNCANCELLED;
    if (m == NULL || m->process != sqlock_process_id())
        return;
    manager_stop(m);
    mutex_lock(&m->mu);
    manager_unref_locked(m); /* open handles keep the memory */
}

/* ---- drivers of every release, and their URLs ------------------------------------------------ */

/* The tables of the first release: what every driver has. */
#define TABLE_LEAST   offsetof(sqlock_driver, adopter)
#define ADOPTER_LEAST offsetof(sqlock_adopter, running)
#define DIALECT_LEAST offsetof(sqlock_dialect, placeholder)

static int driver_is_whole(const sqlock_driver *d)
{
    return d->name != NULL && d->schemes != NULL && d->open != NULL && d->close != NULL &&
           d->run != NULL && d->exec != NULL && d->begin != NULL && d->commit != NULL &&
           d->rollback != NULL && d->cancel != NULL && d->dialect != NULL &&
           d->dialect->size >= DIALECT_LEAST;
}

/* Check the slots that the driver says it has. Clear those that it says it lacks. Returns the
 * capability that lacks its slot, or NULL. */
static const char *driver_take_optional(sqlock_driver *d)
{
    if (!(d->caps & SQLOCK_CAP_WHOLE_URL))
        d->whole_url = NULL;
    else if (d->whole_url == NULL)
        return "SQLOCK_CAP_WHOLE_URL";
    if (!(d->caps & SQLOCK_CAP_RUNNING))
        d->running = NULL;
    else if (d->running == NULL)
        return "SQLOCK_CAP_RUNNING";
    if (!(d->caps & SQLOCK_CAP_HOSTS))
        d->hosts = NULL;
    else if (d->hosts == NULL)
        return "SQLOCK_CAP_HOSTS";
    if (!(d->caps & SQLOCK_CAP_HEARS))
        d->hear = NULL;
    else if (d->listen == NULL || d->hear == NULL)
        return "SQLOCK_CAP_HEARS";
    return NULL;
}

/* A driver that knows which database it is on knows it on adopted connections too. */
static int adopter_is_whole(const sqlock_adopter *a, int running)
{
    return a->size >= ADOPTER_LEAST && a->size % sizeof(void *) == 0 && a->adopt != NULL &&
           a->close != NULL && a->tx_state != NULL && a->savepoint != NULL && a->run != NULL &&
           a->run_script != NULL && a->cancel != NULL &&
           (!running || (SQLOCK_HAS_FIELD(a, running) && a->running != NULL));
}

static int driver_take_table(const sqlock_driver *in, sqlock_driver *out, sqlock_error *err)
{
    const char *cap;

    memset(out, 0, sizeof *out);
    if (in == NULL || in->size < TABLE_LEAST || in->size % sizeof(void *) != 0)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the driver is NULL or incomplete");
    memcpy(out, in, in->size < sizeof *out ? in->size : sizeof *out);
    out->size = sizeof *out;
    if (!driver_is_whole(out))
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the driver is NULL or incomplete");
    if ((cap = driver_take_optional(out)) != NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0,
                                "the driver %s claims %s and lacks a function for it", out->name,
                                cap);
    if (out->adopter != NULL && !adopter_is_whole(out->adopter, out->running != NULL))
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the adopter of the driver %s is incomplete",
                                out->name);
    return 0;
}

/* The parameters must be the same in both releases. Otherwise values would be mistaken for
 * others. */
static int driver_check_requests(const sqlock_driver *d, sqlock_error *err)
{
    for (size_t i = 0; i < SQLOCK_STMT_COUNT && i < d->dialect->n_scripts; i++) {
        const sqlock_script *theirs = &d->dialect->scripts[i];
        const struct request_kind *ours = request_kind((sqlock_stmt)i);

        if (strcmp(theirs->name, ours->name) != 0 || strcmp(theirs->params, ours->params) != 0)
            return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                    "the driver %s and the library are from different releases: "
                                    "its request %zu is %s(%s), not %s(%s)",
                                    d->name, i, theirs->name, theirs->params, ours->name,
                                    ours->params);
    }
    return 0;
}

/* Is the URL's scheme, which is its first len bytes, one of the driver's, in upper or lower
 * case? */
static int driver_has_scheme(const sqlock_driver *driver, const char *url, size_t len)
{
    for (const char *at = driver->schemes; *at != '\0'; at += strspn(at, " ")) {
        size_t n = strcspn(at, " "), same = 0;

        while (same < n && same < len && at[same] == text_lower(url[same]))
            same++;
        if (n == len && same == len)
            return 1;
        at += n;
    }
    return 0;
}

static int driver_check_url(const sqlock_driver *driver, const char *url,
                            const sqlock_open_opts *opts, sqlock_error *err)
{
    char shown[40];
    size_t len;

    if ((url == NULL) == (opts->connect == NULL))
        return sqlock_error_set(err, SQLOCK_EINVAL, 0,
                                "no database given: pass either a URL or a connection factory");
    if (url == NULL)
        return 0;
    /* RFC 3986, section 3.1. A keyword string of libpq with a colon in it has no scheme. */
    len = strspn(url, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");
    if (url[len] == ':' && driver_has_scheme(driver, url, len))
        return 0;
    /* show only the scheme: the rest may hold a password */
    return sqlock_error_set(
        err, SQLOCK_EINVAL, 0, "the driver %s does not take the URL's scheme \"%s\" (use %s)",
        driver->name, url[len] == ':' ? text_show(shown, sizeof shown, url, len) : "",
        driver->schemes);
}

int check_table(const sqlock_driver *driver, sqlock_driver *out, sqlock_error *err)
{
    int rc = driver_take_table(driver, out, err);

    return rc == 0 ? driver_check_requests(out, err) : rc;
}

int check_driver(const sqlock_driver *driver, const char *url, const sqlock_open_opts *opts,
                 sqlock_driver *out, sqlock_error *err)
{
    int rc = check_table(driver, out, err);

    return rc == 0 ? driver_check_url(out, url, opts, err) : rc;
}
