// SPDX-License-Identifier: Apache-2.0
// http_parse.c: see http_parse.h. llhttp calls back with pieces of the target, of field names, of values
// and of the body; the pieces are gathered here under their bounds, and the first bound that is exceeded
// decides the status of the refusal.
//
// Invariants: nothing is written beyond a fixed array; the body is the only allocation; a request is
// handed out only after its target has been decoded and checked.
#include "ops/http_parse.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FIELD_OTHER, FIELD_HOST, FIELD_ADMIN, FIELD_EXPECT, FIELD_AUTHORIZATION };

static http_parser *parser_of(llhttp_t *l) {
    return l->data;
}

// Ends the parse with a status. The first reason wins.
static int refuse(http_parser *p, int status, const char *why) {
    if (p->status == 0) {
        p->status = status;
        p->why = why;
    }
    return HPE_USER;
}

static int on_url(llhttp_t *l, const char *at, size_t len) {
    http_parser *p = parser_of(l);
    if (len > LIMIT_HTTP_URL_BYTES - p->target_len) return refuse(p, 414, "request target too long");
    memcpy(p->target + p->target_len, at, len);
    p->target_len += (u32)len;
    return 0;
}

static int count_header_bytes(http_parser *p, size_t len) {
    if (len > LIMIT_HTTP_HEADER_BYTES - p->header_bytes) return refuse(p, 431, "header fields too large");
    p->header_bytes += (u32)len;
    return 0;
}

static int on_header_field(llhttp_t *l, const char *at, size_t len) {
    http_parser *p = parser_of(l);
    int err = count_header_bytes(p, len);
    if (err != 0) return err;
    // A name that is longer than any we know is cut one byte past them, so it can not match.
    size_t room = sizeof(p->field_name) - p->field_name_len;
    size_t take = MIN(len, room);
    memcpy(p->field_name + p->field_name_len, at, take);
    p->field_name_len += (u32)take;
    return 0;
}

static bool field_is(const http_parser *p, const char *name) {
    return strlen(name) == p->field_name_len && strncasecmp(p->field_name, name, p->field_name_len) == 0;
}

static int on_header_field_complete(llhttp_t *l) {
    http_parser *p = parser_of(l);
    if (++p->header_count > LIMIT_HTTP_HEADERS) return refuse(p, 431, "too many header fields");
    p->field = FIELD_OTHER;
    if (field_is(p, "host")) p->field = FIELD_HOST;
    else if (field_is(p, "x-sluice-admin")) p->field = FIELD_ADMIN;
    else if (field_is(p, "expect")) p->field = FIELD_EXPECT;
    else if (field_is(p, "authorization")) p->field = FIELD_AUTHORIZATION;
    p->field_name_len = 0;
    p->value_len = 0;
    return 0;
}

static int on_header_value(llhttp_t *l, const char *at, size_t len) {
    http_parser *p = parser_of(l);
    int err = count_header_bytes(p, len);
    if (err != 0 || p->field == FIELD_OTHER) return err;
    if (len > LIMIT_HTTP_HOST_BYTES - p->value_len) {
        return p->field == FIELD_HOST ? refuse(p, 400, "Host field too long") : 0;
    }
    memcpy(p->value + p->value_len, at, len);
    p->value_len += (u32)len;
    return 0;
}

static int on_header_value_complete(llhttp_t *l) {
    http_parser *p = parser_of(l);
    http_request *r = &p->request;
    while (p->value_len > 0 && (p->value[p->value_len - 1] == ' ' || p->value[p->value_len - 1] == '\t')) {
        p->value_len--;
    }
    p->value[p->value_len] = '\0';
    switch (p->field) {
    case FIELD_HOST:
        // RFC 9112 section 3.2: more than one Host is an error.
        if (++p->host_count > 1) return refuse(p, 400, "more than one Host field");
        memcpy(r->host, p->value, p->value_len + 1);
        r->has_host = true;
        break;
    case FIELD_ADMIN:
        r->admin_header = strcmp(p->value, "1") == 0;
        break;
    case FIELD_AUTHORIZATION: // RFC 6750 section 2.1; the scheme's case does not matter
        if (strncasecmp(p->value, "Bearer ", 7) == 0) memcpy(r->bearer, p->value + 7, p->value_len - 7 + 1);
        break;
    case FIELD_EXPECT:
        r->expect_continue = strcasecmp(p->value, "100-continue") == 0;
        break;
    default:
        break;
    }
    p->field = FIELD_OTHER;
    return 0;
}

