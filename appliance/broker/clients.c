// SPDX-License-Identifier: Apache-2.0
// clients.c: the table of client ids. The entry is part of the session, so there is nothing to
// allocate and a claim can not fail; the hash is keyed because devices choose their ids.
#include "broker/clients.h"

#include <string.h>

#include "base/siphash.h"
#include "broker/route.h"

static client *find_hashed(const broker *b, const char *id, u32 len, u64 hash) {
    for (table_link *at = table_first(&b->clients, hash); at != NULL; at = table_next(at)) {
        client *c = CONTAINER_OF(at, client, link);
        if (c->id_len == len && memcmp(c->id, id, len) == 0) return c;
    }
    return NULL;
}

client *client_find(const broker *b, const char *id, u32 len) {
    return find_hashed(b, id, len, siphash24(siphash_process_key(), id, len));
}

void client_claim(broker *b, client *c) {
    ASSERT(!c->claimed && c->taken_over != NULL);
    u64 hash = siphash24(siphash_process_key(), c->id, c->id_len);
    client *earlier = find_hashed(b, c->id, c->id_len, hash);
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

bool client_walk(const broker *b, u64 *cursor, u32 max, void (*visit)(client *c, void *context),
                 void *context) {
    const table *t = &b->clients;
    u32 seen = 0;
    // Empty buckets are cheap, but there may be many.
    u64 end = MIN(t->buckets, *cursor + 16ull * max);
    for (; *cursor < end && seen < max; (*cursor)++) {
        for (table_link *at = table_bucket(t, *cursor); at != NULL; at = at->next, seen++) {
            visit(CONTAINER_OF(at, client, link), context);
        }
    }
    return *cursor < t->buckets;
}
