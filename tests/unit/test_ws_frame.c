// SPDX-License-Identifier: Apache-2.0
// test_ws_frame.c: WebSocket frames: whole, split at every byte, several in one piece, and each thing that RFC 6455
// forbids.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/ws_frame.h"

#define MAX_FRAME (1u << 20)

static const u8 mask[4] = {0x37, 0xfa, 0x21, 0x3d};

// A client's frame, with the length in the form asked for: 0 shortest, 2 or 8 bytes.
static u32 frame_put(u8 *out, u8 first, const void *payload, u64 len, u32 form) {
    u32 at = 0;
    if (form == 0) form = len < 126 ? 1 : len < 65536 ? 2 : 8;
    out[at++] = first;
    out[at++] = (u8)(0x80 | (form == 1 ? len : form == 2 ? 126 : 127));
    for (u32 i = 0; form > 1 && i < form; i++) out[at++] = (u8)(len >> 8 * (form - 1 - i));
    memcpy(out + at, mask, 4);
    at += 4;
    for (u64 i = 0; payload != NULL && i < len; i++) out[at++] = ((const u8 *)payload)[i] ^ mask[i & 3];
    return at;
}

typedef struct seen {
    u8 data[1 << 17];
    u32 len;
    u32 data_frames, controls;
    u8 last_control, control[128];
    u32 control_len, control_so_far;
    ws_fault fault;
} seen;

// Reads everything, in pieces of step bytes that lie in memory of exactly their size.
static void read_all(ws_reader *r, const u8 *bytes, u32 len, u32 step, seen *out) {
    for (u32 at = 0; at < len && out->fault == WS_FAULT_NONE;) {
        u32 take = MIN(step, len - at), done = 0;
        u8 *copy = malloc(take);
        assert_non_null(copy);
        memcpy(copy, bytes + at, take);
        for (;;) {
            u32 used;
            ws_piece piece;
            ws_event event = ws_read(r, MAX_FRAME, copy + done, take - done, &used, &piece);
            assert_true(used <= take - done);
            done += used;
            if (event == WS_MORE || event == WS_FAULT) {
                out->fault = piece.fault;
                if (event == WS_MORE) assert_int_equal(done, take);
                break;
            }
            if (event == WS_DATA) {
                memcpy(out->data + out->len, piece.data, piece.len);
                out->len += piece.len;
                if (piece.ends) out->data_frames++;
            } else {
                memcpy(out->control + out->control_so_far, piece.data, piece.len);
                out->control_so_far += piece.len;
                if (!piece.ends) continue;
                out->controls++;
                out->last_control = piece.opcode;
                out->control_len = out->control_so_far;
                out->control_so_far = 0;
            }
        }
        at += take;
        free(copy);
    }
}

static seen result;

static const seen *read_by(const u8 *bytes, u32 len, u32 step) {
    ws_reader r = {0};
    memset(&result, 0, sizeof(result));
    read_all(&r, bytes, len, step, &result);
    return &result;
}

static void test_split_at_every_byte(void **state) {
    (void)state;
    static u8 bytes[1 << 12], payload[600];
    u32 len = 0;
    for (u32 i = 0; i < sizeof(payload); i++) payload[i] = (u8)(i * 7);
    len += frame_put(bytes + len, 0x82, payload, 5, 0);
    len += frame_put(bytes + len, 0x89, "ping", 4, 0);
    len += frame_put(bytes + len, 0x02, payload + 5, 300, 0); // fragmented, a ping in between
    len += frame_put(bytes + len, 0x8a, NULL, 0, 0);
    len += frame_put(bytes + len, 0x00, payload + 305, 0, 0);
    len += frame_put(bytes + len, 0x80, payload + 305, 295, 0);
    len += frame_put(bytes + len, 0x88, "\x03\xe8", 2, 0);
    for (u32 step = 1; step <= len; step++) {
        const seen *s = read_by(bytes, len, step);
        assert_int_equal(s->fault, WS_FAULT_NONE);
        assert_int_equal(s->len, sizeof(payload));
        assert_memory_equal(s->data, payload, sizeof(payload));
        assert_int_equal(s->controls, 3);
        assert_int_equal(s->last_control, WS_CLOSE);
        assert_int_equal(s->control_len, 2);
    }
}

