// SPDX-License-Identifier: Apache-2.0
// fuzz_frame.c: a few framed connections of all modes on several workers, driven by the input as a
// program: bytes in pieces, hellos, readers that stop, full rings, memory that is short, closes.
//
// Checked all the time: what goes out is whole frames in an order the protocol allows; echo returns
// exactly what came; acknowledgements count from 1 without a gap (from 0 in publish mode, and
// first); a closed connection has a reason; and at the end no subscription, message, id or byte of
// memory is left.
#include "../unit/fake_net.h"
#include "broker/clients.h"
#include "proto/frame.h"

#define CONNS 4u
#define CHECK(ok) fake_require(ok, #ok)

typedef struct input {
    const u8 *data;
    size_t left;
} input;

typedef struct device {
    fake_conn f;
    bool open;
    u8 *sent;      // what it sent us (echo)
    u32 sent_len;
    u32 checked;   // output checked so far
    u64 acks;      // acknowledgements seen
    u64 failures;  // sends made to fail: a header may stand alone, the connection closes
} device;

static device devices[CONNS];
static bool raw_published; // raw bytes may hold a frame that, delivered, looks like an ack
static const proto *const modes[] = {&proto_frame_echo, &proto_frame_ack, &proto_frame_publish,
                                     &proto_frame_publish};

static u8 input_byte(input *in) {
    if (in->left == 0) return 0;
    in->left--;
    return *in->data++;
}

static void check_frames(device *d) {
    const fake_conn *f = &d->f;
    while (f->out_len - d->checked >= FRAME_HEADER_BYTES) {
        const u8 *frame = f->out + d->checked;
        u32 len = frame_length_read(frame);
        if (f->out_len - d->checked - FRAME_HEADER_BYTES < len) break;
        d->checked += FRAME_HEADER_BYTES + len;
        if (len == 0) continue;
        u64 number = UINT64_MAX;
        if (len == 8) {
            number = (u64)frame_length_read(frame + 4) << 32 | frame_length_read(frame + 8);
        }
        u64 expected = d->acks + (f->c.proto == &proto_frame_ack);
        if (len == 8 && (number == expected || !raw_published)) {
            CHECK(number == expected);
            d->acks++;
        } else {
            CHECK(f->c.proto == &proto_frame_publish && d->acks > 0);
        }
    }
    CHECK(d->checked == f->out_len || (d->failures > 0 && f->c.reason == CLOSE_NO_MEMORY));
}

static void check(device *d) {
    if (!d->open) return;
    const fake_conn *f = &d->f;
    CHECK(!(f->c.flags & CONN_CLOSING) || f->c.reason != CLOSE_NONE);
    CHECK(!(f->c.flags & CONN_CLOSING) || f->c.proto_state == NULL);
    if (f->c.proto == &proto_frame_echo) {
        CHECK(f->out_len <= d->sent_len);
        CHECK(f->out_len == 0 || memcmp(f->out, d->sent, f->out_len) == 0);
        CHECK((f->c.flags & CONN_CLOSING) || f->in_len == d->sent_len - f->out_len);
    } else {
        check_frames(d);
    }
}

static void device_send(device *d, const u8 *data, u32 len) {
    if (!d->open || len == 0) return;
    d->sent = realloc(d->sent, d->sent_len + len);
    CHECK(d->sent != NULL);
    memcpy(d->sent + d->sent_len, data, len);
    d->sent_len += len;
    fake_receive(&d->f, data, len);
}

static void device_close(device *d) {
    if (!d->open) return;
    fake_close(&d->f);
    free(d->sent);
    d->open = false;
}

static void device_open(device *d, u32 index, u32 worker_index) {
    device_close(d);
    memset(d, 0, sizeof(*d));
    fake_open(&d->f, modes[index], worker_index % net.gw.worker_count);
    d->open = true;
}

