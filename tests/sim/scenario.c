// SPDX-License-Identifier: Apache-2.0
// scenario.c: see scenario.h. A scenario chooses the world's faults, the gateway's settings and the devices
// from its seed, lets them run, and states what must hold at the end beyond what rig.c and
// device_check.c always check.
#include "scenario.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "mqtt_client.h"
#include "rig.h"

#define RUN_NS (1200 * NS_PER_S)  // virtual time a scenario may take
#define EMPTY_NS (60 * NS_PER_S)  // virtual time in which the gateway must have let go

// What the gateway did in all runs: a path that no seed takes is not tested.
typedef struct gateway_totals {
    u64 pauses, moved, dropped, delivered, copied, refused_memory, overflows;
    u64 closes[CLOSE_REASONS];
} gateway_totals;

static sim_counts totals;
static gateway_totals gateway_sum;
static u64 last_digest;

u64 scenario_digest(void) {
    return last_digest;
}

void scenario_print_counts(void) {
    const sim_counts *t = &totals;
    printf("simulated: %" PRIu64 " events, %" PRIu64 " clock moves; %" PRIu64 " bytes in, %" PRIu64
           " out\nfaults: %" PRIu64 " short receives, %" PRIu64 " short sends, %" PRIu64
           " sends that waited, %" PRIu64 " silent sends, %" PRIu64 " delays, %" PRIu64 " late receives, %" PRIu64
           " without a buffer, %" PRIu64 " multishots ended, %" PRIu64 " resets, %" PRIu64
           " accept errors, %" PRIu64 " spurious wakes, %" PRIu64 " delayed closes, %" PRIu64
           " attach errors, %" PRIu64 " time jumps, %" PRIu64 " buffers poisoned\n",
           t->events, t->steps, t->bytes_to_engines, t->bytes_to_peers, t->short_recvs, t->short_sends,
           t->send_waits, t->silent_sends, t->delays, t->late_recvs, t->starved, t->multishot_ends, t->resets,
           t->accept_errors, t->spurious_wakes, t->close_delays, t->attach_errors, t->time_jumps,
           t->poisoned);
    const gateway_totals *g = &gateway_sum;
    printf("gateway: %" PRIu64 " pauses, %" PRIu64 " moved, %" PRIu64 " delivered, %" PRIu64
           " dropped, %" PRIu64 " bytes copied, %" PRIu64 " buffers refused, %" PRIu64
           " messages behind a full ring\nclosed:", g->pauses, g->moved, g->delivered, g->dropped, g->copied,
           g->refused_memory, g->overflows);
    for (u32 i = 0; i < CLOSE_REASONS; i++) {
        if (g->closes[i] > 0) printf(" %s %" PRIu64, close_reason_name(i), g->closes[i]);
    }
    printf("\n");
    mq_print_counts();
}

static void gateway_add(const rig *r) {
    gateway_totals *g = &gateway_sum;
    g->pauses += RIG_METRIC(r, recv_pauses);
    g->moved += RIG_METRIC(r, moved_in);
    g->delivered += RIG_METRIC(r, delivered);
    g->dropped += RIG_METRIC(r, delivery_dropped);
    g->copied += RIG_METRIC(r, copied_in_bytes);
    g->refused_memory += RIG_METRIC(r, memory_refused);
    g->overflows += RIG_METRIC(r, post_overflows);
    for (u32 i = 0; i < CLOSE_REASONS; i++) g->closes[i] += rig_closes(r, (close_reason)i);
}

static void totals_add(const sim_counts *c) {
    const u64 *from = (const u64 *)(const void *)c;
    u64 *to = (u64 *)(void *)&totals;
    for (size_t i = 0; i < sizeof(*c) / sizeof(u64); i++) to[i] += from[i];
}
_Static_assert(sizeof(sim_counts) % sizeof(u64) == 0, "all counts are u64");

// --- the world ---

enum { NET_CLEAN = 0, NET_CUTS = 1, NET_ALL = 2, NET_RESETS = 3, NET_KINDS = 4 };

static u16 some(sim_random *rng, u32 max) {
    return (u16)(sim_random_chance(rng, 400) ? 0 : sim_random_below(rng, max + 1));
}

