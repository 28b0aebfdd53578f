// SPDX-License-Identifier: Apache-2.0
// fuzz_stream_from.c: any bytes as a place to begin reading, as a client and an HTTP request may send them. What is
// accepted keeps the promises of stream_from.h.
#include <stdlib.h>
#include <string.h>

#include "ops/stream_query.h"
#include "store/stream_from.h"

#define CHECK(ok) \
    do { \
        if (!(ok)) abort(); \
    } while (0)

#define NOW_MS 1767225600000ull

static void check_from(const u8 *data, size_t size) {
    static stream_from_all from;
    if (!stream_from_parse((const char *)data, (u32)size, NOW_MS, &from)) return;
    CHECK(size <= LIMIT_STREAM_FROM_BYTES);
    for (u32 i = 0; i < LIMIT_WORKERS_MAX; i++) {
        stream_from one = stream_from_of(&from, i);
        CHECK(one.kind == FROM_EARLIEST || one.kind == FROM_LATEST || one.kind == FROM_OFFSET || one.kind == FROM_TIME);
        if (one.kind == FROM_OFFSET) CHECK(one.value > 0 && one.value < 1000000000000000000ull);
        if (one.kind == FROM_TIME) CHECK(one.value < 1000000000000000ull);
        CHECK(from.by_partition || (one.kind == from.all.kind && one.value == from.all.value));
    }
}

// The first byte chooses a parameter, the rest is its value and, once more, the path.
static void check_request(const u8 *data, size_t size) {
    static const char *const names[] = {"from", "limit", "wait", "follow", "partition", "other"};
    char text[512];
    size_t len = MIN(size - 1, sizeof(text) - 1);
    memcpy(text, data + 1, len);
    text[len] = '\0';
    static http_request r;
    memset(&r, 0, sizeof(r));
    r.params[0] = (http_param){names[data[0] % ARRAY_LEN(names)], text};
    r.param_count = 1;
    stream_query q;
    if (stream_query_parse(&r, NOW_MS, &q) == NULL) {
        CHECK(q.limit >= 1 && q.limit <= LIMIT_STREAM_FETCH_MESSAGES && q.wait_ms <= LIMIT_STREAM_WAIT_MS);
        CHECK(q.partition >= -1 && q.partition < (int)LIMIT_WORKERS_MAX);
    }
    stream_path path = stream_path_parse(text);
    CHECK(strlen(path.name) < LIMIT_NAME_BYTES);
    if (path.kind == STREAM_PATH_CONSUMER) CHECK(path.consumer[0] != '\0' && strchr(path.consumer, '/') == NULL);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
    check_from(data, size);
    if (size > 0) check_request(data, size);
    return 0;
}
