// SPDX-License-Identifier: Apache-2.0
// stream_query.h: the parameters of /api/streams/NAME/messages and the cut of the path. Pure; parsed from a request
// whose parameters are decoded.
#ifndef SLUICE_OPS_STREAM_QUERY_H
#define SLUICE_OPS_STREAM_QUERY_H

#include "ops/http_parse.h"
#include "store/stream_from.h"

typedef struct stream_query {
    stream_from_all from; // default: earliest
    u32 limit;            // messages; default 100
    u64 wait_ms;          // for the first message, when there is none; default 0
    bool follow;          // goes on for ever
    int partition;        // only this one; -1 = all
} stream_query;

// NULL, or what is wrong.
const char *stream_query_parse(const http_request *r, u64 now_ms, stream_query *out);

// What follows /api/streams/.
typedef enum stream_path_kind {
    STREAM_PATH_WRONG,
    STREAM_PATH_STREAM,
    STREAM_PATH_MESSAGES,
    STREAM_PATH_CONSUMER,
} stream_path_kind;
typedef struct stream_path {
    stream_path_kind kind;
    char name[LIMIT_NAME_BYTES];
    const char *consumer; // points into rest
} stream_path;
stream_path stream_path_parse(const char *rest);

#endif