static void faults_choose(sim_random *rng, u32 net, sim_faults *f) {
    *f = (sim_faults){0};
    if (net == NET_CLEAN) return;
    f->short_recv = some(rng, 600);
    f->short_send = some(rng, 600);
    f->send_pending = some(rng, 600);
    f->send_silent = some(rng, 1000);
    f->multishot_end = some(rng, 500);
    f->starve = some(rng, 300);
    f->late_recv = some(rng, 1000);
    if (net == NET_CUTS) return;
    f->delay = some(rng, 400);
    f->spurious_wake = some(rng, 200);
    f->close_delay = some(rng, 500);
    f->accept_error = some(rng, 100);
    f->time_jump = some(rng, 100);
    f->delay_ns_max = sim_random_range(rng, 1, 20 * NS_PER_MS);
    f->jump_ns_max = sim_random_range(rng, 1, 100 * NS_PER_MS);
    if (net == NET_ALL) return;
    f->reset = some(rng, 5);
    f->reset_drops = some(rng, 1000);
    f->attach_error = some(rng, 50);
}

// The size of everything: small pipes carry small frames, or a frame would take longer than it may.
typedef struct scale {
    u32 pipe_min, pipe_max, frame_max, frames_max;
} scale;

static scale scale_choose(sim_random *rng) {
    static const scale scales[] = {
        {16, 64, 300, 12}, {100, 1000, 3000, 25}, {4096, 16384, 20000, 40}, {65536, 65536, 65536, 40},
    };
    return scales[sim_random_below(rng, ARRAY_LEN(scales))];
}

static void setup_choose(rig_setup *setup, sim_random *rng, u64 seed, FILE *trace, u32 net,
                         const scale *size) {
    *setup = (rig_setup){.workers = (u32)sim_random_range(rng, 1, 2)};
    setup->sim = (sim_config){
        .seed = seed,
        .trace = trace,
        .style = (sim_style)sim_random_below(rng, SIM_STYLES),
        .pipe_bytes_min = size->pipe_min,
        .pipe_bytes_max = size->pipe_max,
        .latency_ns_max = net <= NET_CUTS ? 0 : sim_random_below(rng, 20 * NS_PER_MS),
    };
    faults_choose(rng, net, &setup->sim.faults);
    setup->stalls = net >= NET_ALL && sim_random_chance(rng, 300);
    setup->budget = (worker_budget){.conns_max = 256, .conn_bytes = 8u << 20, .buffer_bytes = 64u << 20,
                                    .broker_bytes = 32u << 20,
                                    .recv_bufs = (u32)sim_random_range(rng, 2, 64)};
}

static listener_config *listener_choose(rig_setup *setup, sim_random *rng, frame_mode mode,
                                        const char *name, const scale *size) {
    listener_config *l = &setup->listeners[setup->listener_count++];
    static const u32 highs[] = {64, 512, 4096, 65536};
    snprintf(l->name, sizeof(l->name), "%s", name);
    l->protocol = PROTOCOL_FRAME;
    l->mode = mode;
    l->max_frame = size->frame_max;
    l->idle_timeout_ms = 20000;
    l->packet_timeout_ms = 10000;
    l->hello_timeout_ms = 8000;
    l->send_timeout_ms = 15000;
    l->out_bytes_high = highs[sim_random_below(rng, ARRAY_LEN(highs))];
    l->out_bytes_max = l->out_bytes_high + size->frame_max + 64;
    l->anonymous = true;
    snprintf(l->up_topic, sizeof(l->up_topic), "x/%%i");
    snprintf(l->down_topic, sizeof(l->down_topic), "none/%%i");
    return l;
}

static device_plan plan_choose(sim_random *rng, u32 door, const scale *size) {
    static const device_end ends[] = {END_FIN, END_FIN, END_FIN, END_FIN, END_CLOSE, END_RESET, END_IDLE,
                                      END_PARTIAL, END_OVERSIZE, END_MUTE, END_STALL, END_SILENT};
    u32 least = MAX(size->frame_max / 50, 1u);
    u32 write_most = sim_random_chance(rng, 500) ? 100 : 70000;
    u32 read_most = sim_random_chance(rng, 500) ? 100 : 4096;
    return (device_plan){
        .listener = door,
        .end = ends[sim_random_below(rng, ARRAY_LEN(ends))],
        .frames = (u32)sim_random_below(rng, size->frames_max + 1),
        .frame_bytes_max = size->frame_max,
        .write_max = (u32)sim_random_range(rng, least, MAX(least, write_most)),
        .read_max = (u32)sim_random_range(rng, least, MAX(least, read_most)),
        .think_ns_max = sim_random_below(rng, 20 * NS_PER_MS),
        .start_ns = sim_random_below(rng, NS_PER_S),
    };
}

