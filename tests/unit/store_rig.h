// SPDX-License-Identifier: Apache-2.0
// store_rig.h: a log on a simulated disk, with one keeper that stores numbered items and drops them, and a
// ledger of what must be there. Items are STORE_MESSAGE records {u64 id, filling}; a drop is a STORE_SESSION
// record {1, id}; the checkpoint writes STORE_SESSION records {2, id, origin, len}.
#ifndef SLUICE_TEST_STORE_RIG_H
#define SLUICE_TEST_STORE_RIG_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "store/disk_sim.h"
#include "store/internal.h"
#include "store/log.h"

#define RIG_ITEMS 200000u
#define RIG_SEGMENT (1u << 20)

typedef struct rig_item {
    store_pos origin;
    u32 len;
    bool appended, acked, drop_asked, drop_acked; // the ledger
    bool live;                                    // what the keeper knows
    u8 seen;                                      // replayed since the start
} rig_item;

typedef struct rig_wait {
    store_waiter waiter;
    struct rig *rig;
    u64 id;
    bool is_drop;
    struct rig_wait *next;
} rig_wait;

typedef struct rig {
    disk_sim *sim;
    store *s;
    u64 now_ns;
    u64 bytes_max;
    char dir[64];        // of the log
    u32 log_number;
    rig_item *items;
    u64 next_id;         // from 1
    u64 checkpoint_at;
    u64 last_replayed;
    bool order_broken, twice;
    u64 refused_full, refused_other;
    rig_wait *waits;
} rig;

static void rig_wake(void *context) {
    (void)context;
}

static void rig_replay_item(void *context, const store_record *r) {
    rig *g = context;
    u64 id;
    assert_true(r->len >= sizeof(id));
    memcpy(&id, r->data, sizeof(id));
    assert_true(id > 0 && id < RIG_ITEMS);
    rig_item *it = &g->items[id];
    assert_true(it->appended);
    assert_int_equal(r->origin, it->origin);
    assert_int_equal(r->len, it->len);
    if (it->seen++ > 0) g->twice = true;
    if (id <= g->last_replayed) g->order_broken = true;
    g->last_replayed = id;
    it->live = true;
}

static void rig_replay_state(void *context, const store_record *r) {
    rig *g = context;
    u64 words[4];
    assert_true(r->len == 16 || r->len == 32);
    memcpy(words, r->data, r->len);
    rig_item *it = &g->items[words[1]];
    if (words[0] == 1) {
        if (it->live) store_drop(g->s, it->origin, it->len);
        it->live = false;
        return;
    }
    assert_int_equal(words[0], 2);
    assert_int_equal(words[2], it->origin);
    it->live = true;
}

static bool rig_checkpoint(void *context, bool begin, u32 budget) {
    rig *g = context;
    if (begin) g->checkpoint_at = 1;
    for (u32 used = 0; g->checkpoint_at < g->next_id; g->checkpoint_at++) {
        rig_item *it = &g->items[g->checkpoint_at];
        if (!it->live) continue;
        u64 words[4] = {2, g->checkpoint_at, it->origin, it->len};
        struct iovec part = {words, sizeof(words)};
        store_pos pos;
        if (used > budget || store_append(g->s, STORE_SESSION, 0, &part, 1, &pos) < 0) return false;
        used += 64;
    }
    return true;
}

static bool rig_is_live(void *context, const store_record *r) {
    rig *g = context;
    u64 id;
    memcpy(&id, r->data, sizeof(id));
    return g->items[id].live;
}

static void rig_open(rig *g) {
    store_config config = {
        .worker = 0,
        .workers = 1,
        .dir = g->dir,
        .log_number = g->log_number,
        .disk = disk_sim_disk(g->sim),
        .bytes_max = g->bytes_max,
        .segment_bytes = RIG_SEGMENT,
        .wake = rig_wake,
    };
    const char *step;
    assert_int_equal(store_create(&config, &g->s, &step), 0);
    store_keeper items = {.context = g, .replay = rig_replay_item, .is_live = rig_is_live};
    store_keeper state = {.context = g, .replay = rig_replay_state, .checkpoint = rig_checkpoint};
    store_register(g->s, STORE_MESSAGE, &items);
    store_register(g->s, STORE_SESSION, &state);
    for (u64 i = 0; i < g->next_id; i++) {
        g->items[i].live = false;
        g->items[i].seen = 0;
    }
    g->last_replayed = 0;
    g->order_broken = g->twice = false;
    assert_int_equal(store_start(g->s), 0);
    // From here on the log's time is ours, so that a seed always gives the same run.
    g->s->now_ns = g->now_ns;
    g->s->reclaim_next_ns = g->s->spare_retry_ns = g->s->checkpoint_retry_ns = 0;
}