static void device_hello(device *d, u8 which) {
    static const char *const hellos[] = {
        "\0\0\0\12{\"id\":\"0\"}", "\0\0\0\12{\"id\":\"1\"}", "\0\0\0\12{\"id\":\"x\"}",
        "\0\0\0\26{\"id\":\"0\",\"token\":\"t\"}"};
    const u8 *hello = (const u8 *)hellos[which % ARRAY_LEN(hellos)];
    device_send(d, hello, FRAME_HEADER_BYTES + frame_length_read(hello));
}

// A frame of len bytes, none of which makes it look like an acknowledgement.
static void device_frame(device *d, u32 len) {
    u8 frame[FRAME_HEADER_BYTES + 64];
    if (len == 8) len = 9;
    frame_length_write(frame, len);
    memset(frame + FRAME_HEADER_BYTES, 'p', len);
    device_send(d, frame, FRAME_HEADER_BYTES + len);
}

static void step(input *in) {
    u8 op = input_byte(in), arg = input_byte(in);
    device *d = &devices[op & 3];
    switch (op >> 2 & 15) {
        case 0: case 1: {
            u32 len = (u32)MIN(arg, in->left);
            raw_published = raw_published || d->f.c.proto == &proto_frame_publish;
            device_send(d, in->data, len);
            in->data += len;
            in->left -= len;
            break;
        }
        case 2: device_open(d, op & 3, arg); break;
        case 3: device_close(d); break;
        case 4: case 5: device_hello(d, arg); break;
        case 6: case 7: device_frame(d, arg % 64); break;
        case 8: device_send(d, (const u8 *)"\0\0\0\0", 4); break;
        case 9: d->f.out_taken = d->f.out_len; break;
        case 10: net.congested[arg & 3] = arg & 4; break;
        case 11: net.refuse[arg & 3] = arg & 4; break;
        case 12:
            d->f.sends_until_failure = arg & 7;
            d->failures += (arg & 7) != 0;
            break;
        case 13: net_advance_ms(arg); break;
        case 14: conn_unblock(&d->f.c); break;
        default:
            for (u32 i = 0; i < (arg & 7) + 1u; i++) net_pump_one();
    }
}

static void finish(u64 empty_bytes) {
    for (u32 i = 0; i < CONNS; i++) device_close(&devices[i]);
    memset(net.refuse, 0, sizeof(net.refuse));
    for (u32 i = 0; i < 3; i++) {
        net_advance_ms(100);
        net_pump();
    }
    for (u32 i = 0; i < net.gw.worker_count; i++) {
        broker_usage usage = broker_usage_get(net.workers[i].broker);
        CHECK(usage.subscriptions == 0 && usage.remote_filters == 0 && usage.in_transit == 0);
        CHECK(usage.memory_bytes == empty_bytes);
        CHECK(client_count(net.workers[i].broker) == 0);
    }
    net_stop();
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
    input in = {data, size};
    u8 setup = input_byte(&in);
    net_start(1 + (setup & 3) % 3, 1 << 20, setup);
    u64 empty_bytes = broker_usage_get(net.workers[0].broker).memory_bytes;
    for (u32 i = 0; i < net.gw.worker_count; i++) {
        listener_config *conf = &net.listeners[i].conf;
        conf->max_frame = setup & 4 ? 40 : 6000;
        conf->out_bytes_max = setup & 8 ? 200 : 100000;
        strcpy(conf->token, setup & 16 ? "t" : "");
        strcpy(conf->down_topic, setup & 32 ? "devices/+/up" : "devices/%i/#");
    }
    memset(devices, 0, sizeof(devices));
    raw_published = false;
    for (u32 i = 0; i < CONNS; i++) device_open(&devices[i], i, setup >> 6);
    while (in.left > 0) {
        step(&in);
        for (u32 i = 0; i < CONNS; i++) check(&devices[i]);
    }
    finish(empty_bytes);
    return 0;
}
