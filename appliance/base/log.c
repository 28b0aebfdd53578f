// SPDX-License-Identifier: Apache-2.0
// log.c: the log's front (log_write on any thread) and its writer thread.
//
// log_write formats into a buffer on its stack and copies the text into the ring. Not straight into
// the ring: with several producers the length must be known when space is reserved, and reserving
// the longest line (1 KiB) for each would waste most of the ring; the copy of some 100 bytes is far
// cheaper than the formatting. Escaping, time to text and all system calls are the writer's.
//
// Waking. The writer sleeps in poll(2) on an eventfd and on the descriptors of stalled sinks.
// Before, it sets `sleeping` and looks at the ring once more; a producer commits its record and
// then reads `sleeping`. Both orders are sequentially consistent, so one of them sees the other.
// Whoever clears the flag makes the one system call of that sleep. Having written something the
// writer first dozes for LOG_DOZE_MS without the flag: under a steady load producers make no system
// call at all. A record that is reserved but not committed (its producer lost the processor) is
// waited for by dozing.
//
// States: DIRECT (before log_start: lines go to stderr at once), RUNNING, STOPPED (to stderr, but
// never waiting for it).
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log_ring.h"
#include "base/log_sinks.h"
#include "base/log_tail.h"

#define LOG_DOZE_MS 2
#define LOG_BATCH_RECORDS 1024u       // in a row before sinks, reloads and a stop are looked at
#define LOG_TELL_DROPPED_NS NS_PER_S  // under a lasting overload, how often the loss is told
#define LOG_STOP_GRACE_MS 200u        // beyond the deadline, for a write that is under way

enum { STATE_DIRECT, STATE_RUNNING, STATE_STOPPED };

static struct {
    // Read by every log_write, hardly ever written.
    _Alignas(CACHE_LINE) u32 state; // atomic
    u32 level;                      // atomic
    int wake_fd;
    // Written once a sleep.
    _Alignas(CACHE_LINE) u32 sleeping; // atomic: the writer is about to wait
    // Written by producers only when they lose a line.
    _Alignas(CACHE_LINE) u64 dropped;  // atomic
    log_ring ring;
    log_sinks *reload;              // atomic: to be taken over by the writer, NULL = none
    u64 stop_deadline_ns;           // atomic: 0 = run
    counter lines;                  // the writer's, like the next
    log_sink_counters sink_counters;
    pthread_t thread;
    pthread_mutex_t done_lock;
    pthread_cond_t done_cond;
    bool done;                      // under done_lock
} the_log = {.level = LOG_INFO, .wake_fd = -1, .done_lock = PTHREAD_MUTEX_INITIALIZER};

// The writer thread's own.
typedef struct writer {
    log_sinks *sinks;
    void (*thread_begin)(void);
    log_line line;
    u64 dropped_told, dropped_told_ns;
    u64 stop_position;   // ring position at the time of the stop
    bool stopping;
} writer;

// --- producers ---

static void log_wake(void) {
    u64 one = 1;
    // Fails only when the counter is full, and then the writer wakes anyway.
    (void)!write(the_log.wake_fd, &one, sizeof(one));
}

bool log_enabled(log_level level) {
    return (u32)level <= __atomic_load_n(&the_log.level, __ATOMIC_RELAXED);
}

static void write_direct(log_level level, const char *text, u32 len, bool may_wait) {
    log_line line;
    log_line_make(&line, level, clock_real_ns(), text, len);
    for (u32 at = 0; at < line.len;) {
        struct pollfd poll_fd = {.fd = STDERR_FILENO, .events = POLLOUT};
        if (!may_wait && poll(&poll_fd, 1, 0) <= 0) break;
        ssize_t n = write(STDERR_FILENO, line.data + at, MIN(line.len - at, LOG_PIPE_BYTES));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN && may_wait && poll(&poll_fd, 1, -1) > 0) continue;
        if (n <= 0) break;
        at += (u32)n;
    }
}

