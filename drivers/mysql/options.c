/* What a connection is to be like: by the URL, and for what it leaves out by the client's option
 * files.
 *
 * The client libraries read option files when they connect, and what stands there overrides what
 * was set before. So a handle that never connects reads the files, and only the options listed here
 * are taken from it. Then a file cannot run a statement on our connections (init-command),
 * reconnect without our notice (reconnect), send local files, or undo what the URL says about
 * TLS. */
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "mysql.h"

static const struct {
    enum my_option option;
    enum mysql_option set;
} tls[] = {
    {MY_SSL_CA, MYSQL_OPT_SSL_CA},         {MY_SSL_CAPATH, MYSQL_OPT_SSL_CAPATH},
    {MY_SSL_CERT, MYSQL_OPT_SSL_CERT},     {MY_SSL_KEY, MYSQL_OPT_SSL_KEY},
    {MY_SSL_CIPHER, MYSQL_OPT_SSL_CIPHER}, {MY_TLS_VERSION, MYSQL_OPT_TLS_VERSION},
};

static const enum mysql_option taken[] = {MYSQL_OPT_SSL_CRL, MYSQL_OPT_SSL_CRLPATH, MYSQL_OPT_BIND,
                                          MYSQL_PLUGIN_DIR, MYSQL_DEFAULT_AUTH};

static int options_refuse(sqlock_error *err, const char *what)
{
    return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the URL's options: %s", what);
}

/* Connecting fails at once: no machine has that address, and nothing is sent to it. */
static int options_read_files(MYSQL *files, const char *file, sqlock_error *err)
{
    if (!my_client_prepare(files))
        return sqlock_error_set(err, SQLOCK_ENOMEM, 0, "out of memory");
    if (file != NULL)
        mysql_options(files, MYSQL_READ_DEFAULT_FILE, file);
    mysql_options(files, MYSQL_READ_DEFAULT_GROUP, "sqlock");
    if (mysql_real_connect(files, "255.255.255.255", NULL, NULL, NULL, 1, "/dev/null/none",
                           CLIENT_REMEMBER_OPTIONS) != NULL)
        return sqlock_error_set(err, SQLOCK_ESTATE, 0,
                                "a server answers at an address that no server can have");
    return 0;
}

static int options_parse_mode(const char *text, enum my_ssl_mode *out, sqlock_error *err)
{
    static const char *const modes[] = {
        [MY_SSL_DISABLED] = "disabled",
        [MY_SSL_PREFERRED] = "preferred",
        [MY_SSL_REQUIRED] = "required",
        [MY_SSL_VERIFY_CA] = "verify_ca",
        [MY_SSL_VERIFY_IDENTITY] = "verify_identity",
    };

    *out = MY_SSL_UNSAID;
    for (int i = MY_SSL_DISABLED; text != NULL && i <= MY_SSL_VERIFY_IDENTITY; i++)
        if (strcasecmp(text, modes[i]) == 0)
            *out = (enum my_ssl_mode)i;
    if (text != NULL && *out == MY_SSL_UNSAID)
        return options_refuse(err, "ssl-mode is disabled, preferred, required, verify_ca or "
                                   "verify_identity");
    return 0;
}

/* 1: a list of versions that are still safe. A client library may skip a version that it does not
 * know. */
static int options_know_versions(const char *list)
{
    while (*list != '\0') {
        size_t len = strcspn(list, ",");

        if (len != 7 ||
            (strncasecmp(list, "TLSv1.2", len) != 0 && strncasecmp(list, "TLSv1.3", len) != 0))
            return 0;
        list += len + (list[len] == ',');
    }
    return 1;
}

/* MySQL's client library would print that a file is missing. MariaDB's may go on without it. */
static int options_check_files(const struct my_url *u, sqlock_error *err)
{
    static const enum my_option files[] = {MY_DEFAULTS_FILE, MY_SSL_CA, MY_SSL_CAPATH, MY_SSL_CERT,
                                           MY_SSL_KEY};

    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (u->options[files[i]] != NULL && access(u->options[files[i]], R_OK) != 0)
            return options_refuse(err, "one of the files cannot be read");
    return 0;
}

