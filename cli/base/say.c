#include "cli/base/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The process's own: set while options are read, before anything else runs. */
static int loudness = SAY_NOTE;

void say_more(int by)
{
    loudness += by;
    if (loudness < SAY_ERROR)
        loudness = SAY_ERROR;
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
    /* Labels and names come from others: no escape sequences for this terminal. */
    len = strlen(line);
    for (size_t i = begin; i < len; i++)
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
            line[i] = '?';
    line[len] = '\n';
    if (write(STDERR_FILENO, line, len + 1) < 0)
        return; /* nobody listens: there is nowhere else to say so */
}
