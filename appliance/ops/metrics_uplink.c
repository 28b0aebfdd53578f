// SPDX-License-Identifier: Apache-2.0
// metrics_uplink.c: the metrics of uplinks, one sample for each uplink of a worker. The rows are in
// metrics_table.c.
#include "ops/metrics_uplink.h"

#include <stdio.h>

#include "uplink/uplink.h"

#define LABEL_BYTES 128

// Calls for each uplink that is in the configuration.
#define EACH_UPLINK(body) \
    (void)gw; \
    for (u32 i = 0; i < uplinks_count(w); i++) { \
        const uplink *u = uplinks_at(w, i); \
        const uplink_metrics *m = uplink_metrics_get(u); \
        char labels[LABEL_BYTES]; \
        if (counter_get(&m->configured) == 0) continue; \
        snprintf(labels, sizeof(labels), "uplink=\"%s\"", uplink_name(u)); \
        body \
    }

#define EMIT_COUNTER(name, field) \
    void metrics_uplink_##name(text *out, const metric_family *f, const gateway *gw, const worker *w) { \
        EACH_UPLINK(metric_sample(out, f, w, labels, counter_get(&m->field));) \
    }
EMIT_COUNTER(connects, connects)
EMIT_COUNTER(retries, retries)
EMIT_COUNTER(sent, sent)
EMIT_COUNTER(sent_bytes, sent_bytes)
EMIT_COUNTER(resent, resent)
EMIT_COUNTER(acked, acked)
EMIT_COUNTER(duplicates, duplicates)
EMIT_COUNTER(received, received)
EMIT_COUNTER(in_flight, in_flight)
EMIT_COUNTER(lag_messages, lag_messages)
EMIT_COUNTER(lag_bytes, lag_bytes)

void metrics_uplink_up(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    EACH_UPLINK(metric_sample(out, f, w, labels, counter_get(&m->state) == UPLINK_UP);)
}

void metrics_uplink_lag_seconds(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    u64 now_ms = clock_real_ns() / NS_PER_MS;
    EACH_UPLINK(u64 oldest_ms = counter_get(&m->oldest_ms);
                u64 age_ms = oldest_ms != 0 && now_ms > oldest_ms ? now_ms - oldest_ms : 0;
                metric_sample_ns(out, f, w, labels, age_ms * NS_PER_MS);)
}

void metrics_uplink_ack_seconds(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    EACH_UPLINK(metric_sample_ns(out, f, w, labels, counter_get(&m->ack_ns));)
}

// The one it has is 1: an alert can name it.
void metrics_uplink_error(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    EACH_UPLINK(char both[LABEL_BYTES + 64]; u32 error = (u32)counter_get(&m->error);
                snprintf(both, sizeof(both), "%s,error=\"%s\"", labels, uplink_error_name(error));
                metric_sample(out, f, w, both, 1);)
}

void metrics_uplink_dropped(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    EACH_UPLINK(for (u32 k = 0; k < UPLINK_DROP_COUNT; k++) {
        char both[LABEL_BYTES + 64];
        snprintf(both, sizeof(both), "%s,reason=\"%s\"", labels, uplink_drop_name(k));
        metric_sample(out, f, w, both, counter_get(&m->drops[k]));
    })
}
