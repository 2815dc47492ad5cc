#include "cli/base/say.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/base/shown.h"

/* Of the whole process: set while options are read, before anything else runs. */
static int loudness = SAY_NOTE;
static bool as_json;

enum { SECRETS_MAX = 8 };

static struct {
    const char *text;
    size_t len;
} secrets[SECRETS_MAX];
static size_t n_secrets;

bool say_hide(const char *secret, size_t len)
{
    if (len < 3 || n_secrets == SECRETS_MAX)
        return false;
    secrets[n_secrets].text = secret;
    secrets[n_secrets++].len = len;
    return true;
}

static void secrets_hide(char *text, size_t len)
{
    for (size_t i = 0; i < n_secrets; i++) {
        char *at = text;

        while ((at = memmem(at, len - (size_t)(at - text), secrets[i].text, secrets[i].len)) !=
               NULL)
            memset(at, '*', secrets[i].len);
    }
}

void say_more(int by)
{
    loudness += by;
    if (loudness < SAY_ERROR)
        loudness = SAY_ERROR;
}

bool say_is_loud(void)
{
    return loudness >= SAY_MORE;
}

void say_as_json(void)
{
    as_json = true;
}

bool say_is_quiet(void)
{
    return loudness < SAY_NOTE;
}

/* ---- writing --------------------------------------------------------------------------------- */

enum { KEPT_MAX = 4096, END_MS = 1000 }; /* a pipe takes that many bytes whole, or none */

static struct {
    int fd;
    bool impatient;
    char kept[KEPT_MAX];
    size_t n_kept;
} out = {.fd = STDERR_FILENO};

/* Open a file description of our own, because O_NONBLOCK on the shared one would affect other
 * processes. A plain file must keep its shared position, and needs none: it never blocks. */
void say_without_waiting(void)
{
    struct stat st;
    int fd = -1;

    if (fstat(STDERR_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
        fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    out.fd = fd >= 0 ? fd : STDERR_FILENO;
    out.impatient = true;
}

int say_fd(void)
{
    return out.fd != STDERR_FILENO ? out.fd : -1;
}

/* If the description is shared (a socket, another user's pipe), poll() has to do. */
static ssize_t say_put(const char *text, size_t len, int wait_ms)
{
    struct pollfd writable = {.fd = out.fd, .events = POLLOUT};
    ssize_t n;

    if (out.impatient && poll(&writable, 1, wait_ms) == 0) {
        errno = EAGAIN;
        return -1;
    }
    n = out.impatient ? send(out.fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL) : -1;
    return n >= 0 || (out.impatient && errno != ENOTSOCK) ? n : write(out.fd, text, len);
}

static void write_kept(int wait_ms)
{
    ssize_t n;

    if (out.n_kept == 0)
        return;
    n = say_put(out.kept, out.n_kept, wait_ms);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        n = (ssize_t)out.n_kept; /* no one reads it, and there is nowhere else to report that */
    if (n > 0) {
        out.n_kept -= (size_t)n;
        memmove(out.kept, out.kept + n, out.n_kept);
    }
}

void say_again(void)
{
    write_kept(0);
}

void say_end(void)
{
    write_kept(END_MS);
}

static void write_line(const char *line, size_t len)
{
    ssize_t n = -1;

    write_kept(0);
    errno = EAGAIN;
    if (out.n_kept == 0)
        n = say_put(line, len, 0);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return; /* no one reads it */
    n = n > 0 ? n : 0;
    if (out.n_kept + len - (size_t)n <= sizeof out.kept) {
        memcpy(out.kept + out.n_kept, line + n, len - (size_t)n);
        out.n_kept += len - (size_t)n;
    }
}

static bool put_json(enum say_level level, const char *code, const char *text)
{
    json_t *json = json_pack("{s:s, s:s*, s:s}", "level", level == SAY_ERROR ? "error" : "note",
                             "code", code, "text", text);
    char *line = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
    size_t len = line != NULL ? strlen(line) : 0;

    json_decref(json);
    if (line == NULL)
        return false;
    line[len] = '\n'; /* in the place of the NUL */
    write_line(line, len + 1);
    free(line);
    return true;
}

__attribute__((format(printf, 3, 0))) static void say_args(enum say_level level, const char *code,
                                                           const char *format, va_list args)
{
    char line[2048] = "sqlock: ";
    size_t begin = strlen(line), len;

    vsnprintf(line + begin, sizeof line - begin - 1, format, args);
    secrets_hide(line + begin, strlen(line + begin));
    /* Labels and names come from others: no escape sequences for this terminal. */
    len = strlen(line);
    for (size_t i = begin, n; i<len; i += n> 0 ? n : 1)
        if ((n = shown_char(line + i, len - i)) == 0)
            line[i] = '?';
    if (as_json && put_json(level, code, line + begin))
        return;
    line[len] = '\n';
    write_line(line, len + 1);
}

void say(enum say_level level, const char *format, ...)
{
    va_list args;

    if ((int)level > loudness)
        return;
    va_start(args, format);
    say_args(level, NULL, format, args);
    va_end(args);
}

void say_code(enum say_level level, const char *code, const char *format, ...)
{
    va_list args;

    if ((int)level > loudness)
        return;
    va_start(args, format);
    say_args(level, code, format, args);
    va_end(args);
}
