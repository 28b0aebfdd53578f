// SPDX-License-Identifier: Apache-2.0
// mqtt_loop.c: the loop of an MQTT run, its set-up phase and its measured window.
//
// One turn: hand over what is due, flush the output of all connections, enter the kernel once, take
// what came. A message's lag is the time from its due time to the end of that system call.
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "bench/mqtt_world.h"
#include "bench/run.h"


static void lags_note(mq_world *w, u64 now_ns) {
    for (u32 i = 0; i < w->lag_count; i++) {
        u64 due_ns = w->lag_due_ns[i];
        if (w->measuring && mq_in_window(w, due_ns)) {
            hist_record(&w->result->lag, now_ns - MIN(now_ns, due_ns));
        }
    }
    w->lag_count = 0;
}

static bool pings_fire(mq_world *w, u64 now_ns) {
    if (w->ping_gap_ns == 0 || w->ping_next_ns > now_ns) return false;
    if (w->ping_next_ns == 0) w->ping_next_ns = now_ns;
    mq_client *c = &w->clients[w->ping_at++ % w->client_count];
    if (c->state == MQ_READY) mq_client_ping(c);
    w->ping_next_ns += w->ping_gap_ns;
    return true;
}

void mq_loop_until(mq_world *w, u64 until_ns) {
    u64 now_ns = clock_mono_ns();
    while (now_ns < until_ns && !bench_stop && !(w->done != NULL && w->done(w))) {
        bool fired = w->fire != NULL && w->fire(w, now_ns);
        fired |= pings_fire(w, now_ns);
        fired |= w->net.dirty != NULL;
        mq_net_flush(&w->net);
        u32 handled = cio_poll(w->net.io);
        u64 after_ns = clock_mono_ns();
        lags_note(w, after_ns);
        if (fired || handled > 0) {
            w->busy_ns += after_ns - now_ns;
            if (w->measuring) hist_record(&w->result->turns, after_ns - now_ns);
        } else if (!w->spin) {
            u64 next_ns = w->next_due == NULL ? UINT64_MAX : w->next_due(w);
            if (w->ping_gap_ns > 0) next_ns = MIN(next_ns, w->ping_next_ns);
            (void)cio_wait(w->net.io, MIN(next_ns, until_ns));
            after_ns = clock_mono_ns();
        }
        now_ns = after_ns;
    }
}

// --- set-up ---

void mq_world_ready(mq_client *c, u64 now_ns) {
    mq_world *w = mq_world_of(c);
    w->ready++;
    hist_record(&w->result->handshakes, now_ns - MIN(now_ns, c->started_ns));
}

static u32 open_failures(const mq_world *w) {
    return (u32)bench_errors_total(&w->net.errors);
}

static int open_failed(mq_world *w, u32 count) {
    u32 which = 0;
    while (which < BENCH_ERROR_COUNT && w->net.errors.count[which] == 0) which++;
    const char *said = w->net.first_refusal;
    if (which == BENCH_ERROR_COUNT) {
        return mq_world_refuse(w, "set-up failed: %u of %u clients ready, and then no answer",
                               w->ready, count);
    }
    return mq_world_refuse(w, "set-up failed: %u of %u clients ready: %s%s%s: %s", w->ready, count,
                           bench_error_name((bench_error)which), said[0] ? ": " : "", said,
                           bench_error_advice((bench_error)which));
}

int mq_world_open(mq_world *w, u32 first, u32 count, const mq_role *role) {
    u64 begin_ns = clock_mono_ns(), progress_ns = begin_ns;
    u32 opened = 0, seen = 0, ready_before = w->ready;
    if (isatty(2)) fprintf(stderr, "opening %u connections to %s ...\n", count, w->dial.text);
    while (w->ready - ready_before < count) {
        u64 now_ns = clock_mono_ns();
        u32 in_progress = opened - (w->ready - ready_before);
        double allowed = 1 + w->options.connect_rate * (double)(now_ns - begin_ns) / 1e9;
        while (opened < count && in_progress < MQ_OPENING_MAX && opened < allowed) {
            if (mq_client_open(&w->clients[first + opened], first + opened, role, &w->net,
                               false) != 0) {
                return open_failed(w, count);
            }
            opened++;
            in_progress++;
        }
        mq_loop_until(w, now_ns + NS_PER_MS / 5);
        if (bench_stop) return -EINTR;
        if (open_failures(w) > 0) return open_failed(w, count);
        if (w->ready != seen) progress_ns = now_ns;
        seen = w->ready;
        if (now_ns - progress_ns > w->options.timeout_ns) return open_failed(w, count);
    }
    return 0;
}

// --- the window ---

void mq_world_sample(mq_world *w, observe_sample *into) {
    mq_result *r = w->result;
    if (r->pid_count == 0) return;
    int rc = observe_take(r->pids, r->pid_count, into);
    if (rc == 0) return;
    r->pid_count = 0;
    snprintf(r->observe_note, sizeof(r->observe_note), "the broker could not be read: %s%s",
             errno_name(rc), rc == -ESRCH ? " (it has ended)" : "");
}

void mq_world_memory(mq_world *w, u64 *rss, u64 *private_bytes) {
    if (w->result->pid_count == 0) return;
    (void)observe_memory(w->result->pids, w->result->pid_count, rss, private_bytes);
}

void mq_world_window(mq_world *w,
                     void (*counts)(const mq_world *w, u64 *published, u64 *delivered)) {
    mq_result *r = w->result;
    u64 run_before, wait_before, steal_before, published, delivered;
    mq_loop_until(w, w->window_begin_ns);
    mq_world_sample(w, w->before);
    observe_self(&run_before, &wait_before);
    steal_before = observe_steal_ns();
    counts(w, &published, &delivered);
    u64 begin_ns = clock_mono_ns();
    w->busy_ns = 0;
    w->measuring = true;
    mq_loop_until(w, w->window_end_ns);
    w->measuring = false;
    u64 now_ns = clock_mono_ns();
    if (now_ns < w->window_end_ns) w->window_end_ns = MAX(now_ns, w->window_begin_ns);
    r->window_ns = w->window_end_ns - w->window_begin_ns;
    r->observed_ns = MAX(now_ns - begin_ns, 1);
    r->busy_share = (double)w->busy_ns / (double)r->observed_ns;
    observe_self(&r->self_run_ns, &r->self_wait_ns);
    r->self_run_ns -= run_before;
    r->self_wait_ns -= wait_before;
    u64 cpu_time_ns = r->observed_ns * (u64)sysconf(_SC_NPROCESSORS_ONLN);
    r->steal_share = (double)(observe_steal_ns() - steal_before) / (double)cpu_time_ns;
    counts(w, &r->observed_published, &r->observed_delivered);
    r->observed_published -= published;
    r->observed_delivered -= delivered;
    mq_world_sample(w, w->after);
    if (r->pid_count > 0) observe_difference(w->before, w->after, &r->server);
}
