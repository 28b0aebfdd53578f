// SPDX-License-Identifier: Apache-2.0
// fake_net.h: workers without threads and connections without sockets, for tests and fuzz targets
// of what lies above them. Include it once in a program: it defines the functions of worker.h and
// net/conn.h that broker and protocols call.
//
// Workers post into queues, one for each pair, that the test empties with net_pump, in a seeded
// order; rings may be made to refuse. A connection cuts its input as the real one does, but offers
// every packet in a malloc'd copy of exactly its size, so that the address sanitizer sees a read
// beyond it.
#ifndef SLUICE_TESTS_FAKE_NET_H
#define SLUICE_TESTS_FAKE_NET_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "net/listener.h"
#include "net/tls.h"
#include "random.h"
#include "worker.h"

#define FAKE_WORKERS_MAX 4u

typedef struct fake_queue {
    spsc_message *items;
    u32 head, tail, size;
} fake_queue;

typedef struct fake_net {
    gateway gw;
    config conf;
    worker workers[FAKE_WORKERS_MAX];
    listener listeners[FAKE_WORKERS_MAX];
    fake_queue queues[FAKE_WORKERS_MAX][FAKE_WORKERS_MAX]; // from, to
    bool refuse[FAKE_WORKERS_MAX];    // rings of this sender are full
    bool congested[FAKE_WORKERS_MAX];
    u64 random;
    u64 posts;
} fake_net;

static fake_net net;

static void fake_require(bool ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "fake_net: %s\n", what);
    abort();
}

static void net_start(u32 workers, u64 memory_bytes, u64 seed) {
    memset(&net, 0, sizeof(net));
    net.random = seed;
    net.gw.conf = &net.conf;
    net.gw.worker_count = workers;
    net.gw.workers = net.workers;
    for (u32 i = 0; i < workers; i++) {
        worker *w = &net.workers[i];
        w->index = i;
        w->gw = &net.gw;
        w->conf = &net.conf;
        w->now_ns = NS_PER_S;
        w->wheel = timer_wheel_create(w->now_ns, w);
        w->broker = broker_create(&(broker_config){.owner = w, .memory_bytes = memory_bytes});
        fake_require(w->wheel != NULL && w->broker != NULL, "no memory for a worker");
        net.listeners[i].owner = w;
        net.listeners[i].conf = (listener_config){
            .name = "devices", .max_frame = 65536, .out_bytes_max = 256 << 10, .anonymous = true,
            .up_topic = "devices/%i/up", .down_topic = "devices/%i/down"};
    }
}

static void net_stop(void) {
    for (u32 i = 0; i < net.gw.worker_count; i++) broker_destroy(net.workers[i].broker);
    for (u32 i = 0; i < net.gw.worker_count; i++) timer_wheel_destroy(net.workers[i].wheel);
    for (u32 i = 0; i < FAKE_WORKERS_MAX; i++) {
        for (u32 k = 0; k < FAKE_WORKERS_MAX; k++) free(net.queues[i][k].items);
    }
}

// --- worker.h ---

bool worker_post(worker *from, u32 to, const spsc_message *message) {
    if (net.refuse[from->index]) return false;
    fake_require(to < net.gw.worker_count && to != from->index, "posted to no other worker");
    fake_queue *queue = &net.queues[from->index][to];
    if (queue->tail == queue->size) {
        queue->size = MAX(16u, queue->size * 2);
        queue->items = realloc(queue->items, queue->size * sizeof(*queue->items));
        fake_require(queue->items != NULL, "no memory for a queue");
    }
    queue->items[queue->tail++] = *message;
    net.posts++;
    return true;
}

bool worker_post_is_congested(const worker *w) {
    return net.congested[w->index];
}

// Ids that start with a digit name their worker; the others live on worker 0.
u32 worker_of_client(const gateway *gw, const char *id, size_t bytes) {
    return bytes > 0 && id[0] >= '0' && id[0] <= '9' ? (u32)(id[0] - '0') % gw->worker_count : 0;
}

// Delivers one posted message, of a pair chosen by the seed. False: none is left.
static bool net_pump_one(void) {
    u32 pairs = FAKE_WORKERS_MAX * FAKE_WORKERS_MAX, start = random_below(&net.random, pairs);
    for (u32 i = 0; i < pairs; i++) {
        u32 pair = (start + i) % pairs;
        u32 to = pair % FAKE_WORKERS_MAX;
        fake_queue *queue = &net.queues[pair / FAKE_WORKERS_MAX][to];
        if (queue->head == queue->tail) continue;
        spsc_message message = queue->items[queue->head++];
        if (queue->head == queue->tail) queue->head = queue->tail = 0;
        broker_handle_message(net.workers[to].broker, &message);
        return true;
    }
    return false;
}

