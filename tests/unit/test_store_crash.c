// SPDX-License-Identifier: Apache-2.0
// test_store_crash.c: the log under power cuts and a disk that fails, from seeds. After every restart: what was
// acknowledged is there once, in order, and can be read; what was dropped is not there; the log starts and
// takes records again. SLUICE_SEEDS (how many) and SLUICE_SEED (one alone) choose.
#include "store_rig.h"

#ifdef __SANITIZE_THREAD__
#define SEEDS_DEFAULT 3u // one thread: nothing to find for it that the other variants do not
#else
#define SEEDS_DEFAULT 25u
#endif
#define CUTS 6u

static u32 seeds_wanted(void) {
    const char *text = getenv("SLUICE_SEEDS");
    return text != NULL ? (u32)atoi(text) : SEEDS_DEFAULT;
}

static u64 pick(rig *g, u64 below) {
    return disk_sim_random(g->sim) % below;
}

static u32 some_len(rig *g) {
    u64 what = pick(g, 100);
    if (what < 60) return 8 + (u32)pick(g, 120);
    if (what < 95) return 8 + (u32)pick(g, 3000);
    return 8 + (u32)pick(g, 150000);
}

static void some_drop(rig *g) {
    u64 wide = 1 + pick(g, 4000), span = MIN(g->next_id - 1, wide);
    if (span == 0) return;
    rig_drop(g, g->next_id - 1 - pick(g, span));
}

// Work until the power goes.
static void work(rig *g, u64 turns, bool drop_most) {
    for (u64 i = 0; i < turns && !disk_sim_is_cut(g->sim) && g->next_id + 64 < RIG_ITEMS; i++) {
        u64 appends = pick(g, 12);
        for (u64 k = 0; k < appends; k++) rig_append(g, some_len(g));
        for (u64 k = pick(g, drop_most ? 16 : 4); k > 0; k--) some_drop(g);
        // Keeps what lives within the log: older items go.
        for (u64 id = g->next_id > 900 ? g->next_id - 900 : 1;
             drop_most && id < g->next_id && id < g->next_id - 600; id += 1 + pick(g, 3)) {
            if (pick(g, 50) != 0) rig_drop(g, id);
        }
        for (u64 k = pick(g, 5); k > 0; k--) store_step(g->s);
        rig_turn(g, 1 + pick(g, 5 * NS_PER_MS));
    }
}

static void run_seed(u64 seed, const disk_sim_config *faults, bool strict) {
    rig *g = rig_create(seed, 12 * RIG_SEGMENT, NULL);
    rig_open(g);
    for (u32 cut = 0; cut < CUTS; cut++) {
        if (faults != NULL) disk_sim_configure(g->sim, faults);
        disk_sim_cut_after(g->sim, 1 + pick(g, pick(g, 4) == 0 ? 20 : 900));
        work(g, 400, pick(g, 3) != 0);
        disk_sim_config quiet = {.torn_per_mille = 100};
        bool clean = !disk_sim_is_cut(g->sim) && pick(g, 2) == 0;
        if (clean) rig_settle(g);
        rig_close(g, clean);
        disk_sim_configure(g->sim, &quiet);
        disk_sim_restart(g->sim);
        rig_open(g);
        rig_check(g, strict);
        assert_int_equal(counter_get(&store_metrics_get(g->s)->damaged), 0);
        rig_fetch_all(g);
        rig_read_all(g);
    }
    rig_destroy(g);
}

static void each_seed(u64 base, const disk_sim_config *faults) {
    const char *one = getenv("SLUICE_SEED");
    if (one != NULL) {
        run_seed(base + strtoull(one, NULL, 10), faults, true);
        return;
    }
    for (u64 seed = 1; seed <= seeds_wanted(); seed++) {
        if (getenv("SLUICE_SHOW") != NULL) fprintf(stderr, "# seed %llu\n", (unsigned long long)seed);
        run_seed(base + seed, faults, true);
    }
}

static void power_cuts(void **state) {
    (void)state;
    each_seed(1000000, NULL);
}

static void power_cuts_and_errors(void **state) {
    (void)state;
    disk_sim_config faults = {.write_error_per_mille = 8, .sync_error_per_mille = 12, .make_error_per_mille = 60,
                              .torn_per_mille = 100};
    each_seed(2000000, &faults);
}

static void power_cuts_on_a_full_disk(void **state) {
    (void)state;
    disk_sim_config faults = {.bytes_max = 7 * RIG_SEGMENT + 4096, .torn_per_mille = 50};
    each_seed(3000000, &faults);
}

// A bit that flips after the fact: the log starts, loses at most what it touched, and reports it or had it dropped.
static void flipped_bits(void **state) {
    (void)state;
    for (u64 seed = 1; seed <= seeds_wanted(); seed++) {
        rig *g = rig_create(4000000 + seed, 12 * RIG_SEGMENT, NULL);
        rig_open(g);
        work(g, 150, false);
        rig_settle(g);
        rig_close(g, false);
        char path[400];
        u64 offset;
        for (u32 i = 0; i < 3; i++) disk_sim_flip(g->sim, ".seg", path, sizeof(path), &offset);
        disk_sim_restart(g->sim);
        rig_open(g);
        u64 missing = rig_check(g, false);
        const store_metrics *m = store_metrics_get(g->s);
        bool told = counter_get(&m->damaged) + counter_get(&m->tail_cut_bytes) + counter_get(&m->quarantined) > 0;
        if (missing > 0) assert_true(told);
        assert_int_equal(rig_append(g, 100), 0);
        rig_settle(g);
        assert_true(g->items[g->next_id - 1].acked);
        rig_destroy(g);
    }
}

int main(void) {
    if (getenv("CMOCKA_TEST_FILTER") != NULL) cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
    log_config config = {.level = LOG_ERROR, .ring_bytes = 65536};
    const char *step;
    if (getenv("SLUICE_SHOW") == NULL)
        log_start(&config, &step); // without a sink: thousands of torn ends are not news
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(power_cuts),
        cmocka_unit_test(power_cuts_and_errors),
        cmocka_unit_test(power_cuts_on_a_full_disk),
        cmocka_unit_test(flipped_bits),
    };
    int result = cmocka_run_group_tests(tests, NULL, NULL);
    if (getenv("SLUICE_SHOW") == NULL) log_stop(100);
    return result;
}
