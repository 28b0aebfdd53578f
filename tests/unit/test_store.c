// SPDX-License-Identifier: Apache-2.0
// test_store.c: the log as its users see it: on the simulated disk without faults (reclaim, copies, a full
// log), and on the real one with its threads (commit, kill, lock, another number of workers, damage, the
// offline tools).
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "store_rig.h"

#include "store/data_dir.h"
#include "store/internal.h"
#include "store/log_command.h"

// --- simulated ---

static void test_reclaim_copies_what_lives(void **state) {
    (void)state;
    rig *g = rig_create(1, 10 * RIG_SEGMENT, NULL);
    rig_open(g);
    // Every 50th item lives on, the others are dropped: more than twice what the log can hold goes through.
    for (u64 i = 0; i < 60000 && counter_get(&store_metrics_get(g->s)->appended_bytes) < 25ull * RIG_SEGMENT; i++) {
        if (rig_append(g, 1000) == 0) {
            u64 id = g->next_id - 1;
            if (id > 500 && (id - 500) % 50 != 0) rig_drop(g, id - 500);
            if (id > 25000 && (id - 25000) % 50 == 0) rig_drop(g, id - 25000);
        }
        store_step(g->s);
        rig_turn(g, NS_PER_MS / 2);
    }
    rig_settle(g);
    const store_metrics *m = store_metrics_get(g->s);
    assert_true(counter_get(&m->appended_bytes) >= 25ull * RIG_SEGMENT);
    assert_true(counter_get(&m->segments_freed) > 12);
    assert_true(counter_get(&m->copied_records) > 20);
    assert_true(counter_get(&m->segments_reused) > 5);
    assert_true(counter_get(&m->segments) <= 10);
    rig_fetch_all(g);
    rig_read_all(g);
    rig_close(g, true);
    disk_sim_restart(g->sim);
    rig_open(g);
    rig_check(g, true);
    rig_fetch_all(g);
    rig_read_all(g);
    assert_int_equal(counter_get(&store_metrics_get(g->s)->tail_cut_bytes), 0);
    rig_destroy(g);
}

// One that lives can be read while the disk has not finished, or not begun, what is under way.
static void rig_fetch_meanwhile(rig *g, u64 id) {
    rig_item *it = &g->items[id];
    rig_fetch f = {.op = {.origin = it->origin, .done = rig_fetched}, .id = id, .len = it->len};
    store_record r;
    int result = store_fetch(g->s, &f.op, &r);
    if (result == 1) rig_compare(id, it->len, &r);
    for (u32 i = 0; i < 100 && result == 0 && !f.done; i++) {
        (void)lane_step(g->s->slow_lane);
        rig_turn(g, 0);
    }
    if (result == 1 || (result == 0 && f.done && f.result == 0)) return;
    rig_dump(g, it->origin);
    fail_msg("item %llu at %llx: %d, %d", (unsigned long long)id, (unsigned long long)it->origin, result, f.result);
}

// Copies of copies are found while a slow disk lets their segment's copying stand still: those that are in memory yet,
// in another batch than their run's first, and those whose turn has not come, behind a record that is no copy.
static void test_copies_are_found_before_they_are_on_disk(void **state) {
    (void)state;
    rig *g = rig_create(6, 10 * RIG_SEGMENT, NULL);
    rig_open(g);
    u64 fetched = 0;
    for (u64 i = 0; i < 60000 && counter_get(&store_metrics_get(g->s)->appended_bytes) < 25ull * RIG_SEGMENT; i++) {
        if (rig_append(g, 1000) == 0) {
            u64 id = g->next_id - 1;
            if (id > 500 && (id - 500) % 10 != 0) rig_drop(g, id - 500);
            // They live long enough to be copied twice, and lie so near that a run of copies has one entry.
            if (id > 15000 && (id - 15000) % 10 == 0) rig_drop(g, id - 15000);
        }
        if (i % 5 == 0) store_step(g->s);
        rig_turn(g, NS_PER_MS / 2);
        for (u32 n = 0; g->s->reclaim_phase == RECLAIM_COPY && n < 40; n++) {
            u64 id = disk_sim_random(g->sim) % g->next_id;
            id -= id % 10;
            if (id == 0 || !g->items[id].live || g->items[id].drop_asked) continue;
            rig_fetch_meanwhile(g, id);
            fetched++;
        }
    }
    assert_true(counter_get(&store_metrics_get(g->s)->copied_records) > 100);
    assert_true(fetched > 100);
    rig_settle(g);
    rig_fetch_all(g);
    rig_destroy(g);
}

