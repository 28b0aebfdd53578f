// SPDX-License-Identifier: Apache-2.0
// store/log.h: the durable log of one worker. Everything that must survive is a record in it; the state after a
// restart is a fold over its records from the last complete checkpoint. One group commit covers all that was
// appended meanwhile, and an acknowledgement leaves when the commit that covers its record is on disk.
//
// The path: store_append -> buffer -> store_turn hands it to the disk lane (lane.h: pwrite + fdatasync on the
// log writer's thread) -> store_turn takes the completion -> waiters. Nothing here blocks the owner, except
// store_start.
//
// All functions: the owner's thread only, unless said otherwise. Callbacks run from store_turn (of waiters,
// fetches, readers, checkpoints and reclaim) or from store_start (replay), never inside the call that asked for
// them. A worker without durability (SLUICE_DATA_VOLATILE=1, `durable = no`) has no store: worker.store is
// NULL.
//
// The format on disk is described in docs/log.md.
#ifndef SLUICE_STORE_LOG_H
#define SLUICE_STORE_LOG_H

#include <sys/uio.h>

#include "base/base.h"
#include "base/hist.h"
#include "base/recorder.h"
#include "limits.h"

typedef struct store store;
typedef struct disk disk;

// Where a record starts: the log's number in the top 12 bits, below it bytes since that log began. Grows, is never
// used again, is unique among all logs that a data_dir ever had; 0 = none.
typedef u64 store_pos;
#define STORE_LOG_NUMBERS 4096u
// The number of the log that the position is of, or was first.
static inline u32 store_log_number(store_pos pos) {
    return (u32)(pos >> 52);
}

typedef enum store_kind { // who a record belongs to: one keeper per kind. On disk: one byte, never renumbered
    STORE_NONE = 0,
    STORE_MESSAGE = 1,  // a message: streams and queued deliveries share it (stored once)
    STORE_SESSION = 2,  // session state and its changes
    STORE_RETAINED = 3,
    STORE_STREAM = 4,   // consumers' offsets, trims
    STORE_UPLINK = 5,   // uplinks' offsets
    STORE_META = 6,     // the log's own (batches, checkpoints, indexes); has no keeper
    STORE_KINDS
} store_kind;

#define STORE_RECORD_BYTES_MAX LIMIT_STORE_RECORD_BYTES

typedef struct store_record {
    store_pos pos;    // where it lies now
    store_pos origin; // where it lay first; == pos unless it has been copied. References use origin.
    u64 time_ms;      // UNIX time it was appended at (kept when copied)
    const u8 *data;   // valid during the call
    u32 len;
    u32 flags;        // STORE_KEEP as given to store_append
    store_kind kind;
} store_record;

// What a module that keeps state in the log gives; one per kind, registered before store_start. Any may be NULL.
typedef struct store_keeper {
    void *context;
    // At start, in the order of the log, from the last complete checkpoint on (a checkpoint's records included).
    // May call store_drop, store_append is not allowed yet.
    void (*replay)(void *context, const store_record *r);
    void (*replayed)(void *context); // all of it has been seen, by every keeper; appending is allowed
    // Checkpoint: append the full present state as records of its kind, without STORE_KEEP (each replaces all
    // that was known of the thing it names: the checkpoint is fuzzy, ordinary records come between its slices).
    // begin = first slice. Appends at most about `budget` bytes a call; -EAGAIN of store_append ends the slice.
    // Returns true when finished.
    bool (*checkpoint)(void *context, bool begin, u32 budget);
    // Reclaim reads a segment again: is this record (appended with STORE_KEEP) still needed?
    bool (*is_live)(void *context, const store_record *r);
    void (*moved)(void *context, store_pos origin, store_pos to); // it has been copied forward
    // data_dir was made by another number of workers, or its hash key is lost: which of `workers` workers must have
    // this record? One bit each; 0 = nobody. NULL: the old worker's number modulo the new number. Pure: no context.
    // The record keeps its origin; a worker that gets it ignores what in it is not its own.
    u64 (*owners)(const store_record *r, u32 old_worker, u32 workers);
    // The same: its records go, besides, where those of this kind went that were met in the same log. STORE_NONE: no.
    store_kind follows;
    // The same: where it is set, records without STORE_KEEP go to all workers, so that they hear of what others have.
    // Only those count of which this is true in the log of `of_worker`; what was heard is not handed on.
    bool (*is_own)(const store_record *r, u32 of_worker, u32 workers);
} store_keeper;

