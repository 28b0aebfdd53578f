// SPDX-License-Identifier: Apache-2.0
// mqtt_run.h: one run of `sluice bench mqtt` and its result, complete enough to print, to write as
// JSON, and to compare with other runs.
#ifndef SLUICE_BENCH_MQTT_RUN_H
#define SLUICE_BENCH_MQTT_RUN_H

#include "base/hist.h"
#include "bench/bench_error.h"
#include "bench/mqtt_options.h"
#include "bench/observe.h"

typedef struct mq_result {
    char target[96], engine[16], engine_note[160], prefix[MQ_PREFIX_BYTES_MAX + 8];
    bool spinning, interrupted;
    u32 sources, clients, alive; // connections set up, and still open at the end
    u64 window_ns;
    // messages
    hist latency;         // due time to delivery, of what was due in the window
    hist acks;            // QoS 1 and 2: due time to PUBACK or PUBCOMP
    hist handshakes;      // connect to CONNACK: set-up, or the storm
    u64 window_published; // due in the window and handed over
    u64 window_unsent;    // due in the window, never reached by the generator
    u64 window_expected;  // deliveries that these must lead to
    u64 window_delivered;
    u64 published, expected, delivered; // all phases
    u64 observed_ns, observed_published, observed_delivered; // between the two samples
    u32 stalled_closed; // of the stalled subscribers, cut off by the broker
    u64 tls_full, tls_resumed; // handshakes of all phases
    // storm
    u64 storm_started, storm_served, storm_ns;
    // retained flood
    u64 stored_ns;                   // first publication to last acknowledgement
    hist first_ns, flood_ns;         // SUBSCRIBE to first message; to the last, per subscriber
    u64 cleared;                     // topics cleared again
    // the broker
    char observe_note[160];
    u32 pids[BENCH_PIDS_MAX], pid_count;
    observe_delta server;
    u64 rss_before, rss_after, private_before, private_after, tcp_before, tcp_after;
    u64 rss_peak, private_peak; // with all connections of a held storm open, or all retained stored
    // the generator
    hist lag, turns;
    double busy_share, steal_share;
    u64 self_run_ns, self_wait_ns;
    bench_errors errors;
    char first_refusal[96];
    bool valid;
    char verdict[320];
    bool failed;
    char failure[320];
} mq_result;

// Runs it. Progress goes to stderr. 0 when there is a result (look at failed and valid), -EINTR
// when it was stopped before anything was measured. out is large: allocate it.
int mq_run(const mq_options *o, mq_result *out);
// What the broker's cost is divided by: deliveries, or connections of a storm.
u64 mq_result_exchanges(const mq_options *o, const mq_result *r);
// Judges whether the figures are the broker's: sets valid and verdict.
void mq_result_judge(const mq_options *o, mq_result *r);

#endif
