// SPDX-License-Identifier: Apache-2.0
// mqtt_flow.c: the publishing side: the schedule says when a message is due, whatever the broker
// does; what cannot leave because the in-flight window is full waits in order, and its latency
// counts from the due time all the same.
//
// Clients 0 to subs - 1 are subscribers, the publishers follow. In a closed loop (ingest without a rate) each
// publisher keeps its window full, and latency counts from the moment of sending.
#include "bench/mqtt_flow.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/mqtt_write.h"

static mq_publisher *publisher_of(mq_client *c) {
    mq_world *w = mq_world_of(c);
    return &w->flow->pubs[(u32)(c - w->clients) - w->options.subs];
}

static void lag_note(mq_world *w, u64 due_ns) {
    if (w->lag_count < ARRAY_LEN(w->lag_due_ns)) w->lag_due_ns[w->lag_count++] = due_ns;
}

// Puts the message into the connection's output. False: its output is full.
static bool message_put(mq_flow *f, mq_client *c, mq_publisher *p, u64 due_ns, u16 packet_id) {
    u8 *out = mq_client_room(c, p->packet_len);
    if (out == NULL) return false;
    u32 number = (u32)(p - f->pubs);
    memcpy(out, p->packet, p->packet_len);
    if (packet_id != 0) {
        out[p->id_at] = (u8)(packet_id >> 8);
        out[p->id_at + 1] = (u8)packet_id;
    }
    u8 *payload = out + p->payload_at;
    memcpy(payload, &number, 4);
    memcpy(payload + 4, &p->next_seq, 4);
    memcpy(payload + 8, &due_ns, 8);
    p->next_seq++;
    f->published++;
    f->expected += f->copies;
    if (mq_in_window(f->world, due_ns)) {
        f->world->result->window_published++;
        f->world->result->window_expected += f->copies;
    }
    return true;
}

static bool message_send(mq_flow *f, mq_client *c, mq_publisher *p, u64 due_ns) {
    if (p->slots == NULL) return message_put(f, c, p, due_ns, 0);
    u16 id = p->free_ids[p->free_count - 1];
    if (!message_put(f, c, p, due_ns, id)) return false;
    p->free_count--;
    p->slots[id - 1] = (mq_slot){
        .due_ns = due_ns, .waits_for = f->world->options.qos == 1 ? MQTT_PUBACK : MQTT_PUBREC};
    return true;
}

static bool backlog_add(mq_publisher *p, u64 due_ns) {
    if (p->backlog_count == p->backlog_capacity) {
        u32 capacity = MAX(64u, p->backlog_capacity * 2);
        if (capacity > MQ_BACKLOG_MAX) return false;
        u64 *ring = malloc((size_t)capacity * sizeof(*ring));
        if (ring == NULL) return false;
        for (u32 i = 0; i < p->backlog_count; i++) {
            ring[i] = p->backlog[(p->backlog_first + i) % p->backlog_capacity];
        }
        free(p->backlog);
        p->backlog = ring;
        p->backlog_first = 0;
        p->backlog_capacity = capacity;
    }
    p->backlog[(p->backlog_first + p->backlog_count++) % p->backlog_capacity] = due_ns;
    return true;
}

static void backlog_send(mq_flow *f, mq_client *c, mq_publisher *p) {
    while (p->backlog_count > 0 && p->free_count > 0) {
        if (!message_send(f, c, p, p->backlog[p->backlog_first])) return;
        p->backlog_first = (p->backlog_first + 1) % p->backlog_capacity;
        p->backlog_count--;
        f->backlogged--;
    }
}

static void message_due(mq_flow *f, u32 number, u64 due_ns) {
    mq_world *w = f->world;
    mq_client *c = &w->clients[w->options.subs + number];
    mq_publisher *p = &f->pubs[number];
    if (c->state != MQ_READY) {
        bench_error_add(&w->net.errors, BENCH_ERROR_CONNECTION_GONE, 1);
        return;
    }
    lag_note(w, due_ns);
    if (p->slots != NULL && (p->free_count == 0 || p->backlog_count > 0)) {
        if (backlog_add(p, due_ns)) {
            f->backlogged++;
            return;
        }
    } else if (message_send(f, c, p, due_ns)) {
        return;
    }
    bench_error_add(&w->net.errors, BENCH_ERROR_OUTSTANDING_LIMIT, 1);
}

