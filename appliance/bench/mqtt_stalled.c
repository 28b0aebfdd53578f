// SPDX-License-Identifier: Apache-2.0
// mqtt_stalled.c: see mqtt_stalled.h. The small receive buffer makes the broker feel at once that
// nobody reads.
#include "bench/mqtt_stalled.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/mqtt_write.h"

#define RCVBUF_BYTES 4096u

static int all_send(int fd, const u8 *bytes, int len) {
    return len > 0 && send(fd, bytes, (size_t)len, MSG_NOSIGNAL) == len ? 0 : -EIO;
}

// One packet of the wanted type whose last byte is below 0x80: CONNACK and SUBACK that say yes.
static int answer_wait(int fd, u8 type, int timeout_ms) {
    u8 bytes[256];
    u32 have = 0;
    while (have < 2 || have < 2u + bytes[1]) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, timeout_ms) <= 0) return -ETIMEDOUT;
        ssize_t n = recv(fd, bytes + have, have < 2 ? 2 - have : 2u + bytes[1] - have, 0);
        if (n <= 0) return -ECONNRESET;
        have += (u32)n;
        if (have >= 2 && (bytes[1] > 128 || bytes[0] >> 4 != type)) return -EPROTO;
    }
    u8 code = type == MQTT_CONNACK ? bytes[3] : bytes[have - 1];
    return code < 0x80 && (type != MQTT_CONNACK || code == 0) ? 0 : -EACCES;
}

static int handshake(mq_world *w, int fd, u32 index) {
    const mq_options *o = &w->options;
    char id[MQ_TEXT_BYTES_MAX + 48], topic[MQ_TOPIC_BYTES_MAX];
    u8 list[MQ_TOPIC_BYTES_MAX + 8], bytes[3 * MQ_TEXT_BYTES_MAX + 256];
    int timeout_ms = (int)MIN(o->timeout_ns / NS_PER_MS, (u64)INT32_MAX);
    snprintf(id, sizeof(id), "%s%x-%u-stalled-%u", o->id_prefix, (unsigned)getpid(), w->net.run,
             index);
    snprintf(topic, sizeof(topic), "%s/#", w->result->prefix);
    mqtt_connect connect = {.version = (u8)mq_net_version(&w->net),
                            .clean_start = true,
                            .client_id = {(const u8 *)id, (u32)strlen(id)}};
    if (o->user != NULL) connect.user_name = (mqtt_bytes){(const u8 *)o->user, (u32)strlen(o->user)};
    if (o->password != NULL) {
        connect.password = (mqtt_bytes){(const u8 *)o->password, (u32)strlen(o->password)};
    }
    int rc = all_send(fd, bytes, mqtt_write_connect(&connect, bytes, sizeof(bytes)));
    if (rc == 0) rc = answer_wait(fd, MQTT_CONNACK, timeout_ms);
    mqtt_filter one = {.text = {(const u8 *)topic, (u32)strlen(topic)}, .qos = (u8)o->sub_qos};
    mqtt_subscribe packet = {.packet_id = 1, .filters = {.options = true}};
    if (rc == 0) rc = mqtt_filter_put(&packet.filters, list, sizeof(list), &one);
    if (rc != 0) return rc;
    rc = all_send(fd, bytes, mqtt_write_subscribe(mq_net_version(&w->net), MQTT_SUBSCRIBE, &packet,
                                                  bytes, sizeof(bytes)));
    return rc == 0 ? answer_wait(fd, MQTT_SUBACK, timeout_ms) : rc;
}

int mq_stalled_open(mq_stalled *s, mq_world *w, u32 count) {
    dial d = w->dial;
    d.rcvbuf = RCVBUF_BYTES;
    if (count == 0) return 0;
    s->fds = malloc(count * sizeof(*s->fds));
    if (s->fds == NULL) return mq_world_refuse(w, "no memory for %u stalled subscribers", count);
    for (u32 i = 0; i < count; i++) {
        int fd;
        int rc = dial_start(&d, w->net.dials++, &fd);
        if (rc == 0) {
            s->fds[s->count++] = fd;
            rc = dial_finish(fd, (int)MIN(w->options.timeout_ns / NS_PER_MS, (u64)INT32_MAX));
        }
        if (rc == 0) rc = handshake(w, fd, i);
        if (rc != 0) {
            return mq_world_refuse(w, "set-up failed: stalled subscriber %u of %u: %s", i + 1, count,
                                   errno_name(rc));
        }
    }
    return 0;
}

u32 mq_stalled_closed(const mq_stalled *s) {
    u32 closed = 0;
    for (u32 i = 0; i < s->count; i++) {
        // What was sent before the end still waits in front of it: the state tells, not a read.
        struct pollfd p = {.fd = s->fds[i], .events = POLLRDHUP};
        if (poll(&p, 1, 0) > 0) closed++;
    }
    return closed;
}

void mq_stalled_close(mq_stalled *s) {
    for (u32 i = 0; i < s->count; i++) close(s->fds[i]);
    free(s->fds);
    *s = (mq_stalled){0};
}
