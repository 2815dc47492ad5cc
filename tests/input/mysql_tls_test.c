/* TLS to MariaDB: what a URL asks for is kept, or the connection is refused (P16). */
#include <mysql.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sqlock/mysql.h>
#include <sqlock/transaction.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/input/mysql_open.h"
#include "tests/lib/my_private.h"
#include "tests/lib/proxy.h"

static sqlock_error err;

static char *dir;
static int port;

/* In the folder of the certificates. */
static void run(const char *command)
{
    if (system(textf("cd %s && %s", dir, command)) != 0)
        fail_msg("%s", command);
}

/* An authority, and with its signature a certificate for one address. */
static void certify(const char *ca, const char *name, const char *address)
{
    const char *key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes 2>>log";

    run(textf("{ [ -e %s.pem ] || openssl req -x509 -subj /CN=%s -days 2 -keyout %s.key "
              "-out %s.pem %s; }",
              ca, ca, ca, ca, key));
    run(textf("openssl req -subj /CN=%s -keyout %s.key -out %s.csr %s && chmod 644 %s.key", name,
              name, name, key, name));
    run(textf("echo subjectAltName=IP:%s >%s.ext && openssl x509 -req -days 2 -in %s.csr "
              "-CA %s.pem -CAkey %s.key -CAcreateserial -extfile %s.ext -out %s.pem 2>>log",
              address, name, name, ca, ca, name, name));
}

/* Not 127.0.0.1, where MariaDB's library from 3.4 on does not compare name and certificate. */
#define HOST "127.0.0.2" /* INADDR_LOOPBACK + 1 */

/* The private server listens there, with this certificate, or none. */
static void serve(const char *name, const char *args)
{
    const char *tls;

    need_driver("mysql");
    tls = strcmp(mysql_kind(), "MariaDB") == 0 ? "--skip-ssl" : "--tls-version=";
    if (strcmp(mysql_kind(), "5.6") == 0) {
        print_error("SKIP: TLS of MySQL 5.6 knows none of today's certificates\n");
        skip();
    }
    if (dir == NULL) {
        dir = temp_dir();
        chmod(dir, 0755);
        certify("ca", "here", HOST);
        certify("ca", "there", "127.0.0.4");
        certify("other", "forged", HOST);
        certify("ca", "client", "127.0.0.3");
        mysql_migrated();
    }
    if (name != NULL)
        tls = textf("--ssl-ca=%s/ca.pem --ssl-cert=%s/%s.pem --ssl-key=%s/%s.key", dir, dir, name,
                    dir, name);
    port = port_without_server(HOST, NULL);
    my_private_restart(
        textf("--skip-networking=0 --bind-address=" HOST " --port=%d %s %s", port, tls, args));
    mysql_new_user("guest", "%", "secret");
    my_private_exec("GRANT ALL ON test.* TO guest");
}

/* Where `{}` stands for the folder of the certificates. */
static char *filled(const char *text)
{
    const char *at = strstr(text, "{}");

    return at == NULL ? textf("%s", text)
                      : filled(textf("%.*s%s%s", (int)(at - text), text, dir, at + 2));
}

static int try(const char *options)
{
    return mysql_try(textf("mysql://guest:secret@" HOST ":%d/test%s", port, filled(options)), 0,
                     &err);
}

static void accepted(const char *options)
{
    assert_ok(try(options), &err);
}

static void refused(const char *options)
{
    int rc = try(options);

    if (rc != SQLOCK_EREFUSED && rc != SQLOCK_EUNREACH)
        print_error("with %s:\n", options);
    if (rc != SQLOCK_EREFUSED)
        assert_code(SQLOCK_EUNREACH, rc, &err);
    assert_silent(&err, "secret");
}

enum { REFUSED = 1 };

