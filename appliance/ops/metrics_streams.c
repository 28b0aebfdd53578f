// SPDX-License-Identifier: Apache-2.0
// metrics_streams.c: see metrics_streams.h. The parts' table and counters may be read by any thread.
#include "ops/metrics_streams.h"

#include <stdio.h>

#include "store/streams_state.h"

typedef u64 stream_value(const stream_counters *c);

static u64 value_messages(const stream_counters *c) {
    u64 first = counter_get(&c->first), next = counter_get(&c->next);
    return next > first ? next - first : 0; // the two are read one after the other
}
static u64 value_age(const stream_counters *c) {
    u64 first_ms = counter_get(&c->first_ms), now_ms = clock_real_ns() / NS_PER_MS;
    return first_ms == 0 || now_ms < first_ms ? 0 : (now_ms - first_ms) / 1000;
}
#define VALUE(name, field) \
    static u64 value_##name(const stream_counters *c) { \
        return counter_get(&c->field); \
    }
VALUE(bytes, bytes)
VALUE(first, first)
VALUE(next, next)
VALUE(taken, taken)
VALUE(taken_bytes, taken_bytes)
VALUE(refused, refused)
VALUE(trimmed, trimmed)
VALUE(missing, missing)
VALUE(delivered, delivered)
VALUE(consumers, consumers)
VALUE(lag, lag_max)

static void emit(text *out, const metric_family *f, const worker *w, stream_value *value) {
    const streams *s = w->streams;
    u32 count = s == NULL ? 0 : __atomic_load_n(&s->count, __ATOMIC_ACQUIRE);
    for (u32 i = 0; i < count; i++) {
        const stream_part *p = s->parts[i];
        char labels[LIMIT_NAME_BYTES + 64]; // a name has no character that is to be escaped
        snprintf(labels, sizeof(labels), "stream=\"%s\",partition=\"%u\"", p->name, stream_partition_of(p->number));
        metric_sample(out, f, w, labels, value(&p->counters));
    }
}

#define DEFINE(name) \
    void metrics_stream_##name(text *out, const metric_family *f, const gateway *gw, const worker *w) { \
        (void)gw; \
        emit(out, f, w, value_##name); \
    }
METRICS_STREAMS(DEFINE)
