// SPDX-License-Identifier: Apache-2.0
// test_trie.c: the subscription trie and its table against plain models: a matcher that follows the
// text of MQTT 5.0 section 4.7 level by level, and an array.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "broker/table.h"
#include "broker/topic.h"
#include "broker/trie.h"
#include "random.h"

#define BUDGET (64ull << 20)

// --- the model ---

static bool model_levels_match(const topic_level *filter, u32 filters, const topic_level *topic,
                               u32 topics) {
    if (filters == 0) return topics == 0;
    if (filter[0].len == 1 && filter[0].text[0] == '#') return true;
    if (topics == 0) return false;
    bool same = filter[0].len == topic[0].len &&
                memcmp(filter[0].text, topic[0].text, topic[0].len) == 0;
    bool plus = filter[0].len == 1 && filter[0].text[0] == '+';
    return (same || plus) && model_levels_match(filter + 1, filters - 1, topic + 1, topics - 1);
}

static bool model_match(const char *filter, const char *topic) {
    topic_level f[LIMIT_TOPIC_LEVELS], t[LIMIT_TOPIC_LEVELS];
    if (topic[0] == '$' && (filter[0] == '+' || filter[0] == '#')) return false;
    u32 filters = topic_split(filter, (u32)strlen(filter), f);
    u32 topics = topic_split(topic, (u32)strlen(topic), t);
    return model_levels_match(f, filters, t, topics);
}

// --- helpers ---

typedef struct seen {
    u32 count;
    const char *values[4096];
} seen;

static void visit(void *value, void *context) {
    seen *s = context;
    assert_true(s->count < ARRAY_LEN(s->values));
    s->values[s->count++] = value;
}

static trie_node *add(trie *t, const char *filter) {
    trie_node *node = trie_insert(t, filter, (u32)strlen(filter));
    assert_non_null(node);
    trie_node_set_value(node, (void *)(uintptr_t)filter);
    return node;
}

static void drop(trie *t, const char *filter) {
    trie_node *node = trie_find(t, filter, (u32)strlen(filter));
    assert_non_null(node);
    trie_node_set_value(node, NULL);
    trie_prune(t, node);
}

static seen match(const trie *t, const char *topic) {
    seen s = {0};
    trie_match(t, topic, (u32)strlen(topic), visit, &s);
    return s;
}

static bool matches(const char *filter, const char *topic) {
    pool *memory = pool_create(BUDGET);
    trie *t = trie_create(memory);
    add(t, filter);
    bool result = match(t, topic).count == 1;
    assert_int_equal(result, model_match(filter, topic));
    trie_destroy(t);
    pool_destroy(memory);
    return result;
}

// --- tests ---

// The examples of the standard, and the corners around them.
static void test_standard(void **state) {
    (void)state;
    assert_true(matches("sport/tennis/player1/#", "sport/tennis/player1"));
    assert_true(matches("sport/tennis/player1/#", "sport/tennis/player1/ranking"));
    assert_true(matches("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon"));
    assert_true(matches("sport/#", "sport"));
    assert_true(matches("#", "anything/at/all"));
    assert_true(matches("sport/tennis/+", "sport/tennis/player1"));
    assert_false(matches("sport/tennis/+", "sport/tennis/player1/ranking"));
    assert_false(matches("sport/+", "sport"));
    assert_true(matches("sport/+", "sport/"));
    assert_true(matches("+/+", "/finance"));
    assert_true(matches("/+", "/finance"));
    assert_false(matches("+", "/finance"));
    assert_false(matches("#", "$SYS/uptime"));
    assert_false(matches("+/monitor/Clients", "$SYS/monitor/Clients"));
    assert_true(matches("$SYS/#", "$SYS/"));
    assert_true(matches("$SYS/monitor/+", "$SYS/monitor/Clients"));
    assert_true(matches("a/$b/+", "a/$b/c"));
    assert_true(matches("a/+", "a/$b")); // only the first character of the topic counts
    assert_true(matches("/", "/"));
    assert_false(matches("/", "//"));
    assert_true(matches("+/+/+", "//"));
    assert_true(matches("//#", "//"));
    assert_false(matches("ACCOUNTS", "Accounts"));
    assert_false(matches("a", "ab"));
    assert_false(matches("ab", "a"));
}

