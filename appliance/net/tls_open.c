// SPDX-License-Identifier: Apache-2.0
// tls_open.c: an open TLS connection: records are opened in the receive buffer and sealed in the wire queue. Only a
// record that did not come whole is copied, once, into a borrowed buffer of its size.
#include <errno.h>
#include <string.h>

#include "net/conn_internal.h"
#include "net/tls_kernel.h"
#include "net/tls_layer.h"

enum { ALERT_WARNING = 1, ALERT_FATAL = 2, ALERT_CLOSE = 0, ALERT_MAC = 20, ALERT_OVERFLOW = 22,
       ALERT_UNEXPECTED = 10, ALERT_NO_RENEGOTIATION = 100 };

// --- out ---

// Copies the next len bytes of the pieces; *piece and *start are the place in them.
static void gather(u8 *to, u32 len, const struct iovec *pieces, u32 *piece, size_t *start) {
    while (len > 0) {
        const struct iovec *from = &pieces[*piece];
        u32 take = (u32)MIN((size_t)len, from->iov_len - *start);
        if (take > 0) memcpy(to, (const u8 *)from->iov_base + *start, take);
        to += take;
        len -= take;
        *start += take;
        if (*start < from->iov_len) continue;
        ++*piece;
        *start = 0;
    }
}

int tls_open_output(layer *l, const struct iovec *pieces, u32 count, u32 bytes) {
    tls_layer *t = tls_of(l);
    bool plain = (l->flags & LAYER_PASS_OUT) != 0; // the kernel seals
    u32 front = plain ? 0 : tls_record_front(&t->out), piece = 0;
    size_t start = 0;
    (void)count;
    for (u32 left = bytes; left > 0;) {
        u32 len = plain ? left : MIN(left, (u32)t->out_max);
        u8 *room = layer_reserve(l, front + len + (plain ? 0 : TLS_ROOM_BEHIND));
        if (room == NULL) return CLOSE_NO_MEMORY;
        gather(room + front, len, pieces, &piece, &start);
        layer_commit(l, plain ? len : tls_record_seal(&t->out, TLS_DATA, room + front, len));
        left -= len;
    }
    return 0;
}
_Static_assert(LAYER_CHUNK_BYTES <= TLS_PLAIN_BYTES_MAX, "a chunk is one record, unless the peer wants small ones");

static void alert_send(tls_layer *t, u8 level, u8 description) {
    const u8 alert[2] = {level, description};
    if (t->base.flags & LAYER_PASS_OUT) {
        // Only when nothing is queued before it; without it the peer sees the end of the stream alone.
        if (t->base.c->out_bytes == 0) (void)tls_kernel_send_control(t->base.c->io.fd, TLS_ALERT, alert, 2);
        return;
    }
    u32 front = tls_record_front(&t->out);
    u8 *room = layer_reserve(&t->base, front + sizeof(alert) + TLS_ROOM_BEHIND);
    if (room == NULL) return;
    memcpy(room + front, alert, sizeof(alert));
    layer_commit(&t->base, tls_record_seal(&t->out, TLS_ALERT, room + front, sizeof(alert)));
}

void tls_open_closing(layer *l) {
    alert_send(tls_of(l), ALERT_WARNING, ALERT_CLOSE);
}

// --- in ---

static int refuse(tls_layer *t, u8 alert, close_reason reason) {
    alert_send(t, ALERT_FATAL, alert);
    t->phase = TLS_ENDED;
    return (int)reason;
}

static int alert_received(tls_layer *t, const u8 *alert, u32 len) {
    if (len != 2) return refuse(t, ALERT_UNEXPECTED, CLOSE_TLS_RECORD);
    if (alert[1] == ALERT_CLOSE) {
        layer_up_end(&t->base);
        return 0;
    }
    if (alert[0] == ALERT_FATAL) {
        t->phase = TLS_ENDED;
        return CLOSE_TLS_ALERT;
    }
    return ++t->alerts > LIMIT_TLS_ALERTS ? refuse(t, ALERT_UNEXPECTED, CLOSE_TLS_RECORD) : 0;
}

