/* The hosts of a URL. Only one of several servers grants at a time, and which one it is changes. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/engine/hosts.h"
#include "core/engine/server.h"

#define HOSTS_MAX      64
#define HOST_LEAST_US  200000 /* a host's least share: enough to connect across a continent */
#define SILENT_US      100000 /* no answer for so long: the host has fallen silent */
#define OTHERS_FROM_US 500000 /* what a request may take before it leaves time for others */

struct walk {
    uint64_t tried;     /* bit i: host i was tried in this round */
    uint64_t silent;    /* ... and used up its time */
    uint64_t overtaken; /* ... and was overtaken: it will do if no other host does */
    uint64_t described; /* its failure is in text */
    int last_resort;    /* all were tried: an overtaken one will do */
    int may_pass;       /* some failure may go away by itself */
    sqlock_error failure;
    char text[1024];
};

int hosts_count(sqlock *m, sqlock_error *err)
{
    sqlock_hosts hosts = {.size = sizeof hosts, .n = 1};
    sqlock_error own = {0};

    m->n_hosts = 1;
    if (m->driver->hosts == NULL || m->url == NULL)
        return 0;
    if (m->driver->hosts(m->url, &hosts, &own) != 0)
        return error_give(err, &own);
    if (hosts.n > HOSTS_MAX)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the URL names more than %d hosts",
                                HOSTS_MAX);
    m->n_hosts = hosts.n > 1 ? hosts.n : 1;
    m->host_us = hosts.each_us;
    return 0;
}

/* A bit for each host. */
static uint64_t hosts_all(const sqlock *m)
{
    assert(m->n_hosts >= 1 && m->n_hosts <= HOSTS_MAX);
    return m->n_hosts < 64 ? (UINT64_C(1) << m->n_hosts) - 1 : UINT64_MAX;
}

/* The end of one host's time, by the limit that the URL sets for each. */
static int64_t hosts_limit(const sqlock *m, int64_t end)
{
    return m->host_us > 0 ? time_min(end, sqlock_now_us() + m->host_us) : end;
}

/* The first host that was not tried. The search begins with the one that answered last. */
static uint32_t hosts_pick(sqlock *m, const struct walk *w)
{
    uint32_t host;

    assert(w->tried != hosts_all(m)); /* the search below would not end */
    mutex_lock(&m->mu);
    host = m->host;
    mutex_unlock(&m->mu);
    while (w->tried >> host & 1)
        host = (host + 1) % m->n_hosts;
    return host;
}

/* The longest time for one host, so that each host after it has as much. */
static int64_t hosts_share(const sqlock *m, const struct walk *w, int64_t deadline)
{
    int64_t now = sqlock_now_us(), part;
    uint32_t hosts = 0;

    for (uint32_t i = 0; i < m->n_hosts; i++)
        hosts += !(w->tried >> i & 1);
    assert(hosts > 0);
    part = (deadline - now) / hosts;
    part = part > HOST_LEAST_US ? part : HOST_LEAST_US;
    return hosts_limit(m, time_min(deadline, now + part));
}

static void hosts_answered(sqlock *m, uint32_t host)
{
    assert(host < m->n_hosts);
    mutex_lock(&m->mu);
    m->host = host;
    mutex_unlock(&m->mu);
}

/* Begin the next walk behind this host, unless another thread has found one that answers. */
static void hosts_pass_over(sqlock *m, uint32_t host)
{
    mutex_lock(&m->mu);
    if (m->host == host)
        m->host = (host + 1) % m->n_hosts;
    mutex_unlock(&m->mu);
}

/* The cause is the caller, not this server. All hosts would give the same error. */
static int failure_is_callers(const sqlock_error *err)
{
    return err->code == SQLOCK_ECANCELLED || err->code == SQLOCK_EINVAL ||
           err->code == SQLOCK_ENOMEM || err->code == SQLOCK_ESYS || err->code == SQLOCK_EFORK;
}

/* Another try may help: the server may come back, or the replica may be promoted. */
static int failure_may_pass(const sqlock_error *err)
{
    return (err->flags & SQLOCK_RETRY) || err->code == SQLOCK_ETIMEOUT ||
           err->code == SQLOCK_EREADONLY;
}

/* Which of several failures to report. First comes one that people must fix: wrong login, wrong
 * database. Next is a server that may come back. Last is a replica. */