static void test_order_is_fixed(void **state) {
    (void)state;
    const char *filters[] = {"+/+", "a/b", "a/#", "+/b", "#", "a/+", "a/b/#", "+/#", "a/b/c"};
    const char *expected[] = {"#", "a/#", "a/b/#", "a/b", "a/+", "+/#", "+/b", "+/+"};
    pool *memory = pool_create(BUDGET);
    for (u32 turn = 0; turn < ARRAY_LEN(filters); turn++) {
        trie *t = trie_create(memory);
        for (u32 i = 0; i < ARRAY_LEN(filters); i++) {
            add(t, filters[(i + turn) % ARRAY_LEN(filters)]);
        }
        seen s = match(t, "a/b");
        assert_int_equal(s.count, ARRAY_LEN(expected));
        for (u32 i = 0; i < s.count; i++) assert_string_equal(s.values[i], expected[i]);
        for (u32 i = 0; i < ARRAY_LEN(filters); i++) drop(t, filters[i]);
        assert_int_equal(trie_node_count(t), 0);
        trie_destroy(t);
    }
    assert_int_equal(pool_used_bytes(memory), 0);
    pool_destroy(memory);
}

static void test_text_is_rebuilt(void **state) {
    (void)state;
    const char *filters[] = {"a", "/", "//", "+", "#", "a/+/b/#", "/+/", "devices/42/down", "+/#"};
    pool *memory = pool_create(BUDGET);
    trie *t = trie_create(memory);
    for (u32 i = 0; i < ARRAY_LEN(filters); i++) {
        char text[64] = {0};
        const trie_node *node = add(t, filters[i]);
        assert_int_equal(trie_node_text_bytes(node), strlen(filters[i]));
        trie_node_text(node, text, trie_node_text_bytes(node));
        assert_string_equal(text, filters[i]);
    }
    trie_destroy(t);
    pool_destroy(memory);
}

// The deepest filters and topics there are: all wildcards, all empty levels.
static void test_deepest(void **state) {
    (void)state;
    char pluses[2 * LIMIT_TOPIC_LEVELS], slashes[LIMIT_TOPIC_LEVELS], mixed[2 * LIMIT_TOPIC_LEVELS];
    for (u32 i = 0; i < LIMIT_TOPIC_LEVELS; i++) {
        pluses[2 * i] = '+';
        mixed[2 * i] = i + 1 == LIMIT_TOPIC_LEVELS ? '#' : '+';
        pluses[2 * i + 1] = mixed[2 * i + 1] = i + 1 == LIMIT_TOPIC_LEVELS ? 0 : '/';
        slashes[i] = i + 1 == LIMIT_TOPIC_LEVELS ? 0 : '/';
    }
    pool *memory = pool_create(BUDGET);
    trie *t = trie_create(memory);
    add(t, pluses);
    add(t, slashes);
    add(t, mixed);
    seen s = match(t, slashes);
    assert_int_equal(s.count, 3);
    assert_true(model_match(pluses, slashes));
    assert_true(model_match(slashes, slashes));
    assert_true(model_match(mixed, slashes));
    drop(t, pluses);
    assert_int_equal(match(t, slashes).count, 2);
    drop(t, mixed);
    drop(t, slashes);
    assert_int_equal(trie_node_count(t), 0);
    trie_destroy(t);
    assert_int_equal(pool_used_bytes(memory), 0);
    pool_destroy(memory);
}

static void random_topic(u64 *seed, bool filter, char *out) {
    static const char *const levels[] = {"a", "b", "c", "", "$x", "aa", "longer-level-name"};
    u32 count = 1 + random_below(seed, 5);
    out[0] = 0;
    for (u32 i = 0; i < count; i++) {
        if (i > 0) strcat(out, "/");
        if (filter && random_below(seed, 4) == 0) {
            bool last = i + 1 == count && random_below(seed, 2) == 0;
            strcat(out, last ? "#" : "+");
        } else {
            strcat(out, levels[random_below(seed, ARRAY_LEN(levels))]);
        }
    }
    if (out[0] == 0) strcpy(out, "a");
}

