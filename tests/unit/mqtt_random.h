// SPDX-License-Identifier: Apache-2.0
// mqtt_random.h: valid packets of every type, version and sender from a seed. Properties and reason
// codes are drawn from the codec's tables (which test_mqtt_property.c checks against others), so
// everything a table allows is tried.
#ifndef SLUICE_TESTS_MQTT_RANDOM_H
#define SLUICE_TESTS_MQTT_RANDOM_H

#include <stdlib.h>
#include <string.h>

#include "proto/mqtt_packet.h"
#include "proto/mqtt_property.h"
#include "proto/mqtt_write.h"
#include "random.h"

#define RANDOM_LIST_BYTES 2048u

// Memory of one packet's strings and lists.
typedef struct mqtt_random {
    u64 state;
    mqtt_version version;
    mqtt_sender sender;
    u8 props[RANDOM_LIST_BYTES], will_props[RANDOM_LIST_BYTES], filters[RANDOM_LIST_BYTES];
    u8 codes[32];
    u8 text[64][300];
    u32 texts;
} mqtt_random;

static inline u32 random_of(mqtt_random *r, u32 bound) {
    return random_below(&r->state, bound);
}

// Text of len bytes without wildcards; two-byte characters among them.
static inline mqtt_bytes random_text(mqtt_random *r, u32 len_min, u32 len_max) {
    static const char letters[] = "abcXYZ019/-_ $";
    u8 *text = r->text[r->texts++ % ARRAY_LEN(r->text)];
    u32 len = len_min + random_of(r, len_max - len_min + 1);
    for (u32 i = 0; i < len; i++) {
        if (i + 1 < len && random_of(r, 10) == 0) {
            text[i++] = 0xc3;
            text[i] = (u8)(0x80 + random_of(r, 64));
        } else {
            text[i] = (u8)letters[random_of(r, sizeof(letters) - 1)];
        }
    }
    return (mqtt_bytes){text, len};
}

static inline mqtt_bytes random_binary(mqtt_random *r, u32 len_max) {
    u8 *data = r->text[r->texts++ % ARRAY_LEN(r->text)];
    u32 len = random_of(r, len_max + 1);
    for (u32 i = 0; i < len; i++) data[i] = (u8)random_next(&r->state);
    return (mqtt_bytes){data, len};
}

// Mostly short, sometimes long; never more levels than the limit.
static inline mqtt_bytes random_topic(mqtt_random *r) {
    return random_of(r, 20) == 0 ? random_text(r, 1, 120) : random_text(r, 1, 20);
}

static inline u32 random_number(mqtt_random *r, const mqtt_property_rule *rule) {
    static const u32 edges[] = {1, 2, 127, 128, 255, 256, 16383, 16384, 65535};
    if (rule->check == MQTT_CHECK_BOOL) return random_of(r, 2);
    u32 value = edges[random_of(r, ARRAY_LEN(edges))];
    if (rule->type == MQTT_PROPERTY_BYTE) return value & 0xff;
    if (rule->type == MQTT_PROPERTY_U16) return value;
    bool full = random_of(r, 4) == 0;
    if (rule->type == MQTT_PROPERTY_VARINT) return full ? MQTT_VARINT_MAX : value;
    return full ? UINT32_MAX : value;
}

static inline void random_property(mqtt_random *r, u32 id, mqtt_property_list *list) {
    const mqtt_property_rule *rule = mqtt_property_rule_of(id);
    int result;
    if (rule->type == MQTT_PROPERTY_PAIR) {
        mqtt_bytes key = random_text(r, 0, 12);
        result = mqtt_property_put_pair(list, key, random_text(r, 0, 40));
    } else if (rule->type == MQTT_PROPERTY_STRING) {
        result = mqtt_property_put_bytes(list, id, random_text(r, 1, 40));
    } else if (rule->type == MQTT_PROPERTY_BINARY) {
        result = mqtt_property_put_bytes(list, id, random_binary(r, 40));
    } else {
        result = mqtt_property_put_number(list, id, random_number(r, rule));
    }
    ASSERT(result == 0);
}

