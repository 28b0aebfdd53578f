// SPDX-License-Identifier: Apache-2.0
// mqtt_client.c: what a simulated MQTT client says and does; see mqtt_client.h. It loses a connection only
// after the server has answered its CONNECT, or waits long enough for that CONNECT to have been seen, so
// that CONNECTs reach the server in the order they were sent. What comes on an earlier connection is not
// looked at: to the client it was lost.
#include "mqtt_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "proto/mqtt_property.h"
#include "proto/mqtt_write.h"

#define LOOK_NS_MAX (200 * NS_PER_MS)
#define UNANSWERED_NS (5 * NS_PER_S)  // by then a CONNECT without an answer was seen or is lost
#define GHOST_NS (2 * NS_PER_S)
#define GHOST_END_NS (60 * NS_PER_S)
#define SCRATCH_BYTES 16384u

static const char *const filter_texts[MQ_FILTERS] = {"test/0", "test/1", "test/2", "test/3", "test/#", "test/+"};

static sim_random *rng_of(const mq_client *c) {
    return &c->field->rig->rng;
}

static u64 now_of(const mq_client *c) {
    return sim_now_ns(c->field->rig->world);
}

mq_client *mq_client_add(mq_field *f, const mq_plan *plan) {
    ASSERT(f->client_count < MQ_CLIENTS_MAX && plan->payload_max + 64 <= SCRATCH_BYTES);
    mq_client *c = calloc(1, sizeof(*c));
    ASSERT(c != NULL && plan->alias_max <= MQ_ALIASES && plan->payload_max >= MQ_PAYLOAD_MIN);
    c->field = f;
    c->number = f->client_count;
    c->plan = *plan;
    c->seen = calloc(f->message_size, 1);
    c->seen_life = calloc(f->message_size, 1);
    c->settled = calloc(f->message_size, 1);
    ASSERT(c->seen != NULL && c->seen_life != NULL && c->settled != NULL);
    c->next_ns = now_of(c) + sim_random_below(rng_of(c), NS_PER_S);
    f->clients[f->client_count++] = c;
    return c;
}

void mq_client_free(mq_client *c) {
    free(c->out);
    free(c->in);
    free(c->seen);
    free(c->seen_life);
    free(c->settled);
    free(c);
}

// --- the connection ---

static void ghost_close(mq_client *c) {
    if (c->ghost != NULL) sim_peer_close(c->ghost);
    c->ghost = NULL;
}

// The connection is no longer this client's. reset: by RST; ghost: it is left to itself for a while.
typedef enum loss { LOSS_CLOSE, LOSS_RESET, LOSS_GHOST } loss;
static void connection_lose(mq_client *c, loss how) {
    u64 now = now_of(c);
    if (how == LOSS_RESET) {
        sim_peer_reset(c->peer);
    } else if (how == LOSS_CLOSE) {
        sim_peer_close(c->peer);
    } else {
        ghost_close(c);
        c->ghost = c->peer;
        c->ghost_until_ns = now + (c->phase == MQ_END ? GHOST_END_NS : GHOST_NS);
    }
    u64 pause = sim_random_below(rng_of(c), sim_random_chance(rng_of(c), 300) ? 4 * NS_PER_S : 50 * NS_PER_MS);
    c->connect_ns = now + (c->up ? (how == LOSS_GHOST && !c->leaving ? 0 : pause) : UNANSWERED_NS);
    // A session that is there next time may be an empty one, which this CONNECT has made.
    if (!c->up && !c->stays) c->dirty = true;
    c->peer = NULL;
    c->up = c->leaving = false;
    c->out_at = c->out_len = c->in_len = 0;
    c->ack_count = c->window = 0;
    c->subscribe_id = 0;
    memset(c->held, 0, sizeof(c->held));
    memset(c->alias, 0, sizeof(c->alias));
    mq_settle(c, MQ_ACKED, MQ_UNSETTLED);
    mq_settle(c, MQ_ASKED, MQ_UNSETTLED);
}

