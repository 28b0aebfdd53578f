// SPDX-License-Identifier: Apache-2.0
// stream_line.c: see stream_line.h. The properties that a publisher gave are shown by name, as far as they were
// passed on.
#include "ops/stream_line.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "broker/topic.h"
#include "ops/json.h"
#include "proto/mqtt_property.h"

// A text that is not terminated; false: no memory, and j has failed.
static bool put_text(json *j, yyjson_mut_val *obj, const char *key, const void *bytes, u32 len) {
    char *copy = malloc((size_t)len + 1);
    if (copy == NULL) {
        j->failed = true;
        return false;
    }
    if (len > 0) memcpy(copy, bytes, len);
    copy[len] = '\0';
    json_str(j, obj, key, copy);
    free(copy);
    return true;
}

static void put_base64(json *j, yyjson_mut_val *obj, const char *key, const u8 *bytes, u32 len) {
    size_t chars = BASE64_CHARS((size_t)len);
    char *copy = malloc(chars + 1);
    if (copy == NULL) {
        j->failed = true;
        return;
    }
    base64_encode(bytes, len, copy);
    copy[chars] = '\0';
    json_str(j, obj, key, copy);
    free(copy);
}

static void put_user_property(json *j, yyjson_mut_val **list, const mqtt_property *p) {
    if (*list == NULL) *list = json_arr(j, j->root, "user_properties");
    yyjson_mut_val *row = json_arr_obj(j, *list);
    (void)put_text(j, row, "name", p->key.data, p->key.len);
    (void)put_text(j, row, "value", p->value.data, p->value.len);
}

static void put_properties(json *j, const stream_message *m) {
    const mqtt_properties props = {m->props, m->entry.props_len, m->entry.props_present};
    cursor at = mqtt_properties_begin(&props);
    yyjson_mut_val *users = NULL;
    mqtt_property p;
    while (mqtt_property_next(&at, &p)) {
        switch (p.id) {
            case MQTT_PAYLOAD_FORMAT: json_u64(j, j->root, "payload_format", p.number); break;
            case MQTT_CONTENT_TYPE: (void)put_text(j, j->root, "content_type", p.value.data, p.value.len); break;
            case MQTT_RESPONSE_TOPIC: (void)put_text(j, j->root, "response_topic", p.value.data, p.value.len); break;
            case MQTT_CORRELATION_DATA: put_base64(j, j->root, "correlation_base64", p.value.data, p.value.len); break;
            case MQTT_USER_PROPERTY: put_user_property(j, &users, &p); break;
            default: break;
        }
    }
}

void stream_line_append(text *out, u32 partition, const stream_message *m) {
    char when[TEXT_TIME_BYTES];
    json j;
    json_begin(&j);
    json_u64(&j, j.root, "partition", partition);
    json_u64(&j, j.root, "offset", m->entry.offset);
    json_str(&j, j.root, "time", text_time(m->entry.time_ms * NS_PER_MS, when));
    json_u64(&j, j.root, "time_ms", m->entry.time_ms);
    (void)put_text(&j, j.root, "topic", m->topic, m->entry.topic_len);
    json_u64(&j, j.root, "qos", m->entry.qos);
    if (m->entry.retain != 0) json_bool(&j, j.root, "retain", true);
    put_properties(&j, m);
    if (utf8_is_valid((const char *)m->payload, m->entry.payload_len)) {
        (void)put_text(&j, j.root, "payload", m->payload, m->entry.payload_len);
    } else {
        put_base64(&j, j.root, "payload_base64", m->payload, m->entry.payload_len);
    }
    json_append(&j, out);
}
