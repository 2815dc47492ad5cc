/* Messages for people, on stderr: "sqlock: ..." in one write, so that lines of processes that share
 * a terminal do not mix. A question mark stands for each byte that would not be seen. */
#ifndef SQLOCK_CLI_SAY_H
#define SQLOCK_CLI_SAY_H

#include <stdbool.h>
#include <stddef.h>

enum say_level {
    SAY_ERROR = 0, /* why it ends as it does; also with -q */
    SAY_NOTE = 1,  /* what somebody at a terminal should know */
    SAY_MORE = 2   /* with -v */
};

/* How much is told from now on: -1 for -q, +1 for -v. */
void say_more(int by);
/* From now on a message is a line of JSON: {"level":"error","code":"SQLOCK_EDENIED","text":"..."},
 * or "note"; without a code where the library gave none. */
void say_as_json(void);
/* -q: what only says that all went well is not printed either; what was asked for is. */
bool say_is_quiet(void);
/* -v */
bool say_is_loud(void);
/* This text is in no message from now on: asterisks stand in its place. It must live as long.
 * False: not this one. One that is shorter than three bytes could not be told from an accident and
 * is not looked for. */
bool say_hide(const char *secret, size_t len);
/* From now on say() never waits for who reads standard error, or does not (a pipe that is full, a
 * terminal that was stopped): what cannot be written is kept, as long as there is room, and goes
 * before what is said next. */
void say_without_waiting(void);
/* Write what was kept, if that is possible now; and at the end, if it is within a second. */
void say_again(void);
void say_end(void);
/* The descriptor that it has opened for this, or -1. */
int say_fd(void);
void say(enum say_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, of what the library calls `code`. */
void say_code(enum say_level level, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
