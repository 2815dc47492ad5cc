/* mysql://user:password@host:port,host:port/database?option=value&... uriparser splits and decodes
 * it. Of a list it gets each host alone. */
#include <stdlib.h>
#include <string.h>

#include <uriparser/Uri.h>

#include "mysql.h"

static int url_fail(sqlock_error *err, const char *what)
{
    /* never the URL itself: it may contain a password */
    return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the URL is malformed: %s", what);
}

/* A piece of the URL, decoded; NULL: it is empty. All pieces together are no longer than the URL,
 * because each lacks the character that separated it from the next. */
static const char *url_keep(struct my_url *out, const char *from, const char *end)
{
    char *s = out->room;

    if (from == end)
        return NULL;
    memcpy(s, from, (size_t)(end - from));
    s[end - from] = '\0';
    uriUnescapeInPlaceA(s);
    out->room = s + (end - from) + 1;
    return s;
}

static void url_take_user(const UriTextRangeA *info, struct my_url *out)
{
    const char *colon = info->first;

    while (colon != info->afterLast && *colon != ':')
        colon++;
    out->to.user = url_keep(out, info->first, colon);
    if (colon != info->afterLast)
        out->to.password = url_keep(out, colon + 1, info->afterLast);
}

/* MariaDB's client library reads some texts as more than a name: a list, settings, a plugin. */
static int url_take_host(const UriUriA *uri, struct my_url *out, sqlock_error *err)
{
    const char *port = url_keep(out, uri->portText.first, uri->portText.afterLast);
    unsigned long number = port != NULL ? strtoul(port, NULL, 10) : 0;

    out->to.host = url_keep(out, uri->hostText.first, uri->hostText.afterLast);
    if (uri->hostData.ipFuture.first != NULL ||
        (out->to.host != NULL && strpbrk(out->to.host, "/=,;[] ") != NULL))
        return url_fail(err, "the host is not a name or an address");
    if (port != NULL && (strlen(port) > 5 || number < 1 || number > 65535))
        return url_fail(err, "the port is not a number from 1 to 65535");
    out->to.port = (unsigned)number;
    return 0;
}

static int url_take_database(const UriUriA *uri, struct my_url *out, sqlock_error *err)
{
    const UriPathSegmentA *path = uri->pathHead;

    if (path == NULL)
        return 0;
    if (path->next != NULL)
        return url_fail(err, "the database is one name; write a slash in it as %2F");
    out->to.database = url_keep(out, path->text.first, path->text.afterLast);
    return 0;
}

static const char *const option_names[MY_OPTIONS] = {
    [MY_SOCKET] = "socket",           [MY_DEFAULTS_FILE] = "defaults-file",
    [MY_SSL_MODE] = "ssl-mode",       [MY_SSL_CA] = "ssl-ca",
    [MY_SSL_CAPATH] = "ssl-capath",   [MY_SSL_CERT] = "ssl-cert",
    [MY_SSL_KEY] = "ssl-key",         [MY_SSL_CIPHER] = "ssl-cipher",
    [MY_TLS_VERSION] = "tls-version", [MY_CONNECT_TIMEOUT] = "connect-timeout",
};

static int url_take_options(const UriTextRangeA *query, struct my_url *out, sqlock_error *err)
{
    UriQueryListA *list = NULL;

    if (query->first == query->afterLast)
        return 0;
    if (uriDissectQueryMallocExA(&list, NULL, query->first, query->afterLast, URI_FALSE,
                                 URI_BR_DONT_TOUCH) != URI_SUCCESS)
        return sqlock_error_set(err, SQLOCK_ENOMEM, 0, "out of memory");
    out->query = list;
    for (; list != NULL; list = list->next) {
        int i = 0;

        while (i < MY_OPTIONS && strcmp(list->key, option_names[i]) != 0)
            i++;
        if (i == MY_OPTIONS)
            return sqlock_error_set(
                err, SQLOCK_EINVAL, 0,
                "the URL is malformed: the option \"%s\" is unknown (sqlock/mysql.h lists them)",
                list->key);
        if (out->options[i] != NULL)
            return url_fail(err, "an option is in it twice");
        if (list->value == NULL || list->value[0] == '\0')
            return url_fail(err, "an option in it has no value");
        out->options[i] = list->value;
    }
    return 0;
}

static int url_take_time(struct my_url *out, sqlock_error *err)
{
    const char *text = out->options[MY_CONNECT_TIMEOUT];
    size_t digits = text != NULL ? strspn(text, "0123456789") : 0;

    if (text == NULL)
        return 0;
    out->connect_s = text[digits] == '\0' && digits < 6 ? atoi(text) : 0;
    return out->connect_s > 0 ? 0 : url_fail(err, "connect-timeout is a number of seconds from 1");
}

