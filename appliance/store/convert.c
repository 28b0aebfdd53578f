// SPDX-License-Identifier: Apache-2.0
// convert.c: data_dir was made by another number of workers. The new logs are written beside the old ones:
// first the kept records from before each old checkpoint, and what reclaim has copied of such since (needed by
// reference only), then a checkpoint's beginning, then what each old log has from its checkpoint on, in order.
// Records keep their origin, so that no reference changes. Then one write of the layout makes the new logs count;
// a crash at any time before it changes nothing.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "store/data_dir.h"
#include "store/internal.h"
#include "store/scan.h"

typedef struct conversion {
    data_dir *d;
    const store_keeper *keepers;
    store *to[LIMIT_WORKERS_MAX];
    u32 old_worker;
    u64 went[STORE_KINDS]; // of the old log that is read: whom records of each kind were for
    u64 records;
    int error;
} conversion;

static void no_wake(void *context) {
    (void)context;
}

// The stores here have no threads: their lanes are run by us.
static int make_store(const data_dir *d, u32 number, u32 worker, u32 workers, u64 bytes, u32 segment_bytes,
                      store **out) {
    char dir[340];
    const char *step;
    data_dir_log_path(d, number, dir, sizeof(dir));
    store_config config = {.worker = worker, .workers = workers, .dir = dir, .log_number = number, .disk = d->disk,
                           .bytes_max = bytes, .segment_bytes = segment_bytes, .wake = no_wake};
    return store_create(&config, out, &step);
}

static int put(conversion *c, store *to, const store_record *r) {
    record_moved moved = {.origin = r->origin, .from = r->pos};
    struct iovec part = {.iov_base = (void *)(uintptr_t)r->data, .iov_len = r->len};
    u32 flags = RECORD_MOVED | ((r->flags & STORE_KEEP) != 0 ? RECORD_KEEP : 0u);
    store_pos pos;
    for (u32 tries = 0; tries < 64; tries++) {
        int result = store_put(to, r->kind, flags, STORE_VITAL, META_NONE, &moved, r->time_ms, &part, 1, &pos);
        if (result != -EAGAIN) return result;
        while (store_step(to)) {
        }
        store_turn(to, clock_mono_ns());
        if (counter_get(&to->metrics.commit_failures) > 0) return -EIO;
    }
    (void)c;
    return -EIO;
}

static void forward(conversion *c, const store_record *r) {
    const store_keeper *k = &c->keepers[r->kind];
    u32 workers = c->d->workers;
    u64 owners = k->owners != NULL ? k->owners(r, c->old_worker, workers) : 1ull << (c->old_worker % workers);
    c->went[r->kind] |= owners;
    if (k->follows != STORE_NONE) owners |= c->went[k->follows];
    for (u32 i = 0; i < workers && c->error == 0; i++) {
        if ((owners & (1ull << i)) != 0) c->error = put(c, c->to[i], r);
    }
    c->records++;
}

static void forward_replayed(void *context, const store_record *r) {
    conversion *c = context;
    if (c->error == 0) forward(c, r);
}

// Whether it is needed by reference only, and replay does not give it: it lies before the checkpoint, or reclaim has
// copied it from there since.
static bool is_older(const store *old, const record_view *view) {
    const store_record *r = &view->record;
    if (r->kind == STORE_META || (r->flags & STORE_KEEP) == 0) return false;
    if (r->pos >= old->checkpoint && (view->from == 0 || !record_copied_by_reclaim(old, view))) return false;
    segment *source = view->from != 0 ? segment_at(old, view->from) : NULL;
    return source == NULL || view->from >= source->end; // else its own place is read
}

static void forward_older(conversion *c, store *old) {
    for (u32 i = 0; i < old->segment_count && c->error == 0 && old->checkpoint != 0; i++) {
        segment *seg = old->segments[i];
        scan sc;
        record_view view;
        scan_what what;
        c->error =
            scan_begin(&sc, old->disk, seg->file, seg->base, seg->bytes, seg->base + SEGMENT_HEAD_BYTES, seg->end);
        while (c->error == 0 && (what = scan_next(&sc, &view)) != SCANNED_END) {
            if (what == SCANNED_RECORD && is_older(old, &view)) forward(c, &view.record);
        }
        scan_end(&sc);
    }
}

// Reads an old log: what is before its checkpoint, or what replay gives.
static int read_old(conversion *c, u32 index, bool older) {
    store *old;
    int result =
        make_store(c->d, c->d->old_first + index, index, c->d->old_workers, 0, LIMIT_STORE_SEGMENT_MIN_BYTES, &old);
    if (result < 0) return result;
    c->old_worker = index;
    memset(c->went, 0, sizeof(c->went));
    store_keeper to_new = {.context = c, .replay = forward_replayed};
    for (u32 kind = STORE_NONE + 1; kind < STORE_META && !older; kind++) store_register(old, kind, &to_new);
    result = store_recover(old);
    if (result == 0 && older) forward_older(c, old);
    store_destroy(old);
    return result < 0 ? result : c->error;
}

static int read_all(conversion *c, bool older) {
    char dir[340];
    for (u32 i = 0; i < c->d->old_workers; i++) {
        data_dir_log_path(c->d, c->d->old_first + i, dir, sizeof(dir));
        int result = read_old(c, i, older);
        if (result < 0) return result;
    }
    return 0;
}

static int finish(conversion *c) {
    for (u32 i = 0; i < c->d->workers; i++) {
        store *to = c->to[i];
        int result = store_flush(to, 60000);
        if (result == 0) result = checkpoint_converted(to);
        if (result == 0) result = store_flush(to, 60000);
        if (result < 0) return result;
        store_stop(to);
    }
    return 0;
}

int data_dir_convert(data_dir *d, const store_keeper *keepers, u64 log_bytes, u32 segment_bytes, char *why,
                     size_t why_bytes) {
    conversion *c = calloc(1, sizeof(*c));
    if (c == NULL) return -ENOMEM;
    c->d = d;
    c->keepers = keepers;
    log_warn("data_dir %s was made by %u workers: its logs are converted for %u", d->path, d->old_workers,
             d->workers);
    int result = 0;
    for (u32 i = 0; i < d->workers && result == 0; i++) {
        result = make_store(d, d->first_log + i, i, d->workers, log_bytes, segment_bytes, &c->to[i]);
        if (result == 0) result = store_start(c->to[i]);
    }
    if (result == 0) result = read_all(c, true);
    for (u32 i = 0; i < d->workers && result == 0; i++) result = checkpoint_convert_begin(c->to[i]);
    if (result == 0) result = read_all(c, false);
    if (result == 0) result = finish(c);
    for (u32 i = 0; i < d->workers; i++) store_destroy(c->to[i]);
    if (result == 0) result = data_dir_converted(d);
    if (result < 0) {
        snprintf(why, why_bytes,
                 "data_dir %s was made by %u workers and could not be converted for %u: %s; it is as it was: "
                 "start with workers = %u",
                 d->path, d->old_workers, d->workers, errno_name(result), d->old_workers);
    } else {
        log_info("data_dir %s: converted, %llu records", d->path, (unsigned long long)c->records);
    }
    free(c);
    return result;
}
