// SPDX-License-Identifier: Apache-2.0
// device.c: what a device says and does; see device.h. What it must see is in device_check.c.
#include "device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frame.h"

#define WAIT_NS (2 * NS_PER_S) // see may_shut
#define WAIT_LOOK_NS_MAX (200 * NS_PER_MS)

// --- the plan ---

static void grow(u8 **bytes, size_t *size, size_t need) {
    if (need <= *size) return;
    *size = MAX(need, 2 * *size);
    *bytes = realloc(*bytes, *size);
    ASSERT(*bytes != NULL);
}

static void out_put(device *d, const void *data, size_t len) {
    grow(&d->out, &d->out_size, d->out_len + len);
    memcpy(d->out + d->out_len, data, len);
    d->out_len += len;
}

static void expect_put(device *d, const void *data, size_t len) {
    grow(&d->expect, &d->expect_size, d->expect_len + len);
    memcpy(d->expect + d->expect_len, data, len);
    d->expect_len += len;
}

static void out_head(device *d, u32 len) {
    u8 head[FRAME_HEADER_BYTES];
    frame_length_write(head, len);
    out_put(d, head, sizeof(head));
}

// Mostly small, as devices are; sometimes everything up to the limit.
static u32 frame_len(device *d) {
    sim_random *rng = &d->rig->rng;
    u32 max = d->plan.frame_bytes_max;
    u64 kind = sim_random_below(rng, 100);
    if (kind < 15) return 0;
    if (kind < 70) return (u32)sim_random_range(rng, 1, MIN(max, 80u));
    if (kind < 90) return (u32)sim_random_range(rng, 1, MIN(max, 1500u));
    return (u32)sim_random_range(rng, 1, max);
}

static void plan_heartbeat(device *d) {
    out_head(d, 0);
    d->heartbeats++;
    if (d->mode != FRAME_PUBLISH) expect_put(d, "\0\0\0\0", FRAME_HEADER_BYTES);
}

static void plan_message(device *d, u32 len) {
    u8 *payload = malloc(len);
    ASSERT(payload != NULL);
    device_message_make(payload, len, d->number, d->published + 1);
    d->starts[d->published++] = d->out_len;
    out_head(d, len);
    out_put(d, payload, len);
    if (d->mode == FRAME_ECHO) {
        expect_put(d, d->out + d->out_len - len - FRAME_HEADER_BYTES, len + FRAME_HEADER_BYTES);
    } else if (d->mode == FRAME_ACK) {
        u8 ack[FRAME_ACK_BYTES] = {0, 0, 0, 8};
        frame_length_write(ack + 8, d->published);
        expect_put(d, ack, sizeof(ack));
    }
    free(payload);
}

static void plan_frame(device *d) {
    u32 len = frame_len(d);
    if (len == 0) plan_heartbeat(d);
    else plan_message(d, d->mode == FRAME_PUBLISH ? MAX(len, DEVICE_MESSAGE_MIN) : len);
    d->due[d->frames_planned].written = d->out_len;
    d->due[d->frames_planned++].answered = d->expect_len;
}

static void plan_hello(device *d) {
    const char *token = d->rig->setup.listeners[d->plan.listener].token;
    char text[512];
    if (d->plan.end == END_BAD_HELLO) {
        static const char *const bad[] = {"{\"id\":\"\"}", "{}", "[1]", "{\"id\":\"a/b\"}", "nonsense",
                                          "{\"id\":5}", "{\"id\":\"a\"", "{\"id\":\"a\",\"id\":\"b\"}"};
        snprintf(text, sizeof(text), "%s", bad[sim_random_below(&d->rig->rng, ARRAY_LEN(bad))]);
    } else {
        char own[32];
        snprintf(own, sizeof(own), "d%u-%u", d->number, (u32)sim_random_below(&d->rig->rng, 100000));
        snprintf(text, sizeof(text), "{\"id\":\"%s\",\"token\":\"%s%s\"}",
                 d->plan.id != NULL ? d->plan.id : own, token, d->plan.end == END_BAD_TOKEN ? "x" : "");
    }
    out_head(d, (u32)strlen(text));
    out_put(d, text, strlen(text));
}