static void test_full_log_refuses_by_name_and_resumes(void **state) {
    (void)state;
    rig *g = rig_create(2, 8 * RIG_SEGMENT, NULL);
    rig_open(g);
    for (u32 i = 0; i < 40000 && g->refused_full == 0; i++) {
        rig_append(g, 2000);
        rig_settle(g);
    }
    assert_true(g->refused_full > 0);
    assert_int_equal(counter_get(&store_metrics_get(g->s)->state), STORE_STATE_FULL);
    assert_int_equal(store_room(g->s, 0, 2000), -ENOSPC);
    assert_string_not_equal(store_state_why(g->s), "");
    // What frees space is taken, out of the reserve; then it goes on.
    for (u64 id = 1; id < g->next_id; id++) {
        int result = rig_drop(g, id);
        assert_int_equal(result, 0);
        rig_settle(g);
    }
    for (u32 i = 0; i < 60; i++) {
        rig_turn(g, NS_PER_S);
        rig_settle(g);
    }
    assert_int_equal(counter_get(&store_metrics_get(g->s)->state), STORE_STATE_OK);
    assert_int_equal(rig_append(g, 2000), 0);
    rig_settle(g);
    assert_true(g->items[g->next_id - 1].acked);
    rig_destroy(g);
}

// Each start would begin a segment of the reserve; what frees space has to find room after any number of them.
static void test_kills_of_a_full_log(void **state) {
    (void)state;
    for (u64 seed = 0; seed < 8; seed++) {
        disk_sim_config config = {.seed = seed, .torn_per_mille = 200};
        rig *g = rig_create(seed, 8 * RIG_SEGMENT, &config);
        rig_open(g);
        for (u32 i = 0; i < 40000 && g->refused_full == 0; i++) {
            rig_append(g, 2000);
            if (i % 16 == 0) rig_settle(g);
        }
        assert_true(g->refused_full > 0);
        u64 next = 1;
        for (u32 kill = 0; kill < 12; kill++) {
            assert_int_equal(rig_drop(g, next++), 0);
            rig_settle(g);
            disk_sim_cut_after(g->sim, 1 + (seed + kill) % 3);
            for (u32 i = 0; i < 3; i++) (void)rig_drop(g, next++);
            rig_settle(g);
            // The power goes again while the rest of the segment is cleared.
            for (u32 start = 0; start < 2; start++) {
                rig_close(g, false);
                disk_sim_restart(g->sim);
                disk_sim_cut_after(g->sim, start == 0 ? 1 + (kill * 5 + seed) % 20 : UINT64_MAX / 2);
                rig_open(g);
            }
            rig_check(g, true);
            while (!g->items[next].live) next++;
            rig_settle(g);
        }
        for (u64 id = 1; id < g->next_id; id++) {
            if (g->items[id].live) assert_int_equal(rig_drop(g, id), 0);
            if (id % 16 == 0) rig_settle(g);
        }
        for (u32 i = 0; i < 60; i++) {
            rig_turn(g, NS_PER_S);
            rig_settle(g);
        }
        assert_int_equal(counter_get(&store_metrics_get(g->s)->state), STORE_STATE_OK);
        assert_int_equal(rig_append(g, 2000), 0);
        rig_destroy(g);
    }
}

