// SPDX-License-Identifier: Apache-2.0
// clients.c: the table of client ids. The entry is part of the session, so there is nothing to
// allocate and a claim can not fail; the hash is keyed because devices choose their ids.
#include "broker/clients.h"

#include <string.h>

#include "base/siphash.h"
#include "broker/route.h"

static client *client_find(const broker *b, const client *like, u64 hash) {
    for (table_link *at = table_first(&b->clients, hash); at != NULL; at = table_next(at)) {
        client *c = CONTAINER_OF(at, client, link);
        if (c->id_len == like->id_len && memcmp(c->id, like->id, c->id_len) == 0) return c;
    }
    return NULL;
}

void client_claim(broker *b, client *c) {
    ASSERT(!c->claimed && c->taken_over != NULL);
    u64 hash = siphash24(siphash_process_key(), c->id, c->id_len);
    client *earlier = client_find(b, c, hash);
    if (earlier != NULL) client_release(b, earlier);
    table_insert(&b->clients, &c->link, hash);
    c->claimed = true;
    if (earlier != NULL) earlier->taken_over(earlier);
}

void client_release(broker *b, client *c) {
    if (!c->claimed) return;
    table_remove(&b->clients, &c->link);
    c->claimed = false;
}

u64 client_count(const broker *b) {
    return b->clients.count;
}
