// SPDX-License-Identifier: Apache-2.0
// mqtt_run.c: set-up and end of a run: descriptors, addresses, the event loop, the broker's
// processes; then the scenario; then the verdict.
#include "bench/mqtt_run.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench/mqtt_flow.h"
#include "bench/mqtt_net_tls.h"
#include "bench/mqtt_world.h"
#include "bench/run.h"

#define CONNS_PER_SOURCE 16000u // of about 28,000 ports that one source address has
#define SOURCES_FOR_STORM 256u  // a closed connection keeps its port for a minute

int mq_world_refuse(mq_world *w, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(w->result->failure, sizeof(w->result->failure), format, args);
    va_end(args);
    return -EIO;
}

u64 mq_result_exchanges(const mq_options *o, const mq_result *r) {
    if (o->kind == MQ_STORM) return r->storm_served;
    return r->observed_delivered > 0 ? r->observed_delivered : r->observed_published;
}

static u32 clients_wanted(const mq_options *o) {
    switch (o->kind) {
    case MQ_IDLE: return o->conns;
    case MQ_STORM: return o->hold ? o->conns : o->at_once;
    default: return o->pubs + o->subs;
    }
}

static int descriptors_prepare(mq_world *w) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return mq_world_refuse(w, "getrlimit: %s", errno_name(errno));
    }
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    u64 needed = (u64)w->client_count + w->options.stalled + BENCH_DESCRIPTORS_SPARE;
    if (needed <= limit.rlim_cur) return 0;
    return mq_world_refuse(w,
                           "too_many_descriptors: %llu are needed, %llu are allowed: raise the "
                           "hard limit (ulimit -Hn) or use fewer connections",
                           (unsigned long long)needed, (unsigned long long)limit.rlim_cur);
}

static int target_prepare(mq_world *w) {
    const mq_options *o = &w->options;
    char why[160];
    if (dial_resolve(&w->dial, o->to, why, sizeof(why)) != 0) {
        return mq_world_refuse(w, "--to %s", why);
    }
    if (o->src_addrs > 0 && !w->dial.loopback) {
        return mq_world_refuse(w, "--src-addrs needs a target in 127.0.0.0/8, which %s is not",
                               o->to);
    }
    bool churns = o->kind == MQ_STORM && !o->hold;
    u32 automatic = churns ? SOURCES_FOR_STORM : (w->client_count - 1) / CONNS_PER_SOURCE + 1;
    w->dial.sources = o->src_addrs != 0 ? o->src_addrs : automatic;
    w->dial.one_frame = o->kind == MQ_STORM;
    w->result->sources = w->dial.loopback ? w->dial.sources : 1;
    snprintf(w->result->target, sizeof(w->result->target), "%s", w->dial.text);
    return 0;
}

static int generator_prepare(mq_world *w) {
    const mq_options *o = &w->options;
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); // else sleeps end up to 50 us late
    w->spin = o->wait == WAIT_SPIN || (o->wait == WAIT_AUTO && bench_cpu_count() > 1);
    w->result->spinning = w->spin;
    if (o->pin_cpu < 0) return 0;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((u32)o->pin_cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) == 0) return 0;
    return mq_world_refuse(w, "--pin %d: %s (CPUs that may be used: %u)", o->pin_cpu,
                           errno_name(errno), bench_cpu_count());
}

static void observer_prepare(mq_world *w) {
    const mq_options *o = &w->options;
    mq_result *r = w->result;
    if (o->pid_none) {
        snprintf(r->observe_note, sizeof(r->observe_note), "--pid none");
        return;
    }
    r->pid_count = o->pid_count;
    memcpy(r->pids, o->pids, sizeof(r->pids));
    if (r->pid_count == 0) {
        r->pid_count = observe_find_listeners(w->dial.port, r->pids, r->observe_note,
                                              sizeof(r->observe_note));
    }
    if (r->pid_count == 0) return;
    if (observe_memory(r->pids, r->pid_count, &r->rss_before, &r->private_before) != 0) {
        r->pid_count = 0;
        snprintf(r->observe_note, sizeof(r->observe_note), "--pid: no such process");
    }
    r->tcp_before = observe_tcp_memory();
}

static int world_prepare(mq_world *w) {
    mq_result *r = w->result;
    const mq_options *o = &w->options;
    static u32 runs;
    char why[512];
    if (o->prefix != NULL) {
        snprintf(r->prefix, sizeof(r->prefix), "%s", o->prefix);
    } else {
        snprintf(r->prefix, sizeof(r->prefix), "bench/%u/%u", (unsigned)getpid(), ++runs);
    }
    w->client_count = clients_wanted(o);
    int rc = generator_prepare(w);
    if (rc == 0) rc = target_prepare(w);
    if (rc == 0) rc = descriptors_prepare(w);
    if (rc != 0) return rc;
    w->clients = calloc(w->client_count, sizeof(*w->clients));
    w->before = calloc(1, sizeof(*w->before));
    w->after = calloc(1, sizeof(*w->after));
    if (w->clients == NULL || w->before == NULL || w->after == NULL) {
        return mq_world_refuse(w, "no memory for %u clients", w->client_count);
    }
    observer_prepare(w);
    cio *io = cio_open((cio_engine)o->engine, w->client_count, MQ_RECV_BUF_BYTES, r->engine_note,
                       sizeof(r->engine_note));
    if (io == NULL) return mq_world_refuse(w, "%s", r->engine_note);
    snprintf(r->engine, sizeof(r->engine), "%s", cio_engine_name(io));
    mq_net_prepare(&w->net, &w->options, io, &w->dial);
    if (mq_tls_load(&w->net, why, sizeof(why)) != 0) return mq_world_refuse(w, "%s", why);
    r->clients = w->client_count;
    if (o->keepalive_ns > 0) {
        w->ping_gap_ns = MAX(o->keepalive_ns / 3 * 2 / w->client_count, 1u);
    }
    return 0;
}

