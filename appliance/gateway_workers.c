// SPDX-License-Identifier: Apache-2.0
// gateway_workers.c: the workers as a whole: made, started, told to end, freed. Main thread.
#include <errno.h>
#include <sched.h>
#include <sys/mman.h>

#include "base/crash.h"
#include "base/log.h"
#include "gateway.h"

u32 gateway_cpus_allowed(int *cpus) {
    cpu_set_t set;
    u32 count = 0;
    if (sched_getaffinity(0, sizeof(set), &set) < 0) return 0;
    for (int i = 0; i < CPU_SETSIZE && count < LIMIT_WORKERS_MAX; i++) {
        if (CPU_ISSET(i, &set)) cpus[count++] = i;
    }
    return count;
}

int gateway_workers_make(gateway *gw, const gateway_budget *budget) {
    u32 all = gw->worker_count + 1;
    gw->workers = mmap(NULL, sizeof(worker) * all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (gw->workers == MAP_FAILED) return -ENOMEM;
    int cpus[LIMIT_WORKERS_MAX];
    u32 cpu_count = gateway_cpus_allowed(cpus);
    for (u32 i = 0; i < all; i++) {
        bool ops = i == gw->worker_count;
        const char *step = "";
        int result = worker_init(&gw->workers[i], gw, i, ops ? &budget->ops : &budget->device,
                                 ops ? IO_EPOLL_LT : gw->engine, &step);
        if (result < 0) {
            log_error("worker %u: %s: %s", i, step, errno_name(result));
            return result;
        }
        if (!ops && gw->conf->pin && cpu_count > 0) gw->workers[i].cpu = cpus[i % cpu_count];
    }
    return 0;
}

int gateway_workers_start(gateway *gw) {
    for (u32 i = 0; i <= gw->worker_count; i++) {
        worker *w = &gw->workers[i];
        int result = worker_start(w, w->cpu);
        if (result < 0) {
            log_error("worker %u: thread: %s", i, errno_name(result));
            return result;
        }
        log_info(w->is_ops ? "operations worker started" : "worker %u started on CPU %d, engine %s", i,
                 w->cpu, io_kind_name(gw->engine));
    }
    return 0;
}

bool gateway_worker_has_ended(const gateway *gw, bool ops_too) {
    for (u32 i = 0; i < gw->worker_count + (ops_too ? 1 : 0); i++) {
        if (__atomic_load_n(&gw->workers[i].ended, __ATOMIC_ACQUIRE) != 0) return true;
    }
    return false;
}

bool gateway_workers_have_ended(const gateway *gw) {
    for (u32 i = 0; i < gw->worker_count; i++) {
        if (__atomic_load_n(&gw->workers[i].ended, __ATOMIC_ACQUIRE) == 0) return false;
    }
    return true;
}

void gateway_workers_drain(gateway *gw, u64 deadline_ns) {
    for (u32 i = 0; i < gw->worker_count; i++) {
        spsc_message message = {.kind = WM_DRAIN, .extra = deadline_ns};
        if (!worker_post_control(gw, i, &message)) log_warn("worker %u does not take messages", i);
    }
}

void gateway_ops_stop(gateway *gw) {
    spsc_message message = {.kind = WM_DRAIN, .extra = clock_mono_ns() + NS_PER_S};
    worker_post_control(gw, gw->worker_count, &message);
}

void gateway_workers_free(gateway *gw) {
    if (gw->workers == NULL || gw->workers == MAP_FAILED) return;
    for (u32 i = 0; i <= gw->worker_count; i++) worker_join(&gw->workers[i]);
    for (u32 i = 0; i <= gw->worker_count; i++) {
        crash_unregister_recorder(&gw->workers[i].rec);
        worker_fini(&gw->workers[i]);
    }
    munmap(gw->workers, sizeof(worker) * (gw->worker_count + 1));
}
