// SPDX-License-Identifier: Apache-2.0
// convert.c: data_dir was made by another number of workers. The new logs are written beside the old ones:
//   1. the kept records of all old logs, in the order of their origins and each once, as in a log that reclaim has
//      copied: what is needed by reference is found by its origin and read in order;
//   2. a checkpoint's beginning, then what each old log has from its checkpoint on, in order, to be replayed. Of
//      kept records this is a second copy, which is not kept: it goes with the next checkpoint, which a start
//      begins at once when it has replayed such records.
// Then one write of the layout makes the new logs count; a crash at any time before it changes nothing.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "store/data_dir.h"
#include "store/internal.h"
#include "store/kept_order.h"

typedef struct conversion {
    data_dir *d;
    const store_keeper *keepers;
    store *to[LIMIT_WORKERS_MAX];
    store *old[LIMIT_WORKERS_MAX]; // while their kept records are read
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

static int put(store *to, const store_record *r, bool keep) {
    record_moved moved = {.origin = r->origin, .from = r->pos};
    struct iovec part = {.iov_base = (void *)(uintptr_t)r->data, .iov_len = r->len};
    u32 flags = RECORD_MOVED | (keep ? RECORD_KEEP : 0u);
    store_pos pos;
    for (u32 tries = 0; tries < 64; tries++) {
        int result = store_put(to, r->kind, flags, STORE_VITAL, META_NONE, &moved, r->time_ms, &part, 1, &pos);
        if (result != -EAGAIN) return result;
        while (store_step(to)) {
        }
        store_turn(to, clock_mono_ns());
        if (counter_get(&to->metrics.commit_failures) > 0) return -EIO;
    }
    return -EIO;
}

static int put_all(const conversion *c, const store_record *r, bool keep, u64 owners) {
    int result = 0;
    for (u32 i = 0; i < c->d->workers && result == 0; i++) {
        if ((owners & (1ull << i)) != 0) result = put(c->to[i], r, keep);
    }
    return result;
}

static u64 owners_of(const conversion *c, const store_record *r, u32 old_worker) {
    const store_keeper *k = &c->keepers[r->kind];
    return k->owners != NULL ? k->owners(r, old_worker, c->d->workers) : 1ull << (old_worker % c->d->workers);
}

static int old_make(const conversion *c, u32 index, store **out) {
    return make_store(c->d, c->d->old_first + index, index, c->d->old_workers, 0, LIMIT_STORE_SEGMENT_MIN_BYTES, out);
}

// --- what is kept ---

static int kept_forward(conversion *c, kept_order *order) {
    const store_record *r;
    store_pos last = 0;
    u64 have = 0; // who has the record of that origin
    u32 old_worker;
    int result;
    while ((result = kept_order_next(order, &r, &old_worker)) == 1) {
        if (r->origin != last) have = 0;
        last = r->origin;
        u64 owners = owners_of(c, r, old_worker) & ~have;
        have |= owners;
        result = put_all(c, r, true, owners);
        if (result < 0) return result;
        c->records++;
    }
    return result;
}

static int kept_all(conversion *c) {
    kept_order order = {0};
    int result = 0;
    for (u32 i = 0; i < c->d->old_workers && result == 0; i++) {
        result = old_make(c, i, &c->old[i]);
        if (result == 0) result = store_recover(c->old[i]);
        if (result == 0) result = kept_order_add(&order, c->old[i], i);
    }
    if (result == 0) result = kept_forward(c, &order);
    kept_order_end(&order);
    for (u32 i = 0; i < c->d->old_workers; i++) store_destroy(c->old[i]);
    return result;
}

// --- what is replayed ---

static void replay_forward(void *context, const store_record *r) {
    conversion *c = context;
    const store_keeper *k = &c->keepers[r->kind];
    if (k->is_own != NULL && !k->is_own(r, c->old_worker, c->d->old_workers)) return;
    u64 owners = owners_of(c, r, c->old_worker);
    c->went[r->kind] |= owners;
    if (k->follows != STORE_NONE) owners |= c->went[k->follows];
    if (k->is_own != NULL) owners = UINT64_MAX;
    if (c->error == 0) c->error = put_all(c, r, false, owners);
    c->records++;
}

static int replay_all(conversion *c) {
    for (u32 i = 0; i < c->d->old_workers; i++) {
        store *old;
        int result = old_make(c, i, &old);
        if (result < 0) return result;
        c->old_worker = i;
        memset(c->went, 0, sizeof(c->went));
        store_keeper to_new = {.context = c, .replay = replay_forward};
        for (u32 kind = STORE_NONE + 1; kind < STORE_META; kind++) store_register(old, (store_kind)kind, &to_new);
        result = store_recover(old);
        store_destroy(old);
        if (result < 0 || c->error < 0) return result < 0 ? result : c->error;
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
    if (result == 0) result = kept_all(c);
    for (u32 i = 0; i < d->workers && result == 0; i++) result = checkpoint_convert_begin(c->to[i]);
    if (result == 0) result = replay_all(c);
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
