// SPDX-License-Identifier: Apache-2.0
// micro_trie.c: what a match costs in the subscription trie with many filters, beside a scan over
// all of them in the same run (filters split beforehand, so the scan is as fast as a scan can be).
// Both must find the same number of matches, or the program fails.
//
//   micro_trie [FILTERS]      default 100000
//
// One line of figures each: insert, match, scan, remove, in ns of processor time per operation, and
// memory per filter.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../unit/random.h"
#include "broker/topic.h"
#include "broker/trie.h"

#define TEXT_BYTES 64u
#define TOPICS 4096u
#define MATCH_ROUNDS 64u
#define SCAN_TOPICS 32u

typedef struct filter {
    char text[TEXT_BYTES];
    u32 len, levels;
    topic_level level[8];
    trie_node *node;
} filter;

static void require(bool ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "micro_trie: %s\n", what);
    exit(1);
}

// Processor time: others that use the machine do not count.
static u64 cpu_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (u64)ts.tv_sec * NS_PER_S + (u64)ts.tv_nsec;
}

// Mostly one filter a device, as a gateway has them; a tenth with wildcards.
static void filter_make(filter *f, u32 i) {
    static const char *const forms[] = {"site/%u/+/temperature", "site/%u/#", "+/%u/alarm",
                                        "devices/+/zone/%u/#"};
    if (i % 10 == 9) {
        snprintf(f->text, sizeof(f->text), forms[i / 10 % ARRAY_LEN(forms)], i / 40);
    } else {
        snprintf(f->text, sizeof(f->text), "devices/sensor-%08u/down", i);
    }
    f->len = (u32)strlen(f->text);
    require(topic_filter_is_valid(f->text, f->len), "a filter is not valid");
    topic_level level[LIMIT_TOPIC_LEVELS];
    f->levels = topic_split(f->text, f->len, level);
    memcpy(f->level, level, f->levels * sizeof(*level));
}

static void topic_make(char *out, u64 *seed, u32 filters) {
    static const char *const forms[] = {"devices/sensor-%08u/down", "devices/sensor-%08u/up",
                                        "site/%u/room/temperature", "site/%u/alarm",
                                        "devices/x/zone/%u/a/b"};
    u32 form = random_below(seed, ARRAY_LEN(forms));
    u32 bound = form < 2 ? filters : filters / 40 + 1;
    snprintf(out, TEXT_BYTES, forms[form], random_below(seed, bound));
}

static bool scan_matches(const filter *f, const topic_level *topic, u32 topics) {
    for (u32 i = 0; i < f->levels; i++) {
        const topic_level *level = &f->level[i];
        if (level->len == 1 && level->text[0] == '#') return true;
        if (i == topics) return false;
        if (level->len == 1 && level->text[0] == '+') continue;
        if (level->len != topic[i].len) return false;
        if (memcmp(level->text, topic[i].text, level->len) != 0) return false;
    }
    return f->levels == topics;
}

static void count_visit(void *value, void *context) {
    (void)value;
    ++*(u64 *)context;
}

static u64 scan_all(const filter *filters, u32 count, const char *topic) {
    topic_level level[LIMIT_TOPIC_LEVELS];
    u32 topics = topic_split(topic, (u32)strlen(topic), level);
    u64 found = 0;
    for (u32 i = 0; i < count; i++) found += scan_matches(&filters[i], level, topics);
    return found;
}

static void print_figure(const char *what, u64 ns, u64 operations) {
    printf("%-8s %12.1f ns\n", what, (double)ns / (double)operations);
}

int main(int argc, char **argv) {
    u32 count = argc > 1 ? (u32)strtoul(argv[1], NULL, 10) : 100000;
    require(count > 0, "how many filters?");
    filter *filters = calloc(count, sizeof(*filters));
    static char topics[TOPICS][TEXT_BYTES];
    pool *memory = pool_create(4ull << 30);
    trie *t = memory == NULL ? NULL : trie_create(memory);
    require(filters != NULL && t != NULL, "no memory");
    u64 seed = 1, empty_bytes = pool_used_bytes(memory);
    for (u32 i = 0; i < count; i++) filter_make(&filters[i], i);
    for (u32 i = 0; i < TOPICS; i++) topic_make(topics[i], &seed, count);

    u64 start = cpu_ns();
    for (u32 i = 0; i < count; i++) {
        filters[i].node = trie_insert(t, filters[i].text, filters[i].len);
        require(filters[i].node != NULL, "no memory");
        trie_node_set_value(filters[i].node, &filters[i]);
    }
    u64 insert_ns = cpu_ns() - start;
    printf("filters  %12u    %llu nodes, %.1f bytes each\n", count,
           (unsigned long long)trie_node_count(t),
           (double)(pool_used_bytes(memory) - empty_bytes) / count);
    print_figure("insert", insert_ns, count);

    u64 trie_found = 0, scan_found = 0, first_found = 0;
    start = cpu_ns();
    for (u32 round = 0; round < MATCH_ROUNDS; round++) {
        for (u32 i = 0; i < TOPICS; i++) {
            trie_match(t, topics[i], (u32)strlen(topics[i]), count_visit, &trie_found);
        }
    }
    print_figure("match", cpu_ns() - start, MATCH_ROUNDS * TOPICS);

    for (u32 i = 0; i < SCAN_TOPICS; i++) {
        trie_match(t, topics[i], (u32)strlen(topics[i]), count_visit, &first_found);
    }
    start = cpu_ns();
    for (u32 i = 0; i < SCAN_TOPICS; i++) scan_found += scan_all(filters, count, topics[i]);
    print_figure("scan", cpu_ns() - start, SCAN_TOPICS);
    require(first_found == scan_found, "trie and scan do not agree");
    printf("matches  %12.2f a topic\n", (double)trie_found / (MATCH_ROUNDS * TOPICS));

    start = cpu_ns();
    for (u32 i = 0; i < count; i++) {
        trie_node_set_value(filters[i].node, NULL);
        trie_prune(t, filters[i].node);
    }
    print_figure("remove", cpu_ns() - start, count);
    require(trie_node_count(t) == 0, "nodes are left");
    trie_destroy(t);
    pool_destroy(memory);
    free(filters);
    return 0;
}