// --- the end of every run ---

static void finish(rig *r, char *failure, size_t failure_bytes) {
    for (u32 i = 0; i < r->device_count && !rig_is_failed(r); i++) {
        const device *d = r->devices[i];
        RIG_CHECK(r, d->done, "device %u (end %u) is not done after %" PRIu64 " s: %zu of %zu written, %zu read",
                  d->number, d->plan.end, (u64)(RUN_NS / NS_PER_S), d->out_at, d->out_len, d->got);
    }
    if (!rig_is_failed(r)) rig_run_until_empty(r, EMPTY_NS);
    for (u32 i = 0; i < r->device_count && !rig_is_failed(r); i++) device_check_end(r->devices[i]);
    if (!rig_is_failed(r)) device_check_deliveries(r);
    scenario_close(r, failure, failure_bytes);
}

void scenario_close(rig *r, char *failure, size_t failure_bytes) {
    sim_counts counts = sim_counts_get(r->world);
    totals_add(&counts);
    gateway_add(r);
    last_digest = sim_digest(r->world);
    rig_close(r, failure, failure_bytes);
}

static void run_frames(u64 seed, FILE *trace, frame_mode mode, char *failure, size_t failure_bytes) {
    sim_random rng = {.state = seed};
    u32 net = (u32)(seed % NET_KINDS);
    scale size = scale_choose(&rng);
    rig_setup setup;
    setup_choose(&setup, &rng, seed, trace, net, &size);
    listener_choose(&setup, &rng, mode, "frames", &size);
    rig *r = rig_open(&setup);
    // Alone, a device that is forgotten is not woken by the others' events.
    u32 devices = sim_random_chance(&rng, 300) ? 1 : (u32)sim_random_range(&rng, 2, 16);
    for (u32 i = 0; i < devices; i++) {
        device_plan plan = plan_choose(&rng, 0, &size);
        device_add(r, &plan);
    }
    rig_run(r, RUN_NS);
    finish(r, failure, failure_bytes);
}

static void run_echo(u64 seed, FILE *trace, char *failure, size_t failure_bytes) {
    run_frames(seed, trace, FRAME_ECHO, failure, failure_bytes);
}

static void run_ack(u64 seed, FILE *trace, char *failure, size_t failure_bytes) {
    run_frames(seed, trace, FRAME_ACK, failure, failure_bytes);
}

// --- publish ---

// Publishers, subscribers, and devices that are both; now and then two with the same id.
static void run_publish(u64 seed, FILE *trace, char *failure, size_t failure_bytes) {
    sim_random rng = {.state = seed};
    u32 net = (u32)(seed % NET_KINDS);
    scale size = scale_choose(&rng);
    size.frame_max = MIN(size.frame_max, 8000u);
    size.frames_max = MIN(size.frames_max, 15u);
    rig_setup setup;
    setup_choose(&setup, &rng, seed, trace, net, &size);
    setup.workers = (u32)sim_random_range(&rng, 1, RIG_WORKERS_MAX);
    static const char *const names[] = {"publishers", "subscribers", "both"};
    static const char *const ups[] = {"m/%i", "x/%i", "m/%i"}, *const downs[] = {"none/%i", "m/#", "m/+"};
    setup.roomy = sim_random_chance(&rng, 500);
    for (u32 i = 0; i < 3; i++) {
        listener_config *l = listener_choose(&setup, &rng, FRAME_PUBLISH, names[i], &size);
        snprintf(l->up_topic, sizeof(l->up_topic), "%s", ups[i]);
        snprintf(l->down_topic, sizeof(l->down_topic), "%s", downs[i]);
        l->max_frame = MAX(l->max_frame, 200u); // a hello fits
        if (setup.roomy) l->out_bytes_max = 32u << 20;
        if (sim_random_chance(&rng, 300)) snprintf(l->token, sizeof(l->token), "secret");
    }
    rig *r = rig_open(&setup);
    u32 devices = (u32)sim_random_range(&rng, 2, 16);
    for (u32 i = 0; i < devices; i++) {
        device_plan plan = plan_choose(&rng, (u32)sim_random_below(&rng, 3), &size);
        if (sim_random_chance(&rng, 50)) plan.end = END_BAD_HELLO;
        bool has_token = setup.listeners[plan.listener].token[0] != '\0';
        if (has_token && sim_random_chance(&rng, 100)) plan.end = END_BAD_TOKEN;
        if (plan.end == END_BAD_HELLO || plan.end == END_BAD_TOKEN) plan.frames = 0;
        plan.waits = plan.end == END_FIN && sim_random_chance(&rng, 700);
        if (sim_random_chance(&rng, 100)) plan.id = "shared";
        plan.write_max = MAX(plan.write_max, 20u);
        device_add(r, &plan);
    }
    rig_run(r, RUN_NS);
    finish(r, failure, failure_bytes);
}

