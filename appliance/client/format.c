// SPDX-License-Identifier: Apache-2.0
// format.c: see format.h. The letters of a format string are those of mosquitto_sub. A JSON line
// always is valid JSON: a payload that is no UTF-8 appears as "payload_hex" instead of "payload".
#include "client/format.h"

#include <string.h>
#include <time.h>

#include "broker/topic.h"

static void bytes_print(FILE *f, mqtt_bytes b) {
    if (b.len > 0) fwrite(b.data, 1, b.len, f);
}

static void hex_print(FILE *f, mqtt_bytes b, const char *digits) {
    for (u32 i = 0; i < b.len; i++) {
        fputc(digits[b.data[i] >> 4], f);
        fputc(digits[b.data[i] & 15], f);
    }
}

void client_json_text(FILE *f, const u8 *text, u32 len) {
    fputc('"', f);
    for (u32 i = 0; i < len; i++) {
        u8 c = text[i];
        switch (c) {
        case '"': fputs("\\\"", f); break;
        case '\\': fputs("\\\\", f); break;
        case '\n': fputs("\\n", f); break;
        case '\r': fputs("\\r", f); break;
        case '\t': fputs("\\t", f); break;
        default:
            if (c < 0x20 || c == 0x7f) fprintf(f, "\\u%04x", c);
            else fputc(c, f);
        }
    }
    fputc('"', f);
}

static void time_print(FILE *f, u64 wall_ns) {
    time_t seconds = (time_t)(wall_ns / NS_PER_S);
    struct tm utc;
    char text[32];
    gmtime_r(&seconds, &utc);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
    fprintf(f, "%s.%06uZ", text, (u32)(wall_ns % NS_PER_S / 1000));
}

static bool is_text(mqtt_bytes b) {
    // The codec's rule for strings refuses U+0000; JSON can carry it.
    for (u32 at = 0; at < b.len;) {
        const u8 *zero = memchr(b.data + at, 0, b.len - at);
        u32 part = zero == NULL ? b.len - at : (u32)(zero - b.data) - at;
        if (!utf8_is_valid((const char *)b.data + at, part)) return false;
        at += part + 1;
    }
    return true;
}

static void value_print(FILE *f, const char *key, mqtt_bytes b) {
    static const char digits[] = "0123456789abcdef";
    if (is_text(b)) {
        fprintf(f, "\"%s\":", key);
        client_json_text(f, b.data, b.len);
        return;
    }
    fprintf(f, "\"%s_hex\":\"", key);
    hex_print(f, b, digits);
    fputc('"', f);
}

static void property_print(FILE *f, const mqtt_property *p) {
    const char *name = mqtt_property_rule_of(p->id)->name;
    if (p->type == MQTT_PROPERTY_STRING || p->type == MQTT_PROPERTY_BINARY) {
        value_print(f, name, p->value);
    } else {
        fprintf(f, "\"%s\":%u", name, p->number);
    }
}

// User properties and subscription identifiers may repeat: arrays.
static void repeated_print(FILE *f, const mqtt_properties *props, u32 id, const char *separator) {
    cursor at = mqtt_properties_begin(props);
    mqtt_property p;
    bool any = false;
    if ((props->present >> id & 1) == 0) return;
    fprintf(f, "%s\"%s\":[", separator, mqtt_property_rule_of(id)->name);
    while (mqtt_property_next(&at, &p)) {
        if (p.id != id) continue;
        if (any) fputc(',', f);
        any = true;
        if (p.type != MQTT_PROPERTY_PAIR) {
            fprintf(f, "%u", p.number);
            continue;
        }
        fputc('[', f);
        client_json_text(f, p.key.data, p.key.len);
        fputc(',', f);
        client_json_text(f, p.value.data, p.value.len);
        fputc(']', f);
    }
    fputc(']', f);
}

static void properties_print(FILE *f, const mqtt_properties *props) {
    cursor at = mqtt_properties_begin(props);
    mqtt_property p;
    const char *separator = "";
    fputs(",\"properties\":{", f);
    while (mqtt_property_next(&at, &p)) {
        if (p.id == MQTT_USER_PROPERTY || p.id == MQTT_SUBSCRIPTION_ID) continue;
        fputs(separator, f);
        property_print(f, &p);
        separator = ",";
    }
    repeated_print(f, props, MQTT_SUBSCRIPTION_ID, separator);
    if (mqtt_property_present(props, MQTT_SUBSCRIPTION_ID)) separator = ",";
    repeated_print(f, props, MQTT_USER_PROPERTY, separator);
    fputc('}', f);
}

