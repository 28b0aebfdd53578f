// SPDX-License-Identifier: Apache-2.0
// mqtt.h: the words of MQTT 3.1, 3.1.1 and 5.0: versions, packet types, properties, reason codes,
// and the faults a packet can have. What a packet holds is in mqtt_packet.h, how one is written in
// mqtt_write.h.
//
// The whole codec (mqtt*.c) is pure: no I/O, no allocation, no clock, no state beyond what the
// caller passes. Both directions are covered: a broker parses what clients send and writes what
// servers send, an uplink the reverse. "5.0" and "3.1.1" below are the OASIS standards; "3.1" is
// the IBM and Eurotech protocol specification of 2010.
//
// Decided where the standards leave a choice:
// - Control characters and non-characters in UTF-8 strings (5.0 section 1.5.4: "SHOULD NOT") are
//   accepted, as they do no harm to a broker, unless the codec has MQTT_REFUSE_CONTROLS.
// - A remaining length in more bytes than needed is malformed in 5.0 and accepted in 3.x, which
//   does not forbid it.
// - 3.1 client ids longer than 23 characters are accepted; 3.1 user name and password flags
//   without the field too (the 3.1 text asks for that).
// - "$share/name/filter" is recognised in every version; in 3.x a text that only looks like it is
//   an ordinary filter.
#ifndef SLUICE_PROTO_MQTT_H
#define SLUICE_PROTO_MQTT_H

#include "base/base.h"
#include "limits.h"

#define MQTT_REMAINING_LENGTH_MAX 268435455u // 5.0 section 2.1.4: four bytes of seven bits
#define MQTT_VARINT_MAX MQTT_REMAINING_LENGTH_MAX
#define MQTT_HEAD_BYTES_MAX 5u               // fixed header: type and flags, remaining length
#define MQTT_PACKET_BYTES_MAX (MQTT_HEAD_BYTES_MAX + MQTT_REMAINING_LENGTH_MAX)
#define MQTT_STRING_BYTES_MAX 65535u         // 5.0 sections 1.5.4 and 1.5.6

_Static_assert(MQTT_HEAD_BYTES_MAX <= LIMIT_PACKET_HEAD_BYTES, "a fixed header fits in conn.head");
_Static_assert(LIMIT_TOPIC_BYTES == MQTT_STRING_BYTES_MAX, "a topic is one string");
_Static_assert(MQTT_PACKET_BYTES_MAX <= INT32_MAX, "sizes are returned as int");

typedef enum mqtt_version { // the protocol level byte
    MQTT_UNKNOWN = 0,       // no CONNECT seen yet
    MQTT_3_1 = 3,
    MQTT_3_1_1 = 4,
    MQTT_5 = 5,
} mqtt_version;

typedef enum mqtt_sender { MQTT_FROM_CLIENT, MQTT_FROM_SERVER } mqtt_sender;

typedef enum mqtt_type { // 5.0 section 2.1.2
    MQTT_WILL = 0,       // not a packet: stands for the will's properties where types are bits
    MQTT_CONNECT = 1,
    MQTT_CONNACK,
    MQTT_PUBLISH,
    MQTT_PUBACK,
    MQTT_PUBREC,
    MQTT_PUBREL,
    MQTT_PUBCOMP,
    MQTT_SUBSCRIBE,
    MQTT_SUBACK,
    MQTT_UNSUBSCRIBE,
    MQTT_UNSUBACK,
    MQTT_PINGREQ,
    MQTT_PINGRESP,
    MQTT_DISCONNECT,
    MQTT_AUTH,
} mqtt_type;
#define MQTT_BIT(type) ((u16)(1u << (type)))

// "PUBLISH"; "reserved" for anything that is not a packet type. Never NULL.
const char *mqtt_type_name(u32 type);

