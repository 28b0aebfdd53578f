// SPDX-License-Identifier: Apache-2.0
// update_write.c: see update_write.h.
#include "init/update_write.h"

#include <bearssl.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct writer {
    update_job *job;
    update_esp esp;
    const fat_file *slot;           // the target's file
    u8 *chunk;                      // UPDATE_DISK_CHUNK bytes
    u8 first[UPDATE_DISK_BLOCK];    // the image's first block, held back until step 5
} writer;

static int fail(writer *w, int err, const char *format, ...) PRINTF_LIKE(3, 4);
static int fail(writer *w, int err, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(w->job->error, sizeof(w->job->error), format, args);
    va_end(args);
    return err;
}

static int fail_disk(writer *w, int err, const char *what) {
    return fail(w, err, "%s: %s", what, errno_name(err));
}

// All of len bytes of the stream. -ENODATA: it ended before.
static int take(writer *w, void *out, size_t len) {
    update_source *s = w->job->source;
    for (size_t done = 0; done < len;) {
        ssize_t n = s->read(s->context, (u8 *)out + done, len - done);
        if (n < 0 && s->error[0] != '\0') return fail(w, (int)n, "%s", s->error);
        if (n < 0) return fail(w, (int)n, "the update could not be received: %s", errno_name((int)n));
        if (n == 0) return fail(w, -ENODATA, "the update ended early, it was not received whole");
        done += (size_t)n;
    }
    return 0;
}

static int take_header(writer *w) {
    update_job *job = w->job;
    u8 bytes[UPDATE_HEADER_BYTES];
    int err = take(w, bytes, sizeof(bytes));
    if (err < 0) return err;
    update_verdict v = update_header_read(bytes, job->keys, &job->header);
    if (v == UPDATE_FINE) {
        v = update_header_fits(&job->header, job->arch, job->version, job->build_s, job->allow_downgrade);
    }
    return v == UPDATE_FINE ? 0 : fail(w, -EPERM, "%s", update_verdict_text(v));
}

// The files on the ESP, and room for the image in the target.
static int find_slot(writer *w) {
    update_job *job = w->job;
    const char *why;
    int err = update_esp_find(job->disk, &w->esp, &why);
    if (err < 0) return fail_disk(w, err, why);
    job->target = update_slot_other(job->running);
    w->slot = &w->esp.slots[job->target - 'a'];
    if (w->slot->size % UPDATE_DISK_BLOCK != 0 || w->slot->size < job->header.image_bytes) {
        return fail(w, -ENOSPC, "slot %c has %llu bytes, the new system needs %llu", job->target,
                    (unsigned long long)w->slot->size, (unsigned long long)job->header.image_bytes);
    }
    return 0;
}

// Step 1. The running system is what works, whatever the environment said before.
static int settle_environment(writer *w) {
    update_env now, wanted = {.slot = w->job->running};
    if (update_esp_env_read(w->job->disk, &w->esp, &now) == 0 && now.slot == wanted.slot && now.try_slot == 0) {
        return 0;
    }
    int err = update_esp_env_write(w->job->disk, &w->esp, &wanted);
    return err == 0 ? 0 : fail_disk(w, err, "the loader's environment could not be written");
}

static int write_at(writer *w, u64 offset, const void *data, size_t len) {
    int err = update_file_write(w->job->disk, w->slot, offset, data, len);
    return err == 0 ? 0 : fail_disk(w, err, "the slot could not be written");
}

static int flush(writer *w) {
    int err = w->job->disk->flush(w->job->disk->context);
    return err == 0 ? 0 : fail_disk(w, err, "the slot could not be flushed");
}

// Step 2.
static int invalidate(writer *w) {
    memset(w->chunk, 0, UPDATE_DISK_BLOCK);
    int err = write_at(w, 0, w->chunk, UPDATE_DISK_BLOCK);
    return err == 0 ? flush(w) : err;
}

static void progress(writer *w, u64 done) {
    const update_job *job = w->job;
    if (job->progress != NULL) job->progress(job->progress_context, done, job->header.image_bytes);
}

