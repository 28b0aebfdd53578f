// SPDX-License-Identifier: Apache-2.0
// mqtt_same.h: whether two parsed packets say the same, wherever their bytes lie; and a property or
// filter list rebuilt piece by piece, to be compared with the one it was made from. For the codec's
// unit tests and its fuzz target.
#ifndef SLUICE_TESTS_MQTT_SAME_H
#define SLUICE_TESTS_MQTT_SAME_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/mqtt_packet.h"
#include "proto/mqtt_property.h"
#include "proto/mqtt_write.h"

static inline bool same_bytes(mqtt_bytes a, mqtt_bytes b) {
    if ((a.data == NULL) != (b.data == NULL) || a.len != b.len) return false;
    return a.len == 0 || memcmp(a.data, b.data, a.len) == 0;
}

static inline bool same_props(const mqtt_properties *a, const mqtt_properties *b) {
    if (a->len != b->len || a->present != b->present) return false;
    return a->len == 0 || memcmp(a->data, b->data, a->len) == 0;
}

// Walks and rebuilds: the bytes must come out as they were (5.0 leaves no choice in a valid list).
static inline bool same_rebuilt(const mqtt_properties *props) {
    if (props->len == 0) return props->present == 0;
    mqtt_property_list list = {malloc(props->len), props->len, 0, 0};
    cursor at = mqtt_properties_begin(props);
    mqtt_property property;
    bool good = list.data != NULL;
    while (good && mqtt_property_next(&at, &property)) {
        good = mqtt_property_put(&list, &property) == 0;
    }
    mqtt_properties again = mqtt_property_list_end(&list);
    good = good && same_props(props, &again);
    free(list.data);
    return good;
}

static inline bool same_filters(const mqtt_filters *a, const mqtt_filters *b) {
    if (a->len != b->len || a->count != b->count || a->options != b->options) return false;
    if (memcmp(a->data, b->data, a->len) != 0) return false;
    mqtt_filters list = {.options = a->options};
    u8 *memory = malloc(a->len);
    cursor at = mqtt_filters_begin(a);
    mqtt_filter filter;
    bool good = memory != NULL;
    while (good && mqtt_filter_next(a, &at, &filter)) {
        good = mqtt_filter_put(&list, memory, a->len, &filter) == 0;
        good = good && filter.filter.len > 0 && filter.text.len >= filter.filter.len;
    }
    good = good && list.count == a->count && list.len == a->len;
    good = good && memcmp(memory, a->data, a->len) == 0;
    free(memory);
    return good;
}

static inline bool same_connect(const mqtt_connect *a, const mqtt_connect *b) {
    return a->version == b->version && a->clean_start == b->clean_start && a->bridge == b->bridge &&
           a->has_will == b->has_will && a->will_retain == b->will_retain &&
           a->will_qos == b->will_qos && a->keep_alive_s == b->keep_alive_s &&
           same_props(&a->props, &b->props) && same_bytes(a->client_id, b->client_id) &&
           same_props(&a->will_props, &b->will_props) && same_bytes(a->will_topic, b->will_topic) &&
           same_bytes(a->will_payload, b->will_payload) && same_bytes(a->user_name, b->user_name) &&
           same_bytes(a->password, b->password) && same_rebuilt(&a->props) &&
           same_rebuilt(&a->will_props);
}

static inline bool same_publish(const mqtt_publish *a, const mqtt_publish *b) {
    return a->dup == b->dup && a->retain == b->retain && a->qos == b->qos &&
           a->packet_id == b->packet_id && a->topic_alias == b->topic_alias &&
           same_bytes(a->topic, b->topic) && same_props(&a->props, &b->props) &&
           a->more_props.len == 0 && b->more_props.len == 0 && same_bytes(a->payload, b->payload) &&
           same_rebuilt(&a->props);
}

static inline bool mqtt_same(const mqtt_packet *a, const mqtt_packet *b) {
    if (a->type != b->type || a->version != b->version) return false;
    switch (a->type) {
        case MQTT_CONNECT: return same_connect(&a->connect, &b->connect);
        case MQTT_CONNACK:
            return a->connack.session_present == b->connack.session_present &&
                   a->connack.code == b->connack.code && same_rebuilt(&a->connack.props) &&
                   same_props(&a->connack.props, &b->connack.props);
        case MQTT_PUBLISH: return same_publish(&a->publish, &b->publish);
        case MQTT_PUBACK: case MQTT_PUBREC: case MQTT_PUBREL: case MQTT_PUBCOMP:
            return a->ack.packet_id == b->ack.packet_id && a->ack.reason == b->ack.reason &&
                   same_rebuilt(&a->ack.props) && same_props(&a->ack.props, &b->ack.props);
        case MQTT_SUBSCRIBE: case MQTT_UNSUBSCRIBE:
            return a->subscribe.packet_id == b->subscribe.packet_id &&
                   same_rebuilt(&a->subscribe.props) &&
                   same_props(&a->subscribe.props, &b->subscribe.props) &&
                   same_filters(&a->subscribe.filters, &b->subscribe.filters);
        case MQTT_SUBACK: case MQTT_UNSUBACK:
            return a->suback.packet_id == b->suback.packet_id && same_rebuilt(&a->suback.props) &&
                   same_props(&a->suback.props, &b->suback.props) &&
                   same_bytes(a->suback.codes, b->suback.codes);
        case MQTT_DISCONNECT: case MQTT_AUTH:
            return a->goodbye.reason == b->goodbye.reason && same_rebuilt(&a->goodbye.props) &&
                   same_props(&a->goodbye.props, &b->goodbye.props);
        default: return true;
    }
}

#endif
