// SPDX-License-Identifier: Apache-2.0
// internal.h: what the files of the log share: the store itself. Its parts, in the order in which a record
// meets them:
//   log.c        appending, group commit, waiters
//   segment.c    files: reserve ahead, roll, free; failed.c: what follows a failed write
//   checkpoint.c the present state, written in slices, so that a start need not read everything
//   reclaim.c    reads old segments again, copies what lives, frees them
//   read.c       single records; reader.c: reading in order
//   recover.c    the start
// All of it is the owner's thread's, but what a lane operation carries.
#ifndef SLUICE_STORE_INTERNAL_H
#define SLUICE_STORE_INTERNAL_H

#include "store/disk.h"
#include "store/lane.h"
#include "store/log.h"
#include "store/moved.h"
#include "store/record.h"

#define PATH_BYTES 320u

// Beside STORE_VITAL, for the log's own records and copies: may take the last spare segment, without which nothing
// could be copied and so nothing freed.
enum { STORE_LAST = 1u << 2 };

typedef struct segment {
    store_pos base;
    u64 bytes;
    store_pos end;        // where its records end; grows while it is the active one
    store_pos index_pos;  // of its META_INDEX, 0 = none
    u32 number;           // of the file
    int file;
    u32 refs;             // reads under way
    i64 live_bytes;       // of kept records; a hint: reclaim looks for itself
    u64 surveyed_ns;      // when reclaim last counted what lives
    store_pos copied_upto; // reclaim: copies of what lies before are in the log already; 0 = not begun
    bool bad;             // a write to it failed: not used again
    bool dying;           // being freed: not read any more, counted until that is on disk
    u64 first_ms;
    index_entry *index;
    u32 index_count, index_room;
} segment;

// One commit's bytes. memory: room for a segment's head, then the batch.
typedef struct buffer {
    u8 *memory;
    u32 used;             // of the batch
    u32 records;
    segment *seg;
    store_pos start;      // of the batch
    bool with_head;       // first batch of its segment
    bool closed;          // nothing more is added
    store_pos retry_upto; // after a failed write: the old places before it are in here or in earlier batches
} buffer;

typedef struct commit_op {
    lane_op op;
    store *s;
    int file;
    const u8 *from;
    size_t bytes;
    u64 offset;
} commit_op;

// A file operation of the slow lane.
typedef enum file_task { TASK_MAKE_SPARE, TASK_FREE, TASK_UNLINK } file_task;
typedef struct file_op {
    lane_op op;
    store *s;
    file_task task;
    segment *seg;         // TASK_FREE, TASK_UNLINK: being taken down
    u32 number;
    u64 bytes;
    int file;
    char dir[PATH_BYTES];
    u32 log_number;
} file_op;

typedef struct spare {
    u32 number;
    int file;
    bool reused;
} spare;

typedef struct read_op {
    lane_op op;
    store *s;
    segment *seg;         // referenced
    u8 *data;             // room bytes
    u32 room, want;
    u32 got;
    u64 offset;           // in the file
    void *owner;
    bool busy, orphan;    // orphan: its owner is gone, free it when it comes back
    void (*arrived)(struct read_op *r, int result);
} read_op;

typedef enum checkpoint_phase {
    CHECKPOINT_IDLE, CHECKPOINT_BEGIN, CHECKPOINT_KEEPERS, CHECKPOINT_SETTLE, CHECKPOINT_COMMIT
} checkpoint_phase;
typedef enum reclaim_phase {
    RECLAIM_IDLE, RECLAIM_COUNT, RECLAIM_COPY, RECLAIM_SETTLE, RECLAIM_RELEASE
} reclaim_phase;

#define SPARES_MAX 8u

struct store {
    store_config config;
    char dir[PATH_BYTES];
    disk *disk;
    lane *write_lane, *slow_lane;
    store_keeper keepers[STORE_KINDS];
    store_metrics metrics;
    char why[160];
    bool started, stopping;
    u64 now_ns, now_ms;
    u64 replayed_ms; // store_replayed_ms

    // segments, oldest first; the last one is the active one when active != NULL
    segment **segments;
    u32 segment_count, segment_room;
    segment *active;
    store_pos next_base;    // of the next segment
    u32 next_number;        // of the next file
    spare spares[SPARES_MAX];
    u32 spare_count, spares_coming, dying_count;
    bool in_reserve;        // a vital record has begun a segment of the reserve: nothing else is taken
    bool in_checkpoint;     // keepers append now
    bool converting;
    bool converted;         // what was replayed came from logs of another number of workers: a checkpoint is due
    int spare_error;        // why the last one could not be made
    u64 spare_retry_ns;

    // appending and committing
    buffer buffers[LIMIT_STORE_BUFFERS];
    u32 buffer_first, buffer_count; // in use: from first on; the last of them fills unless closed
    u64 buffer_mapped;
    store_pos tail;         // where the next record goes
    store_pos durable;      // everything before is on disk
    u32 committed_buffers;
    bool committing;
    commit_op commit;
    u64 first_waits_ns;     // since when the open buffer is not empty
    store_pos origin_last_moved_segment; // base of the segment the last copy went to
    store_waiter *waiters, *waiters_last;
    store_room_waiter *room_waiters, *room_waiters_last;

