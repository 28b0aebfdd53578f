// SPDX-License-Identifier: Apache-2.0
// mqtt_property.c: the table of all properties (5.0 section 2.2.2.2 and the property sections of
// each packet), and what it drives: the check of a received list and the walk through a checked
// one. Lists are built in mqtt_property_write.c.
//
// A list is checked once, whole, in mqtt_read_properties. Walking decodes again without checks:
// the same decoder, so both always see the same bounds.
#include "proto/mqtt_property.h"

#include "proto/mqtt_read.h"
#include "proto/mqtt_text.h"

#define CON MQTT_BIT(MQTT_CONNECT)
#define ACK MQTT_BIT(MQTT_CONNACK)
#define PUB MQTT_BIT(MQTT_PUBLISH)
#define WIL MQTT_BIT(MQTT_WILL)
#define SUB MQTT_BIT(MQTT_SUBSCRIBE)
#define DIS MQTT_BIT(MQTT_DISCONNECT)
#define AUT MQTT_BIT(MQTT_AUTH)
// Every packet that has properties and answers something: those may give a reason string.
#define ANSWERS \
    (MQTT_BIT(MQTT_PUBACK) | MQTT_BIT(MQTT_PUBREC) | MQTT_BIT(MQTT_PUBREL) | \
     MQTT_BIT(MQTT_PUBCOMP) | MQTT_BIT(MQTT_SUBACK) | MQTT_BIT(MQTT_UNSUBACK) | ACK | DIS | AUT)
#define ALL (ANSWERS | CON | PUB | WIL | SUB | MQTT_BIT(MQTT_UNSUBSCRIBE))

#define BYTE MQTT_PROPERTY_BYTE
#define U16 MQTT_PROPERTY_U16
#define U32 MQTT_PROPERTY_U32
#define VARINT MQTT_PROPERTY_VARINT
#define STRING MQTT_PROPERTY_STRING
#define BINARY MQTT_PROPERTY_BINARY
#define PAIR MQTT_PROPERTY_PAIR
#define BOOL MQTT_CHECK_BOOL
#define NOT_ZERO MQTT_CHECK_NOT_ZERO

// name, type, check, places, client only, server only, repeats
static const mqtt_property_rule rules[MQTT_PROPERTY_IDS] = {
    [MQTT_PAYLOAD_FORMAT] = {"payload_format_indicator", BYTE, BOOL, PUB | WIL, 0, 0, 0},
    [MQTT_MESSAGE_EXPIRY] = {"message_expiry_interval", U32, 0, PUB | WIL, 0, 0, 0},
    [MQTT_CONTENT_TYPE] = {"content_type", STRING, 0, PUB | WIL, 0, 0, 0},
    [MQTT_RESPONSE_TOPIC] = {"response_topic", STRING, MQTT_CHECK_TOPIC, PUB | WIL, 0, 0, 0},
    [MQTT_CORRELATION_DATA] = {"correlation_data", BINARY, 0, PUB | WIL, 0, 0, 0},
    [MQTT_SUBSCRIPTION_ID] = {"subscription_identifier", VARINT, NOT_ZERO, PUB | SUB, 0, PUB, PUB},
    [MQTT_SESSION_EXPIRY] = {"session_expiry_interval", U32, 0, CON | ACK | DIS, DIS, 0, 0},
    [MQTT_ASSIGNED_CLIENT_ID] = {"assigned_client_identifier", STRING, 0, ACK, 0, 0, 0},
    [MQTT_SERVER_KEEP_ALIVE] = {"server_keep_alive", U16, 0, ACK, 0, 0, 0},
    [MQTT_AUTH_METHOD] = {"authentication_method", STRING, 0, CON | ACK | AUT, 0, 0, 0},
    [MQTT_AUTH_DATA] = {"authentication_data", BINARY, 0, CON | ACK | AUT, 0, 0, 0},
    [MQTT_REQUEST_PROBLEM_INFO] = {"request_problem_information", BYTE, BOOL, CON, 0, 0, 0},
    [MQTT_WILL_DELAY] = {"will_delay_interval", U32, 0, WIL, 0, 0, 0},
    [MQTT_REQUEST_RESPONSE_INFO] = {"request_response_information", BYTE, BOOL, CON, 0, 0, 0},
    [MQTT_RESPONSE_INFO] = {"response_information", STRING, 0, ACK, 0, 0, 0},
    [MQTT_SERVER_REFERENCE] = {"server_reference", STRING, 0, ACK | DIS, 0, DIS, 0},
    [MQTT_REASON_STRING] = {"reason_string", STRING, 0, ANSWERS, 0, 0, 0},
    [MQTT_RECEIVE_MAX] = {"receive_maximum", U16, NOT_ZERO, CON | ACK, 0, 0, 0},
    [MQTT_TOPIC_ALIAS_MAX] = {"topic_alias_maximum", U16, 0, CON | ACK, 0, 0, 0},
    [MQTT_TOPIC_ALIAS] = {"topic_alias", U16, MQTT_CHECK_ALIAS, PUB, 0, 0, 0},
    [MQTT_QOS_MAX] = {"maximum_qos", BYTE, BOOL, ACK, 0, 0, 0},
    [MQTT_RETAIN_AVAILABLE] = {"retain_available", BYTE, BOOL, ACK, 0, 0, 0},
    [MQTT_USER_PROPERTY] = {"user_property", PAIR, 0, ALL, 0, 0, ALL},
    [MQTT_PACKET_SIZE_MAX] = {"maximum_packet_size", U32, NOT_ZERO, CON | ACK, 0, 0, 0},
    [MQTT_WILDCARD_AVAILABLE] = {"wildcard_subscription_available", BYTE, BOOL, ACK, 0, 0, 0},
    [MQTT_SUBSCRIPTION_ID_AVAILABLE] =
        {"subscription_identifiers_available", BYTE, BOOL, ACK, 0, 0, 0},
    [MQTT_SHARED_AVAILABLE] = {"shared_subscription_available", BYTE, BOOL, ACK, 0, 0, 0},
};

