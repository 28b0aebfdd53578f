// SPDX-License-Identifier: Apache-2.0
// stream_from.h: where to begin reading a stream, as people and programs write it: the MQTT user property
// sluice-from, the HTTP parameter and the option `from`.
//
//   earliest                 the oldest message there is
//   latest                   what comes from now on
//   1234                     offset 1234, in each partition
//   0:1234,1:88              offset 1234 of partition 0 and 88 of partition 1; of others what comes from now on
//   -1h                      messages of the last hour (units as in the configuration: ms s m h d)
//   2026-03-01T12:00:00Z     from this time on (RFC 3339 section 5.6: fraction and offset from UTC may follow)
//   @1767225600              the same as seconds since 1970, with up to three decimals
//
// An offset that is no longer there means the oldest that is; one not yet there is waited for. Pure; any thread.
#ifndef SLUICE_STORE_STREAM_FROM_H
#define SLUICE_STORE_STREAM_FROM_H

#include "base/base.h"
#include "limits.h"

typedef enum stream_from_kind { FROM_EARLIEST, FROM_LATEST, FROM_OFFSET, FROM_TIME } stream_from_kind;

// In one partition.
typedef struct stream_from {
    stream_from_kind kind;
    u64 value; // offset, or ms since 1970
} stream_from;

typedef struct stream_from_all {
    bool by_partition;  // the list of places: at[], else all
    stream_from all;
    u64 at[LIMIT_WORKERS_MAX]; // offset of each partition; 0 = not named
} stream_from_all;

// len bytes, not terminated. now_ms: UNIX time. False: it is none of these.
bool stream_from_parse(const char *text, u32 len, u64 now_ms, stream_from_all *out);
// What it says of one partition.
stream_from stream_from_of(const stream_from_all *from, u32 partition);

#endif
