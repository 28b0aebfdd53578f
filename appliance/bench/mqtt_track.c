// SPDX-License-Identifier: Apache-2.0
// mqtt_track.c: the map of a group: one bit a message for the whole run, 125 KB a million, so that
// what was lost is known exactly however the members took turns.
#include "bench/mqtt_track.h"

#include <stdlib.h>
#include <string.h>

bool mq_map_take(mq_map *m, u32 seq, bool *failed) {
    u32 word = seq / 64;
    u64 bit = 1ull << seq % 64;
    *failed = false;
    if (word >= m->words_count) {
        u32 count = MAX(MAX(64u, word + 1), m->words_count * 2);
        u64 *words = realloc(m->words, (size_t)count * sizeof(*words));
        if (words == NULL) {
            *failed = true;
            return false;
        }
        memset(words + m->words_count, 0, (size_t)(count - m->words_count) * sizeof(*words));
        m->words = words;
        m->words_count = count;
    }
    if ((m->words[word] & bit) != 0) return false;
    m->words[word] |= bit;
    return true;
}

void mq_map_free(mq_map *m) {
    free(m->words);
    *m = (mq_map){0};
}