const mqtt_property_rule *mqtt_property_rule_of(u32 id) {
    return id < MQTT_PROPERTY_IDS && rules[id].type != MQTT_PROPERTY_NONE ? &rules[id] : NULL;
}

// --- reading ---

static mqtt_bytes decode_bytes(cursor *in) {
    u32 len = cursor_u16(in);
    const u8 *data = cursor_take(in, len);
    return (mqtt_bytes){data, data == NULL ? 0 : len};
}

// The value behind an identifier. Overruns show in the cursor; a varint's fault is returned.
static mqtt_fault decode_value(cursor *in, mqtt_property *out) {
    switch (out->type) {
        case MQTT_PROPERTY_BYTE: out->number = cursor_u8(in); break;
        case MQTT_PROPERTY_U16: out->number = cursor_u16(in); break;
        case MQTT_PROPERTY_U32: out->number = cursor_u32(in); break;
        case MQTT_PROPERTY_VARINT: return mqtt_varint_read(in, &out->number);
        case MQTT_PROPERTY_PAIR:
            out->key = decode_bytes(in);
            out->value = decode_bytes(in);
            break;
        default: out->value = decode_bytes(in); break; // STRING, BINARY
    }
    return MQTT_FAULT_NONE;
}

static void check_value(mqtt_reader *r, const mqtt_property_rule *rule,
                        const mqtt_property *property) {
    if (rule->type == MQTT_PROPERTY_PAIR) mqtt_check_string(r, property->key);
    if (rule->type == MQTT_PROPERTY_PAIR || rule->type == MQTT_PROPERTY_STRING) {
        mqtt_check_string(r, property->value);
    }
    switch (rule->check) {
        case MQTT_CHECK_BOOL:
            if (property->number > 1) mqtt_reader_fail(r, MQTT_FAULT_PROPERTY_VALUE);
            break;
        case MQTT_CHECK_NOT_ZERO:
            if (property->number == 0) mqtt_reader_fail(r, MQTT_FAULT_PROPERTY_VALUE);
            break;
        case MQTT_CHECK_ALIAS:
            if (property->number == 0) mqtt_reader_fail(r, MQTT_FAULT_TOPIC_ALIAS_ZERO);
            break;
        case MQTT_CHECK_TOPIC:
            if (property->value.len == 0 || mqtt_text_has_wildcard(property->value)) {
                mqtt_reader_fail(r, MQTT_FAULT_RESPONSE_TOPIC);
            }
            break;
        default: break;
    }
}

