/* mysql://user:password@host:port/database?socket=PATH */
#include <stdlib.h>
#include <string.h>

#include "mysql.h"

static int fail(sqlock_error *err, const char *what)
{
    /* never the URL itself: there may be a password in it */
    return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the URL is malformed: %s", what);
}

static int hex(char c)
{
    const char *digits = "0123456789abcdef";
    const char *at = c != '\0' ? strchr(digits, c | 0x20) : NULL;

    return at != NULL ? (int)(at - digits) : -1;
}

/* Decode percent signs in place; 0 when that is not possible. */
static int decode(char *s)
{
    char *out = s;

    for (; *s != '\0'; s++) {
        if (*s == '%') {
            int high = hex(s[1]), low = high < 0 ? -1 : hex(s[2]);

            if (low < 0 || high + low == 0)
                return 0;
            *out++ = (char)(high * 16 + low);
            s += 2;
        } else {
            *out++ = *s;
        }
    }
    *out = '\0';
    return 1;
}

/* Cut s at the first `at`; what follows, or NULL. */
static char *cut(char *s, char at)
{
    char *p = s != NULL ? strchr(s, at) : NULL;

    if (p != NULL)
        *p++ = '\0';
    return p;
}

static int take(char *s, const char **out)
{
    *out = s != NULL && *s != '\0' ? s : NULL;
    return s == NULL || decode(s);
}

static int parse_port(const char *s, unsigned *out)
{
    char *end = NULL;
    unsigned long port = s != NULL ? strtoul(s, &end, 10) : 0;

    if (s == NULL)
        return 1;
    *out = (unsigned)port;
    return *s >= '0' && *s <= '9' && *end == '\0' && port >= 1 && port <= 65535;
}

static int parse_options(char *options, struct my_url *out, sqlock_error *err)
{
    while (options != NULL && *options != '\0') {
        char *next = cut(options, '&');
        char *value = cut(options, '=');

        if (value == NULL || strcmp(options, "socket") != 0)
            return fail(err, "the only option is socket=PATH");
        if (!take(value, &out->to.socket))
            return fail(err, "a percent sign without two hex digits");
        options = next;
    }
    return 0;
}

int my_url_parse(const char *url, struct my_url *out, sqlock_error *err)
{
    const char *rest = strstr(url, "://");
    char *options, *path, *host, *at, *password;

    memset(out, 0, sizeof *out);
    if (rest == NULL)
        return fail(err, "no ://");
    if (strlen(rest + 3) >= sizeof out->text)
        return fail(err, "it is too long");
    strcpy(out->text, rest + 3);
    options = cut(out->text, '?');
    path = cut(out->text, '/');
    at = strrchr(out->text, '@');
    host = at != NULL ? at + 1 : out->text;
    if (at != NULL) {
        *at = '\0';
        password = cut(out->text, ':');
        if (!take(out->text, &out->to.user) || !take(password, &out->to.password))
            return fail(err, "a percent sign without two hex digits");
    }
    at = host;
    if (*host == '[') { /* an IPv6 address */
        host++;
        if ((at = cut(host, ']')) == NULL)
            return fail(err, "no ] after [");
    }
    if (!parse_port(cut(at, ':'), &out->to.port))
        return fail(err, "the port is not a number from 1 to 65535");
    if (!take(host, &out->to.host) || !take(path, &out->to.database))
        return fail(err, "a percent sign without two hex digits");
    return parse_options(options, out, err);
}