static void plan_tail(device *d) {
    sim_random *rng = &d->rig->rng;
    const listener_config *conf = &d->rig->setup.listeners[d->plan.listener];
    d->whole_len = d->out_len;
    u8 junk[64] = {0x55};
    if (d->plan.end == END_PARTIAL || d->plan.end == END_STALL) {
        u32 len = (u32)sim_random_range(rng, 2, sizeof(junk));
        if (sim_random_chance(rng, 300)) {
            out_put(d, "\0\0\0", (size_t)sim_random_range(rng, 1, 3)); // not even a whole header
        } else {
            out_head(d, len);
            out_put(d, junk, (size_t)sim_random_below(rng, len));
        }
    } else if (d->plan.end == END_OVERSIZE) {
        out_head(d, conf->max_frame + 1 + (u32)sim_random_below(rng, 1u << 20));
        out_put(d, junk, (size_t)sim_random_below(rng, sizeof(junk)));
    }
    d->end_at = (size_t)sim_random_below(rng, d->out_len + 1);
}

static void plan_make(device *d) {
    if (d->plan.end == END_SILENT) return;
    d->starts = calloc(d->plan.frames + 1, sizeof(*d->starts));
    d->due = calloc(d->plan.frames + 1, sizeof(*d->due));
    ASSERT(d->starts != NULL && d->due != NULL);
    if (d->mode == FRAME_PUBLISH) {
        if (sim_random_chance(&d->rig->rng, 100)) plan_heartbeat(d); // alive before it says who it is
        plan_hello(d);
    }
    for (u32 i = 0; i < d->plan.frames; i++) plan_frame(d);
    plan_tail(d);
}

device *device_add(rig *r, const device_plan *plan) {
    ASSERT(r->device_count < RIG_DEVICES_MAX);
    device *d = calloc(1, sizeof(*d));
    ASSERT(d != NULL && plan->listener < r->setup.listener_count);
    ASSERT(plan->write_max > 0 && plan->read_max > 0 && plan->frame_bytes_max > 0);
    d->rig = r;
    d->number = r->device_count;
    d->plan = *plan;
    d->mode = r->setup.listeners[plan->listener].mode;
    d->next_ns = sim_now_ns(r->world) + plan->start_ns;
    plan_make(d);
    r->devices[r->device_count++] = d;
    return d;
}

void device_free(device *d) {
    free(d->out);
    free(d->expect);
    free(d->starts);
    free(d->due);
    free(d->in);
    free(d);
}

// --- doing it ---

static void address_text(device *d) {
    const struct sockaddr_storage *addr = sim_peer_address(d->peer);
    char host[INET6_ADDRSTRLEN];
    if (addr->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)addr;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
        snprintf(d->text, sizeof(d->text), "%s:%u", host, ntohs(v4->sin_port));
    } else {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)addr;
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
        snprintf(d->text, sizeof(d->text), "[%s]:%u", host, ntohs(v6->sin6_port));
    }
}

static void connect_now(device *d) {
    rig *r = d->rig;
    u32 where = (u32)sim_random_below(&r->rng, r->setup.workers);
    d->peer = sim_connect(r->world, r->fds[d->plan.listener][where], d->plan.addr);
    if (d->peer == NULL) return; // the backlog is full, or nobody listens any more: again later
    address_text(d);
    d->connected_ns = sim_now_ns(r->world);
    sim_note(r->world, "device %u is #%u, %s, listener %u, end %u", d->number, sim_peer_fd(d->peer),
             d->text, d->plan.listener, d->plan.end);
}

static void finished(device *d) {
    if (!d->done) d->done_ns = sim_now_ns(d->rig->world);
    d->done = true;
}

void device_leave(device *d) {
    finished(d);
    if (d->peer == NULL) return;
    sim_peer_close(d->peer);
    d->peer = NULL;
}

