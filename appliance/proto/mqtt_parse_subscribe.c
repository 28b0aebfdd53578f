// SPDX-License-Identifier: Apache-2.0
// mqtt_parse_subscribe.c: SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK (sections 3.8 to 3.11 of all
// versions). Filters and codes stay where they are; the list is checked whole, so that a packet is
// either taken with all its filters or with none.
//
// A filter with more levels than LIMIT_TOPIC_LEVELS is correct MQTT: it is marked, not a fault, and
// refused by itself in the SUBACK.
#include "proto/mqtt_read.h"
#include "proto/mqtt_text.h"

enum { // subscription options (5.0 section 3.8.3.1); 3.x has the QoS only
    OPTION_QOS = 0x03,
    OPTION_NO_LOCAL = 0x04,
    OPTION_RETAIN_AS_PUBLISHED = 0x08,
    OPTION_RETAIN_HANDLING = 0x30,
    OPTION_RESERVED = 0xc0,
};

static void check_filter(mqtt_reader *r, mqtt_bytes text, mqtt_share_state *share_state) {
    mqtt_bytes share, filter;
    mqtt_check_string(r, text);
    *share_state = mqtt_share_split(text, &share, &filter);
    if (*share_state == MQTT_SHARE_MALFORMED) {
        if (r->version == MQTT_5) mqtt_reader_fail(r, MQTT_FAULT_SHARE);
        filter = text; // 3.x: nothing but a filter
    }
    if (!mqtt_filter_syntax_is_valid(filter)) mqtt_reader_fail(r, MQTT_FAULT_FILTER);
}

static void check_options(mqtt_reader *r, u8 options, bool shared) {
    if ((options & OPTION_RESERVED) != 0 || (r->version != MQTT_5 && options > OPTION_QOS)) {
        mqtt_reader_fail(r, MQTT_FAULT_OPTIONS_RESERVED);
    }
    if ((options & OPTION_QOS) == 3) mqtt_reader_fail(r, MQTT_FAULT_SUBSCRIBE_QOS);
    if ((options & OPTION_RETAIN_HANDLING) == OPTION_RETAIN_HANDLING) {
        mqtt_reader_fail(r, MQTT_FAULT_RETAIN_HANDLING);
    }
    if ((options & OPTION_NO_LOCAL) != 0 && shared) mqtt_reader_fail(r, MQTT_FAULT_NO_LOCAL_SHARED);
}

void mqtt_read_subscribe(mqtt_reader *r, mqtt_packet *out) {
    mqtt_subscribe *subscribe = &out->subscribe;
    *subscribe = (mqtt_subscribe){.packet_id = mqtt_read_packet_id(r)};
    subscribe->props = mqtt_read_properties(r, out->type);
    mqtt_filters *filters = &subscribe->filters;
    filters->options = out->type == MQTT_SUBSCRIBE;
    filters->len = cursor_left(&r->in);
    filters->data = r->in.at;
    if (filters->len == 0) mqtt_reader_fail(r, MQTT_FAULT_NO_FILTERS);
    while (cursor_left(&r->in) > 0 && r->fault == MQTT_FAULT_NONE) {
        mqtt_bytes text = mqtt_read_binary(r);
        mqtt_share_state share_state;
        check_filter(r, text, &share_state);
        if (filters->options) {
            check_options(r, cursor_u8(&r->in), share_state == MQTT_SHARE_VALID);
        }
        filters->count++;
    }
}

bool mqtt_filter_next(const mqtt_filters *filters, cursor *at, mqtt_filter *out) {
    if (cursor_left(at) == 0) return false;
    u32 len = cursor_u16(at);
    *out = (mqtt_filter){.text = {cursor_take(at, len), len}};
    u8 options = filters->options ? cursor_u8(at) : 0;
    if (at->overrun) return false; // not after a parse
    mqtt_share_split(out->text, &out->share, &out->filter);
    out->too_deep = mqtt_text_levels(out->filter) > LIMIT_TOPIC_LEVELS;
    out->qos = options & OPTION_QOS;
    out->no_local = (options & OPTION_NO_LOCAL) != 0;
    out->retain_as_published = (options & OPTION_RETAIN_AS_PUBLISHED) != 0;
    out->retain_handling = (options & OPTION_RETAIN_HANDLING) >> 4;
    return true;
}

static bool code_is_valid(const mqtt_reader *r, u8 code, u8 type) {
    if (r->version == MQTT_5) return mqtt_reason_allowed(code, type, r->codec->sender);
    return code <= 2 || code == MQTT_SUBACK_FAILURE; // 3.1 has no failure, but brokers send it
}

void mqtt_read_suback(mqtt_reader *r, mqtt_packet *out) {
    mqtt_suback *suback = &out->suback;
    *suback = (mqtt_suback){.packet_id = mqtt_read_packet_id(r)};
    suback->props = mqtt_read_properties(r, out->type);
    if (out->type == MQTT_UNSUBACK && r->version != MQTT_5) return; // no payload
    u32 left = cursor_left(&r->in);
    if (left == 0) mqtt_reader_fail(r, MQTT_FAULT_NO_REASONS);
    suback->codes = (mqtt_bytes){cursor_take(&r->in, left), left};
    for (u32 i = 0; i < left; i++) {
        if (!code_is_valid(r, suback->codes.data[i], out->type)) {
            mqtt_reader_fail(r, MQTT_FAULT_REASON);
        }
    }
}
