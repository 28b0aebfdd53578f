// SPDX-License-Identifier: Apache-2.0
// test_ops_fake.h: what stands in for the connection layer, the workers' rings and the broker, so that the
// admin protocol runs alone: a connection is a buffer that takes what is sent, up to a room the test sets; posted
// messages wait in a list until the test delivers them.
#ifndef TEST_OPS_FAKE_H
#define TEST_OPS_FAKE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include <yyjson.h>

#include "broker/broker.h"
#include "broker/inspect.h"
#include "net/listener.h"
#include "net/tls.h"
#include "ops/http.h"
#include "ops/request.h"
#include "uplink/uplink.h"
#include "worker.h"

#define FAKE_DEVICES 2u
#define FAKE_OUT_BYTES (8u << 20)

typedef struct fake_conn {
    conn c;             // first
    char *out;          // all that was sent
    size_t out_len;
    bool drains;        // output leaves at once; otherwise the test calls fake_drain
    u8 closed;          // reason of conn_close
    u8 close_after;     // reason of conn_close_after_flush
    u32 room;           // 0 = no bound
} fake_conn;

static gateway fake_gw;
static worker fake_workers[FAKE_DEVICES + 1];
static config fake_conf;
static listener_shared fake_shared[2];
static listener fake_listeners[2];
static io_stats fake_stats;

typedef struct fake_post {
    u32 from, to;
    spsc_message message;
} fake_post;
static fake_post fake_posts[256];
static u32 fake_post_count;
static bool fake_rings_full;
static int fake_publish_result;
static char fake_published[512];
static conn *fake_conn_table[FAKE_DEVICES + 1][1024];

static inline worker *fake_ops(void) {
    return &fake_workers[FAKE_DEVICES];
}

// --- the layers below ---

int conn_send(conn *c, const void *data, u32 len) {
    fake_conn *f = (fake_conn *)(void *)c;
    if (f->room != 0 && f->c.out_bytes + len > f->room) return CLOSE_SLOW_CONSUMER;
    assert_true(f->out_len + len < FAKE_OUT_BYTES);
    memcpy(f->out + f->out_len, data, len);
    f->out_len += len;
    f->out[f->out_len] = '\0';
    if (!f->drains) f->c.out_bytes += len;
    return 0;
}
u32 conn_send_room(const conn *c) {
    (void)c;
    return LIMIT_HTTP_OUT_BYTES;
}
void conn_end(conn *c, close_reason reason) {
    conn_close(c, reason);
}
u32 mqtt_sessions_view(worker *w, const session_filter *f, u64 *place, session_view *out, u32 max, bool *more) {
    (void)w, (void)place, (void)max;
    *more = false;
    if (f->away) return 0;
    out[0] = (session_view){.client = "c1", .conn_id = 1, .version = 5, .expiry_s = UINT32_MAX,
                            .expires_in_ns = UINT64_MAX, .subscriptions = 2};
    return 1;
}
void inspect_subscriptions(broker *b, const char *contains, const char *client, inspect_rows *out) {
    (void)b, (void)contains, (void)client;
    out->more = false;
}
void inspect_retained(broker *b, const char *contains, inspect_rows *out) {
    (void)b, (void)contains;
    out->more = false;
}
// No uplinks.
u32 uplinks_count(const worker *w) {
    (void)w;
    return 0;
}
const uplink *uplinks_at(const worker *w, u32 index) {
    (void)w, (void)index;
    return NULL;
}
const char *uplink_name(const uplink *u) {
    (void)u;
    return "";
}
const uplink_metrics *uplink_metrics_get(const uplink *u) {
    (void)u;
    return NULL;
}
void uplink_texts_get(const uplink *u, uplink_texts *out) {
    (void)u, (void)out;
}
const char *uplink_drop_name(u32 drop) {
    (void)drop;
    return "";
}
void conn_close(conn *c, close_reason reason) {
    fake_conn *f = (fake_conn *)(void *)c;
    if (f->closed != 0) return;
    f->closed = (u8)reason;
    if (c->proto != NULL && c->proto->closed != NULL && c->proto_state != NULL) c->proto->closed(c);
    c->proto_state = NULL;
}
void conn_close_after_flush(conn *c, close_reason reason) {
    fake_conn *f = (fake_conn *)(void *)c;
    f->close_after = (u8)reason;
    if (c->out_bytes == 0) conn_close(c, reason);
}
// What the TLS layer of one connection tells; the others have none.
static tls_view fake_tls;
static const conn *fake_tls_conn;

