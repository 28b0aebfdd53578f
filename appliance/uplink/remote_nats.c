// SPDX-License-Identifier: Apache-2.0
// remote_nats.c: NATS JetStream as the remote. A message is published with a reply subject of our inbox; it is
// done when the answer says that a stream has stored it, or had it already: Nats-Msg-Id makes one that is sent
// again after a broken connection or a crash a duplicate, which the server drops (within the stream's
// duplicate_window).
//
// The identifier is worker, position and time of the record: the same whenever it is read, and never used
// again.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "base/siphash.h"
#include "net/conn.h"
#include "net/tls.h"
#include "uplink/uplink_internal.h"

#define INBOX_SID 1u            // subscriptions to `down` follow
#define HEAD_ROOM 2048u
#define CONNECT_ROOM 4096u
#define DOWN_PAYLOAD_MIN (64u << 10)
#define NO_RESPONDERS 503u      // ADR-4
#define ERR_MESSAGE_TOO_LARGE 10054u // JSStreamMessageExceedsMaximumErr: the same answer next time

static uplink *uplink_of(const conn *c) {
    return c->proto_state;
}

static int send_text(uplink *u, const char *text, u32 len) {
    return conn_send(u->conn, text, len) == 0 ? 0 : -ENOMEM;
}

// --- greeting: INFO comes, CONNECT, SUBs and PING go, PONG says that all are in force ---

static uplink_error greet(uplink *u) {
    u64 random = 0;
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random)) random = clock_real_ns();
    u->nats = (uplink_nats){0};
    // Of this connection only: an answer to an earlier one can not be mistaken for one to this.
    u->nats.inbox_len = (u32)snprintf(u->nats.inbox, sizeof(u->nats.inbox), "_INBOX.%016llx%08x.",
                                      (unsigned long long)random, (u32)(u->owner->now_ns >> 10));
    return UPLINK_ERROR_NONE;
}

static int subscribe_down(uplink *u) {
    const char *filter;
    char *line = u->all->topic;
    u32 len, sid = INBOX_SID, room = LIMIT_TOPIC_BYTES;
    if (!u->first) return 0;
    for (u32 at = 0; down_filter_next(u, &at, &filter, &len);) {
        memcpy(line, "SUB ", 4);
        int used = map_subject_of_filter(filter, len, line + 4, room - 32);
        if (used < 0) continue; // the configuration's check has seen that it fits
        int tail = snprintf(line + 4 + used, 28, " %u\r\n", ++sid);
        if (send_text(u, line, (u32)(4 + used + tail)) != 0) return -ENOMEM;
    }
    return 0;
}

// CONNECT, SUBs and PING. Over TLS they wait for its handshake.
static void login_send(uplink *u, const nats_info *info, bool tls) {
    char signature[NKEY_SIGNATURE_CHARS + 1] = "", sub[96];
    const uplink_login *own = &u->login;
    bool keyed = u->conf.nkey[0] != '\0' || u->conf.credentials[0] != '\0';
    if (keyed && own->key.public_key[0] == '\0') {
        u->files_old = true; // the detail was told when it was read; it may have been mended
        uplink_fail(u, UPLINK_ERROR_CREDENTIALS_FILE, NULL);
        return;
    }
    if (keyed && info->nonce[0] == '\0') {
        uplink_fail(u, UPLINK_ERROR_REFUSED, "the server does not ask for a key (no nonce)");
        return;
    }
    if (keyed) nkey_sign(&own->key, info->nonce, (u32)strlen(info->nonce), signature);
    nats_login login = {.name = u->id, .user = u->conf.user, .password = u->conf.password, .token = u->conf.token,
                        .public_key = own->key.public_key, .jwt = own->jwt != NULL ? own->jwt : "",
                        .signature = signature, .tls = tls};
    u32 room = CONNECT_ROOM + (u32)strlen(login.jwt), size;
    char *connect = worker_buf_alloc(u->owner, room, &size);
    int len = connect == NULL ? -ENOMEM : nats_write_connect(&login, connect, room);
    int sub_len = snprintf(sub, sizeof(sub), "SUB %s* %u\r\n", u->nats.inbox, INBOX_SID);
    bool sent = len > 0 && send_text(u, connect, (u32)len) == 0 && send_text(u, sub, (u32)sub_len) == 0 &&
                subscribe_down(u) == 0 && send_text(u, "PING\r\n", 6) == 0;
    if (connect != NULL) {
        explicit_bzero(connect, room);
        worker_buf_free(u->owner, connect, size);
    }
    if (!sent) uplink_fail(u, UPLINK_ERROR_NO_MEMORY, NULL);
}

