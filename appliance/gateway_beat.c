// SPDX-License-Identifier: Apache-2.0
// gateway_beat.c: tells `sluice init`, when it is the parent, that the gateway lives: the heartbeat of each
// worker and of main, ready, draining (init/shared.h). Called from main's control loop, which turns at
// least twice a second; an idle worker turns every second by itself. As an ordinary process: no effect.
#include "gateway.h"
#include "init/shared.h"

static init_shared *shared;

void gateway_beat_attach(void) {
    shared = init_shared_attach();
}

static void put32(u32 *at, u32 value) {
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
}

void gateway_beat(const gateway *gw) {
    if (shared == NULL) return;
    for (u32 i = 0; i <= gw->worker_count; i++) {
        __atomic_store_n(&shared->worker_ns[i], counter_get(&gw->workers[i].metrics.heartbeat_ns), __ATOMIC_RELEASE);
    }
    __atomic_store_n(&shared->main_ns, clock_mono_ns(), __ATOMIC_RELEASE);
    put32(&shared->ready, __atomic_load_n(&gw->ready, __ATOMIC_ACQUIRE));
    put32(&shared->draining, __atomic_load_n(&gw->draining, __ATOMIC_ACQUIRE));
    put32(&shared->reloads_applied, __atomic_load_n(&gw->reloads_applied, __ATOMIC_RELAXED));
    put32(&shared->reloads_refused, __atomic_load_n(&gw->reloads_refused, __ATOMIC_RELAXED));
    put32(&shared->conns, __atomic_load_n(&gw->conns, __ATOMIC_RELAXED));
    put32(&shared->worker_count, gw->worker_count + 1);
}
