// SPDX-License-Identifier: Apache-2.0
// log_syslog.c: the syslog sink: RFC 5424 messages, one datagram each (RFC 5426 over UDP), to a
// unix socket or an IP address. Facility daemon, severity by level, no structured data.
//
// Pending lines are kept as finished messages with a newline between them, which is not sent. The
// socket is made by the first write and again after a failure: a syslog daemon that restarts gives
// ECONNREFUSED or ENOENT once and takes what is pending after the back-off.
#include "base/log_sinks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FACILITY_DAEMON 3u
#define SYSLOG_HEAD_BYTES 512u // <PRI>1 TIME HOSTNAME APP-NAME PROCID - - and a hostname of 255

static const u8 severities[LOG_LEVELS] = {3, 4, 6, 7}; // error, warning, informational, debug

typedef union syslog_address {
    struct sockaddr any;
    struct sockaddr_un local;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} syslog_address;

// Address of a host and port, or of a unix path (port 0). Returns its length, 0 when malformed.
static socklen_t address_fill(syslog_address *address, const char *host, u16 port) {
    memset(address, 0, sizeof(*address));
    if (port == 0) {
        size_t len = strlen(host);
        if (len == 0 || len >= sizeof(address->local.sun_path)) return 0;
        address->local.sun_family = AF_UNIX;
        memcpy(address->local.sun_path, host, len + 1);
        return sizeof(address->local);
    }
    if (inet_pton(AF_INET, host, &address->v4.sin_addr) == 1) {
        address->v4.sin_family = AF_INET;
        address->v4.sin_port = htons(port);
        return sizeof(address->v4);
    }
    if (inet_pton(AF_INET6, host, &address->v6.sin6_addr) == 1) {
        address->v6.sin6_family = AF_INET6;
        address->v6.sin6_port = htons(port);
        return sizeof(address->v6);
    }
    return 0;
}

// "host:port", with IPv6 addresses in brackets or without. False when malformed.
static bool host_port_split(char *text, const char **host, u16 *port) {
    char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text) return false;
    char *end = NULL;
    errno = 0;
    unsigned long number = colon[1] >= '0' && colon[1] <= '9' ? strtoul(colon + 1, &end, 10) : 0;
    if (errno != 0 || number == 0 || number > UINT16_MAX || *end != '\0') return false;
    *colon = '\0';
    *port = (u16)number;
    *host = text;
    if (text[0] == '[' && colon[-1] == ']') {
        colon[-1] = '\0';
        *host = text + 1;
    }
    return true;
}

// RFC 5424 section 6: HOSTNAME is printable ASCII without spaces, "-" when unknown.
static void hostname_set(log_sink *sink, const char *configured) {
    char *name = sink->hostname;
    size_t room = sizeof(sink->hostname);
    if (configured != NULL && configured[0] != '\0') snprintf(name, room, "%s", configured);
    else if (gethostname(name, room - 1) != 0) name[0] = '\0';
    for (char *c = name; *c != '\0'; c++) {
        if (*c <= ' ' || *c > '~') *c = '-';
    }
    if (name[0] == '\0') memcpy(name, "-", 2);
}

int log_syslog_parse(log_sink *sink, const log_config *config) {
    static const char unix_prefix[] = "unix:", udp_prefix[] = "udp:";
    char text[256];
    if (strlen(config->syslog) >= sizeof(text)) return -EINVAL;
    memcpy(text, config->syslog, strlen(config->syslog) + 1);
    const char *host;
    if (strncmp(text, unix_prefix, sizeof(unix_prefix) - 1) == 0) {
        host = text + sizeof(unix_prefix) - 1;
    } else if (strncmp(text, udp_prefix, sizeof(udp_prefix) - 1) != 0 ||
               !host_port_split(text + sizeof(udp_prefix) - 1, &host, &sink->port)) {
        return -EINVAL;
    }
    syslog_address address;
    if (address_fill(&address, host, sink->port) == 0) return -EINVAL;
    sink->address = strdup(host);
    if (sink->address == NULL) return -ENOMEM;
    hostname_set(sink, config->hostname);
    return 0;
}

static void syslog_append(log_sink *sink, const log_line *line) {
    char head[SYSLOG_HEAD_BYTES];
    int len = snprintf(head, sizeof(head), "<%u>1 %.*s %s sluice %d - - ",
                       FACILITY_DAEMON * 8 + severities[line->level], (int)LOG_TIME_BYTES,
                       line->data, sink->hostname, (int)getpid());
    ASSERT(len > 0 && (size_t)len < sizeof(head));
    log_pending_append(sink, head, (u32)len);
    log_pending_append(sink, line->data + line->text_start, line->len - line->text_start);
}

static void syslog_close(log_sink *sink) {
    if (sink->fd >= 0) close(sink->fd);
    sink->fd = -1;
}

static int syslog_connect(log_sink *sink) {
    syslog_address address;
    socklen_t bytes = address_fill(&address, sink->address, sink->port);
    int fd = socket(address.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    if (connect(fd, &address.any, bytes) != 0) {
        int rc = -errno;
        close(fd);
        // A full backlog is not a socket to poll: let it be an ordinary failure with its back-off.
        return rc == -EAGAIN ? -EBUSY : rc;
    }
    sink->fd = fd;
    return 0;
}

static int syslog_write(log_sink *sink) {
    if (sink->fd < 0) {
        int rc = syslog_connect(sink);
        if (rc != 0) return rc;
    }
    while (sink->pending_len > 0) {
        u32 bytes = log_pending_first_line(sink);
        ssize_t sent =
            send(sink->fd, log_pending_data(sink), bytes - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) return -EAGAIN;
        if (sent < 0 && errno != EMSGSIZE) {
            int rc = -errno;
            syslog_close(sink);
            return rc;
        }
        // A message beyond the receiver's limit will never go: log_sink_flush counts it.
        if (sent < 0) sink->lost++;
        log_pending_consume(sink, bytes);
    }
    return 0;
}

const log_sink_kind log_sink_syslog = {"syslog", syslog_append, syslog_write, syslog_close};
