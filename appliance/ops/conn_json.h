// SPDX-License-Identifier: Apache-2.0
// conn_json.h: a connection's view as JSON members, the same in lists and for one connection.
#ifndef SLUICE_OPS_CONN_JSON_H
#define SLUICE_OPS_CONN_JSON_H

#include "base/recorder.h"
#include "ops/conn_view.h"
#include "ops/json.h"

// The members of a list entry.
void conn_json_put(json *j, yyjson_mut_val *obj, const conn_view *v);
// What only the page of one connection has: flags, queues, timer, place in the engine.
void conn_json_put_detail(json *j, yyjson_mut_val *obj, const conn_view *v);
// One event of the flight recorder. real_offset_ns: CLOCK_REALTIME minus CLOCK_MONOTONIC.
void conn_json_put_event(json *j, yyjson_mut_val *obj, const recorder_record *r, u64 real_offset_ns);

// What the result of an event means besides its number: an errno's or a close reason's name, NULL if
// nothing. Static string.
const char *conn_event_result_name(const recorder_record *r);

#endif
