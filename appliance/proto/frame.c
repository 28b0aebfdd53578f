// SPDX-License-Identifier: Apache-2.0
// frame.c: frames: their size from the header, heartbeats, acknowledgements, and the modes echo and
// ack, which keep no state but a number. In the path of a byte: net/conn.c -> here (echo, ack) or
// frame_publish.c -> net/conn.c.
//
// Echo sends the range of the receive buffer the frame lies in: frames that came together leave as
// one range without a copy.
#include "proto/frame.h"

#include "net/listener.h"
#include "worker.h"

_Static_assert(FRAME_HEADER_BYTES <= LIMIT_PACKET_HEAD_BYTES, "a header fits in conn.head");
_Static_assert(LIMIT_PACKET_BYTES_MAX <= UINT32_MAX - FRAME_HEADER_BYTES, "a packet's size is u32");

int frame_packet_size(conn *c, const u8 *head, u32 len, u32 *packet_bytes) {
    *packet_bytes = 0;
    if (len < FRAME_HEADER_BYTES) return 0;
    u32 payload_len = frame_length_read(head);
    if (payload_len > listener_settings(c->origin)->max_frame) return CLOSE_FRAME_TOO_LARGE;
    *packet_bytes = FRAME_HEADER_BYTES + payload_len;
    return 0;
}

int frame_answer_heartbeat(conn *c, const u8 *data) {
    counter_add(&c->owner->metrics.heartbeats, 1);
    return conn_send_in_place(c, data, FRAME_HEADER_BYTES); // the answer is the same four bytes
}

int frame_send_ack(conn *c, u64 number) {
    u8 ack[FRAME_ACK_BYTES];
    frame_length_write(ack, FRAME_ACK_BYTES - FRAME_HEADER_BYTES);
    frame_length_write(ack + 4, (u32)(number >> 32));
    frame_length_write(ack + 8, (u32)number);
    return conn_send(c, ack, sizeof(ack));
}

static int echo_packet(conn *c, u8 *data, u32 len) {
    if (len == FRAME_HEADER_BYTES) return frame_answer_heartbeat(c, data);
    return conn_send_in_place(c, data, len);
}

static int ack_open(conn *c, bool moved) {
    (void)moved;
    c->frames_taken = 0;
    return 0;
}

static int ack_packet(conn *c, u8 *data, u32 len) {
    if (len == FRAME_HEADER_BYTES) return frame_answer_heartbeat(c, data);
    return frame_send_ack(c, ++c->frames_taken);
}

const proto proto_frame_echo = {
    .name = "frame-echo",
    .packet_size = frame_packet_size,
    .packet = echo_packet,
};

const proto proto_frame_ack = {
    .name = "frame-ack",
    .open = ack_open,
    .packet_size = frame_packet_size,
    .packet = ack_packet,
};