static void info_take(uplink *u, nats_text json) {
    nats_info info;
    if (nats_info_parse(json, &info) != 0) {
        uplink_fail(u, UPLINK_ERROR_PROTOCOL, "an INFO that is no JSON object");
        return;
    }
    u->nats.payload_max = info.max_payload != 0 ? info.max_payload : 1u << 20;
    if (info.lame_duck) {
        uplink_fail(u, UPLINK_ERROR_CLOSED, "the server is about to stop");
        return;
    }
    if (u->state != UPLINK_GREETING || u->nats.greeted) return; // a change in the cluster
    bool tls = u->urls[u->url_index].tls;
    if (info.tls_required && !tls) {
        uplink_fail(u, UPLINK_ERROR_TLS_NEEDED, "the URL has to begin with tls://");
        return;
    }
    if (tls && !info.tls_required && !info.tls_available) {
        uplink_fail(u, UPLINK_ERROR_TLS, "the server offers no TLS");
        return;
    }
    if (!info.headers) {
        uplink_fail(u, UPLINK_ERROR_REFUSED, "the server knows no headers (it is older than 2.2)");
        return;
    }
    u->nats.greeted = true;
    if (tls) {
        tls_begin_client(u->conn);
        u->nats.sealed = true;
    }
    login_send(u, &info, tls);
}

static bool begins(nats_text text, const char *with) {
    size_t len = strlen(with);
    if (text.len < len) return false;
    for (size_t i = 0; i < len; i++) {
        char c = text.data[i];
        if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
        if (c != with[i]) return false;
    }
    return true;
}

static u64 subject_hash(const char *subject, u32 len) {
    return siphash24(siphash_process_key(), subject, len);
}

// What the server does not permit, and goes on: a message's subject ends that message, as a broker's refusal does; a
// filter of `down` is not heard. False: any other error.
static bool denial_take(uplink *u, nats_text text) {
    char *subject = u->all->topic;
    u32 len = 0, place;
    nats_denial denial = nats_denied(text, subject, LIMIT_TOPIC_BYTES, &len);
    if (denial == NATS_DENIED_PUBLISH && window_find_subject(&u->window, subject_hash(subject, len), &place)) {
        return drain_refused(u, place, UPLINK_DROP_REFUSED, text.data, text.len);
    }
    bool inbox = len >= u->nats.inbox_len && memcmp(subject, u->nats.inbox, u->nats.inbox_len) == 0;
    if (denial != NATS_DENIED_SUBSCRIBE || inbox) return false;
    log_warn("worker %u: uplink %s: down: the remote refuses %.*s", u->owner->index, u->conf.name, (int)MIN(len, 80u),
             subject);
    return true;
}

static void error_take(uplink *u, nats_text text) {
    if (denial_take(u, text)) return;
    uplink_error error = begins(text, "authorization") || begins(text, "user authentication") ||
                                 begins(text, "authentication") || begins(text, "account")
                             ? UPLINK_ERROR_BAD_CREDENTIALS
                         : begins(text, "permissions violation") ? UPLINK_ERROR_NOT_AUTHORIZED
                         : begins(text, "stale connection")      ? UPLINK_ERROR_SILENT
                         : begins(text, "secure connection")     ? UPLINK_ERROR_TLS_NEEDED
                                                                 : UPLINK_ERROR_REFUSED;
    uplink_detail(u, "-ERR %.*s", (int)MIN(text.len, 120u), text.data);
    uplink_fail(u, error, NULL);
}

// --- publications ---