void mq_client_cut(mq_client *c) {
    ghost_close(c);
    if (c->peer != NULL) connection_lose(c, LOSS_RESET);
    // Nobody was told that the session is on disk: it may be gone, or an earlier one may be there again.
    if (c->firm) return;
    c->stays = false;
    c->dirty = true;
}

void mq_client_leave(mq_client *c) {
    ghost_close(c);
    if (c->peer != NULL) connection_lose(c, LOSS_CLOSE);
}

// --- what it says ---

static void out_put(mq_client *c, const u8 *data, int len) {
    ASSERT(len > 0);
    if (c->leaving) return; // nothing follows a goodbye or half a packet
    if (c->out_at == c->out_len) c->out_at = c->out_len = 0;
    if (c->out_len + (size_t)len > c->out_size) {
        c->out_size = 2 * (c->out_len + (size_t)len);
        c->out = realloc(c->out, c->out_size);
        ASSERT(c->out != NULL);
    }
    memcpy(c->out + c->out_len, data, (size_t)len);
    c->out_len += (size_t)len;
}

static void say_connect(mq_client *c) {
    sim_random *rng = rng_of(c);
    bool v5 = c->plan.version == MQTT_5, end = c->phase == MQ_END;
    u8 room[64], packet[256];
    char id[16];
    snprintf(id, sizeof(id), "client-%u", c->number);
    c->clean = end || c->dirty || (c->phase == MQ_BUSY && sim_random_chance(rng, c->plan.clean));
    c->expiry_s = MQ_EXPIRY_LONG_S;
    if (!v5 && c->clean) c->expiry_s = 0;
    if (v5 && c->phase == MQ_BUSY && sim_random_chance(rng, c->plan.clean)) {
        c->expiry_s = (u32)sim_random_below(rng, 3);
    }
    if (end) c->expiry_s = 0;
    if (c->clean) {
        mq_session_forget(c);
        c->dirty = true;
        mq_total.clean_starts++;
    }
    if (c->expiry_s != MQ_EXPIRY_LONG_S) c->stays = c->firm = false;
    mqtt_property_list list = {.data = room, .capacity = sizeof(room)};
    if (v5) {
        (void)mqtt_property_put_number(&list, MQTT_SESSION_EXPIRY, c->expiry_s);
        if (c->plan.receive_max > 0) (void)mqtt_property_put_number(&list, MQTT_RECEIVE_MAX, c->plan.receive_max);
        if (c->plan.alias_max > 0) {
            (void)mqtt_property_put_number(&list, MQTT_TOPIC_ALIAS_MAX, c->plan.alias_max);
        }
    }
    mqtt_connect connect = {
        .version = c->plan.version,
        .clean_start = c->clean,
        .keep_alive_s = c->plan.keep_alive_s,
        .client_id = {(const u8 *)id, (u32)strlen(id)},
    };
    if (v5) connect.props = mqtt_property_list_end(&list);
    out_put(c, packet, mqtt_write_connect(&connect, packet, sizeof(packet)));
    sim_note(c->field->rig->world, "client %u: CONNECT clean %d expiry %u", c->number, c->clean, c->expiry_s);
}

static void connect_now(mq_client *c) {
    rig *r = c->field->rig;
    u32 where = (u32)sim_random_below(&r->rng, r->setup.workers);
    c->peer = sim_connect(r->world, r->fds[0][where], NULL);
    if (c->peer == NULL) return; // the backlog is full
    const struct sockaddr_storage *addr = sim_peer_address(c->peer);
    char host[INET6_ADDRSTRLEN];
    if (addr->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)addr;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
        snprintf(c->text, sizeof(c->text), "%s:%u", host, ntohs(v4->sin_port));
    } else {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)addr;
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
        snprintf(c->text, sizeof(c->text), "[%s]:%u", host, ntohs(v6->sin6_port));
    }
    sim_note(r->world, "client %u is #%u, %s", c->number, sim_peer_fd(c->peer), c->text);
    c->last_write_ns = now_of(c);
    mq_total.connects++;
    say_connect(c);
}

