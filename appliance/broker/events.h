// SPDX-License-Identifier: Apache-2.0
// events.h: what happens to clients, published as JSON on $events/connect, $events/disconnect,
// $events/subscribe and $events/unsubscribe when the configuration asks for it. An event that meets
// congestion is dropped and counted: it never holds up a client. Owner thread of the worker; not
// inside a delivery.
#ifndef SLUICE_BROKER_EVENTS_H
#define SLUICE_BROKER_EVENTS_H

#include "base/base.h"

typedef struct worker worker;

typedef struct event_connect {
    const char *client, *peer, *listener;
    u32 client_len;
    u8 version;        // MQTT protocol level
    u16 keep_alive_s;
    u32 expiry_s;
    bool clean_start, session_present;
} event_connect;

void events_connect(worker *w, const event_connect *e);
void events_disconnect(worker *w, const char *client, u32 client_len, const char *reason);
void events_subscribe(worker *w, const char *client, u32 client_len, const char *filter, u32 len, u8 qos);
void events_unsubscribe(worker *w, const char *client, u32 client_len, const char *filter, u32 len);

#endif