static int check_hash(writer *w, br_sha256_context *hash, const char *message) {
    u8 sum[UPDATE_HASH_BYTES];
    br_sha256_out(hash, sum);
    return memcmp(sum, w->job->header.image_sha256, sizeof(sum)) == 0 ? 0 : fail(w, -EBADMSG, "%s", message);
}

// Step 3. The first block's place stays zero.
static int write_image(writer *w) {
    u64 total = w->job->header.image_bytes;
    br_sha256_context hash;
    br_sha256_init(&hash);
    for (u64 offset = 0; offset < w->slot->size; offset += UPDATE_DISK_CHUNK) {
        size_t room = (size_t)MIN((u64)UPDATE_DISK_CHUNK, w->slot->size - offset);
        size_t len = offset < total ? (size_t)MIN((u64)room, total - offset) : 0;
        memset(w->chunk + len, 0, room - len);
        int err = take(w, w->chunk, len);
        if (err < 0) return err;
        br_sha256_update(&hash, w->chunk, len);
        if (offset == 0) {
            memcpy(w->first, w->chunk, UPDATE_DISK_BLOCK);
            memset(w->chunk, 0, UPDATE_DISK_BLOCK);
        }
        err = write_at(w, offset, w->chunk, room);
        if (err < 0) return err;
        progress(w, MIN(offset + room, total));
    }
    u8 more;
    if (w->job->source->read(w->job->source->context, &more, 1) != 0) {
        return fail(w, -EBADMSG, "the update is longer than its header says");
    }
    int err = check_hash(w, &hash, "the update was damaged on its way: its hash is wrong");
    return err == 0 ? flush(w) : err;
}

// Step 4.
static int read_back(writer *w) {
    u64 total = w->job->header.image_bytes;
    br_sha256_context hash;
    br_sha256_init(&hash);
    for (u64 offset = 0; offset < total; offset += UPDATE_DISK_CHUNK) {
        size_t len = (size_t)MIN((u64)UPDATE_DISK_CHUNK, total - offset);
        int err = update_file_read(w->job->disk, w->slot, offset, w->chunk, len);
        if (err < 0) return fail_disk(w, err, "the slot could not be read back");
        if (offset == 0) memcpy(w->chunk, w->first, MIN(len, (size_t)UPDATE_DISK_BLOCK));
        br_sha256_update(&hash, w->chunk, len);
    }
    return check_hash(w, &hash, "the medium did not keep what was written: the slot's hash is wrong");
}

// Step 5.
static int validate(writer *w) {
    int err = write_at(w, 0, w->first, UPDATE_DISK_BLOCK);
    if (err == 0) err = flush(w);
    if (err < 0) return err;
    err = update_file_read(w->job->disk, w->slot, 0, w->chunk, UPDATE_DISK_BLOCK);
    if (err < 0) return fail_disk(w, err, "the slot could not be read back");
    if (memcmp(w->chunk, w->first, UPDATE_DISK_BLOCK) == 0) return 0;
    return fail(w, -EIO, "the medium did not keep the slot's first block");
}

// Step 6.
static int arrange_trial(writer *w) {
    update_env env = {.slot = w->job->running, .try_slot = w->job->target};
    int err = update_esp_env_write(w->job->disk, &w->esp, &env);
    return err == 0 ? 0 : fail_disk(w, err, "the trial could not be written to the loader's environment");
}

int update_write(update_job *job) {
    static int (*const steps[])(writer *) = {take_header, find_slot,  settle_environment, invalidate,
                                             write_image, read_back, validate,           arrange_trial};
    ASSERT(update_slot_is_valid(job->running));
    job->error[0] = '\0';
    writer *w = calloc(1, sizeof(*w));
    u8 *chunk = malloc(UPDATE_DISK_CHUNK);
    int err = 0;
    if (w == NULL || chunk == NULL) {
        snprintf(job->error, sizeof(job->error), "not enough memory");
        err = -ENOMEM;
    } else {
        *w = (writer){.job = job, .chunk = chunk};
        for (u32 i = 0; i < ARRAY_LEN(steps) && err == 0; i++) err = steps[i](w);
    }
    free(chunk);
    free(w);
    return err;
}