/* In this order, for a server is made anew where its certificate or its arguments change. */
static const struct {
    const char *certificate, *args, *user_needs, *options;
    int outcome;
} asked[] = {
    {"here", "", "SSL", "?ssl-mode=required", SQLOCK_OK},
    {"here", "", "SSL", "?ssl-mode=preferred", SQLOCK_OK},
    {"here", "", "SSL", "?ssl-mode=VERIFY_IDENTITY&ssl-ca={}/ca.pem", SQLOCK_OK},
    {"here", "", "SSL", "?ssl-mode=required&ssl-cipher=ECDHE-ECDSA-AES256-GCM-SHA384", SQLOCK_OK},
    {"here", "", "SSL", "?ssl-mode=disabled", SQLOCK_EDENIED},
    {"here", "", "X509", "?ssl-mode=required&ssl-cert={}/client.pem&ssl-key={}/client.key",
     SQLOCK_OK},
    {"here", "", "X509", "?ssl-mode=required", SQLOCK_EDENIED},
    {"here", "", "X509", "?ssl-mode=required&ssl-cert={}/nosuch.pem&ssl-key={}/client.key",
     SQLOCK_EINVAL},
    {"here", "--tls-version=TLSv1.3", "NONE", "?ssl-mode=required&tls-version=TLSv1.2", REFUSED},
    {"here", "--tls-version=TLSv1.3", "NONE", "?ssl-mode=required&tls-version=TLSv1.3", SQLOCK_OK},
    {"here", "--tls-version=TLSv1.3", "NONE", "?ssl-mode=required&tls-version=TLSv1.2,TLSv1.3",
     SQLOCK_OK},
    {"here", "--tls-version=TLSv1.3", "NONE",
     "?ssl-mode=required&tls-version=TLSv1.2,TLSv1.3&ssl-cipher=NO-SUCH-CIPHER", REFUSED},
    {NULL, "", "NONE", "?ssl-mode=required", REFUSED},
    {NULL, "", "NONE", "?ssl-mode=verify_identity&ssl-ca={}/ca.pem", REFUSED},
    {NULL, "", "NONE", "?ssl-mode=preferred", SQLOCK_OK},
    {NULL, "", "NONE", "?ssl-mode=disabled", SQLOCK_OK},
    {NULL, "", "NONE", "", SQLOCK_OK},
    {"forged", "", "NONE", "?ssl-mode=verify_identity&ssl-ca={}/ca.pem", REFUSED},
    {"forged", "", "NONE", "?ssl-mode=verify_identity&ssl-ca={}/other.pem", SQLOCK_OK},
    {"forged", "", "NONE", "?ssl-mode=required", SQLOCK_OK},
    {"there", "", "NONE", "?ssl-mode=verify_identity&ssl-ca={}/ca.pem", REFUSED},
    {"there", "", "NONE", "?ssl-mode=required", SQLOCK_OK},
};

TEST(test_tls_is_as_it_is_requested_or_refused)
{
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        int rc;

        if (i == 0 || asked[i].certificate != asked[i - 1].certificate ||
            asked[i].args != asked[i - 1].args)
            serve(asked[i].certificate, asked[i].args);
        my_private_exec("ALTER USER guest REQUIRE %s", asked[i].user_needs);
        rc = try(asked[i].options);
        assert_silent(&err, "secret");
        if (rc != asked[i].outcome &&
            !(asked[i].outcome == REFUSED && (rc == SQLOCK_EREFUSED || rc == SQLOCK_EUNREACH)))
            fail_msg("%s %s: %s, %s", asked[i].certificate ? asked[i].certificate : "none",
                     asked[i].options, sqlock_code_name(rc), err.text);
    }
}

/* MariaDB's client library cannot do it, and nobody shall believe that it did. */
TEST(test_an_authority_alone_is_verified_or_refused_by_name)
{
    serve("there", "");
#ifdef MARIADB_PACKAGE_VERSION_ID
    assert_error(SQLOCK_EINVAL, "verify_ca", try("?ssl-mode=verify_ca&ssl-ca={}/ca.pem"), &err);
#else
    (void)err;
    accepted("?ssl-mode=verify_ca&ssl-ca={}/ca.pem");
    refused("?ssl-mode=verify_ca&ssl-ca={}/other.pem");
#endif
}

static void set_file(const char *text)
{
    put_file(dir, "my.cnf", textf("[client]\n%s\n", filled(text)));
}

/* The client libraries read it last: there it would win. */
TEST(test_an_option_file_does_not_undo_what_the_url_requires_of_tls)
{
    serve("forged", "");
    set_file("ssl-verify-server-cert=0\nssl-mode=DISABLED\nssl-ca={}/other.pem");
    refused("?ssl-mode=verify_identity&ssl-ca={}/ca.pem&defaults-file={}/my.cnf");
    set_file("ssl-ca={}/other.pem");
    accepted("?ssl-mode=verify_identity&defaults-file={}/my.cnf");
    set_file("ssl-ca={}/ca.pem");
    refused("?ssl-mode=verify_identity&defaults-file={}/my.cnf");
    serve(NULL, "");
    set_file("ssl-ca={}/ca.pem\nssl-verify-server-cert=1");
    refused("?defaults-file={}/my.cnf");
    accepted("?ssl-mode=disabled&defaults-file={}/my.cnf");
}

/* A server without TLS, which asks for the password itself, in two pieces of a greeting. */
struct plain {
    int fd;
    char heard[4096];
    size_t len;
};

