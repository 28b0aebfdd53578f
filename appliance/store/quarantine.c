// SPDX-License-Identifier: Apache-2.0
// quarantine.c: what is damaged is kept aside in DIR/quarantine for people to look at, within a budget. Nothing
// here may keep the log from starting: what can not be set aside is only told.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/internal.h"

#define COPY_BYTES_MAX (1u << 20) // of one damaged place

static int quarantine_dir(disk *d, const char *dir, char out[PATH_BYTES]) {
    snprintf(out, PATH_BYTES, "%s/quarantine", dir);
    int result = d->ops->make_dir(d, out);
    return result == -EEXIST ? 0 : result;
}

void quarantine_bytes(disk *d, const char *dir, segment *seg, store_pos from, store_pos to, u64 *budget) {
    char path[PATH_BYTES + 64], aside[PATH_BYTES];
    size_t bytes = (size_t)MIN(to - from, (u64)COPY_BYTES_MAX);
    if (bytes == 0 || *budget < bytes || quarantine_dir(d, dir, aside) < 0) return;
    u8 *copy = malloc(bytes);
    if (copy == NULL) return;
    i64 n = d->ops->read(d, seg->file, copy, bytes, from - seg->base);
    snprintf(path, sizeof(path), "%s/%08u-%llx.bin", aside, seg->number, (unsigned long long)(from - seg->base));
    int file = n > 0 ? d->ops->open(d, path, true) : -1;
    if (file >= 0) {
        if (d->ops->write(d, file, copy, (size_t)n, 0) == 0) *budget -= bytes;
        d->ops->close(d, file);
    }
    free(copy);
}

int quarantine_file(disk *d, const char *dir, u32 number) {
    char from[PATH_BYTES], to[PATH_BYTES + 64], aside[PATH_BYTES];
    int result = quarantine_dir(d, dir, aside);
    if (result < 0) return result;
    segment_path(dir, number, from);
    snprintf(to, sizeof(to), "%s/%08u.seg", aside, number);
    result = d->ops->rename(d, from, to);
    if (result == 0) result = d->ops->sync_dir(d, dir);
    return result;
}
