/* The hosts of a URL. libpq would try them by itself, but in non-blocking mode it has no time limit
 * for each. So one silent host would use up all the time. Therefore libpq gets one host at a
 * time. */
#include <stdlib.h>
#include <string.h>

#include "postgres.h"

static const char *option_value(const PQconninfoOption *options, const char *keyword)
{
    for (; options->keyword != NULL; options++)
        if (strcmp(options->keyword, keyword) == 0)
            return options->val != NULL ? options->val : "";
    return "";
}

static const char *option_compiled(const PQconninfoOption *options, const char *keyword)
{
    for (; options->keyword != NULL; options++)
        if (strcmp(options->keyword, keyword) == 0)
            return options->compiled != NULL ? options->compiled : "";
    return "";
}

/* An element of a list with commas. */
static const char *hosts_element(const char *list, uint32_t i, size_t *out_len)
{
    while (i > 0 && *(list += strcspn(list, ",")) == ',') {
        list++;
        i--;
    }
    *out_len = i == 0 ? strcspn(list, ",") : 0;
    return list;
}

static char *hosts_copy(const char *text, size_t len)
{
    char *out = sqlock_mem_alloc(len + 1);

    if (out != NULL)
        memcpy(out, text, len);
    return out;
}

/* 0: it is empty. */
static uint32_t hosts_count(const char *list)
{
    uint32_t n = *list != '\0';

    for (; *list != '\0'; list++)
        n += *list == ',';
    return n;
}

/* All settings that count, from URL, service file and environment. libpq merges them when it begins
 * to connect. Here it stops before that, because of a value that is wrong. The password keeps it
 * from reading files for one. NULL: no memory. */
static PQconninfoOption *options_merged(const char *url)
{
    static const char *const keys[] = {"dbname", "password", "sslmode", NULL};
    const char *const values[] = {url, "-", "-", NULL};
    PGconn *pg = PQconnectStartParams(keys, values, 1);
    PQconninfoOption *options = NULL;

    if (pg != NULL && !pg_is_memory(PQerrorMessage(pg)))
        options = PQconninfo(pg);
    PQfinish(pg);
    return options;
}

static int hosts_have_gap(const char *list)
{
    size_t len = strlen(list);

    return len > 0 && (list[0] == ',' || list[len - 1] == ',' || strstr(list, ",,") != NULL);
}

/* Also 1 if the numbers do not match, which libpq reports; and if an address is left out, which
 * cannot be written for a single host. */
static uint32_t options_count_hosts(const PQconninfoOption *options)
{
    uint32_t names = hosts_count(option_value(options, "host")),
             ports = hosts_count(option_value(options, "port"));
    uint32_t addresses = hosts_count(option_value(options, "hostaddr"));
    uint32_t n = addresses > 0 ? addresses : names;

    return n < 1 || (names > 0 && names != n) || (ports > 1 && ports != n) ||
                   hosts_have_gap(option_value(options, "hostaddr"))
               ? 1
               : n;
}

/* As libpq reads it: less than two seconds are two. 0 or less is no limit. */
static int64_t option_timeout_us(const char *seconds)
{
    long n = strtol(seconds, NULL, 10);

    return n <= 0 || n > INT32_MAX ? 0 : (n < 2 ? 2 : n) * INT64_C(1000000);
}

int pg_hosts(const char *url, sqlock_hosts *out, sqlock_error *err)
{
    PQconninfoOption *options = options_merged(url);

    if (options == NULL)
        return sqlock_error_set(err, SQLOCK_ENOMEM, 0, "out of memory");
    out->n = options_count_hosts(options);
    out->each_us = option_timeout_us(option_value(options, "connect_timeout"));
    PQconninfoFree(options);
    return 0;
}

/* ---- one of them ---------------------------------------------------------------------------- */

/* Where libpq connects if no host is named: a folder of sockets, or this machine. */
static char *hosts_default(void)
{
    static const char *const keys[] = {"host", "hostaddr", "password", "sslmode", NULL};
    static const char *const values[] = {",", ",", "-", "-", NULL};
    PGconn *pg = PQconnectStartParams(keys, values, 0);
    const char *host = pg != NULL ? PQhost(pg) : NULL;
    char *out;

    host = host != NULL && *host != '\0' ? host : "localhost";
    out = hosts_copy(host, strlen(host));
    PQfinish(pg);
    return out;
}

static char *hosts_copy_element(const char *list, uint32_t i)
{
    uint32_t n = hosts_count(list);
    size_t len;
    const char *at = hosts_element(list, n == 1 ? 0 : i, &len);

    return hosts_copy(at, len);
}

/* An empty element means the address, or what libpq takes if nothing was given. */
static char *option_host(const PQconninfoOption *options, uint32_t i)
{
    const char *names = option_value(options, "host"),
               *addresses = option_value(options, "hostaddr");
    char *host = hosts_copy_element(names, i);

    if (host == NULL || *host != '\0')
        return host;
    sqlock_mem_free(host);
    return hosts_count(addresses) > 0 ? hosts_copy_element(addresses, i) : hosts_default();
}

static char *option_port(const PQconninfoOption *options, uint32_t i)
{
    char *port = hosts_copy_element(option_value(options, "port"), i);
    const char *port_default;

    if (port == NULL || *port != '\0')
        return port;
    sqlock_mem_free(port);
    port_default = option_compiled(options, "port");
    return hosts_copy(port_default, strlen(port_default));
}

/* The environment may have changed since the hosts were counted. */
int pg_host_pick(const char *url, uint32_t host, struct pg_host *out)
{
    PQconninfoOption *options = options_merged(url);
    uint32_t i;

    memset(out, 0, sizeof *out);
    if (options == NULL)
        return 0;
    i = (host - 1) % options_count_hosts(options);
    out->name = option_host(options, i);
    out->address = hosts_copy_element(option_value(options, "hostaddr"), i);
    out->port = option_port(options, i);
    PQconninfoFree(options);
    return out->name != NULL && out->address != NULL && out->port != NULL;
}

void pg_host_free(struct pg_host *h)
{
    sqlock_mem_free(h->name);
    sqlock_mem_free(h->address);
    sqlock_mem_free(h->port);
}