static void test_failed_sync_loses_nothing(void **state) {
    (void)state;
    rig *g = rig_create(3, 12 * RIG_SEGMENT, NULL);
    rig_open(g);
    for (u32 i = 0; i < 300; i++) {
        disk_sim_config faults = {.sync_error_per_mille = i % 30 == 7 ? 1000 : 0};
        disk_sim_configure(g->sim, &faults);
        rig_append(g, 500);
        rig_turn(g, NS_PER_MS);
        store_step(g->s);
        rig_turn(g, NS_PER_MS);
        faults.sync_error_per_mille = 0;
        disk_sim_configure(g->sim, &faults);
        for (u32 k = 0; k < 4; k++) {
            rig_turn(g, NS_PER_S);
            rig_settle(g);
        }
    }
    assert_true(counter_get(&store_metrics_get(g->s)->commit_failures) >= 5);
    for (u64 id = 1; id < g->next_id; id++) assert_true(g->items[id].acked);
    rig_fetch_all(g);
    rig_read_all(g);
    rig_close(g, false);
    disk_sim_restart(g->sim);
    rig_open(g);
    rig_check(g, true);
    rig_read_all(g);
    rig_destroy(g);
}

// A failed commit of nothing but the log's own records leaves nothing to be written again: nothing is due then.
static void test_failed_checkpoint_lets_the_worker_sleep(void **state) {
    (void)state;
    rig *g = rig_create(4, 12 * RIG_SEGMENT, NULL);
    rig_open(g);
    rig_append(g, 500);
    rig_settle(g);
    disk_sim_config faults = {.sync_error_per_mille = 1000};
    disk_sim_configure(g->sim, &faults);
    store_pos ignored;
    assert_int_equal(store_put(g->s, STORE_META, 0, STORE_VITAL, META_INDEX, NULL, 1, NULL, 0, &ignored), 0);
    rig_turn(g, NS_PER_MS);
    store_step(g->s);
    faults.sync_error_per_mille = 0;
    disk_sim_configure(g->sim, &faults);
    rig_settle(g);
    rig_turn(g, 2 * NS_PER_S);
    rig_settle(g);
    assert_int_equal(counter_get(&store_metrics_get(g->s)->commit_failures), 1);
    assert_true(store_next_ns(g->s) > g->now_ns);
    rig_append(g, 500);
    rig_settle(g);
    assert_true(g->items[g->next_id - 1].acked);
    rig_destroy(g);
}

typedef struct late_reader {
    store_waiter waiter;
    store_fetch_op op;
    rig *g;
    int result;
} late_reader;

static void never_fetched(store_fetch_op *op, int result, const store_record *r) {
    (void)op;
    (void)result;
    (void)r;
    fail_msg("a fetch ends after the log has stopped");
}

static void read_late(store_waiter *w, int result) {
    late_reader *x = CONTAINER_OF(w, late_reader, waiter);
    store_record r;
    assert_int_equal(result, -EIO);
    x->op = (store_fetch_op){.origin = x->g->items[1].origin, .done = never_fetched};
    x->result = store_fetch(x->g->s, &x->op, &r);
}

// A waiter that is told of the end reads a record, and has gone when the read ends.
static void test_stop_while_a_record_is_read(void **state) {
    (void)state;
    rig *g = rig_create(5, 12 * RIG_SEGMENT, NULL);
    rig_open(g);
    rig_append(g, 500);
    rig_settle(g);
    late_reader *x = calloc(1, sizeof(*x));
    *x = (late_reader){.g = g, .waiter = {.done = read_late}, .result = -1};
    rig_append(g, 500);
    store_wait(g->s, g->items[2].origin, &x->waiter);
    disk_sim_cut_after(g->sim, 1);
    store_stop(g->s);
    assert_int_equal(x->result, 0);
    free(x);
    rig_close(g, false);
    disk_sim_restart(g->sim);
    rig_open(g);
    rig_check(g, true);
    rig_destroy(g);
}

// Want of descriptors or of a right to the files is no damage: the log does not start, and is whole when that has
// passed.
static void test_segments_that_can_not_be_opened_are_not_given_up(void **state) {
    (void)state;
    static const int errors[] = {-EMFILE, -ENFILE, -ENOMEM, -EACCES, -EPERM};
    rig *g = rig_create(5, 10 * RIG_SEGMENT, NULL);
    rig_open(g);
    for (u32 i = 0; i < 2500; i++) {
        assert_int_equal(rig_append(g, 1000), 0);
        if (i % 100 == 0) rig_settle(g);
    }
    rig_settle(g);
    rig_close(g, false);
    for (u32 i = 0; i < ARRAY_LEN(errors); i++) {
        disk_sim_config refusing = {.open_error = errors[i]}, good = {0};
        store_config config = {.workers = 1, .dir = "/log", .log_number = 1, .disk = disk_sim_disk(g->sim),
                               .bytes_max = g->bytes_max, .segment_bytes = RIG_SEGMENT, .wake = rig_wake};
        const char *step;
        store *s;
        disk_sim_configure(g->sim, &refusing);
        assert_int_equal(store_create(&config, &s, &step), 0);
        assert_int_equal(store_start(s), errors[i]);
        store_destroy(s);
        disk_sim_configure(g->sim, &good);
    }
    rig_open(g);
    rig_check(g, true);
    rig_fetch_all(g);
    assert_int_equal(counter_get(&store_metrics_get(g->s)->quarantined), 0);
    rig_destroy(g);
}