// --- time ---

static u64 lateness(const device *d, u64 due_ns) {
    return d->closed_ns - due_ns;
}

// Timeouts strike on time: never early, at most a tick late, on a network without latency.
static void run_timeouts(u64 seed, FILE *trace, char *failure, size_t failure_bytes) {
    sim_random rng = {.state = seed};
    scale size = {65536, 65536, 65536, 20};
    rig_setup setup;
    setup_choose(&setup, &rng, seed, trace, NET_CLEAN, &size);
    listener_config *echo = listener_choose(&setup, &rng, FRAME_ECHO, "echo", &size);
    listener_config *pub = listener_choose(&setup, &rng, FRAME_PUBLISH, "publish", &size);
    echo->idle_timeout_ms = sim_random_range(&rng, 2000, 30000);
    echo->packet_timeout_ms = sim_random_range(&rng, 50, echo->idle_timeout_ms - 1000);
    pub->hello_timeout_ms = sim_random_range(&rng, 50, 10000);
    rig *r = rig_open(&setup);
    static const device_end ends[] = {END_IDLE, END_SILENT, END_STALL};
    for (u32 i = 0; i < 24; i++) {
        device_plan plan = plan_choose(&rng, (u32)sim_random_below(&rng, 2), &size);
        plan.end = ends[sim_random_below(&rng, ARRAY_LEN(ends))];
        if (plan.listener == 1) plan.end = END_SILENT;
        plan.read_max = 4096;
        plan.frame_bytes_max = 1000;
        plan.think_ns_max = MIN(plan.think_ns_max, 5 * NS_PER_MS);
        device_add(r, &plan);
    }
    rig_run(r, RUN_NS);
    for (u32 i = 0; i < r->device_count && !rig_is_failed(r); i++) {
        const device *d = r->devices[i];
        u64 due = MAX(d->last_write_ns, d->connected_ns) + echo->idle_timeout_ms * NS_PER_MS;
        if (d->plan.listener == 1) due = d->connected_ns + pub->hello_timeout_ms * NS_PER_MS;
        else if (d->plan.end == END_SILENT) due = d->connected_ns + echo->idle_timeout_ms * NS_PER_MS;
        else if (d->plan.end == END_STALL) due = d->begun_ns + echo->packet_timeout_ms * NS_PER_MS;
        RIG_CHECK(r, d->closed_ns >= due, "device %u: timeout %s struck %" PRIu64 " us early", d->number,
                  close_reason_name(d->reason), (due - d->closed_ns) / 1000);
        RIG_CHECK(r, lateness(d, due) <= TIMER_TICK_NS, "device %u: timeout %s struck %" PRIu64 " us late",
                  d->number, close_reason_name(d->reason), lateness(d, due) / 1000);
    }
    finish(r, failure, failure_bytes);
}

// Devices that say nothing for a long time: the loop must not turn without a cause.
static void run_quiet(u64 seed, FILE *trace, char *failure, size_t failure_bytes) {
    sim_random rng = {.state = seed};
    scale size = {65536, 65536, 1000, 5};
    rig_setup setup;
    setup_choose(&setup, &rng, seed, trace, NET_CLEAN, &size);
    listener_config *l = listener_choose(&setup, &rng, FRAME_ECHO, "echo", &size);
    l->idle_timeout_ms = 7 * 24 * 3600 * 1000ull;
    l->out_bytes_high = 65536; // nobody reads during the quiet time
    l->out_bytes_max = 2 * l->out_bytes_high;
    rig *r = rig_open(&setup);
    for (u32 i = 0; i < 20; i++) {
        device_plan plan = plan_choose(&rng, 0, &size);
        plan.end = END_FIN;
        plan.waits = i > 0;
        device_add(r, &plan);
    }
    r->devices[0]->next_ns = UINT64_MAX; // comes last
    rig_run(r, 30 * NS_PER_S);
    u64 loops = RIG_METRIC(r, loops), seconds = 1000;
    u64 end = sim_now_ns(r->world) + seconds * NS_PER_S;
    while (!rig_is_failed(r) && sim_now_ns(r->world) < end) rig_turn(r, end - sim_now_ns(r->world));
    loops = RIG_METRIC(r, loops) - loops;
    // The watchdog's turn each second is two of the rig (the clock moves between them); the rest is air.
    u64 bound = seconds * setup.workers * 5;
    RIG_CHECK(r, loops <= bound, "%" PRIu64 " turns in %" PRIu64 " quiet seconds", loops, seconds);
    r->devices[0]->next_ns = 0;
    rig_run(r, RUN_NS);
    finish(r, failure, failure_bytes);
}

