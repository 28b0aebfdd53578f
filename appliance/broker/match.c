// SPDX-License-Identifier: Apache-2.0
// match.c: which filters a topic matches: from a cache of topics that come again and again, or by a
// walk of the trie.
//
// A cached topic holds all its filter records, those included that only other workers have an interest
// in, and what they say is read from them each time. So only a filter that comes or goes makes the
// cache invalid, as a whole, by a number; who subscribes to a known filter does not. A topic is
// remembered when it is met a second time without another in between that has the same place. When
// few topics are found the cache is left alone for a while: a load of ever new topics hardly pays for it.
//
// Invariant: the cache holds valid topic names only.
#include <errno.h>
#include <string.h>

#include "base/siphash.h"
#include "broker/route.h"
#include "broker/topic.h"

#define ENTRY_FILTERS 5u
#define ENTRY_TOPIC_BYTES 72u

#define TRIAL 1024u  // look-ups after which its use is judged
#define REST 16384u  // publishes that go past it when fewer than a quarter were found

typedef struct match_entry {
    u64 hash;
    u32 generation;
    u16 len, count;
    route_filter *filters[ENTRY_FILTERS];
    char topic[ENTRY_TOPIC_BYTES];
} match_entry;
_Static_assert(sizeof(match_entry) == 128, "two cache lines");
_Static_assert(IS_POWER_OF_TWO(LIMIT_MATCH_CACHE), "the index is masked");

struct match_cache {
    u32 generation;
    u32 lookups, found;           // of this trial
    u32 rest;                     // publishes still to go past
    u32 tags[LIMIT_MATCH_CACHE];  // topic last met in each place: small, so a miss touches little
    match_entry entries[LIMIT_MATCH_CACHE];
};

int match_cache_init(broker *b) {
    match_cache *cache = pool_alloc(b->memory, sizeof(*cache));
    if (cache == NULL) return -ENOMEM;
    memset(cache, 0, sizeof(*cache));
    cache->generation = 1;
    b->cache = cache;
    return 0;
}

void match_cache_invalidate(broker *b) {
    match_cache *cache = b->cache;
    if (++cache->generation != 0) return;
    memset(cache, 0, sizeof(*cache)); // once in 2^32 changes
    cache->generation = 1;
}

static void collect(broker *b, route_match *match, route_filter *f) {
    match->workers_mask |= f->remote_mask;
    if (!scratch_push_room(b, &b->found)) {
        match->no_memory = true;
        return;
    }
    ((route_filter **)b->found.items)[b->found.used++] = f;
    match->count++;
    match->plain += f->first != NULL;
    match->groups += f->groups != NULL;
}

typedef struct collector {
    broker *b;
    route_match *match;
} collector;

static void collect_visit(void *value, void *context) {
    const collector *c = context;
    collect(c->b, c->match, value);
}

// Whether to look at all.
static bool cache_is_of_use(match_cache *cache) {
    if (cache->rest > 0) {
        cache->rest--;
        return false;
    }
    if (++cache->lookups < TRIAL) return true;
    if (cache->found < TRIAL / 4) cache->rest = REST;
    cache->lookups = cache->found = 0;
    return true;
}

static u32 place_of(u64 hash) {
    return (u32)hash & (LIMIT_MATCH_CACHE - 1);
}

static u32 tag_of(u64 hash) {
    return (u32)(hash >> 32);
}

static const match_entry *entry_find(match_cache *cache, u64 hash, const char *topic, u32 len) {
    if (cache->tags[place_of(hash)] != tag_of(hash)) return NULL;
    const match_entry *e = &cache->entries[place_of(hash)];
    if (e->hash != hash || e->generation != cache->generation || e->len != len) return NULL;
    return memcmp(e->topic, topic, len) == 0 ? e : NULL;
}

static void remember(broker *b, u64 hash, const char *topic, u32 len, const route_match *match) {
    match_cache *cache = b->cache;
    u32 *tag = &cache->tags[place_of(hash)];
    bool again = *tag == tag_of(hash);
    *tag = tag_of(hash);
    if (!again || match->count > ENTRY_FILTERS || len > ENTRY_TOPIC_BYTES) return;
    match_entry *e = &cache->entries[place_of(hash)];
    e->hash = hash;
    e->generation = cache->generation;
    e->len = (u16)len;
    e->count = (u16)match->count;
    memcpy(e->topic, topic, len);
    memcpy(e->filters, (route_filter **)b->found.items + match->base,
           match->count * sizeof(*e->filters));
}

int match_collect(broker *b, const char *topic, u32 len, route_match *match) {
    *match = (route_match){.base = b->found.used};
    bool cached = cache_is_of_use(b->cache);
    u64 hash = cached ? siphash24(siphash_process_key(), topic, len) : 0;
    const match_entry *e = cached ? entry_find(b->cache, hash, topic, len) : NULL;
    if (e != NULL) {
        b->cache->found++;
        for (u32 i = 0; i < e->count; i++) collect(b, match, e->filters[i]);
        return match->no_memory ? -ENOMEM : 0;
    }
    if (!topic_name_is_valid(topic, len)) return -EINVAL;
    collector c = {b, match};
    trie_match(b->filters, topic, len, collect_visit, &c);
    if (match->no_memory) return -ENOMEM;
    if (cached) remember(b, hash, topic, len, match);
    return 0;
}

void match_end(broker *b, const route_match *match) {
    b->found.used = match->base;
}