static void say_ack(mq_client *c, mqtt_type type, u16 id) {
    u8 packet[16];
    mqtt_ack ack = {.packet_id = id};
    out_put(c, packet, mqtt_write_ack(c->plan.version, type, &ack, packet, sizeof(packet)));
    sim_note(c->field->rig->world, "client %u: %s %u", c->number, mqtt_type_name(type), id);
}

static void say_publish(mq_client *c, u32 number, u16 id, bool dup) {
    static u8 payload[SCRATCH_BYTES], packet[2 * SCRATCH_BYTES];
    const mq_message *m = &c->field->messages[number];
    mq_payload_write(number, payload, m->len);
    mqtt_publish publish = {
        .dup = dup,
        .qos = m->qos,
        .packet_id = id,
        .topic = {(const u8 *)filter_texts[m->topic], MQ_TOPIC_BYTES},
        .payload = {payload, m->len},
    };
    out_put(c, packet, mqtt_write_publish(c->plan.version, &publish, packet, sizeof(packet)));
    sim_note(c->field->rig->world, "client %u: PUBLISH message %u qos %u id %u dup %d", c->number, number, m->qos, id,
             dup);
}

static u16 identifier_new(mq_client *c) {
    for (;;) {
        c->last_id++;
        bool used = c->last_id == 0 || c->last_id == c->subscribe_id;
        for (u32 i = 0; i < c->open_count; i++) used = used || c->open[i].id == c->last_id;
        if (!used) return c->last_id;
    }
}

static void publish_new(mq_client *c) {
    sim_random *rng = rng_of(c);
    u8 qos = (u8)sim_random_below(rng, 3);
    if (c->open_count >= MIN(MQ_OPEN_MAX, (u32)c->server_receive_max)) qos = 0;
    u32 most = sim_random_chance(rng, 800) ? MIN(c->plan.payload_max, 100u) : c->plan.payload_max;
    u32 len = (u32)sim_random_range(rng, MQ_PAYLOAD_MIN, most);
    u32 number = mq_message_make(c, (u32)sim_random_below(rng, MQ_TOPICS), qos, len);
    u16 id = qos > 0 ? identifier_new(c) : 0;
    if (qos > 0) c->open[c->open_count++] = (mq_open){.message = number, .id = id};
    say_publish(c, number, id, false);
    c->published++;
}

static void say_subscribe(mq_client *c, u32 filter, bool subscribe) {
    u8 room[64], packet[128];
    mqtt_filter text = {.text = {(const u8 *)filter_texts[filter], MQ_TOPIC_BYTES}};
    if (subscribe) text.qos = (u8)(c->wanted[filter] - 1);
    mqtt_subscribe body = {.packet_id = identifier_new(c), .filters = {.options = subscribe}};
    int result = mqtt_filter_put(&body.filters, room, sizeof(room), &text);
    ASSERT(result == 0);
    out_put(c, packet, mqtt_write_subscribe(c->plan.version, subscribe ? MQTT_SUBSCRIBE : MQTT_UNSUBSCRIBE, &body,
                                            packet, sizeof(packet)));
    c->since[filter] = 0;
    c->subscribe_id = body.packet_id;
    c->subscribing = filter;
    mq_settle(c, MQ_ACKED, MQ_ASKED);
}

static void subscribe_some(mq_client *c) {
    sim_random *rng = rng_of(c);
    if (c->subscribe_id != 0) return;
    for (u32 i = 0; i < MQ_FILTERS; i++) {
        if (c->wanted[i] == 0 || c->since[i] != 0) continue;
        say_subscribe(c, i, true);
        return;
    }
    if (c->phase != MQ_BUSY || !sim_random_chance(rng, c->plan.subscribe)) return;
    u32 filter = (u32)sim_random_below(rng, MQ_FILTERS);
    if (c->wanted[filter] != 0 && sim_random_chance(rng, 300)) {
        c->wanted[filter] = 0;
        say_subscribe(c, filter, false);
    } else {
        c->wanted[filter] = (u8)sim_random_range(rng, 1, 3);
        say_subscribe(c, filter, true);
    }
}

static void say_goodbye(mq_client *c) {
    u8 packet[16];
    mqtt_goodbye goodbye = {0};
    out_put(c, packet, mqtt_write_goodbye(c->plan.version, MQTT_DISCONNECT, &goodbye, packet, sizeof(packet)));
    c->leaving = true;
}

