// SPDX-License-Identifier: Apache-2.0
// steady.c: the flow of long connections.
//
// A connection keeps three counters: due (scheduled), sent (built and handed over), done
// (answered), and the due times of done+1..due in a ring that grows with the backlog. There is one
// send in flight on each; what becomes due meanwhile leaves together in the next. So a slow server
// never delays the schedule: its messages wait here with their due time running.
//
// Invariants: done <= sent <= due; times[n & mask] is the due time of message n for done < n <=
// due.
#include "bench/steady.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/steady_conn.h"
#include "bench/wire.h"

static u8 *chunk_take(steady *s, steady_conn *c) {
    ASSERT(s->chunk_free_count > 0); // one for each connection, and each holds one at most
    c->chunk = s->chunk_free[--s->chunk_free_count];
    return s->chunks + (size_t)c->chunk * s->chunk_bytes;
}

static void chunk_release(steady *s, steady_conn *c) {
    s->chunk_free[s->chunk_free_count++] = c->chunk;
}

static void conn_drop(steady *s, steady_conn *c, bench_error error) {
    bench_error_add(&s->stats.errors, error, 1);
    s->last_error = error;
    s->alive--;
    if (c->heartbeat_due_ns != 0) s->heartbeats_outstanding--;
    // A send in progress may still read its chunk: it is not used again in this run.
    cio_close(s->load->io, &c->io);
}

static void conn_lost(steady *s, steady_conn *c, int err) {
    bool refused = !c->ready && s->mode == WIRE_PUBLISH && (err == 0 || err == -ECONNRESET);
    conn_drop(s, c, refused ? BENCH_ERROR_HELLO_REFUSED : bench_error_of_socket(err));
}

static u32 chunk_fill(steady *s, steady_conn *c, u8 *out) {
    u32 len = 0;
    if (c->hello_pending) {
        int n = wire_build_hello(out, s->chunk_bytes, s->load->options->id_prefix, c->id,
                                 s->load->options->token);
        ASSERT(n > 0); // the size was checked when the flow was opened
        len = (u32)n;
        c->hello_pending = false;
    }
    if (c->heartbeat_pending && len + WIRE_LENGTH_BYTES <= s->chunk_bytes) {
        wire_build_heartbeat(out + len);
        len += WIRE_LENGTH_BYTES;
        c->heartbeat_pending = false;
    }
    while (c->sent < c->due && len + s->size <= s->chunk_bytes) {
        wire_build(out + len, s->size, ++c->sent, c->id);
        len += s->size;
    }
    return len;
}

void steady_conn_send(steady *s, steady_conn *c) {
    while (c->io.open && !c->io.sending &&
           (c->sent < c->due || c->heartbeat_pending || c->hello_pending)) {
        u8 *chunk = chunk_take(s, c);
        u32 len = chunk_fill(s, c, chunk);
        s->stats.bytes_out += len;
        int rc = cio_send(s->load->io, &c->io, chunk, len);
        if (rc == 0) return;
        chunk_release(s, c);
        if (rc < 0) conn_lost(s, c, rc);
    }
}

static void on_sent(void *ctx, cio_conn *io) {
    steady *s = ctx;
    steady_conn *c = CONTAINER_OF(io, steady_conn, io);
    chunk_release(s, c);
    steady_conn_send(s, c);
}

static void on_ended(void *ctx, cio_conn *io, int err) {
    conn_lost(ctx, CONTAINER_OF(io, steady_conn, io), err);
}

static void on_heartbeat(steady *s, steady_conn *c, u64 now_ns) {
    if (c->heartbeat_due_ns == 0) {
        bench_error_add(&s->stats.errors, BENCH_ERROR_UNEXPECTED_FRAME, 1);
        return;
    }
    s->heartbeats_answered++;
    s->heartbeats_outstanding--;
    if (load_in_window(s->load, c->heartbeat_due_ns)) {
        hist_record(&s->heartbeats, now_ns - MIN(now_ns, c->heartbeat_due_ns));
    }
    c->heartbeat_due_ns = 0;
    if (!c->ready && s->mode != WIRE_PUBLISH) {
        c->ready = true;
        s->ready_count++;
    }
}

static void on_reply(steady *s, steady_conn *c, const wire_event *ev, u64 now_ns) {
    bench_errors *errors = &s->stats.errors;
    u64 n = ev->number;
    if (!c->ready && s->mode == WIRE_PUBLISH && n == 0) {
        c->ready = true;
        s->ready_count++;
        return;
    }
    bool foreign = s->mode == WIRE_ECHO && (ev->conn_id != c->id || !ev->intact);
    if (foreign || n == 0 || n > c->sent) {
        bench_error_add(errors, BENCH_ERROR_CORRUPTED, 1);
        return;
    }
    if (n <= c->done) {
        // Behind: either one that was counted as lost and is merely late, or one seen before.
        bool late = c->gaps > 0;
        bench_error_add(errors, late ? BENCH_ERROR_REORDERED : BENCH_ERROR_DUPLICATED, 1);
        if (late) {
            c->gaps--;
            errors->count[BENCH_ERROR_LOST]--;
        }
        return;
    }
    u64 skipped = n - c->done - 1;
    c->gaps += skipped;
    errors->count[BENCH_ERROR_LOST] += skipped;
    s->stats.outstanding -= skipped;
    c->done = n;
    load_note_answer(s->load, &s->stats, c->times[n & c->times_mask], now_ns);
}

