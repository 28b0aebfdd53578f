// SPDX-License-Identifier: Apache-2.0
// recorder.c: reading side of the flight recorder. Writing is inline in recorder.h.
//
// A reader copies while the worker goes on writing. What keeps a torn record out:
// - `written` is read with acquire before the copy, so records up to it are complete;
// - it is read again after the copy; a record whose place may have been reached meanwhile is
// dropped;
// - its own sequence number must match its place. The writer's plain stores may become visible
// before its store of `written` on a weakly ordered machine, as far ahead as its store buffer is
// deep (under 128 entries on every core we know, and a record is five stores). So the oldest
// RECORDER_MARGIN records of the ring count as overwritten. This costs the writer nothing, where a
// store barrier per record would cost it some 10 ns on small cores.
//
// recorder_read uses no lock, no memory and no system call: the crash handler calls it.
#include "base/recorder.h"

#include <errno.h>
#include <sys/mman.h>

#define RECORDER_MARGIN 64u
#define RECORDER_READABLE (LIMIT_RECORDER_EVENTS - RECORDER_MARGIN)
_Static_assert(RECORDER_MARGIN < LIMIT_RECORDER_EVENTS / 8, "a small part of the ring");

static size_t recorder_bytes(void) {
    return LIMIT_RECORDER_EVENTS * sizeof(recorder_record);
}

int recorder_init(recorder *rec, const u64 *now_ns) {
    ASSERT(now_ns != NULL);
    // Mapped: page aligned, so that a record never straddles a cache line.
    void *memory = mmap(NULL, recorder_bytes(), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return -ENOMEM;
    *rec = (recorder){.now_ns = now_ns, .records = memory};
    return 0;
}

void recorder_free(recorder *rec) {
    if (rec->records == NULL) return;
    munmap(rec->records, recorder_bytes());
    *rec = (recorder){0};
}

// Lowest number that is certainly not being overwritten when `written` records have been completed.
static u64 recorder_oldest(u64 written) {
    return written > RECORDER_READABLE ? written - RECORDER_READABLE + 1 : 1;
}

static recorder_record recorder_load(const recorder *rec, u64 number) {
    const u64 *word =
        (const u64 *)(const void *)&rec->records[number & (LIMIT_RECORDER_EVENTS - 1)];
    // Acquire keeps the second look at `written` behind these loads.
    u64 time_ns = __atomic_load_n(&word[0], __ATOMIC_ACQUIRE);
    u64 what = __atomic_load_n(&word[1], __ATOMIC_ACQUIRE);
    u64 outcome = __atomic_load_n(&word[2], __ATOMIC_ACQUIRE);
    u64 tail = __atomic_load_n(&word[3], __ATOMIC_ACQUIRE);
    return (recorder_record){
        .time_ns = time_ns,
        .event = (u32)what,
        .slot = (u32)(what >> 32),
        .generation = (u32)outcome,
        .result = (i32)(u32)(outcome >> 32),
        .flags = (u32)tail,
        .sequence = (u32)(tail >> 32),
    };
}

size_t recorder_read(const recorder *rec, u64 after, recorder_record *out, size_t max, u64 *next,
                     u64 *lost) {
    u64 written = __atomic_load_n(&rec->written, __ATOMIC_ACQUIRE);
    // A number of another life (the recorder was restarted): start over from what there is.
    if (after > written) after = 0;
    *lost = 0;
    *next = after;
    u64 first = MAX(after + 1, recorder_oldest(written));
    u64 count = written >= first ? MIN(written - first + 1, (u64)max) : 0;
    for (u64 i = 0; i < count; i++) out[i] = recorder_load(rec, first + i);

    u64 oldest = recorder_oldest(__atomic_load_n(&rec->written, __ATOMIC_ACQUIRE));
    size_t kept = 0;
    for (u64 i = 0; i < count; i++) {
        if (first + i >= oldest && out[i].sequence == (u32)(first + i)) out[kept++] = out[i];
    }
    if (count > 0 || first > after + 1) {
        *next = first + count - 1;
        *lost = *next - after - kept;
    }
    return kept;
}

static const char *const event_names[REC_EVENTS] = {
    [REC_NONE] = "none",           [REC_ACCEPT_ARM] = "accept_arm", [REC_ACCEPT] = "accept",
    [REC_ADOPT] = "adopt",         [REC_RECV_ARM] = "recv_arm",     [REC_RECV] = "recv",
    [REC_RECV_STOP] = "recv_stop", [REC_NOBUFS] = "nobufs",         [REC_SEND] = "send",
    [REC_SENT] = "sent",           [REC_SEND_WAIT] = "send_wait",   [REC_SHUTDOWN] = "shutdown",
    [REC_CLOSE] = "close",         [REC_CLOSED] = "closed",         [REC_MOVE_OUT] = "move_out",
    [REC_MOVE_IN] = "move_in",     [REC_WAKE] = "wake",             [REC_TIMER] = "timer",
    [REC_LOOP_LAG] = "loop_lag",   [REC_CONNECT] = "connect",
    [REC_LOG_COMMIT] = "log_commit", [REC_LOG_COMMITTED] = "log_committed", [REC_LOG_ROLL] = "log_roll",
    [REC_LOG_CHECKPOINT] = "log_checkpoint", [REC_LOG_RECLAIM] = "log_reclaim",
};

const char *recorder_event_name(u32 event) {
    if (event < REC_EVENTS && event_names[event] != NULL) return event_names[event];
    return "unknown";
}