// Closed loop: fills every window, once; from then on acknowledgements do.
static bool windows_fill(mq_flow *f, u64 now_ns) {
    mq_world *w = f->world;
    f->due.due_ns = UINT64_MAX;
    for (u32 i = 0; i < w->options.pubs; i++) {
        mq_client *c = &w->clients[w->options.subs + i];
        while (c->state == MQ_READY && f->pubs[i].free_count > 0 && message_send(f, c, &f->pubs[i], now_ns)) {
        }
    }
    return true;
}

static bool flow_fire(mq_world *w, u64 now_ns) {
    mq_flow *f = w->flow;
    u32 started = 0, burst = w->options.burst;
    if (f->stopped || f->due.due_ns > now_ns) return false;
    if (f->closed) return windows_fill(f, now_ns);
    while (f->due.due_ns <= now_ns && started < MQ_STARTS_PER_TURN) {
        u32 number = w->options.arrival == ARRIVAL_POISSON
                         ? schedule_random_below(&f->due, w->options.pubs)
                         : f->turn++ % w->options.pubs;
        for (u32 i = 0; i < burst; i++) message_due(f, number, f->due.due_ns);
        started += burst;
        schedule_next(&f->due);
    }
    return true;
}

static u64 flow_next_due(const mq_world *w) {
    return w->flow->stopped ? UINT64_MAX : w->flow->due.due_ns;
}

// --- acknowledgements ---

static void publisher_ack(mq_client *c, u8 type, const mqtt_ack *ack, u64 now_ns) {
    mq_world *w = mq_world_of(c);
    mq_publisher *p = publisher_of(c);
    u32 index = ack->packet_id - 1u;
    if (p->slots == NULL || index >= p->window || p->slots[index].waits_for != type) {
        bench_error_add(&w->net.errors, BENCH_ERROR_UNEXPECTED_FRAME, 1);
        return;
    }
    mq_slot *slot = &p->slots[index];
    bool refused = ack->reason >= 0x80;
    if (refused) {
        bench_error_add(&w->net.errors, BENCH_ERROR_PUBLISH_REFUSED, 1);
        if (w->net.first_refusal[0] == 0) {
            snprintf(w->net.first_refusal, sizeof(w->net.first_refusal), "%s %s",
                     mqtt_type_name(type), mqtt_reason_name(ack->reason));
        }
    }
    if (type == MQTT_PUBREC && !refused) {
        slot->waits_for = MQTT_PUBCOMP;
        mq_client_ack(c, MQTT_PUBREL, ack->packet_id);
        return;
    }
    if (!refused && mq_in_window(w, slot->due_ns)) {
        hist_record(&w->result->acks, now_ns - MIN(now_ns, slot->due_ns));
    }
    slot->waits_for = 0;
    p->free_ids[p->free_count++] = ack->packet_id;
    w->flow->acked++;
    if (p->backlog_count > 0) backlog_send(w->flow, c, p);
    if (w->flow->closed && !w->flow->stopped) message_send(w->flow, c, p, now_ns);
}

// --- set-up ---

static int publisher_prepare(mq_flow *f, u32 number) {
    mq_world *w = f->world;
    const mq_options *o = &w->options;
    mq_publisher *p = &f->pubs[number];
    char topic[MQ_TOPIC_BYTES_MAX];
    snprintf(topic, sizeof(topic), "%s/%u", w->result->prefix, number);
    u8 *payload = malloc(o->size);
    if (payload == NULL) return -ENOMEM;
    mq_payload_fill(payload + MQ_PAYLOAD_BYTES_MIN, o->size - MQ_PAYLOAD_BYTES_MIN);
    memset(payload, 0, MQ_PAYLOAD_BYTES_MIN);
    mqtt_publish publish = {.qos = (u8)o->qos,
                            .packet_id = o->qos > 0 ? 1 : 0,
                            .topic = {(const u8 *)topic, (u32)strlen(topic)},
                            .payload = {payload, o->size}};
    int len = mqtt_write_publish(mq_net_version(&w->net), &publish, NULL, 0);
    p->packet = len > 0 ? malloc((size_t)len) : NULL;
    if (p->packet != NULL) {
        (void)mqtt_write_publish(mq_net_version(&w->net), &publish, p->packet, (u32)len);
        p->packet_len = (u32)len;
        p->payload_at = (u32)len - o->size;
        p->id_at = p->payload_at - (mq_net_version(&w->net) == MQTT_5 ? 3u : 2u);
    }
    free(payload);
    return p->packet == NULL ? -ENOMEM : 0;
}