// --- what it hears ---

static void take_connack(mq_client *c, const mqtt_connack *k) {
    rig *r = c->field->rig;
    // A log that takes nothing can not keep that the session before has ended.
    bool refused = c->field->faulty && !k->session_present &&
                   (k->code == MQTT_CONNACK_UNAVAILABLE || k->code == MQTT_REASON_QUOTA_EXCEEDED ||
                    k->code == MQTT_REASON_SERVER_UNAVAILABLE);
    if (refused) {
        mq_total.refused++;
        return; // the connection is closed; `dirty` is set then
    }
    RIG_CHECK(r, !c->up && k->code == 0, "client %u: CONNACK %u", c->number, k->code);
    RIG_CHECK(r, !c->clean || !k->session_present, "client %u: a session after a clean start", c->number);
    RIG_CHECK(r, !c->stays || k->session_present, "client %u: its session is lost", c->number);
    c->server_receive_max = (u16)mqtt_property_number(&k->props, MQTT_RECEIVE_MAX, 65535);
    c->present = k->session_present;
    if (!c->present) mq_session_forget(c);
    c->up = true;
    c->dirty = false;
    c->stays = c->expiry_s == MQ_EXPIRY_LONG_S;
    if (c->phase == MQ_END) {
        say_goodbye(c);
        return;
    }
    if (c->present) mq_total.resumed++;
    for (u32 i = 0; i < c->open_count; i++) {
        const mq_open *o = &c->open[i];
        mq_total.resent++;
        if (o->released) {
            say_ack(c, MQTT_PUBREL, o->id);
            continue;
        }
        c->field->messages[o->message].resent = true;
        say_publish(c, o->message, o->id, true);
    }
}

static void ack_later(mq_client *c, mqtt_type type, u16 id, u32 message) {
    rig *r = c->field->rig;
    RIG_CHECK(r, c->ack_count < MQ_HELD_MAX, "client %u: more than the receive maximum", c->number);
    if (!rig_is_failed(r)) c->acks[c->ack_count++] = (mq_ack){(u8)type, id, message};
}

// An acknowledgement of what it published.
static void take_ack(mq_client *c, u8 type, const mqtt_ack *ack) {
    mq_field *f = c->field;
    rig *r = f->rig;
    u32 at = 0;
    while (at < c->open_count && c->open[at].id != ack->packet_id) at++;
    RIG_CHECK(r, at < c->open_count, "client %u: %s for %u, which is not open", c->number, mqtt_type_name(type),
              ack->packet_id);
    if (rig_is_failed(r)) return;
    mq_open *o = &c->open[at];
    mq_message *m = &f->messages[o->message];
    bool right = type == MQTT_PUBACK ? m->qos == 1 : m->qos == 2 && o->released == (type == MQTT_PUBCOMP);
    RIG_CHECK(r, right, "client %u: %s for message %u", c->number, mqtt_type_name(type), o->message);
    bool gone = type == MQTT_PUBCOMP && ack->reason == MQTT_REASON_PACKET_ID_NOT_FOUND && c->present;
    // The log is full, or failed.
    bool refused = f->faulty && type != MQTT_PUBCOMP && !o->released &&
                   (ack->reason == MQTT_REASON_QUOTA_EXCEEDED || ack->reason == MQTT_REASON_IMPLEMENTATION_SPECIFIC);
    RIG_CHECK(r, ack->reason < MQTT_REASON_UNSPECIFIED || gone || refused, "client %u: %s for %u with reason 0x%02x",
              c->number, mqtt_type_name(type), ack->packet_id, ack->reason);
    mq_total.refused += refused;
    f->refusals_seen += refused;
    m->acked = m->acked || !refused;
    if (type == MQTT_PUBREC && !refused) {
        o->released = true;
        say_ack(c, MQTT_PUBREL, o->id);
        return;
    }
    c->open_count--;
    memmove(o, o + 1, (c->open_count - at) * sizeof(*o));
}