// --- limits ---

static void limits_choose(rig_setup *setup, sim_random *rng, const scale *size) {
    static const frame_mode modes[] = {FRAME_ECHO, FRAME_ACK, FRAME_PUBLISH};
    for (u32 i = 0; i < 3; i++) {
        listener_config *l = listener_choose(setup, rng, modes[i], i == 0 ? "a" : i == 1 ? "b" : "c", size);
        l->max_frame = MAX(l->max_frame, 200u);
        if (sim_random_chance(rng, 300)) l->max_conns = (u32)sim_random_range(rng, 1, 5);
        if (sim_random_chance(rng, 300)) l->max_conns_per_address = (u32)sim_random_range(rng, 1, 3);
        if (sim_random_chance(rng, 300)) l->accept_rate = (u32)sim_random_range(rng, 2, 50);
    }
    setup->tight = true;
    if (sim_random_chance(rng, 300)) setup->budget.conns_max = (u32)sim_random_range(rng, 2, 8);
    if (sim_random_chance(rng, 400)) setup->budget.buffer_bytes = sim_random_range(rng, 4096, 200000);
    // What a broker keeps from its start (540 KiB, most of it for topics that come again), and little more.
    if (sim_random_chance(rng, 300)) setup->budget.broker_bytes = sim_random_range(rng, 600000, 800000);
    if (sim_random_chance(rng, 300)) {
        setup->sim.fds_max = (u32)sim_random_range(rng, 3 * setup->workers + 1, 3 * setup->workers + 8);
    }
}

// Everything that may run out does: connections are refused or dropped, with a reason, and nothing leaks.
static void run_limits(u64 seed, FILE *trace, char *failure, size_t failure_bytes) {
    sim_random rng = {.state = seed};
    u32 net = (u32)(seed % NET_KINDS);
    scale size = scale_choose(&rng);
    rig_setup setup;
    setup_choose(&setup, &rng, seed, trace, net, &size);
    limits_choose(&setup, &rng, &size);
    rig *r = rig_open(&setup);
    struct sockaddr_storage addr = {.ss_family = AF_INET};
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&addr;
    u32 devices = (u32)sim_random_range(&rng, 4, 30);
    for (u32 i = 0; i < devices; i++) {
        device_plan plan = plan_choose(&rng, (u32)sim_random_below(&rng, 3), &size);
        v4->sin_addr.s_addr = htonl(0x0a000001u + (u32)sim_random_below(&rng, 3));
        v4->sin_port = htons((u16)(20000 + i));
        plan.addr = &addr;
        device_add(r, &plan)->addr = addr;
    }
    for (u32 i = 0; i < devices; i++) r->devices[i]->plan.addr = &r->devices[i]->addr;
    rig_run(r, RUN_NS);
    finish(r, failure, failure_bytes);
    u8 key[16] = {[10] = 0xff, [11] = 0xff};
    for (u32 i = 0; i < 3 && failure[0] == '\0'; i++) {
        u32 host = htonl(0x0a000001u + i);
        memcpy(key + 12, &host, 4);
        if (address_limit_take(key, 1) != 0) {
            snprintf(failure, failure_bytes, "an address is still counted");
        } else {
            address_limit_give(key);
        }
    }
}

