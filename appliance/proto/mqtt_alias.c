// SPDX-License-Identifier: Apache-2.0
// mqtt_alias.c: topic aliases towards a client (5.0 section 3.3.2.3.4). The first topics that are sent to
// a client on a connection get the aliases it allows, and keep them: a client that subscribes to few topics
// saves their names in every message, for one that gets many nothing is lost. Which topics are known is told
// by a keyed hash, since topics are chosen by others.
#include <string.h>

#include "base/siphash.h"
#include "proto/mqtt_session.h"

#define TOPIC_BYTES_MIN 4u // an alias costs three bytes

typedef struct known_topic {
    u64 hash;
    char *topic;
    u32 len;
} known_topic;

struct mqtt_alias_table {
    u32 count;     // aliases given; alias n is topics[n - 1]
    u32 max;
    u32 slot_mask;
    u16 *slots;    // alias by hash, linear probing; 0 = free
    known_topic topics[];
};

static u32 slot_count_of(u32 max) {
    u32 count = 4;
    while (count < max * 2) count *= 2;
    return count;
}

static size_t table_bytes(u32 max) {
    return sizeof(mqtt_alias_table) + max * sizeof(known_topic) + slot_count_of(max) * sizeof(u16);
}

static mqtt_alias_table *table_create(mqtt_session *s) {
    u32 max = s->alias_max;
    mqtt_alias_table *t = pool_alloc(mqtt_pool(s), table_bytes(max));
    if (t == NULL) return NULL;
    memset(t, 0, table_bytes(max));
    t->max = max;
    t->slot_mask = slot_count_of(max) - 1;
    t->slots = (u16 *)(void *)(t->topics + max);
    return t;
}

u16 mqtt_alias_find(mqtt_session *s, const char *topic, u32 len, bool *known) {
    *known = false;
    if (len < TOPIC_BYTES_MIN || mqtt_outbound_of(s) == NULL) return 0;
    if (s->out->aliases == NULL) s->out->aliases = table_create(s);
    mqtt_alias_table *t = s->out->aliases;
    if (t == NULL) return 0; // no memory: without an alias
    u64 hash = siphash24(siphash_process_key(), topic, len);
    for (u32 at = (u32)hash & t->slot_mask; t->slots[at] != 0; at = (at + 1) & t->slot_mask) {
        const known_topic *k = &t->topics[t->slots[at] - 1];
        if (k->hash != hash || k->len != len || memcmp(k->topic, topic, len) != 0) continue;
        *known = true;
        return t->slots[at];
    }
    return t->count < t->max ? (u16)(t->count + 1) : 0;
}

// Where there is no memory for the name the alias stays unknown, and is told again with the next topic.
void mqtt_alias_told(mqtt_session *s, u16 alias, const char *topic, u32 len) {
    mqtt_alias_table *t = s->out->aliases;
    ASSERT(alias == t->count + 1);
    char *copy = pool_alloc(mqtt_pool(s), len);
    if (copy == NULL) return;
    memcpy(copy, topic, len);
    u64 hash = siphash24(siphash_process_key(), topic, len);
    t->topics[t->count++] = (known_topic){hash, copy, len};
    u32 at = (u32)hash & t->slot_mask;
    while (t->slots[at] != 0) at = (at + 1) & t->slot_mask;
    t->slots[at] = alias;
}

void mqtt_alias_free(mqtt_session *s) {
    if (s->out == NULL || s->out->aliases == NULL) return;
    mqtt_alias_table *t = s->out->aliases;
    for (u32 i = 0; i < t->count; i++) pool_free(mqtt_pool(s), t->topics[i].topic, t->topics[i].len);
    pool_free(mqtt_pool(s), t, table_bytes(t->max));
    s->out->aliases = NULL;
}