static void take_suback(mq_client *c, u8 type, const mqtt_suback *k) {
    mq_field *f = c->field;
    rig *r = f->rig;
    RIG_CHECK(r, k->packet_id == c->subscribe_id && c->subscribe_id != 0, "client %u: %s for %u", c->number,
              mqtt_type_name(type), k->packet_id);
    if (rig_is_failed(r)) return;
    c->subscribe_id = 0;
    bool refused = f->faulty && k->codes.len == 1 && k->codes.data[0] >= MQTT_REASON_UNSPECIFIED;
    mq_settle(c, MQ_ASKED, refused ? MQ_UNSETTLED : MQ_SETTLED);
    if (refused) {
        mq_total.refused++; // it is asked for again, and says nothing of what is on disk
        return;
    }
    c->firm = c->stays;
    if (type == MQTT_UNSUBACK) return;
    u32 filter = c->subscribing;
    RIG_CHECK(r, k->codes.len == 1 && k->codes.data[0] + 1 == c->wanted[filter], "client %u: SUBACK with 0x%02x",
              c->number, k->codes.data[0]);
    c->since[filter] = ++f->clock;
    sim_note(r->world, "client %u: has %s with QoS %u", c->number, filter_texts[filter], c->wanted[filter] - 1u);
}

static void take_pubrel(mq_client *c, u16 id) {
    RIG_CHECK(c->field->rig, c->taken[id] != 0 || c->present, "client %u: PUBREL for %u, which is not open",
              c->number, id);
    c->taken[id] = 0;
    ack_later(c, MQTT_PUBCOMP, id, 0);
}

static void take_goodbye(const mq_client *c, u8 reason) {
    bool may = reason == MQTT_REASON_KEEP_ALIVE_TIMEOUT || reason == MQTT_REASON_UNSPECIFIED ||
               (reason == MQTT_REASON_SERVER_SHUTTING_DOWN && c->field->disk != NULL) ||
               (reason == MQTT_REASON_QUOTA_EXCEEDED && (c->field->lossy || c->field->faulty)) ||
               (reason == MQTT_REASON_IMPLEMENTATION_SPECIFIC && c->field->faulty);
    RIG_CHECK(c->field->rig, may, "client %u: DISCONNECT with reason %s", c->number, mqtt_reason_name(reason));
}

static void take_packet(mq_client *c, const u8 *data, u32 len) {
    rig *r = c->field->rig;
    mqtt_codec codec = {.version = c->plan.version, .sender = MQTT_FROM_SERVER,
                        .packet_bytes_max = MQTT_PACKET_BYTES_MAX};
    mqtt_packet p;
    mqtt_fault fault = mqtt_parse(&codec, data, len, &p);
    RIG_CHECK(r, fault == MQTT_FAULT_NONE, "client %u: a packet with fault %s", c->number, mqtt_fault_name(fault));
    RIG_CHECK(r, c->up || p.type == MQTT_CONNACK, "client %u: %s in front of CONNACK", c->number,
              mqtt_type_name(p.type));
    if (rig_is_failed(r)) return;
    switch (p.type) {
        case MQTT_CONNACK: take_connack(c, &p.connack); break;
        case MQTT_PUBLISH:
            mq_check_publish(c, &p.publish);
            if (p.publish.qos > 0 && !rig_is_failed(r)) {
                u32 message;
                memcpy(&message, p.publish.payload.data + 4, 4);
                ack_later(c, p.publish.qos == 1 ? MQTT_PUBACK : MQTT_PUBREC, p.publish.packet_id, message);
            }
            break;
        case MQTT_PUBREL: take_pubrel(c, p.ack.packet_id); break;
        case MQTT_PUBACK:
        case MQTT_PUBREC:
        case MQTT_PUBCOMP: take_ack(c, p.type, &p.ack); break;
        case MQTT_SUBACK:
        case MQTT_UNSUBACK: take_suback(c, p.type, &p.suback); break;
        case MQTT_PINGRESP: break;
        case MQTT_DISCONNECT: take_goodbye(c, p.goodbye.reason); break;
        default: RIG_CHECK(r, false, "client %u: %s from the server", c->number, mqtt_type_name(p.type));
    }
}