    // after a failed write: what was in the buffers, to be appended again
    buffer retry[LIMIT_STORE_BUFFERS];
    u32 retry_count, retry_at; // buffer, and
    u32 retry_offset;          // place in it
    store_pos retry_done;      // the old places before it are on disk again
    u32 failures;              // in a row
    u64 retry_ns;
    segment *rolled;           // the segment that ends where the next one's head says

    moved_table moved;
    store_pos checkpoint;      // where the last complete one begins, 0 = none
    store_pos checkpoint_next; // where the one under way begins
    checkpoint_phase checkpoint_phase;
    u32 checkpoint_kind;
    bool checkpoint_begin;
    store_pos checkpoint_settle;
    u64 checkpoint_retry_ns;
    u64 checkpoint_pause_ns; // the next slice: the last one found no room
    u64 checkpoint_started_bytes, checkpoint_last_bytes; // appended then; size of the last one

    reclaim_phase reclaim_phase;
    segment *victim;
    store_pos reclaim_at, reclaim_settle;
    i64 reclaim_live;
    u32 reclaim_want;
    u64 reclaim_next_ns;
    read_op reclaim_read;

    struct fetch *fetches, *fetch_free;
    u32 fetch_count, fetch_free_count;
    store_fetch_op *cancelled;
    store_reader *readers;
};

static inline void store_trace(const store *s, recorder_event event, i64 result, u32 flags) {
    if (s->config.recorder == NULL) return;
    recorder_add(s->config.recorder, event, UINT32_MAX, 0, (i32)MIN(result, (i64)INT32_MAX), flags);
}

// log.c
int store_put(store *s, store_kind kind, u32 record_flags, u32 flags, meta_type type, const record_moved *moved,
              u64 time_ms, const struct iovec *parts, u32 count, store_pos *pos);
void store_state_set(store *s, store_state state, const char *format, ...) PRINTF_LIKE(3, 4);
void store_wake_room(store *s);
void store_waiters_run(store *s, int result);
void keeper_moved(store *s, const store_record *r, store_pos to);
void store_wake_readers(store *s);
buffer *buffer_open(store *s); // the one that fills; NULL when none is begun
const u8 *store_in_memory(store *s, store_pos pos, size_t *available);
// What is not on disk yet, at pos or next behind it: *from is where it begins. NULL: nothing.
const u8 *store_in_memory_next(store *s, store_pos pos, store_pos *from, size_t *available);
void commit_try(store *s);
int buffers_map(store *s);
void buffers_unmap(buffer *list);

// segment.c
void segment_path(const char *dir, u32 number, char out[PATH_BYTES]);
segment *segment_at(const store *s, store_pos pos); // the one whose range holds pos; NULL
u32 segment_index_of(const store *s, const segment *seg);
bool segment_add(store *s, segment *seg);           // sorted by base
void segment_free(store *s, segment *seg);          // closes, removes from the table, frees
bool segment_note(segment *seg, store_pos pos, u64 time_ms); // a record lies there: the sparse index
void segment_index_thin(segment *seg);              // nothing more is noted: at most LIMIT_STORE_INDEX_KEPT entries
int segment_roll(store *s, u32 flags);
int segment_first(store *s, u32 flags);             // an active segment is needed
void segments_turn(store *s);                       // spares
void segments_prepare(store *s);
// After that: a log that was not stopped in order and is full goes on in its last segment. A new one would be of the
// reserve, which would be used up by a few kills in a row.
void segments_go_on(store *s);
bool segments_can_roll(const store *s, u32 flags, int *error);
void segment_release(store *s, segment *seg);       // nothing in it is needed
u32 segments_max(const store *s);
void segments_account(store *s);

// failed.c
void store_write_failed(store *s, int result);
void store_retry_turn(store *s);

// checkpoint.c, reclaim.c
void checkpoint_turn(store *s);
void checkpoint_abort(store *s);
int checkpoint_convert_begin(store *s); // convert.c: what follows is replayed, what lies before is not
int checkpoint_converted(store *s);
void reclaim_turn(store *s);

// read.c
void read_start(read_op *r, segment *seg, store_pos pos, u32 want);
bool read_room(read_op *r, u32 want);
void fetches_cancel(store *s); // nobody is told of what is still being read
void fetches_end(store *s);
// reader.c
void reader_segment_gone(store *s);

// recover.c
int store_recover(store *s);
// Whether a record is found by its origin and read in that order. Not a copy of a conversion that is only replayed.
bool record_is_placed(const store *s, const record_view *view);
// scan.c: set aside
void quarantine_bytes(disk *d, const char *dir, segment *seg, store_pos from, store_pos to, u64 *budget);
int quarantine_file(disk *d, const char *dir, u32 number);

#endif