static http_method method_of(u8 method) {
    switch (method) {
    case HTTP_GET: return HTTP_METHOD_GET;
    case HTTP_HEAD: return HTTP_METHOD_HEAD;
    case HTTP_POST: return HTTP_METHOD_POST;
    case HTTP_DELETE: return HTTP_METHOD_DELETE;
    default: return HTTP_METHOD_OTHER;
    }
}

static int on_headers_complete(llhttp_t *l) {
    http_parser *p = parser_of(l);
    if (l->http_major != 1 || l->http_minor > 1) return refuse(p, 505, "only HTTP/1.0 and HTTP/1.1");
    p->headers_done = true;
    p->request.method = method_of(l->method);
    p->request.minor = l->http_minor;
    // RFC 9112 section 3.2: a HTTP/1.1 request without Host is an error.
    if (l->http_minor == 1 && p->host_count == 0) return refuse(p, 400, "no Host field");
    if ((l->flags & F_CONTENT_LENGTH) != 0 && l->content_length > LIMIT_HTTP_BODY_BYTES) {
        return refuse(p, 413, "body too large");
    }
    // An upgrade is optional for a server; without it the request is an ordinary one (RFC 9110 section 7.8).
    if (l->method == HTTP_CONNECT) return refuse(p, 400, "CONNECT is not for this server");
    l->upgrade = 0;
    return 0;
}

static int on_body(llhttp_t *l, const char *at, size_t len) {
    http_parser *p = parser_of(l);
    http_request *r = &p->request;
    if (len > LIMIT_HTTP_BODY_BYTES - r->body_len) return refuse(p, 413, "body too large");
    u32 need = r->body_len + (u32)len;
    if (need > p->body_size) {
        u32 size = MAX(p->body_size, 1024u);
        while (size < need) size *= 2;
        u8 *body = realloc(r->body, size);
        if (body == NULL) return refuse(p, 503, "no memory for the body");
        r->body = body;
        p->body_size = size;
    }
    if (len > 0) memcpy(r->body + r->body_len, at, len);
    r->body_len = need;
    return 0;
}