static void net_pump(void) {
    while (net_pump_one()) {}
}

// Lets time pass on all workers, so that retries run.
static UNUSED void net_advance_ms(u64 ms) {
    for (u32 i = 0; i < net.gw.worker_count; i++) {
        worker *w = &net.workers[i];
        w->now_ns += ms * NS_PER_MS;
        timer_run(w->wheel, w->now_ns);
    }
}

// --- net/conn.h ---

typedef struct fake_conn {
    conn c;
    u8 *in;          // received and not yet consumed
    u32 in_len;
    u8 *out;         // everything sent, in order
    u32 out_len, out_size;
    u32 out_taken;   // of it read by the peer
    u32 in_place_bytes;
    u32 sends_until_failure; // 0: sends do not fail
    u32 move_to;
    const u8 *dispatched;    // packet being offered
    u32 dispatched_len;
} fake_conn;

static fake_conn *fake_of(const conn *c) {
    return CONTAINER_OF((uintptr_t)c, fake_conn, c);
}

u32 conn_send_room(const conn *c) {
    const fake_conn *f = fake_of(c);
    u32 waiting = f->out_len - f->out_taken, max = listener_settings(c->origin)->out_bytes_max;
    return waiting < max ? max - waiting : 0;
}

int conn_send(conn *c, const void *data, u32 len) {
    fake_conn *f = fake_of(c);
    if (c->flags & CONN_CLOSING) return 0;
    fake_require(!(c->flags & CONN_MOVING), "sent on a connection that has moved");
    if (len > conn_send_room(c)) return CLOSE_SLOW_CONSUMER;
    if (f->sends_until_failure > 0 && --f->sends_until_failure == 0) return CLOSE_NO_MEMORY;
    if (f->out_size - f->out_len < len) {
        f->out_size = MAX(f->out_len + len, f->out_size * 2);
        f->out = realloc(f->out, f->out_size);
        fake_require(f->out != NULL, "no memory for output");
    }
    if (len > 0) memcpy(f->out + f->out_len, data, len);
    f->out_len += len;
    return 0;
}

int conn_send_parts(conn *c, const void *head, u32 head_len, const void *data, u32 len) {
    if ((u64)head_len + len > conn_send_room(c)) return CLOSE_SLOW_CONSUMER;
    fake_conn *f = fake_of(c);
    u32 before = f->out_len;
    int result = conn_send(c, head, head_len);
    if (result == 0) result = conn_send(c, data, len);
    if (result != 0) f->out_len = before; // whole or not at all
    return result;
}

int conn_send_shared(conn *c, const void *head, u32 head_len, const void *data, u32 len,
                     void (*release)(void *context), void *context) {
    int result = conn_send_parts(c, head, head_len, data, len);
    if (result == 0) release(context);
    return result;
}

int conn_send_in_place(conn *c, const u8 *data, u32 len) {
    fake_conn *f = fake_of(c);
    fake_require(f->dispatched != NULL && data >= f->dispatched &&
                     data + len <= f->dispatched + f->dispatched_len,
                 "sent in place from outside of the packet");
    int result = conn_send(c, data, len);
    if (result == 0) f->in_place_bytes += len;
    return result;
}

void conn_close_after_flush(conn *c, close_reason reason) {
    conn_close(c, reason); // nothing waits here
}

void conn_close(conn *c, close_reason reason) {
    if (c->flags & CONN_CLOSING) return;
    fake_require(reason > CLOSE_NONE && reason < CLOSE_REASONS, "closed without a reason");
    c->flags |= CONN_CLOSING;
    if (c->reason == CLOSE_NONE) c->reason = (u8)reason;
    if (c->proto->closed != NULL) c->proto->closed(c);
    c->proto_state = NULL;
}

const char *tls_peer_identity(const conn *c, u32 *len) {
    (void)c, (void)len;
    return NULL;
}

void *worker_buf_alloc(worker *w, u32 bytes, u32 *size) {
    (void)w;
    *size = bytes;
    return malloc(bytes);
}

