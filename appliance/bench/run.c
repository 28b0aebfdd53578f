// SPDX-License-Identifier: Apache-2.0
// run.c: the loop and the phases of one run.
//
// One turn of the loop: let each flow hand over what is due, enter the kernel once with all of it,
// take the replies, note how late the messages left. Spinning, the loop never sleeps, so a message
// leaves within microseconds of its time and the server never has to wake the generator up: over a
// network it would not pay for that either. Sleeping (one CPU only) is the same loop with a wait at
// its end.
//
// The server is sampled just outside the window (2 ms before, 2 ms after): reading /proc takes some
// 100 us, which must not delay messages whose latency counts.
#include "bench/run.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench/run_parts.h"
#include "bench/verdict.h"

#define SAMPLE_MARGIN_NS (2 * NS_PER_MS)
#define START_DELAY_NS (20 * NS_PER_MS)
#define CATCH_UP_NS (250 * NS_PER_MS)
#define IDLE_SETTLE_NS (500 * NS_PER_MS)

volatile int bench_stop;

static void on_stop_signal(int signal_number) {
    (void)signal_number;
    bench_stop = 1;
}

void bench_signals_install(void) {
    struct sigaction stop = {.sa_handler = on_stop_signal}, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGINT, &stop, NULL); // no SA_RESTART: waits end at once
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
}

u32 bench_cpu_count(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
    return (u32)CPU_COUNT(&set);
}

// --- the loop ---

static void lags_note(run *r, u64 now_ns) {
    for (u32 i = 0; i < r->load.started_count; i++) {
        u64 due_ns = r->load.started_due_ns[i];
        hist_record(&r->result->lag, now_ns - MIN(now_ns, due_ns));
    }
    r->load.started_count = 0;
}

static u64 next_due_ns(const run *r, u64 until_ns) {
    u64 next = until_ns;
    for (u32 i = 0; i < r->actor_count; i++) next = MIN(next, r->actors[i]->due_ns);
    return next;
}

static void loop_until(run *r, u64 until_ns) {
    u64 now_ns = clock_mono_ns();
    while (now_ns < until_ns && !bench_stop && !(r->measuring && run_parts_done(r))) {
        u32 fired = 0;
        for (u32 i = 0; i < r->actor_count; i++) {
            if (r->actors[i]->due_ns > now_ns) continue;
            r->actors[i]->fire(r->actors[i], now_ns);
            fired++;
        }
        u32 handled = cio_poll(r->load.io);
        u64 after_ns = clock_mono_ns();
        lags_note(r, after_ns);
        if (fired + handled > 0) {
            r->busy_ns += after_ns - now_ns;
            if (r->measuring) hist_record(&r->result->turns, after_ns - now_ns);
        } else if (!r->spin) {
            cio_wait(r->load.io, next_due_ns(r, until_ns));
            after_ns = clock_mono_ns();
        }
        now_ns = after_ns;
    }
}

// --- phases ---

typedef struct answers {
    u64 messages, heartbeats, shorts;
} answers;

static answers answers_now(run *r) {
    answers a = {0};
    u64 sent;
    if (r->steady != NULL) {
        a.messages = steady_stats(r->steady)->answered;
        (void)steady_heartbeats(r->steady, &sent, &a.heartbeats);
    }
    if (r->shorts != NULL) a.shorts = short_stats(r->shorts)->answered;
    return a;
}

static void sample_take(run *r, observe_sample *sample) {
    if (r->result->pid_count == 0) return;
    int rc = observe_take(r->result->pids, r->result->pid_count, sample);
    if (rc == 0) return;
    r->result->pid_count = 0;
    snprintf(r->result->observe_note, sizeof(r->result->observe_note),
             "the server could not be read: %s%s", errno_name(rc),
             rc == -ESRCH ? " (it has ended)" : "");
}

static void window_measure(run *r) {
    bench_result *out = r->result;
    load *l = &r->load;
    loop_until(r, l->window_begin_ns - SAMPLE_MARGIN_NS);
    sample_take(r, r->before);
    answers from = answers_now(r);
    u64 run_before, wait_before;
    observe_self(&run_before, &wait_before);
    u64 steal_before = observe_steal_ns();
    u64 busy_from_ns = clock_mono_ns();
    r->busy_ns = 0;
    r->measuring = true;
    loop_until(r, l->window_end_ns + SAMPLE_MARGIN_NS);
    r->measuring = false;
    u64 now_ns = clock_mono_ns();
    out->interrupted = bench_stop != 0;
    if (now_ns < l->window_end_ns) l->window_end_ns = MAX(now_ns, l->window_begin_ns);
    out->window_ns = l->window_end_ns - l->window_begin_ns;
    out->busy_share = (double)r->busy_ns / (double)MAX(now_ns - busy_from_ns, 1);
    observe_self(&out->self_run_ns, &out->self_wait_ns);
    out->self_run_ns -= run_before;
    out->self_wait_ns -= wait_before;
    u64 cpu_time_ns = MAX(now_ns - busy_from_ns, 1) * (u64)sysconf(_SC_NPROCESSORS_ONLN);
    out->steal_share = (double)(observe_steal_ns() - steal_before) / (double)cpu_time_ns;
    answers to = answers_now(r);
    out->observed_ns = now_ns - busy_from_ns;
    out->observed_messages = to.messages - from.messages;
    out->observed_heartbeats = to.heartbeats - from.heartbeats;
    out->observed_shorts = to.shorts - from.shorts;
    sample_take(r, r->after);
    if (out->pid_count > 0) observe_difference(r->before, r->after, &out->server);
}

