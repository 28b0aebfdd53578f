// SPDX-License-Identifier: Apache-2.0
// verdict.c: is this run's latency the server's?
//
// The rule: the generator's lag at p99 must stay below a quarter of the p99 that is reported, but a
// lag under 250 us never invalidates (on a quiet server a quarter of p99 would be less than a timer
// tick). A loop that was busy for over 97 % of the window had no reserve, whatever its lag.
#include "bench/verdict.h"

#include <stdio.h>

static const hist *main_latency(const bench_result *r) {
    if (r->has_steady && hist_count(&r->steady.latency) > 0) return &r->steady.latency;
    return &r->shorts.latency;
}

u64 bench_result_errors(const bench_result *r) {
    return bench_errors_total(&r->steady.errors) + bench_errors_total(&r->shorts.errors);
}

u64 bench_result_exchanges(const bench_result *r) {
    return r->observed_messages + r->observed_heartbeats + r->observed_shorts;
}

void bench_verdict(bench_result *r, const bench_options *o) {
    u64 lag = hist_percentile(&r->lag, 99), p99 = hist_percentile(main_latency(r), 99);
    u64 limit = o->lag_limit_ns != 0 ? o->lag_limit_ns : MAX(BENCH_LAG_SMALL_NS, p99 / 4);
    double waited = r->window_ns == 0 ? 0 : 100.0 * (double)r->self_wait_ns / (double)r->window_ns;
    bool as_fast_as_possible = r->has_storm && r->short_rate <= 0;
    u64 unsent = r->steady.window_unsent + r->shorts.window_unsent;
    r->valid = true;
    r->verdict[0] = 0;
    if (as_fast_as_possible && unsent == 0 && lag > limit) {
        // Its times of arrival are the generator's own doing, and the storm's figures count from
        // them.
        snprintf(r->verdict, sizeof(r->verdict),
                 "remark: the storm came as fast as the generator could, which waited for a CPU "
                 "%.1f %% of the time",
                 waited);
    } else if (lag > limit || unsent > 0) {
        r->valid = false;
        snprintf(r->verdict, sizeof(r->verdict),
                 "generator saturated: its own p99 lag was %.0f us (limit %.0f us), busy %.0f %% "
                 "of the window. %s (it waited for a CPU %.1f %% of the time; the hypervisor took "
                 "%.1f %%)",
                 (double)lag / 1e3, (double)limit / 1e3, 100 * r->busy_share,
                 r->busy_share < 0.8 || waited > 2
                     ? "Something else held its CPU up: --pin it to a free one, or repeat when the "
                       "machine is quiet"
                     : "Lower the rate, or use a machine with faster cores for it",
                 waited, 100 * r->steal_share);
    } else if (r->busy_share > BENCH_BUSY_SHARE_MAX && !as_fast_as_possible) {
        r->valid = false;
        snprintf(r->verdict, sizeof(r->verdict),
                 "generator saturated: its loop was busy for %.1f %% of the window",
                 100 * r->busy_share);
    } else if (lag > p99 / 2 && p99 > 0) {
        snprintf(
            r->verdict, sizeof(r->verdict),
            "remark: the generator's own p99 lag (%.0f us) is more than half of the p99 shown; the "
            "server's is lower",
            (double)lag / 1e3);
    } else if (r->server.available && r->server.total.wait_ns > r->server.window_ns / 20 &&
               r->server.total.run_ns > 0) {
        snprintf(r->verdict, sizeof(r->verdict),
                 "remark: the server's threads waited %.0f %% of the window for a CPU: something "
                 "else ran there",
                 100.0 * (double)r->server.total.wait_ns / (double)r->server.window_ns);
    }
}