void log_write(log_level level, const char *format, ...) {
    if (!log_enabled(level)) return;
    int saved_errno = errno;
    char text[LIMIT_LOG_LINE_BYTES + 1];
    va_list args;
    va_start(args, format);
    u32 len = log_text_format(text, format, args);
    va_end(args);

    u32 state = __atomic_load_n(&the_log.state, __ATOMIC_ACQUIRE);
    if (UNLIKELY(state != STATE_RUNNING)) {
        write_direct(level, text, len, state == STATE_DIRECT);
    } else if (UNLIKELY(!log_ring_push(&the_log.ring, level, clock_real_ns(), text, len))) {
        __atomic_fetch_add(&the_log.dropped, 1, __ATOMIC_RELAXED);
    } else if (__atomic_load_n(&the_log.sleeping, __ATOMIC_SEQ_CST) != 0 &&
               __atomic_exchange_n(&the_log.sleeping, 0, __ATOMIC_SEQ_CST) != 0) {
        log_wake();
    }
    errno = saved_errno;
}

log_stats log_stats_get(void) {
    bool has_ring = __atomic_load_n(&the_log.state, __ATOMIC_ACQUIRE) != STATE_DIRECT;
    return (log_stats){
        .lines = counter_get(&the_log.lines),
        .dropped = __atomic_load_n(&the_log.dropped, __ATOMIC_RELAXED) +
                   counter_get(&the_log.sink_counters.lost),
        .sink_errors = counter_get(&the_log.sink_counters.errors),
        .ring_bytes = has_ring ? the_log.ring.bytes : 0,
        .ring_used_max = has_ring ? __atomic_load_n(&the_log.ring.used_max, __ATOMIC_RELAXED) : 0,
    };
}

// --- writer ---

static void writer_distribute(writer *w) {
    log_tail_put(&w->line);
    for (u32 i = 0; i < w->sinks->count; i++) {
        log_sink *sink = &w->sinks->list[i];
        log_sink_put(sink, &w->line, &the_log.sink_counters);
        // Before it could overflow; while it backs off or is stalled this costs one comparison or
        // call.
        if (sink->pending_len > LOG_PENDING_BYTES / 2 && !sink->stalled) {
            log_sink_flush(sink, clock_mono_ns(), false, &the_log.sink_counters);
        }
    }
}

// A line of the log's own.
static void PRINTF_LIKE(3, 4) writer_say(writer *w, log_level level, const char *format, ...) {
    char text[LIMIT_LOG_LINE_BYTES + 1];
    va_list args;
    va_start(args, format);
    u32 len = log_text_format(text, format, args);
    va_end(args);
    log_line_make(&w->line, level, clock_real_ns(), text, len);
    writer_distribute(w);
}

// Takes records out of the ring. Returns how the ring was left, RECORD when the batch is at its
// bound.
static log_ring_state writer_drain(writer *w, u32 *taken) {
    log_record record;
    log_ring_state state;
    for (*taken = 0; (state = log_ring_peek(&the_log.ring, &record)) == LOG_RING_RECORD; ++*taken) {
        if (*taken == LOG_BATCH_RECORDS) break;
        log_line_make(&w->line, (log_level)record.level, record.time_ns, record.text, record.len);
        log_ring_consume(&the_log.ring, &record);
        counter_add(&the_log.lines, 1);
        writer_distribute(w);
    }
    return state;
}

static void writer_tell_dropped(writer *w, log_ring_state ring, u64 now_ns) {
    u64 dropped = __atomic_load_n(&the_log.dropped, __ATOMIC_RELAXED);
    if (dropped == w->dropped_told) return;
    if (ring == LOG_RING_RECORD && now_ns - w->dropped_told_ns < LOG_TELL_DROPPED_NS) return;
    u64 lines = dropped - w->dropped_told;
    w->dropped_told = dropped;
    w->dropped_told_ns = now_ns;
    writer_say(w, LOG_WARN, "log: %llu lines dropped", (unsigned long long)lines);
}