static void read_some(device *d) {
    u8 data[4096];
    size_t want = MIN(sizeof(data), (size_t)sim_random_range(&d->rig->rng, 1, d->plan.read_max));
    ssize_t n = sim_peer_read(d->peer, data, want);
    if (n > 0) device_check_bytes(d, data, (size_t)n);
    else if (n == 0) d->eof = true;
    else if (n == -EAGAIN) device_check_progress(d);
    else d->reset = true;
}

static void write_some(device *d) {
    size_t left = d->out_len - d->out_at;
    if (left == 0 || d->write_dead || d->shut) return;
    size_t want = (size_t)sim_random_range(&d->rig->rng, 1, MIN(left, d->plan.write_max));
    ssize_t n = sim_peer_write(d->peer, d->out + d->out_at, want);
    if (n == -EAGAIN) return;
    if (n < 0) {
        d->write_dead = true;
        return;
    }
    d->out_at += (size_t)n;
    d->last_write_ns = sim_now_ns(d->rig->world);
    if (d->out_at > d->whole_len && d->begun_ns == 0) d->begun_ns = d->last_write_ns;
}

// Devices that wait go on a little after all others have finished: messages may still be under way.
static bool may_shut(const device *d) {
    if (!d->plan.waits) return true;
    u64 now = sim_now_ns(d->rig->world);
    for (u32 i = 0; i < d->rig->device_count; i++) {
        const device *other = d->rig->devices[i];
        if (!other->plan.waits && (!other->done || now - other->done_ns < WAIT_NS)) return false;
    }
    return true;
}

// A device that waits for the others sends heartbeats meanwhile.
static void stay_alive(device *d) {
    const listener_config *conf = &d->rig->setup.listeners[d->plan.listener];
    if (!d->plan.waits || d->shut || d->write_dead || d->out_at < d->out_len || may_shut(d)) return;
    u64 now = sim_now_ns(d->rig->world);
    if (now - d->last_write_ns < conf->idle_timeout_ms * NS_PER_MS / 4) return;
    plan_heartbeat(d);
    d->whole_len = d->out_len;
}

static void end_if_due(device *d) {
    bool said_all = d->out_at == d->out_len || d->write_dead;
    switch (d->plan.end) {
    case END_FIN:
    case END_PARTIAL:
        if (said_all && !d->shut && may_shut(d)) {
            sim_peer_shutdown(d->peer);
            d->shut = true;
            d->progress_ns = sim_now_ns(d->rig->world);
        }
        break;
    case END_CLOSE:
        if (d->out_at >= d->end_at || d->write_dead) device_leave(d);
        return;
    case END_RESET:
        if (d->out_at < d->end_at && !d->write_dead) return;
        sim_peer_reset(d->peer);
        d->peer = NULL;
        finished(d);
        return;
    default:
        break; // the gateway ends it
    }
    bool told = d->eof || d->reset;
    if (d->plan.end == END_MUTE) told = sim_peer_is_gone(d->peer);
    if (told) device_leave(d);
}

void device_act(device *d) {
    rig *r = d->rig;
    u64 now = sim_now_ns(r->world);
    if (d->peer == NULL) connect_now(d);
    if (d->peer != NULL) {
        stay_alive(d);
        if (sim_random_chance(&r->rng, 600)) write_some(d);
        if (d->plan.end != END_MUTE && sim_random_chance(&r->rng, 600)) read_some(d);
        end_if_due(d);
    }
    u64 think = d->plan.think_ns_max;
    d->next_ns = now + (sim_random_chance(&r->rng, 400) ? 0 : sim_random_below(&r->rng, think + 1));
    // Nothing to do but wait: look again now and then, more and more seldom, so that time can move.
    bool waits = d->peer == NULL || d->write_dead || d->out_at == d->out_len;
    d->waits_done = waits && d->got == d->got_before ? MIN(d->waits_done + 1, 8u) : 0;
    d->got_before = d->got;
    if (!waits) return;
    u64 longest = MIN((think + NS_PER_MS) << d->waits_done, MAX(think, WAIT_LOOK_NS_MAX));
    d->next_ns = now + sim_random_range(&r->rng, longest / 2 + 1, longest + 1);
}