// Draining in the middle of everything: all connections end by the deadline.
static void run_drain(u64 seed, FILE *trace, char *failure, size_t failure_bytes) {
    sim_random rng = {.state = seed};
    u32 net = (u32)(seed % NET_KINDS);
    scale size = scale_choose(&rng);
    rig_setup setup;
    setup_choose(&setup, &rng, seed, trace, net, &size);
    listener_choose(&setup, &rng, FRAME_ECHO, "echo", &size);
    listener_choose(&setup, &rng, FRAME_ACK, "ack", &size);
    listener_config *pub = listener_choose(&setup, &rng, FRAME_PUBLISH, "publish", &size);
    pub->max_frame = MAX(pub->max_frame, 200u);
    snprintf(pub->up_topic, sizeof(pub->up_topic), "m/%%i");
    snprintf(pub->down_topic, sizeof(pub->down_topic), "m/#");
    rig *r = rig_open(&setup);
    u32 devices = (u32)sim_random_range(&rng, 1, 20);
    for (u32 i = 0; i < devices; i++) {
        device_plan plan = plan_choose(&rng, (u32)sim_random_below(&rng, 3), &size);
        plan.start_ns = sim_random_below(&rng, 2 * NS_PER_S);
        device_add(r, &plan);
    }
    rig_run(r, sim_random_below(&rng, 3 * NS_PER_S));
    r->drained = r->tight = true;
    u64 deadline = sim_now_ns(r->world) + sim_random_below(&rng, 5 * NS_PER_S);
    rig_drain(r, deadline);
    // A delayed close may come that much later, and a stalled process notices late.
    u64 end = deadline + 2 * NS_PER_S;
    rig_run(r, end - sim_now_ns(r->world));
    while (!rig_is_failed(r) && rig_conns(r) > 0 && sim_now_ns(r->world) < end) rig_turn(r, NS_PER_S);
    RIG_CHECK(r, rig_conns(r) == 0, "%u connections after the drain's deadline", rig_conns(r));
    for (u32 i = 0; i < r->device_count; i++) device_leave(r->devices[i]);
    finish(r, failure, failure_bytes);
}

// --- MQTT ---

static void mqtt_world_choose(mq_setup *chosen, u64 seed, FILE *trace) {
    scale unused = {0};
    chosen->rng.state = seed;
    setup_choose(&chosen->setup, &chosen->rng, seed, trace, (u32)(seed % NET_KINDS), &unused);
    chosen->setup.workers = 2;
    // Nothing is ever refused for want of these.
    chosen->setup.roomy = true;
}

#define MQTT_SCENARIO(name, run) \
    static void name(u64 seed, FILE *trace, char *failure, size_t failure_bytes) { \
        mq_setup chosen; \
        mqtt_world_choose(&chosen, seed, trace); \
        run(&chosen, failure, failure_bytes); \
    }
MQTT_SCENARIO(run_mqtt, mq_run)
MQTT_SCENARIO(run_mqtt_drops, mq_run_lossy)
MQTT_SCENARIO(run_mqtt_power, mq_run_power)
MQTT_SCENARIO(run_mqtt_bad_disk, mq_run_bad_disk)
MQTT_SCENARIO(run_mqtt_again, mq_run_again)
MQTT_SCENARIO(run_mqtt_clock, mq_run_clock)
MQTT_SCENARIO(run_mqtt_kept, mq_run_kept)

const scenario scenarios[] = {
    {"echo", "frames come back whole and in order", run_echo},
    {"ack", "frames are counted without a gap", run_ack},
    {"publish", "messages of a publisher come in order, none lost unless counted", run_publish},
    {"timeouts", "timeouts strike within a tick", run_timeouts},
    {"quiet", "an idle gateway does not turn its loop", run_quiet},
    {"limits", "what runs out ends in a named refusal", run_limits},
    {"drain", "a drain ends by its deadline", run_drain},
    {"mqtt", "MQTT sessions keep what each QoS promises", run_mqtt},
    {"mqtt_drops", "full MQTT queues drop and count, and keep order", run_mqtt_drops},
    {"mqtt_clock", "sessions of clients that are away end in time, whatever the clock says", run_mqtt_clock},
    {"mqtt_again", "what is asked again before its commit is answered when that has ended", run_mqtt_again},
    {"mqtt_kept", "retained messages, wills and shared subscriptions survive power cuts", run_mqtt_kept},
    {"mqtt_power", "what was acknowledged survives power cuts, once and in order", run_mqtt_power},
    {"mqtt_disk", "the same on a disk that fails and fills up", run_mqtt_bad_disk},
};
const u32 scenario_count = ARRAY_LEN(scenarios);
