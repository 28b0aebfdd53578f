// SPDX-License-Identifier: Apache-2.0
// websocket.c: see websocket.h; the formats are in proto/ws_frame.c and proto/ws_handshake.c.
//
//             request complete      refused        close frame or fault     the gateway ends it
// HANDSHAKE   answer, -> OPEN       answer, -> ENDED                        (nothing)
// OPEN                                             note the code, -> ENDED  close frame
// ENDED       (input is ignored)                                            close frame with the code noted
//
// The close frame is sent by closing(), which runs when all output has gone down: the answers to what was taken
// before come before it.
#include "net/websocket.h"

#include <string.h>

#include "base/log.h"
#include "conf/bind.h"
#include "net/conn_internal.h"
#include "net/listener.h"
#include "proto/ws_frame.h"
#include "proto/ws_handshake.h"

enum { HANDSHAKE, OPEN, ENDED };

// A request that has come in part.
typedef struct partial {
    ws_policy policy;
    ws_handshake handshake;
} partial;

typedef struct websocket {
    layer base;
    ws_reader reader;
    u64 heard_ns;    // last payload: pings are no sign of life of the MQTT client (5.0 section 3.1.2.10)
    u16 close_code;  // of the close frame to be sent; 0 = by the close reason
    u8 state;
    u8 control_len;
    union {
        struct {
            partial *request; // NULL: it has not begun
            u32 request_size;
        };
        u8 control[WS_CONTROL_BYTES_MAX]; // of a control frame that has come in part
    };
} websocket;
_Static_assert(sizeof(websocket) <= 256, "the smallest buffer holds it");

static websocket *websocket_of(layer *l) {
    return CONTAINER_OF(l, websocket, base);
}

static void log_fault(const conn *c, const char *what) {
    if (!log_enabled(LOG_INFO)) return;
    char text[CONN_PEER_TEXT];
    log_info("conn %llx: %s on listener %s: websocket: %s", (unsigned long long)c->id, conn_peer_text(c, text),
             c->origin->conf.name, what);
}

// --- the handshake ---

static void request_free(websocket *s) {
    if (s->request != NULL) worker_buf_free(s->base.c->owner, s->request, s->request_size);
    s->request = NULL;
}

static int request_keep(websocket *s, const partial *so_far) {
    if (s->request == so_far) return 0;
    s->request = worker_buf_alloc(s->base.c->owner, sizeof(*s->request), &s->request_size);
    if (s->request == NULL) return CLOSE_NO_MEMORY;
    *s->request = *so_far;
    ws_handshake_moved(&s->request->handshake, &s->request->policy);
    return 0;
}

static int answer(websocket *s, const ws_handshake *h) {
    char text[WS_ANSWER_BYTES];
    struct iovec piece = {text, ws_handshake_answer(h, text)};
    return layer_down(&s->base, &piece, 1);
}

static int refused(websocket *s, const ws_handshake *h) {
    conn *c = s->base.c;
    counter_add(&c->owner->metrics.ws_refused, 1);
    log_fault(c, h->why);
    int reason = answer(s, h);
    if (reason == 0) reason = h->status == 403 ? CLOSE_WS_ORIGIN : CLOSE_WS_HANDSHAKE;
    request_free(s);
    s->state = ENDED;
    return reason;
}

static int upgraded(websocket *s, const ws_handshake *h) {
    conn *c = s->base.c;
    int reason = answer(s, h);
    request_free(s);
    if (reason != 0) return reason;
    counter_add(&c->owner->metrics.ws_upgrades, 1);
    s->state = OPEN;
    s->heard_ns = c->owner->now_ns;
    layer_set_ready(&s->base);
    return 0;
}

static int handshake_take(websocket *s, const u8 *data, u32 len, u32 *used) {
    const listener_config *conf = &s->base.c->origin->conf;
    partial fresh, *at = s->request;
    if (at == NULL) {
        at = &fresh;
        at->policy = (ws_policy){conf->ws_path, conf->ws_origins, bind_is_local(&conf->bind)};
        ws_handshake_init(&at->handshake, &at->policy);
    }
    switch (ws_handshake_feed(&at->handshake, data, len, used)) {
    case WS_READY: return upgraded(s, &at->handshake);
    case WS_REFUSED: return refused(s, &at->handshake);
    case WS_NEED_MORE: break;
    }
    return request_keep(s, at);
}

// --- frames ---

static int fault_take(websocket *s, ws_fault fault) {
    log_fault(s->base.c, ws_fault_text(fault));
    s->close_code = ws_fault_code(fault);
    s->state = ENDED;
    return CLOSE_WS_PROTOCOL;
}

static int pong(websocket *s, u8 *payload, u32 len) {
    u8 head[WS_OUT_HEAD_BYTES_MAX];
    u32 head_len = ws_head_write(head, WS_PONG, len);
    if (conn_send_room(s->base.c) < head_len + len) return CLOSE_SLOW_CONSUMER;
    const struct iovec pieces[] = {{head, head_len}, {payload, len}};
    return layer_down(&s->base, pieces, ARRAY_LEN(pieces));
}

