// SPDX-License-Identifier: Apache-2.0
// mqtt_power.c: MQTT clients of a gateway whose log lies on a simulated disk: the power goes at any operation of the
// disk, also while the gateway starts, and what the disk has kept is started again. The clients come back with their
// half of their sessions. What must hold then is in mqtt_check.c, as ever; here is what the stream must have.
#include <stdlib.h>
#include <string.h>

#include "mqtt_client.h"
#include "sim_wrap.h"
#include "store/message_record.h"

#define LOG_SEGMENTS 16u
#define YEAR_NS (365ull * 24 * 3600 * NS_PER_S)

static void next_cut(mq_field *f, sim_random *rng) {
    if (f->life >= f->lives) return;
    disk_sim_cut_after(f->disk, 1 + sim_random_below(rng, sim_random_chance(rng, 250) ? 12 : 400));
}

void mq_power_choose(mq_field *f, rig_setup *setup, sim_random *rng) {
    f->bad = (disk_sim_config){.seed = sim_random_next(rng), .torn_per_mille = 100};
    f->disk = disk_sim_create(&f->bad);
    ASSERT(f->disk != NULL);
    f->lives = (u32)sim_random_range(rng, 1, 6);
    setup->disk = f->disk;
    setup->log_bytes = (u64)LOG_SEGMENTS << 20;
    setup->stream = "test/#";
    sim_wall_set(0);
    next_cut(f, rng);
    if (!f->faulty) return;
    f->bad.write_error_per_mille = (u32)sim_random_below(rng, 12);
    f->bad.sync_error_per_mille = (u32)sim_random_below(rng, 12);
    f->bad.make_error_per_mille = (u32)sim_random_below(rng, 60);
    // Room for some segments of each log: full now and then.
    if (sim_random_chance(rng, 500)) f->bad.bytes_max = sim_random_range(rng, 3, 6) * setup->workers << 20;
}

// The wall clock of a machine without a battery is years off, either way.
static void clock_jump(mq_field *f) {
    sim_random *rng = &f->rig->rng;
    if (!sim_random_chance(rng, 300)) return;
    u64 ns = sim_random_below(rng, 20 * YEAR_NS);
    sim_wall_set(sim_random_chance(rng, 500) ? (i64)ns : -(i64)ns);
}

static void start_again(mq_field *f, bool in_order) {
    rig *r = f->rig;
    for (u32 i = 0; i < f->client_count; i++) mq_client_cut(f->clients[i]);
    rig_halt(r, in_order);
    if (rig_is_failed(r)) return;
    f->life++;
    sim_note(r->world, "life %u", f->life);
    clock_jump(f);
    next_cut(f, &r->rng);
    f->bad_now = false;
    disk_sim_config good = {.torn_per_mille = f->bad.torn_per_mille};
    disk_sim_configure(f->disk, &good);
    rig_boot(r);
}

void mq_power_turn(mq_field *f) {
    rig *r = f->rig;
    bool running = true;
    while (!rig_is_failed(r) && disk_sim_is_cut(f->disk)) {
        mq_total.cuts++;
        mq_total.cuts_at_start += !running;
        start_again(f, false);
        running = false;
    }
    if (f->bad_now || rig_is_failed(r)) return;
    f->bad_now = true;
    disk_sim_configure(f->disk, &f->bad);
}

void mq_power_calm(mq_field *f) {
    f->bad = (disk_sim_config){.torn_per_mille = 100};
    disk_sim_configure(f->disk, &f->bad);
    f->lives = f->life;
    disk_sim_cut_after(f->disk, UINT64_MAX / 2);
    mq_total.stops++;
    start_again(f, true);
}

// --- the stream ---

typedef struct stream_seen {
    mq_field *f;
    u8 *times;      // by message
    u64 offset;     // the last one, of this worker
} stream_seen;

static void nothing(void *context) {
    (void)context;
}

static void record_check(stream_seen *seen, const store_record *record) {
    mq_field *f = seen->f;
    rig *r = f->rig;
    message_record m;
    bool right = message_record_parse(record->data, record->len, &m);
    RIG_CHECK(r, right, "a message record that can not be read");
    if (!right || m.stream_count == 0) return;
    u32 number = UINT32_MAX;
    if (m.payload_len >= MQ_PAYLOAD_MIN) memcpy(&number, m.payload + 4, 4);
    RIG_CHECK(r, number < f->message_count, "a message in the stream that nobody sent");
    u64 offset = message_record_stream(&m, 0).offset;
    RIG_CHECK(r, seen->offset == 0 || offset == seen->offset + 1, "the stream has offset %llu after %llu",
              (unsigned long long)offset, (unsigned long long)seen->offset);
    seen->offset = offset;
    if (rig_is_failed(r)) return;
    seen->times[number] = (u8)MIN(seen->times[number] + 1, 255);
    mq_total.streamed++;
}

static void log_read(stream_seen *seen, worker *w) {
    store *s = w->store;
    store_reader *reader = store_reader_open(s, store_first(s), nothing, NULL);
    ASSERT(reader != NULL);
    store_record record;
    for (u32 idle = 0; idle < 4 && !rig_is_failed(seen->f->rig);) {
        int result = store_reader_next(reader, &record);
        if (result == 1 && record.kind == STORE_MESSAGE) record_check(seen, &record);
        RIG_CHECK(seen->f->rig, result >= 0, "the log can not be read: %s", errno_name(result));
        if (result != 0) {
            idle = 0;
            continue;
        }
        idle++;
        while (store_step(s)) idle = 0;
        store_turn(s, w->now_ns);
    }
    store_reader_close(reader);
}

void mq_power_check(mq_field *f) {
    rig *r = f->rig;
    stream_seen seen = {.f = f, .times = calloc(f->message_count + 1, 1)};
    ASSERT(seen.times != NULL);
    for (u32 i = 0; i < r->setup.workers && !rig_is_failed(r); i++) {
        seen.offset = 0;
        log_read(&seen, &r->workers[i]);
    }
    for (u32 i = 0; i < f->message_count && !rig_is_failed(r); i++) {
        const mq_message *m = &f->messages[i];
        RIG_CHECK(r, !m->acked || seen.times[i] > 0, "message %u of QoS %u was acknowledged and is not in the stream",
                  i, m->qos);
        bool once = seen.times[i] < 2 || (m->qos == 1 && m->resent) || mq_refusal_was_lost(f, m);
        RIG_CHECK(r, once, "message %u of QoS %u is %u times in the stream", i, m->qos, seen.times[i]);
    }
    free(seen.times);
}
