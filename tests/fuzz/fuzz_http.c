// SPDX-License-Identifier: Apache-2.0
// fuzz_http.c: the admin port's request parser with bytes from anyone: cut into pieces as the input says, several
// requests on one connection, and every value that a request may carry into the parsers behind it.
// The bytes after the first one are the stream; the first one seeds the cuts (0 = not cut).
#include <stdlib.h>
#include <string.h>

#include "ops/conn_id.h"
#include "ops/conn_view.h"
#include "ops/http_parse.h"
#include "ops/routes.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

// A request that was handed out keeps the promises of http_parse.h.
static void check_request(const http_request *r) {
    static const char *const known[] = {"peer", "limit", NULL};
    ASSERT(r->path != NULL && r->path[0] == '/' && strlen(r->path) <= LIMIT_HTTP_URL_BYTES);
    ASSERT(strlen(r->host) <= LIMIT_HTTP_HOST_BYTES);
    ASSERT(r->param_count <= HTTP_QUERY_PARAMS);
    ASSERT(r->body_len <= LIMIT_HTTP_BODY_BYTES);
    ASSERT(r->minor == 0 || r->has_host);
    if (r->body_len > 0) {
        volatile u8 last = r->body[r->body_len - 1];
        (void)last;
    }
    for (u32 i = 0; i < r->param_count; i++) {
        const http_param *p = &r->params[i];
        ASSERT(strlen(p->name) + strlen(p->value) <= LIMIT_HTTP_URL_BYTES);
        ASSERT(http_param_get(r, p->name) == p->value); // no name twice
        u64 id, number = 0;
        bool yes;
        peer_filter filter;
        if (peer_filter_parse(p->value, &filter)) ASSERT(filter.bits <= 128);
        (void)conn_id_parse(p->value, &id);
        if (http_param_u64(r, p->name, 1000, &number)) ASSERT(number <= 1000);
        (void)http_param_bool(r, p->name, &yes);
    }
    (void)http_param_unknown(r, known);
    // Whatever Host says, a change over TCP needs the header.
    if (r->method == HTTP_METHOD_POST && !r->admin_header) ASSERT(guard_refusal(r, false, true, "a.b") != NULL);
    (void)guard_refusal(r, false, false, "gateway.lan");
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
    if (size == 0) return 0;
    http_parser p;
    http_parser_init(&p);
    u32 seed = data[0];
    for (size_t at = 1; at < size;) {
        seed = seed * 1103515245 + 12345;
        u32 left = (u32)(size - at), used;
        u32 take = data[0] == 0 ? left : MIN(left, 1 + (seed >> 16) % 40);
        u8 *copy = malloc(take); // of exactly this size: a read beyond it is seen
        if (copy == NULL) break;
        memcpy(copy, data + at, take);
        http_progress progress = http_parser_feed(&p, copy, take, &used);
        free(copy);
        ASSERT(used <= take);
        at += used;
        if (progress == HTTP_REFUSED) {
            ASSERT(p.status >= 400 && p.status < 600 && p.why != NULL);
            break;
        }
        if (progress == HTTP_READY) {
            check_request(&p.request);
            if (!p.request.keep_alive) break;
            http_parser_next(&p);
        } else {
            ASSERT(used == take);
        }
    }
    http_parser_free(&p);
    return 0;
}