static int close_take(websocket *s, const u8 *payload, u32 len) {
    u16 code;
    ws_fault fault = ws_close_check(payload, len, &code);
    if (fault != WS_FAULT_NONE) return fault_take(s, fault);
    s->close_code = code;
    s->state = ENDED;
    layer_up_end(&s->base);
    return 0;
}

static int control_take(websocket *s, const ws_piece *piece) {
    u8 *payload = piece->data;
    u32 len = piece->len;
    if (s->control_len > 0 || !piece->ends) {
        ASSERT(len <= sizeof(s->control) - s->control_len);
        memcpy(s->control + s->control_len, piece->data, len);
        s->control_len += (u8)len;
        if (!piece->ends) return 0;
        payload = s->control;
        len = s->control_len;
        s->control_len = 0;
    }
    if (piece->opcode == WS_PING) return pong(s, payload, len);
    return piece->opcode == WS_CLOSE ? close_take(s, payload, len) : 0;
}

static int frames_take(websocket *s, u8 *data, u32 len) {
    conn *c = s->base.c;
    u64 max = c->origin->conf.ws_max_frame;
    int reason = 0;
    bool heard = false;
    while (reason == 0 && s->state == OPEN && !layer_is_ended(&s->base)) {
        u32 used;
        ws_piece piece;
        ws_event event = ws_read(&s->reader, max, data, len, &used, &piece);
        data += used;
        len -= used;
        if (event == WS_MORE) break;
        if (event == WS_FAULT) {
            reason = fault_take(s, piece.fault);
        } else if (event == WS_CONTROL) {
            reason = control_take(s, &piece);
        } else {
            heard = heard || piece.len > 0;
            layer_up(&s->base, piece.data, piece.len);
        }
    }
    if (heard) s->heard_ns = c->owner->now_ns;
    else c->received_ns = s->heard_ns;
    if (s->state == OPEN) layer_partial(&s->base, s->reader.head_len > 0 || s->control_len > 0);
    return reason;
}

// --- the layer ---

static int websocket_input(layer *l, u8 *data, u32 len) {
    websocket *s = websocket_of(l);
    if (s->state == HANDSHAKE) {
        u32 used;
        int reason = handshake_take(s, data, len, &used);
        if (reason != 0) return reason;
        data += used;
        len -= used;
    }
    return s->state == OPEN && len > 0 ? frames_take(s, data, len) : 0;
}

static int websocket_output(layer *l, const struct iovec *pieces, u32 count, u32 bytes) {
    struct iovec out[1 + LIMIT_OUT_IOVECS];
    u8 head[WS_OUT_HEAD_BYTES_MAX];
    ASSERT(count <= LIMIT_OUT_IOVECS);
    out[0] = (struct iovec){head, ws_head_write(head, WS_BINARY, bytes)};
    memcpy(out + 1, pieces, count * sizeof(*pieces));
    return layer_down(l, out, count + 1);
}

static u16 code_of(close_reason reason) {
    switch (reason) {
    case CLOSE_PEER:
    case CLOSE_PEER_IN_FRAME:
    case CLOSE_TAKEN_OVER: return WS_CODE_NORMAL;
    case CLOSE_DRAIN: return WS_CODE_GOING_AWAY;
    case CLOSE_PROTOCOL_ERROR:
    case CLOSE_BAD_HELLO: return WS_CODE_PROTOCOL_ERROR;
    case CLOSE_FRAME_TOO_LARGE: return WS_CODE_TOO_BIG;
    case CLOSE_NO_MEMORY:
    case CLOSE_IO_ERROR: return WS_CODE_INTERNAL;
    default: return WS_CODE_POLICY;
    }
}

static void websocket_closing(layer *l, close_reason reason) {
    websocket *s = websocket_of(l);
    if (!(l->flags & LAYER_READY)) return; // it never was one
    u8 frame[WS_OUT_HEAD_BYTES_MAX + 2];
    u32 len = ws_head_write(frame, WS_CLOSE, 2);
    u16 code = s->close_code != 0 ? s->close_code : code_of(reason);
    frame[len++] = (u8)(code >> 8);
    frame[len++] = (u8)code;
    struct iovec piece = {frame, len};
    s->state = ENDED;
    (void)layer_down(l, &piece, 1); // without memory it is not told: the connection ends all the same
}

static void websocket_free(layer *l) {
    websocket *s = websocket_of(l);
    if (s->state == HANDSHAKE) request_free(s);
}

static const layer_ops websocket_ops = {
    .name = "websocket",
    .input = websocket_input,
    .output = websocket_output,
    .closing = websocket_closing,
    .free = websocket_free,
};

int websocket_push(conn *c) {
    layer *l = layer_push(c, &websocket_ops, sizeof(websocket));
    if (l == NULL) return CLOSE_NO_MEMORY;
    u64 from_ns = l->below != NULL && l->below->deadline_ns != 0 ? l->below->deadline_ns : c->opened_ns;
    l->deadline_ns = from_ns + c->origin->conf.hello_timeout_ms * NS_PER_MS;
    l->deadline_reason = CLOSE_HELLO_TIMEOUT;
    return 0;
}

bool websocket_is_on(const conn *c) {
    return c->layer != NULL && layer_find(c, &websocket_ops) != NULL;
}