static void test_find_time(void **state) {
    (void)state;
    rig *g = rig_create(4, 12 * RIG_SEGMENT, NULL);
    rig_open(g);
    for (u32 i = 0; i < 500; i++) {
        rig_append(g, 3000);
        rig_settle(g);
    }
    u64 now_ms = clock_real_ns() / NS_PER_MS;
    assert_int_equal(store_find_time(g->s, 0), store_first(g->s));
    assert_true(store_find_time(g->s, now_ms + 100000) > store_first(g->s));
    store_pos pos = store_find_time(g->s, now_ms - 1);
    assert_true(pos >= store_first(g->s) && pos <= store_end(g->s));
    rig_destroy(g);
}

// What memory a full segment keeps does not follow its size, and it goes on as an index.
static void test_index_of_a_full_segment(void **state) {
    (void)state;
    segment seg = {.base = 1ull << 40, .file = -1};
    for (u64 i = 0; i < 4096; i++) assert_true(segment_note(&seg, seg.base + i * LIMIT_STORE_INDEX_STEP + 40, 1 + i));
    assert_int_equal(seg.index_count, 4096);
    segment_index_thin(&seg);
    assert_int_equal(seg.index_count, LIMIT_STORE_INDEX_KEPT);
    assert_int_equal(seg.index[0].time_ms, 1);
    for (u32 i = 1; i < seg.index_count; i++) {
        assert_int_equal(seg.index[i].time_ms - seg.index[i - 1].time_ms, 4096 / LIMIT_STORE_INDEX_KEPT);
        assert_int_equal(seg.index[i].pos, seg.base + (seg.index[i].time_ms - 1) * LIMIT_STORE_INDEX_STEP + 40);
    }
    segment_index_thin(&seg);
    assert_true(segment_note(&seg, seg.base + 4096ull * LIMIT_STORE_INDEX_STEP, 5000));
    assert_int_equal(seg.index_count, LIMIT_STORE_INDEX_KEPT + 1);
    free(seg.index);
}

// --- real ---

typedef struct real_log {
    store *s;
    u64 replayed, last;
    bool wrong;
} real_log;

static void real_replay(void *context, const store_record *r) {
    real_log *l = context;
    u64 id;
    memcpy(&id, r->data, sizeof(id));
    if (id != l->last + 1) l->wrong = true;
    l->last = id;
    l->replayed++;
}

static u64 owners_by_id(const store_record *r, u32 old_worker, u32 workers) {
    u64 id;
    (void)old_worker;
    memcpy(&id, r->data, sizeof(id));
    return 1ull << (id % workers);
}

static void real_open(real_log *l, const data_dir *d, u32 worker) {
    char dir[340];
    const char *step;
    data_dir_log_path(d, d->first_log + worker, dir, sizeof(dir));
    store_config config = {.worker = worker, .workers = d->workers, .dir = dir, .log_number = d->first_log + worker,
                           .disk = disk_real(), .bytes_max = 64 << 20, .segment_bytes = 1 << 20, .threads = true,
                           .wake = rig_wake};
    *l = (real_log){0};
    assert_int_equal(store_create(&config, &l->s, &step), 0);
    store_keeper k = {.context = l, .replay = real_replay, .owners = owners_by_id};
    store_register(l->s, STORE_MESSAGE, &k);
    assert_int_equal(store_start(l->s), 0);
}

static void pause_briefly(void) {
    struct timespec t = {.tv_nsec = 200000};
    nanosleep(&t, NULL);
}

