// SPDX-License-Identifier: Apache-2.0
// wire.c: frames of the load generator and the check of replies. The filler is a window into one
// table of random bytes, chosen by sequence number and connection id: building is one memcpy and
// checking one memcmp, so a generator that checks every byte costs little more than one that checks
// none.
//
// Invariant: wire_rx_feed never reads outside data[0..len) and keeps at most the 16 head bytes.
#include "bench/wire.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bench/bench_limits.h"
#include "bench/schedule.h"

#define FILLER_WINDOW 64u
#define FILLER_BYTES (BENCH_FRAME_BYTES_MAX + FILLER_WINDOW)

static u8 filler[FILLER_BYTES];

void wire_init(void) {
    u64 state = 0x51ce;
    for (u32 i = 0; i < FILLER_BYTES; i += 8) {
        u64 word = random_next(&state);
        memcpy(filler + i, &word, MIN(8u, FILLER_BYTES - i));
    }
}

static const u8 *filler_of(u64 sequence, u32 conn_id) {
    return filler + ((sequence * 7 + conn_id * 13u) & (FILLER_WINDOW - 1));
}

static void put_u32(u8 *out, u32 value) {
    u32 big = htobe32(value);
    memcpy(out, &big, sizeof(big));
}

static void put_u64(u8 *out, u64 value) {
    u64 big = htobe64(value);
    memcpy(out, &big, sizeof(big));
}

static u32 get_u32(const u8 *in) {
    u32 big;
    memcpy(&big, in, sizeof(big));
    return be32toh(big);
}

static u64 get_u64(const u8 *in) {
    u64 big;
    memcpy(&big, in, sizeof(big));
    return be64toh(big);
}

void wire_build(u8 *out, u32 frame_bytes, u64 sequence, u32 conn_id) {
    ASSERT(frame_bytes >= WIRE_HEAD_BYTES && frame_bytes <= BENCH_FRAME_BYTES_MAX);
    put_u32(out, frame_bytes - WIRE_LENGTH_BYTES);
    put_u64(out + 4, sequence);
    put_u32(out + 12, conn_id);
    memcpy(out + WIRE_HEAD_BYTES, filler_of(sequence, conn_id), frame_bytes - WIRE_HEAD_BYTES);
}

void wire_build_heartbeat(u8 *out) {
    put_u32(out, 0);
}

// Appends text as the inside of a JSON string (RFC 8259 section 7). Returns the new end, or 0 if
// full.
static size_t json_text_append(u8 *out, size_t at, size_t bytes, const char *text) {
    for (const unsigned char *p = (const unsigned char *)text; *p != 0; p++) {
        char piece[8];
        int n = *p == '"' || *p == '\\' ? snprintf(piece, sizeof(piece), "\\%c", *p)
                : *p < 0x20             ? snprintf(piece, sizeof(piece), "\\u%04x", *p)
                                        : snprintf(piece, sizeof(piece), "%c", *p);
        if (at + (size_t)n > bytes) return 0;
        memcpy(out + at, piece, (size_t)n);
        at += (size_t)n;
    }
    return at;
}

int wire_build_hello(u8 *out, size_t out_bytes, const char *prefix, u32 number, const char *token) {
    char digits[12];
    snprintf(digits, sizeof(digits), "%u", number);
    const char *const parts[] = {"{\"id\":\"", prefix, digits, "\",\"token\":\"", token, "\"}"};
    const bool is_text[] = {false, true, false, false, true, false};
    size_t at = WIRE_LENGTH_BYTES;
    for (u32 i = 0; i < ARRAY_LEN(parts); i++) {
        if (is_text[i]) {
            at = json_text_append(out, at, out_bytes, parts[i]);
            if (at == 0) return -ENOSPC;
            continue;
        }
        size_t n = strlen(parts[i]);
        if (at + n > out_bytes) return -ENOSPC;
        memcpy(out + at, parts[i], n);
        at += n;
    }
    put_u32(out, (u32)at - WIRE_LENGTH_BYTES);
    return (int)at;
}

// Takes what is missing of the head (the length first: the rest depends on it).
static size_t head_take(wire_rx *rx, u32 upto, const u8 *data, size_t len) {
    if (rx->have >= upto) return 0;
    size_t n = MIN((size_t)(upto - rx->have), len);
    memcpy(rx->head + rx->have, data, n);
    rx->have += (u32)n;
    return n;
}

static void event_of_frame(wire_rx *rx, wire_mode mode, wire_event *event) {
    u32 total = rx->total;
    if (mode == WIRE_ECHO && total >= BENCH_FRAME_BYTES_MIN) {
        event->kind = WIRE_REPLY;
        event->number = get_u64(rx->head + 4);
        event->conn_id = get_u32(rx->head + 12);
        event->intact = !rx->differs;
    } else if (mode != WIRE_ECHO && total == WIRE_ACK_BYTES) {
        event->kind = WIRE_REPLY;
        event->number = get_u64(rx->head + 4);
        event->intact = true;
    } else {
        event->kind = WIRE_OTHER;
    }
    rx->have = rx->total = 0;
    rx->differs = false;
}

size_t wire_rx_feed(wire_rx *rx, wire_mode mode, const u8 *data, size_t len, wire_event *event) {
    *event = (wire_event){.kind = WIRE_MORE};
    size_t used = head_take(rx, WIRE_LENGTH_BYTES, data, len);
    if (rx->have < WIRE_LENGTH_BYTES) return used;
    if (rx->total == 0) {
        u32 payload = get_u32(rx->head);
        if (payload == 0) {
            rx->have = 0;
            event->kind = WIRE_HEARTBEAT;
            return used;
        }
        if (payload > BENCH_FRAME_BYTES_MAX) {
            event->kind = WIRE_OVERSIZE;
            return used;
        }
        rx->total = payload + WIRE_LENGTH_BYTES;
    }
    used += head_take(rx, MIN(rx->total, WIRE_HEAD_BYTES), data + used, len - used);
    if (rx->have >= WIRE_HEAD_BYTES && rx->have < rx->total && used < len) {
        size_t n = MIN((size_t)(rx->total - rx->have), len - used);
        if (mode == WIRE_ECHO) {
            const u8 *expected = filler_of(get_u64(rx->head + 4), get_u32(rx->head + 12));
            rx->differs |= memcmp(data + used, expected + rx->have - WIRE_HEAD_BYTES, n) != 0;
        }
        rx->have += (u32)n;
        used += n;
    }
    if (rx->have == rx->total) event_of_frame(rx, mode, event);
    return used;
}