static void take_bytes(mq_client *c, const u8 *data, size_t len) {
    rig *r = c->field->rig;
    if (c->in_len + len > c->in_size) {
        c->in_size = 2 * (c->in_len + len);
        c->in = realloc(c->in, c->in_size);
        ASSERT(c->in != NULL);
    }
    memcpy(c->in + c->in_len, data, len);
    c->in_len += len;
    mqtt_codec codec = {.version = c->plan.version, .sender = MQTT_FROM_SERVER,
                        .packet_bytes_max = MQTT_PACKET_BYTES_MAX};
    size_t at = 0;
    while (at < c->in_len && !rig_is_failed(r)) {
        u32 bytes;
        mqtt_fault fault = mqtt_packet_size(&codec, c->in + at, (u32)(c->in_len - at), &bytes);
        RIG_CHECK(r, fault == MQTT_FAULT_NONE, "client %u: a packet begins with fault %s", c->number,
                  mqtt_fault_name(fault));
        if (bytes == 0 || bytes > c->in_len - at) break;
        take_packet(c, c->in + at, bytes);
        at += bytes;
    }
    memmove(c->in, c->in + at, c->in_len - at);
    c->in_len -= at;
}

// --- acting ---

static bool read_some(mq_client *c) {
    u8 data[8192];
    u32 most = c->phase == MQ_BUSY ? c->plan.read_max : sizeof(data);
    ssize_t n = sim_peer_read(c->peer, data, (size_t)sim_random_range(rng_of(c), 1, MIN(most, sizeof(data))));
    if (n == -EAGAIN) return false;
    if (n > 0) take_bytes(c, data, (size_t)n);
    else connection_lose(c, LOSS_CLOSE);
    return true;
}

static bool write_some(mq_client *c) {
    size_t left = c->out_len - c->out_at;
    if (left == 0) return false;
    size_t most = c->phase == MQ_BUSY ? c->plan.write_max : 65536;
    ssize_t n = sim_peer_write(c->peer, c->out + c->out_at, (size_t)sim_random_range(rng_of(c), 1, MIN(left, most)));
    if (n == -EAGAIN) return false;
    if (n < 0) {
        connection_lose(c, LOSS_CLOSE);
        return true;
    }
    c->out_at += (size_t)n;
    c->last_write_ns = now_of(c);
    return true;
}

// Acknowledges in the order of what came (5.0 section 4.6), some now and some later.
static bool ack_some(mq_client *c) {
    u32 count = c->phase == MQ_BUSY ? (u32)sim_random_below(rng_of(c), c->ack_count + 1) : c->ack_count;
    for (u32 i = 0; i < count; i++) {
        const mq_ack *a = &c->acks[i];
        if (a->type != MQTT_PUBREC) mq_check_done(c, a->id);
        say_ack(c, a->type, a->id);
        if (a->type == MQTT_PUBACK && c->settled[a->message] == MQ_UNSETTLED) c->settled[a->message] = MQ_ACKED;
    }
    c->ack_count -= count;
    memmove(c->acks, c->acks + count, c->ack_count * sizeof(*c->acks));
    return count > 0;
}

static void drop(mq_client *c) {
    sim_random *rng = rng_of(c);
    switch (sim_random_below(rng, 5)) {
        case 0:
            mq_total.take_overs++;
            connection_lose(c, LOSS_GHOST);
            break;
        case 1:
            mq_total.resets++;
            connection_lose(c, LOSS_RESET);
            break;
        case 2: connection_lose(c, LOSS_CLOSE); break;
        case 3: { // the rest of what was to be said is cut somewhere
            mq_total.half_packets++;
            u8 head[3] = {MQTT_PUBLISH << 4, 20, 0};
            if (c->out_at == c->out_len) out_put(c, head, (int)sizeof(head));
            c->out_len = c->out_at + (size_t)sim_random_range(rng, 1, c->out_len - c->out_at);
            c->leaving = true;
            break;
        }
        default:
            mq_total.goodbyes++;
            say_goodbye(c);
    }
}

