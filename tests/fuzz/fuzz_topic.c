// SPDX-License-Identifier: Apache-2.0
// fuzz_topic.c: the input is lines; each is checked as topic name and filter, valid filters go into
// a trie, valid names are matched against it and against a plain matcher, and the two must agree.
#include <stdlib.h>
#include <string.h>

#include "broker/topic.h"
#include "broker/trie.h"

#define FILTERS_MAX 64u
#define CHECK(ok) \
    do { \
        if (!(ok)) abort(); \
    } while (0)

typedef struct line {
    const char *text;
    u32 len;
    trie_node *node;
    u32 visits;
} line;

static bool levels_match(const topic_level *filter, u32 filters, const topic_level *topic,
                         u32 topics) {
    for (u32 i = 0; i < filters; i++) {
        if (filter[i].len == 1 && filter[i].text[0] == '#') return true;
        if (i >= topics) return false;
        if (filter[i].len == 1 && filter[i].text[0] == '+') continue;
        if (filter[i].len != topic[i].len) return false;
        if (memcmp(filter[i].text, topic[i].text, topic[i].len) != 0) return false;
    }
    return filters == topics;
}

static bool model_match(const line *filter, const line *topic) {
    topic_level f[LIMIT_TOPIC_LEVELS], t[LIMIT_TOPIC_LEVELS];
    if (topic->text[0] == '$' && (filter->text[0] == '+' || filter->text[0] == '#')) return false;
    u32 filters = topic_split(filter->text, filter->len, f);
    return levels_match(f, filters, t, topic_split(topic->text, topic->len, t));
}

static void visit(void *value, void *context) {
    (void)context;
    ((line *)value)->visits++;
}

static void check_topic(const trie *t, line *filters, u32 count, const line *topic) {
    for (u32 i = 0; i < count; i++) filters[i].visits = 0;
    trie_match(t, topic->text, topic->len, visit, NULL);
    for (u32 i = 0; i < count; i++) CHECK(filters[i].visits == model_match(&filters[i], topic));
}

static void add_filter(trie *t, line *filters, u32 *count, const line *fresh) {
    trie_node *node = trie_insert(t, fresh->text, fresh->len);
    if (node == NULL || trie_node_value(node) != NULL) return;
    CHECK(trie_find(t, fresh->text, fresh->len) == node);
    CHECK(trie_node_text_bytes(node) == fresh->len);
    char *text = malloc(fresh->len);
    CHECK(text != NULL);
    trie_node_text(node, text, fresh->len);
    CHECK(memcmp(text, fresh->text, fresh->len) == 0);
    free(text);
    filters[*count] = *fresh;
    filters[*count].node = node;
    trie_node_set_value(node, &filters[*count]);
    ++*count;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
    line filters[FILTERS_MAX];
    u32 count = 0;
    pool *memory = pool_create(1 << 20);
    CHECK(memory != NULL);
    trie *t = trie_create(memory);
    CHECK(t != NULL);
    const char *text = (const char *)data;
    for (size_t start = 0; start < size;) {
        const char *end = memchr(text + start, '\n', size - start);
        size_t len = end == NULL ? size - start : (size_t)(end - text) - start;
        line l = {.text = text + start, .len = (u32)len};
        bool name = topic_name_is_valid(l.text, len), filter = topic_filter_is_valid(l.text, len);
        CHECK(filter || !name); // every name is a filter
        if (name) check_topic(t, filters, count, &l);
        if (filter && count < FILTERS_MAX) add_filter(t, filters, &count, &l);
        start += len + 1;
    }
    for (u32 i = 0; i < count; i++) {
        trie_node_set_value(filters[i].node, NULL);
        trie_prune(t, filters[i].node);
    }
    CHECK(trie_node_count(t) == 0);
    trie_destroy(t);
    CHECK(pool_used_bytes(memory) == 0);
    pool_destroy(memory);
    return 0;
}
