// SPDX-License-Identifier: Apache-2.0
// options.h: the command lines of `sluice pub` and `sluice sub`. Options that mosquitto_pub and
// mosquitto_sub have too mean the same here.
#ifndef SLUICE_CLIENT_OPTIONS_H
#define SLUICE_CLIENT_OPTIONS_H

#include "proto/mqtt_property.h"

#define CLIENT_STATUS_OK 0
#define CLIENT_STATUS_FAILED 1  // not reached, closed, a file that cannot be read
#define CLIENT_STATUS_USAGE 2
#define CLIENT_STATUS_REFUSED 3 // the broker's CONNACK, SUBACK or PUBACK said no
#define CLIENT_STATUS_TIMEOUT 27 // -W ended the wait, as with mosquitto_sub

#define CLIENT_TOPICS_MAX 256u
#define CLIENT_PROPERTY_BYTES_MAX 65536u // of all -D options for one kind of packet
#define CLIENT_FILE_BYTES_MAX (64u << 20) // -f and -s: a larger message is refused
#define CLIENT_LINE_BYTES_MAX (16u << 20) // -l
#define CLIENT_INFLIGHT_MAX 1000u
#define CLIENT_PACKET_BYTES_MAX (256u << 20) // of the broker
#define CLIENT_CONNECT_TIMEOUT_S 10u
#define CLIENT_RECONNECT_MS_MIN 1000u
#define CLIENT_RECONNECT_MS_MAX 30000u

typedef enum client_source {
    SOURCE_NONE,
    SOURCE_MESSAGE, // -m
    SOURCE_FILE,    // -f
    SOURCE_LINES,   // -l
    SOURCE_STDIN,   // -s
    SOURCE_EMPTY,   // -n
} client_source;

typedef enum client_property_place {
    PLACE_CONNECT,
    PLACE_WILL,
    PLACE_PUBLISH,
    PLACE_SUBSCRIBE,
    PLACE_DISCONNECT,
    PLACES
} client_property_place;

typedef struct client_options {
    bool subscribes; // sluice sub
    const char *host;
    u16 port;
    mqtt_version version;
    const char *id, *id_prefix, *user, *password;
    bool tls, tls_any_name;           // with TLS; the server's certificate may be for another name
    const char *ca_file, *cert_file, *key_file; // PEM; NULL = not given
    u16 keep_alive_s;
    bool clean_start;
    u32 connect_timeout_s;
    bool debug, quiet;
    u8 qos;
    const char *topics[CLIENT_TOPICS_MAX];
    u32 topic_count;
    // will
    const char *will_topic, *will_payload;
    u8 will_qos;
    bool will_retain;
    mqtt_property_list props[PLACES];
    // pub
    client_source source;
    const char *message, *file;
    bool retain;
    u32 repeat;
    u64 repeat_delay_ms;
    // sub
    const char *skip[CLIENT_TOPICS_MAX];
    u32 skip_count;
    const char *format; // NULL: payload only
    bool verbose, json, no_newline, no_retained, retained_only, no_local, retain_as_published;
    bool exit_subscribed, reconnect;
    u8 retain_handling;
    u32 count;
    u64 wait_ms; // -W; 0: for ever
    char *url;   // owned: host, user and topic may point into it
} client_options;

// Parses argv[1..]. 0; 1 when help was printed; -EINVAL after a message to stderr that says what is
// wrong and what is allowed. client_options_free in any case.
int client_options_parse(client_options *o, bool subscribes, int argc, char **argv);
void client_options_free(client_options *o);
// The id to connect with, made up when none was given and one is needed, at id.
void client_id_make(const client_options *o, char *id, size_t id_bytes);
// One -D option: 0 or -EINVAL after a message.
int client_property_add(client_options *o, const char *place, const char *name, const char *value,
                        const char *second);
// Whether the property takes two values; false also for an unknown one.
bool client_property_is_pair(const char *name);

static inline mqtt_bytes client_text(const char *text) {
    if (text == NULL) return (mqtt_bytes){0};
    return (mqtt_bytes){(const u8 *)text, (u32)__builtin_strlen(text)};
}

#endif
