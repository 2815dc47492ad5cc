/* Messages for people, on stderr: "sqlock: ..." in one write, so that lines of processes on one
 * terminal do not mix. A question mark replaces each byte that cannot be shown. */
#ifndef SQLOCK_CLI_SAY_H
#define SQLOCK_CLI_SAY_H

#include <stdbool.h>
#include <stddef.h>

enum say_level {
    SAY_ERROR = 0, /* why it fails; also with -q */
    SAY_NOTE = 1,  /* what a user should know */
    SAY_MORE = 2   /* with -v */
};

/* Print more from now on: -1 for -q, +1 for -v. */
void say_more(int by);
/* From now on each message is a line of JSON:
 * {"level":"error","code":"SQLOCK_EDENIED","text":"..."}. The level may be "note". The code is
 * there if the library gave one. */
void say_as_json(void);
/* -q: print the requested data, but no confirmation that all went well. */
bool say_is_quiet(void);
/* -v */
bool say_is_loud(void);
/* Replace this text by asterisks in all later messages. It must live as long as the process. False:
 * it is not hidden, because there are too many, or it has less than three bytes, which may occur
 * anywhere. */
bool say_hide(const char *secret, size_t len);
/* From now on say() never waits for the reader of standard error (a full pipe, a stopped terminal).
 * What cannot be written is kept while there is room, and is written before the next message. */
void say_without_waiting(void);
/* Write what was kept, if that is possible now. say_end(): if it is possible within a second. */
void say_again(void);
void say_end(void);
/* The descriptor that this opened, or -1. */
int say_fd(void);
void say(enum say_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, with the library's name of the code. */
void say_code(enum say_level level, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
