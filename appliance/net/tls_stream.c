// SPDX-License-Identifier: Apache-2.0
// tls_stream.c: a client's TLS without I/O: the handshake's memory goes when it is done; then records are opened in the
// caller's buffer, and only one that came in part is copied.
#include "net/tls_stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bytes {
    u8 *data;
    u32 start, used, room;
} bytes;

struct tls_stream {
    tls_handshake *hs; // NULL when done
    tls_cipher in, out;
    bytes output, waiting, held; // for the socket; plaintext before the handshake; a record in part
    br_ssl_session_parameters *session; // the caller's; may be NULL
    bool open, resumed, peer_ended, closed, failed;
    tls_failure failure;
    u8 alert;
};

static bool bytes_room(bytes *b, u32 len) {
    if (b->room - b->used >= len) return true;
    u32 live = b->used - b->start;
    u64 room = MAX((u64)b->room, 1024u);
    while (room < (u64)live + len) room *= 2;
    if (room > UINT32_MAX / 2) return false;
    u8 *grown = malloc(room);
    if (grown == NULL) return false;
    if (live > 0) memcpy(grown, b->data + b->start, live);
    if (b->data != NULL) explicit_bzero(b->data, b->room);
    free(b->data);
    *b = (bytes){.data = grown, .used = live, .room = (u32)room};
    return true;
}

static bool bytes_add(bytes *b, const u8 *data, u32 len) {
    if (!bytes_room(b, len)) return false;
    if (len > 0) memcpy(b->data + b->used, data, len);
    b->used += len;
    return true;
}

static void bytes_free(bytes *b) {
    if (b->data != NULL) explicit_bzero(b->data, b->room);
    free(b->data);
    *b = (bytes){0};
}

// --- files ---

int tls_client_load(const tls_client_files *files, tls_client **out, char *why, size_t why_bytes) {
    tls_client *client = calloc(1, sizeof(*client));
    int result = client == NULL ? -ENOMEM : 0;
    if (client == NULL) snprintf(why, why_bytes, "out of memory");
    if (result == 0) result = tls_anchors_load(files->ca, &client->anchors, &client->anchor_count, why, why_bytes);
    if (result == 0 && files->cert != NULL) {
        const char *key = files->key != NULL ? files->key : files->cert;
        result = tls_certificate_load(files->cert, key, &client->cert, why, why_bytes);
    }
    if (result < 0) {
        tls_client_free(client);
        return result;
    }
    client->alpn = files->alpn;
    *out = client;
    return 0;
}

void tls_client_free(tls_client *client) {
    if (client == NULL) return;
    tls_anchors_free(client->anchors, client->anchor_count);
    tls_certificate_free(&client->cert);
    free(client);
}

// --- life ---

static bool sink(void *to, const u8 *data, u32 len) {
    tls_stream *s = to;
    return bytes_add(&s->output, data, len);
}

tls_stream *tls_stream_open(const tls_client *client, const char *name, br_ssl_session_parameters *session) {
    tls_stream *s = calloc(1, sizeof(*s));
    if (s != NULL) {
        s->session = session;
        s->hs = malloc(sizeof(*s->hs));
    }
    bool begun = s != NULL && s->hs != NULL && tls_handshake_client(s->hs, client, name, session) &&
                 tls_handshake_feed(s->hs, NULL, 0, sink, s) == TLS_STEP_MORE;
    if (begun) return s;
    tls_stream_free(s);
    return NULL;
}

static void handshake_free(tls_stream *s) {
    if (s->hs != NULL) explicit_bzero(s->hs, sizeof(*s->hs));
    free(s->hs);
    s->hs = NULL;
}

void tls_stream_free(tls_stream *s) {
    if (s == NULL) return;
    handshake_free(s);
    bytes_free(&s->output);
    bytes_free(&s->waiting);
    bytes_free(&s->held);
    explicit_bzero(s, sizeof(*s));
    free(s);
}

static int fail(tls_stream *s, tls_failure failure) {
    if (s->failed) return -EPROTO;
    s->failed = true;
    s->failure = failure;
    u8 record[TLS_ALERT_BYTES], alert = tls_alert_of(failure);
    if (s->hs != NULL && alert != 0 && !tls_handshake_told(s->hs)) {
        (void)bytes_add(&s->output, record, tls_handshake_alert(s->hs, alert, record));
    }
    handshake_free(s);
    return -EPROTO;
}

// --- out ---

const u8 *tls_stream_output(const tls_stream *s, u32 *len) {
    *len = s->output.used - s->output.start;
    return s->output.data + s->output.start;
}

void tls_stream_output_taken(tls_stream *s, u32 len) {
    s->output.start += len;
    if (s->output.start == s->output.used) s->output.start = s->output.used = 0;
}

static bool seal(tls_stream *s, u8 type, const u8 *data, u32 len) {
    u32 front = tls_record_front(&s->out);
    if (!bytes_room(&s->output, front + len + TLS_ROOM_BEHIND)) return false;
    u8 *plain = s->output.data + s->output.used + front;
    if (len > 0) memcpy(plain, data, len);
    s->output.used += tls_record_seal(&s->out, type, plain, len);
    return true;
}

static bool seal_all(tls_stream *s, const u8 *data, u32 len) {
    for (u32 at = 0; at < len;) {
        u32 take = MIN(len - at, TLS_PLAIN_BYTES_MAX);
        if (!seal(s, TLS_DATA, data + at, take)) return false;
        at += take;
    }
    return true;
}

