// SPDX-License-Identifier: Apache-2.0
// mqtt_stream.h: subscriptions on `$stream/NAME`: a client reads a stream (docs/streams.md). Part of
// mqtt_session.h.
//
// Such a subscription is no filter of the broker: it is a reading of the stream (store/stream_ask.h), one for each
// of its partitions. It lasts as long as the connection; what lasts longer is a named consumer's offset.
#ifndef SLUICE_PROTO_MQTT_STREAM_H
#define SLUICE_PROTO_MQTT_STREAM_H

#include "proto/mqtt_session.h"

#define MQTT_STREAM_PREFIX "$stream/"

// Whether a filter or topic belongs to the streams.
bool mqtt_stream_is(mqtt_bytes topic);
// Begins to read; a subscription with the same filter is replaced. props: of the SUBSCRIBE. Returns the code of the
// SUBACK.
u8 mqtt_stream_subscribe(mqtt_session *s, const mqtt_filter *f, const mqtt_properties *props, u32 id);
// Returns whether it existed.
bool mqtt_stream_unsubscribe(mqtt_session *s, const mqtt_filter *f);
// There is room again: sends what is at hand.
void mqtt_stream_pump(mqtt_session *s);
// A message in flight that has mqtt_entry.stream set is done with.
void mqtt_stream_ended(mqtt_session *s, const mqtt_entry *e);
// The connection is gone: all of them end, and their messages are not in flight any more.
void mqtt_stream_detach(mqtt_session *s);

#endif
