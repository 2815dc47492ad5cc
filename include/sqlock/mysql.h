/* The MariaDB and MySQL driver (libsqlock-mysql). URLs, for mysql:// and mariadb:// alike:
 *   mysql://user:password@host:port/database?option=value&option=value
 *   mysql://user:password@host:port,host:port,host/database?option=value
 * Whatever is behind mysql:// may be left away (mysql:///database). All is percent-decoded; a sign
 * that is neither a letter, a digit nor one of - . _ ~ is best written so. An IPv6 address stands in
 * [], without a zone. The database is the one that the tables are in, unless sqlock_open_opts.schema
 * names another. Options:
 *   socket=PATH         instead of host and port. Without a port, localhost is the client library's socket
 *   connect-timeout=SECONDS  no longer for one host
 *   defaults-file=PATH  the only option file to be read
 *   ssl-mode=disabled         no TLS
 *            preferred        TLS if the server has it
 *            required         TLS, or the connection is refused
 *            verify_ca        and ssl-ca has signed the server's certificate (MySQL's library only)
 *            verify_identity  and it is made out to the host. It is checked before the login
 *   ssl-ca=FILE, ssl-capath=FOLDER            authorities, for verify_ca and verify_identity
 *   ssl-cert=FILE and ssl-key=FILE            the client's own certificate, from required on
 *   ssl-cipher=LIST, tls-version=TLSv1.2,TLSv1.3  also from required on
 * An option that is unknown, stands twice, has no value, names a file that cannot be read, or asks
 * for what the client library does not keep is SQLOCK_EINVAL; a server that does not speak TLS as
 * it was asked to, SQLOCK_EREFUSED or SQLOCK_EUNREACH.
 *
 * What the URL leaves open is taken from the option files that the client library reads: groups
 * [client] and [sqlock], with MariaDB's library [client-server] and [client-mariadb] too. Taken are
 * host, port, socket, user, password, database, what belongs to TLS, bind-address, plugin-dir and
 * default-auth; nothing else. Neither library reads ssl-mode there. With MySQL's, a file that names
 * ssl-ca asks for verify_ca; with MariaDB's, one that names anything of TLS asks for required, and
 * ssl-verify-server-cert for verify_identity.
 *
 * Several hosts are servers of which one grants at a time: a primary and its replicas. They are asked
 * one at a time, first the one that answered last, each for its part of the time that is left. The
 * next one is asked when a host does not answer, refuses, is full, is read-only, or has left a request
 * without an answer; not after a wrong password, an unknown database or a URL that cannot be. Each has a name;
 * a socket is on one host. Up to 64 hosts. Who may write in spite of read_only (SUPER, READ_ONLY ADMIN)
 * is not told by an open connection that the server has become a replica: give the application a user
 * without that.
 *
 * A connection factory hands out a MYSQL * that is connected with CLIENT_MULTI_STATEMENTS and
 * outside any transaction; MariaDB's client library must have been given MYSQL_OPT_NONBLOCK before
 * it connected. It is of the library that the driver was built with: MariaDB's, or MySQL's 8.0.16
 * or newer.
 *
 * The client library ignores SIGPIPE, in the whole process, from its first use on. The driver puts
 * that back, and raises none itself. An application that uses the library too, over TLS, and counts on
 * this calls mysql_library_init() before it opens a manager, or ignores SIGPIPE by itself.
 *
 * MariaDB 10.6 or MySQL 5.6, or newer, and InnoDB. A Galera node, and a member of a replication group
 * with several primaries, is refused: each of them grants by a clock of its own. Where the server cannot
 * step over locked rows (MySQL before 8.0), a try on a name that an open transaction guards, or whose
 * row it keeps locked, takes two to four seconds; newer servers answer at once.
 * SQLOCK_OPEN_UNPREPARED is SQLOCK_EREFUSED: sessions are set up, and must not be shared by a pooler.
 * A user needs SELECT, INSERT and UPDATE on the lock table, SELECT and UPDATE on meta. What is missing
 * is told when it is opened (SQLOCK_EDENIED); who has no right on them at all is told that there is no
 * schema. It also needs SELECT on the table of breaks, and to break INSERT, UPDATE and DELETE. With
 * SQLOCK_OPEN_ACCEPT_WEAK too MySQL before 5.7.8 is refused where it may forget commits.
 *
 * Tokens rise over every start of a server and every change of servers (P2), by their clocks. One thing is
 * noticed only by managers that have met the other server: a server that becomes writable again, was not
 * started anew, and has not replicated what was granted elsewhere. MySQL before 5.7.8 does not tell when it
 * was started. So start a server anew, or rebuild it, before it takes over again. A start is told by its
 * second: whoever opens a connection in that second waits for the next one. */
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
 * sqlock_adopt(m, mysql, 0, NULL, ...): then only the connection itself shows which library made it. */
#define sqlock_adopt_mysql(m, mysql, out_conn, err)                                                \
    sqlock_adopt((m), (mysql), sizeof(*(mysql)), (void (*)(void))mysql_init, (out_conn), (err))

#ifdef __cplusplus
}
#endif
#endif
