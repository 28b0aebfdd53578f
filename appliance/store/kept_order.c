// SPDX-License-Identifier: Apache-2.0
// kept_order.c: see kept_order.h.
#include "store/kept_order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// A copy whose source is still there does not count: that is read instead.
static bool is_kept(const store *log, const record_view *view) {
    if (view->record.kind == STORE_META || (view->record.flags & STORE_KEEP) == 0) return false;
    const segment *source = view->from != 0 ? segment_at(log, view->from) : NULL;
    return source == NULL || view->from >= source->end;
}

static int segment_open(scan *sc, const store *log, const segment *seg, store_pos at) {
    return scan_begin(sc, log->disk, seg->file, seg->base, seg->bytes, MAX(at, seg->base + SEGMENT_HEAD_BYTES),
                      seg->end);
}

// --- finding the runs ---

static kept_run *run_add(kept_order *o, store *log, u32 worker, const record_view *first) {
    if (o->count == o->room) {
        u32 room = o->room == 0 ? 64 : o->room * 2;
        kept_run **grown = realloc(o->runs, sizeof(kept_run *) * room);
        if (grown == NULL) return NULL;
        o->runs = grown;
        o->room = room;
    }
    kept_run *run = calloc(1, sizeof(*run));
    if (run == NULL) return NULL;
    *run = (kept_run){.log = log, .worker = worker, .copies = first->from != 0, .origin = first->record.origin,
                      .from = first->record.pos};
    o->runs[o->count++] = run;
    return run;
}

int kept_order_add(kept_order *o, store *log, u32 worker) {
    kept_run *run[2] = {NULL, NULL}; // what lies where it was appended, and copies
    store_pos last = 0;              // origin of the last copy
    int result = 0;
    for (u32 i = 0; i < log->segment_count && result == 0; i++) {
        scan sc;
        record_view view;
        scan_what what;
        result = segment_open(&sc, log, log->segments[i], 0);
        while (result == 0 && (what = scan_next(&sc, &view)) != SCANNED_END) {
            if (what != SCANNED_RECORD || !is_kept(log, &view)) continue;
            bool copy = view.from != 0;
            if (run[copy] == NULL || (copy && view.record.origin < last)) run[copy] = run_add(o, log, worker, &view);
            if (run[copy] == NULL) result = -ENOMEM;
            else run[copy]->to = view.record.pos;
            if (copy) last = view.record.origin;
        }
        scan_end(&sc);
    }
    return result;
}

// --- merging them ---

// To the run's next record. 1, 0 at its end, or -ENOMEM.
static int run_advance(kept_run *run) {
    for (;;) {
        scan_what what;
        while ((what = scan_next(&run->sc, &run->view)) != SCANNED_END) {
            if (what != SCANNED_RECORD) continue;
            if (run->view.record.pos > run->to) return 0;
            if ((run->view.from != 0) != run->copies || !is_kept(run->log, &run->view)) continue;
            run->origin = run->view.record.origin;
            return 1;
        }
        u32 next = segment_index_of(run->log, run->seg) + 1;
        if (next >= run->log->segment_count || run->log->segments[next]->base > run->to) return 0;
        scan_end(&run->sc);
        run->seg = run->log->segments[next];
        if (segment_open(&run->sc, run->log, run->seg, 0) < 0) return -ENOMEM;
    }
}

static int run_open(kept_run *run) {
    run->seg = segment_at(run->log, run->from);
    int result = segment_open(&run->sc, run->log, run->seg, run->from);
    return result < 0 ? result : run_advance(run);
}

static int by_origin(const void *a, const void *b) {
    const kept_run *x = *(kept_run *const *)a, *y = *(kept_run *const *)b;
    return x->origin < y->origin ? -1 : x->origin > y->origin;
}

// Those at their end make place for the last open one.
static void run_close(kept_order *o, u32 at) {
    scan_end(&o->runs[at]->sc);
    free(o->runs[at]);
    o->runs[at] = o->runs[--o->open];
    o->runs[o->open] = NULL;
}

static u32 least(const kept_order *o) {
    u32 at = 0;
    for (u32 i = 1; i < o->open; i++) {
        if (o->runs[i]->origin < o->runs[at]->origin) at = i;
    }
    return at;
}

int kept_order_next(kept_order *o, const store_record **r, u32 *worker) {
    if (o->next == 0 && o->open == 0 && o->count > 0) qsort(o->runs, o->count, sizeof(kept_run *), by_origin);
    int result = o->given ? run_advance(o->runs[o->given_at]) : 1;
    if (result < 0) return result;
    if (result == 0) run_close(o, o->given_at);
    o->given = false;
    u32 at = least(o);
    while (o->next < o->count && (o->open == 0 || o->runs[o->next]->origin <= o->runs[at]->origin)) {
        kept_run *run = o->runs[o->next];
        o->runs[o->next++] = NULL;
        o->runs[o->open++] = run;
        result = run_open(run);
        if (result < 0) return result;
        if (result == 0) run_close(o, o->open - 1);
        at = least(o);
    }
    if (o->open == 0) return 0;
    o->given = true;
    o->given_at = at;
    *r = &o->runs[at]->view.record;
    *worker = o->runs[at]->worker;
    return 1;
}

void kept_order_end(kept_order *o) {
    for (u32 i = 0; i < o->count; i++) {
        if (o->runs[i] == NULL) continue;
        scan_end(&o->runs[i]->sc);
        free(o->runs[i]);
    }
    free(o->runs);
    *o = (kept_order){0};
}
