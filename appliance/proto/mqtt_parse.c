// SPDX-License-Identifier: Apache-2.0
// mqtt_parse.c: one whole packet: the fixed header again, the family's parser, the end. Also the
// readers of the common data types, and the small packets: acknowledgements, DISCONNECT, AUTH and
// pings. Behind mqtt_size.c in the path; mqtt_parse_connect.c, _publish.c and _subscribe.c are the
// other families.
#include "broker/topic.h"
#include "proto/mqtt_property.h"
#include "proto/mqtt_read.h"
#include "proto/mqtt_text.h"

// --- data types (5.0 section 1.5) ---

u32 mqtt_read_varint(mqtt_reader *r) {
    u32 value;
    mqtt_fault fault = mqtt_varint_read(&r->in, &value);
    if (fault != MQTT_FAULT_NONE) mqtt_reader_fail(r, fault);
    return value;
}

mqtt_bytes mqtt_read_binary(mqtt_reader *r) {
    u32 len = cursor_u16(&r->in);
    const u8 *data = cursor_take(&r->in, len);
    return (mqtt_bytes){data, data == NULL ? 0 : len};
}

void mqtt_check_string(mqtt_reader *r, mqtt_bytes text) {
    if (!utf8_is_valid((const char *)text.data, text.len)) {
        mqtt_reader_fail(r, MQTT_FAULT_UTF8);
    } else if ((r->codec->flags & MQTT_REFUSE_CONTROLS) != 0 && mqtt_text_has_control(text)) {
        mqtt_reader_fail(r, MQTT_FAULT_CONTROL);
    }
}

mqtt_bytes mqtt_read_string(mqtt_reader *r) {
    mqtt_bytes text = mqtt_read_binary(r);
    mqtt_check_string(r, text);
    return text;
}

void mqtt_check_topic(mqtt_reader *r, mqtt_bytes topic) {
    bool any_character = (r->codec->flags & MQTT_REFUSE_CONTROLS) == 0;
    if (LIKELY(any_character && mqtt_topic_is_plain(topic))) return;
    mqtt_check_string(r, topic);
    if (topic.len == 0) mqtt_reader_fail(r, MQTT_FAULT_TOPIC_EMPTY);
    if (mqtt_text_has_wildcard(topic)) mqtt_reader_fail(r, MQTT_FAULT_TOPIC_WILDCARD);
    if (mqtt_text_levels(topic) > LIMIT_TOPIC_LEVELS) mqtt_reader_fail(r, MQTT_FAULT_TOPIC_LEVELS);
}

u16 mqtt_read_packet_id(mqtt_reader *r) {
    u16 id = cursor_u16(&r->in);
    if (id == 0) mqtt_reader_fail(r, MQTT_FAULT_PACKET_ID_ZERO);
    return id;
}

// --- small packets ---

static void reason_check(mqtt_reader *r, u8 code, u8 type) {
    if (!mqtt_reason_allowed(code, type, r->codec->sender)) mqtt_reader_fail(r, MQTT_FAULT_REASON);
}

// PUBACK, PUBREC, PUBREL, PUBCOMP: reason code and property length may be left out from the end
// (5.0 section 3.4.2.1, 3.4.2.2.1).
void mqtt_read_ack(mqtt_reader *r, mqtt_packet *out) {
    mqtt_ack *ack = &out->ack;
    *ack = (mqtt_ack){.packet_id = mqtt_read_packet_id(r)};
    if (r->version != MQTT_5 || cursor_left(&r->in) == 0) return;
    ack->reason = cursor_u8(&r->in);
    reason_check(r, ack->reason, out->type);
    if (cursor_left(&r->in) > 0) ack->props = mqtt_read_properties(r, out->type);
}

