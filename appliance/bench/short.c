// SPDX-License-Identifier: Apache-2.0
// short.c: the flow of short connections and of storms.
//
// connect() is a plain non-blocking call: over loopback the handshake is complete when it returns,
// and the frame follows at once; elsewhere the send waits in the event loop until it is. Open
// connections hang in a list by age, so that one look at its head finds what has timed out.
#include "bench/short.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/wire.h"

#define NONE UINT32_MAX
#define EXPIRE_STEP_NS (10 * NS_PER_MS)

typedef struct short_conn {
    cio_conn io;
    u64 due_ns, start_ns;
    u32 id;
    u32 prev, next; // list by age while the reply is awaited; next also links the free ones
    bool waiting;
    wire_rx rx;
} short_conn;

struct short_flow {
    load *load;
    short_params params;
    cio_events events;
    wire_mode mode;
    u64 request_number; // 1, or 0 where the hello is the request
    short_conn *conn;
    u8 *chunks;
    u32 chunk_bytes;
    u32 free_head, oldest, newest;
    u32 started; // connections, also the id of the next one
    u32 ended;   // with a reply or an error
    schedule starts;
    actor start_actor, expire_actor;
    flow_stats stats;
    u64 first_start_ns, last_answer_ns;
};

static void list_append(short_flow *s, u32 index) {
    short_conn *c = &s->conn[index];
    c->prev = s->newest;
    c->next = NONE;
    if (s->newest == NONE) {
        s->oldest = index;
    } else {
        s->conn[s->newest].next = index;
    }
    s->newest = index;
    c->waiting = true;
}

static void list_remove(short_flow *s, short_conn *c) {
    if (c->prev == NONE) {
        s->oldest = c->next;
    } else {
        s->conn[c->prev].next = c->next;
    }
    if (c->next == NONE) {
        s->newest = c->prev;
    } else {
        s->conn[c->next].prev = c->prev;
    }
    c->waiting = false;
}

static void conn_close(short_flow *s, short_conn *c) {
    if (c->waiting) list_remove(s, c);
    cio_close(s->load->io, &c->io);
    c->next = s->free_head;
    s->free_head = (u32)(c - s->conn);
}

static void conn_fail(short_flow *s, short_conn *c, bench_error error, u64 now_ns) {
    bench_error_add(&s->stats.errors, error, 1);
    if (c->waiting) {
        s->ended++;
        s->stats.outstanding--;
        // It has no reply and never will: its time so far is in the figures, as for long
        // connections.
        if (load_in_window(s->load, c->due_ns)) {
            hist_record(&s->stats.latency, now_ns - MIN(now_ns, c->due_ns));
        }
    }
    conn_close(s, c);
}

static void on_ended(void *ctx, cio_conn *io, int err) {
    conn_fail(ctx, CONTAINER_OF(io, short_conn, io), bench_error_of_socket(err), clock_mono_ns());
}

static void on_sent(void *ctx, cio_conn *io) {
    (void)ctx;
    (void)io;
}

static bool reply_is_right(const short_flow *s, const short_conn *c, const wire_event *ev) {
    if (ev->kind != WIRE_REPLY || ev->number != s->request_number || !ev->intact) return false;
    return s->mode != WIRE_ECHO || ev->conn_id == c->id;
}

static void on_data(void *ctx, cio_conn *io, const u8 *bytes, size_t len, u64 now_ns) {
    short_flow *s = ctx;
    short_conn *c = CONTAINER_OF(io, short_conn, io);
    wire_event ev;
    s->stats.bytes_in += len;
    size_t used = wire_rx_feed(&c->rx, s->mode, bytes, len, &ev);
    if (ev.kind == WIRE_MORE) return;
    bool form = ev.kind == WIRE_REPLY && used == len && c->waiting;
    if (!form || !reply_is_right(s, c, &ev)) {
        conn_fail(s, c, form ? BENCH_ERROR_CORRUPTED : BENCH_ERROR_UNEXPECTED_FRAME, now_ns);
        return;
    }
    load_note_answer(s->load, &s->stats, c->due_ns, now_ns);
    s->ended++;
    s->last_answer_ns = now_ns;
    if (s->params.hold) {
        list_remove(s, c);
    } else {
        conn_close(s, c);
    }
}

static void conn_begin(short_flow *s, u64 due_ns) {
    load *l = s->load;
    u32 id = s->started++;
    load_note_start(l, &s->stats, due_ns);
    if (s->free_head == NONE) {
        s->ended++;
        bench_error_add(&s->stats.errors, BENCH_ERROR_OPEN_LIMIT, 1);
        return;
    }
    u32 index = s->free_head;
    short_conn *c = &s->conn[index];
    int fd;
    int rc = dial_start(s->params.dial, id, &fd);
    if (rc == 0) {
        rc = cio_attach(l->io, &c->io, fd, &s->events, true);
        if (rc != 0) close(fd);
    }
    if (rc != 0) {
        s->ended++;
        bench_error_add(&s->stats.errors, bench_error_of_connect(rc), 1);
        return;
    }
    s->free_head = c->next;
    c->due_ns = due_ns;
    c->start_ns = s->params.rate > 0 ? due_ns : clock_mono_ns();
    c->id = id;
    c->rx = (wire_rx){.have = 0};
    list_append(s, index);
    s->stats.outstanding++;
    u8 *out = s->chunks + (size_t)index * s->chunk_bytes;
    u32 len = s->params.size;
    if (s->mode == WIRE_PUBLISH) {
        len = (u32)wire_build_hello(out, s->chunk_bytes, l->options->id_prefix, id,
                                    l->options->token);
    } else {
        wire_build(out, len, s->request_number, id);
    }
    s->stats.bytes_out += len;
    rc = cio_send(l->io, &c->io, out, len);
    if (rc < 0) conn_fail(s, c, bench_error_of_connect(rc), clock_mono_ns());
}