static int publish(uplink *u, const uplink_message *m, const char *topic, u32 topic_len, u32 place) {
    char room[HEAD_ROOM], *head = room, reply[64], id[96];
    char *subject = u->all->topic + LIMIT_TOPIC_BYTES; // behind the topic
    u32 size = sizeof(room);
    int subject_len = map_subject_of_topic(topic, topic_len, subject, NATS_SUBJECT_BYTES_MAX);
    if (subject_len < 0) return -EINVAL;
    snprintf(reply, sizeof(reply), "%s%u", u->nats.inbox, place);
    snprintf(id, sizeof(id), "%.40s.%u.%llx.%llx", u->via, u->owner->index, (unsigned long long)m->pos,
             (unsigned long long)m->time_ms);
    u32 need = (u32)subject_len + m->props_len * 2 + 512;
    if (need > sizeof(room) && (head = worker_buf_alloc(u->owner, need, &size)) == NULL) return -ENOMEM;
    int len = nats_write_publish_head(m, subject, (u32)subject_len, reply, id, u->via, head, size);
    int result = len < 0 ? -EINVAL : 0;
    u->nats.subject = subject_hash(subject, (u32)subject_len);
    // The server's limit covers headers and payload; the first line is not far from nothing.
    if (result == 0 && (u64)(u32)len + m->payload_len > u->nats.payload_max) result = -EMSGSIZE;
    if (result == 0) {
        struct iovec pieces[] = {
            {head, (size_t)len}, {(void *)(uintptr_t)m->payload, m->payload_len}, {(void *)(uintptr_t)"\r\n", 2}};
        result = conn_send_pieces(u->conn, pieces, ARRAY_LEN(pieces)) == 0 ? 0 : -ENOMEM;
    }
    if (head != room) worker_buf_free(u->owner, head, size);
    return result;
}

// The place in the window behind the inbox. False: not a number.
static bool place_of(const uplink *u, nats_text subject, u32 *place) {
    u32 at = u->nats.inbox_len, value = 0;
    if (subject.len <= at || subject.len > at + 5 || memcmp(subject.data, u->nats.inbox, at) != 0) return false;
    for (; at < subject.len; at++) {
        if (subject.data[at] < '0' || subject.data[at] > '9') return false;
        value = value * 10 + (u32)(subject.data[at] - '0');
    }
    *place = value;
    return true;
}

static void answer_take(uplink *u, const nats_op *op) {
    u32 place;
    nats_puback ack;
    if (!place_of(u, op->subject, &place)) return;
    if (nats_header_status(op->headers) == NO_RESPONDERS) {
        uplink_fail(u, UPLINK_ERROR_NO_STREAM, "503 no responders: no stream has the subject, or JetStream is off");
        return;
    }
    if (nats_puback_parse(op->payload, op->payload_len, &ack) != 0) {
        uplink_fail(u, UPLINK_ERROR_PROTOCOL, "an answer to a publication that is not JetStream's");
        return;
    }
    if (ack.stored) {
        if (ack.duplicate) counter_add(&u->metrics.duplicates, 1);
        (void)drain_acked(u, place);
        return;
    }
    if (ack.err_code == ERR_MESSAGE_TOO_LARGE) {
        (void)drain_refused(u, place, UPLINK_DROP_TOO_LARGE, ack.text, (u32)strlen(ack.text));
        return;
    }
    uplink_detail(u, "jetstream: %s (%u, %u)", ack.text, ack.code, ack.err_code);
    uplink_fail(u, UPLINK_ERROR_NOT_STORED, NULL);
}

// --- from the remote ---

static bool same(nats_text text, const char *word) {
    return text.len == strlen(word) && memcmp(text.data, word, text.len) == 0;
}

static void message_take(uplink *u, const nats_op *op) {
    char *topic = u->all->topic + LIMIT_TOPIC_BYTES;
    nats_text name, value;
    uplink_incoming in = {.payload = op->payload, .payload_len = op->payload_len, .expiry_s = UINT32_MAX, .via = ""};
    counter_add(&u->metrics.received, 1);
    int len = map_topic_of_subject(op->subject.data, op->subject.len, topic, LIMIT_TOPIC_BYTES);
    if (len <= 0) {
        uplink_dropped(u, UPLINK_DROP_DOWN_TOPIC, 1, op->subject.data, op->subject.len);
        return;
    }
    in.topic = topic;
    in.topic_len = (u32)len;
    for (u32 at = 0; nats_header_next(op->headers, &at, &name, &value);) {
        if (same(name, UPLINK_VIA)) {
            in.via = value.data;
            in.via_len = value.len;
        } else if (same(name, "Mqtt-Retain")) {
            in.retain = same(value, "1");
        }
    }
    // Core NATS delivers at most once; there is nobody who would send it again.
    if (down_publish(u, &in, NULL) == -EAGAIN) {
        uplink_dropped(u, UPLINK_DROP_DOWN_REFUSED, 1, op->subject.data, op->subject.len);
    }
}

static void op_take(uplink *u, const nats_op *op) {
    switch (op->verb) {
    case NATS_INFO: info_take(u, op->text); return;
    case NATS_PING: (void)send_text(u, "PONG\r\n", 6); return;
    case NATS_PONG:
        if (u->state == UPLINK_GREETING) uplink_event_run(u, UPLINK_EV_GREETED);
        return;
    case NATS_OK: return;
    case NATS_ERR: error_take(u, op->text); return;
    case NATS_MSG:
    case NATS_HMSG:
        if (op->sid == INBOX_SID) answer_take(u, op);
        else message_take(u, op);
        return;
    }
}

