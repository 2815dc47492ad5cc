#ifndef SQLOCK_ENGINE_HOSTS_H
#define SQLOCK_ENGINE_HOSTS_H

#include "core/engine/manager.h"

/* Learn how many hosts the URL names, and how long one of them may take. Called once, before the
 * first walk. */
int hosts_count(sqlock *m, sqlock_error *err);

/* The manager has met another server that has overtaken this one. This one grants only if no other
 * host serves (last_resort). *err is filled. */
#define HOST_OVERTAKEN 1
/* Connect to this host (as in sqlock_conn_opts) until that time at the latest. Returns 0, a code,
 * or HOST_OVERTAKEN. Nothing is left open unless it returns 0. */
typedef int hosts_visit(void *arg, uint32_t host, int last_resort, int64_t until,
                        sqlock_error *err);
/* Visit one host after the other until one serves. The one that answered last comes first, and each
 * has its share of the time that is left. A failure that the caller caused ends the walk. */
int hosts_walk(sqlock *m, hosts_visit *visit, void *arg, int64_t deadline, sqlock_error *err);

/* Until when a request that is sent now may go on, so that there is time left for another host. */
int64_t hosts_room(const sqlock *m, int64_t now, int64_t deadline);
/* A request that was sent at that time has failed with err. If its host has fallen silent or has
 * become read-only, the next walk begins behind it, and err says to reconnect. m->mu is held, and
 * is released meanwhile. */
void hosts_failed(sqlock *m, const struct conn *c, int64_t sent, sqlock_error *err);

#endif
