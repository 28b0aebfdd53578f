// SPDX-License-Identifier: Apache-2.0
// options_property.c: -D PACKET NAME VALUE: a property of 5.0 on the command line, by its name in
// the standard with hyphens, checked against the codec's own table: which packet, which type, which
// range.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/topic.h"
#include "client/options.h"

static const struct {
    const char *name;
    u32 type; // MQTT_WILL for the will
} places[PLACES] = {
    [PLACE_CONNECT] = {"connect", MQTT_CONNECT},
    [PLACE_WILL] = {"will", MQTT_WILL},
    [PLACE_PUBLISH] = {"publish", MQTT_PUBLISH},
    [PLACE_SUBSCRIBE] = {"subscribe", MQTT_SUBSCRIBE},
    [PLACE_DISCONNECT] = {"disconnect", MQTT_DISCONNECT},
};

// Names with hyphens on the command line, with underscores in the table.
static bool names_equal(const char *typed, const char *rule) {
    for (; *typed != 0 && *rule != 0; typed++, rule++) {
        char c = *typed == '-' ? '_' : *typed;
        if (c != *rule) return false;
    }
    return *typed == *rule;
}

static u32 property_find(const char *name) {
    for (u32 id = 0; id < MQTT_PROPERTY_IDS; id++) {
        const mqtt_property_rule *rule = mqtt_property_rule_of(id);
        if (rule != NULL && names_equal(name, rule->name)) return id;
    }
    return 0;
}

bool client_property_is_pair(const char *name) {
    const mqtt_property_rule *rule = mqtt_property_rule_of(property_find(name));
    return rule != NULL && rule->type == MQTT_PROPERTY_PAIR;
}

static int complain(const char *name, const char *text, const char *allowed) {
    fprintf(stderr, "sluice: -D: %s: \"%s\" is not allowed; allowed: %s\n", name, text, allowed);
    return -EINVAL;
}

static int number_add(mqtt_property_list *list, u32 id, const char *name, const char *value) {
    const mqtt_property_rule *rule = mqtt_property_rule_of(id);
    u64 max = rule->check == MQTT_CHECK_BOOL          ? 1
              : rule->type == MQTT_PROPERTY_BYTE     ? 255
              : rule->type == MQTT_PROPERTY_U16      ? 65535
              : rule->type == MQTT_PROPERTY_VARINT   ? MQTT_VARINT_MAX
                                                      : UINT32_MAX;
    u64 min = rule->check == MQTT_CHECK_NOT_ZERO || rule->check == MQTT_CHECK_ALIAS ? 1 : 0;
    char *end;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    if (errno != 0 || *value < '0' || *value > '9' || *end != 0 || number < min || number > max) {
        char allowed[64];
        snprintf(allowed, sizeof(allowed), "%llu to %llu", (unsigned long long)min,
                 (unsigned long long)max);
        return complain(name, value, allowed);
    }
    return mqtt_property_put_number(list, (mqtt_property_id)id, (u32)number);
}

static int text_add(mqtt_property_list *list, u32 id, const char *name, const char *value,
                    const char *second) {
    const mqtt_property_rule *rule = mqtt_property_rule_of(id);
    bool text = rule->type != MQTT_PROPERTY_BINARY;
    if (text && !utf8_is_valid(value, strlen(value))) return complain(name, value, "valid UTF-8");
    if (rule->type == MQTT_PROPERTY_PAIR) {
        if (!utf8_is_valid(second, strlen(second))) return complain(name, second, "valid UTF-8");
        return mqtt_property_put_pair(list, client_text(value), client_text(second));
    }
    if (rule->check == MQTT_CHECK_TOPIC && !topic_name_is_valid(value, strlen(value))) {
        return complain(name, value, "a topic name");
    }
    return mqtt_property_put_bytes(list, (mqtt_property_id)id, client_text(value));
}

static int place_find(const char *name) {
    for (int i = 0; i < PLACES; i++) {
        if (strcmp(name, places[i].name) == 0) return i;
    }
    return -EINVAL;
}

int client_property_add(client_options *o, const char *place_name, const char *name,
                        const char *value, const char *second) {
    int place = place_find(place_name);
    if (place < 0) {
        return complain("packet", place_name, "connect, will, publish, subscribe, disconnect");
    }
    u32 id = property_find(name);
    const mqtt_property_rule *rule = mqtt_property_rule_of(id);
    if (rule == NULL) return complain("property", name, "a property of MQTT 5.0 section 2.2.2.2");
    u16 bit = MQTT_BIT(places[place].type);
    if ((rule->places & bit) == 0 || (rule->server_only & bit) != 0) {
        fprintf(stderr, "sluice: -D: %s does not belong to a client's %s\n", name, place_name);
        return -EINVAL;
    }
    mqtt_property_list *list = &o->props[place];
    if ((list->present >> id & 1) != 0 && (rule->repeats & bit) == 0) {
        fprintf(stderr, "sluice: -D: %s may be given once\n", name);
        return -EINVAL;
    }
    if (list->data == NULL) {
        list->data = malloc(CLIENT_PROPERTY_BYTES_MAX);
        if (list->data == NULL) base_out_of_memory("properties", CLIENT_PROPERTY_BYTES_MAX);
        list->capacity = CLIENT_PROPERTY_BYTES_MAX;
    }
    bool bytes = rule->type == MQTT_PROPERTY_STRING || rule->type == MQTT_PROPERTY_BINARY ||
                 rule->type == MQTT_PROPERTY_PAIR;
    int rc = bytes ? text_add(list, id, name, value, second) : number_add(list, id, name, value);
    if (rc == -ENOSPC) return complain(name, value, "65,536 bytes of properties in one packet");
    return rc;
}
