// SPDX-License-Identifier: Apache-2.0
// mqtt_verify.c: the receiving side: each message is acknowledged as its QoS asks, its content is
// compared, and its number is looked up among those that have come.
//
// With QoS 1 a broker may deliver twice, but on a connection that never broke it has no reason to:
// a second copy counts as duplicated in every QoS.
#include <stdlib.h>
#include <string.h>

#include "bench/mqtt_flow.h"

#define FILLER_PERIOD 251u // prime: a piece that moved by any usual size is noticed

void mq_payload_fill(u8 *filler, u32 len) {
    for (u32 i = 0; i < len; i++) filler[i] = (u8)(i % FILLER_PERIOD + 1);
}

bool mq_payload_filler_is_right(const u8 *filler, u32 len) {
    static u8 pattern[FILLER_PERIOD * 16];
    if (pattern[0] == 0) mq_payload_fill(pattern, sizeof(pattern));
    while (len > sizeof(pattern)) {
        if (memcmp(filler, pattern, sizeof(pattern)) != 0) return false;
        filler += sizeof(pattern);
        len -= (u32)sizeof(pattern);
    }
    return memcmp(filler, pattern, len) == 0;
}

bool mq_flow_acknowledge(mq_flow *f, mq_client *c, u32 sub, const mq_message *m) {
    if (m->qos == 1) {
        mq_client_ack(c, MQTT_PUBACK, m->packet_id);
        return true;
    }
    u64 *ids = f->unreleased[sub];
    if (ids == NULL) ids = f->unreleased[sub] = calloc(65536 / 64, sizeof(*ids));
    if (ids == NULL) {
        mq_client_fail(c, BENCH_ERROR_NO_MEMORY, clock_mono_ns());
        return false;
    }
    u64 bit = 1ull << m->packet_id % 64;
    bool is_new = (ids[m->packet_id / 64] & bit) == 0;
    ids[m->packet_id / 64] |= bit;
    mq_client_ack(c, MQTT_PUBREC, m->packet_id);
    return is_new;
}

void mq_flow_release(mq_flow *f, u32 sub, u16 packet_id) {
    u64 *ids = f->unreleased[sub];
    if (ids != NULL) ids[packet_id / 64] &= ~(1ull << packet_id % 64);
}

static mq_arrival shared_take(mq_flow *f, u32 sub, u32 publisher, u32 seq) {
    const mq_options *o = &f->world->options;
    bool failed;
    u32 *last = &f->last[(size_t)sub * o->pubs + publisher];
    mq_map *map = &f->maps[(size_t)(sub % o->groups) * o->pubs + publisher];
    bool is_new = mq_map_take(map, seq, &failed);
    if (failed) bench_error_add(&f->world->net.errors, BENCH_ERROR_NO_MEMORY, 1);
    if (!is_new) return MQ_DUPLICATED;
    bool behind = seq < *last;
    *last = MAX(*last, seq + 1);
    return behind ? MQ_REORDERED : MQ_ARRIVED;
}

void mq_flow_verify(mq_flow *f, u32 sub, const mq_message *m, u64 now_ns) {
    mq_world *w = f->world;
    const mq_options *o = &w->options;
    bench_errors *errors = &w->net.errors;
    u32 publisher, seq;
    u64 due_ns;
    if (m->payload_len != o->size) {
        bench_error_add(errors, BENCH_ERROR_CORRUPTED, 1);
        return;
    }
    memcpy(&publisher, m->payload, 4);
    memcpy(&seq, m->payload + 4, 4);
    memcpy(&due_ns, m->payload + 8, 8);
    bool right = publisher < o->pubs && (o->kind != MQ_PAIRS || publisher == sub) &&
                 seq < f->pubs[publisher].next_seq &&
                 mq_payload_filler_is_right(m->payload + MQ_PAYLOAD_BYTES_MIN,
                                            o->size - MQ_PAYLOAD_BYTES_MIN);
    if (!right) {
        bench_error_add(errors, BENCH_ERROR_CORRUPTED, 1);
        return;
    }
    size_t cell = o->kind == MQ_PAIRS ? sub : (size_t)sub * o->pubs + publisher;
    mq_arrival how = o->kind == MQ_SHARED ? shared_take(f, sub, publisher, seq)
                                          : mq_track_take(&f->tracks[cell], seq);
    if (how == MQ_DUPLICATED) {
        bench_error_add(errors, BENCH_ERROR_DUPLICATED, 1);
        return;
    }
    if (how == MQ_REORDERED) bench_error_add(errors, BENCH_ERROR_REORDERED, 1);
    f->delivered++;
    if (!mq_in_window(w, due_ns)) return;
    w->result->window_delivered++;
    hist_record(&w->result->latency, now_ns - MIN(now_ns, due_ns));
}
