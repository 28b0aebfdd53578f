// SPDX-License-Identifier: Apache-2.0
// inspect.h: what operators may see of a worker's routing: its subscriptions and its part of the retained
// messages, as rows in a buffer, in bounded steps. The functions run on the worker that owns the broker;
// rows are plain bytes and may be read by another thread afterwards.
#ifndef SLUICE_BROKER_INSPECT_H
#define SLUICE_BROKER_INSPECT_H

#include "broker/broker.h"

// One row: this head, then the texts behind it without terminators: topic (or filter), share name,
// client id. Rows follow each other at offsets that are not aligned.
typedef struct inspect_row {
    u32 bytes; // head and texts
    u32 topic_len, share_len, client_len;
    u32 subscription_id;
    u32 payload_len, props_len;   // retained
    u64 age_ns;                   // retained
    u64 expires_in_ns;            // retained; UINT64_MAX = never
    u8 qos, retain_handling;
    bool no_local, retain_as_published, in_force;
} inspect_row;

typedef struct inspect_rows {
    u8 *data;       // the caller's
    u32 size, used;
    u32 count;
    u64 cursor;     // 0 to start
    bool more;      // go on from the cursor
} inspect_rows;

// Room that any single row fits in.
#define INSPECT_ROW_BYTES_MAX (sizeof(inspect_row) + 3 * 65536u)

// Adds rows whose topic or filter contains `contains` and whose client is `client` ("" = any), from the
// cursor on, and moves it; looks at no more than LIMIT_INSPECT_PLACES places of its tables and some
// entries. size is at least INSPECT_ROW_BYTES_MAX and used is 0. Entries that come or go meanwhile may be
// missed or met twice.
void inspect_subscriptions(broker *b, const char *contains, const char *client, inspect_rows *out);
void inspect_retained(broker *b, const char *contains, inspect_rows *out);

#endif
