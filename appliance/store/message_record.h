// SPDX-License-Identifier: Apache-2.0
// message_record.h: the one record of a message in a worker's log (store kind STORE_MESSAGE): the publication,
// the places it has in streams, and the durable sessions of this worker that wait for it. It is written once
// however many they are. Pure: no I/O, no allocation, no clock; the parser takes nothing for granted.
//
// Bytes, integers big-endian as on the wire:
//   u8 format (1)  u8 flags  u16 topic length  u32 properties' length  u32 payload's length
//   u32 expiry in s (0xffffffff: never)  u64 UNIX ms of publishing  u64 properties present
//   u8 reserved (0)  u8 streams  u16 reserved (0)  u32 waiting  u32 subscription identifiers
//   with MESSAGE_HAS_EXCHANGE: u64 session  u16 packet identifier  u64 targets
//   with MESSAGE_HAS_SOURCE: u16 worker  u64 position
//   streams: u16 number, u64 offset each
//   waiting, ascending by session: u64 session  u16 packet identifier  u8 options  u8 reserved (0)
//     u32 end of its identifiers
//   identifiers: u32 each;  topic;  properties;  payload
// flags: bits 0-1 QoS as published, bit 2 retain. options: bits 0-1 QoS granted, bit 2 retain flag to be sent.
#ifndef SLUICE_STORE_MESSAGE_RECORD_H
#define SLUICE_STORE_MESSAGE_RECORD_H

#include <sys/uio.h>

#include "base/base.h"

#define MESSAGE_EXPIRY_NEVER 0xffffffffu
#define MESSAGE_RECORD_STREAMS_MAX 255u

// One place of a message in a stream.
typedef struct message_stream {
    u64 offset;
    u16 stream; // its number in this worker's log
} message_stream;

// A session that waits for the message.
typedef struct message_waiting {
    u64 session;    // its number in this worker's log, not 0
    const u32 *ids; // subscription identifiers; writing only, see message_record_ids
    u32 id_count;
    u32 ids_at;     // parsed: the first of them
    u16 packet_id;  // it goes out under this identifier; 0 = it is queued
    u8 qos;         // granted: 1 or 2
    bool retain;
} message_waiting;

typedef struct message_record {
    const char *topic;
    const u8 *props;    // as in publication.props
    const u8 *payload;
    u64 props_present;
    u64 published_ms;   // UNIX time
    u32 topic_len, props_len, payload_len;
    u32 expiry_s;       // from published_ms on; MESSAGE_EXPIRY_NEVER
    u8 qos;             // as published
    bool retain;        // as published
    // The QoS 2 exchange by which a durable session of this worker published it; session 0 = none. The workers
    // in `targets` get it when this record is durable, and again after a crash unless they have confirmed it.
    u64 exchange_session, targets;
    u16 exchange_id;
    // It came from such a record on another worker; source_pos 0 = not.
    u16 source_worker;
    u64 source_pos;
    u32 stream_count, waiting_count, id_count;
    // Parsed: where the lists lie; to be read by the functions below.
    const u8 *streams, *waiting, *ids;
} message_record;

// Checks and parses len bytes; what *out points to lies in data. False: not a message record.
bool message_record_parse(const u8 *data, u32 len, message_record *out);
message_stream message_record_stream(const message_record *r, u32 at);
message_waiting message_record_waiting(const message_record *r, u32 at);
// The entry of a session. False: it does not wait.
bool message_record_find(const message_record *r, u64 session, message_waiting *out);
// Copies w->id_count identifiers of one of its entries.
void message_record_ids(const message_record *r, const message_waiting *w, u32 *out);

// Bytes that come before the topic; 0: more than a record may have.
u32 message_record_head_bytes(const message_record *r);
// Writes them and fills parts[4], to be appended as one record: head, topic, properties, payload. Of r: all but
// the parsed lists. waiting: ascending by session, r->waiting_count of them, whose identifiers are r->id_count
// together.
void message_record_write(const message_record *r, const message_stream *streams,
                          const message_waiting *waiting, u8 *head, struct iovec parts[4]);

#endif