static void check_place(mqtt_reader *r, const mqtt_property_rule *rule, u16 place, bool repeated) {
    bool from_client = r->codec->sender == MQTT_FROM_CLIENT;
    u16 forbidden = from_client ? rule->server_only : rule->client_only;
    if ((rule->places & place) == 0) mqtt_reader_fail(r, MQTT_FAULT_PROPERTY_MISPLACED);
    if ((forbidden & place) != 0) mqtt_reader_fail(r, MQTT_FAULT_PROPERTY_DIRECTION);
    if (repeated && (rule->repeats & place) == 0) mqtt_reader_fail(r, MQTT_FAULT_PROPERTY_REPEATED);
}

static void read_property(mqtt_reader *r, u16 place, u64 *present) {
    u32 id = mqtt_read_varint(r);
    if (r->fault != MQTT_FAULT_NONE) return;
    r->fault_property = id; // stays if there is one
    const mqtt_property_rule *rule = mqtt_property_rule_of(id);
    if (rule == NULL) {
        mqtt_reader_fail(r, MQTT_FAULT_PROPERTY_UNKNOWN);
        return;
    }
    check_place(r, rule, place, (*present >> id & 1) != 0);
    mqtt_property property = {.id = (u8)id, .type = rule->type};
    mqtt_fault fault = decode_value(&r->in, &property);
    if (fault != MQTT_FAULT_NONE) mqtt_reader_fail(r, fault);
    check_value(r, rule, &property);
    if (r->in.overrun) mqtt_reader_fail(r, MQTT_FAULT_TRUNCATED);
    if (r->fault == MQTT_FAULT_NONE) r->fault_property = 0;
    *present |= 1ull << id;
}

mqtt_properties mqtt_read_properties(mqtt_reader *r, u32 place) {
    mqtt_properties props = {0};
    if (r->version != MQTT_5) return props;
    u32 len = mqtt_read_varint(r);
    if (LIKELY(len == 0)) return props;
    cursor whole = r->in;
    r->in = cursor_part(&whole, len);
    props.data = r->in.at;
    props.len = cursor_left(&r->in);
    while (cursor_left(&r->in) > 0 && r->fault == MQTT_FAULT_NONE) {
        read_property(r, MQTT_BIT(place), &props.present);
    }
    const u64 auth = props.present & (1ull << MQTT_AUTH_METHOD | 1ull << MQTT_AUTH_DATA);
    if (auth == 1ull << MQTT_AUTH_DATA) mqtt_reader_fail(r, MQTT_FAULT_AUTH_DATA_ALONE);
    // A property cut by the end of the list is cut, even though the packet goes on.
    if (r->in.overrun) mqtt_reader_fail(r, MQTT_FAULT_TRUNCATED);
    r->in = whole;
    // Nobody walks a list that was not checked to its end.
    return r->fault == MQTT_FAULT_NONE ? props : (mqtt_properties){0};
}

bool mqtt_property_next(cursor *at, mqtt_property *out) {
    if (cursor_left(at) == 0) return false;
    u8 id = cursor_u8(at);
    const mqtt_property_rule *rule = mqtt_property_rule_of(id);
    ASSERT(rule != NULL); // the list was checked
    *out = (mqtt_property){.id = id, .type = rule->type};
    mqtt_fault fault = decode_value(at, out);
    ASSERT(fault == MQTT_FAULT_NONE && !at->overrun);
    return true;
}

static bool property_find(const mqtt_properties *props, mqtt_property_id id, mqtt_property *out) {
    if (!mqtt_property_present(props, id)) return false;
    cursor at = mqtt_properties_begin(props);
    while (mqtt_property_next(&at, out)) {
        if (out->id == id) return true;
    }
    return false;
}

u32 mqtt_property_number(const mqtt_properties *props, mqtt_property_id id, u32 fallback) {
    mqtt_property found;
    return property_find(props, id, &found) ? found.number : fallback;
}

mqtt_bytes mqtt_property_bytes(const mqtt_properties *props, mqtt_property_id id) {
    mqtt_property found;
    return property_find(props, id, &found) ? found.value : (mqtt_bytes){NULL, 0};
}
