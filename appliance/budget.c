// SPDX-License-Identifier: Apache-2.0
// budget.c: sizes everything at start from what the machine gives: descriptors, memory (cgroup limits
// respected). Printed once, so that an operator sees what the box will carry before it has to.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include "base/log.h"
#include "gateway.h"

#define DESCRIPTORS_OF_OUR_OWN 64u // rings, doorbells, log, admin, reserve
#define MEMORY_MIN_BYTES (8u << 20)
#define OPS_CONNS 64u

static u64 cgroup_limit(void) {
    static const char *const files[] = {
        "/sys/fs/cgroup/memory.max",                   // version 2
        "/sys/fs/cgroup/memory/memory.limit_in_bytes", // version 1
    };
    u64 limit = UINT64_MAX;
    for (u32 i = 0; i < ARRAY_LEN(files); i++) {
        FILE *f = fopen(files[i], "re");
        if (f == NULL) continue;
        unsigned long long value;
        if (fscanf(f, "%llu", &value) == 1 && value < limit) limit = value; // "max" does not parse
        fclose(f);
    }
    return limit;
}

static u64 ram_bytes(void) {
    struct sysinfo info;
    if (sysinfo(&info) < 0) return 1ull << 30;
    return MIN((u64)info.totalram * info.mem_unit, cgroup_limit());
}

static u64 descriptors_raise(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) return 1024;
    if (limit.rlim_cur < limit.rlim_max) {
        struct rlimit raised = {limit.rlim_max, limit.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
    }
    return limit.rlim_cur == RLIM_INFINITY ? 1u << 20 : limit.rlim_cur;
}

int gateway_budget_compute(const config *conf, u32 workers, u32 log_files, gateway_budget *out, char *why,
                           size_t why_bytes) {
    *out = (gateway_budget){.descriptors = descriptors_raise(), .ram_bytes = ram_bytes()};
    u64 own = DESCRIPTORS_OF_OUR_OWN + (u64)workers * (8 + conf->listener_count + log_files);
    if (out->descriptors < own + 16) {
        snprintf(why, why_bytes,
                 "RLIMIT_NOFILE is %llu: at least %llu are needed (ulimit -n)",
                 (unsigned long long)out->descriptors, (unsigned long long)(own + 16));
        return -EMFILE;
    }
    out->memory_bytes = conf->memory_max != 0 ? conf->memory_max : out->ram_bytes / 4;
    out->memory_bytes = MAX(out->memory_bytes, MEMORY_MIN_BYTES);
    u64 conns = out->descriptors - own;
    if (conf->max_conns != 0) conns = MIN(conns, conf->max_conns);
    // Any worker may come to own any connection, so each has slots for all; untouched slots cost nothing.
    conns = MIN(conns, (u64)LIMIT_CONNS_PER_WORKER);
    u64 share = out->memory_bytes / workers;
    out->device = (worker_budget){
        .conns_max = (u32)conns,
        .conn_bytes = align_up_u64(conns * sizeof(conn) + (conns * sizeof(conn)) / 8 + (1u << 20), 4096),
        .buffer_bytes = share - share / 4,
        .broker_bytes = share / 4,
        .recv_bufs = conf->recv_bufs,
    };
    out->ops = (worker_budget){
        .conns_max = OPS_CONNS,
        .conn_bytes = 1u << 20,
        .buffer_bytes = 16u << 20,
        .broker_bytes = 0,
        .recv_bufs = 0,
    };
    return 0;
}

void gateway_budget_log(const gateway_budget *b, u32 workers) {
    const u64 mib = 1u << 20;
    log_info("budget: %llu descriptors, %llu MiB RAM, %llu MiB for buffers on %u worker(s)",
             (unsigned long long)b->descriptors, (unsigned long long)(b->ram_bytes / mib),
             (unsigned long long)(b->memory_bytes / mib), workers);
    log_info("budget: each worker: %u connections of %zu bytes (%llu MiB when all are used), "
             "%llu MiB output and partial packets, %llu MiB routing, %llu KiB rings",
             b->device.conns_max, sizeof(conn), (unsigned long long)(b->device.conn_bytes / mib),
             (unsigned long long)(b->device.buffer_bytes / mib),
             (unsigned long long)(b->device.broker_bytes / mib),
             (unsigned long long)((workers + 2) * LIMIT_RING_SLOTS * sizeof(spsc_message) / 1024));
}