bool tls_view_of(const conn *c, tls_view *out) {
    *out = fake_tls;
    return c == fake_tls_conn;
}

const char *conn_peer_text(const conn *c, char out[CONN_PEER_TEXT]) {
    if (c->peer_family == AF_UNIX) snprintf(out, CONN_PEER_TEXT, "unix");
    else snprintf(out, CONN_PEER_TEXT, "%u.%u.%u.%u:%u", c->peer_addr[12], c->peer_addr[13], c->peer_addr[14],
                  c->peer_addr[15], c->peer_port);
    return out;
}
bool worker_post(worker *from, u32 to, const spsc_message *message) {
    if (fake_rings_full) return false;
    assert_true(fake_post_count < ARRAY_LEN(fake_posts));
    fake_posts[fake_post_count++] = (fake_post){from->index, to, *message};
    return true;
}
u32 worker_of_client(const gateway *gw, const char *id, size_t bytes) {
    (void)gw, (void)id;
    return (u32)(bytes % FAKE_DEVICES);
}
int broker_publish(broker *b, const publication *p, bool *matched) {
    (void)b, (void)matched;
    snprintf(fake_published, sizeof(fake_published), "%.*s=%.*s", (int)p->topic_len, p->topic, (int)p->payload_len,
             p->payload == NULL ? "" : (const char *)p->payload);
    return fake_publish_result;
}
broker_usage broker_usage_get(const broker *b) {
    (void)b;
    return (broker_usage){.subscriptions = 3};
}
u64 address_limit_overflows(void) {
    return 0;
}
const io_stats *io_engine_stats(const io_engine *e) {
    (void)e;
    return &fake_stats;
}
io_kind io_engine_kind(const io_engine *e) {
    (void)e;
    return IO_POLL;
}
const char *io_kind_name(io_kind kind) {
    return kind == IO_POLL ? "poll" : "other";
}

// What asks PID 1: there is none, and nothing is sent.
int io_attach(io_engine *e, io_handle *h, int fd, const io_callbacks *callbacks) {
    (void)e, (void)h, (void)fd, (void)callbacks;
    return -ENOSPC;
}
void io_close(io_engine *e, io_handle *h, bool reset) {
    (void)e, (void)h, (void)reset;
    ASSERT(false);
}
void io_recv_start(io_engine *e, io_handle *h, bool multishot) {
    (void)e, (void)h, (void)multishot;
    ASSERT(false);
}
int io_send(io_engine *e, io_handle *h, const struct iovec *iov, u32 count) {
    (void)e, (void)h, (void)iov, (void)count;
    ASSERT(false);
    return 0;
}

// Delivers the posted messages, and those that these cause. Returns how many.
static inline u32 fake_deliver(void) {
    u32 delivered = 0;
    for (u32 i = 0; i < fake_post_count; i++, delivered++) {
        fake_post p = fake_posts[i];
        if (p.message.kind == WM_REQUEST) ops_request_run(&fake_workers[p.to], p.message.ptr);
        else if (p.message.kind == WM_REPLY) ops_reply_arrived(&fake_workers[p.to], p.message.ptr);
    }
    fake_post_count = 0;
    return delivered;
}

// --- the gateway ---