// The window is known when the broker has said its receive maximum.
static void publisher_ready(mq_client *c, u64 now_ns) {
    mq_world *w = mq_world_of(c);
    mq_publisher *p = publisher_of(c);
    if (w->options.qos > 0) {
        p->window = MIN(w->options.inflight, c->receive_max);
        p->slots = calloc(p->window, sizeof(*p->slots));
        p->free_ids = malloc(p->window * sizeof(*p->free_ids));
        if (p->slots == NULL || p->free_ids == NULL) {
            mq_client_fail(c, BENCH_ERROR_NO_MEMORY, now_ns);
            return;
        }
        for (u32 i = 0; i < p->window; i++) p->free_ids[i] = (u16)(p->window - i);
        p->free_count = p->window;
    }
    mq_world_ready(c, now_ns);
}

static void subscriber_ready(mq_client *c, u64 now_ns) {
    (void)now_ns;
    mq_world *w = mq_world_of(c);
    const mq_options *o = &w->options;
    u32 number = (u32)(c - w->clients);
    char filter[MQ_TOPIC_BYTES_MAX + 32];
    if (o->kind == MQ_PAIRS) {
        snprintf(filter, sizeof(filter), "%s/%u", w->result->prefix, number);
    } else if (o->kind == MQ_SHARED) {
        snprintf(filter, sizeof(filter), "$share/g%u/%s/#", number % o->groups, w->result->prefix);
    } else {
        snprintf(filter, sizeof(filter), "%s/#", w->result->prefix);
    }
    mq_client_subscribe(c, filter, (u8)o->sub_qos);
}

static void subscriber_message(mq_client *c, const mq_message *m, u64 now_ns) {
    mq_world *w = mq_world_of(c);
    u32 sub = (u32)(c - w->clients);
    if (m->qos > 0 && !mq_flow_acknowledge(w->flow, c, sub, m)) return;
    mq_flow_verify(w->flow, sub, m, now_ns);
}

static void subscriber_ack(mq_client *c, u8 type, const mqtt_ack *ack, u64 now_ns) {
    (void)now_ns;
    mq_world *w = mq_world_of(c);
    if (type == MQTT_PUBREL) mq_flow_release(w->flow, (u32)(c - w->clients), ack->packet_id);
}

const mq_role mq_subscriber_role = {.ready = subscriber_ready,
                                    .subscribed = mq_world_ready,
                                    .message = subscriber_message,
                                    .ack = subscriber_ack};
const mq_role mq_publisher_role = {.ready = publisher_ready, .ack = publisher_ack};

int mq_flow_open(mq_world *w) {
    const mq_options *o = &w->options;
    mq_flow *f = calloc(1, sizeof(*f));
    if (f == NULL) return -ENOMEM;
    w->flow = f;
    f->world = w;
    f->closed = o->kind == MQ_INGEST && o->rate == 0;
    bool shared = o->kind == MQ_SHARED;
    size_t cells = o->kind == MQ_PAIRS ? o->pubs : (size_t)o->pubs * o->subs;
    f->copies = o->kind == MQ_PAIRS ? 1 : shared ? o->groups : o->subs;
    f->pubs = calloc(o->pubs, sizeof(*f->pubs));
    f->unreleased = calloc(MAX(o->subs, 1u), sizeof(u64 *));
    if (shared) {
        f->last = calloc(cells, sizeof(*f->last));
        f->maps = calloc((size_t)o->groups * o->pubs, sizeof(*f->maps));
    } else {
        f->tracks = calloc(MAX(cells, 1u), sizeof(*f->tracks));
    }
    if (f->pubs == NULL || f->unreleased == NULL) return -ENOMEM;
    if (shared ? f->last == NULL || f->maps == NULL : f->tracks == NULL) return -ENOMEM;
    for (u32 i = 0; i < o->pubs; i++) {
        if (publisher_prepare(f, i) != 0) return -ENOMEM;
    }
    w->fire = flow_fire;
    w->next_due = flow_next_due;
    f->stopped = true;
    return 0;
}

void mq_flow_free(mq_flow *f) {
    if (f == NULL) return;
    const mq_options *o = &f->world->options;
    for (u32 i = 0; f->pubs != NULL && i < o->pubs; i++) {
        free(f->pubs[i].packet);
        free(f->pubs[i].slots);
        free(f->pubs[i].free_ids);
        free(f->pubs[i].backlog);
    }
    for (u32 i = 0; f->maps != NULL && i < o->groups * o->pubs; i++) mq_map_free(&f->maps[i]);
    for (u32 i = 0; f->unreleased != NULL && i < o->subs; i++) free(f->unreleased[i]);
    free(f->pubs);
    free(f->unreleased);
    free(f->last);
    free(f->maps);
    free(f->tracks);
    free(f);
}
