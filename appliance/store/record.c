// SPDX-License-Identifier: Apache-2.0
// record.c: coding and telling apart. Everything read here may be damaged, old, or somebody else's: a record
// counts only when both checksums and its own position fit, which stale bytes of a reused file never do.
#include "store/record.h"

#include <string.h>

#include "store/crc32c.h"

#define SEGMENT_MAGIC 0x474f4c4543554c53ull // "SLUCELOG"
#define SEGMENT_VERSION 1u

static u32 crc_never_zero(u32 crc) {
    return crc == 0 ? UINT32_MAX : crc;
}

u32 record_seal(u8 *at, store_pos pos, u64 time_ms, store_kind kind, u32 flags, meta_type type, u32 payload) {
    record_head h = {
        .len = payload, .pos = pos, .time_ms = time_ms, .kind = (u8)kind, .flags = (u8)flags, .type = (u16)type};
    u32 size = record_size(payload);
    h.head_crc = crc32c(0, (const u8 *)&h + 4, 24);
    memcpy(at, &h, sizeof(h));
    memset(at + sizeof(h) + payload, 0, size - sizeof(h) - payload);
    h.crc = crc_never_zero(crc32c(0, at + 4, sizeof(h) - 4 + payload));
    memcpy(at, &h.crc, sizeof(h.crc));
    return size;
}

static bool head_fits(const u8 *at, store_pos pos, record_head *h) {
    memcpy(h, at, sizeof(*h));
    return h->pos == pos && h->head_crc == crc32c(0, at + 4, 24) && h->len <= RECORD_PAYLOAD_MAX &&
           h->kind > STORE_NONE && h->kind < STORE_KINDS && (h->flags & ~RECORD_FLAGS) == 0 && h->type < META_TYPES &&
           (h->kind == STORE_META) == (h->type != META_NONE) &&
           ((h->flags & RECORD_MOVED) == 0 || h->len >= sizeof(record_moved));
}

record_scan_result record_scan(const u8 *at, size_t available, store_pos pos, record_view *view, u32 *bytes) {
    record_head h;
    u32 into_sector = (u32)(pos & (SECTOR_BYTES - 1));
    *bytes = into_sector != 0 ? RECORD_ALIGN : (u32)sizeof(h);
    if (available < *bytes) return SCAN_MORE;
    u32 first;
    memcpy(&first, at, sizeof(first));
    if (first == 0 && into_sector != 0) {
        *bytes = SECTOR_BYTES - into_sector;
        return SCAN_PADDING;
    }
    *bytes = sizeof(h);
    if (available < sizeof(h)) return SCAN_MORE;
    if (!head_fits(at, pos, &h)) return SCAN_INVALID;
    u32 whole = (u32)sizeof(h) + h.len;
    *bytes = record_size(h.len);
    if (available < whole) return SCAN_MORE;
    if (h.crc != crc_never_zero(crc32c(0, at + 4, whole - 4))) return SCAN_DAMAGED;
    *view = (record_view){.type = (meta_type)h.type, .size = *bytes};
    view->record = (store_record){
        .pos = pos,
        .origin = pos,
        .time_ms = h.time_ms,
        .data = at + sizeof(h),
        .len = h.len,
        .flags = (h.flags & RECORD_KEEP) != 0 ? STORE_KEEP : 0,
        .kind = (store_kind)h.kind,
    };
    if ((h.flags & RECORD_MOVED) != 0) {
        record_moved moved;
        memcpy(&moved, view->record.data, sizeof(moved));
        view->record.origin = moved.origin;
        view->record.data += sizeof(moved);
        view->record.len -= (u32)sizeof(moved);
        view->from = moved.from;
    }
    return SCAN_RECORD;
}

size_t record_resync(const u8 *at, size_t available, store_pos pos) {
    size_t skip = (size_t)(align_up_u64(pos, RECORD_ALIGN) - pos);
    for (; skip + sizeof(record_head) <= available; skip += RECORD_ALIGN) {
        u64 claimed;
        record_head h;
        memcpy(&claimed, at + skip + offsetof(record_head, pos), sizeof(claimed));
        if (claimed == pos + skip && head_fits(at + skip, pos + skip, &h)) return skip;
    }
    return available;
}

void segment_head_seal(segment_head *h) {
    h->magic = SEGMENT_MAGIC;
    h->version = SEGMENT_VERSION;
    h->crc = crc32c(0, h, offsetof(segment_head, crc));
}

segment_head_state segment_head_check(const u8 *bytes, size_t available, segment_head *out) {
    static const segment_head zeros;
    if (available < sizeof(*out)) return available == 0 ? HEAD_EMPTY : HEAD_DAMAGED;
    memcpy(out, bytes, sizeof(*out));
    if (memcmp(out, &zeros, sizeof(zeros)) == 0) return HEAD_EMPTY;
    bool good = out->magic == SEGMENT_MAGIC && out->version == SEGMENT_VERSION &&
                out->crc == crc32c(0, out, offsetof(segment_head, crc));
    if (!good) return HEAD_DAMAGED;
    if (out->state == SEGMENT_FREE) return HEAD_FREE;
    bool sane = out->state == SEGMENT_LIVE && out->bytes >= SEGMENT_UNIT_BYTES &&
                out->bytes <= 2ull * LIMIT_STORE_SEGMENT_BYTES && out->bytes % SEGMENT_UNIT_BYTES == 0 &&
                out->base % SEGMENT_UNIT_BYTES == 0;
    return sane ? HEAD_LIVE : HEAD_DAMAGED;
}

store_pos segment_base_guess(const u8 *bytes, size_t available, u64 offset) {
    for (size_t at = 0; at + sizeof(record_head) <= available; at += RECORD_ALIGN) {
        record_head h;
        u64 claimed;
        memcpy(&claimed, bytes + at + offsetof(record_head, pos), sizeof(claimed));
        if (claimed <= offset + at || (claimed - offset - at) % SEGMENT_UNIT_BYTES != 0) continue;
        if (head_fits(bytes + at, claimed, &h)) return claimed - offset - at;
    }
    return 0;
}
