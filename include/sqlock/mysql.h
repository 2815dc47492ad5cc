/* The MariaDB and MySQL driver (libsqlock-mysql), for MariaDB 10.6 or MySQL 5.6, or newer, with
 * InnoDB.
 *
 * URLs       mysql:// and mariadb:// mean the same:
 *
 *   mysql://user:password@host:port/database?option=value&option=value
 *   mysql://user:password@host:port,host:port,host/database?option=value
 *
 * You may leave out whatever follows mysql:// (mysql:///database). All is percent-decoded. Write a
 * character as % and two hex digits unless it is a letter, a digit or one of - . _ ~. An IPv6
 * address stands in [], without a zone. The tables are in that database, unless
 * sqlock_open_opts.schema names another.
 *
 * Options    of the URL:
 * - socket=PATH: instead of host and port. Without a port, localhost means the client library's
 *   socket
 * - connect-timeout=SECONDS: the longest time for one host
 * - defaults-file=PATH: the only option file to read
 * - ssl-mode=disabled: no TLS
 * - ssl-mode=preferred: TLS if the server has it
 * - ssl-mode=required: TLS, or no connection
 * - ssl-mode=verify_ca: and ssl-ca has signed the server's certificate (only with MySQL's library)
 * - ssl-mode=verify_identity: and the certificate names the host. This is checked before the login
 * - ssl-ca=FILE, ssl-capath=FOLDER: authorities, for verify_ca and verify_identity
 * - ssl-cert=FILE and ssl-key=FILE: the client's own certificate; with required and above
 * - ssl-cipher=LIST, tls-version=TLSv1.2,TLSv1.3: also with required and above
 *
 * SQLOCK_EINVAL: an option is unknown, stands twice, has no value, names a file that cannot be
 * read, or wants something that the client library cannot do. SQLOCK_EREFUSED or SQLOCK_EUNREACH:
 * the server does not offer TLS as required.
 *
 * Option files
 * What the URL does not say comes from the option files of the client library: groups [client] and
 * [sqlock], with MariaDB's library also [client-server] and [client-mariadb]. The driver takes
 * host, port, socket, user, password, database, the options of TLS, bind-address, plugin-dir and
 * default-auth, and nothing else. Neither library reads ssl-mode there. With MySQL's library, a
 * file that names ssl-ca means verify_ca. With MariaDB's, one that names any option of TLS means
 * required, and ssl-verify-server-cert means verify_identity.
 *
 * Hosts      Several hosts are servers of which one grants at a time: a primary and its replicas.
 *            Each has a name; a socket allows one host. At most 64.
 * - sqlock tries them one at a time. It begins with the one that answered last. Each has its share
 *   of the time that is left.
 * - It goes on to the next host if one does not answer, refuses, is full, is read-only, or has left
 *   a request without an answer.
 * - It goes on after a wrong password or an unknown database too, but if no host serves, the error is
 *   that one. It does not go on after an invalid URL.
 * - A user who may write in spite of read_only (SUPER, READ_ONLY ADMIN) does not notice on an open
 *   connection that the server has become a replica. Give the application a user without that
 *   right.
 *
 * Connections of a factory
 * It returns a MYSQL * that is connected with CLIENT_MULTI_STATEMENTS and outside any transaction.
 * MariaDB's client library needs MYSQL_OPT_NONBLOCK before it connects. The MYSQL belongs to the
 * client library that the driver was built with: MariaDB's, or MySQL's 8.0.16 or newer.
 *
 * SIGPIPE    From its first use on, the client library ignores SIGPIPE in the whole process. The
 *            driver restores the signal's action, and raises none itself. If your program uses the
 *            library over TLS too, and relies on that: call mysql_library_init() before you open a
 *            manager, or ignore SIGPIPE.
 *
 * Servers
 * - A Galera node, and a member of a replication group with several primaries, is refused: each of
 *   them grants by its own clock.
 * - If the server cannot skip locked rows (MySQL before 8.0), a try takes two to four seconds when
 *   an open transaction guards the name or has locked its row. Newer servers answer at once.
 * - SQLOCK_OPEN_UNPREPARED is SQLOCK_EREFUSED: the driver sets up its sessions, so a pooler must
 *   not share them.
 * - With SQLOCK_OPEN_ACCEPT_WEAK too, MySQL before 5.7.8 is refused where it may forget commits.
 *
 * Rights     A user needs SELECT, INSERT and UPDATE on the lock table, SELECT and UPDATE on meta,
 *            and SELECT on the table of breaks. To break locks: INSERT, UPDATE and DELETE there.
 *            sqlock_open() reports what is missing (SQLOCK_EDENIED). To a user without any right on
 *            the tables it says that there is no schema.
 *
 * Tokens     They rise over every start of a server and every change of servers (P2), by the
 *            servers' clocks.
 * - One case is noticed only by managers that have met the other server: a server becomes writable
 *   again without a restart, and has not replicated what was granted elsewhere. MySQL before 5.7.8
 *   does not even report when it was started. So restart a server, or rebuild it, before it takes
 *   over again.
 * - The driver knows a start by its second. A program that opens a connection in that second waits
 *   for the next one. */
#ifndef SQLOCK_MYSQL_H
#define SQLOCK_MYSQL_H

#include <sqlock/sqlock.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The driver, for sqlock_open() and the other functions that need one.
 * Ownership: static; never free it.
 * Threads:   any thread.
 * Bindings:  a plain symbol of libsqlock-mysql. */
SQLOCK_API const sqlock_driver *sqlock_driver_mysql(void);

/* sqlock_adopt() for a MYSQL *, for a caller that includes mysql.h. It passes the caller's
 * sizeof(MYSQL) and mysql_init, by which the driver notices another client library. A binding calls
 * sqlock_adopt(m, mysql, 0, NULL, ...): then only the connection itself shows which library made
 * it. */
#define sqlock_adopt_mysql(m, mysql, out_conn, err)                                                \
    sqlock_adopt((m), (mysql), sizeof(*(mysql)), (void (*)(void))mysql_init, (out_conn), (err))

#ifdef __cplusplus
}
#endif
#endif