enum {
    STORE_KEEP = 1u << 0, // the record itself stays needed until store_drop; without: until the next checkpoint
    STORE_VITAL = 1u << 1, // may use the space that is reserved for disk-full: what lets space be freed (acks, drops,
                           // offsets), never new messages. Not stored.
};

typedef enum store_state {
    STORE_STATE_OPENING,
    STORE_STATE_OK,
    STORE_STATE_FULL,    // disk or log_max used up: new messages are refused (-ENOSPC); ends by itself
    STORE_STATE_FAILED,  // the disk does not take writes (-EIO); tried again every LIMIT_STORE_RETRY_MS
    STORE_STATES
} store_state;
const char *store_state_name(store_state state);

typedef struct store_config {
    u32 worker, workers;
    const char *dir;        // directory of this log, exists; copied
    u32 log_number;         // top bits of positions, 1 .. 4095
    disk *disk;             // outlives the store
    u64 bytes_max;          // of this log, on disk; at least LIMIT_STORE_SEGMENTS_MIN segments
    u32 segment_bytes;      // of new segments: a multiple of 1 MiB
    u32 commit_delay_us;    // a commit waits at most so long for more to come; 0 = starts at once
    recorder *recorder;     // the owner's flight recorder; NULL = none
    bool threads;           // false (simulated disk): the lanes run inside store_turn's caller, see store_step
    void (*wake)(void *context); // any thread: makes the owner call store_turn soon
    void *wake_context;
    void (*thread_begin)(void); // first thing of a helper thread; NULL = none
} store_config;

// Single writer (the owner), any reader.
typedef struct store_metrics {
    counter appended, appended_bytes;       // records, and their payload as given
    counter written_bytes;                  // given to the disk: headers, padding, copies and checkpoints included
    counter commits, commit_records;
    counter commit_failures;                // writes or syncs that failed
    counter refused_full, refused_busy, refused_failed; // -ENOSPC, -EAGAIN, -EIO
    counter segments, segments_max;         // files, and the most that bytes_max allows
    counter disk_bytes;                     // of those files
    counter live_bytes;                     // records that are kept (an upper bound after a restart)
    counter segments_made, segments_reused, segments_freed;
    counter copied_records, copied_bytes;   // by reclaim
    counter checkpoints, checkpoint_bytes;
    counter damaged, damaged_bytes;         // places in the log that could not be read
    counter tail_cut_bytes;                 // of the unfinished commit that the last start cut off
    counter quarantined;                    // files set aside
    counter replayed, replayed_bytes, recovery_ns;
    counter fetches, read_bytes;
    counter state;                          // store_state
    counter buffered_bytes;                 // appended and not on disk yet
    hist commit;                            // ns from handing over to on disk
} store_metrics;

// Makes a store; nothing is read yet. Main thread. 0 or -errno with the step that failed in *step.
int store_create(const store_config *config, store **out, const char **step);
// STORE_KINDS of them, as registered; for data_dir_convert.
const store_keeper *store_keepers(const store *s);
void store_register(store *s, store_kind kind, const store_keeper *keeper);
// Recovers: reads the last complete checkpoint and what follows, calls the keepers. Blocks. Always succeeds but
// for want of memory or threads (-ENOMEM, -EAGAIN), or where a segment can not be opened for a reason that may
// pass (-EACCES, -EPERM, -EMFILE, -ENFILE): nothing is given up for that. Damage is set aside, counted and
// logged; a disk that can not be written leaves the state FAILED.
int store_start(store *s);
// Once a turn of the owner's loop: completions, waiters, the next commit, a slice of checkpoint or reclaim.
void store_turn(store *s, u64 now_mono_ns);
// When store_turn must be called next at the latest: CLOCK_MONOTONIC ns, UINT64_MAX = when woken.
u64 store_next_ns(const store *s);
// Everything appended so far is put on disk with a final commit: blocks, at most timeout_ms. Waiters run.
// 0, -EIO or -ETIMEDOUT.
int store_flush(store *s, u32 timeout_ms);
// A clean stop marks the log's end, so that the next start finds nothing torn. Waiters are told; fetches that are
// under way end without a word. Readers must be gone before store_destroy.
void store_stop(store *s);
void store_destroy(store *s);