static void hear(int fd, struct plain *p)
{
    struct pollfd w = {fd, POLLIN, 0};
    ssize_t n = poll(&w, 1, patience_ms(1000)) == 1
                    ? read(fd, p->heard + p->len, sizeof p->heard - p->len)
                    : 0;

    p->len += n > 0 ? (size_t)n : 0;
}

static void *answer_plainly(void *user)
{
    static const char greeting[] = "\x0a"
                                   "8.0.36\0"
                                   "\1\0\0\0"
                                   "abcdefgh\0"
                                   "\x09\xa2" /* no CLIENT_SSL */
                                   "\x2d"
                                   "\2\0"
                                   "\x0b\0"
                                   "\x15"
                                   "\0\0\0\0\0\0\0\0\0\0"
                                   "ijklmnopqrst\0"
                                   "caching_sha2_password";
    static const char all_of_it[] = {2, 0, 0, 2, 1, 4};
    const char header[] = {sizeof greeting, 0, 0, 0};
    struct plain *p = user;
    int fd = accept(p->fd, NULL, NULL);

    usleep(50 * 1000);
    (void)!write(fd, header, sizeof header);
    (void)!write(fd, greeting, 12);
    usleep(50 * 1000);
    (void)!write(fd, greeting + 12, sizeof greeting - 12);
    hear(fd, p);
    (void)!write(fd, all_of_it, sizeof all_of_it);
    hear(fd, p);
    close(fd);
    return NULL;
}

static void say_nothing_of_the_password(const char *options, bool silent)
{
    struct plain p = {.len = 0};
    pthread_t thread;

    port = port_without_server(HOST, &p.fd);
    assert_int_equal(pthread_create(&thread, NULL, answer_plainly, &p), 0);
    assert_true(try(options) != SQLOCK_OK);
    pthread_join(thread, NULL);
    close(p.fd);
    assert_null(memmem(p.heard, p.len, "secret", 6));
    assert_int_equal(p.len == 0, silent);
}

/* MariaDB's client library takes itself to be safe when TLS was asked for. */
TEST(test_a_server_without_tls_does_not_get_to_see_the_password)
{
    need_driver("mysql");
    say_nothing_of_the_password("?ssl-mode=required", true);
    say_nothing_of_the_password("?ssl-mode=verify_identity", true);
    say_nothing_of_the_password("?ssl-mode=preferred", false);
    say_nothing_of_the_password("?ssl-mode=disabled", false);
}

TEST(test_options_that_would_promise_too_much_are_refused)
{
    static const char *const bad[] = {
        "?ssl-mode=on", "?ssl-mode=required&tls-version=TLSv1", "?ssl-mode=required&tls-version=x",
        "?ssl-mode=required&tls-version=TLSv1.2;TLSv1.3",
        /* an authority that would not be asked, options that would not be used */
        "?ssl-ca=/ca", "?ssl-mode=required&ssl-ca=/ca", "?ssl-mode=preferred&ssl-capath=/ca",
        "?ssl-mode=disabled&ssl-cipher=x", "?tls-version=TLSv1.3", "?ssl-mode=required&ssl-cert=/c",
        "?ssl-mode=required&ssl-key=/k"};

    need_driver("mysql");
    port = 1;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_code(SQLOCK_EINVAL, try(bad[i]), &err);
}

/* ---- a server that falls silent -------------------------------------------------------------- */

/* The server by way of a proxy. */
static struct db proxied(const char *options, struct proxy **out_proxy)
{
    *out_proxy = proxy_start_tcp(HOST, textf("%d", port));
    return mysql_db(
        textf("mysql://guest:secret@127.0.0.1:%d/test%s", proxy_port(*out_proxy), options));
}

/* In a process of its own: who waited for ever would not fail, but hang. */
static int bear_silence(__attribute__((unused)) void *arg)
{
    const int32_t request_ms = patience_ms(2000);
    sqlock_lock *lock = NULL;
    struct proxy *proxy;
    struct db db = proxied("?ssl-mode=required", &proxy);
    int64_t begun;
    sqlock *m;

    db.request_ms = request_ms;
    m = db_open(db);
    lock_draw(m, "silent");
    proxy_mode_set(proxy, PROXY_HOLD);
    begun = now_us();
    assert_int_not_equal(lock_try(m, "silent", 0, &lock, &err), SQLOCK_OK);
    assert_between(0, now_us() - begun, INT64_C(3000) * request_ms);
    sqlock_lock_free(lock);
    proxy_mode_set(proxy, PROXY_PASS);
    sqlock_close(m);
    proxy_mode_set(proxy, PROXY_HOLD_UP); /* after the server's greeting, in the handshake */
    begun = now_us();
    assert_int_not_equal(db_try(db, &err), SQLOCK_OK);
    assert_between(0, now_us() - begun, INT64_C(5000) * request_ms);
    proxy_stop(proxy);
    return 0;
}