static void syscalls_measure(run *r) {
    bench_result *out = r->result;
    const bench_options *o = r->load.options;
    bool wanted = o->syscalls_ns > 0 && o->kind != BENCH_IDLE && o->kind != BENCH_STORM &&
                  !bench_stop;
    if (!wanted || out->pid_count == 0) {
        snprintf(out->syscalls_note, sizeof(out->syscalls_note), "%s",
                 !wanted ? "not counted in this run" : "the server is not observed");
        return;
    }
    observe_syscalls *s = observe_syscalls_open(out->pids, out->pid_count, out->syscalls_note,
                                                sizeof(out->syscalls_note));
    if (s == NULL) return;
    loop_until(r, clock_mono_ns() +
                      20 * NS_PER_MS); // what was due during the opening is caught up first
    u64 calls = observe_syscalls_read(s);
    answers from = answers_now(r);
    loop_until(r, clock_mono_ns() + o->syscalls_ns);
    out->syscalls = observe_syscalls_read(s) - calls;
    answers to = answers_now(r);
    out->syscalls_exchanges = to.messages + to.heartbeats + to.shorts - from.messages -
                              from.heartbeats - from.shorts;
    out->syscalls_available = true;
    observe_syscalls_close(s);
}

// A stall of the machine at the very end of the window must not leave its last messages unsent:
// they go out now, late, and their lag tells.
static void catch_up(run *r) {
    u64 until_ns = clock_mono_ns() + CATCH_UP_NS;
    while (run_parts_behind(r) && clock_mono_ns() < until_ns && !bench_stop) {
        loop_until(r, clock_mono_ns() + NS_PER_MS);
    }
}

static void drain(run *r) {
    catch_up(r);
    run_parts_stop(r);
    u64 until_ns = clock_mono_ns() + r->load.options->drain_ns;
    int stopped = bench_stop;
    bench_stop = 0; // a second Ctrl-C ends the drain
    while (run_parts_outstanding(r) > 0 && clock_mono_ns() < until_ns && !bench_stop) {
        loop_until(r, MIN(until_ns, clock_mono_ns() + NS_PER_MS));
    }
    bench_stop |= stopped;
}

static void idle_measure(run *r) {
    bench_result *out = r->result;
    // What the server still does after the last connection (replies, timers) is over by then.
    loop_until(r, clock_mono_ns() + IDLE_SETTLE_NS);
    if (out->pid_count > 0) {
        (void)observe_memory(out->pids, out->pid_count, &out->rss_after, &out->private_after);
    }
    out->tcp_after = observe_tcp_memory();
}

static void phases_run(run *r) {
    const bench_options *o = r->load.options;
    if (o->kind == BENCH_IDLE) idle_measure(r);
    u64 start_ns = clock_mono_ns() + START_DELAY_NS;
    r->load.window_begin_ns = start_ns + o->warmup_ns;
    r->load.window_end_ns = r->load.window_begin_ns + o->duration_ns;
    // A storm is measured whole: its window opens before its first connection (see
    // run_parts_start).
    run_parts_start(r, start_ns);
    window_measure(r);
    syscalls_measure(r);
    drain(r);
    run_parts_finish(r, clock_mono_ns());
    bench_verdict(r->result, o);
}

static int generator_prepare(run *r) {
    bench_options *o = &r->options;
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); // else sleeps end up to 50 us late
    r->spin = o->wait == WAIT_SPIN || (o->wait == WAIT_AUTO && bench_cpu_count() > 1);
    if (o->tick_ns == BENCH_TICK_AUTO) o->tick_ns = r->spin ? 0 : BENCH_TICK_SLEEP_NS;
    r->result->spinning = r->spin;
    r->result->tick_ns = o->tick_ns;
    if (o->pin_cpu < 0) return 0;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((u32)o->pin_cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) == 0) return 0;
    snprintf(r->result->failure, sizeof(r->result->failure),
             "--pin %d: %s (CPUs that may be used: %u)", o->pin_cpu, errno_name(errno),
             bench_cpu_count());
    return -EINVAL;
}

static void observer_prepare(run *r) {
    const bench_options *o = r->load.options;
    bench_result *out = r->result;
    if (o->pid_none) {
        snprintf(out->observe_note, sizeof(out->observe_note), "--pid none");
        return;
    }
    out->pid_count = o->pid_count;
    memcpy(out->pids, o->pids, sizeof(out->pids));
    if (out->pid_count == 0) {
        out->pid_count = observe_find_listeners(r->dial.port, out->pids, out->observe_note,
                                                sizeof(out->observe_note));
    }
    if (out->pid_count == 0) return;
    if (observe_memory(out->pids, out->pid_count, &out->rss_before, &out->private_before) != 0) {
        out->pid_count = 0;
        snprintf(out->observe_note, sizeof(out->observe_note), "--pid: no such process");
    }
    out->tcp_before = observe_tcp_memory();
}

int bench_run(const bench_options *o, bench_result *out) {
    run *r = calloc(1, sizeof(*r));
    cpu_set_t affinity;
    if (r == NULL) base_out_of_memory("a run", sizeof(*r));
    sched_getaffinity(0, sizeof(affinity), &affinity);
    memset(out, 0, sizeof(*out));
    hist_reset(&out->lag);
    hist_reset(&out->turns);
    wire_init();
    r->result = out;
    r->options = *o;
    r->load.options = &r->options;
    int rc = generator_prepare(r);
    if (rc == 0) rc = run_parts_open(r, observer_prepare);
    if (rc == 0) phases_run(r);
    run_parts_free(r);
    sched_setaffinity(0, sizeof(affinity),
                      &affinity); // the caller may run again, or start a server
    out->failed = rc != 0;
    return rc == -EINTR ? rc : 0;
}
