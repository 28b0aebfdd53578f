// SPDX-License-Identifier: Apache-2.0
// down.c: what comes from the remote, and the uplink's state as a local topic. A message gets the mark of the
// uplink it came through, so that the way up leaves it out again; one that carries the mark already was ours.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/topic.h"
#include "proto/mqtt_property.h"
#include "uplink/uplink_internal.h"

#define PROPS_PASSED ((1ull << MQTT_PAYLOAD_FORMAT) | (1ull << MQTT_CONTENT_TYPE) | (1ull << MQTT_RESPONSE_TOPIC) | \
                      (1ull << MQTT_CORRELATION_DATA) | (1ull << MQTT_USER_PROPERTY))
#define PROPS_ROOM 512u

bool down_filter_next(const uplink *u, u32 *at, const char **filter, u32 *len) {
    if (*at >= u->down_map.count) return false;
    *filter = u->down_map.rules[*at].from;
    *len = u->down_map.rules[(*at)++].from_len;
    return true;
}

static bool same(mqtt_bytes b, const char *text) {
    size_t len = strlen(text);
    return b.len == len && memcmp(b.data, text, len) == 0;
}

bool down_is_marked(const uplink *u, const u8 *data, u32 len, u64 present) {
    mqtt_properties props = {data, len, present};
    mqtt_property p;
    if (!mqtt_property_present(&props, MQTT_USER_PROPERTY)) return false;
    for (cursor at = mqtt_properties_begin(&props); mqtt_property_next(&at, &p);) {
        if (p.id == MQTT_USER_PROPERTY && same(p.key, UPLINK_VIA) && same(p.value, u->via)) return true;
    }
    return false;
}

// The properties that go on, and the mark. False: no room.
static bool props_make(const uplink *u, const mqtt_properties *in, mqtt_property_list *out) {
    mqtt_property p;
    for (cursor at = mqtt_properties_begin(in); mqtt_property_next(&at, &p);) {
        if ((PROPS_PASSED >> p.id & 1) != 0 && mqtt_property_put(out, &p) != 0) return false;
    }
    mqtt_bytes key = {(const u8 *)UPLINK_VIA, sizeof(UPLINK_VIA) - 1};
    mqtt_bytes value = {(const u8 *)u->via, (u32)strlen(u->via)};
    return mqtt_property_put_pair(out, key, value) == 0;
}

static int publish(uplink *u, const uplink_incoming *in, const char *topic, u32 topic_len,
                   const mqtt_properties *props, pledge **owed) {
    const worker *w = u->owner;
    publication p = {
        .topic = topic,
        .topic_len = topic_len,
        .props = props->data,
        .props_len = props->len,
        .props_present = props->present,
        .payload = in->payload,
        .payload_len = in->payload_len,
        .qos = in->qos,
        .retain = in->retain,
    };
    if (in->expiry_s != UINT32_MAX) p.expires_ns = w->now_ns + in->expiry_s * NS_PER_S + 1;
    int result = owed != NULL ? broker_publish_owed(w->broker, &p, NULL, owed) : broker_publish(w->broker, &p, NULL);
    bool no_room = result == -EDQUOT || result == -EXFULL || result == -EIO;
    if (result == -EAGAIN || (owed != NULL && no_room)) return result;
    if (result != 0) uplink_dropped(u, UPLINK_DROP_DOWN_REFUSED, 1, topic, topic_len);
    return 0;
}

int down_publish(uplink *u, const uplink_incoming *in, pledge **owed) {
    char *topic = u->all->topic;
    u8 room[PROPS_ROOM], *big = NULL;
    u32 big_size = 0;
    bool ours = in->via_len == strlen(u->via) && memcmp(in->via, u->via, in->via_len) == 0;
    if (ours || down_is_marked(u, in->props.data, in->props.len, in->props.present)) {
        uplink_dropped(u, UPLINK_DROP_DOWN_LOOP, 1, NULL, 0);
        return 0;
    }
    int len = map_apply(&u->down_map, in->topic, in->topic_len, topic, LIMIT_TOPIC_BYTES);
    // $SYS and the like are the gateway's own.
    if (len <= 0 || topic[0] == '$' || !topic_name_is_valid(topic, (size_t)len)) {
        uplink_dropped(u, UPLINK_DROP_DOWN_TOPIC, 1, in->topic, in->topic_len);
        return 0;
    }
    mqtt_property_list list = {.data = room, .capacity = sizeof(room)};
    if (in->props.len + UPLINK_ID_BYTES > sizeof(room)) {
        big = worker_buf_alloc(u->owner, in->props.len + PROPS_ROOM, &big_size);
        if (big == NULL) return -EAGAIN;
        list = (mqtt_property_list){.data = big, .capacity = big_size};
    }
    bool made = props_make(u, &in->props, &list);
    ASSERT(made);
    mqtt_properties props = mqtt_property_list_end(&list);
    int result = publish(u, in, topic, (u32)len, &props, owed);
    if (big != NULL) worker_buf_free(u->owner, big, big_size);
    return result;
}

void down_status(uplink *u, bool up) {
    char topic[LIMIT_NAME_BYTES + 48];
    if (!u->first || u->owner->draining) return;
    int len = snprintf(topic, sizeof(topic), "$SYS/broker/connection/%s/state", u->conf.name);
    publication p = {
        .topic = topic,
        .topic_len = (u32)len,
        .payload = (const u8 *)(up ? "1" : "0"),
        .payload_len = 1,
        .retain = true,
    };
    // A congested ring is no reason to wait: the next change tells again, and metrics say it at any time.
    (void)broker_publish(u->owner->broker, &p, NULL);
}