static void fake_worker_init(u32 index) {
    worker *w = &fake_workers[index];
    memset(w, 0, sizeof(*w));
    w->index = index;
    w->is_ops = index == FAKE_DEVICES;
    w->gw = &fake_gw;
    w->conf = &fake_conf;
    w->now_ns = clock_mono_ns();
    w->cpu = (int)index;
    w->wheel = timer_wheel_create(w->now_ns, w);
    assert_int_equal(recorder_init(&w->rec, &w->now_ns), 0);
    static const char *const slab_names[] = {"a", "b", "c", "d"};
    w->conn_slab = slab_create("conn", 448, 1 << 20);
    for (u32 i = 0; i < ARRAY_LEN(w->segment_slabs); i++) {
        w->segment_slabs[i] = slab_create(slab_names[i], 256, 1 << 20);
    }
    w->conns = fake_conn_table[index];
    w->conns_max = ARRAY_LEN(fake_conn_table[index]);
    hist_reset(&w->metrics.loop_lag);
    hist_reset(&w->metrics.reply);
    counter_set(&w->metrics.heartbeat_ns, w->now_ns);
}

static int fake_setup(void **state) {
    (void)state;
    memset(&fake_gw, 0, sizeof(fake_gw));
    memset(fake_conn_table, 0, sizeof(fake_conn_table));
    memset(&fake_conf, 0, sizeof(fake_conf));
    memset(fake_listeners, 0, sizeof(fake_listeners));
    memset(fake_shared, 0, sizeof(fake_shared));
    hist_reset(&fake_stats.batch);
    fake_gw.conf = &fake_conf;
    fake_gw.worker_count = FAKE_DEVICES;
    fake_gw.workers = fake_workers;
    fake_gw.engine = IO_POLL;
    fake_gw.ready = 1;
    fake_gw.control_fd = -1;
    snprintf(fake_gw.engine_why, sizeof(fake_gw.engine_why), "a \"why\" with \\ and\nnewline");
    fake_gw.started_mono_ns = clock_mono_ns();
    fake_gw.started_real_ns = clock_real_ns();
    snprintf(fake_conf.admin_bind.text, sizeof(fake_conf.admin_bind.text), "gateway.lan:9600");
    snprintf(fake_conf.source, sizeof(fake_conf.source), "test.conf");
    static const char *const names[] = {"devices", "echo"};
    for (u32 i = 0; i < 2; i++) {
        snprintf(fake_shared[i].name, sizeof(fake_shared[i].name), "%s", names[i]);
        snprintf(fake_shared[i].bound.text, sizeof(fake_shared[i].bound.text), "127.0.0.1:%u", 7000 + i);
        fake_listeners[i].shared = &fake_shared[i];
        fake_gw.listeners[i] = &fake_shared[i];
    }
    fake_gw.listener_count = 2;
    for (u32 i = 0; i <= FAKE_DEVICES; i++) fake_worker_init(i);
    fake_post_count = 0;
    fake_rings_full = false;
    fake_publish_result = 0;
    return 0;
}

static int fake_teardown(void **state) {
    (void)state;
    for (u32 i = 0; i <= FAKE_DEVICES; i++) {
        worker *w = &fake_workers[i];
        timer_wheel_destroy(w->wheel);
        recorder_free(&w->rec);
        slab_destroy(w->conn_slab);
        for (u32 k = 0; k < ARRAY_LEN(w->segment_slabs); k++) slab_destroy(w->segment_slabs[k]);
    }
    return 0;
}

// --- connections of the admin protocol ---

// A unix socket whose peer is this process.
static inline int fake_unix_fd(void) {
    static int pair[2];
    if (pair[0] == 0) assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    return pair[0];
}

static inline fake_conn *fake_open(u8 family) {
    fake_conn *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->out = malloc(FAKE_OUT_BYTES);
    assert_non_null(f->out);
    f->out[0] = '\0';
    f->drains = true;
    f->c.owner = fake_ops();
    f->c.proto = &proto_http;
    f->c.peer_family = family;
    if (family == AF_UNIX) f->c.io.fd = fake_unix_fd();
    f->c.id = (u64)FAKE_DEVICES << 48 | 1;
    assert_int_equal(proto_http.open(&f->c, false), 0);
    return f;
}

