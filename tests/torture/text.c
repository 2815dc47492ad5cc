#include "tests/torture/text.h"

#include <stdarg.h>
#include <stdlib.h>

__attribute__((format(printf, 1, 0))) static char *text_of(const char *format, va_list args)
{
    static _Thread_local char texts[TEXTS][TEXT_SIZE];
    static _Thread_local unsigned last;
    char *text = texts[last = (last + 1) % TEXTS];

    vsnprintf(text, TEXT_SIZE, format, args);
    return text;
}

char *text(const char *format, ...)
{
    va_list args;
    char *text;

    va_start(args, format);
    text = text_of(format, args);
    va_end(args);
    return text;
}

bool shell(const char *format, ...)
{
    va_list args;
    bool fine;

    va_start(args, format);
    fine = system(text_of(format, args)) == 0;
    va_end(args);
    return fine;
}
