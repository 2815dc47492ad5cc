#include "cli/base/text.h"

#include <ctype.h>
#include <inttypes.h>
#include <sqlock/sqlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- numbers --------------------------------------------------------------------------------- */

/* The unit at the beginning of text, and the bytes of its name; 0: there is none. */
static int64_t unit_ms(const char *text, size_t *out_len)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"ms", 1},      {"s", 1000},     {"m", 60000},
                 {"h", 3600000}, {"d", 86400000}, {"w", 604800000}};

    *out_len = strspn(text, "abcdefghijklmnopqrstuvwxyz");
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strlen(units[i].name) == *out_len && memcmp(units[i].name, text, *out_len) == 0)
            return units[i].ms;
    return 0;
}

/* Read a number at the beginning of *text, in thousandths, so that 0.5s and 1.5h need no floating
 * point, which depends on the locale. */
static bool read_thousandths(const char **text, int64_t *out)
{
    int digits = 0, decimals = -1;
    const char *at = *text;

    *out = 0;
    for (; isdigit((unsigned char)*at) || (*at == '.' && decimals < 0); at++) {
        if (*at == '.') {
            decimals = 0;
            continue;
        }
        digits++;
        if (decimals >= 0 && decimals++ >= 3)
            continue;
        if ((*out = *out * 10 + (*at - '0')) > INT64_C(1) << 42)
            return false;
    }
    for (int i = decimals < 0 ? 0 : decimals; i < 3; i++)
        *out *= 10;
    *text = at;
    return digits > 0 && decimals != 0;
}

/* "1h30m": each unit is smaller than the one before it, or a digit was mistyped. */
bool text_duration(const char *text, int64_t *out_ms)
{
    const int64_t most = INT64_MAX / 2; /* so that a sum fits; in thousandths of ms */
    int64_t number, unit, last = INT64_MAX, sum = 0;
    const char *at = text;
    size_t len;

    do {
        if (!read_thousandths(&at, &number))
            return false;
        unit = *at == '\0' && sum == 0 && last == INT64_MAX ? 1000 : unit_ms(at, &len);
        if (unit == 0 || unit >= last || number > most / unit || sum > most - number * unit)
            return false;
        at += *at != '\0' ? len : 0;
        sum += number * unit;
        last = unit;
    } while (*at != '\0');
    *out_ms = sum / 1000;
    return true;
}

const char *text_span(char out[TEXT_DURATION], int64_t ms)
{
    int64_t s = ms / 1000;

    if (ms < 0)
        snprintf(out, TEXT_DURATION, "0s");
    else if (ms < 10000 && ms % 1000 != 0)
        snprintf(out, TEXT_DURATION, "%" PRId64 ".%ds", s, (int)(ms % 1000 / 100));
    else if (s < 60)
        snprintf(out, TEXT_DURATION, "%" PRId64 "s", s);
    else if (s < 3600)
        snprintf(out, TEXT_DURATION, "%" PRId64 "m%ds", s / 60, (int)(s % 60));
    else if (s < 86400)
        snprintf(out, TEXT_DURATION, "%" PRId64 "h%dm", s / 3600, (int)(s % 3600 / 60));
    else
        snprintf(out, TEXT_DURATION, "%" PRId64 "d%dh", s / 86400, (int)(s % 86400 / 3600));
    return out;
}

bool text_number(const char *text, int64_t min, int64_t max, int64_t *out)
{
    int64_t n = 0;

    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (!isdigit((unsigned char)*text) || n > (INT64_MAX - 9) / 10)
            return false;
        n = n * 10 + (*text - '0');
    }
    *out = n;
    return n >= min && n <= max;
}

/* ---- owners ---------------------------------------------------------------------------------- */

static const char hex[] = "0123456789abcdef";

const char *text_owner(char out[TEXT_OWNER], const unsigned char *owner)
{
    for (size_t i = 0; i < SQLOCK_OWNER_SIZE; i++) {
        out[2 * i] = hex[owner[i] >> 4];
        out[2 * i + 1] = hex[owner[i] & 15];
    }
    out[2 * SQLOCK_OWNER_SIZE] = '\0';
    return out;
}

static int hex_digit(char c)
{
    const char *at = c != '\0' ? strchr(hex, tolower((unsigned char)c)) : NULL;

    return at != NULL ? (int)(at - hex) : -1;
}

bool text_owner_read(const char *text, unsigned char *out)
{
    for (size_t i = 0; i < SQLOCK_OWNER_SIZE; i++) {
        int high = hex_digit(text[2 * i]), low = high < 0 ? -1 : hex_digit(text[2 * i + 1]);

        if (low < 0)
            return false;
        out[i] = (unsigned char)(high << 4 | low);
    }
    return text[2 * SQLOCK_OWNER_SIZE] == '\0';
}

/* ---- moments, labels ------------------------------------------------------------------------- */

const char *text_moment(char out[TEXT_MOMENT], int64_t s)
{
    time_t then = (time_t)s;
    struct tm tm;

    if (gmtime_r(&then, &tm) == NULL || strftime(out, TEXT_MOMENT, "%Y-%m-%d %H:%M:%SZ", &tm) == 0)
        out[0] = '\0';
    return out;
}

const char *text_moment_ago(char out[TEXT_MOMENT], int64_t ago_ms)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return text_moment(out, ((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 - ago_ms) / 1000);
}

bool text_label(const char *label, int64_t *out_pid, char out_host[256], const char **out_rest)
{
    const char *at = strchr(label, '@');
    size_t digits = strspn(label, "0123456789"), host;

    if (at == NULL || digits == 0 || digits > 18 || label + digits != at)
        return false;
    *out_pid = strtoll(label, NULL, 10);
    host = strcspn(at + 1, " ");
    if (host > 255)
        return false;
    memcpy(out_host, at + 1, host);
    out_host[host] = '\0';
    *out_rest = at[1 + host] == ' ' ? at + 2 + host : at + 1 + host;
    return true;
}
