// SPDX-License-Identifier: Apache-2.0
// recorder.h: the flight recorder. Each worker writes small fixed records of what its engine did
// into a ring that wraps; any thread may read it live, and the crash handler writes it out. The
// event names are the same for every engine, so one can switch the engine and compare.
//
// One writer (the worker). Readers copy records and drop those overwritten meanwhile: a record
// carries its sequence number in the ring position, checked before and after the copy.
#ifndef SLUICE_BASE_RECORDER_H
#define SLUICE_BASE_RECORDER_H

#include "base/base.h"
#include "limits.h"

typedef enum recorder_event {
    REC_NONE = 0,
    REC_ACCEPT_ARM,   // listener armed; slot = listener's handle
    REC_ACCEPT,       // result = descriptor or -errno
    REC_ADOPT,        // connection entered this worker; result = descriptor, flags = low id half
    REC_RECV_ARM,     // flags: 1 = multishot
    REC_RECV,         // result = bytes, 0 end of stream, or -errno
    REC_RECV_STOP,    // back-pressure: reading paused
    REC_NOBUFS,       // receive ended for want of a buffer; re-armed when buffers return
    REC_SEND,         // result = bytes asked
    REC_SENT,         // result = bytes sent or -errno
    REC_SEND_WAIT,    // socket full, waiting for writability
    REC_SHUTDOWN,
    REC_CLOSE,        // result = close reason (net/reason.h)
    REC_CLOSED,
    REC_MOVE_OUT,     // handed over to another worker; result = that worker
    REC_MOVE_IN,      // result = worker it came from, flags = low half of its id
    REC_WAKE,         // result = messages found
    REC_TIMER,        // a connection's timer fired
    REC_LOOP_LAG,     // result = microseconds the loop took beyond its budget
    REC_CONNECT,      // result = 0 or -errno
    // The durable log; no handle.
    REC_LOG_COMMIT,     // handed to the disk; result = bytes, flags = records
    REC_LOG_COMMITTED,  // result = microseconds the disk took, or -errno; flags = records
    REC_LOG_ROLL,       // a segment begins; result = its number, flags: 1 = reused
    REC_LOG_CHECKPOINT, // result: 1 begins, 0 is complete, -ECANCELED given up
    REC_LOG_RECLAIM,    // result = segment's number, flags: 0 looked at, 1 being copied, 2 freed
    REC_EVENTS
} recorder_event;

typedef struct recorder_record {
    u64 time_ns;     // CLOCK_MONOTONIC, the worker's cached loop time
    u32 event;       // recorder_event
    u32 slot;        // handle slot, UINT32_MAX when none
    u32 generation;
    i32 result;
    u32 flags;
    u32 sequence;    // low 32 bits of the record's number, counted from 1
} recorder_record;
_Static_assert(sizeof(recorder_record) == 32, "four records in two cache lines");

typedef struct recorder {
    u64 written;         // records ever written (atomic, release)
    const u64 *now_ns;   // the worker's cached clock
    recorder_record *records; // LIMIT_RECORDER_EVENTS of them
} recorder;

// Allocates the ring. now_ns must outlive the recorder. Returns 0 or -ENOMEM.
int recorder_init(recorder *rec, const u64 *now_ns);
void recorder_free(recorder *rec);

// Adds one record. Owner thread only. A few stores; no branch, no clock read.
static inline void recorder_add(recorder *rec, recorder_event event, u32 slot, u32 generation,
                                i32 result, u32 flags) {
    u64 number = rec->written + 1;
    u64 *word = (u64 *)(void *)&rec->records[number & (LIMIT_RECORDER_EVENTS - 1)];
    __atomic_store_n(&word[0], *rec->now_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&word[1], (u64)event | (u64)slot << 32, __ATOMIC_RELAXED);
    __atomic_store_n(&word[2], (u64)generation | (u64)(u32)result << 32, __ATOMIC_RELAXED);
    __atomic_store_n(&word[3], (u64)flags | (u64)(u32)number << 32, __ATOMIC_RELAXED);
    __atomic_store_n(&rec->written, number, __ATOMIC_RELEASE);
}

// Copies up to max records with numbers > after, oldest first, into out; any thread. *next receives
// the number to pass as `after` next time. *lost receives how many were overwritten before they
// were read.
size_t recorder_read(const recorder *rec, u64 after, recorder_record *out, size_t max, u64 *next,
                     u64 *lost);

// Stable lower-case name of an event ("recv", "send_wait"); "unknown" when out of range.
const char *recorder_event_name(u32 event);

#endif
