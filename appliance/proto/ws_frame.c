// SPDX-License-Identifier: Apache-2.0
// ws_frame.c: see ws_frame.h. A header is gathered byte by byte only when it comes in part; the usual frame
// is read from where it lies.
//
// Invariants: nothing is read or written outside of the bytes given; every call uses at least one byte or
// says WS_MORE, except that the end of an empty frame may use only the header's.
#include "proto/ws_frame.h"

#include <string.h>

#include "base/cursor.h"
#include "broker/topic.h"

#define BIT_FINAL 0x80u
#define BITS_RESERVED 0x70u
#define BIT_MASK 0x80u

typedef struct head {
    u64 payload_bytes;
    u8 opcode;
    bool final;
    u8 mask[4];
} head;

static bool is_control(u8 opcode) {
    return (opcode & 8u) != 0;
}

// Bytes of the header that begins with these two.
static u32 head_bytes(u8 second) {
    u8 length = second & 0x7fu;
    return 2u + (length == 126 ? 2u : length == 127 ? 8u : 0u) + 4u;
}

// What the first two bytes show already, so that nothing more is waited for.
static ws_fault start_check(const ws_reader *r, u8 first, u8 second) {
    u8 opcode = first & 15u;
    bool final = (first & BIT_FINAL) != 0;
    if ((first & BITS_RESERVED) != 0) return WS_FAULT_RESERVED_BITS;
    if (opcode > WS_PONG || (opcode > WS_BINARY && opcode < WS_CLOSE)) return WS_FAULT_OPCODE;
    if ((second & BIT_MASK) == 0) return WS_FAULT_NOT_MASKED;
    if (is_control(opcode)) {
        if (!final) return WS_FAULT_CONTROL_PARTS;
        return (second & 0x7fu) > WS_CONTROL_BYTES_MAX ? WS_FAULT_CONTROL_LONG : WS_FAULT_NONE;
    }
    if (opcode == WS_CONTINUATION) return r->in_message ? WS_FAULT_NONE : WS_FAULT_NO_MESSAGE;
    if (r->in_message) return WS_FAULT_IN_MESSAGE;
    return opcode == WS_TEXT ? WS_FAULT_TEXT : WS_FAULT_NONE;
}

// A whole header.
static ws_fault head_parse(const u8 *bytes, u32 len, u64 payload_max, head *out) {
    cursor in = cursor_of(bytes, len);
    u8 first = cursor_u8(&in), length = cursor_u8(&in) & 0x7fu;
    out->opcode = first & 15u;
    out->final = (first & BIT_FINAL) != 0;
    out->payload_bytes = length;
    if (length == 126) {
        out->payload_bytes = cursor_u16(&in);
        if (out->payload_bytes < 126) return WS_FAULT_LENGTH;
    } else if (length == 127) {
        u64 high = cursor_u32(&in);
        out->payload_bytes = high << 32 | cursor_u32(&in);
        if (high >> 31 != 0 || out->payload_bytes < 65536) return WS_FAULT_LENGTH;
    }
    const u8 *mask = cursor_take(&in, sizeof(out->mask));
    ASSERT(mask != NULL);
    memcpy(out->mask, mask, sizeof(out->mask));
    return out->payload_bytes > payload_max ? WS_FAULT_TOO_LARGE : WS_FAULT_NONE;
}

static void frame_begin(ws_reader *r, const head *h) {
    r->left = h->payload_bytes;
    memcpy(r->mask, h->mask, sizeof(r->mask));
    r->opcode = h->opcode;
    r->final = h->final;
    r->in_frame = true;
    if (!is_control(h->opcode)) r->in_message = true;
}

// Takes a header. Returns 1 when it is complete, 0 when bytes are missing, -1 with out->fault.
static int head_take(ws_reader *r, u64 payload_max, const u8 *data, u32 len, u32 *used, ws_piece *out) {
    const u8 *bytes = data;
    u32 have = len, need = 2;
    if (r->head_len > 0) { // the rest of one that began before
        u32 take = MIN(len, WS_HEAD_BYTES_MAX - r->head_len);
        memcpy(r->head + r->head_len, data, take);
        bytes = r->head;
        have = r->head_len + take;
    }
    if (have >= 2) {
        out->fault = start_check(r, bytes[0], bytes[1]);
        if (out->fault != WS_FAULT_NONE) return -1;
        need = head_bytes(bytes[1]);
    }
    if (have < need) {
        if (r->head_len == 0) memcpy(r->head, data, len);
        r->head_len = (u8)have;
        *used = len;
        return 0;
    }
    head h;
    out->fault = head_parse(bytes, need, payload_max, &h);
    if (out->fault != WS_FAULT_NONE) return -1;
    *used = need - r->head_len;
    r->head_len = 0;
    frame_begin(r, &h);
    return 1;
}