// Random filters come and go; after each step random topics are matched by the trie and by the
// model.
static void test_random_against_model(void **state) {
    (void)state;
    enum { FILTERS = 300, STEPS = 6000, TEXT = 128 };
    static char filters[FILTERS][TEXT];
    static bool present[FILTERS];
    for (u64 seed = 1; seed <= 3; seed++) {
        u64 random = seed;
        pool *memory = pool_create(BUDGET);
        trie *t = trie_create(memory);
        u64 empty_bytes = pool_used_bytes(memory);
        memset(present, 0, sizeof(present));
        for (u32 step = 0; step < STEPS; step++) {
            u32 i = random_below(&random, FILTERS);
            if (present[i]) {
                drop(t, filters[i]);
                present[i] = false;
            } else {
                random_topic(&random, true, filters[i]);
                assert_true(topic_filter_is_valid(filters[i], strlen(filters[i])));
                if (trie_find(t, filters[i], (u32)strlen(filters[i])) != NULL &&
                    trie_node_value(trie_find(t, filters[i], (u32)strlen(filters[i]))) != NULL) {
                    continue; // the same text under another index
                }
                add(t, filters[i]);
                present[i] = true;
            }
            char topic[TEXT];
            random_topic(&random, false, topic);
            seen s = match(t, topic);
            u32 expected = 0;
            for (u32 k = 0; k < FILTERS; k++) {
                if (!present[k] || !model_match(filters[k], topic)) continue;
                expected++;
                bool found = false;
                for (u32 v = 0; v < s.count; v++) found = found || s.values[v] == filters[k];
                if (!found) fail_msg("'%s' did not match '%s'", filters[k], topic);
            }
            assert_int_equal(s.count, expected);
        }
        for (u32 k = 0; k < FILTERS; k++) {
            if (present[k]) drop(t, filters[k]);
        }
        assert_int_equal(trie_node_count(t), 0);
        assert_int_equal(pool_used_bytes(memory), empty_bytes);
        trie_destroy(t);
        pool_destroy(memory);
    }
}

// Memory that runs out at any step leaves the trie as it was.
static void test_out_of_budget(void **state) {
    (void)state;
    for (u64 budget = 8192; budget < 24000; budget += 400) {
        pool *memory = pool_create(budget);
        trie *t = trie_create(memory);
        assert_non_null(t);
        u64 empty_bytes = pool_used_bytes(memory), nodes = 0;
        trie_node *added[1000];
        u32 count = 0;
        char text[64];
        for (; count < ARRAY_LEN(added); count++) {
            snprintf(text, sizeof(text), "one/two/%u/+/four-%u/#", count, count);
            added[count] = trie_insert(t, text, (u32)strlen(text));
            if (added[count] == NULL) break;
            trie_node_set_value(added[count], memory);
            nodes = trie_node_count(t);
        }
        assert_true(count < ARRAY_LEN(added));
        assert_int_equal(trie_node_count(t), nodes);
        for (u32 i = 0; i < count; i++) {
            snprintf(text, sizeof(text), "one/two/%u/x/four-%u/y", i, i);
            assert_int_equal(match(t, text).count, 1);
            trie_node_set_value(added[i], NULL);
            trie_prune(t, added[i]);
        }
        assert_int_equal(trie_node_count(t), 0);
        assert_int_equal(pool_used_bytes(memory), empty_bytes);
        trie_destroy(t);
        pool_destroy(memory);
    }
}

typedef struct entry {
    table_link link;
    u64 key;
    bool in;
} entry;

