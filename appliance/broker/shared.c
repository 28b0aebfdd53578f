// SPDX-License-Identifier: Apache-2.0
// shared.c: groups of shared subscriptions (MQTT 5.0 section 4.8.2): all members of one share name
// and filter, this worker's one by one, the others' as counts a worker.
//
// Members are in two rings, online and offline; the one that is next to be served is at the head of
// its ring. Every change of the counts is announced to the other workers, at most one announcement
// under way to each, so a storm of reconnects costs few of them.
//
// A group lives while it has members here or elsewhere, another worker has been told of it, or
// something is under way. Its number is what parcels, sessions and other workers know it by: they
// never hold a pointer to it.
#include <string.h>

#include "broker/route.h"

enum { OFFLINE = 0, ONLINE = 1 };

static size_t group_bytes(const broker *b, u32 name_len) {
    return sizeof(share_group) + b->owner->gw->worker_count * sizeof(share_remote) + name_len;
}

char *group_name(broker *b, share_group *g) {
    return (char *)&g->remote[b->owner->gw->worker_count];
}

share_group *group_find(broker *b, const route_filter *f, const char *name, u32 len) {
    for (share_group *g = f->groups; g != NULL; g = g->next) {
        if (g->name_len == len && memcmp(group_name(b, g), name, len) == 0) return g;
    }
    return NULL;
}

share_group *group_of_id(const broker *b, u32 id) {
    for (table_link *at = table_first(&b->groups, id); at != NULL; at = table_next(at)) {
        return CONTAINER_OF(at, share_group, by_id);
    }
    return NULL;
}

// Numbers come from a counter, so the table needs no hash of them; 0 means none.
static u32 group_number_next(broker *b) {
    do {
        b->group_number++;
    } while (b->group_number == 0 || group_of_id(b, b->group_number) != NULL);
    return b->group_number;
}

share_group *group_acquire(broker *b, route_filter *f, const char *name, u32 len) {
    share_group *g = group_find(b, f, name, len);
    if (g != NULL) return g;
    g = pool_alloc(b->memory, group_bytes(b, len));
    if (g == NULL) return NULL;
    memset(g, 0, group_bytes(b, 0));
    g->told.shared = true;
    g->filter = f;
    g->name_len = len;
    memcpy(group_name(b, g), name, len);
    g->id = group_number_next(b);
    table_insert(&b->groups, &g->by_id, g->id);
    g->next = f->groups;
    f->groups = g;
    return g;
}

static bool group_is_needed(const share_group *g) {
    const interest *it = &g->told;
    if (g->members[OFFLINE] != NULL || g->members[ONLINE] != NULL) return true;
    return (g->remote_mask | it->told_mask | it->in_flight_mask) != 0 || it->lagging || g->draining;
}

void group_release(broker *b, share_group *g) {
    if (group_is_needed(g)) return;
    group_waiting_free(b, g);
    share_group **at = &g->filter->groups;
    while (*at != g) at = &(*at)->next;
    *at = g->next;
    table_remove(&b->groups, &g->by_id);
    route_filter *f = g->filter;
    pool_free(b->memory, g, group_bytes(b, g->name_len));
    filter_release(b, f);
}

bool subscriber_is_online(const subscriber *s) {
    return s->ops->load == NULL || s->ops->load(s) >= 0;
}

void group_add(broker *b, subscription *s) {
    (void)b;
    s->online = subscriber_is_online(s->subscriber);
    ring_add(&s->group->members[s->online], s);
}

void group_count(share_group *g, const subscription *s, int change) {
    g->counts[s->online] += (u32)change;
    if (s->online && s->keeps) g->keepers += (u32)change;
}

void group_keeps(share_group *g, subscription *s) {
    group_count(g, s, -1);
    s->keeps = s->subscriber->durable && s->qos > 0;
    group_count(g, s, 1);
}

// One that is away has a session, which is in the log. With members online of which none has one nothing is.
bool group_needs_log(const broker *b, const share_group *g) {
    u32 online = g->counts[ONLINE], away = g->counts[OFFLINE], keepers = g->keepers;
    if (b->durable.log == NULL) return false;
    for (u64 mask = g->remote_mask; mask != 0; mask &= mask - 1) {
        const share_remote *r = &g->remote[__builtin_ctzll(mask)];
        online += r->online;
        away += r->members - r->online;
        keepers += r->keepers;
    }
    return keepers > 0 || (online == 0 && away > 0);
}

void group_unlink(subscription *s) {
    ring_remove(&s->group->members[s->online], s);
}

void group_changed(broker *b, share_group *g) {
    g->stale_mask = b->others_mask;
    announce_reconcile_surely(b, &g->told);
    if (g->waiting > 0) broker_retry_now(b);
}

void group_remote_set(broker *b, share_group *g, u32 from, const parcel_announce *a) {
    share_remote *r = &g->remote[from];
    if (a->online > r->online) g->full_mask &= ~worker_bit(from);
    r->id = a->share_id;
    r->online = a->adds ? a->online : 0;
    r->members = a->adds ? a->members : 0;
    r->keepers = a->adds ? a->keepers : 0;
    if (a->adds) {
        g->remote_mask |= worker_bit(from);
    } else {
        g->remote_mask &= ~worker_bit(from);
    }
    if (g->waiting > 0) broker_retry_now(b);
}
