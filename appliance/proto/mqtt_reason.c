// SPDX-License-Identifier: Apache-2.0
// mqtt_reason.c: names of packet types, reason codes and faults, and the table that says which
// reason code which side may put into which packet (5.0 sections 2.4, 3.2.2.2, 3.4.2.1, 3.5.2.1,
// 3.6.2.1, 3.7.2.1, 3.9.3, 3.11.3, 3.14.2.1, 3.15.2.1).
//
// Where section 2.4 and a packet's own table differ (0x8C in DISCONNECT) the code is allowed:
// refusing it would only hide what the other side wanted to say.
#include "proto/mqtt.h"

#define ACK MQTT_BIT(MQTT_CONNACK)
#define PUB (MQTT_BIT(MQTT_PUBACK) | MQTT_BIT(MQTT_PUBREC))
#define REL (MQTT_BIT(MQTT_PUBREL) | MQTT_BIT(MQTT_PUBCOMP))
#define SUB MQTT_BIT(MQTT_SUBACK)
#define UNS MQTT_BIT(MQTT_UNSUBACK)
#define DIS MQTT_BIT(MQTT_DISCONNECT)
#define AUT MQTT_BIT(MQTT_AUTH)

typedef struct reason_rule {
    u16 client; // packet types in which a client may send it
    u16 server;
} reason_rule;

static const reason_rule rules[] = {
    [MQTT_REASON_SUCCESS] = {PUB | REL | DIS, ACK | PUB | REL | SUB | UNS | DIS | AUT},
    [MQTT_REASON_GRANTED_QOS_1] = {0, SUB},
    [MQTT_REASON_GRANTED_QOS_2] = {0, SUB},
    [MQTT_REASON_DISCONNECT_WITH_WILL] = {DIS, 0},
    [MQTT_REASON_NO_MATCHING_SUBSCRIBERS] = {0, PUB},
    [MQTT_REASON_NO_SUBSCRIPTION_EXISTED] = {0, UNS},
    [MQTT_REASON_CONTINUE_AUTHENTICATION] = {AUT, AUT},
    [MQTT_REASON_RE_AUTHENTICATE] = {AUT, 0},
    [MQTT_REASON_UNSPECIFIED] = {PUB | DIS, ACK | PUB | SUB | UNS | DIS},
    [MQTT_REASON_MALFORMED] = {DIS, ACK | DIS},
    [MQTT_REASON_PROTOCOL_ERROR] = {DIS, ACK | DIS},
    [MQTT_REASON_IMPLEMENTATION_SPECIFIC] = {PUB | DIS, ACK | PUB | SUB | UNS | DIS},
    [MQTT_REASON_UNSUPPORTED_VERSION] = {0, ACK},
    [MQTT_REASON_CLIENT_ID_INVALID] = {0, ACK},
    [MQTT_REASON_BAD_CREDENTIALS] = {0, ACK},
    [MQTT_REASON_NOT_AUTHORIZED] = {PUB, ACK | PUB | SUB | UNS | DIS},
    [MQTT_REASON_SERVER_UNAVAILABLE] = {0, ACK},
    [MQTT_REASON_SERVER_BUSY] = {0, ACK | DIS},
    [MQTT_REASON_BANNED] = {0, ACK},
    [MQTT_REASON_SERVER_SHUTTING_DOWN] = {0, DIS},
    [MQTT_REASON_BAD_AUTH_METHOD] = {0, ACK | DIS},
    [MQTT_REASON_KEEP_ALIVE_TIMEOUT] = {0, DIS},
    [MQTT_REASON_SESSION_TAKEN_OVER] = {0, DIS},
    [MQTT_REASON_TOPIC_FILTER_INVALID] = {0, SUB | UNS | DIS},
    [MQTT_REASON_TOPIC_NAME_INVALID] = {PUB | DIS, ACK | PUB | DIS},
    [MQTT_REASON_PACKET_ID_IN_USE] = {PUB, PUB | SUB | UNS},
    [MQTT_REASON_PACKET_ID_NOT_FOUND] = {REL, REL},
    [MQTT_REASON_RECEIVE_MAX_EXCEEDED] = {DIS, DIS},
    [MQTT_REASON_TOPIC_ALIAS_INVALID] = {DIS, DIS},
    [MQTT_REASON_PACKET_TOO_LARGE] = {DIS, ACK | DIS},
    [MQTT_REASON_MESSAGE_RATE_TOO_HIGH] = {DIS, DIS},
    [MQTT_REASON_QUOTA_EXCEEDED] = {PUB | DIS, ACK | PUB | SUB | DIS},
    [MQTT_REASON_ADMINISTRATIVE_ACTION] = {DIS, DIS},
    [MQTT_REASON_PAYLOAD_FORMAT_INVALID] = {PUB | DIS, ACK | PUB | DIS},
    [MQTT_REASON_RETAIN_NOT_SUPPORTED] = {0, ACK | DIS},
    [MQTT_REASON_QOS_NOT_SUPPORTED] = {0, ACK | DIS},
    [MQTT_REASON_USE_ANOTHER_SERVER] = {0, ACK | DIS},
    [MQTT_REASON_SERVER_MOVED] = {0, ACK | DIS},
    [MQTT_REASON_SHARED_NOT_SUPPORTED] = {0, SUB | DIS},
    [MQTT_REASON_CONNECTION_RATE_EXCEEDED] = {0, ACK | DIS},
    [MQTT_REASON_MAXIMUM_CONNECT_TIME] = {0, DIS},
    [MQTT_REASON_SUBSCRIPTION_IDS_NOT_SUPPORTED] = {0, SUB | DIS},
    [MQTT_REASON_WILDCARDS_NOT_SUPPORTED] = {0, SUB | DIS},
};

