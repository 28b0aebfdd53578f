// SPDX-License-Identifier: Apache-2.0
// metrics_tls.c: what metrics_table.c shows of TLS.
#include "ops/metrics_tls.h"

#include <stdio.h>

#include "net/listener.h"
#include "net/tls_context.h"
#include "net/tls_error.h"

void metrics_tls_ends(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)w;
    u32 count = __atomic_load_n(&gw->listener_count, __ATOMIC_ACQUIRE);
    for (u32 i = 0; i < count; i++) {
        listener_shared *l = __atomic_load_n(&gw->listeners[i], __ATOMIC_ACQUIRE);
        tls_context *context = tls_context_at(&l->tls);
        for (u32 k = 0; context != NULL && k < context->cert_count; k++) {
            text labels = text_make(1024);
            metric_label(&labels, "listener", l->name);
            text_puts(&labels, ",");
            metric_label(&labels, "file", context->certs[k].file);
            if (labels.failed) out->failed = true;
            else metric_sample(out, f, NULL, labels.data, (u64)MAX(context->certs[k].info.not_after_s, (i64)0));
            text_free(&labels);
        }
        tls_context_drop(context);
    }
}

void metrics_tls_failures(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)gw;
    for (u32 i = TLS_OK + 1; i < TLS_FAILURES; i++) {
        char labels[64];
        snprintf(labels, sizeof(labels), "reason=\"%s\"", tls_failure_name(i));
        metric_sample(out, f, w, labels, counter_get(&w->metrics.tls_failures[i]));
    }
}

void metrics_tls_handshakes(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)gw;
    metric_sample(out, f, w, "kind=\"full\"", counter_get(&w->metrics.tls_full));
    metric_sample(out, f, w, "kind=\"resumed\"", counter_get(&w->metrics.tls_resumed));
}

void metrics_tls_kernel(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)gw;
    metric_sample(out, f, w, "direction=\"send\"", counter_get(&w->metrics.tls_kernel_send));
    metric_sample(out, f, w, "direction=\"receive\"", counter_get(&w->metrics.tls_kernel_receive));
}
