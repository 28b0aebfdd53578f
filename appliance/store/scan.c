// SPDX-License-Identifier: Apache-2.0
// scan.c: the reading loop behind recovery. Every decision about bytes is record.c's; this file brings them and
// looks around.
#include "store/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES (1u << 20)
#define SEARCH_BYTES (16u << 20) // beyond a hole: more than a commit can be long
#define BAD_BLOCK_BYTES 4096u // skipped where the disk can not read

int scan_begin(scan *sc, disk *d, int file, store_pos base, u64 bytes, store_pos at, store_pos end) {
    *sc = (scan){.disk = d, .file = file, .base = base, .at = at, .end_known = end != 0};
    sc->limit = base + bytes;
    if (sc->end_known) sc->limit = MIN(sc->limit, end);
    sc->block = malloc(BLOCK_BYTES);
    sc->block_room = BLOCK_BYTES;
    return sc->block == NULL ? -ENOMEM : 0;
}

void scan_end(scan *sc) {
    free(sc->block);
    sc->block = NULL;
}

// Bytes at pos in memory: at least `want` if the segment has them. NULL: not readable there.
static const u8 *bytes_at(scan *sc, store_pos pos, u32 want, size_t *available) {
    u64 left = sc->limit - pos;
    want = (u32)MIN((u64)want, left);
    bool here = sc->block_bytes > 0 && pos >= sc->block_at && pos + want <= sc->block_at + sc->block_bytes;
    if (!here) {
        if (want > sc->block_room) {
            u8 *grown = realloc(sc->block, want);
            if (grown == NULL) return NULL;
            sc->block = grown;
            sc->block_room = want;
        }
        i64 n = sc->disk->ops->read(sc->disk, sc->file, sc->block, (size_t)MIN((u64)MAX(want, BLOCK_BYTES), left),
                                    pos - sc->base);
        if (n < 0) { // a smaller piece may be readable
            n = sc->disk->ops->read(sc->disk, sc->file, sc->block, (size_t)MIN((u64)MAX(want, BAD_BLOCK_BYTES), left),
                                    pos - sc->base);
        }
        sc->block_at = pos;
        sc->block_bytes = n < 0 ? 0 : (u32)n;
        if (n <= 0) return NULL;
    }
    *available = (size_t)(sc->block_at + sc->block_bytes - pos);
    return sc->block + (pos - sc->block_at);
}

// The next place at or after pos where a good record is (a batch's beginning only, if batches). limit: none.
static store_pos look_for(scan *sc, store_pos pos, bool batches) {
    store_pos give_up = pos + SEARCH_BYTES;
    while (pos + sizeof(record_head) <= sc->limit) {
        size_t available;
        if (pos >= give_up && !sc->end_known) break;
        const u8 *at =
            bytes_at(sc, pos, MIN(BLOCK_BYTES / 2, (u32)MIN(sc->limit - pos, (u64)UINT32_MAX)), &available);
        if (at == NULL) {
            pos = align_up_u64(pos + 1, BAD_BLOCK_BYTES);
            continue;
        }
        if (available < sizeof(record_head)) return sc->limit;
        size_t skip = record_resync(at, available, pos);
        if (skip >= available) {
            pos += available - (available > sizeof(record_head) ? sizeof(record_head) - RECORD_ALIGN : 0);
            pos &= ~(u64)(RECORD_ALIGN - 1);
            continue;
        }
        pos += skip;
        record_view view;
        u32 bytes;
        record_scan_result scanned;
        for (;;) {
            at = bytes_at(sc, pos, sizeof(record_head), &available);
            scanned = at == NULL ? SCAN_INVALID : record_scan(at, available, pos, &view, &bytes);
            if (scanned != SCAN_MORE || pos + bytes > sc->limit) break;
            at = bytes_at(sc, pos, bytes, &available);
            scanned = at == NULL || available < bytes ? SCAN_INVALID : record_scan(at, available, pos, &view, &bytes);
            break;
        }
        if (scanned == SCAN_RECORD && (!batches || view.type == META_BATCH)) return pos;
        pos += scanned == SCAN_RECORD ? view.size : RECORD_ALIGN;
    }
    return sc->limit;
}

// A place that holds no good record, or `good_head`: one whose payload is damaged, `bytes` long.
static scan_what hole(scan *sc, bool good_head, u32 bytes) {
    store_pos from = sc->at;
    if (!sc->end_known && sc->batch_seen <= from) {
        sc->batch_seen = look_for(sc, from + RECORD_ALIGN, true);
        if (sc->batch_seen >= sc->limit) { // torn, or simply the end
            sc->from = from;
            store_pos next = look_for(sc, from + RECORD_ALIGN, false);
            sc->to = from;
            while (next < sc->limit) {
                sc->to = next + sizeof(record_head);
                next = look_for(sc, next + RECORD_ALIGN, false);
            }
            sc->limit = sc->at = from;
            return SCANNED_END;
        }
    }
    sc->from = from;
    sc->to = good_head ? MIN(from + bytes, sc->limit) : look_for(sc, from + RECORD_ALIGN, false);
    sc->at = sc->to;
    return SCANNED_DAMAGE;
}

scan_what scan_next(scan *sc, record_view *view) {
    u32 want = sizeof(record_head), bytes = 0;
    while (sc->at < sc->limit) {
        size_t available = 0;
        const u8 *at = bytes_at(sc, sc->at, want, &available);
        record_scan_result scanned = at == NULL ? SCAN_INVALID : record_scan(at, available, sc->at, view, &bytes);
        switch (scanned) {
        case SCAN_RECORD:
            sc->at += view->size;
            return SCANNED_RECORD;
        case SCAN_PADDING:
            sc->at += bytes;
            want = sizeof(record_head);
            break;
        case SCAN_MORE:
            if (sc->at + bytes > sc->limit || bytes <= want) return hole(sc, false, 0);
            want = bytes;
            break;
        case SCAN_DAMAGED:
            return hole(sc, true, bytes);
        case SCAN_INVALID:
            return hole(sc, false, 0);
        }
    }
    sc->from = sc->to = MIN(sc->at, sc->limit);
    return SCANNED_END;
}
