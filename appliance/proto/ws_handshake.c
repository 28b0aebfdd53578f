// SPDX-License-Identifier: Apache-2.0
// ws_handshake.c: see ws_handshake.h. llhttp calls back with pieces; the values of the few fields that matter are
// gathered in one bounded buffer and judged when they are complete.
//
// Invariant: nothing is written beyond a fixed array; the first thing that is wrong decides the answer.
#include "proto/ws_handshake.h"

#include <bearssl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"

enum {
    FIELD_OTHER,
    FIELD_HOST,
    FIELD_UPGRADE,
    FIELD_CONNECTION,
    FIELD_KEY,
    FIELD_VERSION,
    FIELD_PROTOCOL,
    FIELD_ORIGIN,
};
#define BIT(field) (1u << (field))

static const struct {
    const char *name;
    u8 field;
} fields[] = {
    {"host", FIELD_HOST},
    {"upgrade", FIELD_UPGRADE},
    {"connection", FIELD_CONNECTION},
    {"sec-websocket-key", FIELD_KEY},
    {"sec-websocket-version", FIELD_VERSION},
    {"sec-websocket-protocol", FIELD_PROTOCOL},
    {"origin", FIELD_ORIGIN},
};

static ws_handshake *handshake_of(llhttp_t *l) {
    return l->data;
}

// The first reason wins.
static int refuse(ws_handshake *h, int status, const char *why) {
    if (h->status == 0) {
        h->status = status;
        h->why = why;
    }
    return HPE_USER;
}

// --- origins ---

// "https://Example.org:8443" -> its host; false when there is none ("null").
static bool origin_host(const char *origin, const char **host, size_t *len) {
    const char *begin = strstr(origin, "://");
    if (begin == NULL) return false;
    begin += 3;
    *host = begin;
    *len = begin[0] == '[' ? strcspn(begin, "]") + 1 : strcspn(begin, ":/");
    return *len > 0;
}

static bool host_is_loopback(const char *host, size_t len) {
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    for (u32 i = 0; i < ARRAY_LEN(names); i++) {
        if (strlen(names[i]) == len && strncasecmp(names[i], host, len) == 0) return true;
    }
    return false;
}

bool ws_origin_is_allowed(const ws_policy *policy, const char *origin, const char *host) {
    size_t origin_len = strlen(origin);
    for (const char *at = policy->origins; *at != '\0';) {
        size_t len = strcspn(at, "\n");
        if (len == 1 && at[0] == '*') return true;
        if (len == origin_len && strncasecmp(at, origin, len) == 0) return true;
        at += len + (at[len] == '\n');
    }
    const char *name;
    size_t len;
    if (policy->origins[0] != '\0' || !origin_host(origin, &name, &len)) return false;
    size_t host_len = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    if (len != host_len || strncasecmp(name, host, len) != 0) return false;
    return !policy->local || host_is_loopback(name, len);
}

// --- fields ---

// Whether a comma separated list has the token; case does not matter.
static bool list_has(const char *list, const char *token) {
    size_t token_len = strlen(token);
    for (const char *at = list; *at != '\0';) {
        at += strspn(at, " \t,");
        size_t len = strcspn(at, ",");
        size_t bare = len;
        while (bare > 0 && (at[bare - 1] == ' ' || at[bare - 1] == '\t')) bare--;
        if (bare == token_len && strncasecmp(at, token, bare) == 0) return true;
        at += len;
    }
    return false;
}

// Section 4.1, 7: base64 of 16 bytes.
static int key_take(ws_handshake *h) {
    u8 bytes[18];
    if (h->value_len != 24 || base64_decode(h->value, h->value_len, bytes) != 16) {
        return refuse(h, 400, "Sec-WebSocket-Key is not 16 bytes in base64");
    }
    memcpy(h->key, h->value, 25);
    return 0;
}

static int value_take(ws_handshake *h) {
    switch (h->field) {
    case FIELD_HOST:
        memcpy(h->host, h->value, h->value_len + 1u);
        return 0;
    case FIELD_UPGRADE:
        if (list_has(h->value, "websocket")) h->upgrade = true;
        return 0;
    case FIELD_CONNECTION:
        if (list_has(h->value, "upgrade")) h->connection = true;
        return 0;
    case FIELD_KEY: return key_take(h);
    case FIELD_VERSION:
        return strcmp(h->value, "13") == 0 ? 0 : refuse(h, 426, "only version 13 of WebSocket");
    case FIELD_PROTOCOL:
        // MQTT 5.0 section 6.0: the client names "mqtt". The name from before 3.1.1 is known too.
        if (list_has(h->value, "mqtt")) h->subprotocol = "mqtt";
        else if (h->subprotocol == NULL && list_has(h->value, "mqttv3.1")) h->subprotocol = "mqttv3.1";
        return 0;
    case FIELD_ORIGIN:
        memcpy(h->origin, h->value, h->value_len + 1u);
        h->origin_len = h->value_len;
        return 0;
    default: return 0;
    }
}