void ws_mask(u8 mask[4], u8 *data, u32 len) {
    u32 word;
    u64 wide;
    memcpy(&word, mask, sizeof(word));
    wide = (u64)word << 32 | word;
    u32 at = 0;
    for (; at + 8 <= len; at += 8) {
        u64 bytes;
        memcpy(&bytes, data + at, sizeof(bytes));
        bytes ^= wide;
        memcpy(data + at, &bytes, sizeof(bytes));
    }
    for (u32 i = at; i < len; i++) data[i] ^= mask[i & 3u];
    u8 turned[4];
    for (u32 i = 0; i < 4; i++) turned[i] = mask[(len + i) & 3u];
    memcpy(mask, turned, sizeof(turned));
}

ws_event ws_read(ws_reader *r, u64 frame_bytes_max, u8 *data, u32 len, u32 *used, ws_piece *out) {
    *out = (ws_piece){0};
    *used = 0;
    if (!r->in_frame) {
        if (len == 0) return WS_MORE;
        int got = head_take(r, frame_bytes_max, data, len, used, out);
        if (got <= 0) return got < 0 ? WS_FAULT : WS_MORE;
    }
    u32 take = (u32)MIN(r->left, (u64)(len - *used));
    if (take == 0 && r->left > 0) return WS_MORE;
    ws_mask(r->mask, data + *used, take);
    r->left -= take;
    out->data = data + *used;
    out->len = take;
    out->opcode = r->opcode;
    out->ends = r->left == 0;
    *used += take;
    if (out->ends) {
        r->in_frame = false;
        if (!is_control(r->opcode) && r->final) r->in_message = false;
    }
    return is_control(r->opcode) ? WS_CONTROL : WS_DATA;
}

// Section 7.4: what may stand in a close frame. 1004 to 1006 and 1015 are never sent.
static bool code_is_valid(u16 code) {
    if (code >= 3000) return code <= 4999;
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014);
}

ws_fault ws_close_check(const u8 *payload, u32 len, u16 *code) {
    *code = WS_CODE_NORMAL;
    if (len == 0) return WS_FAULT_NONE;
    if (len == 1) return WS_FAULT_CLOSE_BYTES;
    *code = (u16)(payload[0] << 8 | payload[1]);
    if (!code_is_valid(*code)) return WS_FAULT_CLOSE_CODE;
    return utf8_is_valid((const char *)payload + 2, len - 2) ? WS_FAULT_NONE : WS_FAULT_CLOSE_TEXT;
}

u32 ws_head_write(u8 out[WS_OUT_HEAD_BYTES_MAX], ws_opcode opcode, u64 payload_bytes) {
    u32 len = ws_head_bytes(payload_bytes), counted = len - 2;
    out[0] = (u8)(BIT_FINAL | opcode);
    out[1] = (u8)(counted == 0 ? payload_bytes : counted == 2 ? 126 : 127);
    for (u32 i = 0; i < counted; i++) out[2 + i] = (u8)(payload_bytes >> 8 * (counted - 1 - i));
    return len;
}

static const struct {
    u16 code;
    const char *text;
} faults[WS_FAULTS] = {
    [WS_FAULT_NONE] = {WS_CODE_NORMAL, "none"},
    [WS_FAULT_RESERVED_BITS] = {WS_CODE_PROTOCOL_ERROR, "a reserved bit is set and no extension was agreed on"},
    [WS_FAULT_OPCODE] = {WS_CODE_PROTOCOL_ERROR, "a reserved opcode"},
    [WS_FAULT_NOT_MASKED] = {WS_CODE_PROTOCOL_ERROR, "a frame that is not masked"},
    [WS_FAULT_LENGTH] = {WS_CODE_PROTOCOL_ERROR, "a length that is not in its shortest form"},
    [WS_FAULT_CONTROL_LONG] = {WS_CODE_PROTOCOL_ERROR, "a control frame of more than 125 bytes"},
    [WS_FAULT_CONTROL_PARTS] = {WS_CODE_PROTOCOL_ERROR, "a control frame in fragments"},
    [WS_FAULT_NO_MESSAGE] = {WS_CODE_PROTOCOL_ERROR, "a continuation without a message"},
    [WS_FAULT_IN_MESSAGE] = {WS_CODE_PROTOCOL_ERROR, "a message begins within another"},
    [WS_FAULT_TEXT] = {WS_CODE_UNSUPPORTED, "a text frame: MQTT is sent in binary frames"},
    [WS_FAULT_TOO_LARGE] = {WS_CODE_TOO_BIG, "a frame over ws_max_frame"},
    [WS_FAULT_CLOSE_BYTES] = {WS_CODE_PROTOCOL_ERROR, "a close frame with half a code"},
    [WS_FAULT_CLOSE_CODE] = {WS_CODE_PROTOCOL_ERROR, "a close frame with a code that is not to be sent"},
    [WS_FAULT_CLOSE_TEXT] = {WS_CODE_NOT_UTF8, "a close frame whose reason is not UTF-8"},
};

u16 ws_fault_code(ws_fault fault) {
    return fault < WS_FAULTS ? faults[fault].code : WS_CODE_PROTOCOL_ERROR;
}

const char *ws_fault_text(ws_fault fault) {
    return fault < WS_FAULTS ? faults[fault].text : "unknown";
}