// Flushes all sinks; says in the others when one begins to fail or is well again.
static void writer_flush(writer *w, const bool *writable, u64 now_ns) {
    int error_before[ARRAY_LEN(w->sinks->list)];
    for (u32 i = 0; i < w->sinks->count; i++) {
        log_sink *sink = &w->sinks->list[i];
        error_before[i] = sink->error;
        log_sink_flush(sink, now_ns, writable[i], &the_log.sink_counters);
    }
    for (u32 i = 0; i < w->sinks->count; i++) {
        log_sink *sink = &w->sinks->list[i];
        if (sink->error == error_before[i]) continue;
        if (sink->error == 0) writer_say(w, LOG_INFO, "log: %s works again", sink->kind->name);
        else {
            writer_say(w, LOG_ERROR, "log: %s fails with %s, trying again in %u ms",
                       sink->kind->name, errno_name(sink->error), sink->backoff_ms);
        }
    }
}

static void writer_take_reload(writer *w) {
    if (__atomic_load_n(&the_log.reload, __ATOMIC_RELAXED) == NULL) return;
    log_sinks *fresh = __atomic_exchange_n(&the_log.reload, NULL, __ATOMIC_ACQUIRE);
    if (fresh == NULL) return;
    log_sinks_replace(fresh, w->sinks, &the_log.sink_counters);
    w->sinks = fresh;
}

// Nothing left that waiting could still get out: a sink that fails is not waited for.
static bool writer_is_flushed(const writer *w) {
    for (u32 i = 0; i < w->sinks->count; i++) {
        if (w->sinks->list[i].pending_len > 0 && w->sinks->list[i].error == 0) return false;
    }
    return true;
}

// True when the thread is to end: everything from before the stop is written, or the deadline is
// over.
static bool writer_stop_check(writer *w, log_ring_state ring, u64 now_ns) {
    u64 deadline = __atomic_load_n(&the_log.stop_deadline_ns, __ATOMIC_ACQUIRE);
    if (deadline == 0) return false;
    if (!w->stopping) {
        w->stopping = true;
        w->stop_position = __atomic_load_n(&the_log.ring.tail, __ATOMIC_RELAXED);
        // One last attempt at sinks that back off, before the next check.
        for (u32 i = 0; i < w->sinks->count; i++) w->sinks->list[i].retry_ns = 0;
        return now_ns >= deadline;
    }
    bool drained = ring == LOG_RING_EMPTY || the_log.ring.position >= w->stop_position;
    return now_ns >= deadline || (drained && writer_is_flushed(w));
}

// Waits for a wake-up, for stalled sinks to become writable, for a back-off to end, at most max_ms
// (-1 = no bound). Fills writable.
static void writer_wait(writer *w, int max_ms, u64 now_ns, bool *writable) {
    struct pollfd fds[1 + ARRAY_LEN(w->sinks->list)] = {{.fd = the_log.wake_fd, .events = POLLIN}};
    u64 until_ns = max_ms < 0 ? UINT64_MAX : now_ns + (u64)max_ms * NS_PER_MS;
    u64 deadline = __atomic_load_n(&the_log.stop_deadline_ns, __ATOMIC_RELAXED);
    if (deadline != 0) until_ns = MIN(until_ns, deadline);
    for (u32 i = 0; i < w->sinks->count; i++) {
        const log_sink *sink = &w->sinks->list[i];
        bool backs_off = sink->retry_ns > now_ns;
        bool polled = sink->stalled && !backs_off && sink->pending_len > 0;
        fds[1 + i] = (struct pollfd){.fd = polled ? sink->fd : -1, .events = POLLOUT};
        if (sink->pending_len == 0 || polled) continue;
        // Backing off, or (retry_ns is past) a line of the log's own came after the flush.
        until_ns = MIN(until_ns, sink->retry_ns);
    }
    int timeout_ms = -1;
    if (until_ns != UINT64_MAX) {
        u64 left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
        timeout_ms = (int)MIN((left_ns + NS_PER_MS - 1) / NS_PER_MS, (u64)INT32_MAX);
    }
    // A failure is a wake-up like any other: everything is looked at again.
    poll(fds, 1 + w->sinks->count, timeout_ms);
    for (u32 i = 0; i < w->sinks->count; i++) writable[i] = fds[1 + i].revents != 0;
    if (fds[0].revents != 0) {
        u64 count;
        (void)!read(the_log.wake_fd, &count, sizeof(count));
    }
}

