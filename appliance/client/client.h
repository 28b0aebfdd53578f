// SPDX-License-Identifier: Apache-2.0
// client.h: one MQTT connection of a command line client (`sluice pub`, `sluice sub`): dialled,
// confirmed, kept alive. Blocking for its user: every call returns at the latest at the deadline it
// is given. What the broker sends is bounded and checked by the codec; a broker that sends rubbish,
// nothing, or too much ends the connection with a sentence that says so.
//
// One thread. After any error the connection is closed and `why` tells the reason.
#ifndef SLUICE_CLIENT_CLIENT_H
#define SLUICE_CLIENT_CLIENT_H

#include "client/options.h"
#include "proto/mqtt_packet.h"

typedef struct client_buf {
    u8 *data;
    u32 used, capacity;
} client_buf;

struct tls_client;
struct tls_stream;

typedef struct client_conn {
    int fd; // -1 when closed
    mqtt_codec codec;
    client_buf in, out;
    struct tls_client *tls_files; // with TLS; client_close frees both
    struct tls_stream *tls;
    u64 sent_ns, ping_ns; // last time something was sent; PINGREQ without an answer since
    // what CONNACK granted
    bool session_present, retain_available;
    u8 qos_max;
    u16 receive_max, topic_alias_max, keep_alive_s;
    u32 packet_bytes_max;
    int status;    // exit status that the error asks for
    char why[256]; // after an error
} client_conn;

typedef enum client_turn_result {
    CLIENT_TURN_OK,       // something happened or the deadline came
    CLIENT_TURN_READABLE, // the extra descriptor is readable
    CLIENT_TURN_CLOSED,   // see why
} client_turn_result;

// Called for each packet after CONNACK but PINGRESP. The packet is valid during the call. Not 0
// ends client_turn early, with the connection as it is.
typedef int (*client_on_packet)(void *ctx, const mqtt_packet *packet);

// Connects, sends CONNECT, waits for a CONNACK that says yes. 0 or -EIO with why and status set.
int client_dial(client_conn *c, const client_options *o);
// Writes what is queued and reads what comes, until something has happened or CLOCK_MONOTONIC
// reaches until_ns. extra_fd: another descriptor to watch for reading, or -1.
client_turn_result client_turn(client_conn *c, u64 until_ns, int extra_fd, client_on_packet on_packet,
                               void *ctx);
// Queues a packet. 0, or -EIO after an error (too large for the broker, no memory).
int client_put(client_conn *c, const mqtt_packet *packet);
u32 client_unsent(const client_conn *c);
// Sends DISCONNECT behind what is queued, waiting at most timeout_ms, and closes.
void client_leave(client_conn *c, u8 reason, const mqtt_properties *props, u32 timeout_ms);
void client_close(client_conn *c);
// Closes with a reason. Returns -EIO.
PRINTF_LIKE(3, 4) int client_fail(client_conn *c, int status, const char *format, ...);

#endif
