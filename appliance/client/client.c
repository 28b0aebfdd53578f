// SPDX-License-Identifier: Apache-2.0
// client.c: the connection of the command line clients: output queue, input buffer, poll, keep
// alive. Dialling and the handshake are client_dial.c's.
//
// The input buffer holds the packet that is coming and whatever came with it; it grows to that
// packet's size, which the codec has bounded before a byte of it is stored.
#include "client/client.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/tls_stream.h"
#include "proto/mqtt_write.h"

#define READ_BYTES 65536u

void client_close(client_conn *c) {
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
    tls_stream_free(c->tls);
    tls_client_free(c->tls_files);
    c->tls = NULL;
    c->tls_files = NULL;
    free(c->in.data);
    free(c->out.data);
    c->in = c->out = (client_buf){0};
}

int client_fail(client_conn *c, int status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(c->why, sizeof(c->why), format, args);
    va_end(args);
    c->status = status;
    client_close(c);
    return -EIO;
}

static bool buf_room(client_buf *b, u32 len) {
    if (b->capacity - b->used >= len) return true;
    u64 capacity = MAX(b->capacity, 4096u);
    while (capacity < (u64)b->used + len) capacity *= 2;
    if (capacity > 2ull * CLIENT_PACKET_BYTES_MAX) return false;
    u8 *data = realloc(b->data, capacity);
    if (data == NULL) return false;
    b->data = data;
    b->capacity = (u32)capacity;
    return true;
}

static void buf_take(client_buf *b, u32 len) {
    memmove(b->data, b->data + len, b->used - len);
    b->used -= len;
}

int client_put(client_conn *c, const mqtt_packet *packet) {
    if (c->fd < 0) return -EIO;
    int len = mqtt_write(packet, NULL, 0);
    if (len < 0) {
        return client_fail(c, CLIENT_STATUS_FAILED, "%s can not be written: %s",
                           mqtt_type_name(packet->type),
                           len == -EINVAL ? "a text of more than 65,535 bytes" : errno_name(len));
    }
    if ((u32)len > c->packet_bytes_max) {
        return client_fail(c, CLIENT_STATUS_REFUSED,
                           "%s of %d bytes, the broker takes at most %u (maximum packet size)",
                           mqtt_type_name(packet->type), len, c->packet_bytes_max);
    }
    if (!buf_room(&c->out, (u32)len)) {
        return client_fail(c, CLIENT_STATUS_FAILED, "no memory for %d bytes", len);
    }
    (void)mqtt_write(packet, c->out.data + c->out.used, (u32)len);
    c->out.used += (u32)len;
    return 0;
}

u32 client_unsent(const client_conn *c) {
    u32 sealed = 0;
    if (c->tls != NULL) (void)tls_stream_output(c->tls, &sealed);
    return c->out.used + sealed;
}

// The next bytes for the socket: with TLS what is queued is sealed first.
static const u8 *out_next(client_conn *c, u32 *len) {
    *len = c->out.used;
    if (c->tls == NULL) return c->out.data;
    if (c->out.used > 0 && tls_stream_send(c->tls, c->out.data, c->out.used) == 0) c->out.used = 0;
    return tls_stream_output(c->tls, len);
}

static void out_taken(client_conn *c, u32 len) {
    if (c->tls != NULL) tls_stream_output_taken(c->tls, len);
    else if (len == c->out.used) c->out.used = 0;
    else buf_take(&c->out, len);
}

