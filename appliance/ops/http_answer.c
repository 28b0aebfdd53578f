// SPDX-License-Identifier: Apache-2.0
// http_answer.c: answers as bytes: the head with its fields (RFC 9110, RFC 9112), whole bodies with
// Content-Length, paged ones in chunks. A HTTP/1.0 client gets paged bodies until the connection closes.
//
// Invariants: every answer is no-store and carries no CORS field; what conn_send refuses ends the
// connection with the reason it gave.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <yyjson.h>

#include "ops/http.h"

#define HEAD_BYTES 512u

static const struct {
    int status;
    const char *text;
} status_texts[] = {
    {200, "OK"},
    {202, "Accepted"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
};

static const char *status_text(int status) {
    for (u32 i = 0; i < ARRAY_LEN(status_texts); i++) {
        if (status_texts[i].status == status) return status_texts[i].text;
    }
    return "Unknown";
}

static void send_bytes(http_exchange *x, const void *bytes, size_t len) {
    if (x->fatal != 0 || len == 0) return;
    int reason = conn_send(x->c, bytes, (u32)len);
    if (reason > 0) x->fatal = (u8)reason;
}

// The date in the form of RFC 9110 section 5.6.7. Day and month names do not depend on a locale here.
static void date_text(char *out, size_t size) {
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t now = (time_t)(clock_real_ns() / NS_PER_S);
    struct tm tm;
    gmtime_r(&now, &tm);
    snprintf(out, size, "%s, %02d %s %d %02d:%02d:%02d GMT", days[tm.tm_wday], tm.tm_mday,
             months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

// extra: whole further fields, each ended by CRLF, or "".
static void send_head(http_exchange *x, int status, const char *content_type, const char *extra) {
    char head[HEAD_BYTES], date[64];
    date_text(date, sizeof(date));
    int n = snprintf(head, sizeof(head),
                     "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: %s\r\nCache-Control: no-store\r\n"
                     "X-Content-Type-Options: nosniff\r\n%sConnection: %s\r\n\r\n",
                     status, status_text(status), date, content_type, extra,
                     x->keep_alive ? "keep-alive" : "close");
    ASSERT(n > 0 && (size_t)n < sizeof(head));
    send_bytes(x, head, (size_t)n);
}

static void answer_whole(http_exchange *x, int status, const char *content_type, const void *body,
                         size_t len, const char *allow) {
    ASSERT(x->phase == HTTP_WAITING);
    char extra[128];
    snprintf(extra, sizeof(extra), "%sContent-Length: %zu\r\n", allow, len);
    send_head(x, status, content_type, extra);
    if (!x->head_only) send_bytes(x, body, len);
    http_exchange_end(x);
}

void http_answer(http_exchange *x, int status, const char *content_type, const void *body, size_t len) {
    answer_whole(x, status, content_type, body, len, "");
}

// {"error":"..."}, with a newline for people who use curl. Returns the length.
static size_t error_json(const char *message, char *out, size_t size) {
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    size_t len = 0;
    char *json = NULL;
    if (doc != NULL) {
        yyjson_mut_val *root = yyjson_mut_obj(doc);
        yyjson_mut_doc_set_root(doc, root);
        yyjson_mut_obj_add_str(doc, root, "error", message);
        json = yyjson_mut_write(doc, YYJSON_WRITE_ALLOW_INVALID_UNICODE, &len);
    }
    const char *json_text = json != NULL ? json : "{\"error\":\"out of memory\"}";
    int n = snprintf(out, size, "%s\n", json_text);
    free(json);
    yyjson_mut_doc_free(doc);
    return MIN((size_t)MAX(n, 0), size - 1);
}

void http_answer_error(http_exchange *x, int status, const char *format, ...) {
    char message[1100], body[7000]; // JSON may need six bytes for one
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    size_t len = error_json(message, body, sizeof(body));
    answer_whole(x, status, HTTP_JSON, body, len, "");
}

void http_answer_not_allowed(http_exchange *x, u32 allowed) {
    char allow[64], body[128];
    snprintf(allow, sizeof(allow), "Allow: %s%s%s\r\n",
             (allowed & HTTP_METHOD_GET) != 0 ? "GET, HEAD" : "",
             (allowed & HTTP_METHOD_DELETE) != 0 ? ", DELETE" : "",
             (allowed & HTTP_METHOD_POST) != 0 ? "POST" : "");
    size_t len = error_json("this resource does not take this method", body, sizeof(body));
    answer_whole(x, 405, HTTP_JSON, body, len, allow);
}

static u32 followers; // answers without an end; touched by the operations worker only

void http_answer_pages(http_exchange *x, const char *content_type, http_source source, bool follows) {
    ASSERT(x->phase == HTTP_WAITING);
    if (follows && !x->head_only) {
        if (followers >= LIMIT_HTTP_FOLLOWERS) {
            http_answer_error(x, 503, "%u clients follow already; that is the limit",
                              LIMIT_HTTP_FOLLOWERS);
            return;
        }
        followers++;
        x->follows = true;
    }
    x->chunked = http_req(x)->minor >= 1;
    if (!x->chunked) x->keep_alive = false;
    send_head(x, 200, content_type, x->chunked ? "Transfer-Encoding: chunked\r\n" : "");
    if (x->head_only) {
        http_exchange_end(x);
        return;
    }
    x->source = source;
    x->phase = HTTP_SENDING;
    x->deadline_ns = 0;
}

void http_answer_page(http_exchange *x) {
    if (x->page.len == 0) return; // an empty chunk would end the body
    char size[20];
    int n = snprintf(size, sizeof(size), "%zx\r\n", x->page.len);
    if (x->chunked) send_bytes(x, size, (size_t)n);
    send_bytes(x, x->page.data, x->page.len);
    if (x->chunked) send_bytes(x, "\r\n", 2);
}

void http_answer_pages_end(http_exchange *x) {
    if (x->chunked) send_bytes(x, "0\r\n\r\n", 5);
    http_exchange_end(x);
}

void http_answer_forget_follower(http_exchange *x) {
    if (!x->follows) return;
    ASSERT(followers > 0);
    followers--;
    x->follows = false;
}