typedef enum mqtt_property_id { // 5.0 section 2.2.2.2
    MQTT_PAYLOAD_FORMAT = 0x01,
    MQTT_MESSAGE_EXPIRY = 0x02,
    MQTT_CONTENT_TYPE = 0x03,
    MQTT_RESPONSE_TOPIC = 0x08,
    MQTT_CORRELATION_DATA = 0x09,
    MQTT_SUBSCRIPTION_ID = 0x0b,
    MQTT_SESSION_EXPIRY = 0x11,
    MQTT_ASSIGNED_CLIENT_ID = 0x12,
    MQTT_SERVER_KEEP_ALIVE = 0x13,
    MQTT_AUTH_METHOD = 0x15,
    MQTT_AUTH_DATA = 0x16,
    MQTT_REQUEST_PROBLEM_INFO = 0x17,
    MQTT_WILL_DELAY = 0x18,
    MQTT_REQUEST_RESPONSE_INFO = 0x19,
    MQTT_RESPONSE_INFO = 0x1a,
    MQTT_SERVER_REFERENCE = 0x1c,
    MQTT_REASON_STRING = 0x1f,
    MQTT_RECEIVE_MAX = 0x21,
    MQTT_TOPIC_ALIAS_MAX = 0x22,
    MQTT_TOPIC_ALIAS = 0x23,
    MQTT_QOS_MAX = 0x24,
    MQTT_RETAIN_AVAILABLE = 0x25,
    MQTT_USER_PROPERTY = 0x26,
    MQTT_PACKET_SIZE_MAX = 0x27,
    MQTT_WILDCARD_AVAILABLE = 0x28,
    MQTT_SUBSCRIPTION_ID_AVAILABLE = 0x29,
    MQTT_SHARED_AVAILABLE = 0x2a,
    MQTT_PROPERTY_IDS,
} mqtt_property_id;
_Static_assert(MQTT_PROPERTY_IDS <= 64, "which properties are present is a u64");

// Reason codes (5.0 section 2.4) by name: X(code, NAME, "name"). Which packet may carry which is in
// the table of mqtt_reason.c.
#define MQTT_REASONS(X) \
    X(0x00, SUCCESS, "success") \
    X(0x01, GRANTED_QOS_1, "granted_qos_1") \
    X(0x02, GRANTED_QOS_2, "granted_qos_2") \
    X(0x04, DISCONNECT_WITH_WILL, "disconnect_with_will") \
    X(0x10, NO_MATCHING_SUBSCRIBERS, "no_matching_subscribers") \
    X(0x11, NO_SUBSCRIPTION_EXISTED, "no_subscription_existed") \
    X(0x18, CONTINUE_AUTHENTICATION, "continue_authentication") \
    X(0x19, RE_AUTHENTICATE, "re_authenticate") \
    X(0x80, UNSPECIFIED, "unspecified_error") \
    X(0x81, MALFORMED, "malformed_packet") \
    X(0x82, PROTOCOL_ERROR, "protocol_error") \
    X(0x83, IMPLEMENTATION_SPECIFIC, "implementation_specific_error") \
    X(0x84, UNSUPPORTED_VERSION, "unsupported_protocol_version") \
    X(0x85, CLIENT_ID_INVALID, "client_identifier_not_valid") \
    X(0x86, BAD_CREDENTIALS, "bad_user_name_or_password") \
    X(0x87, NOT_AUTHORIZED, "not_authorized") \
    X(0x88, SERVER_UNAVAILABLE, "server_unavailable") \
    X(0x89, SERVER_BUSY, "server_busy") \
    X(0x8a, BANNED, "banned") \
    X(0x8b, SERVER_SHUTTING_DOWN, "server_shutting_down") \
    X(0x8c, BAD_AUTH_METHOD, "bad_authentication_method") \
    X(0x8d, KEEP_ALIVE_TIMEOUT, "keep_alive_timeout") \
    X(0x8e, SESSION_TAKEN_OVER, "session_taken_over") \
    X(0x8f, TOPIC_FILTER_INVALID, "topic_filter_invalid") \
    X(0x90, TOPIC_NAME_INVALID, "topic_name_invalid") \
    X(0x91, PACKET_ID_IN_USE, "packet_identifier_in_use") \
    X(0x92, PACKET_ID_NOT_FOUND, "packet_identifier_not_found") \
    X(0x93, RECEIVE_MAX_EXCEEDED, "receive_maximum_exceeded") \
    X(0x94, TOPIC_ALIAS_INVALID, "topic_alias_invalid") \
    X(0x95, PACKET_TOO_LARGE, "packet_too_large") \
    X(0x96, MESSAGE_RATE_TOO_HIGH, "message_rate_too_high") \
    X(0x97, QUOTA_EXCEEDED, "quota_exceeded") \
    X(0x98, ADMINISTRATIVE_ACTION, "administrative_action") \
    X(0x99, PAYLOAD_FORMAT_INVALID, "payload_format_invalid") \
    X(0x9a, RETAIN_NOT_SUPPORTED, "retain_not_supported") \
    X(0x9b, QOS_NOT_SUPPORTED, "qos_not_supported") \
    X(0x9c, USE_ANOTHER_SERVER, "use_another_server") \
    X(0x9d, SERVER_MOVED, "server_moved") \
    X(0x9e, SHARED_NOT_SUPPORTED, "shared_subscriptions_not_supported") \
    X(0x9f, CONNECTION_RATE_EXCEEDED, "connection_rate_exceeded") \
    X(0xa0, MAXIMUM_CONNECT_TIME, "maximum_connect_time") \
    X(0xa1, SUBSCRIPTION_IDS_NOT_SUPPORTED, "subscription_identifiers_not_supported") \
    X(0xa2, WILDCARDS_NOT_SUPPORTED, "wildcard_subscriptions_not_supported")

