// SPDX-License-Identifier: Apache-2.0
// metrics_streams.h: the samples of streams, one for each partition of a worker; for metrics_table.c.
#ifndef SLUICE_OPS_METRICS_STREAMS_H
#define SLUICE_OPS_METRICS_STREAMS_H

#include "ops/metrics.h"

#define METRICS_STREAMS(X) \
    X(messages) X(bytes) X(first) X(next) X(age) X(taken) X(taken_bytes) X(refused) X(trimmed) X(missing) X(delivered) \
    X(consumers) X(lag)
#define METRICS_STREAM_DECLARE(name) \
    void metrics_stream_##name(text *out, const metric_family *f, const gateway *gw, const worker *w);
METRICS_STREAMS(METRICS_STREAM_DECLARE)
#undef METRICS_STREAM_DECLARE

#endif
