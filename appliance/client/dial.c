// SPDX-License-Identifier: Apache-2.0
// dial.c: from host and port to a connection that the broker has accepted: name resolution, each
// address in turn, CONNECT, CONNACK and what it grants.
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/client.h"
#include "net/tls_stream.h"
#include "proto/mqtt_property.h"

typedef struct handshake {
    client_conn *conn;
    bool done;
} handshake;

static int connect_wait(int fd, u64 until_ns) {
    for (;;) {
        u64 now_ns = clock_mono_ns();
        if (now_ns >= until_ns) return -ETIMEDOUT;
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        int n = poll(&p, 1, (int)((until_ns - now_ns) / NS_PER_MS + 1));
        if (n < 0 && errno != EINTR) return -errno;
        if (n <= 0) continue;
        int err = 0;
        socklen_t len = sizeof(err);
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0) return -errno;
        return -err;
    }
}

static int address_try(const struct addrinfo *a, u64 until_ns, int *out) {
    int on = 1;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    int rc = connect(fd, a->ai_addr, a->ai_addrlen) == 0 ? 0 : -errno;
    if (rc == -EINPROGRESS) rc = connect_wait(fd, until_ns);
    if (rc != 0) {
        close(fd);
        return rc;
    }
    *out = fd;
    return 0;
}

