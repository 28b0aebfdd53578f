// SPDX-License-Identifier: Apache-2.0
// mqtt_script.c: see mqtt_script.h.
#include "mqtt_script.h"

#include <errno.h>
#include <string.h>

#include "proto/mqtt_property.h"
#include "proto/mqtt_write.h"
#include "scenario.h"
#include "sim_wrap.h"

#define WANT_NS (30 * NS_PER_S)
#define LOOK_NS NS_PER_MS

bool script_is_over(const rig *r) {
    return rig_is_failed(r) || disk_sim_is_cut(r->setup.disk);
}

void script_turn(rig *r, u64 ns) {
    u64 end = sim_now_ns(r->world) + ns;
    while (!script_is_over(r) && sim_now_ns(r->world) < end) rig_turn(r, end - sim_now_ns(r->world));
}

static void put(script_client *c, const u8 *data, int len) {
    ASSERT(len > 0);
    for (int at = 0; at < len && !script_is_over(c->r);) {
        ssize_t n = sim_peer_write(c->peer, data + at, (size_t)(len - at));
        RIG_CHECK(c->r, n >= 0 || n == -EAGAIN, "%s: its connection has gone", c->id);
        if (rig_is_failed(c->r)) return;
        if (n > 0) at += (int)n;
        else script_turn(c->r, LOOK_NS);
    }
}

void script_connect(script_client *c, bool clean, u32 expiry_s) {
    rig *r = c->r;
    u8 room[32], packet[128];
    mqtt_property_list list = {.data = room, .capacity = sizeof(room)};
    (void)mqtt_property_put_number(&list, MQTT_SESSION_EXPIRY, expiry_s);
    mqtt_connect k = {.version = MQTT_5, .clean_start = clean, .client_id = {(const u8 *)c->id, (u32)strlen(c->id)}};
    k.props = mqtt_property_list_end(&list);
    if (c->will_payload != NULL) {
        k.has_will = true;
        k.will_qos = 1;
        k.will_topic = (mqtt_bytes){(const u8 *)c->will_topic, (u32)strlen(c->will_topic)};
        k.will_payload = (mqtt_bytes){(const u8 *)c->will_payload, (u32)strlen(c->will_payload)};
    }
    if (script_is_over(r)) return;
    c->peer = sim_connect(r->world, r->fds[0][sim_random_below(&r->rng, r->setup.workers)], NULL);
    c->in_len = c->in_used = 0;
    RIG_CHECK(r, c->peer != NULL, "%s: nobody listens", c->id);
    if (c->peer == NULL) return;
    sim_note(r->world, "%s is #%u", c->id, sim_peer_fd(c->peer));
    put(c, packet, mqtt_write_connect(&k, packet, sizeof(packet)));
}

void script_lose(script_client *c, script_loss how) {
    if (c->peer == NULL) return;
    if (how == SCRIPT_RESET) sim_peer_reset(c->peer);
    else sim_peer_close(c->peer);
    c->peer = NULL;
}

void script_publish(script_client *c, const char *topic, u8 qos, u16 id, bool dup, bool retain, const char *payload) {
    u8 packet[256];
    mqtt_publish p = {.dup = dup, .qos = qos, .retain = retain, .packet_id = id,
                      .topic = {(const u8 *)topic, (u32)strlen(topic)},
                      .payload = {(const u8 *)payload, (u32)strlen(payload)}};
    put(c, packet, mqtt_write_publish(MQTT_5, &p, packet, sizeof(packet)));
}

void script_publish_expiring(script_client *c, const char *topic, u16 id, bool retain, u32 expiry_s,
                             const char *payload) {
    u8 packet[256], room[16];
    mqtt_property_list props = {.data = room, .capacity = sizeof(room)};
    int result = mqtt_property_put_number(&props, MQTT_MESSAGE_EXPIRY, expiry_s);
    ASSERT(result == 0);
    mqtt_publish p = {.qos = 1, .retain = retain, .packet_id = id, .topic = {(const u8 *)topic, (u32)strlen(topic)},
                      .payload = {(const u8 *)payload, (u32)strlen(payload)}, .props = mqtt_property_list_end(&props)};
    put(c, packet, mqtt_write_publish(MQTT_5, &p, packet, sizeof(packet)));
}

static void filter_send(script_client *c, mqtt_type type, const char *filter, u8 qos) {
    u8 room[64], packet[128];
    mqtt_filter text = {.text = {(const u8 *)filter, (u32)strlen(filter)}, .qos = qos};
    mqtt_subscribe body = {.packet_id = 1, .filters = {.options = type == MQTT_SUBSCRIBE}};
    int result = mqtt_filter_put(&body.filters, room, sizeof(room), &text);
    ASSERT(result == 0);
    put(c, packet, mqtt_write_subscribe(MQTT_5, type, &body, packet, sizeof(packet)));
}

void script_subscribe(script_client *c, const char *filter, u8 qos) {
    filter_send(c, MQTT_SUBSCRIBE, filter, qos);
}

void script_unsubscribe(script_client *c, const char *filter) {
    filter_send(c, MQTT_UNSUBSCRIBE, filter, 0);
}

