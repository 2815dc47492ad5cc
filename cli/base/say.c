#include "cli/base/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/base/shown.h"

/* The process's own: set while options are read, before anything else runs. */
static int loudness = SAY_NOTE;

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

static void hide(char *text, size_t len)
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

bool say_is_quiet(void)
{
    return loudness < SAY_NOTE;
}

void say(enum say_level level, const char *format, ...)
{
    char line[2048] = "sqlock: ";
    size_t begin = strlen(line), len;
    va_list args;

    if ((int)level > loudness)
        return;
    va_start(args, format);
    vsnprintf(line + begin, sizeof line - begin - 1, format, args);
    va_end(args);
    hide(line + begin, strlen(line + begin));
    /* Labels and names come from others: no escape sequences for this terminal. */
    len = strlen(line);
    for (size_t i = begin, n; i<len; i += n> 0 ? n : 1)
        if ((n = shown_char(line + i, len - i)) == 0)
            line[i] = '?';
    line[len] = '\n';
    if (write(STDERR_FILENO, line, len + 1) < 0)
        return; /* nobody listens: there is nowhere else to say so */
}
