// SPDX-License-Identifier: Apache-2.0
// clients.h: the client ids of this worker: of a framed device while it is connected, of an MQTT
// client while its session lasts. A second connection with the same id takes over. All connections of
// an id meet here, because a connection moves to the worker that owns its id first
// (worker_of_client). Owner thread only.
#ifndef SLUICE_BROKER_CLIENTS_H
#define SLUICE_BROKER_CLIENTS_H

#include "broker/broker.h"
#include "broker/table.h"

typedef struct client client;
struct client { // embedded in the owner's session
    table_link link;
    const char *id; // valid while claimed
    u32 id_len;
    bool claimed;
    // Another connection has claimed the id; this one no longer holds it. Ends the connection.
    void (*taken_over)(client *c);
};

// Makes c the holder of its id; an earlier holder loses it and is told. Can not fail.
void client_claim(broker *b, client *c);
// Gives the id up; harmless when c does not hold it.
void client_release(broker *b, client *c);
// The holder of an id on this worker, NULL when nobody has it.
client *client_find(const broker *b, const char *id, u32 len);
u64 client_count(const broker *b);
// The clients one after the other: calls visit for some from *cursor (0 to start) on, at most max of them or
// as many as one bucket holds. Returns false at the end. They come in no order; see table_bucket.
bool client_walk(const broker *b, u64 *cursor, u32 max, void (*visit)(client *c, void *context),
                 void *context);

#endif