void worker_buf_free(worker *w, void *buf, u32 size) {
    (void)w, (void)size;
    free(buf);
}

void conn_end(conn *c, close_reason reason) {
    conn_close(c, reason);
}

const char *conn_peer_text(const conn *c, char out[CONN_PEER_TEXT]) {
    (void)c;
    snprintf(out, CONN_PEER_TEXT, "fake");
    return out;
}

void conn_move(conn *c, u32 to_worker) {
    fake_require(c->proto->owner_by_id && c->proto_state == NULL, "moved with a session");
    bool other = to_worker < net.gw.worker_count && to_worker != c->owner->index;
    fake_require(other, "moved to no other worker");
    c->flags |= CONN_MOVING;
    fake_of(c)->move_to = to_worker;
}

static UNUSED void fake_open(fake_conn *f, const proto *proto, u32 worker_index) {
    memset(f, 0, sizeof(*f));
    f->c.proto = proto;
    f->c.owner = &net.workers[worker_index];
    f->c.origin = &net.listeners[worker_index];
    if (proto->open != NULL) fake_require(proto->open(&f->c, false) == 0, "open refused");
}

static void fake_arrive(fake_conn *f) {
    f->c.flags &= (u16)~CONN_MOVING;
    f->c.owner = &net.workers[f->move_to];
    f->c.origin = &net.listeners[f->move_to];
    f->c.moved_from++;
    if (f->c.proto->open != NULL) fake_require(f->c.proto->open(&f->c, true) == 0, "open refused");
}

// Offers one packet. False: stop for now.
static bool fake_offer(fake_conn *f, u32 len) {
    u8 *copy = malloc(len);
    fake_require(copy != NULL, "no memory for a packet");
    memcpy(copy, f->in, len);
    f->dispatched = copy;
    f->dispatched_len = len;
    int result = f->c.proto->packet(&f->c, copy, len);
    f->dispatched = NULL;
    fake_require(memcmp(copy, f->in, len) == 0, "packet was changed");
    free(copy);
    if (result > 0) conn_close(&f->c, (close_reason)result);
    if (f->c.flags & CONN_CLOSING) return false;
    if (result == PROTO_BLOCKED || result == PROTO_WAITING) {
        f->c.flags |= CONN_BLOCKED;
        return false;
    }
    fake_require(result == 0, "unknown result of packet");
    if (f->c.flags & CONN_MOVING) {
        fake_arrive(f);
        return true;
    }
    f->c.packets_in++;
    memmove(f->in, f->in + len, f->in_len - len);
    f->in_len -= len;
    return true;
}

// Offers what has been received as far as it is complete.
static void fake_work(fake_conn *f) {
    while (f->in_len > 0 && !(f->c.flags & (CONN_CLOSING | CONN_BLOCKED))) {
        u32 head_len = MIN(f->in_len, LIMIT_PACKET_HEAD_BYTES), size = UINT32_MAX;
        u8 *head = malloc(head_len);
        fake_require(head != NULL, "no memory for a header");
        memcpy(head, f->in, head_len);
        int reason = f->c.proto->packet_size(&f->c, head, head_len, &size);
        free(head);
        if (reason != 0) {
            conn_close(&f->c, (close_reason)reason);
            return;
        }
        bool told = size != 0 || head_len < LIMIT_PACKET_HEAD_BYTES;
        fake_require(told, "size not known from a whole header");
        if (size == 0 || size > f->in_len) return;
        if (!fake_offer(f, size)) return;
    }
}

void conn_unblock(conn *c) {
    if (!(c->flags & CONN_BLOCKED) || (c->flags & CONN_CLOSING)) return;
    c->flags &= (u16)~CONN_BLOCKED;
    fake_work(fake_of(c));
}

// Nobody shuts one side of a connection here.
void conn_answered(conn *c) {
    conn_unblock(c);
}

static UNUSED void fake_receive(fake_conn *f, const void *data, u32 len) {
    if ((f->c.flags & CONN_CLOSING) || len == 0) return;
    f->in = realloc(f->in, f->in_len + len);
    fake_require(f->in != NULL, "no memory for input");
    memcpy(f->in + f->in_len, data, len);
    f->in_len += len;
    fake_work(f);
}

static UNUSED void fake_close(fake_conn *f) {
    conn_close(&f->c, CLOSE_PEER);
    free(f->in);
    free(f->out);
    f->in = f->out = NULL;
}

#endif
