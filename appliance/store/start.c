// SPDX-License-Identifier: Apache-2.0
// start.c: a store's life: made by main, started and stopped by its owner.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "store/internal.h"

#define WRITE_OPS_MAX 4u
#define SLOW_OPS_MAX (LIMIT_STORE_FETCHES + 1024u) // fetches, readers, reclaim, files

int store_create(const store_config *config, store **out, const char **step) {
    ASSERT(config->log_number >= 1 && config->log_number <= LOG_NUMBER_MAX);
    ASSERT(config->segment_bytes % SEGMENT_UNIT_BYTES == 0 && config->segment_bytes >= SEGMENT_UNIT_BYTES);
    *step = "memory";
    store *s = calloc(1, sizeof(*s));
    if (s == NULL) return -ENOMEM;
    s->config = *config;
    s->disk = config->disk;
    snprintf(s->dir, sizeof(s->dir), "%s", config->dir);
    hist_reset(&s->metrics.commit);
    int result = buffers_map(s);
    char name[16];
    u32 threads = config->threads ? LANE_THREAD : 0;
    if (result == 0) {
        *step = "log writer thread";
        snprintf(name, sizeof(name), "sluice-log%u", config->worker);
        result = lane_create(name, s->disk, WRITE_OPS_MAX, threads | LANE_URGENT, config->thread_begin,
                             config->wake, config->wake_context, &s->write_lane);
    }
    if (result == 0) {
        *step = "log reader thread";
        snprintf(name, sizeof(name), "sluice-read%u", config->worker);
        result = lane_create(name, s->disk, SLOW_OPS_MAX, threads, config->thread_begin,
                             config->wake, config->wake_context, &s->slow_lane);
    }
    if (result < 0) {
        store_destroy(s);
        return result;
    }
    *out = s;
    return 0;
}

void store_register(store *s, store_kind kind, const store_keeper *keeper) {
    ASSERT(!s->started && kind > STORE_NONE && kind < STORE_META);
    s->keepers[kind] = *keeper;
}

const store_keeper *store_keepers(const store *s) {
    return s->keepers;
}

int store_start(store *s) {
    int result = store_recover(s);
    if (result < 0) return result;
    segments_prepare(s);
    segments_go_on(s);
    s->started = true;
    s->reclaim_next_ns = s->now_ns;
    // A long way back to the checkpoint was read now and would be again: the next one is nearer.
    if (counter_get(&s->metrics.state) == STORE_STATE_OPENING) store_state_set(s, STORE_STATE_OK, "%s", "");
    for (u32 kind = STORE_NONE + 1; kind < STORE_META; kind++) {
        const store_keeper *k = &s->keepers[kind];
        if (k->replayed != NULL) k->replayed(k->context);
    }
    return 0;
}

void store_stop(store *s) {
    if (!s->started) return;
    s->stopping = true;
    s->now_ns = clock_mono_ns();
    s->now_ms = clock_real_ns() / NS_PER_MS;
    if (s->active != NULL && s->retry_count == 0) {
        store_pos ignored;
        store_put(s, STORE_META, 0, STORE_VITAL, META_END, NULL, s->now_ms, NULL, 0, &ignored);
    }
    int result = store_flush(s, 5000);
    if (result < 0) log_error("log of worker %u: the last commit failed: %s", s->config.worker, errno_name(result));
    store_waiters_run(s, -EIO);
    fetches_cancel(s); // who asked may be gone when the answer comes
    s->started = false;
}

void store_destroy(store *s) {
    if (s == NULL) return;
    s->stopping = true;
    lane_destroy(s->write_lane);
    lane_destroy(s->slow_lane);
    while (s->segment_count > 0) segment_free(s, s->segments[s->segment_count - 1]);
    for (u32 i = 0; i < s->spare_count; i++) s->disk->ops->close(s->disk, s->spares[i].file);
    free(s->segments);
    free(s->reclaim_read.data);
    moved_free(&s->moved);
    fetches_end(s);
    buffers_unmap(s->buffers);
    buffers_unmap(s->retry);
    free(s);
}