// --- bytes ---

// Keeps what is not complete yet, in a buffer that holds all of it once its size is known.
static bool keep(uplink *u, const u8 *data, u32 len, u32 need) {
    uplink_nats *n = &u->nats;
    u32 want = MAX(need, n->in_used + len), size;
    if (n->in == NULL || want > n->in_size) {
        u8 *grown = worker_buf_alloc(u->owner, want, &size);
        if (grown == NULL) return false;
        if (n->in_used > 0) memcpy(grown, n->in, n->in_used);
        if (n->in != NULL) worker_buf_free(u->owner, n->in, n->in_size);
        n->in = grown;
        n->in_size = size;
    }
    if (len > 0) memcpy(n->in + n->in_used, data, len);
    n->in_used += len;
    return true;
}

static void kept_free(uplink *u) {
    uplink_nats *n = &u->nats;
    if (n->in != NULL) worker_buf_free(u->owner, n->in, n->in_size);
    n->in = NULL;
    n->in_used = n->in_size = n->need = 0;
}

// Takes whole operations. Returns the bytes taken; *ended: the connection has ended on the way.
static u32 ops_take(uplink *u, const conn *c, const u8 *data, u32 len, u32 *need, bool *ended) {
    u32 at = 0, payload_max = MAX(u->conf.max_packet, DOWN_PAYLOAD_MIN);
    *need = 0;
    *ended = false;
    while (at < len) {
        nats_op op;
        int taken = nats_parse(data + at, len - at, payload_max, &op, need);
        if (taken == 0) break;
        bool sealed = u->nats.sealed;
        if (taken < 0) uplink_fail(u, UPLINK_ERROR_PROTOCOL, nats_fault_text(taken));
        else op_take(u, &op);
        // Anybody may have put it there.
        if (u->conn == c && u->nats.sealed && !sealed && at + (u32)taken < len) {
            uplink_fail(u, UPLINK_ERROR_PROTOCOL, "bytes in the clear where TLS begins");
        }
        // The uplink has let go of this connection: nothing that came over it counts any more.
        if (u->conn != c) {
            *ended = true;
            return at;
        }
        at += (u32)taken;
    }
    return at;
}

static int stream(conn *c, u8 *data, u32 len) {
    uplink *u = uplink_of(c);
    uplink_nats *n = &u->nats;
    bool ended;
    u32 need;
    if (u->conn != c) return 0;
    while (n->in_used > 0 && len > 0) {
        // Complete what was begun and no more than that; of a line whose end is not known, all there is.
        u32 missing = n->need - n->in_used, take = missing > 1 ? MIN(len, missing) : len;
        if (!keep(u, data, take, n->need)) return CLOSE_NO_MEMORY;
        data += take;
        len -= take;
        if (n->in_used < n->need) return 0;
        u8 *in = n->in;
        u32 in_size = n->in_size, used = n->in_used;
        n->in = NULL; // what is taken may end the connection, which frees the buffer
        n->in_used = n->in_size = 0;
        u32 taken = ops_take(u, c, in, used, &need, &ended);
        bool kept = ended || taken == used || (n->need = need, keep(u, in + taken, used - taken, need));
        worker_buf_free(u->owner, in, in_size);
        if (ended) return 0;
        if (!kept) return CLOSE_NO_MEMORY;
    }
    if (len == 0) return 0;
    u32 taken = ops_take(u, c, data, len, &need, &ended);
    if (ended || taken == len) return 0;
    n->need = need;
    return keep(u, data + taken, len - taken, need) ? 0 : CLOSE_NO_MEMORY;
}

static void ping(uplink *u) {
    (void)send_text(u, "PING\r\n", 6); // no memory: the ping's deadline will tell
}

static void leave(uplink *u) {
    (void)u; // NATS has no goodbye
}

static void closed(conn *c) {
    if (uplink_of(c) != NULL) uplink_conn_closed(uplink_of(c), c);
}

static const proto nats_proto = {
    .name = "uplink-nats", .open = uplink_conn_open, .stream = stream, .closed = closed};

const uplink_remote uplink_remote_nats = {
    .proto = &nats_proto,
    .greet = greet,
    .publish = publish,
    .ping = ping,
    .leave = leave,
    .gone = kept_free,
};
