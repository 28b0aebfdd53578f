// SPDX-License-Identifier: Apache-2.0
// mqtt_flow.h: publishers on a schedule and the subscribers that verify them. Private to
// bench/mqtt_*.c.
//
// A payload is publisher (u32), sequence number (u32), due time (u64), in the machine's byte order,
// and then filler that is the same in every message; all of it is checked.
#ifndef SLUICE_BENCH_MQTT_FLOW_H
#define SLUICE_BENCH_MQTT_FLOW_H

#include "bench/mqtt_track.h"
#include "bench/mqtt_world.h"

typedef struct mq_slot { // a packet identifier of a publisher, QoS 1 and 2
    u64 due_ns;
    u8 waits_for; // MQTT_PUBACK, MQTT_PUBREC, MQTT_PUBCOMP; 0 = free
} mq_slot;

typedef struct mq_publisher {
    u8 *packet; // a PUBLISH to be copied and filled in
    u32 packet_len, id_at, payload_at;
    u32 next_seq;
    // QoS 1 and 2: identifier i + 1 is slots[i]
    mq_slot *slots;
    u16 *free_ids;
    u32 free_count, window;
    u64 *backlog; // due times behind a full window: ring
    u32 backlog_first, backlog_count, backlog_capacity;
} mq_publisher;

struct mq_flow {
    mq_world *world;
    mq_publisher *pubs;
    mq_track *tracks;  // [subscriber][publisher]; pairs: [pair]
    u32 *last;         // shared: [subscriber][publisher], highest sequence number + 1
    mq_map *maps;      // shared: [group][publisher]
    u64 **unreleased;  // [subscriber]: QoS 2 identifiers received and not released; NULL at first
    schedule due;
    u32 turn;          // uniform arrivals: whose turn it is
    u64 copies;        // deliveries that one message leads to
    u64 expected, delivered, published, backlogged, acked;
    bool stopped;
    bool closed;       // ingest without a rate: the next one leaves when one is acknowledged
};

int mq_flow_open(mq_world *w);
void mq_flow_free(mq_flow *f);
// Role of subscriber connections and of publisher connections.
extern const mq_role mq_subscriber_role, mq_publisher_role;
// A message came in at subscriber number sub (mqtt_verify.c).
void mq_flow_verify(mq_flow *f, u32 sub, const mq_message *m, u64 now_ns);
// True: the message is new at its subscriber (QoS 2 handshake seen to).
bool mq_flow_acknowledge(mq_flow *f, mq_client *c, u32 sub, const mq_message *m);
void mq_flow_release(mq_flow *f, u32 sub, u16 packet_id);
void mq_payload_fill(u8 *filler, u32 len);
bool mq_payload_filler_is_right(const u8 *filler, u32 len);

#endif