static store_pos real_append(real_log *l, u64 id) {
    u8 filling[200] = {0};
    struct iovec parts[] = {{&id, sizeof(id)}, {filling, id % sizeof(filling)}};
    store_pos pos;
    int result;
    while ((result = store_append(l->s, STORE_MESSAGE, STORE_KEEP, parts, 2, &pos)) == -EAGAIN) {
        store_turn(l->s, clock_mono_ns());
        pause_briefly();
    }
    assert_int_equal(result, 0);
    return pos;
}

static char *scratch(void) {
    static char path[64];
    snprintf(path, sizeof(path), "%s/store-XXXXXX", getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(path));
    return path;
}

static void scratch_remove(const char *path) {
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

// Killed in the middle of work, again and again: what the parent was told is durable is there, in order, once.
static void test_killed_in_the_middle(void **state) {
    (void)state;
    char *path = scratch(), why[512];
    u64 *told = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (u32 round = 0; round < 8; round++) {
        data_dir d;
        assert_int_equal(data_dir_open(&d, path, disk_real(), 1, why, sizeof(why)), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            real_log l;
            real_open(&l, &d, 0);
            for (u64 id = l.last + 1;; id++) {
                store_pos pos = real_append(&l, id);
                store_turn(l.s, clock_mono_ns());
                if (id % 7 == 0) {
                    while (!store_is_durable(l.s, pos)) {
                        pause_briefly();
                        store_turn(l.s, clock_mono_ns());
                    }
                    __atomic_store_n(told, id, __ATOMIC_RELEASE);
                }
            }
        }
        u64 before = __atomic_load_n(told, __ATOMIC_ACQUIRE);
        for (u32 i = 0; i < 20000 && __atomic_load_n(told, __ATOMIC_ACQUIRE) < before + 50 + round * 37; i++)
            pause_briefly();
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        real_log l;
        real_open(&l, &d, 0);
        assert_false(l.wrong);
        assert_true(l.last >= __atomic_load_n(told, __ATOMIC_ACQUIRE) && l.last > before);
        store_destroy(l.s); // no orderly stop either
    }
    munmap(told, 4096);
    scratch_remove(path);
}

static void test_one_instance(void **state) {
    (void)state;
    char *path = scratch(), why[512], pid[32];
    pid_t holder = fork();
    if (holder == 0) _exit(data_dir_lock(path, why, sizeof(why)) == 0 && sleep(30) == 0);
    int result = 0;
    for (u32 i = 0; i < 5000 && result != -EBUSY; i++) {
        char name[100];
        snprintf(name, sizeof(name), "%s/lock", path);
        pause_briefly();
        if (access(name, F_OK) < 0) continue;
        pid_t tries = fork(); // a lock that is got would be kept
        if (tries == 0) {
            result = data_dir_lock(path, why, sizeof(why));
            snprintf(pid, sizeof(pid), "process %d", (int)holder);
            _exit(result == -EBUSY && strstr(why, pid) != NULL ? 42 : 0);
        }
        int status;
        waitpid(tries, &status, 0);
        if (WEXITSTATUS(status) == 42) result = -EBUSY;
    }
    assert_int_equal(result, -EBUSY);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    assert_int_equal(data_dir_lock(path, why, sizeof(why)), 0); // a killed one leaves nothing behind
    scratch_remove(path);
}

static void test_another_number_of_workers(void **state) {
    (void)state;
    char *path = scratch(), why[700];
    data_dir d;
    assert_int_equal(data_dir_open(&d, path, disk_real(), 2, why, sizeof(why)), 0);
    store_pos origins[200];
    for (u32 w = 0; w < 2; w++) {
        real_log l;
        real_open(&l, &d, w);
        for (u64 id = 1 + w; id < 200; id += 2) origins[id] = real_append(&l, id);
        store_stop(l.s);
        store_destroy(l.s);
    }
    u8 key[16];
    memcpy(key, d.key, sizeof(key));
    static const u32 steps[] = {3, 1};
    for (u32 i = 0; i < ARRAY_LEN(steps); i++) {
        u32 workers = steps[i];
        assert_int_equal(data_dir_open(&d, path, disk_real(), workers, why, sizeof(why)), 0);
        assert_true(d.old_workers != 0);
        assert_memory_equal(key, d.key, sizeof(key));
        store_keeper keepers[STORE_KINDS] = {[STORE_MESSAGE] = {.owners = owners_by_id}};
        assert_int_equal(data_dir_convert(&d, keepers, 64 << 20, 1 << 20, why, sizeof(why)), 0);
    }
    assert_int_equal(data_dir_open(&d, path, disk_real(), 1, why, sizeof(why)), 0);
    assert_int_equal(d.old_workers, 0);
    real_log l;
    real_open(&l, &d, 0);
    assert_int_equal(l.replayed, 199);
    // References by origin still find what they meant.
    for (u64 id = 1; id < 200; id++) {
        rig_fetch f = {.op = {.origin = origins[id], .done = NULL}};
        store_record r;
        int result = store_fetch(l.s, &f.op, &r);
        assert_true(result >= 0);
        store_fetch_cancel(l.s, &f.op);
    }
    store_stop(l.s);
    store_destroy(l.s);
    scratch_remove(path);
}

static void test_damage_is_set_aside(void **state) {
    (void)state;
    char *path = scratch(), why[512], name[128];
    data_dir d;
    assert_int_equal(data_dir_open(&d, path, disk_real(), 1, why, sizeof(why)), 0);
    real_log l;
    real_open(&l, &d, 0);
    for (u64 id = 1; id < 400; id++) {
        real_append(&l, id);
        if (id % 20 == 0) assert_int_equal(store_flush(l.s, 5000), 0);
    }
    store_stop(l.s);
    store_destroy(l.s);
    snprintf(name, sizeof(name), "%s/log/%04u/00000001.seg", path, d.first_log);
    FILE *f = fopen(name, "r+b");
    assert_non_null(f);
    fseek(f, 20000, SEEK_SET);
    fwrite("damage", 1, 6, f);
    fclose(f);
    fflush(stdout);
    int out = dup(1), null = open("/dev/null", O_WRONLY);
    dup2(null, 1);
    char verify[] = "verify", log_text[] = "log", *argv[] = {log_text, verify, path};
    pid_t child = fork();
    if (child == 0) _exit(log_command_main(3, argv));
    int status;
    waitpid(child, &status, 0);
    dup2(out, 1);
    close(out);
    close(null);
    assert_int_equal(WEXITSTATUS(status), 1);
    real_open(&l, &d, 0);
    assert_int_equal(counter_get(&store_metrics_get(l.s)->damaged), 1);
    assert_true(l.replayed >= 397 && l.replayed < 399);
    real_append(&l, 1000);
    assert_int_equal(store_flush(l.s, 5000), 0);
    store_stop(l.s);
    store_destroy(l.s);
    scratch_remove(path);
}

int main(void) {
    log_config config = {.level = LOG_ERROR, .ring_bytes = 65536};
    const char *step;
    const struct CMUnitTest simulated[] = {
        cmocka_unit_test(test_reclaim_copies_what_lives),
        cmocka_unit_test(test_copies_are_found_before_they_are_on_disk),
        cmocka_unit_test(test_full_log_refuses_by_name_and_resumes), cmocka_unit_test(test_kills_of_a_full_log),
        cmocka_unit_test(test_failed_sync_loses_nothing),
        cmocka_unit_test(test_failed_checkpoint_lets_the_worker_sleep),
        cmocka_unit_test(test_stop_while_a_record_is_read),
        cmocka_unit_test(test_segments_that_can_not_be_opened_are_not_given_up),
        cmocka_unit_test(test_find_time),
        cmocka_unit_test(test_index_of_a_full_segment),
    };
    const struct CMUnitTest real[] = {
        cmocka_unit_test(test_killed_in_the_middle),
        cmocka_unit_test(test_one_instance),
        cmocka_unit_test(test_another_number_of_workers),
        cmocka_unit_test(test_damage_is_set_aside),
    };
    int result = cmocka_run_group_tests(real, NULL, NULL); // it forks: before there is a log's thread
    log_start(&config, &step);
    result += cmocka_run_group_tests(simulated, NULL, NULL);
    log_stop(100);
    return result;
}