static void json_print(FILE *f, const mqtt_publish *m, u64 wall_ns) {
    fputs("{\"tst\":\"", f);
    time_print(f, wall_ns);
    fputs("\",\"topic\":", f);
    client_json_text(f, m->topic.data, m->topic.len);
    fprintf(f, ",\"qos\":%u,\"retain\":%u,\"dup\":%u", m->qos, m->retain, m->dup);
    if (m->qos > 0) fprintf(f, ",\"mid\":%u", m->packet_id);
    fprintf(f, ",\"payloadlen\":%u", m->payload.len);
    if (m->props.len > 0) properties_print(f, &m->props);
    fputc(',', f);
    value_print(f, "payload", m->payload);
    fputc('}', f);
}

static void pairs_print(FILE *f, const mqtt_properties *props) {
    cursor at = mqtt_properties_begin(props);
    mqtt_property p;
    const char *separator = "";
    while (mqtt_property_next(&at, &p)) {
        if (p.id != MQTT_USER_PROPERTY) continue;
        fputs(separator, f);
        bytes_print(f, p.key);
        fputc(':', f);
        bytes_print(f, p.value);
        separator = " ";
    }
}

static void ids_print(FILE *f, const mqtt_properties *props) {
    cursor at = mqtt_properties_begin(props);
    mqtt_property p;
    const char *separator = "";
    while (mqtt_property_next(&at, &p)) {
        if (p.id != MQTT_SUBSCRIPTION_ID) continue;
        fprintf(f, "%s%u", separator, p.number);
        separator = " ";
    }
}

static void number_print(FILE *f, const mqtt_properties *props, mqtt_property_id id) {
    if (mqtt_property_present(props, id)) fprintf(f, "%u", mqtt_property_number(props, id, 0));
}

static void letter_print(FILE *f, char letter, const mqtt_publish *m, u64 wall_ns) {
    const mqtt_properties *p = &m->props;
    switch (letter) {
    case '%': fputc('%', f); return;
    case 'A': number_print(f, p, MQTT_TOPIC_ALIAS); return;
    case 'C': bytes_print(f, mqtt_property_bytes(p, MQTT_CONTENT_TYPE)); return;
    case 'D': bytes_print(f, mqtt_property_bytes(p, MQTT_CORRELATION_DATA)); return;
    case 'E': number_print(f, p, MQTT_MESSAGE_EXPIRY); return;
    case 'F': number_print(f, p, MQTT_PAYLOAD_FORMAT); return;
    case 'I': time_print(f, wall_ns); return;
    case 'j': json_print(f, m, wall_ns); return;
    case 'l': fprintf(f, "%u", m->payload.len); return;
    case 'm': fprintf(f, "%u", m->packet_id); return;
    case 'p': bytes_print(f, m->payload); return;
    case 'P': pairs_print(f, p); return;
    case 'q': fprintf(f, "%u", m->qos); return;
    case 'r': fprintf(f, "%u", m->retain); return;
    case 'R': bytes_print(f, mqtt_property_bytes(p, MQTT_RESPONSE_TOPIC)); return;
    case 'S': ids_print(f, p); return;
    case 't': bytes_print(f, m->topic); return;
    case 'U':
        fprintf(f, "%llu.%09u", (unsigned long long)(wall_ns / NS_PER_S),
                (u32)(wall_ns % NS_PER_S));
        return;
    case 'x': hex_print(f, m->payload, "0123456789abcdef"); return;
    case 'X': hex_print(f, m->payload, "0123456789ABCDEF"); return;
    default: return; // client_format_check lets none through
    }
}

const char *client_format_check(const char *format) {
    for (const char *p = format; *p != 0; p++) {
        if (*p == '%' && (p[1] == 0 || strchr("%ACDEFIjlmpPqrRStUxX", p[1]) == NULL)) {
            return "% and one of %ACDEFIjlmpPqrRStUxX";
        }
        if (*p == '\\' && (p[1] == 0 || strchr("nrt0\\", p[1]) == NULL)) {
            return "a backslash and one of n r t 0 and backslash";
        }
        if (*p == '%' || *p == '\\') p++;
    }
    return NULL;
}

static void format_print(FILE *f, const char *format, const mqtt_publish *m, u64 wall_ns) {
    for (const char *p = format; *p != 0; p++) {
        if (*p == '%') {
            letter_print(f, *++p, m, wall_ns);
        } else if (*p == '\\') {
            p++;
            fputc(*p == 'n' ? '\n' : *p == 'r' ? '\r' : *p == 't' ? '\t' : *p == '0' ? 0 : '\\', f);
        } else {
            fputc(*p, f);
        }
    }
}

void client_message_print(FILE *f, const client_options *o, const mqtt_publish *m, u64 wall_ns) {
    if (o->json) {
        json_print(f, m, wall_ns);
    } else if (o->format != NULL) {
        format_print(f, o->format, m, wall_ns);
    } else {
        if (o->verbose) {
            bytes_print(f, m->topic);
            fputc(' ', f);
        }
        bytes_print(f, m->payload);
    }
    if (!o->no_newline) fputc('\n', f);
}