static void test_empty_binary_message(void **state) {
    (void)state;
    u8 bytes[32];
    u32 len = frame_put(bytes, 0x82, NULL, 0, 0);
    len += frame_put(bytes + len, 0x82, "x", 1, 0);
    for (u32 step = 1; step <= len; step++) {
        const seen *s = read_by(bytes, len, step);
        assert_int_equal(s->fault, WS_FAULT_NONE);
        assert_int_equal(s->data_frames, 2);
        assert_int_equal(s->len, 1);
    }
}

static void test_long_frames(void **state) {
    (void)state;
    static u8 payload[70000], bytes[70100];
    for (u32 i = 0; i < sizeof(payload); i++) payload[i] = (u8)(i >> 3);
    static const u32 sizes[] = {0, 1, 124, 125, 126, 127, 65535, 65536, 70000};
    for (u32 i = 0; i < ARRAY_LEN(sizes); i++) {
        u32 len = frame_put(bytes, 0x82, payload, sizes[i], 0);
        for (u32 step = 4093; step <= len + 4093; step += 30000) {
            const seen *s = read_by(bytes, len, step);
            assert_int_equal(s->fault, WS_FAULT_NONE);
            assert_int_equal(s->len, sizes[i]);
            assert_memory_equal(s->data, payload, sizes[i]);
        }
    }
}

static void expect_fault(const u8 *bytes, u32 len, ws_fault fault) {
    for (u32 step = 1; step <= len; step++) {
        if (read_by(bytes, len, step)->fault != fault) {
            fail_msg("step %u: %s, expected %s", step, ws_fault_text(result.fault), ws_fault_text(fault));
        }
    }
}

static void test_faults(void **state) {
    (void)state;
    u8 b[300], long_ping[126] = {0};
    for (u32 bit = 0x10; bit <= 0x40; bit <<= 1) {
        expect_fault(b, frame_put(b, (u8)(0x82 | bit), "x", 1, 0), WS_FAULT_RESERVED_BITS);
    }
    for (u8 opcode = 3; opcode < 16; opcode++) {
        if (opcode >= 8 && opcode <= 10) continue;
        expect_fault(b, frame_put(b, (u8)(0x80 | opcode), NULL, 0, 0), WS_FAULT_OPCODE);
    }
    expect_fault((const u8 *)"\x82\x01x", 3, WS_FAULT_NOT_MASKED);
    expect_fault((const u8 *)"\x89\x00", 2, WS_FAULT_NOT_MASKED);
    expect_fault(b, frame_put(b, 0x81, "text", 4, 0), WS_FAULT_TEXT);
    expect_fault(b, frame_put(b, 0x01, "te", 2, 0), WS_FAULT_TEXT);
    expect_fault(b, frame_put(b, 0x80, "x", 1, 0), WS_FAULT_NO_MESSAGE);
    expect_fault(b, frame_put(b, 0x09, "x", 1, 0), WS_FAULT_CONTROL_PARTS);
    expect_fault(b, frame_put(b, 0x08, NULL, 0, 0), WS_FAULT_CONTROL_PARTS);
    expect_fault(b, frame_put(b, 0x89, long_ping, 126, 0), WS_FAULT_CONTROL_LONG);
    expect_fault(b, frame_put(b, 0x88, NULL, 1u << 20, 8), WS_FAULT_CONTROL_LONG);
    expect_fault(b, frame_put(b, 0x82, "x", 1, 2), WS_FAULT_LENGTH);
    expect_fault(b, frame_put(b, 0x82, long_ping, 125, 2), WS_FAULT_LENGTH);
    expect_fault(b, frame_put(b, 0x82, NULL, 65535, 8), WS_FAULT_LENGTH);
    expect_fault(b, frame_put(b, 0x82, NULL, 1ull << 63, 8), WS_FAULT_LENGTH);
    expect_fault(b, frame_put(b, 0x82, NULL, MAX_FRAME + 1, 8), WS_FAULT_TOO_LARGE);
    expect_fault(b, frame_put(b, 0x82, NULL, (1ull << 63) - 1, 8), WS_FAULT_TOO_LARGE);
    u32 len = frame_put(b, 0x02, "x", 1, 0);
    expect_fault(b, len + frame_put(b + len, 0x82, "y", 1, 0), WS_FAULT_IN_MESSAGE);
    len = frame_put(b, 0x02, "x", 1, 0);
    len += frame_put(b + len, 0x80, "x", 1, 0);
    expect_fault(b, len + frame_put(b + len, 0x80, "y", 1, 0), WS_FAULT_NO_MESSAGE);
}

