#ifndef SQLOCK_BASE_ALARM_H
#define SQLOCK_BASE_ALARM_H

#include <stdint.h>

/* A descriptor that becomes readable at a time of the deadline clock, also if the machine slept
 * through it and whatever this process is doing. */
int alarm_make(void); /* the descriptor, or SQLOCK_ESYS */
/* at: microseconds of sqlock_now_us(); 0: at once, and for good; TIME_NEVER: not. */
void alarm_set(int fd, int64_t at);
/* Wait until the alarm fires or wake_fd is set; clears wake_fd. */
void alarm_wait(int fd, int wake_fd);
void alarm_close(int fd);

#endif
