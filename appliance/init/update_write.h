// SPDX-License-Identifier: Apache-2.0
// update_write.h: puts a new system into the slot that is not running. The order of its writes is what makes an
// update survive a power cut at any instant:
//
//   1  the environment says: the running slot is the good one, nothing is to be tried
//   2  the other slot's first block is cleared: it can not be started any more
//   3  the image is written, all but its first block; the rest of the slot becomes zero
//   4  everything is read back from the medium and its hash compared
//   5  the first block is written and read back: the slot can be started
//   6  the environment says: try it
//
// Each step is on the medium before the next begins. Only bytes of files that are there are overwritten.
// Blocking: runs in a helper process. Nothing of the stream is used before the header's signature holds.
#ifndef SLUICE_INIT_UPDATE_WRITE_H
#define SLUICE_INIT_UPDATE_WRITE_H

#include "init/update_disk.h"
#include "init/update_header.h"

typedef struct update_source {
    // At most len bytes; 0: the end; -errno, with a text in error when it has more to say.
    ssize_t (*read)(void *context, void *out, size_t len);
    void *context;
    int number;      // for the source itself
    char error[192];
} update_source;

typedef struct update_job {
    // in
    const update_disk *disk;
    update_source *source;
    const update_keys *keys;
    char running;               // slot of the system that runs
    u16 arch;                   // of that system
    u64 version, build_s;
    bool allow_downgrade;
    void (*progress)(void *context, u64 done_bytes, u64 total_bytes); // may be NULL
    void *progress_context;
    // out
    update_header header;       // once its signature held
    char target;                // the slot that was written
    char error[256];            // one sentence, when it failed
} update_job;

// 0: written, verified, and to be tried at the next start. -errno: nothing is to be tried; job->error says
// why. Whatever happens, the running slot stays the one that is started.
int update_write(update_job *job);

#endif