// DISCONNECT and AUTH. Both may be empty in 5.0. A DISCONNECT may end behind its reason code
// (section 3.14.2.2.1), an AUTH may not (section 3.15.2.1), and one that is not empty must name
// its method.
void mqtt_read_goodbye(mqtt_reader *r, mqtt_packet *out) {
    mqtt_goodbye *goodbye = &out->goodbye;
    *goodbye = (mqtt_goodbye){.reason = MQTT_REASON_SUCCESS};
    if (r->version != MQTT_5) return;
    bool empty = cursor_left(&r->in) == 0;
    if (!empty) goodbye->reason = cursor_u8(&r->in);
    reason_check(r, goodbye->reason, out->type);
    if (empty || (out->type == MQTT_DISCONNECT && cursor_left(&r->in) == 0)) return;
    goodbye->props = mqtt_read_properties(r, out->type);
    if (out->type == MQTT_AUTH && !mqtt_property_present(&goodbye->props, MQTT_AUTH_METHOD)) {
        mqtt_reader_fail(r, MQTT_FAULT_AUTH_METHOD_MISSING);
    }
}

static void read_nothing(mqtt_reader *r, mqtt_packet *out) {
    (void)r;
    (void)out;
}

typedef void family_reader(mqtt_reader *r, mqtt_packet *out);
static family_reader *const families[16] = {
    [MQTT_CONNECT] = mqtt_read_connect,
    [MQTT_CONNACK] = mqtt_read_connack,
    [MQTT_PUBLISH] = mqtt_read_publish,
    [MQTT_PUBACK] = mqtt_read_ack,
    [MQTT_PUBREC] = mqtt_read_ack,
    [MQTT_PUBREL] = mqtt_read_ack,
    [MQTT_PUBCOMP] = mqtt_read_ack,
    [MQTT_SUBSCRIBE] = mqtt_read_subscribe,
    [MQTT_SUBACK] = mqtt_read_suback,
    [MQTT_UNSUBSCRIBE] = mqtt_read_subscribe,
    [MQTT_UNSUBACK] = mqtt_read_suback,
    [MQTT_PINGREQ] = read_nothing,
    [MQTT_PINGRESP] = read_nothing,
    [MQTT_DISCONNECT] = mqtt_read_goodbye,
    [MQTT_AUTH] = mqtt_read_goodbye,
};

// The fixed header of a packet that has been cut already.
static void read_head(mqtt_reader *r, mqtt_packet *out, u32 len) {
    u8 first = cursor_u8(&r->in);
    out->type = first >> 4;
    r->flags = first & 15;
    mqtt_fault fault = r->in.overrun ? MQTT_FAULT_TRUNCATED : mqtt_head_check(r->codec, first);
    if (fault != MQTT_FAULT_NONE) {
        mqtt_reader_fail(r, fault);
        return;
    }
    u32 remaining;
    fault = mqtt_varint_read(&r->in, &remaining);
    r->length_not_minimal = fault == MQTT_FAULT_VARINT_NOT_MINIMAL;
    if (r->length_not_minimal && r->version != MQTT_5) fault = MQTT_FAULT_NONE;
    if (fault != MQTT_FAULT_NONE) mqtt_reader_fail(r, fault);
    u32 size = len - cursor_left(&r->in) + remaining;
    if (size > r->codec->packet_bytes_max) mqtt_reader_fail(r, MQTT_FAULT_TOO_LARGE);
    if (remaining > cursor_left(&r->in)) mqtt_reader_fail(r, MQTT_FAULT_TRUNCATED);
    if (remaining < cursor_left(&r->in)) mqtt_reader_fail(r, MQTT_FAULT_TRAILING);
}

mqtt_fault mqtt_parse(const mqtt_codec *codec, const u8 *data, u32 len, mqtt_packet *out) {
    ASSERT(codec->version != MQTT_UNKNOWN || codec->sender == MQTT_FROM_CLIENT);
    mqtt_reader r = {.in = cursor_of(data, len), .codec = codec, .version = codec->version};
    out->version = codec->version;
    out->fault_property = 0;
    read_head(&r, out, len);
    if (UNLIKELY(r.fault != MQTT_FAULT_NONE)) return r.fault;
    families[out->type](&r, out);
    if (UNLIKELY(r.in.overrun)) mqtt_reader_fail(&r, MQTT_FAULT_TRUNCATED);
    if (UNLIKELY(cursor_left(&r.in) > 0)) mqtt_reader_fail(&r, MQTT_FAULT_TRAILING);
    out->fault_property = r.fault_property;
    return r.fault;
}