int tls_stream_send(tls_stream *s, const void *data, u32 len) {
    if (s->failed || s->closed) return -EPIPE;
    if (!s->open) return bytes_add(&s->waiting, data, len) ? 0 : -ENOMEM;
    return seal_all(s, data, len) ? 0 : -ENOMEM;
}

void tls_stream_close(tls_stream *s) {
    static const u8 close_notify[2] = {1, 0};
    if (!s->open || s->closed || s->failed) return;
    s->closed = true;
    (void)seal(s, TLS_ALERT, close_notify, sizeof(close_notify));
}

// --- in ---

static void session_keep(tls_stream *s) {
    br_ssl_session_parameters now;
    if (s->session == NULL) return;
    br_ssl_engine_get_session_parameters(&s->hs->ssl.engine, &now);
    s->resumed = now.session_id_len > 0 && now.session_id_len == s->session->session_id_len &&
                 memcmp(now.session_id, s->session->session_id, now.session_id_len) == 0;
    *s->session = now;
    explicit_bzero(&now, sizeof(now));
}

static int handshake_record(tls_stream *s, const u8 *record, u32 len) {
    switch (tls_handshake_feed(s->hs, record, len, sink, s)) {
    case TLS_STEP_MORE: return 0;
    case TLS_STEP_NO_MEMORY: return -ENOMEM;
    case TLS_STEP_FAILED: return fail(s, tls_handshake_failure(s->hs, &s->alert));
    case TLS_STEP_DONE: break;
    }
    tls_handshake_ciphers(s->hs, &s->in, &s->out);
    session_keep(s);
    handshake_free(s);
    s->open = true;
    bool sealed = seal_all(s, s->waiting.data, s->waiting.used);
    bytes_free(&s->waiting);
    return sealed ? 0 : -ENOMEM;
}

static int alert_record(tls_stream *s, const u8 *alert, u32 len) {
    if (len != 2) return fail(s, TLS_FAIL_MALFORMED);
    if (alert[1] == 0) {
        s->peer_ended = true;
        return 0;
    }
    s->alert = alert[1];
    return alert[0] == 2 ? fail(s, TLS_FAIL_PEER_ALERT) : 0;
}

static int record_take(tls_stream *s, u8 *record, u32 len, u8 type, tls_stream_up up, void *to) {
    u32 plain_len;
    if (!s->open) return handshake_record(s, record, len);
    u8 *plain = tls_record_open(&s->in, record, len, &plain_len);
    if (plain == NULL) return fail(s, TLS_FAIL_BAD_MAC);
    if (type == TLS_ALERT) return alert_record(s, plain, plain_len);
    // A server that asks for a new handshake gets none; RFC 5246 section 7.4.1.1 lets a client ignore it.
    if (type == TLS_HANDSHAKE) return 0;
    if (type != TLS_DATA) return fail(s, TLS_FAIL_MALFORMED);
    return plain_len > 0 ? up(to, plain, plain_len) : 0;
}

// The record that is held in part, and more of it. *taken: bytes used of data.
static int held_fill(tls_stream *s, const u8 *data, u32 len, u32 *taken, tls_stream_up up, void *to) {
    u32 have = s->held.used, want = TLS_HEADER_BYTES;
    u8 type = 0;
    if (have >= TLS_HEADER_BYTES) {
        want = tls_record_bytes(s->held.data, &type);
        if (want == 0) return fail(s, s->open ? TLS_FAIL_TOO_LARGE : TLS_FAIL_NOT_TLS);
    }
    *taken = MIN(len, want - have);
    if (!bytes_add(&s->held, data, *taken)) return -ENOMEM;
    if (want == TLS_HEADER_BYTES || s->held.used < want) return 0;
    s->held.used = 0;
    return record_take(s, s->held.data, want, type, up, to);
}

int tls_stream_receive(tls_stream *s, u8 *data, u32 len, tls_stream_up up, void *to) {
    if (s->failed) return -EPROTO;
    while (len > 0 && !s->peer_ended) {
        u32 taken = 0;
        u8 type;
        u32 record = s->held.used == 0 && len >= TLS_HEADER_BYTES ? tls_record_bytes(data, &type) : UINT32_MAX;
        int result;
        if (record == 0) return fail(s, s->open ? TLS_FAIL_TOO_LARGE : TLS_FAIL_NOT_TLS);
        if (record <= len) {
            taken = record;
            result = record_take(s, data, record, type, up, to);
        } else {
            result = held_fill(s, data, len, &taken, up, to);
        }
        if (result != 0) return result;
        data += taken;
        len -= taken;
    }
    return 0;
}

bool tls_stream_is_open(const tls_stream *s) {
    return s->open;
}

bool tls_stream_is_resumed(const tls_stream *s) {
    return s->resumed;
}

bool tls_stream_peer_ended(const tls_stream *s) {
    return s->peer_ended;
}

const char *tls_stream_why(const tls_stream *s, char out[TLS_STREAM_WHY_BYTES]) {
    bool alert = s->failure == TLS_FAIL_PEER_ALERT;
    snprintf(out, TLS_STREAM_WHY_BYTES, "%s%s%s", tls_failure_name(s->failure), alert ? ": " : "",
             alert ? tls_alert_name(s->alert) : "");
    return out;
}
