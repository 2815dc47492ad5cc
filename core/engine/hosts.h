#ifndef SQLOCK_ENGINE_HOSTS_H
#define SQLOCK_ENGINE_HOSTS_H

#include "core/engine/manager.h"

/* How many hosts the URL names, and how long one of them may take. Once, before the first walk. */
int hosts_count(sqlock *m, sqlock_error *err);

/* A server that another one has overtaken, which the manager has met: it grants only if no other
 * host serves (last_resort). *err is filled. */
#define HOST_OVERTAKEN 1
/* Connect to this host, as sqlock_conn_opts says it, until then at the latest. Returns 0, a code,
 * or HOST_OVERTAKEN. Unless it returns 0 nothing is left open. */
typedef int hosts_visit(void *arg, uint32_t host, int last_resort, int64_t until,
                        sqlock_error *err);
/* Visit one host after the other until one serves: first the one that answered last. Each has its
 * part of the time that is left. What is wrong with the caller ends it. */
int hosts_walk(sqlock *m, hosts_visit *visit, void *arg, int64_t deadline, sqlock_error *err);

/* Until when a request may go on: another host is to have its time. */
int64_t hosts_room(const sqlock *m, int64_t deadline);
/* A request that was sent at that time has failed with err. If its host has fallen silent, or
 * cannot be written to any more, the next walk begins behind it; and err says to open anew. */
void hosts_failed(sqlock *m, const struct conn *c, int64_t sent, sqlock_error *err);

#endif