// Appends (copied). 0 and *pos; -EAGAIN: buffers are full, apply back-pressure (store_when_room); -ENOSPC: disk
// or budget is full: refuse the message by name; -EIO: the log has failed; -EMSGSIZE: more than
// STORE_RECORD_BYTES_MAX.
int store_append(store *s, store_kind kind, u32 flags, const struct iovec *parts, u32 count, store_pos *pos);
// Accounting: a kept record of so many payload bytes is needed no more. pos: its origin.
void store_drop(store *s, store_pos pos, u32 len);
// Whether a record of len bytes would be taken now: 0, or the error that store_append would give.
int store_room(const store *s, u32 flags, u32 len);

typedef struct store_room_waiter {
    struct store_room_waiter *next;
    void (*room)(
        struct store_room_waiter *w); // once; there is room after -EAGAIN, -ENOSPC or -EIO (it may be gone again)
    bool queued;
} store_room_waiter;
void store_when_room(store *s, store_room_waiter *w);
void store_when_room_cancel(store *s, store_room_waiter *w);

// Group commit. done is called once, from store_turn, when everything up to pos is on disk: 0; or -EIO: it
// could not be written in the end and is not in memory any more.
typedef struct store_waiter {
    struct store_waiter *next;
    store_pos upto;
    void (*done)(struct store_waiter *w, int result);
} store_waiter;
bool store_is_durable(const store *s, store_pos pos);
void store_wait(store *s, store_pos pos, store_waiter *w);
void store_wait_cancel(store *s, store_waiter *w);

// Reading one record by origin. 1: it was in memory, *r is valid until the next call of anything of the store.
// 0: done comes later, r valid during the call; result 0, -ENOENT (not there), -EIO (damaged). -EAGAIN: too
// many reads outstanding.
typedef struct store_fetch_op {
    struct store_fetch_op *next;
    store_pos origin;
    u32 len_hint;                // payload length if known, 0 = not
    void (*done)(struct store_fetch_op *op, int result, const store_record *r);
    void *internal;
} store_fetch_op;
int store_fetch(store *s, store_fetch_op *op, store_record *r);
void store_fetch_cancel(store *s, store_fetch_op *op);

// Reading in order of origin, durable records only, all kinds but META (streams, uplinks); records of the kinds
// without STORE_KEEP are there only until reclaim. next: 1 = *r filled (valid until the next call for this
// reader); 0 = nothing now, ready() is called when there may be more; -EIO = a damaged place: counted, skipped,
// call again.
typedef struct store_reader store_reader;
store_reader *store_reader_open(store *s, store_pos from, void (*ready)(void *context),
                                void *context); // NULL: no memory
int store_reader_next(store_reader *rd, store_record *r);
void store_reader_seek(store_reader *rd, store_pos from);
void store_reader_close(store_reader *rd);
// UNIX time of the last record that was replayed at the start, by the clock of then; 0 = none.
u64 store_replayed_ms(const store *s);
store_pos store_first(const store *s); // where the oldest record there is may lie
store_pos store_end(const store *s);   // where the next record will lie; everything before was appended
// A position from which a reader finds every record that is not older than time_ms; some older ones may come
// first (the index of a segment that is full has at most LIMIT_STORE_INDEX_KEPT entries, and clocks jump): compare
// time_ms of what is read.
store_pos store_find_time(const store *s, u64 time_ms);

const store_metrics *store_metrics_get(const store *s); // any thread
// The same for the reason of the present state: "segment 12: fdatasync: EIO"; "" when OK. Any thread; may be
// torn by a change.
const char *store_state_why(const store *s);

// For tests on a simulated disk (config.threads false): runs one queued disk operation; false when there is none.
bool store_step(store *s);

#endif