static int out_write(client_conn *c) {
    u32 len;
    for (const u8 *data = out_next(c, &len); len > 0; data = out_next(c, &len)) {
        ssize_t n = send(c->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return 0;
        if (n < 0) {
            return client_fail(c, CLIENT_STATUS_FAILED, "connection lost: %s", errno_name(errno));
        }
        c->sent_ns = clock_mono_ns();
        out_taken(c, (u32)n);
    }
    return 0;
}

static int in_plain(void *to, u8 *data, u32 len) {
    client_conn *c = to;
    if (!buf_room(&c->in, len)) return -ENOMEM;
    memcpy(c->in.data + c->in.used, data, len);
    c->in.used += len;
    return 0;
}

// Takes bytes of the socket through TLS. 0 or -EIO.
static int in_open(client_conn *c, u8 *data, u32 len) {
    char why[TLS_STREAM_WHY_BYTES];
    int rc = tls_stream_receive(c->tls, data, len, in_plain, c);
    if (rc == -ENOMEM) return client_fail(c, CLIENT_STATUS_FAILED, "no memory for what the broker sends");
    if (rc == 0 && tls_stream_peer_ended(c->tls) && c->in.used == 0) {
        return client_fail(c, CLIENT_STATUS_FAILED, "the broker closed the connection");
    }
    if (rc == 0) return 0;
    u32 alert;
    const u8 *last = tls_stream_output(c->tls, &alert);
    if (alert > 0) (void)!send(c->fd, last, alert, MSG_NOSIGNAL | MSG_DONTWAIT);
    return client_fail(c, CLIENT_STATUS_FAILED, "TLS: %s", tls_stream_why(c->tls, why));
}

static int in_read(client_conn *c) {
    if (!buf_room(&c->in, READ_BYTES)) {
        return client_fail(c, CLIENT_STATUS_FAILED, "no memory for what the broker sends");
    }
    static u8 sealed[READ_BYTES]; // one thread
    u8 *to = c->tls != NULL ? sealed : c->in.data + c->in.used;
    ssize_t n = recv(c->fd, to, READ_BYTES, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (n < 0) {
        return client_fail(c, CLIENT_STATUS_FAILED, "connection lost: %s", errno_name(errno));
    }
    if (n == 0) {
        return client_fail(c, CLIENT_STATUS_FAILED, "the broker closed the connection%s",
                           c->in.used > 0 ? " within a packet" : "");
    }
    if (c->tls != NULL) return in_open(c, sealed, (u32)n);
    c->in.used += (u32)n;
    return 0;
}

static int fault_report(client_conn *c, const u8 *data, mqtt_fault fault) {
    return client_fail(c, CLIENT_STATUS_FAILED, "the broker sent a malformed %s: %s",
                       mqtt_type_name(data[0] >> 4), mqtt_fault_text(fault));
}

// Hands out the whole packets in the buffer. 0, the callback's answer, or -EIO.
static int packets_handle(client_conn *c, client_on_packet on_packet, void *ctx) {
    u32 at = 0;
    int rc = 0;
    while (rc == 0 && at < c->in.used) {
        u32 size;
        const u8 *data = c->in.data + at;
        mqtt_fault fault = mqtt_packet_size(&c->codec, data, c->in.used - at, &size);
        if (fault != MQTT_FAULT_NONE) return fault_report(c, data, fault);
        if (size == 0 || size > c->in.used - at) break;
        mqtt_packet packet;
        fault = mqtt_parse(&c->codec, data, size, &packet);
        if (fault != MQTT_FAULT_NONE) return fault_report(c, data, fault);
        at += size;
        if (packet.type == MQTT_PINGRESP) {
            c->ping_ns = 0;
            continue;
        }
        rc = on_packet(ctx, &packet);
        if (c->fd < 0) return -EIO; // the callback has closed it
    }
    if (at > 0) buf_take(&c->in, at);
    return rc;
}

// When the next thing about keep alive is to be done; UINT64_MAX: nothing.
static u64 alive_due_ns(const client_conn *c) {
    if (c->keep_alive_s == 0) return UINT64_MAX;
    u64 period_ns = c->keep_alive_s * NS_PER_S;
    if (c->ping_ns != 0) return c->ping_ns + period_ns;
    return c->sent_ns + period_ns * 3 / 4;
}

static int alive_keep(client_conn *c, u64 now_ns) {
    if (alive_due_ns(c) > now_ns) return 0;
    if (c->ping_ns != 0) {
        return client_fail(c, CLIENT_STATUS_FAILED, "the broker does not answer (PINGREQ, %u s)",
                           c->keep_alive_s);
    }
    mqtt_packet ping = {.type = MQTT_PINGREQ, .version = c->codec.version};
    c->ping_ns = now_ns;
    return client_put(c, &ping);
}

static int poll_once(client_conn *c, u64 until_ns, int extra_fd, short *events, bool *extra) {
    u64 now_ns = clock_mono_ns();
    u64 wake_ns = MIN(until_ns, alive_due_ns(c));
    u64 left_ms = wake_ns <= now_ns ? 0 : (wake_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
    struct pollfd fds[2] = {{.fd = c->fd, .events = POLLIN}, {.fd = extra_fd, .events = POLLIN}};
    if (client_unsent(c) > 0) fds[0].events |= POLLOUT;
    int n = poll(fds, 2, (int)MIN(left_ms, (u64)INT32_MAX));
    *events = n > 0 ? fds[0].revents : 0;
    *extra = n > 0 && extra_fd >= 0 && fds[1].revents != 0;
    if (n < 0 && errno != EINTR) {
        return client_fail(c, CLIENT_STATUS_FAILED, "poll: %s", errno_name(errno));
    }
    return 0;
}

client_turn_result client_turn(client_conn *c, u64 until_ns, int extra_fd,
                               client_on_packet on_packet, void *ctx) {
    short events;
    bool extra;
    if (c->fd < 0) return CLIENT_TURN_CLOSED;
    // What came together with the last packet handled is still here.
    if (c->in.used > 0 && packets_handle(c, on_packet, ctx) < 0) return CLIENT_TURN_CLOSED;
    if (out_write(c) != 0) return CLIENT_TURN_CLOSED;
    if (poll_once(c, until_ns, extra_fd, &events, &extra) != 0) return CLIENT_TURN_CLOSED;
    if ((events & POLLIN) != 0 || (events & (POLLHUP | POLLERR)) != 0) {
        if (in_read(c) != 0) return CLIENT_TURN_CLOSED;
        if (packets_handle(c, on_packet, ctx) < 0) return CLIENT_TURN_CLOSED;
    }
    if (alive_keep(c, clock_mono_ns()) != 0 || out_write(c) != 0) return CLIENT_TURN_CLOSED;
    return extra ? CLIENT_TURN_READABLE : CLIENT_TURN_OK;
}

static int ignore_packet(void *ctx, const mqtt_packet *packet) {
    (void)ctx;
    (void)packet;
    return 0;
}

void client_leave(client_conn *c, u8 reason, const mqtt_properties *props, u32 timeout_ms) {
    mqtt_packet packet = {.type = MQTT_DISCONNECT, .version = c->codec.version};
    packet.goodbye.reason = reason;
    if (props != NULL) packet.goodbye.props = *props;
    u64 until_ns = clock_mono_ns() + timeout_ms * NS_PER_MS;
    if (client_put(c, &packet) == 0 && out_write(c) == 0) {
        if (c->tls != NULL) tls_stream_close(c->tls);
        (void)out_write(c);
        while (c->fd >= 0 && client_unsent(c) > 0 && clock_mono_ns() < until_ns) {
            if (client_turn(c, until_ns, -1, ignore_packet, NULL) == CLIENT_TURN_CLOSED) break;
        }
    }
    client_close(c);
}
