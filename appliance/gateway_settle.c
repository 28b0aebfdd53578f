// SPDX-License-Identifier: Apache-2.0
// gateway_settle.c: the last start of an old number of workers, before their logs are converted (gateway.h).
#include <poll.h>

#include "base/log.h"
#include "broker/sessions.h"
#include "gateway.h"
#include "store/data_dir.h"

#define SETTLE_NS (10 * NS_PER_S) // a log that takes nothing keeps nobody from starting
#define LOOK_MS 2

static bool is_over(const gateway *gw) {
    return mqtt_sessions_all_settled(gw) || gateway_worker_has_ended(gw, false);
}

// Turns until all is settled. A long log takes its time to be read; what is open then has SETTLE_NS.
static void wait_settled(gateway *gw) {
    u64 limit_ns = UINT64_MAX;
    while (!is_over(gw) && clock_mono_ns() < limit_ns) {
        if (limit_ns == UINT64_MAX && mqtt_sessions_all_restored(gw)) limit_ns = clock_mono_ns() + SETTLE_NS;
        gateway_beat(gw);
        poll(NULL, 0, LOOK_MS);
    }
    if (!is_over(gw)) {
        log_warn("messages of QoS 2 that were on their way between workers are not everywhere after %u s: they may be "
                 "missing or come twice", (unsigned)(SETTLE_NS / NS_PER_S));
    }
}

static void stop(gateway *gw) {
    gateway_workers_drain(gw, clock_mono_ns());
    gateway_ops_stop(gw);
    while (!gateway_workers_have_ended(gw)) {
        gateway_beat(gw);
        poll(NULL, 0, LOOK_MS);
    }
}

static int settle(gateway *gw, const gateway_budget *budget) {
    int result = gateway_workers_make(gw, budget);
    if (result == 0) result = gateway_workers_start(gw);
    if (result == 0) {
        wait_settled(gw);
        stop(gw);
    }
    gateway_workers_free(gw);
    gw->workers = NULL;
    return result;
}

int gateway_settle(gateway *gw, u32 log_files) {
    data_dir before;
    if (gw->data == NULL || !data_dir_before(gw->data, &before)) return 0;
    const data_dir now = *gw->data;
    u32 workers = gw->worker_count;
    gateway_budget budget;
    char why[512];
    int result = gateway_budget_compute(gw->conf, before.workers, log_files, &budget, why, sizeof(why));
    if (result < 0) {
        log_warn("the logs of %u workers are not finished by as many before they are converted: %s", before.workers,
                 why);
        return 0;
    }
    log_info("data_dir %s was made by %u workers: what they had begun is finished first", now.path, before.workers);
    *gw->data = before;
    gw->worker_count = before.workers;
    result = settle(gw, &budget);
    *gw->data = now;
    gw->worker_count = workers;
    return result;
}