// --- llhttp ---

static int on_url(llhttp_t *l, const char *at, size_t len) {
    ws_handshake *h = handshake_of(l);
    size_t take = h->in_query ? 0 : len;
    for (size_t i = 0; i < take; i++) {
        if (at[i] != '?') continue;
        h->in_query = true;
        take = i;
    }
    if (take > WS_PATH_BYTES - h->path_len) return refuse(h, 414, "the path is too long");
    memcpy(h->path + h->path_len, at, take);
    h->path_len += (u16)take;
    return 0;
}

static int on_header_field(llhttp_t *l, const char *at, size_t len) {
    ws_handshake *h = handshake_of(l);
    // A name that is longer than any we know is cut one byte past them, so it can not match.
    size_t take = MIN(len, sizeof(h->name) - h->name_len);
    memcpy(h->name + h->name_len, at, take);
    h->name_len += (u16)take;
    return 0;
}

static int on_header_field_complete(llhttp_t *l) {
    ws_handshake *h = handshake_of(l);
    if (++h->header_count > LIMIT_WS_HEADERS) return refuse(h, 431, "too many header fields");
    h->field = FIELD_OTHER;
    for (u32 i = 0; i < ARRAY_LEN(fields); i++) {
        bool same = strlen(fields[i].name) == h->name_len && strncasecmp(fields[i].name, h->name, h->name_len) == 0;
        if (same) h->field = fields[i].field;
    }
    h->name_len = h->value_len = 0;
    // Lists may come in several lines; of the others there is one (RFC 9110 section 5.3).
    u32 single = BIT(FIELD_HOST) | BIT(FIELD_KEY) | BIT(FIELD_VERSION) | BIT(FIELD_ORIGIN);
    if ((BIT(h->field) & single & h->seen) != 0) return refuse(h, 400, "a header field is given twice");
    h->seen |= (u8)BIT(h->field);
    return 0;
}

static int on_header_value(llhttp_t *l, const char *at, size_t len) {
    ws_handshake *h = handshake_of(l);
    if (h->field == FIELD_OTHER) return 0;
    if (len > WS_VALUE_BYTES - h->value_len) return refuse(h, 431, "a header field is too long");
    memcpy(h->value + h->value_len, at, len);
    h->value_len += (u16)len;
    return 0;
}

static int on_header_value_complete(llhttp_t *l) {
    ws_handshake *h = handshake_of(l);
    while (h->value_len > 0 && strchr(" \t", h->value[h->value_len - 1]) != NULL) h->value_len--;
    h->value[h->value_len] = '\0';
    if (h->field == FIELD_OTHER) return 0;
    if (memchr(h->value, '\0', h->value_len) != NULL) return refuse(h, 400, "a NUL in a header field");
    return value_take(h);
}

static int request_check(ws_handshake *h) {
    const llhttp_t *l = &h->llhttp;
    h->path[h->path_len] = '\0';
    if (l->http_major != 1 || l->http_minor > 1) return refuse(h, 505, "only HTTP/1.1");
    bool any = strcmp(h->policy->path, "*") == 0;
    if (!any && (strcmp(h->path, h->policy->path) != 0 || h->path_len != strlen(h->policy->path))) {
        return refuse(h, 404, "there is nothing at this path");
    }
    if (l->method != HTTP_GET) return refuse(h, 405, "only GET");
    if (l->http_minor != 1) return refuse(h, 505, "only HTTP/1.1");
    if ((h->seen & BIT(FIELD_HOST)) == 0) return refuse(h, 400, "no Host field");
    bool body = (l->flags & F_CHUNKED) != 0 || ((l->flags & F_CONTENT_LENGTH) != 0 && l->content_length > 0);
    if (body) return refuse(h, 400, "a body");
    if (!h->upgrade || !h->connection) return refuse(h, 426, "not an upgrade to WebSocket");
    if ((h->seen & BIT(FIELD_VERSION)) == 0) return refuse(h, 426, "no Sec-WebSocket-Version field");
    if (h->key[0] == '\0') return refuse(h, 400, "no Sec-WebSocket-Key field");
    if ((h->seen & BIT(FIELD_ORIGIN)) != 0 && !ws_origin_is_allowed(h->policy, h->origin, h->host)) {
        return refuse(h, 403, "this origin is not allowed");
    }
    if (h->subprotocol == NULL) return refuse(h, 400, "the subprotocol mqtt is not offered");
    return 0;
}

