// SPDX-License-Identifier: Apache-2.0
// trie.c: nodes of one cache line, level strings stored once, and one table for all edges.
//
// A level string is a `symbol`, interned: "devices" and "down" exist once however many filters use
// them. A literal edge is found in one table for the whole trie by hash(parent's path hash, level's
// hash); both come from SipHash under the process's random key, so a peer can not build collisions.
// '+' and '#' children are plain pointers.
//
// Invariants: a node lives while it has a value or children; a symbol lives while a node names it;
// the walk uses an explicit stack of at most LIMIT_TOPIC_LEVELS + 1 nodes.
#include "broker/trie.h"

#include <stdlib.h>
#include <string.h>

#include "base/siphash.h"
#include "broker/path_hash.h"
#include "broker/table.h"
#include "broker/topic.h"

typedef struct symbol {
    table_link link; // in trie.symbols
    u32 nodes;       // that name it
    u32 len;
    char text[];
} symbol;

typedef enum node_kind { NODE_LITERAL, NODE_PLUS, NODE_HASH, NODE_ROOT } node_kind;

struct trie_node {
    table_link edge; // literal: in trie.edges; the hash is that of the path from the root
    trie_node *parent;
    symbol *level;   // literal only
    trie_node *plus, *hash;
    void *value;
    u32 children;    // of all kinds
    u32 kind;
};
_Static_assert(sizeof(trie_node) == 64, "one cache line");

struct trie {
    pool *memory;
    const u8 *key;
    table symbols, edges;
    u64 nodes;
    trie_node root;
};

// A topic being matched: a level is hashed when the walk first reaches it.
typedef struct topic_path {
    u32 count, known;
    topic_level levels[LIMIT_TOPIC_LEVELS];
    u64 hashes[LIMIT_TOPIC_LEVELS];
} topic_path;

typedef struct walk_step {
    const trie_node *node;
    u32 depth; // levels consumed
} walk_step;

trie *trie_create(pool *memory) {
    trie *t = calloc(1, sizeof(*t));
    if (t == NULL) return NULL;
    t->memory = memory;
    t->key = siphash_process_key();
    t->root.kind = NODE_ROOT;
    if (table_init(&t->symbols, memory) < 0) goto no_symbols;
    if (table_init(&t->edges, memory) < 0) goto no_edges;
    return t;

no_edges:
    table_free(&t->symbols);
no_symbols:
    free(t);
    return NULL;
}

void trie_destroy(trie *t) {
    if (t == NULL) return;
    table_free(&t->edges);
    table_free(&t->symbols);
    free(t); // nodes and symbols go with the pool
}

// --- symbols ---

static u64 level_hash(const trie *t, const topic_level *level) {
    return siphash24(t->key, level->text, level->len);
}

static bool symbol_is(const symbol *s, const topic_level *level) {
    return s->len == level->len && memcmp(s->text, level->text, level->len) == 0;
}

static symbol *symbol_acquire(trie *t, const topic_level *level, u64 hash) {
    for (table_link *at = table_first(&t->symbols, hash); at != NULL; at = table_next(at)) {
        symbol *s = CONTAINER_OF(at, symbol, link);
        if (!symbol_is(s, level)) continue;
        s->nodes++;
        return s;
    }
    symbol *s = pool_alloc(t->memory, sizeof(*s) + level->len);
    if (s == NULL) return NULL;
    s->nodes = 1;
    s->len = level->len;
    memcpy(s->text, level->text, level->len);
    table_insert(&t->symbols, &s->link, hash);
    return s;
}

static void symbol_release(trie *t, symbol *s) {
    if (--s->nodes > 0) return;
    table_remove(&t->symbols, &s->link);
    pool_free(t->memory, s, sizeof(*s) + s->len);
}

// --- nodes ---

static bool level_is(const topic_level *level, char wildcard) {
    return level->len == 1 && level->text[0] == wildcard;
}

static trie_node *literal_child(const trie *t, const trie_node *parent, const topic_level *level,
                                u64 hash) {
    u64 path = path_hash(parent->edge.hash, hash);
    for (table_link *at = table_first(&t->edges, path); at != NULL; at = table_next(at)) {
        trie_node *node = CONTAINER_OF(at, trie_node, edge);
        if (node->parent == parent && symbol_is(node->level, level)) return node;
    }
    return NULL;
}

static trie_node *child_find(const trie *t, const trie_node *parent, const topic_level *level) {
    if (level_is(level, '+')) return parent->plus;
    if (level_is(level, '#')) return parent->hash;
    return literal_child(t, parent, level, level_hash(t, level));
}

