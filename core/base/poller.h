#ifndef SQLOCK_BASE_POLLER_H
#define SQLOCK_BASE_POLLER_H

/* One descriptor that stands for many: it is readable while one of them is ready. */
int poller_make(void); /* returns the descriptor, or SQLOCK_ESYS */
/* Until poller_remove(): fd is ready for these poll() events. who is what poller_look() finds.
 * Returns 0 or SQLOCK_ESYS. */
int poller_add(int poller, int fd, int events, void *who);
void poller_remove(int poller, int fd);
/* Whose descriptors are ready? Never blocks. Returns how many of `most` it filled in. */
int poller_look(int poller, void **out_who, int most);
void poller_close(int poller);

#endif
