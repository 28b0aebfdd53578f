// SPDX-License-Identifier: Apache-2.0
// mqtt_track.h: which messages of a publisher have arrived, by sequence number: lost, duplicated,
// reordered. A track follows one publisher at one receiver; a map follows one publisher at a group
// of receivers that share its messages, where gaps at each are normal. Pure, one thread.
#ifndef SLUICE_BENCH_MQTT_TRACK_H
#define SLUICE_BENCH_MQTT_TRACK_H

#include "base/base.h"

typedef enum mq_arrival {
    MQ_ARRIVED,    // the first time, in order
    MQ_REORDERED,  // the first time, behind a later one
    MQ_DUPLICATED, // not the first time
} mq_arrival;

typedef struct mq_track {
    u32 next;    // sequence number after the highest seen; numbers start at 0
    u32 missing; // below next and not seen
    u64 seen;    // bit k: next - 1 - k was seen
} mq_track;

// One message. Behind more than 64 later ones it counts as reordered while anything is missing, as
// duplicated when nothing is.
static inline mq_arrival mq_track_take(mq_track *t, u32 seq) {
    if (LIKELY(seq == t->next)) {
        t->seen = t->seen << 1 | 1;
        t->next++;
        return MQ_ARRIVED;
    }
    if (seq > t->next) {
        u32 gap = seq - t->next;
        t->missing += gap;
        t->seen = gap + 1 < 64 ? t->seen << (gap + 1) | 1 : 1;
        t->next = seq + 1;
        return MQ_ARRIVED;
    }
    u32 back = t->next - 1 - seq;
    if (back < 64) {
        if ((t->seen >> back & 1) != 0) return MQ_DUPLICATED;
        t->seen |= 1ull << back;
    } else if (t->missing == 0) {
        return MQ_DUPLICATED;
    }
    t->missing--;
    return MQ_REORDERED;
}

typedef struct mq_map {
    u64 *words;
    u32 words_count;
} mq_map;

// Marks a number: true when it was not marked before. false with *failed set when there is no
// memory for it.
bool mq_map_take(mq_map *m, u32 seq, bool *failed);
void mq_map_free(mq_map *m);

#endif