static int socket_open(client_conn *c, const client_options *o, u64 until_ns) {
    char port[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    snprintf(port, sizeof(port), "%u", o->port);
    int rc = getaddrinfo(o->host, port, &hints, &found);
    if (rc != 0) {
        return client_fail(c, CLIENT_STATUS_FAILED, "%s: %s", o->host, gai_strerror(rc));
    }
    rc = -EADDRNOTAVAIL;
    for (const struct addrinfo *a = found; a != NULL && c->fd < 0; a = a->ai_next) {
        rc = address_try(a, until_ns, &c->fd);
    }
    freeaddrinfo(found);
    if (c->fd >= 0) return 0;
    return client_fail(c, CLIENT_STATUS_FAILED, "%s port %u: %s", o->host, o->port,
                       rc == -ECONNREFUSED ? "connection refused: nothing listens there"
                       : rc == -ETIMEDOUT  ? "no answer"
                                           : errno_name(rc));
}

#define SYSTEM_CA_FILE "/etc/ssl/certs/ca-certificates.crt" // where Debian, Alpine and Arch have it

static int tls_begin(client_conn *c, const client_options *o) {
    char why[224];
    const tls_client_files files = {
        .ca = o->ca_file != NULL ? o->ca_file : SYSTEM_CA_FILE,
        .cert = o->cert_file,
        .key = o->key_file,
        .alpn = "mqtt",
    };
    if (tls_client_load(&files, &c->tls_files, why, sizeof(why)) < 0) {
        return client_fail(c, CLIENT_STATUS_FAILED, "%s", why);
    }
    c->tls = tls_stream_open(c->tls_files, o->tls_any_name ? NULL : o->host, NULL);
    if (c->tls == NULL) return client_fail(c, CLIENT_STATUS_FAILED, "TLS: no memory");
    return 0;
}

static const char *connack_text(u8 code) { // 3.1.1 section 3.2.2.3
    static const char *const texts[] = {"accepted", "unacceptable protocol version",
                                        "identifier rejected", "server unavailable",
                                        "bad user name or password", "not authorized"};
    return code < ARRAY_LEN(texts) ? texts[code] : "unknown return code";
}

static int connack_take(client_conn *c, const mqtt_connack *a, u8 version) {
    const mqtt_properties *p = &a->props;
    if (a->code != 0) {
        mqtt_bytes said = mqtt_property_bytes(p, MQTT_REASON_STRING);
        return client_fail(c, CLIENT_STATUS_REFUSED, "refused by the broker: %s (0x%02x)%s%.*s",
                           version == MQTT_5 ? mqtt_reason_name(a->code) : connack_text(a->code),
                           a->code, said.len > 0 ? ": " : "", (int)MIN(said.len, 100u),
                           said.len > 0 ? (const char *)said.data : "");
    }
    c->session_present = a->session_present;
    c->receive_max = (u16)mqtt_property_number(p, MQTT_RECEIVE_MAX, 65535);
    c->qos_max = (u8)mqtt_property_number(p, MQTT_QOS_MAX, 2);
    c->retain_available = mqtt_property_number(p, MQTT_RETAIN_AVAILABLE, 1) != 0;
    c->topic_alias_max = (u16)mqtt_property_number(p, MQTT_TOPIC_ALIAS_MAX, 0);
    c->packet_bytes_max = mqtt_property_number(p, MQTT_PACKET_SIZE_MAX, MQTT_PACKET_BYTES_MAX);
    c->keep_alive_s = (u16)mqtt_property_number(p, MQTT_SERVER_KEEP_ALIVE, c->keep_alive_s);
    return 0;
}

static int on_packet(void *ctx, const mqtt_packet *packet) {
    handshake *h = ctx;
    if (packet->type == MQTT_AUTH) {
        return client_fail(h->conn, CLIENT_STATUS_REFUSED,
                           "the broker asks for enhanced authentication, which is not supported");
    }
    if (packet->type != MQTT_CONNACK) {
        return client_fail(h->conn, CLIENT_STATUS_FAILED, "the broker answered CONNECT with %s",
                           mqtt_type_name(packet->type));
    }
    int rc = connack_take(h->conn, &packet->connack, packet->version);
    h->done = rc == 0;
    return rc != 0 ? rc : 1; // what follows belongs to the caller
}

static int connect_put(client_conn *c, const client_options *o, char *id, size_t id_bytes) {
    mqtt_packet packet = {.type = MQTT_CONNECT, .version = (u8)o->version};
    client_id_make(o, id, id_bytes);
    packet.connect = (mqtt_connect){
        .version = (u8)o->version,
        .clean_start = o->clean_start,
        .keep_alive_s = o->keep_alive_s,
        .props = mqtt_property_list_end(&o->props[PLACE_CONNECT]),
        .client_id = client_text(id),
        .has_will = o->will_topic != NULL,
        .will_qos = o->will_qos,
        .will_retain = o->will_retain,
        .will_props = mqtt_property_list_end(&o->props[PLACE_WILL]),
        .will_topic = client_text(o->will_topic),
        .will_payload = client_text(o->will_payload != NULL ? o->will_payload : ""),
        .user_name = client_text(o->user),
        .password = client_text(o->password),
    };
    if (!packet.connect.has_will) packet.connect.will_payload = (mqtt_bytes){0};
    return client_put(c, &packet);
}

int client_dial(client_conn *c, const client_options *o) {
    char id[65536];
    u64 until_ns = clock_mono_ns() + o->connect_timeout_s * NS_PER_S;
    *c = (client_conn){.fd = -1,
                       .receive_max = 65535,
                       .packet_bytes_max = MQTT_PACKET_BYTES_MAX,
                       .keep_alive_s = o->keep_alive_s};
    c->codec = (mqtt_codec){.version = (u8)o->version,
                            .sender = MQTT_FROM_SERVER,
                            .packet_bytes_max = CLIENT_PACKET_BYTES_MAX};
    if (socket_open(c, o, until_ns) != 0) return -EIO;
    if (o->tls && tls_begin(c, o) != 0) return -EIO;
    c->sent_ns = clock_mono_ns();
    if (connect_put(c, o, id, sizeof(id)) != 0) return -EIO;
    handshake h = {.conn = c};
    while (!h.done) {
        if (client_turn(c, until_ns, -1, on_packet, &h) == CLIENT_TURN_CLOSED) return -EIO;
        if (!h.done && clock_mono_ns() >= until_ns) {
            return client_fail(c, CLIENT_STATUS_FAILED, "%s port %u: no CONNACK within %u s",
                               o->host, o->port, o->connect_timeout_s);
        }
    }
    if (o->debug) {
        fprintf(stderr, "CONNACK%s, keep alive %u s\n",
                c->session_present ? ", session present" : "", c->keep_alive_s);
    }
    return 0;
}