static inline mqtt_properties random_props(mqtt_random *r, u32 type, u8 *memory) {
    mqtt_property_list list = {memory, RANDOM_LIST_BYTES, 0, 0};
    u32 wanted = r->version == MQTT_5 ? random_of(r, 9) : 0;
    u16 place = MQTT_BIT(type);
    if (type == MQTT_AUTH) random_property(r, MQTT_AUTH_METHOD, &list);
    while (wanted > 0) {
        u32 id = random_of(r, MQTT_PROPERTY_IDS);
        const mqtt_property_rule *rule = mqtt_property_rule_of(id);
        if (rule == NULL || (rule->places & place) == 0) continue;
        u16 other_side = r->sender == MQTT_FROM_CLIENT ? rule->server_only : rule->client_only;
        bool again = (list.present >> id & 1) != 0 && (rule->repeats & place) == 0;
        bool method = (list.present >> MQTT_AUTH_METHOD & 1) != 0;
        wanted--;
        if ((other_side & place) != 0 || again || (id == MQTT_AUTH_DATA && !method)) continue;
        random_property(r, id, &list);
    }
    mqtt_properties props = mqtt_property_list_end(&list);
    return props.len > 0 ? props : (mqtt_properties){0};
}

static inline u8 random_reason(mqtt_random *r, u32 type) {
    for (;;) {
        u32 code = random_of(r, 3) == 0 ? 0 : random_of(r, 256);
        if (mqtt_reason_allowed(code, type, r->sender)) return (u8)code;
    }
}

static inline void random_connect(mqtt_random *r, mqtt_connect *c) {
    *c = (mqtt_connect){.version = (u8)r->version, .clean_start = random_of(r, 2)};
    c->bridge = r->version != MQTT_5 && random_of(r, 8) == 0;
    c->keep_alive_s = (u16)random_next(&r->state);
    c->props = random_props(r, MQTT_CONNECT, r->props);
    bool may_be_empty = r->version == MQTT_5 || (r->version == MQTT_3_1_1 && c->clean_start);
    c->client_id = random_text(r, may_be_empty ? 0 : 1, 23);
    if (random_of(r, 2)) {
        c->has_will = true;
        c->will_qos = (u8)random_of(r, 3);
        c->will_retain = random_of(r, 2);
        c->will_props = random_props(r, MQTT_WILL, r->will_props);
        c->will_topic = random_topic(r);
        c->will_payload = random_binary(r, 200);
    }
    if (random_of(r, 2)) c->user_name = random_text(r, 0, 30);
    if (random_of(r, 2) && (c->user_name.data != NULL || r->version == MQTT_5)) {
        c->password = random_binary(r, 30);
    }
}

static inline void random_publish(mqtt_random *r, mqtt_publish *p) {
    *p = (mqtt_publish){.qos = (u8)random_of(r, 3), .retain = random_of(r, 2)};
    p->dup = p->qos > 0 && random_of(r, 2);
    p->packet_id = p->qos > 0 ? (u16)(1 + random_of(r, 65535)) : 0;
    p->props = random_props(r, MQTT_PUBLISH, r->props);
    p->topic_alias = (u16)mqtt_property_number(&p->props, MQTT_TOPIC_ALIAS, 0);
    p->topic = random_topic(r);
    if (p->topic_alias != 0 && random_of(r, 2)) p->topic.len = 0;
    p->payload = random_binary(r, 299);
}