static void test_a_frame_of_the_largest_size(void **state) {
    (void)state;
    u8 b[16];
    u32 len = frame_put(b, 0x82, NULL, MAX_FRAME, 8);
    assert_int_equal(read_by(b, len, len)->fault, WS_FAULT_NONE);
}

static void test_close(void **state) {
    (void)state;
    u16 code;
    assert_int_equal(ws_close_check(NULL, 0, &code), WS_FAULT_NONE);
    assert_int_equal(code, 1000);
    assert_int_equal(ws_close_check((const u8 *)"\x03", 1, &code), WS_FAULT_CLOSE_BYTES);
    static const u16 good[] = {1000, 1001, 1002, 1003, 1007, 1011, 1014, 3000, 3999, 4000, 4999};
    static const u16 bad[] = {0, 999, 1004, 1005, 1006, 1015, 1016, 2000, 2999, 5000, 65535};
    for (u32 i = 0; i < ARRAY_LEN(good); i++) {
        u8 payload[] = {(u8)(good[i] >> 8), (u8)good[i], 0xc3, 0xa4};
        assert_int_equal(ws_close_check(payload, 4, &code), WS_FAULT_NONE);
        assert_int_equal(code, good[i]);
        assert_int_equal(ws_close_check(payload, 3, &code), WS_FAULT_CLOSE_TEXT);
    }
    for (u32 i = 0; i < ARRAY_LEN(bad); i++) {
        u8 payload[] = {(u8)(bad[i] >> 8), (u8)bad[i]};
        assert_int_equal(ws_close_check(payload, 2, &code), WS_FAULT_CLOSE_CODE);
    }
}

static void test_head_written(void **state) {
    (void)state;
    static const struct {
        u64 len;
        u32 bytes;
        u8 head[10];
    } rows[] = {
        {0, 2, {0x82, 0}},
        {125, 2, {0x82, 125}},
        {126, 4, {0x82, 126, 0, 126}},
        {65535, 4, {0x82, 126, 0xff, 0xff}},
        {65536, 10, {0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0}},
    };
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        u8 out[WS_OUT_HEAD_BYTES_MAX];
        assert_int_equal(ws_head_write(out, WS_BINARY, rows[i].len), rows[i].bytes);
        assert_int_equal(ws_head_bytes(rows[i].len), rows[i].bytes);
        assert_memory_equal(out, rows[i].head, rows[i].bytes);
    }
}

static void test_every_fault_has_a_code_and_a_text(void **state) {
    (void)state;
    for (u32 fault = 1; fault < WS_FAULTS; fault++) {
        assert_true(ws_fault_code((ws_fault)fault) > 1000);
        assert_true(strlen(ws_fault_text((ws_fault)fault)) > 5);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_at_every_byte),
        cmocka_unit_test(test_empty_binary_message),
        cmocka_unit_test(test_long_frames),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_a_frame_of_the_largest_size),
        cmocka_unit_test(test_close),
        cmocka_unit_test(test_head_written),
        cmocka_unit_test(test_every_fault_has_a_code_and_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