bool mqtt_reason_allowed(u32 code, u32 type, mqtt_sender sender) {
    if (code >= ARRAY_LEN(rules)) return false;
    u16 places = sender == MQTT_FROM_CLIENT ? rules[code].client : rules[code].server;
    return (places & MQTT_BIT(type)) != 0;
}

const char *mqtt_reason_name(u32 code) {
    switch (code) {
#define REASON_NAME(value, symbol, text) \
    case value: return text;
        MQTT_REASONS(REASON_NAME)
#undef REASON_NAME
        default: return "unknown";
    }
}

const char *mqtt_type_name(u32 type) {
    static const char *const names[] = {
        [MQTT_CONNECT] = "CONNECT",   [MQTT_CONNACK] = "CONNACK",
        [MQTT_PUBLISH] = "PUBLISH",   [MQTT_PUBACK] = "PUBACK",
        [MQTT_PUBREC] = "PUBREC",     [MQTT_PUBREL] = "PUBREL",
        [MQTT_PUBCOMP] = "PUBCOMP",   [MQTT_SUBSCRIBE] = "SUBSCRIBE",
        [MQTT_SUBACK] = "SUBACK",     [MQTT_UNSUBSCRIBE] = "UNSUBSCRIBE",
        [MQTT_UNSUBACK] = "UNSUBACK", [MQTT_PINGREQ] = "PINGREQ",
        [MQTT_PINGRESP] = "PINGRESP", [MQTT_DISCONNECT] = "DISCONNECT",
        [MQTT_AUTH] = "AUTH",
    };
    return type < ARRAY_LEN(names) && names[type] != NULL ? names[type] : "reserved";
}

int mqtt_connack_code_of_reason(u32 reason) {
    switch (reason) {
        case MQTT_REASON_SUCCESS: return MQTT_CONNACK_ACCEPTED;
        case MQTT_REASON_UNSUPPORTED_VERSION: return MQTT_CONNACK_BAD_VERSION;
        case MQTT_REASON_CLIENT_ID_INVALID: return MQTT_CONNACK_BAD_CLIENT_ID;
        case MQTT_REASON_SERVER_UNAVAILABLE:
        case MQTT_REASON_SERVER_BUSY:
        case MQTT_REASON_QUOTA_EXCEEDED:
        case MQTT_REASON_USE_ANOTHER_SERVER:
        case MQTT_REASON_SERVER_MOVED:
        case MQTT_REASON_CONNECTION_RATE_EXCEEDED: return MQTT_CONNACK_UNAVAILABLE;
        case MQTT_REASON_BAD_CREDENTIALS: return MQTT_CONNACK_BAD_CREDENTIALS;
        case MQTT_REASON_NOT_AUTHORIZED:
        case MQTT_REASON_BANNED: return MQTT_CONNACK_NOT_AUTHORIZED;
        default: return -1;
    }
}

typedef struct fault_entry {
    const char *name;
    const char *text;
    u8 reason;
} fault_entry;

static const fault_entry faults[MQTT_FAULTS_COUNT] = {
#define FAULT_ENTRY(symbol, code, label, words) \
    [MQTT_FAULT_##symbol] = {label, words, MQTT_REASON_##code},
    MQTT_FAULTS(FAULT_ENTRY)
#undef FAULT_ENTRY
};

const char *mqtt_fault_name(u32 fault) {
    return fault < MQTT_FAULTS_COUNT ? faults[fault].name : "unknown";
}

const char *mqtt_fault_text(u32 fault) {
    return fault < MQTT_FAULTS_COUNT ? faults[fault].text : "unknown fault";
}

u8 mqtt_fault_reason(u32 fault) {
    return fault < MQTT_FAULTS_COUNT ? faults[fault].reason : MQTT_REASON_UNSPECIFIED;
}

u8 mqtt_fault_connack(u32 fault, mqtt_version version) {
    if (version == MQTT_5) return mqtt_fault_reason(fault);
    if (version == MQTT_UNKNOWN) return 0;
    if (fault == MQTT_FAULT_PROTOCOL_LEVEL) return MQTT_CONNACK_BAD_VERSION;
    return fault == MQTT_FAULT_CLIENT_ID_EMPTY ? MQTT_CONNACK_BAD_CLIENT_ID : 0;
}
