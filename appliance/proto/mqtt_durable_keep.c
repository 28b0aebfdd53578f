// SPDX-License-Identifier: Apache-2.0
// mqtt_durable_keep.c: what the log asks of sessions while it runs: their state for a checkpoint, slice by
// slice, and whether a message record or a block of references is needed still. No table counts who needs a
// message: the record names those who wait for it, and each of them knows what is left of its queue.
#include "broker/durable.h"
#include "proto/mqtt_durable.h"
#include "store/streams.h"

enum { STAGE_EXCHANGES, STAGE_SESSIONS };

static void exchange_write(void *context, u64 session, store_pos pos, u32 part_bytes, u64 targets) {
    mqtt_change c = {.kind = MQTT_CHANGE_EXCHANGE, .session = session, .origin = pos, .number = part_bytes,
                     .time_ms = targets};
    mqtt_durable_write(context, &c);
}

static bool exchanges_write(mqtt_durable *d) {
    const worker *w = d->all->owner;
    if (!mqtt_durable_flush(d)) return false;
    exchange_each(w->broker, exchange_write, d);
    for (u32 i = 0; i < w->gw->worker_count; i++) {
        mqtt_change c = {.kind = MQTT_CHANGE_SOURCE, .origin = exchange_seen(w->broker, i), .number = i};
        if (c.origin != 0) mqtt_durable_write(d, &c);
        c.kind = MQTT_CHANGE_KEPT;
        c.origin = exchange_kept(w->broker, i);
        if (c.origin != 0) mqtt_durable_write(d, &c);
    }
    mqtt_durable_clock_write(d);
    mqtt_wills_write(d->all);
    return mqtt_durable_flush(d);
}

static bool checkpoint(void *context, bool begin, u32 budget) {
    mqtt_durable *d = context;
    if (begin) d->checkpoint_stage = STAGE_EXCHANGES;
    if (d->checkpoint_stage == STAGE_EXCHANGES) {
        if (!exchanges_write(d)) return false;
        d->checkpoint_stage = STAGE_SESSIONS;
        d->checkpoint = d->first;
    }
    for (u32 used = 0; d->checkpoint != NULL && used < budget;) {
        u32 bytes;
        if (!mqtt_keep_write(d, d->checkpoint, &bytes)) return false;
        used += bytes;
        d->checkpoint = d->checkpoint->next;
    }
    return d->checkpoint == NULL;
}

static bool session_needs(const mqtt_durable *d, const message_waiting *w, u64 origin) {
    const mqtt_keep *k = mqtt_keep_find(d, w->session);
    if (k == NULL) return false;
    const mqtt_outbound *out = k->session->out;
    for (const mqtt_entry *e = out == NULL ? NULL : out->in_flight.head; e != NULL; e = e->next) {
        if (e->origin == origin) return true;
    }
    return backlog_needs(&k->backlog, origin);
}

static bool message_is_live(void *context, const store_record *r) {
    const mqtt_durable *d = context;
    message_record m;
    if (!message_record_parse(r->data, r->len, &m)) return false;
    for (u32 i = 0; i < m.waiting_count; i++) {
        message_waiting w = message_record_waiting(&m, i);
        if (session_needs(d, &w, r->origin)) return true;
    }
    message_stream places[MESSAGE_RECORD_STREAMS_MAX];
    for (u32 i = 0; i < m.stream_count; i++) places[i] = message_record_stream(&m, i);
    if (streams_need(d->all->owner->streams, places, m.stream_count)) return true;
    return m.targets != 0 && exchange_is_open(d->all->owner->broker, r->origin);
}

static bool session_is_live(void *context, const store_record *r) {
    const mqtt_durable *d = context;
    cursor at = cursor_of(r->data, r->len);
    backlog_ref refs[BACKLOG_CHUNK];
    u64 number;
    if (cursor_u8(&at) != MQTT_RECORD_BLOCK || !mqtt_block_parse(&at, &number, refs)) return false;
    const mqtt_keep *k = mqtt_keep_find(d, number);
    return k != NULL && backlog_has_block(&k->backlog, r->origin);
}

// --- another number of workers ---

static u64 bit_of(u64 number, u32 workers) {
    return 1ull << (number % workers);
}

static u64 session_owners(const store_record *r, u32 old_worker, u32 workers) {
    (void)old_worker;
    cursor at = cursor_of(r->data, r->len);
    mqtt_change c;
    u8 type = cursor_u8(&at);
    if (type != MQTT_RECORD_CHANGES) {
        u64 high = cursor_u32(&at);
        return bit_of(high << 32 | cursor_u32(&at), workers);
    }
    u64 mask = 0, all = workers == 64 ? UINT64_MAX : (1ull << workers) - 1;
    while (mqtt_change_next(&at, &c) == 1) {
        // The exchange is its session's, wherever that is now, and this does not say whose it is. The clock is
        // everybody's.
        if (c.kind == MQTT_CHANGE_CONFIRMED || c.kind == MQTT_CHANGE_CLOCK) mask = all;
        else mask |= bit_of(c.session == 0 ? old_worker : c.session, workers);
    }
    return mask;
}

static u64 message_owners(const store_record *r, u32 old_worker, u32 workers) {
    message_record m;
    if (!message_record_parse(r->data, r->len, &m)) return 0;
    message_stream places[MESSAGE_RECORD_STREAMS_MAX];
    for (u32 i = 0; i < m.stream_count; i++) places[i] = message_record_stream(&m, i);
    u64 mask = streams_owners(places, m.stream_count, workers);
    if (m.exchange_session != 0 || m.source_pos != 0) mask |= bit_of(old_worker, workers);
    if (m.exchange_session != 0) mask |= bit_of(m.exchange_session, workers);
    for (u32 i = 0; i < m.waiting_count; i++) mask |= bit_of(message_record_waiting(&m, i).session, workers);
    return mask;
}

static void confirmed(void *context, store_pos pos) {
    mqtt_change c = {.kind = MQTT_CHANGE_CONFIRMED, .origin = pos};
    mqtt_durable_write(context, &c);
}

void mqtt_durable_register(mqtt_durable *d) {
    const store_keeper sessions = {.context = d, .replay = mqtt_replay, .replayed = mqtt_replayed,
                                   .checkpoint = checkpoint, .is_live = session_is_live, .owners = session_owners};
    const store_keeper messages = {.context = d, .replay = mqtt_replay_message, .is_live = message_is_live,
                                   .owners = message_owners};
    store_register(d->log, STORE_SESSION, &sessions);
    store_register(d->log, STORE_MESSAGE, &messages);
    exchange_on(d->all->owner->broker, d, confirmed, mqtt_exchanges_resumed);
}