static void on_data(void *ctx, cio_conn *io, const u8 *bytes, size_t len, u64 now_ns) {
    steady *s = ctx;
    steady_conn *c = CONTAINER_OF(io, steady_conn, io);
    s->stats.bytes_in += len;
    while (len > 0) {
        wire_event ev;
        size_t used = wire_rx_feed(&c->rx, s->mode, bytes, len, &ev);
        bytes += used;
        len -= used;
        switch (ev.kind) {
        case WIRE_MORE: break;
        case WIRE_REPLY: on_reply(s, c, &ev, now_ns); break;
        case WIRE_HEARTBEAT: on_heartbeat(s, c, now_ns); break;
        case WIRE_OTHER:
            if (s->mode == WIRE_PUBLISH) {
                s->publications++;
            } else {
                bench_error_add(&s->stats.errors, BENCH_ERROR_UNEXPECTED_FRAME, 1);
            }
            break;
        case WIRE_OVERSIZE: conn_drop(s, c, BENCH_ERROR_CORRUPTED); return;
        }
    }
}

// Room for one more due time; the ring doubles while the backlog grows.
static bool times_reserve(steady_conn *c) {
    u64 used = c->due - c->done;
    if (c->times != NULL && used <= c->times_mask) return true;
    if (used >= BENCH_OUTSTANDING_MAX) return false;
    u32 size = c->times == NULL ? STEADY_TIMES_FIRST : (c->times_mask + 1) * 2;
    u64 *times = malloc(size * sizeof(*times));
    if (times == NULL) return false;
    for (u64 n = c->done + 1; n <= c->due; n++) times[n & (size - 1)] = c->times[n & c->times_mask];
    free(c->times);
    c->times = times;
    c->times_mask = size - 1;
    return true;
}

static void message_due(steady *s, steady_conn *c, u64 due_ns) {
    load_note_start(s->load, &s->stats, due_ns);
    if (!c->io.open) {
        bench_error_add(&s->stats.errors, BENCH_ERROR_CONNECTION_GONE, 1);
        return;
    }
    if (!times_reserve(c)) {
        bench_error_add(&s->stats.errors, BENCH_ERROR_OUTSTANDING_LIMIT, 1);
        return;
    }
    c->times[++c->due & c->times_mask] = due_ns;
    s->stats.outstanding++;
    if (!c->io.sending) steady_conn_send(s, c);
}

static void send_fire(actor *a, u64 now_ns) {
    steady *s = CONTAINER_OF(a, steady, send_actor);
    for (u32 i = 0; i < BENCH_STARTS_PER_TURN && s->messages.due_ns <= now_ns; i++) {
        u32 which = s->messages.kind == ARRIVAL_POISSON
                        ? schedule_random_below(&s->messages, s->active)
                        : s->turn++ % s->active;
        // Active connections are spread evenly over all, as they would be among real devices.
        u32 index = (u32)((u64)which * s->conns / s->active);
        message_due(s, &s->conn[index], s->messages.due_ns);
        schedule_next(&s->messages);
    }
    a->due_ns = s->messages.due_ns;
}

void steady_conn_heartbeat(steady *s, steady_conn *c, u64 due_ns) {
    if (!c->io.open) return;
    if (c->heartbeat_due_ns != 0) {
        bench_error_add(&s->stats.errors, BENCH_ERROR_HEARTBEAT_LATE, 1);
        return;
    }
    c->heartbeat_due_ns = due_ns;
    c->heartbeat_pending = true;
    s->heartbeats_sent++;
    s->heartbeats_outstanding++;
    if (!c->io.sending) steady_conn_send(s, c);
}

static void heartbeat_fire(actor *a, u64 now_ns) {
    steady *s = CONTAINER_OF(a, steady, heartbeat_actor);
    for (u32 i = 0; i < BENCH_STARTS_PER_TURN && s->beats.due_ns <= now_ns; i++) {
        steady_conn_heartbeat(s, &s->conn[s->beat_turn], s->beats.due_ns);
        s->beat_turn = (s->beat_turn + 1) % s->conns;
        schedule_next(&s->beats);
    }
    a->due_ns = s->beats.due_ns;
}