// Sleeps until there is something to do; see the top of the file for the order of things.
static void writer_sleep(writer *w, log_ring_state ring, u32 taken, u64 now_ns, bool *writable) {
    if (ring == LOG_RING_RECORD) return;
    if (ring == LOG_RING_BUSY || taken > 0) {
        writer_wait(w, LOG_DOZE_MS, now_ns, writable);
        return;
    }
    log_record record;
    __atomic_store_n(&the_log.sleeping, 1, __ATOMIC_SEQ_CST);
    if (log_ring_peek(&the_log.ring, &record) == LOG_RING_EMPTY) {
        writer_wait(w, -1, now_ns, writable);
    }
    __atomic_store_n(&the_log.sleeping, 0, __ATOMIC_SEQ_CST);
}

// The end of the thread: from here on lines go to stderr directly; those that were on their way
// into the ring are still taken.
static void writer_finish(writer *w) {
    const bool writable[ARRAY_LEN(w->sinks->list)] = {false};
    u64 deadline = __atomic_load_n(&the_log.stop_deadline_ns, __ATOMIC_RELAXED);
    log_ring_state state;
    u32 taken;
    __atomic_store_n(&the_log.state, STATE_STOPPED, __ATOMIC_RELEASE);
    while ((state = writer_drain(w, &taken)) != LOG_RING_EMPTY && clock_mono_ns() < deadline) {
        if (state == LOG_RING_BUSY) usleep(1000);
    }
    log_record record;
    while (log_ring_peek(&the_log.ring, &record) == LOG_RING_RECORD) {
        log_ring_consume(&the_log.ring, &record);
        __atomic_fetch_add(&the_log.dropped, 1, __ATOMIC_RELAXED);
    }
    writer_tell_dropped(w, LOG_RING_EMPTY, clock_mono_ns());
    writer_flush(w, writable, clock_mono_ns());
    for (u32 i = 0; i < w->sinks->count; i++) {
        log_sink *sink = &w->sinks->list[i];
        for (; sink->pending_len > 0; log_pending_consume(sink, log_pending_first_line(sink))) {
            counter_add(&the_log.sink_counters.lost, 1);
        }
    }
    log_sinks_free(w->sinks);
    w->sinks = NULL;
}

static void *writer_main(void *argument) {
    writer *w = argument;
    bool writable[ARRAY_LEN(w->sinks->list)] = {false};
    if (w->thread_begin != NULL) w->thread_begin();
    for (;;) {
        u32 taken;
        writer_take_reload(w);
        log_ring_state ring = writer_drain(w, &taken);
        u64 now_ns = clock_mono_ns();
        writer_tell_dropped(w, ring, now_ns);
        writer_flush(w, writable, now_ns);
        bool was_stopping = w->stopping;
        if (writer_stop_check(w, ring, now_ns)) break;
        if (w->stopping != was_stopping) continue; // the last attempt: nobody would wake the writer for it
        for (u32 i = 0; i < ARRAY_LEN(writable); i++) writable[i] = false;
        writer_sleep(w, ring, taken, now_ns, writable);
    }
    writer_finish(w);
    free(w);
    pthread_mutex_lock(&the_log.done_lock);
    the_log.done = true;
    pthread_cond_signal(&the_log.done_cond);
    pthread_mutex_unlock(&the_log.done_lock);
    return NULL;
}

// --- control ---

static int thread_start(writer *w) {
    sigset_t all, before;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&the_log.done_cond, &attributes);
    pthread_condattr_destroy(&attributes);
    // The writer takes no signals: they belong to the control thread, and SIGPIPE to nobody.
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&the_log.thread, NULL, writer_main, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0) pthread_setname_np(the_log.thread, "sluice-log");
    return -rc;
}