static inline void random_subscribe(mqtt_random *r, u32 type, mqtt_subscribe *s) {
    *s = (mqtt_subscribe){.packet_id = (u16)(1 + random_of(r, 65535))};
    s->props = random_props(r, type, r->props);
    s->filters.options = type == MQTT_SUBSCRIBE;
    static const char *const filters[] = {"#", "+", "a/+/b", "/", "$SYS/#", "+/+/#", "$share/g/#",
                                          "$share/some group/a/+"};
    for (u32 count = 1 + random_of(r, 5); count > 0; count--) {
        mqtt_filter f = {.text = random_topic(r)};
        u32 pick = random_of(r, 2 * ARRAY_LEN(filters));
        if (pick < ARRAY_LEN(filters)) {
            f.text = (mqtt_bytes){(const u8 *)filters[pick], (u32)strlen(filters[pick])};
        }
        f.qos = (u8)random_of(r, 3);
        if (r->version == MQTT_5) {
            f.retain_as_published = random_of(r, 2);
            f.retain_handling = (u8)random_of(r, 3);
            f.no_local = f.text.data[0] != '$' && random_of(r, 2);
        }
        ASSERT(mqtt_filter_put(&s->filters, r->filters, RANDOM_LIST_BYTES, &f) == 0);
    }
}

static inline void random_suback(mqtt_random *r, u32 type, mqtt_suback *s) {
    static const u8 old[] = {0, 1, 2, 0x80};
    *s = (mqtt_suback){.packet_id = (u16)(1 + random_of(r, 65535))};
    s->props = random_props(r, type, r->props);
    if (type == MQTT_UNSUBACK && r->version != MQTT_5) return;
    s->codes = (mqtt_bytes){r->codes, 1 + random_of(r, sizeof(r->codes))};
    for (u32 i = 0; i < s->codes.len; i++) {
        r->codes[i] = r->version == MQTT_5 ? random_reason(r, type) : old[random_of(r, 4)];
    }
}

// Draws type, version and sender, and all that is in the packet. Sets version and sender in r.
static inline mqtt_packet random_packet(mqtt_random *r) {
    static const u8 by_client[] = {1, 3, 4, 5, 6, 7, 8, 10, 12, 14, 15};
    static const u8 by_server[] = {2, 3, 4, 5, 6, 7, 9, 11, 13, 14, 15};
    mqtt_packet p = {0};
    r->version = (mqtt_version)(3 + random_of(r, 3));
    r->sender = (mqtt_sender)random_of(r, 2);
    do {
        u32 pick = random_of(r, ARRAY_LEN(by_client));
        p.type = r->sender == MQTT_FROM_CLIENT ? by_client[pick] : by_server[pick];
    } while (r->version != MQTT_5 && (p.type == MQTT_AUTH || (p.type == MQTT_DISCONNECT &&
                                                             r->sender == MQTT_FROM_SERVER)));
    p.version = (u8)r->version;
    r->texts = 0;
    switch (p.type) {
        case MQTT_CONNECT: random_connect(r, &p.connect); break;
        case MQTT_CONNACK:
            p.connack.code = r->version == MQTT_5 ? random_reason(r, p.type) : (u8)random_of(r, 6);
            p.connack.session_present = p.connack.code == 0 && p.version != 3 && random_of(r, 2);
            p.connack.props = random_props(r, p.type, r->props);
            break;
        case MQTT_PUBLISH: random_publish(r, &p.publish); break;
        case MQTT_SUBSCRIBE: case MQTT_UNSUBSCRIBE:
            random_subscribe(r, p.type, &p.subscribe);
            break;
        case MQTT_SUBACK: case MQTT_UNSUBACK: random_suback(r, p.type, &p.suback); break;
        case MQTT_PINGREQ: case MQTT_PINGRESP: break;
        case MQTT_DISCONNECT: case MQTT_AUTH:
            p.goodbye.reason = r->version == MQTT_5 ? random_reason(r, p.type) : 0;
            p.goodbye.props = random_props(r, p.type, r->props);
            break;
        default:
            p.ack.packet_id = (u16)(1 + random_of(r, 65535));
            p.ack.reason = r->version == MQTT_5 ? random_reason(r, p.type) : 0;
            p.ack.props = random_props(r, p.type, r->props);
    }
    return p;
}

// How the bytes of that packet are to be read.
static inline mqtt_codec random_codec(const mqtt_random *r, const mqtt_packet *p) {
    u8 version = p->type == MQTT_CONNECT ? MQTT_UNKNOWN : (u8)r->version;
    return (mqtt_codec){version, (u8)r->sender, 0, MQTT_PACKET_BYTES_MAX};
}

#endif
