// SPDX-License-Identifier: Apache-2.0
// device_check.c: whether what a device saw was right: every byte at its place as it arrives, and at the
// end the reason of the close against what the device did.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "proto/frame.h"

// --- messages ---

static void pattern(u8 *out, u32 len, u32 publisher, u32 sequence) {
    sim_random r = {.state = (u64)publisher << 32 | sequence};
    for (u32 i = 0; i < len; i++) out[i] = (u8)sim_random_next(&r);
}

void device_message_make(u8 *out, u32 len, u32 publisher, u32 sequence) {
    pattern(out, len, publisher, sequence);
    if (len < DEVICE_MESSAGE_MIN) return;
    memcpy(out, "MSG!", 4);
    frame_length_write(out + 4, publisher);
    frame_length_write(out + 8, sequence);
    frame_length_write(out + 12, len);
}

static void message_check(device *d, const u8 *data, u32 len) {
    rig *r = d->rig;
    u32 publisher = frame_length_read(data + 4), sequence = frame_length_read(data + 8);
    if (publisher >= r->device_count || sequence == 0 ||
        sequence > r->devices[publisher]->published) {
        rig_fail(r, "device %u: a message of nobody (%u, %u)", d->number, publisher, sequence);
        return;
    }
    u8 *wanted = malloc(len);
    ASSERT(wanted != NULL);
    device_message_make(wanted, len, publisher, sequence);
    RIG_CHECK(r, memcmp(wanted, data, len) == 0, "device %u: message %u of %u is damaged", d->number,
              sequence, publisher);
    free(wanted);
    RIG_CHECK(r, sequence > d->seen_last[publisher],
              "device %u: message %u of device %u came after message %u", d->number, sequence, publisher,
              d->seen_last[publisher]);
    d->seen_last[publisher] = sequence;
    if (d->open && sequence > d->seen_from[publisher]) d->seen_count[publisher]++;
}

// Frames of a publisher whose first byte was written.
static u32 frames_begun(const device *d) {
    u32 count = 0;
    while (count < d->published && d->starts[count] < d->out_at) count++;
    return count;
}

static void opened(device *d) {
    d->open = true;
    for (u32 i = 0; i < d->rig->device_count; i++) {
        const device *other = d->rig->devices[i];
        d->seen_from[i] = other->starts != NULL ? frames_begun(other) : 0;
    }
}

static void publish_frame(device *d, const u8 *payload, u32 len) {
    rig *r = d->rig;
    if (len == 0) {
        d->heartbeats_back++;
        RIG_CHECK(r, d->heartbeats_back <= d->heartbeats, "device %u: heartbeats from nowhere",
                  d->number);
    } else if (len == 8) {
        u64 number = (u64)frame_length_read(payload) << 32 | frame_length_read(payload + 4);
        u64 wanted = d->open ? d->acked + 1u : 0;
        RIG_CHECK(r, number == wanted, "device %u: acknowledgement %" PRIu64 " instead of %" PRIu64,
                  d->number, number, wanted);
        if (d->open) d->acked++;
        else opened(d);
        u32 begun = frames_begun(d);
        RIG_CHECK(r, d->acked <= begun, "device %u: acknowledgement %u of %u frames", d->number,
                  d->acked, begun);
    } else {
        RIG_CHECK(r, len >= DEVICE_MESSAGE_MIN && memcmp(payload, "MSG!", 4) == 0,
                  "device %u: a frame of %u bytes that nobody sent", d->number, len);
        if (!rig_is_failed(r)) message_check(d, payload, len);
    }
}

static void publish_bytes(device *d, const u8 *data, size_t len) {
    if (d->in_len + len > d->in_size) {
        d->in_size = 2 * (d->in_len + len);
        d->in = realloc(d->in, d->in_size);
        ASSERT(d->in != NULL);
    }
    memcpy(d->in + d->in_len, data, len);
    d->in_len += len;
    size_t at = 0;
    while (d->in_len - at >= FRAME_HEADER_BYTES && !rig_is_failed(d->rig)) {
        u32 frame = frame_length_read(d->in + at);
        RIG_CHECK(d->rig, frame <= 1u << 20, "device %u: a frame of %u bytes", d->number, frame);
        if (d->in_len - at < FRAME_HEADER_BYTES + frame) break;
        publish_frame(d, d->in + at + FRAME_HEADER_BYTES, frame);
        at += FRAME_HEADER_BYTES + frame;
    }
    memmove(d->in, d->in + at, d->in_len - at);
    d->in_len -= at;
}

