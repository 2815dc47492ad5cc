/* A driver of sqlock for leases only, made outside of its tree. URLs are small:/absolute/path. */
#ifndef SMALL_H
#define SMALL_H

#include <sqlock/sqlock.h>

/* Static: never free it. A sqlock_driver has no other way in than a function like this one. */
const sqlock_driver *sqlock_driver_small(void);

#endif
