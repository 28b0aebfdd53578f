// SPDX-License-Identifier: Apache-2.0
// device.h: one simulated device: what it says, how it reads, how it ends, and what it must see. The
// whole stream that it will write is made beforehand from the seed; for echo and ack the whole stream
// that may come back follows from it, so each byte is checked as it arrives. In publish mode frames are
// told apart as they arrive: acknowledgements must count without a gap, and messages of one publisher
// must come in order.
#ifndef SLUICE_TESTS_DEVICE_H
#define SLUICE_TESTS_DEVICE_H

#include "rig.h"

typedef enum device_end {
    END_FIN,        // says everything, shuts down, reads to the end
    END_CLOSE,      // closes at some point, whatever is unread
    END_RESET,      // resets at some point
    END_IDLE,       // says everything and waits to be closed
    END_PARTIAL,    // shuts down in the middle of a frame
    END_OVERSIZE,   // ends with a length above max_frame
    END_MUTE,       // never reads
    END_BAD_HELLO,  // publish mode: not a hello
    END_BAD_TOKEN,  // publish mode: wrong token
    END_STALL,      // begins a frame and says no more
    END_SILENT,     // says nothing at all
    DEVICE_ENDS
} device_end;

typedef struct device_plan {
    u32 listener;          // of the rig
    device_end end;
    u32 frames;
    u32 frame_bytes_max;
    u32 write_max, read_max; // bytes at a time
    u64 think_ns_max;      // between two actions
    bool waits;            // FIN only after all devices that do not wait have finished
    u64 start_ns;          // connects this long after now
    const char *id;        // publish mode; NULL = one of its own
    const struct sockaddr_storage *addr; // where it comes from; NULL = anywhere
} device_plan;

struct device {
    rig *rig;
    u32 number;            // index in the rig
    device_plan plan;
    frame_mode mode;
    sim_peer *peer;
    struct sockaddr_storage addr; // for plan.addr to point to
    char text[CONN_PEER_TEXT]; // its address as the gateway prints it
    u8 *out;               // the whole stream to be written
    size_t out_len, out_at, out_size;
    struct {               // of each frame: its end in out, and what came back by then
        size_t written, answered;
    } *due;
    u32 frames_planned, frames_due; // frames_due: whole in the pipe
    u64 progress_ns;       // last time something came back, or nothing was due
    size_t whole_len;      // of out: complete frames the gateway has to take
    size_t end_at;         // END_CLOSE, END_RESET: when so much was written
    u8 *expect;            // echo, ack: what may come back
    size_t expect_len, expect_size;
    size_t got, got_before; // bytes read; at the last action
    u32 waits_done;        // actions in a row without anything to do
    u64 next_ns;           // next action
    u64 connected_ns, last_write_ns, begun_ns, done_ns;
    bool done, shut, eof, reset, write_dead;
    close_reason reason;   // why the gateway closed it; CLOSE_NONE = not yet
    u64 closed_ns;
    // Publish mode.
    size_t *starts;        // where each published frame begins in out
    u32 published;         // frames planned, hello not counted
    u32 heartbeats, heartbeats_back;
    u32 acked;             // frames acknowledged; the hello's acknowledgement sets open
    bool open;
    u8 *in;                // incomplete frame
    size_t in_len, in_size;
    u32 seen_last[RIG_DEVICES_MAX];  // by publisher: last sequence number
    u32 seen_count[RIG_DEVICES_MAX]; // messages above seen_from
    u32 seen_from[RIG_DEVICES_MAX];  // messages above it must come
};

device *device_add(rig *r, const device_plan *plan);
void device_act(device *d);
// Lets go of the connection, if it is still there.
void device_leave(device *d);
void device_free(device *d);

// --- device_check.c ---
// Bytes that came from the gateway.
void device_check_bytes(device *d, const u8 *data, size_t len);
// Nothing came although it tried to read: may it be so? A gateway that forgot a connection is found here.
void device_check_progress(device *d);
// Everything is over: was it right?
void device_check_end(device *d);
// Over all devices: what was published, acknowledged and not delivered has to be counted as dropped.
void device_check_deliveries(rig *r);
// Payload of a published frame.
#define DEVICE_MESSAGE_MIN 16u
void device_message_make(u8 *out, u32 len, u32 publisher, u32 sequence);

#endif