// Bytes arrive. Returns false when they ended the connection.
static inline bool fake_recv(fake_conn *f, const void *data, size_t len) {
    if (f->closed != 0) return false;
    u8 *copy = malloc(len + 1); // exact size: the sanitizer sees a read beyond it
    memcpy(copy, data, len);
    int reason = proto_http.stream(&f->c, copy, (u32)len);
    free(copy);
    if (reason > 0) conn_close(&f->c, (close_reason)reason);
    return f->closed == 0;
}

static inline bool fake_say(fake_conn *f, const char *request) {
    return fake_recv(f, request, strlen(request));
}

static inline void fake_forget(fake_conn *f) {
    f->out_len = 0;
    f->out[0] = '\0';
}

static inline void fake_free(fake_conn *f) {
    conn_close(&f->c, CLOSE_PEER);
    free(f->out);
    free(f);
}

// Time passes on the operations worker; timers fire tick by tick.
static inline void fake_pass_ms(u64 ms) {
    worker *w = fake_ops();
    for (u64 i = 0; i < ms; i += 10) {
        w->now_ns += 10 * NS_PER_MS;
        timer_run(w->wheel, w->now_ns);
    }
}

// --- device connections ---

static inline const char *fake_client_id(const conn *c, u32 *len) {
    *len = c->peer_addr[15] == 6 ? 2 : 0;
    return *len > 0 ? "d6" : NULL;
}

static inline conn *fake_device(u32 on, u32 place, u64 number, u8 last_octet) {
    conn *c = calloc(1, sizeof(*c));
    static const proto device_proto = {.name = "frame", .client_id = fake_client_id};
    assert_non_null(c);
    c->owner = &fake_workers[on];
    c->origin = &fake_listeners[number % 2];
    c->proto = &device_proto;
    c->id = (u64)on << 48 | number;
    c->io.slot = place;
    c->io.generation = 1;
    c->io.armed = IO_ARMED_RECV;
    c->peer_family = AF_INET;
    c->peer_addr[10] = c->peer_addr[11] = 0xff;
    c->peer_addr[12] = 10;
    c->peer_addr[15] = last_octet;
    c->peer_port = (u16)(1000 + number);
    c->bytes_in = number * 10;
    c->opened_ns = c->received_ns = fake_workers[on].now_ns;
    fake_workers[on].conns[place] = c;
    fake_workers[on].conns_touched = MAX(fake_workers[on].conns_touched, place + 1);
    return c;
}

static inline void fake_devices_free(void) {
    for (u32 i = 0; i <= FAKE_DEVICES; i++) {
        for (u32 k = 0; k < ARRAY_LEN(fake_conn_table[i]); k++) {
            free(fake_conn_table[i][k]);
            fake_conn_table[i][k] = NULL;
        }
    }
}

// --- reading answers ---

static inline int fake_status(const fake_conn *f) {
    int status = 0;
    return sscanf(f->out, "HTTP/1.1 %d", &status) == 1 ? status : 0;
}

static inline const char *fake_body(const fake_conn *f) {
    const char *end = strstr(f->out, "\r\n\r\n");
    return end == NULL ? "" : end + 4;
}

// The chunks of a body put together, NUL-terminated; the caller frees it. *complete: the last chunk was there.
static inline char *fake_unchunk(const fake_conn *f, bool *complete) {
    const char *at = fake_body(f), *end = f->out + f->out_len;
    char *out = malloc(f->out_len + 1);
    size_t len = 0;
    *complete = false;
    while (at < end) {
        char *after;
        size_t size = strtoul(at, &after, 16);
        assert_true(after > at && strncmp(after, "\r\n", 2) == 0);
        at = after + 2;
        if (size == 0) {
            assert_true(strncmp(at, "\r\n", 2) == 0);
            *complete = true;
            break;
        }
        assert_true(at + size + 2 <= end);
        memcpy(out + len, at, size);
        len += size;
        at += size;
        assert_true(strncmp(at, "\r\n", 2) == 0);
        at += 2;
    }
    out[len] = '\0';
    return out;
}

#endif