static int url_take(const UriUriA *uri, struct my_url *out, sqlock_error *err)
{
    int rc;

    if (uri->hostText.first == NULL)
        return url_fail(err, "it has no :// with a host after it");
    if (uri->fragment.first != NULL)
        return url_fail(err, "write a # as %23");
    url_take_user(&uri->userInfo, out);
    if ((rc = url_take_host(uri, out, err)) != 0 || (rc = url_take_database(uri, out, err)) != 0)
        return rc;
    rc = url_take_options(&uri->query, out, err);
    return rc != 0 ? rc : url_take_time(out, err);
}

static int url_parse(const char *url, struct my_url *out, sqlock_error *err)
{
    UriUriA uri;
    int rc;

    if (strstr(url, "%00") != NULL) /* what follows would be cut off */
        return url_fail(err, "a byte of it is zero");
    rc = uriParseSingleUriA(&uri, url, NULL);
    if (rc == URI_ERROR_SYNTAX)
        return url_fail(err,
                        "a port is a number, and in names and passwords write characters other "
                        "than letters, digits and - . _ ~ as % and two hex digits");
    out->text = out->room = rc == URI_SUCCESS ? sqlock_mem_alloc(strlen(url) + 1) : NULL;
    if (out->text == NULL)
        rc = sqlock_error_set(err, SQLOCK_ENOMEM, 0, "out of memory");
    else
        rc = url_take(&uri, out, err);
    uriFreeUriMembersA(&uri);
    return rc;
}

void my_url_free(struct my_url *u)
{
    uriFreeQueryListA(u->query);
    sqlock_mem_free(u->text);
    sqlock_mem_free(u->alone);
}

/* ---- lists of hosts ------------------------------------------------------------------------- */

/* Where the hosts are: after user and password, before the database. NULL: nowhere. */
static const char *url_hosts(const char *url, const char **out_end)
{
    const char *from = strstr(url, "://"), *at;

    if (from == NULL)
        return NULL;
    from += 3;
    *out_end = from + strcspn(from, "/?#");
    for (at = *out_end; at > from && at[-1] != '@'; at--)
        ;
    return at;
}

static uint32_t url_count(const char *from, const char *end)
{
    uint32_t n = 1;

    for (; from < end; from++)
        n += *from == ',';
    return n;
}

/* The URL with only its host number i, from 1. An element without a name is refused, because it
 * could mean several hosts. NULL: *err has the reason. */
static char *url_of_host(const char *url, uint32_t i, sqlock_error *err)
{
    const char *end = NULL, *from = url_hosts(url, &end), *at = from, *stop;
    char *out;

    while (at != NULL && i > 1 && (at = memchr(at, ',', (size_t)(end - at))) != NULL) {
        at++;
        i--;
    }
    if (at == NULL) {
        url_fail(err, "it does not name that many hosts");
        return NULL;
    }
    stop = memchr(at, ',', (size_t)(end - at));
    stop = stop != NULL ? stop : end;
    if (at == stop || *at == ':') {
        url_fail(err, "a host of the list has no name");
        return NULL;
    }
    if ((out = sqlock_mem_alloc(strlen(url) + 1)) == NULL) {
        sqlock_error_set(err, SQLOCK_ENOMEM, 0, "out of memory");
        return NULL;
    }
    memcpy(out, url, (size_t)(from - url));
    memcpy(out + (from - url), at, (size_t)(stop - at));
    memcpy(out + (from - url) + (stop - at), end, strlen(end));
    return out;
}

/* Reports at once what is wrong with any host, not when its turn comes. */
static int url_check_hosts(const char *url, uint32_t n, sqlock_error *err)
{
    int rc = 0;

    for (uint32_t i = 1; rc == 0 && i <= n; i++) {
        struct my_url u = {.alone = url_of_host(url, i, err)};

        rc = u.alone != NULL ? url_parse(u.alone, &u, err) : err->code;
        if (rc == 0 && u.options[MY_SOCKET] != NULL)
            rc = url_fail(err, "a socket allows only one host");
        my_url_free(&u);
    }
    return rc;
}

int my_url_parse(const char *url, uint32_t host, struct my_url *out, sqlock_error *err)
{
    const char *end = NULL, *from = url_hosts(url, &end);
    uint32_t n = from != NULL ? url_count(from, end) : 1;
    int rc;

    memset(out, 0, sizeof *out);
    if (n == 1)
        return url_parse(url, out, err);
    if ((rc = url_check_hosts(url, n, err)) != 0)
        return rc;
    out->alone = url_of_host(url, host, err);
    return out->alone != NULL ? url_parse(out->alone, out, err) : err->code;
}

int my_hosts(const char *url, sqlock_hosts *out, sqlock_error *err)
{
    const char *end = NULL, *from = url_hosts(url, &end);
    struct my_url u;
    int rc;

    if (from == NULL)
        return 0;
    out->n = url_count(from, end);
    rc = my_url_parse(url, 1, &u, err);
    if (rc == 0)
        out->each_us = u.connect_s * INT64_C(1000000);
    my_url_free(&u);
    return rc == SQLOCK_ENOMEM ? rc : 0;
}
