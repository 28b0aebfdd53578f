// SPDX-License-Identifier: Apache-2.0
// mqtt_net.c: opening, sending, closing of the generator's connections. See mqtt_net.h; what comes
// in is mqtt_net_read.c's.
//
// Output: fill grows while flight is in the kernel's hands; when flight has gone they change
// places. So each connection has one send in progress and everything of a turn is in it.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/mqtt_net_read.h"
#include "bench/mqtt_net_tls.h"
#include "proto/mqtt_property.h"
#include "proto/mqtt_write.h"

mqtt_version mq_net_version(const mq_net *net) {
    return net->o->version == 1 ? MQTT_5 : MQTT_3_1_1;
}

static void dirty_mark(mq_client *c) {
    if (c->dirty) return;
    c->dirty = true;
    c->dirty_next = c->net->dirty;
    c->net->dirty = c;
}

static bool has_output(const mq_client *c) {
    return c->fill.used > 0 || (c->tls != NULL && mq_tls_has_output(c));
}

static void send_start(mq_client *c) {
    while (c->state != MQ_ENDED && c->state != MQ_CLOSED && !c->io.sending && has_output(c)) {
        if (c->tls != NULL) {
            if (!mq_tls_seal(c) || c->flight.used == 0) return; // 0: it waits for the handshake
        } else {
            mq_buf full = c->fill;
            c->fill = c->flight;
            c->flight = full;
            c->fill.used = 0;
        }
        c->net->bytes_out += c->flight.used;
        int rc = cio_send(c->net->io, &c->io, c->flight.data, c->flight.used);
        if (rc == 0) return;
        if (rc < 0) {
            mq_client_fail(c, bench_error_of_socket(rc), clock_mono_ns());
            return;
        }
        if (c->role->sent != NULL && c->fill.used == 0) c->role->sent(c);
    }
}

void mq_net_flush(mq_net *net) {
    while (net->dirty != NULL) {
        mq_client *c = net->dirty;
        net->dirty = c->dirty_next;
        c->dirty = false;
        send_start(c);
    }
}

static void on_sent(void *ctx, cio_conn *io) {
    (void)ctx;
    mq_client *c = CONTAINER_OF(io, mq_client, io);
    if (has_output(c)) {
        dirty_mark(c);
    } else if (c->role->sent != NULL) {
        c->role->sent(c);
    }
}

static void on_ended(void *ctx, cio_conn *io, int err) {
    (void)ctx;
    mq_client *c = CONTAINER_OF(io, mq_client, io);
    bench_error error = c->state == MQ_OPENING && err != 0 ? bench_error_of_connect(err)
                                                           : bench_error_of_socket(err);
    mq_client_fail(c, error, clock_mono_ns());
}

static void on_data(void *ctx, cio_conn *io, const u8 *bytes, size_t len, u64 now_ns) {
    mq_net *net = ctx;
    mq_client *c = CONTAINER_OF(io, mq_client, io);
    net->bytes_in += len;
    if (c->tls == NULL) {
        mq_client_read(c, bytes, (u32)len, now_ns);
        return;
    }
    // The engine's receive buffer, which nobody reads again.
    mq_tls_read(c, (u8 *)(uintptr_t)bytes, (u32)len, now_ns);
    if (c->state != MQ_ENDED && c->state != MQ_CLOSED && has_output(c)) dirty_mark(c);
}

void mq_net_prepare(mq_net *net, const mq_options *o, cio *io, dial *d) {
    static u32 runs;
    *net = (mq_net){.o = o, .io = io, .dial = d, .run = ++runs};
    net->events = (cio_events){.ctx = net, .data = on_data, .sent = on_sent, .ended = on_ended};
    net->codec = (mqtt_codec){.version = (u8)mq_net_version(net),
                              .sender = MQTT_FROM_SERVER,
                              .packet_bytes_max = MQ_PACKET_BYTES_MAX};
    net->keep_alive_s = (u16)(o->keepalive_ns / NS_PER_S);
}

u8 *mq_client_room(mq_client *c, u32 len) {
    mq_buf *b = &c->fill;
    if (UNLIKELY(b->capacity - b->used < len)) {
        u64 capacity = MAX(b->capacity, MQ_OUT_BYTES_FIRST);
        while (capacity < (u64)b->used + len) capacity *= 2;
        if (capacity > MQ_OUT_BYTES_MAX) return NULL;
        u8 *data = realloc(b->data, capacity);
        if (data == NULL) return NULL;
        b->data = data;
        b->capacity = (u32)capacity;
    }
    u8 *room = b->data + b->used;
    b->used += len;
    dirty_mark(c);
    return room;
}

void mq_client_put(mq_client *c, const u8 *bytes, u32 len) {
    u8 *room = mq_client_room(c, len);
    if (room == NULL) {
        mq_client_fail(c, BENCH_ERROR_OUTSTANDING_LIMIT, clock_mono_ns());
        return;
    }
    memcpy(room, bytes, len);
}

