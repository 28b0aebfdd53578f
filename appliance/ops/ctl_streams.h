// SPDX-License-Identifier: Apache-2.0
// ctl_streams.h: what `sluice ctl streams` prints.
#ifndef SLUICE_OPS_CTL_STREAMS_H
#define SLUICE_OPS_CTL_STREAMS_H

#include <stdbool.h>
#include <yyjson.h>

#include "ops/text.h"

// /api/streams as a table; /api/streams/NAME with its partitions and consumers.
void ctl_print_streams(yyjson_val *root);
void ctl_print_stream(yyjson_val *root);
void ctl_print_forgotten(yyjson_val *root);

// Messages as they come, one line each; context is a ctl_stream_lines. False ends the call.
typedef struct ctl_stream_lines {
    text line; // what has come of the present one
    bool json; // the lines themselves
} ctl_stream_lines;
void ctl_stream_lines_begin(ctl_stream_lines *s, bool json);
bool ctl_stream_lines_part(void *context, const char *bytes, size_t len);
void ctl_stream_lines_end(ctl_stream_lines *s);

#endif
