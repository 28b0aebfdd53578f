// SPDX-License-Identifier: Apache-2.0
// slow.c: the slow readers. They do not use the event loop: each is visited every 10 ms with one
// plain non-blocking send of up to 16 KiB of frames, which bounds what they cost the generator.
#include "bench/slow.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/wire.h"

#define SLOW_BLOCKED_NS NS_PER_S // nothing taken for so long is called back-pressure

typedef enum slow_state { SLOW_OPEN, SLOW_CLOSED, SLOW_RESET } slow_state;

typedef struct slow_conn {
    int fd;
    u32 id;
    slow_state state;
    u64 sequence, taken_bytes;
    u64 started_ns, last_progress_ns, ended_ns;
    u32 chunk_len, chunk_at; // of the frames that are being sent
    double read_credit;
} slow_conn;

struct slow_flow {
    load *load;
    actor actor;
    u32 count;
    double read_per_ns;
    u64 last_ns;
    slow_conn *conn;
    struct pollfd *polls;
    u8 *chunks; // frames to send, chunk_bytes for each reader
    u32 chunk_bytes;
    u8 sink[65536];
};

static void conn_end(slow_conn *c, int err, u64 now_ns) {
    c->state = err == 0 ? SLOW_CLOSED : SLOW_RESET;
    c->ended_ns = now_ns;
    close(c->fd);
    c->fd = -1;
}

static u8 *chunk_of(const slow_flow *s, const slow_conn *c) {
    return s->chunks + (size_t)c->id * s->chunk_bytes;
}

static void chunk_next(slow_flow *s, slow_conn *c) {
    const bench_options *o = s->load->options;
    bool first = c->taken_bytes == 0;
    c->chunk_at = c->chunk_len = 0;
    if (o->mode == WIRE_PUBLISH && first) {
        char prefix[128];
        snprintf(prefix, sizeof(prefix), "%.100sslow-", o->id_prefix);
        int n = wire_build_hello(chunk_of(s, c), s->chunk_bytes, prefix, c->id, o->token);
        ASSERT(n > 0); // checked when the flow was opened
        c->chunk_len = (u32)n;
    }
    while (c->chunk_len + o->size <= s->chunk_bytes) {
        wire_build(chunk_of(s, c) + c->chunk_len, o->size, ++c->sequence, c->id);
        c->chunk_len += o->size;
    }
}

static void conn_send(slow_flow *s, slow_conn *c, u64 now_ns) {
    if (c->chunk_at == c->chunk_len) chunk_next(s, c);
    ssize_t n = send(c->fd, chunk_of(s, c) + c->chunk_at, c->chunk_len - c->chunk_at,
                     MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) conn_end(c, errno, now_ns);
        return;
    }
    c->chunk_at += (u32)n;
    c->taken_bytes += (u64)n;
    c->last_progress_ns = now_ns;
}

static void conn_read(slow_flow *s, slow_conn *c, u64 passed_ns, u64 now_ns) {
    c->read_credit += s->read_per_ns * (double)passed_ns;
    while (c->read_credit >= 1) {
        ssize_t n = recv(c->fd, s->sink, (size_t)MIN(c->read_credit, (double)sizeof(s->sink)),
                         MSG_DONTWAIT);
        if (n < 0) {
            if (errno != EAGAIN && errno != EINTR) conn_end(c, errno, now_ns);
            return;
        }
        if (n == 0) {
            conn_end(c, 0, now_ns);
            return;
        }
        c->read_credit -= (double)n;
    }
}

// A reader that never reads learns of the end by poll: RST gives POLLERR or POLLHUP, a FIN
// POLLRDHUP.
static void ends_find(slow_flow *s, u64 now_ns) {
    for (u32 i = 0; i < s->count; i++) {
        s->polls[i] = (struct pollfd){.fd = s->conn[i].fd, .events = POLLRDHUP};
    }
    if (poll(s->polls, s->count, 0) <= 0) return;
    for (u32 i = 0; i < s->count; i++) {
        short got = s->polls[i].revents;
        if (s->conn[i].state != SLOW_OPEN || got == 0) continue;
        conn_end(&s->conn[i], (got & (POLLERR | POLLHUP)) != 0 ? ECONNRESET : 0, now_ns);
    }
}

