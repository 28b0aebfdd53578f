// SPDX-License-Identifier: Apache-2.0
// fuzz_ws.c: WebSocket with bytes of any client, cut into pieces as the input says: first the handshake's request, then
// frames. The first byte chooses: bit 0 frames without a handshake, the others seed the cuts (0 = not cut).
//
// Checked: no byte is used twice or lost; the same bytes give the same payload and the same fault however they
// are cut; an answer fits its buffer.
#include <stdlib.h>
#include <string.h>

#include "proto/ws_frame.h"
#include "proto/ws_handshake.h"

#define FRAME_MAX 4096u

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

typedef struct outcome {
    u64 hash;
    u64 bytes;
    u32 controls;
    ws_fault fault;
} outcome;

static void mix(outcome *o, const u8 *data, u32 len) {
    for (u32 i = 0; i < len; i++) o->hash = (o->hash ^ data[i]) * 1099511628211ull;
    o->bytes += len;
}

static void piece_take(outcome *o, ws_event event, const ws_piece *piece) {
    mix(o, piece->data, piece->len);
    if (event != WS_CONTROL || !piece->ends) return;
    o->controls++;
    mix(o, &piece->opcode, 1);
}

static outcome frames_read(const u8 *data, size_t size, u32 seed, bool cut) {
    outcome o = {0};
    ws_reader r = {0};
    for (size_t at = 0; at < size && o.fault == WS_FAULT_NONE;) {
        seed = seed * 1103515245 + 12345;
        u32 take = (u32)MIN(size - at, cut ? 1 + (seed >> 16) % 20 : size);
        u8 *copy = malloc(take); // of exactly this size: a read beyond it is seen
        if (copy == NULL) break;
        memcpy(copy, data + at, take);
        for (u32 done = 0;;) {
            u32 used;
            ws_piece piece;
            ws_event event = ws_read(&r, FRAME_MAX, copy + done, take - done, &used, &piece);
            ASSERT(used <= take - done);
            done += used;
            if (event == WS_FAULT) {
                ASSERT(piece.fault != WS_FAULT_NONE && ws_fault_code(piece.fault) >= 1002);
                o.fault = piece.fault;
                break;
            }
            if (event == WS_MORE) {
                ASSERT(done == take);
                break;
            }
            ASSERT(piece.len <= FRAME_MAX && (piece.len > 0 || piece.ends));
            u16 code;
            if (piece.opcode == WS_CLOSE && piece.ends) (void)ws_close_check(piece.data, piece.len, &code);
            piece_take(&o, event, &piece);
        }
        free(copy);
        at += take;
    }
    return o;
}

// Returns the bytes that belong to the request when it was accepted, else size.
static size_t handshake_run(const u8 *data, size_t size, u32 seed) {
    static const ws_policy policy = {.path = "/mqtt", .origins = "https://app.example\n"};
    ws_handshake h;
    ws_handshake_init(&h, &policy);
    for (size_t at = 0; at < size;) {
        seed = seed * 1103515245 + 12345;
        u32 used, take = (u32)MIN(size - at, seed == 12345 ? size : 1 + (seed >> 16) % 90);
        u8 *copy = malloc(take);
        if (copy == NULL) return size;
        memcpy(copy, data + at, take);
        ws_progress progress = ws_handshake_feed(&h, copy, take, &used);
        free(copy);
        ASSERT(used <= take);
        at += used;
        if (progress == WS_NEED_MORE) {
            ASSERT(used == take);
            continue;
        }
        char answer[WS_ANSWER_BYTES];
        ASSERT(ws_handshake_answer(&h, answer) < sizeof(answer));
        if (progress == WS_REFUSED) {
            ASSERT(h.status >= 400 && h.status < 600 && h.why != NULL);
            return size;
        }
        ASSERT(h.status == 0 && strlen(h.key) == 24 && h.subprotocol != NULL);
        return at;
    }
    return size;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
    if (size == 0) return 0;
    u32 seed = data[0] >> 1;
    size_t at = 1;
    if ((data[0] & 1) == 0) at += handshake_run(data + 1, size - 1, seed);
    outcome whole = frames_read(data + at, size - at, 0, false);
    outcome parts = frames_read(data + at, size - at, seed, true);
    ASSERT(whole.fault == parts.fault && whole.bytes == parts.bytes && whole.hash == parts.hash);
    ASSERT(whole.controls == parts.controls);
    return 0;
}
