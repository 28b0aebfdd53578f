// SPDX-License-Identifier: Apache-2.0
// mqtt_record_parts.h: what mqtt_record.c and mqtt_snapshot.c share. Not for others.
#ifndef SLUICE_PROTO_MQTT_RECORD_PARTS_H
#define SLUICE_PROTO_MQTT_RECORD_PARTS_H

#include "proto/mqtt_record.h"

u32 mqtt_subscription_bytes(const mqtt_subscription_record *s);
u8 *mqtt_subscription_write(u8 *to, const mqtt_subscription_record *s);
bool mqtt_subscription_parse(cursor *at, mqtt_subscription_record *out);
u32 mqtt_will_record_bytes(const mqtt_will_record *w);
u8 *mqtt_will_record_write(u8 *to, const mqtt_will_record *w);
bool mqtt_will_record_parse(cursor *at, mqtt_will_record *out);
void mqtt_ref_parse(cursor *at, backlog_ref *out);

#endif