TEST(test_P8_a_server_that_falls_silent_under_tls_is_given_up_in_time)
{
    serve("here", "");
    assert_int_equal(child_wait(child_start(bear_silence, NULL), patience_ms(40000)), 0);
}

/* ---- a server that is gone ------------------------------------------------------------------- */

static volatile sig_atomic_t pipes;

static void count_pipe(int number)
{
    (void)number;
    pipes++;
}

/* An application with a transaction on a connection of its own, which it guards. */
static int guard_once(sqlock *m, sqlock_lock *lock, const char *options)
{
    MYSQL *my = mysql_init(NULL);
    sqlock_conn *conn = NULL;
    struct proxy *p = proxy_start_tcp(HOST, textf("%d", port));
    int rc;

#ifdef MARIADB_PACKAGE_VERSION_ID
    mysql_options(my, MYSQL_OPT_SSL_ENFORCE, &(my_bool){strstr(options, "required") != NULL});
#else
    (void)options;
#endif
    assert_non_null(mysql_real_connect(my, "127.0.0.1", "guest", "secret", "test",
                                       (unsigned)proxy_port(p), NULL, 0));
    assert_int_equal(mysql_query(my, "START TRANSACTION"), 0);
    assert_ok(sqlock_adopt_mysql(m, my, &conn, NULL), NULL);
    proxy_cut_request(p, 0);
    rc = sqlock_guard(lock, conn, NULL);
    sqlock_conn_free(conn);
    int seen = pipes;
    mysql_close(my); /* the application's own write */
    pipes = seen;
    proxy_stop(p);
    return rc;
}

/* Opening, a lock's life and closing, each request lost with the link in its turn, or its reply. */
static void lose_the_server(struct proxy *p, struct db db)
{
    void (*const cuts[])(struct proxy *, int) = {proxy_cut_request, proxy_cut_reply};

    db.request_ms = patience_ms(1000);
    for (int i = 0; i < 24; i++) {
        sqlock_lock *lock = NULL;
        sqlock *m = NULL;

        cuts[i % 2](p, i / 2);
        if (db_open_to(db, &m, &err) == 0 && lock_try(m, "pipe", 0, &lock, &err) == 0)
            (void)!sqlock_renew(lock, &err);
        sqlock_scope_end(&lock);
        if (i % 3 == 0)
            proxy_cut(p); /* closing says good-bye to who has hung up */
        sqlock_close(m);
    }
    proxy_cut_request(p, INT32_MAX); /* the last ones were not so long */
    proxy_cut_reply(p, INT32_MAX);
}

/* Under TLS the client library writes without MSG_NOSIGNAL. Closing writes to a dead server too. */
TEST(test_P19_a_server_that_is_gone_raises_no_sigpipe)
{
    static const char *const options[] = {"?ssl-mode=required", "?ssl-mode=disabled"};
    struct sigaction handler = {.sa_handler = count_pipe}, before, after;
    sigset_t pipe_only, pending;

    serve("here", "");
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigaction(SIGPIPE, &handler, &before);
    pipes = 0;
    for (int i = 0; i < 4; i++) {
        struct proxy *p;
        struct db db = proxied(options[i % 2 == 1 && i < 2], &p);
        sqlock_lock *lock;
        sqlock *m;

        if (i >= 2) /* the application blocks it, and has one waiting; then none */
            pthread_sigmask(SIG_BLOCK, &pipe_only, NULL);
        if (i == 2)
            raise(SIGPIPE);
        lose_the_server(p, db);
        m = db_open(db);
        lock = lock_take(m, options[i % 2], 0, 0);
        if (i < 2)
            assert_int_not_equal(guard_once(m, lock, options[i]), SQLOCK_OK);
        lock_give(lock);
        proxy_cut(p);
        sqlock_close(m);
        proxy_stop(p);
        assert_int_equal(pipes, 0);
        sigpending(&pending);
        assert_int_equal(sigismember(&pending, SIGPIPE), i == 2);
        if (i >= 2)
            pthread_sigmask(SIG_UNBLOCK, &pipe_only, NULL);
        assert_int_equal(pipes, i == 2);
        pipes = 0;
    }
    sigaction(SIGPIPE, &before, &after);
    assert_ptr_equal(after.sa_handler, count_pipe);
}

TEST_MAIN_EACH(NULL, NULL)
