// SPDX-License-Identifier: Apache-2.0
// fuzz_store_record.c: what a start reads from a disk that may hold anything: heads of segments, records, and
// the search for the next good one. Nothing is read beyond the bytes, every walk ends, and what counts as a
// record lies within them.
#include <stdlib.h>
#include <string.h>

#include "store/record.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

static void walk(const u8 *bytes, size_t size, store_pos base) {
    size_t at = 0;
    while (at < size) {
        record_view view;
        u32 need = 0;
        switch (record_scan(bytes + at, size - at, base + at, &view, &need)) {
        case SCAN_RECORD:
            ASSERT(view.size >= sizeof(record_head) && view.record.data + view.record.len <= bytes + size);
            at += view.size;
            break;
        case SCAN_PADDING:
        case SCAN_DAMAGED:
            ASSERT(need > 0);
            at += need;
            break;
        case SCAN_MORE:
            ASSERT(need > size - at);
            return;
        case SCAN_INVALID:
            at += RECORD_ALIGN;
            if (at < size) at += record_resync(bytes + at, size - at, base + at);
            break;
        }
    }
}

// Makes the bytes a good record here and there, so that the walk gets further than the first checksum.
static void seal_some(u8 *bytes, size_t size, store_pos base) {
    for (size_t at = 0; at + 256 < size;) {
        u32 payload = bytes[at];
        if (bytes[at + 1] % 3 != 0) {
            at += RECORD_ALIGN * (1u + bytes[at + 1] % 16);
            continue;
        }
        u32 flags = payload >= sizeof(record_moved) ? bytes[at + 2] & RECORD_FLAGS : 0;
        if (at + sizeof(record_head) + payload + RECORD_ALIGN > size) return;
        at += record_seal(bytes + at, base + at, bytes[at + 3], STORE_MESSAGE, flags, META_NONE, payload);
        if (at < size && bytes[at] % 5 == 0) bytes[at - 1] ^= 1;
    }
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
    segment_head head;
    store_pos base = 5ull << 20;
    if (size > 1u << 16) return 0;
    (void)segment_head_check(data, size, &head);
    (void)segment_base_guess(data, size, 0);
    u8 *bytes = malloc(size > 0 ? size : 1); // of exactly this size, for what is read beyond
    if (bytes == NULL) return 0;
    if (size > 0) memcpy(bytes, data, size);
    walk(bytes, size, base);
    seal_some(bytes, size, base);
    walk(bytes, size, base);
    (void)segment_base_guess(bytes, size, 4096);
    free(bytes);
    return 0;
}