// A record of another type than data, opened.
static int control_received(tls_layer *t, u8 type, const u8 *plain, u32 len) {
    if (type == TLS_ALERT) return alert_received(t, plain, len);
    if (type == TLS_HANDSHAKE) return refuse(t, ALERT_NO_RENEGOTIATION, CLOSE_TLS_RENEGOTIATION);
    return refuse(t, ALERT_UNEXPECTED, CLOSE_TLS_RECORD);
}

static int record_received(tls_layer *t, u8 *record, u32 bytes, u8 type) {
    u32 len;
    u8 *plain = tls_record_open(&t->in, record, bytes, &len);
    if (plain == NULL) return refuse(t, ALERT_MAC, CLOSE_TLS_RECORD);
    if (type != TLS_DATA) return control_received(t, type, plain, len);
    layer_up(&t->base, plain, len);
    return 0;
}

// After the peer's close_notify whatever comes is not part of the stream.
static bool is_over(const tls_layer *t) {
    return layer_is_ended(&t->base) || (t->base.c->flags & CONN_RECV_EOF) != 0 || t->phase != TLS_OPEN;
}

// Adds to the record that is held in part. Returns bytes taken, or a negative close reason.
static int held_fill(tls_layer *t, const u8 *data, u32 len) {
    u32 have = t->held_used - t->held_start, want = TLS_HEADER_BYTES;
    u8 type;
    if (have >= TLS_HEADER_BYTES) {
        want = tls_record_bytes(t->held + t->held_start, &type);
        if (want == 0) return -refuse(t, ALERT_OVERFLOW, CLOSE_TLS_RECORD);
    }
    u32 take = MIN(len, want - have);
    int reason = tls_layer_hold_bytes(t, data, take, want);
    if (reason != 0) return -reason;
    if (have + take < want || want == TLS_HEADER_BYTES) return (int)take;
    // Whole: the buffer is given back before the protocol runs, which may need one.
    u8 *record = t->held + t->held_start;
    reason = record_received(t, record, want, type);
    tls_layer_held_free(t);
    layer_partial(&t->base, false);
    return reason != 0 ? -reason : (int)take;
}

int tls_open_input(tls_layer *t, u8 *data, u32 len) {
    while (len > 0 && !is_over(t)) {
        if (t->held != NULL) {
            int taken = held_fill(t, data, len);
            if (taken < 0) return -taken;
            data += taken;
            len -= (u32)taken;
            continue;
        }
        u8 type;
        u32 bytes = len >= TLS_HEADER_BYTES ? tls_record_bytes(data, &type) : UINT32_MAX;
        if (bytes == 0) return refuse(t, ALERT_OVERFLOW, CLOSE_TLS_RECORD);
        if (bytes > len) {
            layer_partial(&t->base, true);
            return tls_layer_hold_bytes(t, data, len, bytes == UINT32_MAX ? len : bytes);
        }
        int reason = record_received(t, data, bytes, type);
        if (reason != 0) return reason;
        data += bytes;
        len -= bytes;
    }
    return 0;
}

// --- from the kernel ---

// recv(2) says EIO when the next record is no data.
static int kernel_control(tls_layer *t) {
    u8 type, record[256];
    int got = tls_kernel_read_control(t->base.c->io.fd, &type, record, sizeof(record));
    if (got == -EAGAIN) return 0;
    if (got < 0) return (int)close_reason_of_errno(got);
    if (type == TLS_DATA) {
        layer_up(&t->base, record, (u32)got);
        return 0;
    }
    return control_received(t, type, record, (u32)got);
}

int tls_open_error(layer *l, int result) {
    tls_layer *t = tls_of(l);
    if (!(l->flags & LAYER_PASS_IN) || t->phase != TLS_OPEN) return (int)close_reason_of_errno(result);
    switch (-result) {
    case EIO: return kernel_control(t);
    case EBADMSG: return refuse(t, ALERT_MAC, CLOSE_TLS_RECORD);
    case EMSGSIZE:
    case EINVAL: return refuse(t, ALERT_OVERFLOW, CLOSE_TLS_RECORD);
    default: return (int)close_reason_of_errno(result);
    }
}