void mq_client_ack(mq_client *c, mqtt_type type, u16 packet_id) {
    u8 first = (u8)(type << 4 | (type == MQTT_PUBREL ? 2 : 0));
    u8 bytes[MQTT_ACK_SHORT_BYTES] = {first, 2, (u8)(packet_id >> 8), (u8)packet_id};
    mq_client_put(c, bytes, sizeof(bytes));
}

void mq_client_ping(mq_client *c) {
    u8 bytes[MQTT_PING_BYTES];
    (void)mqtt_write_ping(MQTT_PINGREQ, bytes, sizeof(bytes));
    mq_client_put(c, bytes, sizeof(bytes));
}

void mq_client_subscribe(mq_client *c, const char *filter, u8 qos) {
    u8 list[MQ_TOPIC_BYTES_MAX + 64], bytes[sizeof(list) + 16];
    mqtt_filter one = {.text = {(const u8 *)filter, (u32)strlen(filter)}, .qos = qos};
    mqtt_subscribe packet = {.packet_id = 1, .filters = {.options = true}};
    int rc = mqtt_filter_put(&packet.filters, list, sizeof(list), &one);
    ASSERT(rc == 0);
    rc = mqtt_write_subscribe(mq_net_version(c->net), MQTT_SUBSCRIBE, &packet, bytes,
                              sizeof(bytes));
    ASSERT(rc > 0);
    c->sub_pending = true;
    mq_client_put(c, bytes, (u32)rc);
}

static mqtt_bytes text_bytes(const char *text) {
    return text == NULL ? (mqtt_bytes){0} : (mqtt_bytes){(const u8 *)text, (u32)strlen(text)};
}

static int connect_put(mq_client *c) {
    const mq_options *o = c->net->o;
    char id[MQ_TEXT_BYTES_MAX + 48];
    u8 bytes[3 * MQ_TEXT_BYTES_MAX + 256];
    snprintf(id, sizeof(id), "%s%x-%u-%u", o->id_prefix, (unsigned)getpid(), c->net->run, c->index);
    mqtt_connect packet = {.version = (u8)mq_net_version(c->net),
                           .clean_start = true,
                           .keep_alive_s = c->net->keep_alive_s,
                           .client_id = text_bytes(id),
                           .user_name = text_bytes(o->user),
                           .password = text_bytes(o->password)};
    int len = mqtt_write_connect(&packet, bytes, sizeof(bytes));
    ASSERT(len > 0);
    u8 *room = mq_client_room(c, (u32)len);
    if (room == NULL) return -ENOMEM;
    memcpy(room, bytes, (size_t)len);
    return 0;
}

int mq_client_open(mq_client *c, u32 index, const mq_role *role, mq_net *net, bool once) {
    int fd = -1;
    c->net = net;
    c->role = role;
    c->index = index;
    c->receive_max = 65535;
    c->fill.used = c->flight.used = c->rx.used = 0;
    c->sub_pending = false;
    c->started_ns = clock_mono_ns();
    int rc = net->tls != NULL && !mq_tls_open(c) ? -ENOMEM : dial_start(net->dial, net->dials++, &fd);
    if (rc == 0) {
        rc = cio_attach(net->io, &c->io, fd, &net->events, once);
        if (rc != 0) close(fd);
    }
    if (rc != 0) {
        bench_error_add(&net->errors, bench_error_of_connect(rc), 1);
        c->state = MQ_ENDED;
        return rc;
    }
    c->state = MQ_OPENING;
    rc = connect_put(c);
    if (rc != 0) {
        bench_error_add(&net->errors, BENCH_ERROR_NO_MEMORY, 1);
        cio_close(net->io, &c->io);
        c->state = MQ_ENDED;
    }
    return rc;
}

static void close_quietly(mq_client *c) {
    if (c->io.open) cio_close(c->net->io, &c->io);
    // Cut here and not unlinked: a flush skips what has ended.
    c->fill.used = 0;
    c->state = MQ_ENDED;
}

void mq_client_leave(mq_client *c) {
    static const u8 goodbye[2] = {MQTT_DISCONNECT << 4, 0};
    if (c->state == MQ_ENDED || c->state == MQ_CLOSED) return;
    if (c->tls != NULL && !c->io.sending && c->fill.used == 0) {
        mq_tls_leave(c, goodbye, sizeof(goodbye));
    } else if (!c->io.sending && c->fill.used == 0) {
        c->net->bytes_out += sizeof(goodbye);
        (void)!send(c->io.fd, goodbye, sizeof(goodbye), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    close_quietly(c);
}

void mq_client_fail(mq_client *c, bench_error error, u64 now_ns) {
    if (c->state == MQ_ENDED || c->state == MQ_CLOSED) return;
    bench_error_add(&c->net->errors, error, 1);
    close_quietly(c);
    if (c->role->ended != NULL) c->role->ended(c, now_ns);
}

void mq_client_free(mq_client *c) {
    if (c->io.open) cio_close(c->net->io, &c->io);
    mq_tls_free(c);
    explicit_bzero(&c->session, sizeof(c->session));
    free(c->fill.data);
    free(c->flight.data);
    free(c->rx.data);
    c->fill = c->flight = c->rx = (mq_buf){0};
    c->state = MQ_CLOSED;
}
