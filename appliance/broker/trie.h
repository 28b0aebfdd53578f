// SPDX-License-Identifier: Apache-2.0
// trie.h: topic filters as a tree of levels, and the walk that finds every filter a topic name
// matches (MQTT 5.0 section 4.7). It stores one pointer per filter and knows nothing of
// subscribers.
//
// Cost of a match: one keyed hash per topic level, and one look-up for each node visited; a node is
// visited only when all levels above it match. Owner thread only.
#ifndef SLUICE_BROKER_TRIE_H
#define SLUICE_BROKER_TRIE_H

#include "base/base.h"
#include "broker/pool.h"

typedef struct trie trie;
typedef struct trie_node trie_node;

// Called for each matching filter that has a value. It may set and clear values and insert filters,
// but must not prune.
typedef void (*trie_visit)(void *value, void *context);

// memory outlives the trie. Returns NULL when out of memory.
trie *trie_create(pool *memory);
// Frees the nodes; values are the caller's.
void trie_destroy(trie *t);
// The node of a valid filter, made when absent. Returns NULL when out of memory (nothing is left
// behind). The caller sets a value, or prunes.
trie_node *trie_insert(trie *t, const char *filter, u32 len);
// The node of a valid filter, NULL when absent.
trie_node *trie_find(const trie *t, const char *filter, u32 len);
// Removes the node if it has neither value nor children, then its parents likewise.
void trie_prune(trie *t, trie_node *node);
// Visits the values of all filters that match a valid topic name, in an order that depends only on
// the filters: at each level '#' first, then the literal branch, then '+'. Filters that start with
// a wildcard do not match topics that start with '$' (section 4.7.2).
void trie_match(const trie *t, const char *topic, u32 len, trie_visit visit, void *context);

void *trie_node_value(const trie_node *node);
void trie_node_set_value(trie_node *node, void *value);
// The filter's text, rebuilt: its length, and its bytes (not terminated) into out of that length.
u32 trie_node_text_bytes(const trie_node *node);
void trie_node_text(const trie_node *node, char *out, u32 len);
// Nodes without the root.
u64 trie_node_count(const trie *t);

#endif
