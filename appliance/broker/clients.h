// SPDX-License-Identifier: Apache-2.0
// clients.h: the client ids connected to this worker, one connection each: a second connection with
// the same id takes over. All connections of an id meet here, because a connection moves to the
// worker that owns its id first (worker_of_client). Owner thread only.
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
u64 client_count(const broker *b);

#endif