static void rig_waits_forget(rig *g) {
    while (g->waits != NULL) {
        rig_wait *next = g->waits->next;
        free(g->waits);
        g->waits = next;
    }
}

static void rig_close(rig *g, bool clean) {
    if (clean) store_stop(g->s);
    store_destroy(g->s);
    g->s = NULL;
    rig_waits_forget(g);
}

static void rig_done(store_waiter *w, int result) {
    rig_wait *x = CONTAINER_OF(w, rig_wait, waiter);
    if (result == 0 && x->is_drop) x->rig->items[x->id].drop_acked = true;
    else if (result == 0) x->rig->items[x->id].acked = true;
}

static void rig_await(rig *g, u64 id, bool is_drop, store_pos pos) {
    rig_wait *x = calloc(1, sizeof(*x));
    x->rig = g;
    x->id = id;
    x->is_drop = is_drop;
    x->waiter.done = rig_done;
    x->next = g->waits;
    g->waits = x;
    store_wait(g->s, pos, &x->waiter);
}

static void rig_fill(u8 *to, u64 id, u32 len) {
    memcpy(to, &id, sizeof(id));
    for (u32 i = 8; i < len; i++) to[i] = (u8)(id * 31 + i * 7);
}

static int rig_append(rig *g, u32 len) {
    u64 id = g->next_id;
    u8 *data = malloc(len);
    rig_fill(data, id, len);
    struct iovec part = {data, len};
    store_pos pos;
    int result = store_append(g->s, STORE_MESSAGE, STORE_KEEP, &part, 1, &pos);
    free(data);
    if (result < 0) {
        if (result == -ENOSPC) g->refused_full++;
        else g->refused_other++;
        return result;
    }
    g->items[id] = (rig_item){.origin = pos, .len = len, .appended = true, .live = true};
    g->next_id++;
    rig_await(g, id, false, pos);
    return 0;
}

static int rig_drop(rig *g, u64 id) {
    rig_item *it = &g->items[id];
    if (!it->live) return -ENOENT;
    u64 words[2] = {1, id};
    struct iovec part = {words, sizeof(words)};
    store_pos pos;
    int result = store_append(g->s, STORE_SESSION, STORE_VITAL, &part, 1, &pos);
    if (result < 0) return result;
    it->live = false;
    it->drop_asked = true;
    store_drop(g->s, it->origin, it->len);
    rig_await(g, id, true, pos);
    return 0;
}

static void rig_turn(rig *g, u64 step_ns) {
    g->now_ns += step_ns;
    store_turn(g->s, g->now_ns);
}

// Runs everything until nothing is left to do.
static void rig_settle(rig *g) {
    for (u32 idle = 0; idle < 3;) {
        rig_turn(g, NS_PER_MS);
        bool any = false;
        while (store_step(g->s)) any = true;
        idle = any ? 0 : idle + 1;
    }
}

// After a restart: what must be there is, once; what was dropped is not. lost_allowed: items whose loss is
// explained.
static u64 rig_check(rig *g, bool strict) {
    u64 missing = 0;
    assert_false(g->twice);
    assert_false(g->order_broken);
    for (u64 id = 1; id < g->next_id; id++) {
        rig_item *it = &g->items[id];
        if (it->drop_acked) {
            if (strict) assert_false(it->live);
        } else if (it->acked && !it->drop_asked && !it->live) {
            if (strict) fail_msg("item %llu was acknowledged and is lost", (unsigned long long)id);
            missing++;
        }
        // From here on what came back counts as it is.
        if (!it->live) it->drop_asked = it->drop_acked = true;
        else it->acked = true, it->drop_asked = false;
    }
    return missing;
}

typedef struct rig_fetch {
    store_fetch_op op;
    u64 id;
    u32 len;
    int result;
    bool done;
} rig_fetch;

static void rig_compare(u64 id, u32 len, const store_record *r) {
    u8 *expected = malloc(len);
    rig_fill(expected, id, len);
    assert_int_equal(r->len, len);
    assert_memory_equal(r->data, expected, len);
    free(expected);
}