// Makes what outlives a stop: the ring (a late producer may still look at it) and the eventfd.
static int shared_prepare(const log_config *config, const char **step) {
    *step = "log ring memory";
    log_ring_free(&the_log.ring);
    int rc = log_ring_init(&the_log.ring, config->ring_bytes);
    if (rc != 0) return rc;
    *step = "log eventfd";
    if (the_log.wake_fd < 0) the_log.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return the_log.wake_fd < 0 ? -errno : 0;
}

int log_start(const log_config *config, const char **step) {
    ASSERT(the_log.state != STATE_RUNNING);
    *step = "log ring size";
    if (!IS_POWER_OF_TWO(config->ring_bytes) || config->ring_bytes < LIMIT_LOG_RING_BYTES_MIN ||
        config->ring_bytes > LIMIT_LOG_RING_BYTES_MAX) {
        return -EINVAL;
    }
    *step = "log writer that did not end";
    if (the_log.state == STATE_STOPPED && !the_log.done) return -EBUSY;
    *step = "log memory";
    writer *w = calloc(1, sizeof(*w));
    if (w == NULL) return -ENOMEM;
    int rc = log_sinks_create(config, &w->sinks, step);
    if (rc == 0) rc = shared_prepare(config, step);
    if (rc != 0) goto fail;
    w->dropped_told = the_log.dropped;
    w->thread_begin = config->thread_begin;
    the_log.done = false;
    __atomic_store_n(&the_log.stop_deadline_ns, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&the_log.level, (u32)config->level, __ATOMIC_RELAXED);
    *step = "log thread";
    rc = thread_start(w);
    if (rc != 0) goto fail;
    __atomic_store_n(&the_log.state, STATE_RUNNING, __ATOMIC_RELEASE);
    *step = NULL;
    return 0;
fail:
    log_sinks_free(w->sinks);
    free(w);
    return rc;
}

int log_reload(const log_config *config, const char **step) {
    ASSERT(__atomic_load_n(&the_log.state, __ATOMIC_RELAXED) == STATE_RUNNING);
    log_sinks *fresh = NULL;
    int rc = log_sinks_create(config, &fresh, step);
    if (rc != 0) return rc;
    __atomic_store_n(&the_log.level, (u32)config->level, __ATOMIC_RELAXED);
    // An earlier one that the writer has not come to yet is superseded.
    log_sinks_free(__atomic_exchange_n(&the_log.reload, fresh, __ATOMIC_ACQ_REL));
    log_wake();
    *step = NULL;
    return 0;
}

void log_stop(u32 deadline_ms) {
    if (__atomic_load_n(&the_log.state, __ATOMIC_ACQUIRE) != STATE_RUNNING) return;
    u64 deadline_ns = clock_mono_ns() + deadline_ms * NS_PER_MS;
    __atomic_store_n(&the_log.stop_deadline_ns, deadline_ns, __ATOMIC_RELEASE);
    log_wake();
    u64 give_up_ns = deadline_ns + LOG_STOP_GRACE_MS * NS_PER_MS;
    struct timespec until = {
        .tv_sec = (time_t)(give_up_ns / NS_PER_S),
        .tv_nsec = (long)(give_up_ns % NS_PER_S),
    };
    pthread_mutex_lock(&the_log.done_lock);
    int rc = 0;
    while (!the_log.done && rc == 0) {
        rc = pthread_cond_timedwait(&the_log.done_cond, &the_log.done_lock, &until);
    }
    bool done = the_log.done;
    pthread_mutex_unlock(&the_log.done_lock);
    if (done) {
        pthread_join(the_log.thread, NULL);
        pthread_cond_destroy(&the_log.done_cond);
    } else {
        // Stuck in a system call on a dead disk. The thread and its memory are left to the
        // process's end.
        pthread_detach(the_log.thread);
        __atomic_store_n(&the_log.state, STATE_STOPPED, __ATOMIC_RELEASE);
    }
    log_sinks_free(__atomic_exchange_n(&the_log.reload, NULL, __ATOMIC_ACQUIRE));
}
