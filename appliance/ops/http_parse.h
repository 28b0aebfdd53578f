// SPDX-License-Identifier: Apache-2.0
// http_parse.h: bytes in, whole HTTP/1.x requests out (RFC 9112). No I/O, no clock: the same code runs
// under the admin listener, the unit tests and the fuzzer. The grammar is llhttp's, in strict mode;
// this file adds the bounds, keeps the few fields that matter, and takes the request target apart.
//
// One request at a time: when http_parser_feed says HTTP_READY the request is valid until
// http_parser_next; bytes behind it are the caller's to keep.
#ifndef SLUICE_OPS_HTTP_PARSE_H
#define SLUICE_OPS_HTTP_PARSE_H

#include <llhttp.h>

#include "base/base.h"
#include "limits.h"

#define HTTP_QUERY_PARAMS 16u
#define HTTP_FIELD_NAME_BYTES 32u

// Methods that mean something here; the value is a bit so that a route can say which it takes.
typedef enum http_method {
    HTTP_METHOD_GET = 1,
    HTTP_METHOD_HEAD = 2,
    HTTP_METHOD_POST = 4,
    HTTP_METHOD_DELETE = 8,
    HTTP_METHOD_OTHER = 16,
} http_method;

typedef struct http_param {
    const char *name, *value; // decoded, NUL-terminated, without NUL inside
} http_param;

typedef struct http_request {
    http_method method;
    u8 minor;              // HTTP/1.minor
    bool keep_alive;       // what the client asks for (RFC 9112 section 9.3)
    bool has_host;
    bool admin_header;     // X-Sluice-Admin: 1
    bool expect_continue;  // Expect: 100-continue
    char bearer[LIMIT_HTTP_HOST_BYTES + 1]; // Authorization: Bearer ...; "" = none
    char host[LIMIT_HTTP_HOST_BYTES + 1]; // Host field, or the authority of an absolute-form target
    const char *path;      // decoded
    http_param params[HTTP_QUERY_PARAMS];
    u32 param_count;
    u8 *body;              // NULL when empty
    u32 body_len;
} http_request;

typedef enum http_progress {
    HTTP_NEED_MORE,  // all bytes used, the request is not complete
    HTTP_READY,      // parser->request is whole
    HTTP_REFUSED,    // parser->status tells why (400, 413, 414, 431, 500, 505); only closing is left
} http_progress;

typedef struct http_parser {
    llhttp_t llhttp;
    http_request request;
    int status;                // of HTTP_REFUSED
    const char *why;           // static text for people
    bool started;              // bytes of a request were seen
    bool headers_done;
    bool ready;
    u32 header_bytes, header_count;
    u32 host_count;
    u8 field;                  // which field's value is being read
    char field_name[HTTP_FIELD_NAME_BYTES];
    u32 field_name_len;
    char value[LIMIT_HTTP_HOST_BYTES + 1]; // of a field that matters, cut at its end
    u32 value_len;
    char target[LIMIT_HTTP_URL_BYTES + 1]; // as sent, then decoded in place
    u32 target_len;
    u32 body_size;
} http_parser;

void http_parser_init(http_parser *p);
// Frees the body.
void http_parser_free(http_parser *p);
// Feeds bytes; *used receives how many belong to this request. Not to be called again after HTTP_READY
// (before http_parser_next) or HTTP_REFUSED.
http_progress http_parser_feed(http_parser *p, const u8 *data, u32 len, u32 *used);
// Ready for the next request on the same connection.
void http_parser_next(http_parser *p);

// Value of a query parameter, NULL when absent.
const char *http_param_get(const http_request *r, const char *name);
// The first parameter whose name is not in the NULL-terminated list, NULL when all are known.
const char *http_param_unknown(const http_request *r, const char *const *known);
// A decimal parameter: *out is left alone when it is absent. False when it is not a number <= max.
bool http_param_u64(const http_request *r, const char *name, u64 max, u64 *out);
// "0"/"1"/"true"/"false"/"" (present without a value = true). False when it is something else.
bool http_param_bool(const http_request *r, const char *name, bool *out);

#endif