static int failure_rank(const sqlock_error *err)
{
    if (err->code == 0)
        return 0;
    if (err->code == SQLOCK_EREADONLY)
        return 1;
    if (failure_may_pass(err))
        return 3;
    return err->code == SQLOCK_EDENIED || err->code == SQLOCK_EUNREACH ? 4 : 2;
}

static void hosts_note(struct walk *w, uint32_t host, const sqlock_error *err)
{
    size_t len = strlen(w->text);

    w->may_pass |= failure_may_pass(err);
    if (failure_rank(err) > failure_rank(&w->failure))
        w->failure = *err;
    if (!(w->described >> host & 1) && strstr(w->text, err->text) == NULL)
        snprintf(w->text + len, sizeof w->text - len, "%shost %u: %s", len > 0 ? "; " : "",
                 host + 1, err->text);
    w->described |= UINT64_C(1) << host;
}

/* When all were tried: try again those that used up their time, if there is time left. Also try
 * those that were overtaken by a server that does not answer. */
static int hosts_go_on(const sqlock *m, struct walk *w, int64_t deadline)
{
    const uint64_t all = hosts_all(m);

    assert((w->tried & ~all) == 0 && (w->silent & ~w->tried) == 0);
    if (sqlock_now_us() >= deadline)
        return 0;
    if (w->tried != all)
        return 1;
    w->tried &= ~(w->silent | w->overtaken);
    w->silent = w->overtaken = 0;
    w->last_resort = 1;
    return w->tried != all;
}

/* The failure of a whole walk. A caller that waits tries again if that can help. */
static int hosts_describe(const struct walk *w, sqlock_error *err)
{
    unsigned again = w->may_pass ? SQLOCK_RETRY : 0;
    sqlock_error whole;

    assert(w->failure.code != 0); /* it would look like a success */
    sqlock_error_set(&whole, w->failure.code, w->failure.flags | again, "%s", w->text);
    memcpy(whole.sqlstate, w->failure.sqlstate, sizeof whole.sqlstate);
    whole.native = w->failure.native;
    return error_give(err, &whole);
}

int hosts_walk(sqlock *m, hosts_visit *visit, void *arg, int64_t deadline, sqlock_error *err)
{
    struct walk w = {0};

    if (m->n_hosts <= 1)
        return visit(arg, 0, 1, hosts_limit(m, deadline), err);
    do {
        uint32_t host = hosts_pick(m, &w);
        int64_t until = hosts_share(m, &w, deadline);
        sqlock_error own = {0};
        int rc = visit(arg, host + 1, w.last_resort, until, &own);

        if (rc == 0) {
            hosts_answered(m, host);
            return 0;
        }
        if (failure_is_callers(&own)) {
            error_prefix(&own, "host %u", host + 1);
            return error_give(err, &own);
        }
        hosts_pass_over(m, host);
        w.tried |= UINT64_C(1) << host;
        if (rc == HOST_OVERTAKEN)
            w.overtaken |= UINT64_C(1) << host;
        if (sqlock_now_us() >= until)
            w.silent |= UINT64_C(1) << host;
        hosts_note(&w, host, &own);
    } while (hosts_go_on(m, &w, deadline));
    return hosts_describe(&w, err);
}

int64_t hosts_room(const sqlock *m, int64_t now, int64_t deadline)
{
    int64_t half = (deadline - now) / 2;

    return m->n_hosts <= 1
               ? deadline
               : time_min(deadline, now + (half > OTHERS_FROM_US ? half : OTHERS_FROM_US));
}

/* Its address may lead to another one next time. */
static int server_was_demoted(const sqlock *m, const sqlock_error *err)
{
    return err->code == SQLOCK_EREADONLY && !manager_has_one_writer(m);
}

/* The host's other idle connections are closed, because each would take as long to fail. */
void hosts_failed(sqlock *m, const struct conn *c, int64_t sent, sqlock_error *err)
{
    int64_t long_enough = time_min(SILENT_US, m->request_us / 2);
    int silent = err->code == SQLOCK_ETIMEOUT && (err->flags & SQLOCK_RECONNECT) &&
                 sqlock_now_us() - sent >= long_enough;

    if ((m->n_hosts <= 1 || !silent) && !server_was_demoted(m, err))
        return;
    err->flags |= SQLOCK_RETRY | SQLOCK_RECONNECT;
    if (m->n_hosts <= 1)
        return;
    mutex_unlock(&m->mu);
    hosts_pass_over(m, c->host);
    server_leave(m, c);
    mutex_lock(&m->mu);
}