static bool all_started(const short_flow *s) {
    return s->params.total != 0 && s->started == s->params.total;
}

static void start_fire(actor *a, u64 now_ns) {
    short_flow *s = CONTAINER_OF(a, short_flow, start_actor);
    if (s->first_start_ns == 0) s->first_start_ns = now_ns;
    for (u32 i = 0; i < BENCH_CONNECTS_PER_TURN && !all_started(s); i++) {
        if (s->params.rate > 0) {
            if (s->starts.due_ns > now_ns) break;
            conn_begin(s, s->starts.due_ns);
            schedule_next(&s->starts);
        } else {
            conn_begin(s, clock_mono_ns());
        }
    }
    a->due_ns = all_started(s) ? UINT64_MAX : s->params.rate > 0 ? s->starts.due_ns : now_ns;
}

static void expire_fire(actor *a, u64 now_ns) {
    short_flow *s = CONTAINER_OF(a, short_flow, expire_actor);
    u64 timeout_ns = s->load->options->timeout_ns;
    while (s->oldest != NONE && now_ns - MIN(now_ns, s->conn[s->oldest].start_ns) >= timeout_ns) {
        conn_fail(s, &s->conn[s->oldest], BENCH_ERROR_UNANSWERED, now_ns);
    }
    a->due_ns = now_ns + EXPIRE_STEP_NS;
}

void short_start(short_flow *s, u64 start_ns) {
    const bench_options *o = s->load->options;
    schedule_start(&s->starts, (arrival)o->arrival, s->params.rate, o->tick_ns, o->seed ^ 0x5057,
                   start_ns);
    s->start_actor.due_ns = s->params.rate > 0 ? s->starts.due_ns : start_ns;
    s->expire_actor.due_ns = start_ns;
}

void short_stop(short_flow *s) {
    s->start_actor.due_ns = UINT64_MAX;
}

void short_finish(short_flow *s, u64 now_ns) {
    if (s->params.total == 0) load_note_unsent(s->load, &s->stats, &s->starts);
    while (s->oldest != NONE) conn_fail(s, &s->conn[s->oldest], BENCH_ERROR_UNANSWERED, now_ns);
}

short_flow *short_open(load *l, const short_params *p, char *why, size_t why_bytes) {
    short_flow *s = calloc(1, sizeof(*s));
    if (s == NULL) base_out_of_memory("the short connections' flow", sizeof(*s));
    s->load = l;
    s->params = *p;
    s->mode = (wire_mode)l->options->mode;
    s->request_number = s->mode == WIRE_PUBLISH ? 0 : 1;
    s->chunk_bytes = MAX(p->size, s->mode == WIRE_PUBLISH ? 4096u : 0u);
    u8 hello[4096];
    if (s->mode == WIRE_PUBLISH && wire_build_hello(hello, sizeof(hello), l->options->id_prefix,
                                                    UINT32_MAX, l->options->token) < 0) {
        snprintf(why, why_bytes, "--id-prefix and --token are too long for one hello");
        free(s);
        return NULL;
    }
    u64 bytes = (u64)p->open_max * s->chunk_bytes;
    s->chunks = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (s->chunks == MAP_FAILED) s->chunks = NULL;
    s->conn = calloc(p->open_max, sizeof(*s->conn));
    if (s->chunks == NULL || s->conn == NULL) {
        snprintf(why, why_bytes, "no memory for %u short connections of %u bytes", p->open_max,
                 p->size);
        short_free(s);
        return NULL;
    }
    for (u32 i = 0; i < p->open_max; i++) s->conn[i].next = i + 1 == p->open_max ? NONE : i + 1;
    s->oldest = s->newest = NONE;
    s->events = (cio_events){.ctx = s, .data = on_data, .sent = on_sent, .ended = on_ended};
    s->start_actor = (actor){.due_ns = UINT64_MAX, .fire = start_fire};
    s->expire_actor = (actor){.due_ns = UINT64_MAX, .fire = expire_fire};
    hist_reset(&s->stats.latency);
    return s;
}

void short_free(short_flow *s) {
    if (s->chunks != NULL) munmap(s->chunks, (size_t)s->params.open_max * s->chunk_bytes);
    free(s->conn);
    free(s);
}

actor *short_start_actor(short_flow *s) {
    return &s->start_actor;
}

actor *short_expire_actor(short_flow *s) {
    return &s->expire_actor;
}

flow_stats *short_stats(short_flow *s) {
    return &s->stats;
}

bool short_all_served(const short_flow *s) {
    return s->params.total != 0 && s->ended == s->params.total;
}

u64 short_last_answer_ns(const short_flow *s) {
    return s->last_answer_ns;
}

u64 short_first_start_ns(const short_flow *s) {
    return s->first_start_ns;
}
