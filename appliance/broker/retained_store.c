// SPDX-License-Identifier: Apache-2.0
// retained_store.c: the tree of one worker's retained messages. A node is found by the hash of its path
// in one table for the whole tree; its children are in a list, so that a walk needs no memory but its
// position.
//
// Invariants: a node lives while it has a message, children or pins; a walk visits a node once, each
// node that exists during the whole walk exactly once. New nodes are put first in their list: a walk
// that has passed there does not see them.
#include "broker/retained_store.h"

#include <errno.h>
#include <string.h>

#include "base/siphash.h"
#include "broker/path_hash.h"
#include "broker/route.h"

static void on_timer(timer_node *node, void *context) {
    (void)context;
    retained_turn(CONTAINER_OF(node, retained_part, timer)->b);
}

int retained_init(retained_part *r, broker *b) {
    r->b = b;
    r->timer.callback = on_timer;
    r->root = pool_alloc(b->memory, sizeof(*r->root));
    if (r->root == NULL) return -ENOMEM;
    memset(r->root, 0, sizeof(*r->root));
    if (table_init(&r->edges, b->memory) < 0) return -ENOMEM;
    if (table_init(&r->overtaken, b->memory) < 0) return -ENOMEM;
    return table_init(&r->readers, b->memory);
}

// --- nodes ---

static u64 level_hash(const topic_level *level) {
    return siphash24(siphash_process_key(), level->text, level->len);
}

static retained_node *child_find(const retained_part *r, const retained_node *parent,
                                 const topic_level *level) {
    u64 path = path_hash(parent->edge.hash, level_hash(level));
    for (table_link *at = table_first(&r->edges, path); at != NULL; at = table_next(at)) {
        retained_node *node = CONTAINER_OF(at, retained_node, edge);
        if (node->parent != parent || node->len != level->len) continue;
        if (memcmp(node->text, level->text, level->len) == 0) return node;
    }
    return NULL;
}

static retained_node *child_create(retained_part *r, retained_node *parent,
                                   const topic_level *level) {
    retained_node *node = pool_alloc(r->b->memory, sizeof(*node) + level->len);
    if (node == NULL) return NULL;
    memset(node, 0, sizeof(*node));
    node->parent = parent;
    node->len = level->len;
    memcpy(node->text, level->text, level->len);
    node->next = parent->first;
    if (node->next != NULL) node->next->prev = node;
    parent->first = node;
    table_insert(&r->edges, &node->edge, path_hash(parent->edge.hash, level_hash(level)));
    return node;
}

static void prune(retained_part *r, retained_node *node) {
    while (node->parent != NULL && node->message == NULL && node->first == NULL &&
           node->pins == 0) {
        retained_node *parent = node->parent;
        *(node->prev != NULL ? &node->prev->next : &parent->first) = node->next;
        if (node->next != NULL) node->next->prev = node->prev;
        table_remove(&r->edges, &node->edge);
        pool_free(r->b->memory, node, sizeof(*node) + node->len);
        node = parent;
    }
}

static retained_node *node_find(const retained_part *r, const char *topic, u32 len) {
    topic_level levels[LIMIT_TOPIC_LEVELS];
    u32 count = topic_split(topic, len, levels);
    retained_node *node = r->root;
    for (u32 i = 0; i < count && node != NULL; i++) node = child_find(r, node, &levels[i]);
    return node;
}

static retained_node *node_acquire(retained_part *r, const char *topic, u32 len) {
    topic_level levels[LIMIT_TOPIC_LEVELS];
    u32 count = topic_split(topic, len, levels);
    retained_node *node = r->root;
    for (u32 i = 0; i < count; i++) {
        retained_node *child = child_find(r, node, &levels[i]);
        if (child == NULL) child = child_create(r, node, &levels[i]);
        if (child == NULL) {
            prune(r, node);
            return NULL;
        }
        node = child;
    }
    return node;
}

// --- messages ---

static void message_clear(retained_part *r, retained_node *node) {
    message *m = node->message;
    if (m == NULL) return;
    node->message = NULL;
    counter_sub(&r->count, 1);
    counter_sub(&r->bytes, message_bytes(m));
    if (m->expires_ns != 0) r->expiring--;
    message_unref(m);
}

