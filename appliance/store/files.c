// SPDX-License-Identifier: Apache-2.0
// files.c: reads heads. A damaged head is not the loss of a segment: every record carries its position, so the
// base is known from any of them.
#include "store/files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/internal.h"

#define GUESS_BYTES (1u << 20) // looked through for the base of a segment without a head
#define NUMBER_MAX 99999999u

typedef struct listing {
    segment_files *files;
    u32 room;
    bool failed;
} listing;

static bool visit(void *context, const char *name) {
    listing *l = context;
    unsigned number;
    char rest;
    if (strlen(name) != 12 || sscanf(name, "%8u.se%c", &number, &rest) != 2 || rest != 'g') return true;
    if (l->files->count == l->room) {
        u32 room = l->room == 0 ? 64 : l->room * 2;
        segment_file *grown = realloc(l->files->list, sizeof(*grown) * room);
        if (grown == NULL) {
            l->failed = true;
            return false;
        }
        l->files->list = grown;
        l->room = room;
    }
    l->files->list[l->files->count++] = (segment_file){.number = number, .file = -1};
    if (number <= NUMBER_MAX) l->files->number_max = MAX(l->files->number_max, number);
    return true;
}

static void guess(disk *d, segment_file *f) {
    u8 *bytes = malloc(GUESS_BYTES);
    if (bytes == NULL) return;
    for (u64 at = 0; at < f->bytes && at < 4ull * GUESS_BYTES && f->base == 0; at += GUESS_BYTES) {
        i64 n = d->ops->read(d, f->file, bytes, GUESS_BYTES, at);
        if (n > 0) f->base = segment_base_guess(bytes, (size_t)n, at);
    }
    free(bytes);
}

static void head_read(disk *d, const char *dir, segment_file *f) {
    u8 head[SECTOR_BYTES];
    char path[PATH_BYTES];
    segment_path(dir, f->number, path);
    f->state = HEAD_DAMAGED;
    f->file = d->ops->open(d, path, false);
    if (f->file < 0) {
        f->error = f->file;
        return;
    }
    i64 size = d->ops->size(d, f->file);
    f->bytes = size < 0 ? 0 : (u64)size;
    i64 n = d->ops->read(d, f->file, head, sizeof(head), 0);
    if (n >= 0) f->state = segment_head_check(head, (size_t)n, &f->head);
    else f->error = (int)n;
    if (f->state == HEAD_LIVE) f->base = f->head.base;
    if (f->state == HEAD_DAMAGED) guess(d, f);
}

static int by_base(const void *a, const void *b) {
    const segment_file *x = a, *y = b;
    u64 p = x->base == 0 ? UINT64_MAX : x->base, q = y->base == 0 ? UINT64_MAX : y->base;
    if (p != q) return p < q ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

// Each head tells of the segment before it: its end, its index; and what lies between the two was given up.
static void chain(segment_files *files) {
    for (u32 i = 1; i < files->with_base; i++) {
        const segment_file *f = &files->list[i];
        if (f->state != HEAD_LIVE || f->head.prev_base == 0) continue;
        for (u32 k = i; k-- > 0;) {
            segment_file *before = &files->list[k];
            if (before->base < f->head.prev_base) break;
            if (before->base == f->head.prev_base) {
                before->end = f->head.prev_end;
                before->index_pos = f->head.prev_index;
            } else {
                before->abandoned = true;
            }
        }
    }
}

int segment_files_read(disk *d, const char *dir, segment_files *out) {
    *out = (segment_files){0};
    listing l = {.files = out};
    int result = d->ops->list(d, dir, visit, &l);
    if (result == 0 && l.failed) result = -ENOMEM;
    if (result < 0) {
        segment_files_free(out);
        return result;
    }
    for (u32 i = 0; i < out->count; i++) head_read(d, dir, &out->list[i]);
    if (out->count > 0) qsort(out->list, out->count, sizeof(*out->list), by_base);
    while (out->with_base < out->count && out->list[out->with_base].base != 0) out->with_base++;
    chain(out);
    return 0;
}

void segment_files_free(segment_files *files) {
    free(files->list);
    *files = (segment_files){0};
}

store_pos segment_files_checkpoint(const segment_files *files, u32 *from_index) {
    *from_index = 0;
    for (u32 i = files->with_base; i-- > 0;) {
        const segment_file *f = &files->list[i];
        if (f->state != HEAD_LIVE || f->abandoned) continue;
        *from_index = i;
        return f->head.checkpoint;
    }
    return 0;
}