typedef enum mqtt_reason {
#define MQTT_REASON_ENUM(code, symbol, text) MQTT_REASON_##symbol = (code),
    MQTT_REASONS(MQTT_REASON_ENUM)
#undef MQTT_REASON_ENUM
} mqtt_reason;

// "packet_too_large"; "unknown" for a code that the standard does not have. 0x00 is "success" in
// every packet, also where the standard calls it granted QoS 0 or normal disconnection. Never
// NULL.
const char *mqtt_reason_name(u32 code);
// Whether 5.0 lets this sender put the code into this type of packet (PUBACK, SUBACK, DISCONNECT
// ...).
bool mqtt_reason_allowed(u32 code, u32 type, mqtt_sender sender);

// CONNACK return codes of 3.1 and 3.1.1 (section 3.2.2.3).
enum {
    MQTT_CONNACK_ACCEPTED = 0,
    MQTT_CONNACK_BAD_VERSION = 1,
    MQTT_CONNACK_BAD_CLIENT_ID = 2,
    MQTT_CONNACK_UNAVAILABLE = 3,
    MQTT_CONNACK_BAD_CREDENTIALS = 4,
    MQTT_CONNACK_NOT_AUTHORIZED = 5,
    MQTT_CONNACK_CODES,
};
#define MQTT_SUBACK_FAILURE 0x80u // 3.1.1 section 3.9.3
// The 3.x return code that says what a 5.0 CONNACK reason says; -1 where 3.x has none and the
// connection is closed without a CONNACK.
int mqtt_connack_code_of_reason(u32 reason);

