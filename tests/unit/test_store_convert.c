// SPDX-License-Identifier: Apache-2.0
// test_store_convert.c: logs are converted for other numbers of workers, also when reclaim has been at work: all that
// was needed is there afterwards, is found by its origin, comes in order, and takes no more room than before.
#include "store_rig.h"

#include "store/data_dir.h"

#define PATH "/data"
#define LOG_BYTES (10ull * RIG_SEGMENT)

// By the item's id, which is the first word of an item and the second of what tells of one. Some items are everybody's.
static u64 owners_by_word(const store_record *r, u32 workers, u32 word) {
    u64 id;
    memcpy(&id, r->data + word * sizeof(id), sizeof(id));
    return id % 5 == 0 ? (1ull << workers) - 1 : 1ull << id % workers;
}

static u64 item_owners(const store_record *r, u32 old_worker, u32 workers) {
    (void)old_worker;
    return owners_by_word(r, workers, 0);
}

static u64 state_owners(const store_record *r, u32 old_worker, u32 workers) {
    (void)old_worker;
    return owners_by_word(r, workers, 1);
}

// The rig's log is the first one of the directory.
static void use_first_log(rig *g, const data_dir *d) {
    char dir[340];
    data_dir_log_path(d, d->first_log, dir, sizeof(dir));
    snprintf(g->dir, sizeof(g->dir), "%.60s", dir);
    g->log_number = d->first_log;
}

static void dir_open(const rig *g, data_dir *d, u32 workers) {
    char why[512];
    assert_int_equal(data_dir_open(d, PATH, disk_sim_disk(g->sim), workers, why, sizeof(why)), 0);
}

static void convert(rig *g, data_dir *d, u32 workers) {
    char why[700];
    store_keeper keepers[STORE_KINDS] = {[STORE_MESSAGE] = {.owners = item_owners},
                                         [STORE_SESSION] = {.owners = state_owners}};
    dir_open(g, d, workers);
    assert_true(d->old_workers != 0);
    assert_int_equal(data_dir_convert(d, keepers, 4 * LOG_BYTES, RIG_SEGMENT, why, sizeof(why)), 0);
    dir_open(g, d, workers);
    use_first_log(g, d);
}

// Every 50th item lives on, the others are dropped. Ends when a segment has been freed whose copies are newer than the
// last checkpoint, for the `nth` time.
static void work_until_reclaimed(rig *g, u32 nth) {
    const store_metrics *m = store_metrics_get(g->s);
    u64 checkpoints = 0, copied = 0, freed = 0;
    for (u64 i = 0; i < 100000 && nth > 0; i++) {
        if (counter_get(&m->checkpoints) != checkpoints) {
            checkpoints = counter_get(&m->checkpoints);
            copied = counter_get(&m->copied_records);
        }
        if (counter_get(&m->segments_freed) > freed) {
            freed = counter_get(&m->segments_freed);
            if (counter_get(&m->copied_records) > copied) nth--;
        }
        if (rig_append(g, 1000) == 0) {
            u64 id = g->next_id - 1;
            if (id > 500 && (id - 500) % 50 != 0) rig_drop(g, id - 500);
        }
        store_step(g->s);
        rig_turn(g, NS_PER_MS / 2);
    }
    assert_int_equal(nth, 0);
}

// The rig has the one log that there is.
static void check(rig *g) {
    rig_open(g);
    g->twice = g->order_broken = false; // several logs had it, one after the other
    rig_check(g, true);
    rig_fetch_all(g);
    rig_read_all(g);
}

static void test_reclaimed_since_the_checkpoint(void **state) {
    (void)state;
    for (u32 nth = 1; nth <= 3; nth++) {
        rig *g = rig_create(nth, LOG_BYTES, NULL);
        data_dir d;
        dir_open(g, &d, 1);
        use_first_log(g, &d);
        rig_open(g);
        work_until_reclaimed(g, nth);
        assert_int_equal(store_flush(g->s, 1000), 0);
        rig_close(g, nth % 2 == 0);
        g->bytes_max = 4 * LOG_BYTES;
        convert(g, &d, 2);
        convert(g, &d, 1);
        check(g);
        rig_settle(g);
        rig_close(g, true);
        rig_destroy(g);
    }
}

// What one log had is in several, then in one again: their parts lie between each other.
static void test_there_and_back_again(void **state) {
    (void)state;
    rig *g = rig_create(1, 8 * LOG_BYTES, NULL);
    data_dir d;
    dir_open(g, &d, 1);
    use_first_log(g, &d);
    u64 live = 0;
    for (u32 round = 0; round < 4; round++) {
        rig_open(g);
        g->twice = g->order_broken = false;
        for (u32 i = 0; i < 1500; i++) {
            assert_int_equal(rig_append(g, 100 + i % 700), 0);
            if (i % 3 == 0) rig_drop(g, g->next_id - 1);
            else live += 100 + i % 700;
            while (store_step(g->s)) {
            }
            rig_turn(g, NS_PER_MS / 4);
        }
        rig_settle(g);
        rig_close(g, round % 2 == 0);
        convert(g, &d, 3);
        if (round % 2 == 0) convert(g, &d, 2);
        convert(g, &d, 1);
        check(g);
        assert_in_range(counter_get(&store_metrics_get(g->s)->live_bytes), live, 3 * live);
        rig_settle(g);
        rig_close(g, true);
    }
    rig_destroy(g);
}

int main(void) {
    log_config config = {.level = LOG_ERROR, .ring_bytes = 65536};
    const char *step;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reclaimed_since_the_checkpoint),
        cmocka_unit_test(test_there_and_back_again),
    };
    log_start(&config, &step);
    int result = cmocka_run_group_tests(tests, NULL, NULL);
    log_stop(100);
    return result;
}
