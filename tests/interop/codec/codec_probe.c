// SPDX-License-Identifier: Apache-2.0
// codec_probe.c: the gateway's MQTT codec behind a pipe, for compare.js. Each line of stdin is
// "SENDER VERSION HEX": C or S, 0 (unknown), 3, 4 or 5, and one packet. Each line of stdout is JSON:
// {"fault":NAME}, or what the packet holds and, as "again", what the codec writes for it. Bytes are
// hex, properties are "ID=VALUE".
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/mqtt_property.h"
#include "proto/mqtt_write.h"

#define PACKET_BYTES_MAX (1u << 20)

static void hex(mqtt_bytes b) {
    if (b.data == NULL) {
        printf("null");
        return;
    }
    putchar('"');
    for (u32 i = 0; i < b.len; i++) printf("%02x", b.data[i]);
    putchar('"');
}

static void bare_hex(mqtt_bytes b) {
    for (u32 i = 0; i < b.len; i++) printf("%02x", b.data[i]);
}

static void props(const char *key, const mqtt_properties *list) {
    cursor at = mqtt_properties_begin(list);
    mqtt_property p;
    const char *separator = "";
    printf(",\"%s\":[", key);
    while (mqtt_property_next(&at, &p)) {
        printf("%s\"%u=", separator, p.id);
        if (p.type == MQTT_PROPERTY_PAIR) {
            bare_hex(p.key);
            putchar(':');
        }
        if (p.type >= MQTT_PROPERTY_STRING) bare_hex(p.value);
        else printf("%u", p.number);
        putchar('"');
        separator = ",";
    }
    putchar(']');
}

static void connect_print(const mqtt_connect *c) {
    printf("\"v\":%u,\"bridge\":%u,\"clean\":%u,\"ka\":%u,\"id\":", c->version, c->bridge, c->clean_start,
           c->keep_alive_s);
    hex(c->client_id);
    printf(",\"user\":");
    hex(c->user_name);
    printf(",\"pass\":");
    hex(c->password);
    props("props", &c->props);
    if (!c->has_will) return;
    printf(",\"will\":{\"qos\":%u,\"retain\":%u,\"topic\":", c->will_qos, c->will_retain);
    hex(c->will_topic);
    printf(",\"payload\":");
    hex(c->will_payload);
    props("props", &c->will_props);
    putchar('}');
}

static void filters_print(const mqtt_subscribe *s, bool v5) {
    cursor at = mqtt_filters_begin(&s->filters);
    mqtt_filter f;
    const char *separator = "";
    printf("\"id\":%u,\"filters\":[", s->packet_id);
    while (mqtt_filter_next(&s->filters, &at, &f)) {
        printf("%s[", separator);
        hex(f.text);
        if (s->filters.options) printf(",%u", f.qos);
        if (s->filters.options && v5) {
            printf(",%u,%u,%u", f.no_local, f.retain_as_published, f.retain_handling);
        }
        putchar(']');
        separator = ",";
    }
    putchar(']');
    props("props", &s->props);
}

static void packet_print(const mqtt_packet *p, bool v5) {
    switch (p->type) {
    case MQTT_CONNECT: connect_print(&p->connect); return;
    case MQTT_CONNACK:
        printf("\"sp\":%u,\"code\":%u", p->connack.session_present, p->connack.code);
        props("props", &p->connack.props);
        return;
    case MQTT_PUBLISH:
        printf("\"dup\":%u,\"retain\":%u,\"qos\":%u,\"id\":%u,\"topic\":", p->publish.dup,
               p->publish.retain, p->publish.qos, p->publish.packet_id);
        hex(p->publish.topic);
        printf(",\"payload\":\"");
        bare_hex(p->publish.payload);
        putchar('"');
        props("props", &p->publish.props);
        return;
    case MQTT_SUBSCRIBE:
    case MQTT_UNSUBSCRIBE: filters_print(&p->subscribe, v5); return;
    case MQTT_SUBACK:
    case MQTT_UNSUBACK:
        printf("\"id\":%u,\"codes\":\"", p->suback.packet_id);
        bare_hex(p->suback.codes);
        putchar('"');
        props("props", &p->suback.props);
        return;
    case MQTT_PINGREQ:
    case MQTT_PINGRESP: printf("\"ping\":1"); return;
    case MQTT_DISCONNECT:
    case MQTT_AUTH:
        printf("\"code\":%u", p->goodbye.reason);
        props("props", &p->goodbye.props);
        return;
    default:
        printf("\"id\":%u,\"code\":%u", p->ack.packet_id, p->ack.reason);
        props("props", &p->ack.props);
    }
}

static void packet_judge(const mqtt_codec *codec, const u8 *data, u32 len) {
    u32 size;
    mqtt_packet p;
    mqtt_fault fault = mqtt_packet_size(codec, data, len, &size);
    if (fault == MQTT_FAULT_NONE && size != len) {
        printf("{\"fault\":\"incomplete\"}\n");
        return;
    }
    if (fault == MQTT_FAULT_NONE) fault = mqtt_parse(codec, data, len, &p);
    if (fault != MQTT_FAULT_NONE) {
        printf("{\"fault\":\"%s\"}\n", mqtt_fault_name(fault));
        return;
    }
    printf("{\"t\":%u,", p.type);
    packet_print(&p, p.version == MQTT_5);
    int again = mqtt_write(&p, NULL, 0);
    ASSERT(again >= 2);
    u8 *bytes = malloc((size_t)again);
    ASSERT(bytes != NULL && mqtt_write(&p, bytes, (u32)again) == again);
    printf(",\"again\":\"");
    bare_hex((mqtt_bytes){bytes, (u32)again});
    printf("\"}\n");
    free(bytes);
}

static int digit(char c) {
    return c >= 'a' ? c - 'a' + 10 : c - '0';
}

int main(void) {
    static char line[2 * PACKET_BYTES_MAX + 16];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        size_t n = strcspn(line, "\n");
        if (n < 4) return 2;
        // In memory of exactly its size: reading beyond it is seen.
        u32 len = (u32)(n - 4) / 2;
        u8 *data = malloc(len > 0 ? len : 1);
        if (data == NULL) return 3;
        for (u32 i = 0; i < len; i++) {
            data[i] = (u8)(digit(line[4 + 2 * i]) << 4 | digit(line[5 + 2 * i]));
        }
        mqtt_codec codec = {.version = (u8)(line[2] - '0'),
                            .sender = line[0] == 'S' ? MQTT_FROM_SERVER : MQTT_FROM_CLIENT,
                            .packet_bytes_max = PACKET_BYTES_MAX};
        packet_judge(&codec, data, len);
        free(data);
    }
    return 0;
}
