// SPDX-License-Identifier: Apache-2.0
// load.h: what the flows of one run share: options, target, event loop, the measured window, and
// the record of how late the generator itself was. A flow (steady.h, short.h, slow.h) is a source
// of load with its own schedule and figures; run.c drives all of them from one loop.
#ifndef SLUICE_BENCH_LOAD_H
#define SLUICE_BENCH_LOAD_H

#include "base/hist.h"
#include "bench/bench_error.h"
#include "bench/bench_limits.h"
#include "bench/client_io.h"
#include "bench/dial.h"
#include "bench/options.h"

// Set by SIGINT and SIGTERM: the run ends now and reports what it has.
extern volatile int bench_stop;

typedef struct load {
    const bench_options *options;
    cio *io;
    u64 window_begin_ns, window_end_ns;  // latencies are kept of what is due in [begin, end)
    u64 started_due_ns[BENCH_LAG_NOTES]; // due times of what this turn hands to the kernel
    u32 started_count;
} load;

// One source of events by time. fire does what is due, a bounded part of it, and sets due_ns anew.
typedef struct actor actor;
struct actor {
    u64 due_ns; // CLOCK_MONOTONIC; UINT64_MAX: nothing to do
    void (*fire)(actor *a, u64 now_ns);
};

typedef struct flow_stats {
    hist latency;        // from the due time to the reply, of what was due in the window
    u64 window_due;      // due in the window
    u64 window_answered; // of these, answered
    u64 window_unsent;   // of these, never handed over: the generator did not get to them
    u64 started;         // all phases
    u64 answered;
    u64 outstanding;
    u64 bytes_out, bytes_in; // payload and headers, as sent and received by the generator
    bench_errors errors;
} flow_stats;

static inline bool load_in_window(const load *l, u64 due_ns) {
    return due_ns >= l->window_begin_ns && due_ns < l->window_end_ns;
}

static inline void load_note_start(load *l, flow_stats *f, u64 due_ns) {
    f->started++;
    if (!load_in_window(l, due_ns)) return;
    f->window_due++;
    if (l->started_count < BENCH_LAG_NOTES) l->started_due_ns[l->started_count++] = due_ns;
}

static inline void load_note_answer(load *l, flow_stats *f, u64 due_ns, u64 now_ns) {
    f->answered++;
    f->outstanding--;
    if (!load_in_window(l, due_ns)) return;
    f->window_answered++;
    hist_record(&f->latency, now_ns > due_ns ? now_ns - due_ns : 0);
}

// At the end of the run: a message without reply goes into the latencies with the time it has
// waited so far, so that a server that answers nothing does not look fast.
static inline void load_note_unanswered(load *l, flow_stats *f, u64 due_ns, u64 now_ns) {
    bench_error_add(&f->errors, BENCH_ERROR_UNANSWERED, 1);
    if (load_in_window(l, due_ns)) hist_record(&f->latency, now_ns - due_ns);
}

// At the end of the run: what the schedule held in the window and the generator never reached.
static inline void load_note_unsent(load *l, flow_stats *f, schedule *s) {
    for (; s->due_ns < l->window_end_ns; schedule_next(s)) {
        if (!load_in_window(l, s->due_ns)) continue;
        f->window_due++;
        f->window_unsent++;
    }
}

#endif
