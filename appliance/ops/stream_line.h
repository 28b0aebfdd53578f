// SPDX-License-Identifier: Apache-2.0
// stream_line.h: a message of a stream as a line of JSON (docs/http-api.md, docs/streams.md).
#ifndef SLUICE_OPS_STREAM_LINE_H
#define SLUICE_OPS_STREAM_LINE_H

#include "ops/text.h"
#include "store/stream_ask.h"

// Appends {"partition":..,"offset":..,"time":..,"time_ms":..,"topic":..,"qos":..,...,"payload":..} and a newline. A
// payload that is UTF-8 without U+0000 stands as "payload"; any other as "payload_base64". out->failed: no memory.
void stream_line_append(text *out, u32 partition, const stream_message *m);

#endif