static int scenario_run(mq_world *w) {
    switch (w->options.kind) {
    case MQ_IDLE: return mq_scenario_idle(w);
    case MQ_STORM: return mq_scenario_storm(w);
    case MQ_RETAINED: return mq_scenario_retained(w);
    default: return mq_scenario_flow(w);
    }
}

static void world_free(mq_world *w) {
    w->net.dirty = NULL;
    for (u32 i = 0; w->clients != NULL && i < w->client_count; i++) {
        if (w->clients[i].state == MQ_READY) {
            w->result->alive++;
            mq_client_leave(&w->clients[i]);
        }
        mq_client_free(&w->clients[i]);
    }
    w->net.dirty = NULL;
    if (w->net.io != NULL) cio_free(w->net.io);
    mq_tls_unload(&w->net);
    mq_flow_free(w->flow);
    free(w->clients);
    free(w->before);
    free(w->after);
    free(w);
}

int mq_run(const mq_options *o, mq_result *out) {
    mq_world *w = calloc(1, sizeof(*w));
    cpu_set_t affinity;
    if (w == NULL) base_out_of_memory("a run", sizeof(*w));
    sched_getaffinity(0, sizeof(affinity), &affinity);
    memset(out, 0, sizeof(*out));
    hist *const hists[] = {&out->latency, &out->acks, &out->handshakes, &out->first_ns,
                           &out->flood_ns, &out->lag, &out->turns};
    for (u32 i = 0; i < ARRAY_LEN(hists); i++) hist_reset(hists[i]);
    w->result = out;
    w->options = *o;
    int rc = world_prepare(w);
    if (rc == 0) rc = scenario_run(w);
    out->errors = w->net.errors;
    out->tls_full = w->net.tls_full;
    out->tls_resumed = w->net.tls_resumed;
    memcpy(out->first_refusal, w->net.first_refusal, sizeof(out->first_refusal));
    out->interrupted = bench_stop != 0;
    out->failed = rc != 0;
    if (rc == 0) mq_result_judge(o, out);
    world_free(w);
    sched_setaffinity(0, sizeof(affinity), &affinity); // the caller may run again
    return rc == -EINTR ? rc : 0;
}

void mq_result_judge(const mq_options *o, mq_result *r) {
    u64 lag = hist_percentile(&r->lag, 99);
    u64 p99 = hist_percentile(o->kind == MQ_INGEST ? &r->acks : &r->latency, 99);
    u64 limit = o->lag_limit_ns != 0 ? o->lag_limit_ns : MAX(BENCH_LAG_SMALL_NS, p99 / 4);
    double waited = r->window_ns == 0 ? 0 : 100.0 * (double)r->self_wait_ns / (double)r->window_ns;
    bool closed = o->kind == MQ_INGEST && o->rate == 0;
    bool is_load = !closed && o->kind != MQ_STORM && o->kind != MQ_RETAINED && o->kind != MQ_IDLE;
    r->valid = true;
    r->verdict[0] = 0;
    if (is_load && (lag > limit || r->window_unsent > 0)) {
        r->valid = false;
        snprintf(r->verdict, sizeof(r->verdict),
                 "generator saturated: its own p99 lag was %.0f us (limit %.0f us), %llu messages "
                 "never sent, busy %.0f %% of the window; it waited for a CPU %.1f %% of the time, "
                 "the hypervisor took %.1f %%",
                 (double)lag / 1e3, (double)limit / 1e3, (unsigned long long)r->window_unsent,
                 100 * r->busy_share, waited, 100 * r->steal_share);
    } else if (is_load && r->busy_share > BENCH_BUSY_SHARE_MAX) {
        r->valid = false;
        snprintf(r->verdict, sizeof(r->verdict),
                 "generator saturated: its loop was busy for %.1f %% of the window",
                 100 * r->busy_share);
    } else if (!is_load && r->busy_share > BENCH_BUSY_SHARE_MAX) {
        snprintf(r->verdict, sizeof(r->verdict),
                 "remark: the generator was busy for %.1f %% of the time: the broker may be faster",
                 100 * r->busy_share);
    } else if (r->server.available && r->server.total.wait_ns > r->server.window_ns / 20) {
        snprintf(r->verdict, sizeof(r->verdict),
                 "remark: the broker's threads waited %.0f %% of the window for a CPU: something "
                 "else ran there",
                 100.0 * (double)r->server.total.wait_ns / (double)r->server.window_ns);
    }
}