static void message_put(retained_part *r, retained_node *node, message *m) {
    (void)message_ref(m); // before the other is given back: they may be the same
    message_clear(r, node);
    node->message = m;
    counter_add(&r->count, 1);
    counter_add(&r->bytes, message_bytes(m));
    if (m->expires_ns != 0) r->expiring++;
}

u64 retained_hash(const char *topic, u32 len) {
    return siphash24(siphash_process_key(), topic, len);
}

u32 retained_keeper(const worker *w, const char *topic, u32 len) {
    u32 workers = w->gw->worker_count;
    return workers == 1 ? 0 : (u32)(retained_hash(topic, len) % workers);
}

typedef struct retained_total {
    u64 count, bytes;
} retained_total;

// Of all parts. What is on its way between workers is not counted yet.
static retained_total total_of(const gateway *gw) {
    retained_total all = {0};
    for (u32 i = 0; i < gw->worker_count; i++) {
        const retained_part *part = &gw->workers[i].broker->retained;
        all.count += counter_get(&part->count);
        all.bytes += counter_get(&part->bytes);
    }
    return all;
}

static bool fits(const config *conf, u64 count, u64 bytes) {
    if (conf->retained_messages_max != 0 && count > conf->retained_messages_max) return false;
    return conf->retained_bytes_max == 0 || bytes <= conf->retained_bytes_max;
}

static u64 bytes_to_be(const publication *p) {
    return offsetof(message, bytes) + p->topic_len + p->props_len + (u64)p->payload_len;
}

bool retained_exists(const retained_part *r, const char *topic, u32 len) {
    const retained_node *node = node_find(r, topic, len);
    return node != NULL && node->message != NULL;
}

int retained_admit(broker *b, u32 keeper, const publication *p) {
    const worker *w = b->owner;
    retained_total all = total_of(w->gw);
    u64 bytes = all.bytes + bytes_to_be(p);
    if (fits(w->conf, all.count + 1, bytes)) return 0;
    if (keeper != w->index) return retained_ask(b, keeper, p);
    const retained_node *node = node_find(&b->retained, p->topic, p->topic_len);
    if (node == NULL || node->message == NULL) return -ENOSPC;
    return fits(w->conf, all.count, bytes - message_bytes(node->message)) ? 0 : -ENOSPC;
}

int retained_set(retained_part *r, const publication *p, message *m) {
    if (m == NULL) {
        retained_node *node = node_find(r, p->topic, p->topic_len);
        if (node == NULL) return 0;
        message_clear(r, node);
        prune(r, node);
        return 0;
    }
    retained_node *node = node_acquire(r, p->topic, p->topic_len);
    if (node == NULL) return -ENOMEM;
    message_put(r, node, m);
    return 0;
}

void retained_store_received(broker *b, const publication *p, message **stored) {
    retained_part *r = &b->retained;
    if (p->payload_len == 0) {
        (void)retained_set(r, p, NULL);
        return;
    }
    if (*stored == NULL) *stored = message_create(b, p);
    if (*stored == NULL || retained_set(r, p, *stored) < 0) counter_add(&r->refused, 1);
}

// --- walking ---

static size_t cursor_bytes(u32 count, u32 filter_len) {
    return sizeof(retained_cursor) + count * sizeof(topic_level) + filter_len;
}

retained_cursor *cursor_create(retained_part *r, const char *filter, u32 len) {
    topic_level levels[LIMIT_TOPIC_LEVELS];
    u32 count = filter == NULL ? 0 : topic_split(filter, len, levels);
    if (filter == NULL) len = 0;
    retained_cursor *c = pool_alloc(r->b->memory, cursor_bytes(count, len));
    if (c == NULL) return NULL;
    *c = (retained_cursor){.at = r->root, .count = count, .filter_len = len};
    char *text = (char *)&c->levels[count];
    if (filter != NULL) memcpy(text, filter, len);
    for (u32 i = 0; i < count; i++) {
        c->levels[i] = (topic_level){text + (levels[i].text - filter), levels[i].len};
    }
    bool hash = count > 0 && levels[count - 1].len == 1 && levels[count - 1].text[0] == '#';
    c->hash_level = filter == NULL ? 0 : hash ? count - 1 : count + 1;
    r->root->pins++;
    return c;
}