static int on_message_complete(llhttp_t *l) {
    http_parser *p = parser_of(l);
    p->ready = true;
    p->request.keep_alive = llhttp_should_keep_alive(l) != 0;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_url = on_url,
    .on_header_field = on_header_field,
    .on_header_field_complete = on_header_field_complete,
    .on_header_value = on_header_value,
    .on_header_value_complete = on_header_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

static void parser_clear(http_parser *p) {
    free(p->request.body);
    memset((char *)p + sizeof(p->llhttp), 0, sizeof(*p) - sizeof(p->llhttp));
}
_Static_assert(offsetof(http_parser, llhttp) == 0, "parser_clear keeps the first member");

void http_parser_init(http_parser *p) {
    memset(p, 0, sizeof(*p));
    llhttp_init(&p->llhttp, HTTP_REQUEST, &settings);
    p->llhttp.data = p;
}

void http_parser_free(http_parser *p) {
    parser_clear(p);
}

void http_parser_next(http_parser *p) {
    parser_clear(p);
    llhttp_resume(&p->llhttp);
}

// --- request target ---

static int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

// Decodes %XX (and + where asked) in place and ends the string. False for a bad escape or a NUL.
static bool decode(char *s, size_t len, bool plus_is_space) {
    char *out = s;
    for (size_t i = 0; i < len; i++) {
        char c = s[i];
        if (c == '%') {
            int high = i + 2 < len ? hex_value(s[i + 1]) : -1;
            int low = i + 2 < len ? hex_value(s[i + 2]) : -1;
            if (high < 0 || low < 0) return false;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        if (c == '\0') return false;
        *out++ = c;
    }
    *out = '\0';
    return true;
}

// name=value&name=value, decoded in place. The string's end and every '&' and '=' become NUL.
static int parse_query(http_parser *p, char *query) {
    http_request *r = &p->request;
    while (query != NULL && *query != '\0') {
        char *name = query;
        size_t len = strcspn(name, "&");
        query = name[len] == '&' ? name + len + 1 : NULL;
        if (len == 0) continue;
        size_t name_len = strcspn(name, "=&");
        char *value = name + len; // the NUL when there is no '='
        size_t value_len = 0;
        if (name_len < len) {
            value = name + name_len + 1;
            value_len = len - name_len - 1;
        }
        name[len] = '\0';
        if (!decode(value, value_len, true) || !decode(name, name_len, true)) {
            return refuse(p, 400, "bad escape in the query");
        }
        if (http_param_get(r, name) != NULL) return refuse(p, 400, "a query parameter is given twice");
        if (r->param_count == HTTP_QUERY_PARAMS) return refuse(p, 400, "too many query parameters");
        r->params[r->param_count++] = (http_param){.name = name, .value = value};
    }
    return 0;
}

// RFC 9112 section 3.2: origin-form, or absolute-form, whose authority then stands for Host.
static int parse_target(http_parser *p) {
    http_request *r = &p->request;
    char *s = p->target;
    s[p->target_len] = '\0';
    if (strlen(s) != p->target_len) return refuse(p, 400, "NUL in the request target");
    if (strncasecmp(s, "http://", 7) == 0) {
        s += 7;
        size_t len = strcspn(s, "/?#");
        if (len == 0 || len > LIMIT_HTTP_HOST_BYTES) return refuse(p, 400, "bad authority");
        memcpy(r->host, s, len);
        r->host[len] = '\0';
        r->has_host = true;
        s += len;
        if (*s != '/') {
            // "http://host" and "http://host?x": the path is empty. One byte of the authority makes room.
            s--;
            *s = '/';
        }
    }
    if (*s != '/') return refuse(p, 400, "request target is not a path");
    s[strcspn(s, "#")] = '\0';
    size_t path_len = strcspn(s, "?");
    char *query = s[path_len] == '?' ? s + path_len + 1 : NULL;
    if (!decode(s, path_len, false)) return refuse(p, 400, "bad escape in the path");
    r->path = s;
    return parse_query(p, query);
}

http_progress http_parser_feed(http_parser *p, const u8 *data, u32 len, u32 *used) {
    ASSERT(!p->ready && p->status == 0);
    *used = len;
    if (len == 0) return HTTP_NEED_MORE;
    llhttp_errno_t err = llhttp_execute(&p->llhttp, (const char *)data, len);
    // Empty lines before a request line are allowed (RFC 9112 section 2.2) and start nothing.
    if (p->target_len > 0 || p->header_bytes > 0) p->started = true;
    for (u32 i = 0; i < len && !p->started; i++) p->started = data[i] != '\r' && data[i] != '\n';
    if (err == HPE_OK) return HTTP_NEED_MORE;
    if (err == HPE_PAUSED && p->ready) {
        *used = (u32)((const u8 *)llhttp_get_error_pos(&p->llhttp) - data);
        ASSERT(*used <= len);
        if (parse_target(p) != 0) return HTTP_REFUSED;
        return HTTP_READY;
    }
    if (err == HPE_INVALID_VERSION) refuse(p, 505, "only HTTP/1.0 and HTTP/1.1");
    else refuse(p, 400, "malformed request");
    return HTTP_REFUSED;
}

// --- parameters ---

const char *http_param_get(const http_request *r, const char *name) {
    for (u32 i = 0; i < r->param_count; i++) {
        if (strcmp(r->params[i].name, name) == 0) return r->params[i].value;
    }
    return NULL;
}

const char *http_param_unknown(const http_request *r, const char *const *known) {
    for (u32 i = 0; i < r->param_count; i++) {
        u32 k = 0;
        while (known[k] != NULL && strcmp(known[k], r->params[i].name) != 0) k++;
        if (known[k] == NULL) return r->params[i].name;
    }
    return NULL;
}

bool http_param_u64(const http_request *r, const char *name, u64 max, u64 *out) {
    const char *s = http_param_get(r, name);
    if (s == NULL) return true;
    u64 v = 0;
    if (*s == '\0') return false;
    for (; *s != '\0'; s++) {
        if (*s < '0' || *s > '9' || v > (UINT64_MAX - 9) / 10) return false;
        v = v * 10 + (u64)(*s - '0');
    }
    if (v > max) return false;
    *out = v;
    return true;
}

bool http_param_bool(const http_request *r, const char *name, bool *out) {
    const char *s = http_param_get(r, name);
    if (s == NULL) return true;
    bool yes = *s == '\0' || strcmp(s, "1") == 0 || strcmp(s, "true") == 0;
    if (!yes && strcmp(s, "0") != 0 && strcmp(s, "false") != 0) return false;
    *out = yes;
    return true;
}
