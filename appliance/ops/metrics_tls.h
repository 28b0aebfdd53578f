// SPDX-License-Identifier: Apache-2.0
// metrics_tls.h: values of the metrics about TLS, for metrics_table.c. Operations worker.
#ifndef SLUICE_OPS_METRICS_TLS_H
#define SLUICE_OPS_METRICS_TLS_H

#include "ops/metrics.h"

void metrics_tls_ends(text *out, const metric_family *f, const gateway *gw, const worker *w);
void metrics_tls_failures(text *out, const metric_family *f, const gateway *gw, const worker *w);
void metrics_tls_handshakes(text *out, const metric_family *f, const gateway *gw, const worker *w);
void metrics_tls_kernel(text *out, const metric_family *f, const gateway *gw, const worker *w);

#endif