// The table through growth and shrinking, with keys that share hashes.
static void test_table(void **state) {
    (void)state;
    enum { ENTRIES = 20000 };
    pool *memory = pool_create(BUDGET);
    table t;
    u64 random = 5;
    entry *entries = calloc(ENTRIES, sizeof(*entries));
    assert_non_null(entries);
    assert_int_equal(table_init(&t, memory), 0);
    u64 least = pool_used_bytes(memory);
    for (u32 round = 0; round < 4; round++) {
        u32 wanted = round % 2 == 0 ? ENTRIES : 50;
        for (u32 i = 0; i < ENTRIES; i++) {
            bool in = i < wanted;
            if (in == entries[i].in) continue;
            entries[i].key = in ? (random_next(&random) << 1) | (i & 1) : entries[i].key;
            if (in) table_insert(&t, &entries[i].link, entries[i].key & ~7ull);
            else table_remove(&t, &entries[i].link);
            entries[i].in = in;
        }
        assert_int_equal(t.count, wanted);
        for (u32 i = 0; i < ENTRIES; i++) {
            u32 found = 0;
            table_link *at = table_first(&t, entries[i].key & ~7ull);
            for (; at != NULL; at = table_next(at)) found += at == &entries[i].link;
            assert_int_equal(found, entries[i].in);
        }
        if (wanted == ENTRIES) assert_true(t.buckets >= ENTRIES);
        else assert_true(t.buckets <= 4 * 50 + 64);
    }
    for (u32 i = 0; i < 50; i++) table_remove(&t, &entries[i].link);
    assert_int_equal(t.count, 0);
    table_free(&t);
    assert_int_equal(pool_used_bytes(memory), 0);
    assert_true(least > 0);
    pool_destroy(memory);
    free(entries);
}

// Without memory for buckets the table goes on with longer chains.
static void test_table_without_memory(void **state) {
    (void)state;
    pool *memory = pool_create(64 << 10);
    table t;
    void *rest = NULL;
    entry *entries = calloc(1000, sizeof(*entries));
    assert_non_null(entries);
    assert_int_equal(table_init(&t, memory), 0);
    size_t rest_bytes = (64 << 10) - pool_used_bytes(memory) - 500;
    rest = pool_alloc(memory, rest_bytes);
    assert_non_null(rest);
    for (u32 i = 0; i < 1000; i++) table_insert(&t, &entries[i].link, i * 0x9e3779b97f4a7c15ull);
    assert_int_equal(t.buckets, 64);
    for (u32 i = 0; i < 1000; i++) {
        assert_ptr_equal(table_first(&t, i * 0x9e3779b97f4a7c15ull), &entries[i].link);
        table_remove(&t, &entries[i].link);
    }
    table_free(&t);
    pool_destroy(memory);
    free(entries);
}

static void test_pool(void **state) {
    (void)state;
    pool *memory = pool_create(1 << 20);
    for (size_t bytes = 1; bytes < 20000; bytes += bytes < 5000 ? 7 : 1111) {
        u8 *object = pool_alloc(memory, bytes);
        assert_non_null(object);
        assert_int_equal((uintptr_t)object % 16, 0);
        memset(object, 0xa5, bytes);
        assert_true(pool_used_bytes(memory) >= bytes);
        assert_true(pool_used_bytes(memory) <= bytes + bytes / 2 + 32);
        pool_free(memory, object, bytes);
        assert_int_equal(pool_used_bytes(memory), 0);
    }
    assert_null(pool_alloc(memory, (1 << 20) + 1));
    assert_null(pool_alloc(memory, SIZE_MAX));
    assert_null(pool_alloc(memory, (1 << 20) - 8)); // with its header over budget
    void *half = pool_alloc(memory, 1 << 19);
    assert_non_null(half);
    assert_null(pool_alloc(memory, 1 << 19));
    pool_free(memory, NULL, 77);
    pool_destroy(memory); // frees half
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_standard), cmocka_unit_test(test_order_is_fixed),
        cmocka_unit_test(test_text_is_rebuilt), cmocka_unit_test(test_deepest),
        cmocka_unit_test(test_random_against_model), cmocka_unit_test(test_out_of_budget),
        cmocka_unit_test(test_table), cmocka_unit_test(test_table_without_memory),
        cmocka_unit_test(test_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