void cursor_destroy(retained_part *r, retained_cursor *c) {
    if (c == NULL) return;
    if (c->at != NULL) {
        c->at->pins--;
        prune(r, c->at);
    }
    pool_free(r->b->memory, c, cursor_bytes(c->count, c->filter_len));
}

static void stand_on(retained_part *r, retained_cursor *c, retained_node *node) {
    retained_node *left = c->at;
    if (node != NULL) node->pins++;
    c->at = node;
    left->pins--;
    prune(r, left);
}

static bool takes_any(const retained_cursor *c, u32 level) {
    if (level >= c->hash_level) return true;
    return level < c->count && c->levels[level].len == 1 && c->levels[level].text[0] == '+';
}

// Wildcards do not match a first level that begins with '$' (section 4.7.2).
static retained_node *skip_hidden(const retained_cursor *c, retained_node *node, u32 level) {
    if (level > 0 || c->count == 0) return node;
    while (node != NULL && node->len > 0 && node->text[0] == '$') node = node->next;
    return node;
}

static retained_node *descend(const retained_part *r, const retained_cursor *c) {
    u32 level = c->depth;
    if (takes_any(c, level)) return skip_hidden(c, c->at->first, level);
    return level < c->count ? child_find(r, c->at, &c->levels[level]) : NULL;
}

// One node further; at the end c->at is NULL.
static void step(retained_part *r, retained_cursor *c) {
    retained_node *next = descend(r, c);
    if (next != NULL) {
        c->depth++;
        stand_on(r, c, next);
        return;
    }
    retained_node *from = c->at;
    for (u32 depth = c->depth; depth > 0; depth--) {
        next = takes_any(c, depth - 1) ? skip_hidden(c, from->next, depth - 1) : NULL;
        if (next != NULL) {
            c->depth = depth;
            stand_on(r, c, next);
            return;
        }
        from = from->parent;
    }
    stand_on(r, c, NULL);
}

static bool matches(const retained_cursor *c) {
    return c->depth >= c->hash_level || c->depth == c->count;
}

message *cursor_message(const retained_part *r, const retained_cursor *c) {
    message *m = c->at == NULL ? NULL : c->at->message;
    return m == NULL || message_is_expired(m, r->b->owner->now_ns) ? NULL : m;
}

message *cursor_next(retained_part *r, retained_cursor *c, u32 *steps) {
    while (*steps > 0 && c->at != NULL) {
        --*steps;
        step(r, c);
        if (c->at == NULL || c->at->message == NULL || !matches(c)) continue;
        if (!message_is_expired(c->at->message, r->b->owner->now_ns)) return c->at->message;
        message_clear(r, c->at);
    }
    return NULL;
}

bool cursor_is_at_end(const retained_cursor *c) {
    return c->at == NULL;
}

cursor_position cursor_mark(retained_cursor *c) {
    c->at->pins++;
    return (cursor_position){c->at, c->depth};
}

void cursor_back(retained_part *r, retained_cursor *c, cursor_position position) {
    retained_node *left = c->at;
    c->at = position.at; // with the mark's pin
    c->depth = position.depth;
    if (left == NULL) return;
    left->pins--;
    prune(r, left);
}

void cursor_unmark(retained_part *r, cursor_position position) {
    position.at->pins--;
    prune(r, position.at);
}

void retained_sweep(retained_part *r) {
    if (r->expiring == 0 && r->sweeper == NULL) return;
    if (r->sweeper == NULL) r->sweeper = cursor_create(r, NULL, 0);
    if (r->sweeper == NULL) return;
    u32 steps = LIMIT_RETAINED_SWEEP;
    while (cursor_next(r, r->sweeper, &steps) != NULL) {}
    if (!cursor_is_at_end(r->sweeper)) return;
    cursor_destroy(r, r->sweeper);
    r->sweeper = NULL;
}
