// SPDX-License-Identifier: Apache-2.0
// mqtt_net.h: the MQTT connections of the generator: output that is gathered over one turn of the
// loop and leaves in one send a connection, input that is cut into packets in place, and the
// handshake. What messages mean is the flow's (mqtt_flow.h, mqtt_storm.c, mqtt_retained.c), told
// through mq_role.
//
// PUBLISH is read by hand here, in a dozen instructions, since a generator that parsed with the
// broker's care could not outrun it. Everything else goes through the codec's client side, and so
// does a PUBLISH whose header the short way does not like, for the reason.
#ifndef SLUICE_BENCH_MQTT_NET_H
#define SLUICE_BENCH_MQTT_NET_H

#include "bench/bench_error.h"
#include "bench/client_io.h"
#include "bench/dial.h"
#include "bench/mqtt_options.h"
#include "net/tls_stream.h"
#include "proto/mqtt_packet.h"

typedef struct mq_net mq_net;
typedef struct mq_client mq_client;

typedef struct mq_message { // a PUBLISH that came in; bytes valid during the call
    const u8 *payload;
    u32 payload_len;
    u16 packet_id; // 0 with QoS 0
    u8 qos;
    bool dup, retain;
} mq_message;

// Any of these may be NULL where a role has no use for it. now_ns: when the kernel was last asked.
typedef struct mq_role {
    void (*ready)(mq_client *c, u64 now_ns);      // CONNACK said yes
    void (*subscribed)(mq_client *c, u64 now_ns); // SUBACK said yes
    void (*message)(mq_client *c, const mq_message *m, u64 now_ns);
    // PUBACK, PUBREC, PUBREL (answered already), PUBCOMP
    void (*ack)(mq_client *c, u8 type, const mqtt_ack *ack, u64 now_ns);
    void (*pong)(mq_client *c, u64 now_ns);
    void (*sent)(mq_client *c); // everything queued has been taken by the kernel
    void (*ended)(mq_client *c, u64 now_ns); // over; the error is counted already
} mq_role;

typedef enum mq_state { MQ_CLOSED, MQ_OPENING, MQ_READY, MQ_ENDED } mq_state;

typedef struct mq_buf {
    u8 *data;
    u32 used, capacity;
} mq_buf;

struct mq_client {
    cio_conn io;
    mq_net *net;
    const mq_role *role;
    mq_client *dirty_next;
    mq_buf fill;   // what the next send takes
    mq_buf flight; // what the send in progress holds
    mq_buf rx;     // the beginning of a packet that is not complete
    u64 started_ns;
    u32 index;
    u16 receive_max; // of the broker
    u8 state;
    bool dirty;
    bool sub_pending;
    bool tls_counted;                 // its handshake
    tls_stream *tls;                  // NULL: plain
    br_ssl_session_parameters session; // to be resumed by the next connection of this client
};

struct mq_net {
    const mq_options *o;
    cio *io;
    dial *dial;
    cio_events events;
    mqtt_codec codec; // of what the broker sends
    mq_client *dirty;
    bench_errors errors;
    u64 bytes_in, bytes_out;
    u32 run;   // number of this run in this process: in client ids, so that runs never meet
    u32 dials; // connections started so far: spreads source addresses
    u16 keep_alive_s;
    tls_client *tls; // NULL: plain
    u64 tls_full, tls_resumed; // handshakes
    char first_refusal[96]; // what the first broker that said no said: "CONNACK not_authorized"
};

void mq_net_prepare(mq_net *net, const mq_options *o, cio *io, dial *d);
mqtt_version mq_net_version(const mq_net *net);
// Hands what is queued on all connections to the event loop.
void mq_net_flush(mq_net *net);

// Starts a connection: connect and CONNECT. 0, or a negative errno after counting the error.
// once: for a storm, see cio_attach.
int mq_client_open(mq_client *c, u32 index, const mq_role *role, mq_net *net, bool once);
// Room for len bytes of output, to be filled before anything else is called; NULL when
// MQ_OUT_BYTES_MAX waits already or there is no memory.
u8 *mq_client_room(mq_client *c, u32 len);
// The same for small packets that must not be dropped: a connection without room is ended.
void mq_client_put(mq_client *c, const u8 *bytes, u32 len);
void mq_client_ack(mq_client *c, mqtt_type type, u16 packet_id);
void mq_client_ping(mq_client *c);
void mq_client_subscribe(mq_client *c, const char *filter, u8 qos);
// Writes DISCONNECT straight to the socket and closes it.
void mq_client_leave(mq_client *c);
// Counts the error and closes; role->ended is called.
void mq_client_fail(mq_client *c, bench_error error, u64 now_ns);
// Frees its memory, closing it if need be. No callback.
void mq_client_free(mq_client *c);

#endif