static int on_headers_complete(llhttp_t *l) {
    ws_handshake *h = handshake_of(l);
    int wrong = request_check(h);
    if (wrong != 0) return wrong;
    h->ready = true;
    return 2; // no body follows, and what comes is not HTTP
}

static const llhttp_settings_t settings = {
    .on_url = on_url,
    .on_header_field = on_header_field,
    .on_header_field_complete = on_header_field_complete,
    .on_header_value = on_header_value,
    .on_header_value_complete = on_header_value_complete,
    .on_headers_complete = on_headers_complete,
};

void ws_handshake_init(ws_handshake *h, const ws_policy *policy) {
    memset(h, 0, sizeof(*h));
    h->policy = policy;
    llhttp_init(&h->llhttp, HTTP_REQUEST, &settings);
    h->llhttp.data = h;
}

void ws_handshake_moved(ws_handshake *h, const ws_policy *policy) {
    h->policy = policy;
    h->llhttp.data = h;
}

ws_progress ws_handshake_feed(ws_handshake *h, const u8 *data, u32 len, u32 *used) {
    u32 room = LIMIT_WS_REQUEST_BYTES - h->bytes, take = MIN(len, room);
    llhttp_errno_t result = llhttp_execute(&h->llhttp, (const char *)data, take);
    *used = take;
    if (h->ready) {
        const char *end = llhttp_get_error_pos(&h->llhttp);
        if (result != HPE_OK && end != NULL) *used = (u32)(end - (const char *)data);
        return WS_READY;
    }
    h->bytes += take;
    if (h->status == 0 && result != HPE_OK) refuse(h, 400, "malformed HTTP request");
    if (h->status == 0 && len > room) refuse(h, 431, "the request is too long");
    return h->status != 0 ? WS_REFUSED : WS_NEED_MORE;
}

// --- the answer ---

void ws_accept_make(const char *key, size_t key_len, char out[WS_ACCEPT_BYTES]) {
    static const char suffix[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"; // section 1.3
    u8 digest[br_sha1_SIZE];
    br_sha1_context sha;
    br_sha1_init(&sha);
    br_sha1_update(&sha, key, key_len);
    br_sha1_update(&sha, suffix, sizeof(suffix) - 1);
    br_sha1_out(&sha, digest);
    _Static_assert(BASE64_CHARS(sizeof(digest)) == WS_ACCEPT_BYTES, "an answer's length");
    base64_encode(digest, sizeof(digest), out);
}

static const char *status_text(int status) {
    switch (status) {
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 414: return "URI Too Long";
    case 426: return "Upgrade Required";
    case 431: return "Request Header Fields Too Large";
    case 505: return "HTTP Version Not Supported";
    default: return "Bad Request";
    }
}

u32 ws_handshake_answer(const ws_handshake *h, char out[WS_ANSWER_BYTES]) {
    int len;
    if (h->status == 0) {
        char accept[WS_ACCEPT_BYTES];
        ws_accept_make(h->key, strlen(h->key), accept);
        len = snprintf(out, WS_ANSWER_BYTES,
                       "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                       "Sec-WebSocket-Accept: %.*s\r\nSec-WebSocket-Protocol: %s\r\n\r\n",
                       (int)sizeof(accept), accept, h->subprotocol);
    } else {
        // RFC 6455 section 4.2.2 and RFC 9110 sections 15.5.22 and 15.5.6.
        const char *more = h->status == 426   ? "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                           : h->status == 405 ? "Allow: GET\r\n"
                                              : "";
        len = snprintf(out, WS_ANSWER_BYTES,
                       "HTTP/1.1 %d %s\r\n%sContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
                       "Connection: %sclose\r\n\r\n%s\n",
                       h->status, status_text(h->status), more, strlen(h->why) + 1,
                       h->status == 426 ? "Upgrade, " : "", h->why);
    }
    ASSERT(len > 0 && (u32)len < WS_ANSWER_BYTES);
    return (u32)len;
}