static void speak(mq_client *c) {
    sim_random *rng = rng_of(c);
    bool busy = c->phase == MQ_BUSY;
    (void)ack_some(c);
    subscribe_some(c);
    size_t waits = c->out_len - c->out_at;
    bool room = waits < 2 * (size_t)c->plan.payload_max + 200;
    if (busy && room && c->published < c->plan.messages && sim_random_chance(rng, 500)) publish_new(c);
    u64 silent = now_of(c) - c->last_write_ns;
    if (waits == 0 && c->plan.keep_alive_s > 0 && silent > c->plan.keep_alive_s * NS_PER_S / 2) {
        u8 packet[MQTT_PING_BYTES];
        out_put(c, packet, mqtt_write_ping(MQTT_PINGREQ, packet, sizeof(packet)));
    }
    if (!busy) return;
    if (sim_random_chance(rng, c->plan.nap)) {
        c->nap_until_ns = now_of(c) + sim_random_below(rng, 8 * NS_PER_S);
    } else if (sim_random_chance(rng, c->plan.drop)) {
        drop(c);
    }
}

static void ghost_act(mq_client *c) {
    u8 data[4096];
    ssize_t n = sim_peer_read(c->ghost, data, sizeof(data));
    bool over = n == 0 || (n < 0 && n != -EAGAIN);
    if (over || now_of(c) >= c->ghost_until_ns) ghost_close(c);
}

// Whether something was done, other than looking.
static bool act(mq_client *c) {
    u64 now = now_of(c);
    sim_random *rng = rng_of(c);
    if (c->ghost != NULL) ghost_act(c);
    if (c->peer == NULL) {
        bool ended = c->phase == MQ_END && c->connect_ns == UINT64_MAX;
        if (ended && c->ghost == NULL) c->phase = MQ_GONE;
        if (ended || now < c->connect_ns) return false;
        connect_now(c);
        return c->peer != NULL;
    }
    if (now < c->nap_until_ns) return false;
    bool worked = sim_random_chance(rng, 700) && read_some(c);
    if (c->peer != NULL && c->up && !c->leaving) speak(c);
    if (c->peer != NULL && sim_random_chance(rng, 700)) worked = write_some(c) || worked;
    if (c->peer == NULL || !c->leaving || c->out_at < c->out_len) return worked;
    sim_peer_shutdown(c->peer);
    connection_lose(c, LOSS_GHOST);
    if (c->phase == MQ_END) c->connect_ns = UINT64_MAX;
    return true;
}

void mq_client_act(mq_client *c) {
    u64 now = now_of(c), think = c->phase == MQ_BUSY ? c->plan.think_ns_max : 0;
    if (act(c)) {
        c->next_ns = now + sim_random_below(rng_of(c), think + 1);
        return;
    }
    u64 longest = MAX(think, c->phase == MQ_BUSY ? 20 * NS_PER_MS : LOOK_NS_MAX);
    c->next_ns = now + sim_random_range(rng_of(c), longest / 8 + 1, longest + 1);
    if (c->peer != NULL && now < c->nap_until_ns) c->next_ns = MIN(c->nap_until_ns, now + NS_PER_S);
    if (c->peer == NULL && c->ghost == NULL && c->connect_ns != UINT64_MAX) c->next_ns = MAX(now + 1, c->connect_ns);
}

void mq_client_calm(mq_client *c) {
    if (c->phase != MQ_BUSY) return;
    c->phase = MQ_CALM;
    c->nap_until_ns = 0;
    c->next_ns = now_of(c);
}

void mq_client_end(mq_client *c) {
    if (c->peer != NULL) connection_lose(c, LOSS_CLOSE);
    c->phase = MQ_END;
    c->next_ns = MAX(now_of(c), c->connect_ns);
}

bool mq_client_is_quiet(const mq_client *c) {
    if (!c->up || c->leaving || c->open_count > 0 || c->ack_count > 0 || c->subscribe_id != 0) return false;
    for (u32 i = 0; i < MQ_FILTERS; i++) {
        if (c->wanted[i] != 0 && c->since[i] == 0) return false;
    }
    return c->out_at == c->out_len && c->window == 0;
}
