// SPDX-License-Identifier: Apache-2.0
// mqtt_property_write.c: building a property list in the caller's memory, by the table of
// mqtt_property.c. A property goes in whole or not at all.
#include <errno.h>

#include "proto/mqtt_out.h"
#include "proto/mqtt_property.h"

static mqtt_out list_output(const mqtt_property_list *list) {
    return (mqtt_out){.data = list->data, .capacity = list->capacity, .used = list->len};
}

static int list_take(mqtt_property_list *list, const mqtt_out *out, u32 id) {
    if (out->error != 0) return out->error;
    list->len = (u32)out->used;
    list->present |= 1ull << id;
    return 0;
}

int mqtt_property_put_number(mqtt_property_list *list, mqtt_property_id id, u32 number) {
    const mqtt_property_rule *rule = mqtt_property_rule_of(id);
    ASSERT(rule != NULL);
    ASSERT(rule->type >= MQTT_PROPERTY_BYTE && rule->type <= MQTT_PROPERTY_VARINT);
    ASSERT(list->data != NULL);
    if (rule->type == MQTT_PROPERTY_BYTE && number > UINT8_MAX) return -EINVAL;
    if (rule->type == MQTT_PROPERTY_U16 && number > UINT16_MAX) return -EINVAL;
    if (rule->type == MQTT_PROPERTY_VARINT && number > MQTT_VARINT_MAX) return -EINVAL;
    mqtt_out out = list_output(list);
    mqtt_out_u8(&out, (u8)id);
    switch (rule->type) {
        case MQTT_PROPERTY_BYTE: mqtt_out_u8(&out, (u8)number); break;
        case MQTT_PROPERTY_U16: mqtt_out_u16(&out, (u16)number); break;
        case MQTT_PROPERTY_U32: mqtt_out_u32(&out, number); break;
        default: mqtt_out_varint(&out, number); break;
    }
    return list_take(list, &out, id);
}

int mqtt_property_put_bytes(mqtt_property_list *list, mqtt_property_id id, mqtt_bytes value) {
    const mqtt_property_rule *rule = mqtt_property_rule_of(id);
    ASSERT(rule != NULL);
    ASSERT(rule->type == MQTT_PROPERTY_STRING || rule->type == MQTT_PROPERTY_BINARY);
    ASSERT(list->data != NULL);
    mqtt_out out = list_output(list);
    mqtt_out_u8(&out, (u8)id);
    mqtt_out_bytes(&out, value);
    return list_take(list, &out, id);
}

int mqtt_property_put_pair(mqtt_property_list *list, mqtt_bytes key, mqtt_bytes value) {
    ASSERT(list->data != NULL);
    mqtt_out out = list_output(list);
    mqtt_out_u8(&out, MQTT_USER_PROPERTY);
    mqtt_out_bytes(&out, key);
    mqtt_out_bytes(&out, value);
    return list_take(list, &out, MQTT_USER_PROPERTY);
}

int mqtt_property_put(mqtt_property_list *list, const mqtt_property *property) {
    switch (property->type) {
        case MQTT_PROPERTY_PAIR:
            return mqtt_property_put_pair(list, property->key, property->value);
        case MQTT_PROPERTY_STRING:
        case MQTT_PROPERTY_BINARY:
            return mqtt_property_put_bytes(list, property->id, property->value);
        default: return mqtt_property_put_number(list, property->id, property->number);
    }
}
