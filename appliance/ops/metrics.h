// SPDX-License-Identifier: Apache-2.0
// metrics.h: the table of metrics behind /metrics. One row is one family: name, help, type, whose it is and where
// its value lies. The renderer (metrics.c) knows the text format, the table (metrics_table.c) the meaning.
//
// Names are stable: prefix sluice_, base units, _total for counters (the naming rules of Prometheus).
#ifndef SLUICE_OPS_METRICS_H
#define SLUICE_OPS_METRICS_H

#include "ops/text.h"
#include "worker.h"

typedef enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM } metric_type;

typedef enum metric_scope {
    SCOPE_PROCESS, // once
    SCOPE_DEVICE,  // for each device worker; the operations worker's connections are not devices
    SCOPE_ALL,     // for each worker; the operations worker is worker="ops"
} metric_scope;

typedef enum metric_source {
    SOURCE_WORKER, // counter or hist at `offset` in worker.metrics
    SOURCE_IO,     // counter or hist at `offset` in the engine's io_stats
    SOURCE_STORE,  // counter or hist at `offset` in the durable log's metrics; nothing where there is no log
    SOURCE_EMIT,   // emit() prints the samples
} metric_source;

typedef enum metric_unit {
    UNIT_ONE,
    UNIT_NS, // kept in nanoseconds, exported in seconds
} metric_unit;

typedef struct metric_family metric_family;
struct metric_family {
    const char *name, *help;
    metric_type type;
    metric_scope scope;
    metric_source source;
    size_t offset;
    metric_unit unit;
    // worker: NULL for SCOPE_PROCESS. Prints whole sample lines, with metric_sample_* below.
    void (*emit)(text *out, const metric_family *f, const gateway *gw, const worker *w);
};

extern const metric_family metric_families[];
extern const u32 metric_family_count;

// Samples for emit functions. labels: further labels, `key="value"` separated by commas, or "".
void metric_sample(text *out, const metric_family *f, const worker *w, const char *labels, u64 value);
// The same for nanoseconds, printed as seconds.
void metric_sample_ns(text *out, const metric_family *f, const worker *w, const char *labels, u64 ns);
// A label value with \, " and newline escaped.
void metric_label(text *out, const char *key, const char *value);

// Prints the samples of one family for one worker (NULL for SCOPE_PROCESS). scratch: for histograms.
void metric_print(text *out, const metric_family *f, const gateway *gw, const worker *w, hist *scratch);
// Prints the HELP and TYPE lines.
void metric_print_head(text *out, const metric_family *f);

#endif
