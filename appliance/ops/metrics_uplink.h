// SPDX-License-Identifier: Apache-2.0
// metrics_uplink.h: the emit functions of the rows about uplinks in metrics_table.c. Operations worker.
#ifndef SLUICE_OPS_METRICS_UPLINK_H
#define SLUICE_OPS_METRICS_UPLINK_H

#include "ops/metrics.h"

#define METRICS_UPLINK(X) \
    X(up) X(error) X(connects) X(retries) X(sent) X(sent_bytes) X(resent) X(acked) X(duplicates) X(received) \
    X(in_flight) X(lag_messages) X(lag_bytes) X(lag_seconds) X(ack_seconds) X(dropped)
#define METRICS_UPLINK_DECLARE(name) \
    void metrics_uplink_##name(text *out, const metric_family *f, const gateway *gw, const worker *w);
METRICS_UPLINK(METRICS_UPLINK_DECLARE)
#undef METRICS_UPLINK_DECLARE

#endif