/* Refuses an authority that would not be used, and a certificate without its key. */
static int options_check_tls(const struct my_url *u, enum my_ssl_mode mode, sqlock_error *err)
{
    const char *versions = u->options[MY_TLS_VERSION];

    if ((u->options[MY_SSL_CA] != NULL || u->options[MY_SSL_CAPATH] != NULL) &&
        mode < MY_SSL_VERIFY_CA)
        return options_refuse(err,
                              "ssl-ca and ssl-capath need ssl-mode=verify_ca or verify_identity");
    for (size_t i = 0; i < sizeof tls / sizeof *tls; i++)
        if (u->options[tls[i].option] != NULL && mode < MY_SSL_REQUIRED)
            return options_refuse(
                err, "TLS options need ssl-mode=required, verify_ca or verify_identity");
    if ((u->options[MY_SSL_CERT] == NULL) != (u->options[MY_SSL_KEY] == NULL))
        return options_refuse(err, "ssl-cert and ssl-key need each other");
    if (versions != NULL && !options_know_versions(versions))
        return options_refuse(err, "tls-version is TLSv1.2, TLSv1.3, or both with a comma between");
    return 0;
}

static int options_set_text(MYSQL *my, enum mysql_option option, const char *value,
                            sqlock_error *err)
{
    if (value != NULL && mysql_options(my, option, value) != 0)
        return options_refuse(err, "the client library does not accept one of the TLS options");
    return 0;
}

/* With a key or an authority, MariaDB's client library would believe in TLS where it may do
 * without. */
static int options_set_tls(MYSQL *my, MYSQL *files, const struct my_url *u, enum my_ssl_mode *mode,
                           sqlock_error *err)
{
    int silent = *mode == MY_SSL_DISABLED || *mode == MY_SSL_PREFERRED;
    const char *why = my_client_tls(my, files, mode);
    int rc = why != NULL ? options_refuse(err, why) : 0;

    for (size_t i = 0; rc == 0 && !silent && i < sizeof tls / sizeof *tls; i++) {
        const char *value = u->options[tls[i].option];

        if (value == NULL)
            mysql_get_option(files, tls[i].set, &value);
        rc = options_set_text(my, tls[i].set, value, err);
    }
    return rc;
}

static void options_take_files(MYSQL *my, MYSQL *files)
{
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        const char *value = NULL;

        mysql_get_option(files, taken[i], &value);
        if (value != NULL)
            mysql_options(my, taken[i], value);
    }
}

static const char *options_either(const char *url, const char *file)
{
    return url != NULL ? url : file;
}

/* A socket in the URL replaces any host. A host that is not this machine replaces any socket. */
static void options_aim(const struct my_url *u, const MYSQL *files, struct my_target *out)
{
    const struct st_mysql_options *f = &files->options;

    out->user = options_either(u->to.user, f->user);
    out->password = options_either(u->to.password, f->password);
    out->database = options_either(u->to.database, f->db);
    out->socket = options_either(u->options[MY_SOCKET], f->unix_socket);
    out->host = u->options[MY_SOCKET] != NULL ? "localhost" : options_either(u->to.host, f->host);
    out->port = u->to.port != 0 ? u->to.port : f->port;
}

int my_options_set(MYSQL *my, MYSQL *files, const struct my_url *u, struct my_target *out,
                   sqlock_error *err)
{
    const unsigned tcp = MYSQL_PROTOCOL_TCP;
    unsigned off = 0;
    int rc;

    if (u->options[MY_SOCKET] != NULL && u->to.host != NULL && strcmp(u->to.host, "localhost") != 0)
        return options_refuse(err, "a socket is on localhost");
    if ((rc = options_parse_mode(u->options[MY_SSL_MODE], &out->tls, err)) != 0 ||
        (rc = options_check_tls(u, out->tls, err)) != 0 ||
        (rc = options_check_files(u, err)) != 0 ||
        (rc = options_read_files(files, u->options[MY_DEFAULTS_FILE], err)) != 0 ||
        (rc = options_set_tls(my, files, u, &out->tls, err)) != 0)
        return rc;
    options_take_files(my, files);
    mysql_options(my, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    mysql_options(my, MYSQL_OPT_LOCAL_INFILE, &off);
    /* Otherwise "localhost" means a socket, whichever server that belongs to. */
    if (u->to.port != 0 && u->options[MY_SOCKET] == NULL)
        mysql_options(my, MYSQL_OPT_PROTOCOL, &tcp);
    options_aim(u, files, out);
    return 0;
}
