// SPDX-License-Identifier: Apache-2.0
// mqtt_script.h: an MQTT 5 client that says what a test tells it to, one packet at a time, for cases in which the
// moment counts; mqtt_client.h has those that do what they like.
#ifndef SLUICE_TESTS_MQTT_SCRIPT_H
#define SLUICE_TESTS_MQTT_SCRIPT_H

#include "mqtt_client.h"

#define SCRIPT_EXPIRY_S 100000u

typedef struct script_client {
    rig *r;
    const char *id;
    const char *will_topic, *will_payload; // of QoS 1; NULL: none
    sim_peer *peer; // NULL: not connected
    u8 in[4096];
    size_t in_len, in_used;
} script_client;

// The power has gone, or the rig has failed: nothing is said any more, and nothing comes.
bool script_is_over(const rig *r);
// Turns until `ns` have passed, or it is over.
void script_turn(rig *r, u64 ns);
// Connects to one of the workers and says CONNECT. Fails the rig when nobody listens.
void script_connect(script_client *c, bool clean, u32 expiry_s);
// How a connection ends on the client's side.
typedef enum script_loss { SCRIPT_CLOSE, SCRIPT_RESET, SCRIPT_LOSSES } script_loss;
void script_lose(script_client *c, script_loss how);
void script_publish(script_client *c, const char *topic, u8 qos, u16 id, bool dup, bool retain, const char *payload);
// With QoS 1 and a message expiry interval.
void script_publish_expiring(script_client *c, const char *topic, u16 id, bool retain, u32 expiry_s,
                             const char *payload);
void script_subscribe(script_client *c, const char *filter, u8 qos);
void script_unsubscribe(script_client *c, const char *filter);
void script_ack(script_client *c, mqtt_type type, u16 id);
// The next packet that has come; its bytes are valid until the next call. False: none.
bool script_take(script_client *c, mqtt_packet *p);
// Waits for a packet of that type, at most 30 s; others fail the rig. When it is over before, p has type SCRIPT_ANY.
#define SCRIPT_ANY ((mqtt_type)0)
void script_want(script_client *c, mqtt_type type, mqtt_packet *p);
// Nothing may come for so long.
void script_want_nothing(script_client *c, u64 ns);
void script_goodbye(script_client *c); // DISCONNECT; its session stays
// Ends its session and says goodbye.
void script_end(script_client *c);

// The world of a script: no faults, one listener, logs on a simulated disk. Before rig_open; and its end.
void script_setup(mq_setup *chosen);
void script_close(mq_setup *chosen, rig *r, char *failure, size_t failure_bytes);

#endif