void steady_start(steady *s, u64 start_ns) {
    const bench_options *o = s->load->options;
    schedule_start(&s->messages, (arrival)o->arrival, s->params.rate, o->tick_ns, o->seed,
                   start_ns);
    double beats = s->params.heartbeat_ns == 0
                       ? 0
                       : (double)s->conns * 1e9 / (double)s->params.heartbeat_ns;
    schedule_start(&s->beats, ARRIVAL_UNIFORM, beats, o->tick_ns, o->seed, start_ns);
    s->send_actor.due_ns = s->messages.due_ns;
    s->heartbeat_actor.due_ns = s->beats.due_ns;
}

void steady_stop(steady *s) {
    s->send_actor.due_ns = s->heartbeat_actor.due_ns = UINT64_MAX;
}

void steady_finish(steady *s, u64 now_ns) {
    load_note_unsent(s->load, &s->stats, &s->messages);
    for (u32 i = 0; i < s->conns; i++) {
        steady_conn *c = &s->conn[i];
        for (u64 n = c->done + 1; n <= c->due; n++) {
            load_note_unanswered(s->load, &s->stats, c->times[n & c->times_mask], now_ns);
        }
        if (!c->io.open || c->heartbeat_due_ns == 0) continue;
        bench_error_add(&s->stats.errors, BENCH_ERROR_UNANSWERED, 1);
        if (load_in_window(s->load, c->heartbeat_due_ns)) {
            hist_record(&s->heartbeats, now_ns - c->heartbeat_due_ns);
        }
    }
}

static bool memory_get(steady *s) {
    u64 bytes = (u64)s->conns * s->chunk_bytes;
    if (bytes > BENCH_TX_BYTES_MAX) return false;
    // Address space only: a chunk costs memory once it is used, and the last one used is used
    // first.
    s->chunks = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (s->chunks == MAP_FAILED) s->chunks = NULL;
    s->conn = calloc(s->conns, sizeof(*s->conn));
    s->chunk_free = malloc((size_t)s->conns * sizeof(*s->chunk_free));
    return s->chunks != NULL && s->conn != NULL && s->chunk_free != NULL;
}

steady *steady_open(load *l, const steady_params *p, char *why, size_t why_bytes) {
    u8 hello[BENCH_TX_CHUNK_BYTES * 4];
    steady *s = calloc(1, sizeof(*s));
    if (s == NULL) base_out_of_memory("the long connections' flow", sizeof(*s));
    s->load = l;
    s->params = *p;
    s->mode = (wire_mode)l->options->mode;
    s->size = p->size;
    s->conns = p->conns;
    s->active = p->active;
    s->chunk_bytes = MAX(BENCH_TX_CHUNK_BYTES, p->size);
    if (s->mode == WIRE_PUBLISH) {
        int n = wire_build_hello(hello, sizeof(hello), l->options->id_prefix, UINT32_MAX,
                                 l->options->token);
        if (n < 0) {
            snprintf(why, why_bytes, "--id-prefix and --token are too long for one hello");
            free(s);
            return NULL;
        }
        s->chunk_bytes = MAX(s->chunk_bytes, (u32)n);
    }
    if (!memory_get(s)) {
        snprintf(why, why_bytes, "no memory for %u connections with frames of %u bytes", p->conns,
                 p->size);
        steady_free(s);
        return NULL;
    }
    for (u32 i = 0; i < s->conns; i++) {
        s->conn[i].id = i;
        s->chunk_free[i] = s->conns - 1 - i;
    }
    s->chunk_free_count = s->conns;
    s->events = (cio_events){.ctx = s, .data = on_data, .sent = on_sent, .ended = on_ended};
    s->send_actor = (actor){.due_ns = UINT64_MAX, .fire = send_fire};
    s->heartbeat_actor = (actor){.due_ns = UINT64_MAX, .fire = heartbeat_fire};
    hist_reset(&s->stats.latency);
    hist_reset(&s->heartbeats);
    return s;
}

void steady_free(steady *s) {
    for (u32 i = 0; s->conn != NULL && i < s->conns; i++) free(s->conn[i].times);
    if (s->chunks != NULL) munmap(s->chunks, (size_t)s->conns * s->chunk_bytes);
    free(s->chunk_free);
    free(s->conn);
    free(s);
}

actor *steady_send_actor(steady *s) {
    return &s->send_actor;
}

actor *steady_heartbeat_actor(steady *s) {
    return &s->heartbeat_actor;
}

flow_stats *steady_stats(steady *s) {
    return &s->stats;
}

const hist *steady_heartbeats(const steady *s, u64 *sent, u64 *answered) {
    *sent = s->heartbeats_sent;
    *answered = s->heartbeats_answered;
    return &s->heartbeats;
}

u64 steady_outstanding(const steady *s) {
    return s->stats.outstanding + s->heartbeats_outstanding;
}

u32 steady_alive(const steady *s) {
    return s->alive;
}

u64 steady_publications(const steady *s) {
    return s->publications;
}
