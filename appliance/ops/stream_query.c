// SPDX-License-Identifier: Apache-2.0
// stream_query.c: see stream_query.h.
#include "ops/stream_query.h"

#include <string.h>

#include "conf/config.h"

#define LIMIT_DEFAULT 100u

const char *stream_query_parse(const http_request *r, u64 now_ms, stream_query *out) {
    static const char *const known[] = {"from", "limit", "wait", "follow", "partition", NULL};
    *out = (stream_query){.limit = LIMIT_DEFAULT, .partition = -1};
    u64 limit = LIMIT_DEFAULT, partition = UINT64_MAX;
    if (http_param_unknown(r, known) != NULL) return "parameters: from, limit, wait, follow, partition";
    const char *from = http_param_get(r, "from"), *wait = http_param_get(r, "wait");
    if (from == NULL) from = "earliest";
    if (!stream_from_parse(from, (u32)MIN(strlen(from), (size_t)UINT32_MAX), now_ms, &out->from)) {
        return "from: earliest, latest, an offset, PARTITION:OFFSET,..., -1h, @SECONDS or 2026-03-01T12:00:00Z";
    }
    if (wait != NULL && (config_parse_duration_ms(wait, &out->wait_ms) != 0 || out->wait_ms > LIMIT_STREAM_WAIT_MS)) {
        return "wait: a time with its unit, 250ms or 30s, at most 5m";
    }
    if (!http_param_u64(r, "limit", LIMIT_STREAM_FETCH_MESSAGES, &limit) || limit == 0) return "limit: 1 to 10000";
    if (!http_param_bool(r, "follow", &out->follow)) return "follow: 0 or 1";
    if (!http_param_u64(r, "partition", LIMIT_WORKERS_MAX - 1, &partition)) return "partition: 0 to 63";
    out->limit = (u32)limit;
    if (partition != UINT64_MAX) out->partition = (int)partition;
    return NULL;
}
_Static_assert(LIMIT_STREAM_FETCH_MESSAGES == 10000 && LIMIT_STREAM_WAIT_MS == 300000 && LIMIT_WORKERS_MAX == 64,
               "named in the messages above");

stream_path stream_path_parse(const char *rest) {
    stream_path path = {.kind = STREAM_PATH_WRONG};
    const char *slash = strchr(rest, '/');
    size_t len = slash == NULL ? strlen(rest) : (size_t)(slash - rest);
    if (len == 0 || len >= sizeof(path.name)) return path;
    memcpy(path.name, rest, len);
    if (slash == NULL) {
        path.kind = STREAM_PATH_STREAM;
    } else if (strcmp(slash, "/messages") == 0) {
        path.kind = STREAM_PATH_MESSAGES;
    } else if (strncmp(slash, "/consumers/", 11) == 0 && slash[11] != '\0' && strchr(slash + 11, '/') == NULL) {
        path.kind = STREAM_PATH_CONSUMER;
        path.consumer = slash + 11;
    }
    return path;
}