// What is wrong with a packet: X(NAME, reason code of 5.0, "name", "explanation"). In 3.x each one
// means to close (mqtt_fault_connack says when an answer goes first).
#define MQTT_FAULTS(X) \
    X(NONE, SUCCESS, "none", "no fault") \
    X(TYPE_RESERVED, MALFORMED, "reserved_type", "no such packet type in this version") \
    X(FLAGS_RESERVED, MALFORMED, "reserved_flags", "fixed header flags other than the type's own") \
    X(DIRECTION, PROTOCOL_ERROR, "wrong_direction", "this side does not send such a packet") \
    X(NOT_CONNECT, PROTOCOL_ERROR, "not_connect", "the first packet is not CONNECT") \
    X(SECOND_CONNECT, PROTOCOL_ERROR, "second_connect", "CONNECT on a connection that had one") \
    X(VARINT, MALFORMED, "varint_too_long", "variable byte integer of more than four bytes") \
    X(VARINT_NOT_MINIMAL, MALFORMED, "varint_not_minimal", \
      "variable byte integer in more bytes than needed") \
    X(TOO_LARGE, PACKET_TOO_LARGE, "packet_too_large", "packet over the maximum packet size") \
    X(TRUNCATED, MALFORMED, "truncated", "a field reaches beyond the end") \
    X(TRAILING, MALFORMED, "trailing_bytes", "bytes behind the last field") \
    X(UTF8, MALFORMED, "bad_utf8", "string with ill-formed UTF-8, a surrogate or U+0000") \
    X(CONTROL, MALFORMED, "control_character", \
      "string with a control or non-character (refused here)") \
    X(PACKET_ID_ZERO, PROTOCOL_ERROR, "packet_id_zero", "packet identifier 0") \
    X(PROTOCOL_NAME, UNSUPPORTED_VERSION, "protocol_name", "protocol name is not MQTT or MQIsdp") \
    X(PROTOCOL_LEVEL, UNSUPPORTED_VERSION, "protocol_level", \
      "protocol version not known, or not of that name") \
    X(CONNECT_FLAG, MALFORMED, "connect_reserved_flag", "reserved CONNECT flag set") \
    X(WILL_FLAGS, MALFORMED, "will_flags", "will QoS or will retain without the will flag") \
    X(WILL_QOS, MALFORMED, "will_qos", "will QoS 3") \
    X(PASSWORD_ALONE, MALFORMED, "password_without_user_name", \
      "password without user name in 3.x") \
    X(CLIENT_ID_EMPTY, CLIENT_ID_INVALID, "client_id_empty", \
      "empty client id with a session to keep, or in 3.1") \
    X(PUBLISH_QOS, MALFORMED, "publish_qos", "PUBLISH with QoS 3") \
    X(PUBLISH_DUP, MALFORMED, "publish_dup", "DUP with QoS 0") \
    X(TOPIC_EMPTY, PROTOCOL_ERROR, "topic_empty", "topic name of no characters, and no alias") \
    X(TOPIC_WILDCARD, TOPIC_NAME_INVALID, "topic_wildcard", "wildcard in a topic name") \
    X(TOPIC_LEVELS, TOPIC_NAME_INVALID, "topic_levels", \
      "topic name of more levels than the limit") \
    X(TOPIC_ALIAS_ZERO, TOPIC_ALIAS_INVALID, "topic_alias_zero", "topic alias 0") \
    X(RESPONSE_TOPIC, PROTOCOL_ERROR, "response_topic", "response topic empty or with a wildcard") \
    X(PROPERTY_UNKNOWN, MALFORMED, "property_unknown", "no such property") \
    X(PROPERTY_MISPLACED, MALFORMED, "property_misplaced", "property not of this packet type") \
    X(PROPERTY_DIRECTION, PROTOCOL_ERROR, "property_direction", \
      "property this side may not send here") \
    X(PROPERTY_REPEATED, PROTOCOL_ERROR, "property_repeated", "property more than once") \
    X(PROPERTY_VALUE, PROTOCOL_ERROR, "property_value", "property value not allowed") \
    X(AUTH_DATA_ALONE, PROTOCOL_ERROR, "auth_data_without_method", \
      "authentication data without method") \
    X(AUTH_METHOD_MISSING, PROTOCOL_ERROR, "auth_method_missing", \
      "AUTH without authentication method") \
    X(NO_FILTERS, PROTOCOL_ERROR, "no_filters", "SUBSCRIBE or UNSUBSCRIBE without a topic filter") \
    X(FILTER, TOPIC_FILTER_INVALID, "filter_malformed", \
      "topic filter empty or with a misplaced wildcard") \
    X(SHARE, TOPIC_FILTER_INVALID, "share_malformed", \
      "shared subscription without a valid name and filter") \
    X(OPTIONS_RESERVED, MALFORMED, "subscription_options", \
      "reserved bits in subscription options") \
    X(SUBSCRIBE_QOS, PROTOCOL_ERROR, "subscription_qos", "subscription with QoS 3") \
    X(RETAIN_HANDLING, PROTOCOL_ERROR, "retain_handling", "retain handling 3") \
    X(NO_LOCAL_SHARED, PROTOCOL_ERROR, "no_local_shared", "no local on a shared subscription") \
    X(REASON, PROTOCOL_ERROR, "reason_code", "reason code not of this packet or sender") \
    X(CONNACK_FLAGS, MALFORMED, "connack_flags", "reserved bits in CONNACK flags") \
    X(SESSION_PRESENT, PROTOCOL_ERROR, "session_present", "session present in a refusal") \
    X(NO_REASONS, PROTOCOL_ERROR, "no_reason_codes", "SUBACK or UNSUBACK without a reason code")

typedef enum mqtt_fault {
#define MQTT_FAULT_ENUM(symbol, reason, name, text) MQTT_FAULT_##symbol,
    MQTT_FAULTS(MQTT_FAULT_ENUM)
#undef MQTT_FAULT_ENUM
        MQTT_FAULTS_COUNT
} mqtt_fault;
_Static_assert(MQTT_FAULT_NONE == 0, "no fault is 0");

// "topic_wildcard" for logs and metrics, and the explanation in a few words, fit for a reason
// string. Never NULL.
const char *mqtt_fault_name(u32 fault);
const char *mqtt_fault_text(u32 fault);
// Reason code for a DISCONNECT, or for the CONNACK when the fault is in CONNECT (5.0 section 4.13).
u8 mqtt_fault_reason(u32 fault);
// The code of the CONNACK owed for a CONNECT with that fault, in that version: the reason code in
// 5.0, the return code 1 or 2 in 3.x. 0: close without a CONNACK (3.x for most faults, unknown
// version).
u8 mqtt_fault_connack(u32 fault, mqtt_version version);

#endif