void device_check_bytes(device *d, const u8 *data, size_t len) {
    if (d->mode == FRAME_PUBLISH) {
        publish_bytes(d, data, len);
    } else {
        RIG_CHECK(d->rig, d->got + len <= d->expect_len, "device %u: %zu bytes too many", d->number,
                  d->got + len - d->expect_len);
        if (rig_is_failed(d->rig)) return;
        for (size_t i = 0; i < len; i++) {
            RIG_CHECK(d->rig, data[i] == d->expect[d->got + i], "device %u: byte %zu is %u instead of %u",
                      d->number, d->got + i, data[i], d->expect[d->got + i]);
        }
    }
    d->got += len;
    d->progress_ns = sim_now_ns(d->rig->world);
}

// How long an answer may take when the device reads all the time. On a clean network only the gateway
// itself takes time, and it takes none; else every delay of the world may come together.
#define PROGRESS_CLEAN_NS (200 * NS_PER_MS)
#define PROGRESS_NS (5 * NS_PER_S)

void device_check_progress(device *d) {
    rig *r = d->rig;
    u64 now = sim_now_ns(r->world);
    while (d->frames_due < d->frames_planned && d->due[d->frames_due].written <= d->out_at) {
        d->frames_due++;
        d->progress_ns = MAX(d->progress_ns, d->last_write_ns);
    }
    bool owed;
    if (d->mode == FRAME_PUBLISH) {
        owed = d->open && d->frames_due > d->acked + d->heartbeats_back;
    } else {
        owed = d->frames_due > 0 && d->got < d->due[d->frames_due - 1].answered;
    }
    if (d->shut && d->plan.end == END_FIN) owed = true; // the end of the stream, at least
    if (!owed || r->tight || r->drained || r->setup.sim.faults.reset > 0) {
        d->progress_ns = now;
        return;
    }
    const sim_config *net = &r->setup.sim;
    bool clean = net->latency_ns_max == 0 && net->faults.delay == 0 && net->faults.time_jump == 0;
    u64 bound = clean && !r->setup.stalls ? PROGRESS_CLEAN_NS : PROGRESS_NS;
    RIG_CHECK(r, now - d->progress_ns <= bound, "device %u: nothing came back for %" PRIu64 " ms, %zu bytes so far",
              d->number, (u64)((now - d->progress_ns) / NS_PER_MS), d->got);
}

// --- the end ---

#define REASON(r) (1ull << (r))
_Static_assert(CLOSE_REASONS <= 64, "sets of reasons are one word");

// The reasons that a device's own behaviour explains.
static const u64 own_reasons[DEVICE_ENDS] = {
    [END_FIN] = REASON(CLOSE_PEER),
    [END_CLOSE] = REASON(CLOSE_PEER) | REASON(CLOSE_PEER_RESET) | REASON(CLOSE_PEER_IN_FRAME),
    [END_RESET] = REASON(CLOSE_PEER) | REASON(CLOSE_PEER_RESET) | REASON(CLOSE_PEER_IN_FRAME),
    [END_IDLE] = REASON(CLOSE_IDLE),
    [END_PARTIAL] = REASON(CLOSE_PEER_IN_FRAME),
    [END_OVERSIZE] = REASON(CLOSE_FRAME_TOO_LARGE) | REASON(CLOSE_BAD_HELLO),
    [END_MUTE] = REASON(CLOSE_SLOW_CONSUMER) | REASON(CLOSE_IDLE),
    [END_BAD_HELLO] = REASON(CLOSE_BAD_HELLO),
    [END_BAD_TOKEN] = REASON(CLOSE_AUTH_FAILED),
    [END_STALL] = REASON(CLOSE_FRAME_TIMEOUT),
    [END_SILENT] = REASON(CLOSE_IDLE) | REASON(CLOSE_HELLO_TIMEOUT),
};