void script_ack(script_client *c, mqtt_type type, u16 id) {
    u8 packet[16];
    mqtt_ack ack = {.packet_id = id};
    put(c, packet, mqtt_write_ack(MQTT_5, type, &ack, packet, sizeof(packet)));
}

bool script_take(script_client *c, mqtt_packet *p) {
    if (c->peer == NULL) return false;
    mqtt_codec codec = {.version = MQTT_5, .sender = MQTT_FROM_SERVER, .packet_bytes_max = MQTT_PACKET_BYTES_MAX};
    memmove(c->in, c->in + c->in_used, c->in_len - c->in_used);
    c->in_len -= c->in_used;
    c->in_used = 0;
    ssize_t n = sim_peer_read(c->peer, c->in + c->in_len, sizeof(c->in) - c->in_len);
    if (n > 0) c->in_len += (size_t)n;
    u32 bytes = 0;
    mqtt_fault fault = mqtt_packet_size(&codec, c->in, (u32)c->in_len, &bytes);
    RIG_CHECK(c->r, fault == MQTT_FAULT_NONE, "%s: a packet begins with fault %s", c->id, mqtt_fault_name(fault));
    if (bytes == 0 || bytes > c->in_len || rig_is_failed(c->r)) return false;
    fault = mqtt_parse(&codec, c->in, bytes, p);
    RIG_CHECK(c->r, fault == MQTT_FAULT_NONE, "%s: a packet with fault %s", c->id, mqtt_fault_name(fault));
    c->in_used = bytes;
    return !rig_is_failed(c->r);
}

void script_want(script_client *c, mqtt_type type, mqtt_packet *p) {
    u64 end = sim_now_ns(c->r->world) + WANT_NS;
    memset(p, 0, sizeof(*p));
    while (!script_is_over(c->r) && !script_take(c, p)) {
        RIG_CHECK(c->r, sim_now_ns(c->r->world) < end, "%s: no %s", c->id, mqtt_type_name(type));
        script_turn(c->r, LOOK_NS);
    }
    if (script_is_over(c->r)) p->type = SCRIPT_ANY; // what came at that moment says nothing
    bool right = type == SCRIPT_ANY || p->type == type || script_is_over(c->r);
    RIG_CHECK(c->r, right, "%s: %s instead of %s", c->id, mqtt_type_name(p->type), mqtt_type_name(type));
}

void script_want_nothing(script_client *c, u64 ns) {
    mqtt_packet p;
    u64 end = sim_now_ns(c->r->world) + ns;
    while (!rig_is_failed(c->r) && sim_now_ns(c->r->world) < end) {
        bool came = script_take(c, &p);
        RIG_CHECK(c->r, !came, "%s: %s, which it must not have yet", c->id, mqtt_type_name(p.type));
        script_turn(c->r, LOOK_NS);
    }
}

void script_goodbye(script_client *c) {
    u8 packet[16];
    mqtt_goodbye goodbye = {0};
    put(c, packet, mqtt_write_goodbye(MQTT_5, MQTT_DISCONNECT, &goodbye, packet, sizeof(packet)));
    script_turn(c->r, NS_PER_S);
    script_lose(c, SCRIPT_CLOSE);
}

void script_end(script_client *c) {
    mqtt_packet p;
    script_lose(c, SCRIPT_CLOSE);
    if (rig_is_failed(c->r)) return;
    script_connect(c, true, 0);
    script_want(c, MQTT_CONNACK, &p);
    if (rig_is_failed(c->r)) return;
    script_goodbye(c);
}

// --- the world ---

static void listener_make(rig_setup *setup) {
    listener_config *l = &setup->listeners[setup->listener_count++];
    snprintf(l->name, sizeof(l->name), "mqtt");
    l->protocol = PROTOCOL_MQTT;
    l->max_packet = 1000;
    l->out_bytes_high = 4096;
    l->out_bytes_max = 8192;
    l->anonymous = true;
    l->receive_max = l->inflight_max = 20;
    l->max_qos = 2;
    l->retain_available = l->wildcard_available = l->shared_available = l->subscription_ids_available = true;
    l->max_subscriptions = 10;
    l->max_queued_bytes = 1u << 20;
    l->max_queued_messages = 1000;
}

void script_setup(mq_setup *chosen) {
    rig_setup *setup = &chosen->setup;
    setup->sim.faults = (sim_faults){0};
    setup->stalls = false;
    listener_make(setup);
    disk_sim_config conf = {.seed = sim_random_next(&chosen->rng), .torn_per_mille = 100};
    setup->disk = disk_sim_create(&conf);
    ASSERT(setup->disk != NULL);
    setup->log_bytes = 16u << 20;
    sim_wall_set(0);
}

void script_close(mq_setup *chosen, rig *r, char *failure, size_t failure_bytes) {
    if (!rig_is_failed(r)) rig_run_until_empty(r, 60 * NS_PER_S);
    scenario_close(r, failure, failure_bytes);
    disk_sim_destroy(chosen->setup.disk);
}
