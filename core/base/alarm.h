#ifndef SQLOCK_BASE_ALARM_H
#define SQLOCK_BASE_ALARM_H

#include <stdint.h>

/* An alarm is a descriptor that becomes readable at a time of the deadline clock. It does so even
 * if the machine slept through that time, and whatever this process is doing. */
int alarm_make(void); /* returns the descriptor, or SQLOCK_ESYS */
/* at: microseconds of sqlock_now_us(). 0: fire at once, and stay readable. TIME_NEVER: turn it
 * off. */
void alarm_set(int fd, int64_t at);
/* Wait until the alarm fires or wake_fd is set; clears wake_fd. */
void alarm_wait(int fd, int wake_fd);
void alarm_close(int fd);

#endif