static void slow_fire(actor *a, u64 now_ns) {
    slow_flow *s = CONTAINER_OF(a, slow_flow, actor);
    u64 passed_ns = now_ns - MIN(now_ns, s->last_ns);
    s->last_ns = now_ns;
    ends_find(s, now_ns);
    for (u32 i = 0; i < s->count; i++) {
        slow_conn *c = &s->conn[i];
        if (c->state == SLOW_OPEN && s->read_per_ns > 0) conn_read(s, c, passed_ns, now_ns);
        if (c->state == SLOW_OPEN) conn_send(s, c, now_ns);
    }
    a->due_ns = now_ns + BENCH_SLOW_STEP_NS;
}

void slow_start(slow_flow *s, u64 start_ns) {
    for (u32 i = 0; i < s->count; i++)
        s->conn[i].started_ns = s->conn[i].last_progress_ns = start_ns;
    s->last_ns = start_ns;
    s->actor.due_ns = start_ns;
}

void slow_stop(slow_flow *s) {
    s->actor.due_ns = UINT64_MAX;
}

actor *slow_actor(slow_flow *s) {
    return &s->actor;
}

void slow_report(const slow_flow *s, u64 now_ns, slow_result *out) {
    *out = (slow_result){.count = s->count, .bytes_min = UINT64_MAX, .closed_first_ns = UINT64_MAX};
    for (u32 i = 0; i < s->count; i++) {
        const slow_conn *c = &s->conn[i];
        out->bytes_min = MIN(out->bytes_min, c->taken_bytes);
        out->bytes_max = MAX(out->bytes_max, c->taken_bytes);
        out->bytes_sum += c->taken_bytes;
        if (c->state == SLOW_OPEN) {
            bool blocked = now_ns - MIN(now_ns, c->last_progress_ns) >= SLOW_BLOCKED_NS;
            *(blocked ? &out->blocked : &out->sending) += 1;
            continue;
        }
        *(c->state == SLOW_CLOSED ? &out->closed : &out->reset) += 1;
        u64 lived_ns = c->ended_ns - MIN(c->ended_ns, c->started_ns);
        out->closed_first_ns = MIN(out->closed_first_ns, lived_ns);
        out->closed_last_ns = MAX(out->closed_last_ns, lived_ns);
    }
}

void slow_free(slow_flow *s) {
    for (u32 i = 0; s->conn != NULL && i < s->count; i++) {
        if (s->conn[i].fd >= 0) close(s->conn[i].fd);
    }
    free(s->conn);
    free(s->polls);
    free(s->chunks);
    free(s);
}

static bool memory_get(slow_flow *s) {
    s->chunk_bytes = MAX(s->load->options->size, BENCH_SLOW_STEP_BYTES);
    s->conn = calloc(s->count, sizeof(*s->conn));
    s->polls = calloc(s->count, sizeof(*s->polls));
    s->chunks = malloc((size_t)s->count * s->chunk_bytes);
    for (u32 i = 0; s->conn != NULL && i < s->count; i++) s->conn[i].fd = -1;
    return s->conn != NULL && s->polls != NULL && s->chunks != NULL;
}

slow_flow *slow_open(load *l, const dial *d, u32 count, u64 read_rate, char *why,
                     size_t why_bytes) {
    slow_flow *s = calloc(1, sizeof(*s));
    u8 hello[4096];
    if (s == NULL) base_out_of_memory("the slow readers' flow", sizeof(*s));
    s->load = l;
    s->count = count;
    s->read_per_ns = (double)read_rate / 1e9;
    s->actor = (actor){.due_ns = UINT64_MAX, .fire = slow_fire};
    if (!memory_get(s) || strlen(l->options->id_prefix) > 100 ||
        wire_build_hello(hello, sizeof(hello), l->options->id_prefix, UINT32_MAX,
                         l->options->token) < 0) {
        snprintf(why, why_bytes, "no memory for %u slow readers, or --id-prefix, --token too long",
                 count);
        slow_free(s);
        return NULL;
    }
    for (u32 i = 0; i < count; i++) {
        slow_conn *c = &s->conn[i];
        c->id = i;
        int rc = dial_start(d, i, &c->fd);
        if (rc == 0) rc = dial_finish(c->fd, (int)(l->options->timeout_ns / NS_PER_MS));
        if (rc == 0) continue;
        bench_error error = bench_error_of_connect(rc);
        snprintf(why, why_bytes, "slow reader %u of %u: %s: %s", i + 1, count,
                 bench_error_name(error), bench_error_advice(error));
        slow_free(s);
        return NULL;
    }
    return s;
}