static void rig_fetched(store_fetch_op *op, int result, const store_record *r) {
    rig_fetch *f = CONTAINER_OF(op, rig_fetch, op);
    f->done = true;
    f->result = result;
    if (result == 0) rig_compare(f->id, f->len, r);
}

// What the log knows of a place, for a test that fails.
static void rig_dump(rig *g, store_pos pos) {
    for (u32 i = 0; i < g->s->segment_count; i++) {
        const segment *seg = g->s->segments[i];
        print_message("segment %u: base %llx end %llx live %lld copied %llx%s\n", seg->number,
                      (unsigned long long)seg->base, (unsigned long long)seg->end, (long long)seg->live_bytes,
                      (unsigned long long)seg->copied_upto, seg == g->s->active ? " active" : "");
    }
    for (u32 i = 0; i < g->s->moved.count; i++) {
        const moved_entry *e = &g->s->moved.entries[i];
        if (e->origin + (1 << 20) < pos || e->origin > pos + (1 << 20)) continue;
        print_message("moved: %llx to %llx\n", (unsigned long long)e->origin, (unsigned long long)e->to);
    }
}

// Every live item can be read by its origin.
static void rig_fetch_all(rig *g) {
    for (u64 id = 1; id < g->next_id; id++) {
        rig_item *it = &g->items[id];
        if (!it->live) continue;
        rig_fetch f = {.op = {.origin = it->origin, .done = rig_fetched, .len_hint = id % 2 == 0 ? it->len : 0},
                       .id = id, .len = it->len};
        store_record r;
        int result = store_fetch(g->s, &f.op, &r);
        if (result == 1) {
            rig_compare(id, it->len, &r);
            continue;
        }
        if (result != 0)
            fail_msg("item %llu at %llx: fetch says %d", (unsigned long long)id, (unsigned long long)it->origin,
                     result);
        for (u32 i = 0; i < 100 && !f.done; i++) {
            while (store_step(g->s)) {
            }
            rig_turn(g, 1000);
        }
        assert_true(f.done);
        if (f.result != 0) {
            rig_dump(g, it->origin);
            fail_msg("item %llu at %llx: %d", (unsigned long long)id, (unsigned long long)it->origin, f.result);
        }
    }
}

static void rig_ready(void *context) {
    (void)context;
}

// A reader gives every live durable item once, in order.
static void rig_read_all(rig *g) {
    u64 last = 0;
    u8 *seen = calloc(1, g->next_id + 1);
    store_reader *rd = store_reader_open(g->s, store_first(g->s), rig_ready, NULL);
    assert_non_null(rd);
    for (u32 idle = 0; idle < 4;) {
        store_record r;
        int result = store_reader_next(rd, &r);
        if (result == 0) {
            bool any = false;
            while (store_step(g->s)) any = true;
            rig_turn(g, 1000);
            idle = any ? 0 : idle + 1;
            continue;
        }
        idle = 0;
        if (result < 0 || r.kind != STORE_MESSAGE) continue;
        u64 id;
        memcpy(&id, r.data, sizeof(id));
        assert_true(id > last);
        last = id;
        seen[id] = 1;
        rig_compare(id, g->items[id].len, &r);
    }
    for (u64 id = 1; id < g->next_id; id++) {
        if (g->items[id].live && !seen[id] && store_is_durable(g->s, g->items[id].origin)) {
            fail_msg("reader did not give %llu", (unsigned long long)id);
        }
    }
    store_reader_close(rd);
    free(seen);
}

static rig *rig_create(u64 seed, u64 bytes_max, const disk_sim_config *faults) {
    rig *g = calloc(1, sizeof(*g));
    disk_sim_config config = faults != NULL ? *faults : (disk_sim_config){0};
    config.seed = seed;
    g->sim = disk_sim_create(&config);
    disk *d = disk_sim_disk(g->sim);
    d->ops->make_dir(d, "/log");
    snprintf(g->dir, sizeof(g->dir), "/log");
    g->log_number = 1;
    g->items = calloc(RIG_ITEMS, sizeof(*g->items));
    g->next_id = 1;
    g->now_ns = NS_PER_S;
    g->bytes_max = bytes_max;
    return g;
}

static void rig_destroy(rig *g) {
    if (g->s != NULL) rig_close(g, false);
    disk_sim_destroy(g->sim);
    free(g->items);
    free(g);
}

#endif