static bool reason_is_explained(const device *d) {
    const rig_setup *setup = &d->rig->setup;
    u64 allowed = own_reasons[d->plan.end];
    if (setup->sim.faults.reset > 0) {
        allowed |= REASON(CLOSE_PEER_RESET) | REASON(CLOSE_IO_ERROR) | REASON(CLOSE_PEER);
    }
    if (setup->sim.faults.attach_error > 0) allowed |= REASON(CLOSE_NO_MEMORY);
    if (d->rig->tight) allowed |= REASON(CLOSE_NO_MEMORY) | REASON(CLOSE_SLOW_CONSUMER);
    if (d->plan.id != NULL) allowed |= REASON(CLOSE_TAKEN_OVER);
    if (d->rig->drained) allowed |= REASON(CLOSE_DRAIN);
    return (allowed & REASON(d->reason)) != 0;
}

void device_check_end(device *d) {
    rig *r = d->rig;
    if (d->reason == CLOSE_NONE) {
        // Refused at the door, never let in, or lost on a move: only where the setup makes that happen.
        bool refused = r->setup.sim.faults.attach_error > 0 || r->tight || r->drained ||
                       r->setup.sim.faults.accept_error > 0 || r->setup.sim.faults.reset > 0;
        RIG_CHECK(r, refused, "device %u: no reason for its end", d->number);
        return;
    }
    RIG_CHECK(r, reason_is_explained(d), "device %u (end %u): closed with reason %s", d->number,
              d->plan.end, close_reason_name(d->reason));
    if (d->plan.end != END_FIN || d->reason != CLOSE_PEER) return;
    if (r->setup.sim.faults.reset > 0 && !d->eof) return;
    // Cut at the drain's deadline, or taken over, while the last output was on its way: the first reason stays.
    if (r->drained || d->plan.id != NULL) return;
    RIG_CHECK(r, d->eof && !d->reset, "device %u: its orderly end came back as a reset", d->number);
    if (d->mode == FRAME_PUBLISH) {
        // A device that ends right behind its hello does not wait for the answer, and may get none.
        RIG_CHECK(r, d->acked == d->published && (d->open || d->published == 0),
                  "device %u: %u of %u frames acknowledged, and the end was orderly", d->number, d->acked,
                  d->published);
        RIG_CHECK(r, d->heartbeats_back == d->heartbeats, "device %u: %u of %u heartbeats answered",
                  d->number, d->heartbeats_back, d->heartbeats);
        RIG_CHECK(r, d->in_len == 0, "device %u: %zu bytes of a frame at the end", d->number, d->in_len);
    } else {
        RIG_CHECK(r, d->got == d->expect_len, "device %u: %zu of %zu bytes came back, and the end was orderly",
                  d->number, d->got, d->expect_len);
    }
}

// Whether what one publishes on its up topic matches the other's down filter; see scenario.c.
static bool is_subscribed(const device *sub, const device *pub) {
    const listener_config *to = &sub->rig->setup.listeners[sub->plan.listener];
    const listener_config *from = &pub->rig->setup.listeners[pub->plan.listener];
    if (sub->mode != FRAME_PUBLISH || pub->mode != FRAME_PUBLISH) return false;
    return from->up_topic[0] == 'm' && to->down_topic[0] == 'm';
}

void device_check_deliveries(rig *r) {
    u64 missing = 0;
    for (u32 s = 0; s < r->device_count; s++) {
        const device *sub = r->devices[s];
        if (!sub->open || !sub->plan.waits || sub->reason != CLOSE_PEER || !sub->eof) continue;
        for (u32 p = 0; p < r->device_count; p++) {
            const device *pub = r->devices[p];
            if (!is_subscribed(sub, pub) || pub->plan.waits || pub->acked <= sub->seen_from[p]) continue;
            u32 must = pub->acked - sub->seen_from[p];
            if (must <= sub->seen_count[p]) continue;
            missing += must - sub->seen_count[p];
            sim_note(r->world, "device %u has %u of the %u messages of device %u above %u", s,
                     sub->seen_count[p], must, p, sub->seen_from[p]);
        }
    }
    // Deliveries refused to a connection that is ending are counted too, so this is an upper bound.
    u64 dropped = r->setup.roomy ? 0 : RIG_METRIC(r, delivery_dropped);
    RIG_CHECK(r, missing <= dropped, "%" PRIu64 " messages missing, %" PRIu64 " counted as dropped",
              missing, dropped);
}