static trie_node *child_create(trie *t, trie_node *parent, const topic_level *level) {
    trie_node *node = pool_alloc(t->memory, sizeof(*node));
    if (node == NULL) return NULL;
    memset(node, 0, sizeof(*node));
    node->parent = parent;
    if (level_is(level, '+')) {
        node->kind = NODE_PLUS;
        node->edge.hash = path_hash(parent->edge.hash, NODE_PLUS);
        parent->plus = node;
    } else if (level_is(level, '#')) {
        node->kind = NODE_HASH;
        parent->hash = node;
    } else {
        node->kind = NODE_LITERAL;
        node->level = symbol_acquire(t, level, level_hash(t, level));
        if (node->level == NULL) {
            pool_free(t->memory, node, sizeof(*node));
            return NULL;
        }
        table_insert(&t->edges, &node->edge, path_hash(parent->edge.hash, node->level->link.hash));
    }
    parent->children++;
    t->nodes++;
    return node;
}

static void node_remove(trie *t, trie_node *node) {
    trie_node *parent = node->parent;
    if (node->kind == NODE_PLUS) {
        parent->plus = NULL;
    } else if (node->kind == NODE_HASH) {
        parent->hash = NULL;
    } else {
        table_remove(&t->edges, &node->edge);
        symbol_release(t, node->level);
    }
    pool_free(t->memory, node, sizeof(*node));
    parent->children--;
    t->nodes--;
}

trie_node *trie_insert(trie *t, const char *filter, u32 len) {
    topic_level levels[LIMIT_TOPIC_LEVELS];
    u32 count = topic_split(filter, len, levels);
    trie_node *node = &t->root;
    for (u32 i = 0; i < count; i++) {
        trie_node *child = child_find(t, node, &levels[i]);
        if (child == NULL) child = child_create(t, node, &levels[i]);
        if (child == NULL) {
            trie_prune(t, node);
            return NULL;
        }
        node = child;
    }
    return node;
}

trie_node *trie_find(const trie *t, const char *filter, u32 len) {
    topic_level levels[LIMIT_TOPIC_LEVELS];
    u32 count = topic_split(filter, len, levels);
    const trie_node *node = &t->root;
    trie_node *child = NULL;
    for (u32 i = 0; i < count; i++) {
        child = child_find(t, node, &levels[i]);
        if (child == NULL) return NULL;
        node = child;
    }
    return child;
}

void trie_prune(trie *t, trie_node *node) {
    while (node->kind != NODE_ROOT && node->value == NULL && node->children == 0) {
        trie_node *parent = node->parent;
        node_remove(t, node);
        node = parent;
    }
}

// --- matching ---

static u64 path_level_hash(const trie *t, topic_path *path, u32 depth) {
    while (path->known <= depth) {
        path->hashes[path->known] = level_hash(t, &path->levels[path->known]);
        path->known++;
    }
    return path->hashes[depth];
}

static void visit_value(const trie_node *node, trie_visit visit, void *context) {
    if (node != NULL && node->value != NULL) visit(node->value, context);
}

void trie_match(const trie *t, const char *topic, u32 len, trie_visit visit, void *context) {
    topic_path path;
    walk_step stack[LIMIT_TOPIC_LEVELS + 1];
    path.count = topic_split(topic, len, path.levels);
    path.known = 0;
    u32 top = 0;
    stack[top++] = (walk_step){&t->root, 0};
    while (top > 0) {
        walk_step step = stack[--top];
        const trie_node *node = step.node;
        bool wildcards = step.depth > 0 || topic[0] != '$';
        if (wildcards) visit_value(node->hash, visit, context);
        if (step.depth == path.count) {
            visit_value(node, visit, context);
            continue;
        }
        ASSERT(top + 2 <= ARRAY_LEN(stack));
        if (wildcards && node->plus != NULL) stack[top++] = (walk_step){node->plus, step.depth + 1};
        const trie_node *child = literal_child(t, node, &path.levels[step.depth],
                                               path_level_hash(t, &path, step.depth));
        if (child != NULL) stack[top++] = (walk_step){child, step.depth + 1};
    }
}

// --- what a node stands for ---

void *trie_node_value(const trie_node *node) {
    return node->value;
}

void trie_node_set_value(trie_node *node, void *value) {
    node->value = value;
}

u32 trie_node_text_bytes(const trie_node *node) {
    u32 len = 0;
    for (; node->kind != NODE_ROOT; node = node->parent) {
        len += node->kind == NODE_LITERAL ? node->level->len : 1;
        if (node->parent->kind != NODE_ROOT) len++; // the separator
    }
    return len;
}

void trie_node_text(const trie_node *node, char *out, u32 len) {
    u32 at = len;
    for (; node->kind != NODE_ROOT; node = node->parent) {
        if (node->kind == NODE_LITERAL) {
            at -= node->level->len;
            memcpy(out + at, node->level->text, node->level->len);
        } else {
            out[--at] = node->kind == NODE_PLUS ? '+' : '#';
        }
        if (node->parent->kind != NODE_ROOT) out[--at] = '/';
    }
    ASSERT(at == 0);
}

u64 trie_node_count(const trie *t) {
    return t->nodes;
}
