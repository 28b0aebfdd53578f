// SPDX-License-Identifier: Apache-2.0
// nats_write.c: see nats_write.h. What MQTT knows of a message and NATS does not goes into headers that begin
// with Mqtt-; so a device can set no header that means something to the server (Nats-Expected-..., Nats-
// Rollup). Values with control characters are left out: they can not stand in a header.
#include "uplink/nats_write.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "base/base64.h"
#include "proto/mqtt_property.h"
#include "version.h"

// --- what comes ---

static yyjson_doc *object_read(const char *data, u32 len) {
    yyjson_doc *doc = yyjson_read(data, len, 0);
    if (doc != NULL && yyjson_is_obj(yyjson_doc_get_root(doc))) return doc;
    yyjson_doc_free(doc);
    return NULL;
}

static void text_copy(char *out, size_t bytes, const char *text) {
    snprintf(out, bytes, "%s", text != NULL ? text : "");
}

int nats_info_parse(nats_text json, nats_info *out) {
    memset(out, 0, sizeof(*out));
    yyjson_doc *doc = object_read(json.data, json.len);
    if (doc == NULL) return -EINVAL;
    yyjson_val *root = yyjson_doc_get_root(doc);
    u64 max = yyjson_get_uint(yyjson_obj_get(root, "max_payload"));
    out->max_payload = (u32)MIN(max, (u64)INT32_MAX);
    out->headers = yyjson_get_bool(yyjson_obj_get(root, "headers"));
    out->jetstream = yyjson_get_bool(yyjson_obj_get(root, "jetstream"));
    out->tls_required = yyjson_get_bool(yyjson_obj_get(root, "tls_required"));
    out->tls_available = yyjson_get_bool(yyjson_obj_get(root, "tls_available"));
    const char *nonce = yyjson_get_str(yyjson_obj_get(root, "nonce"));
    text_copy(out->nonce, sizeof(out->nonce), nonce);
    if (nonce != NULL && strlen(nonce) >= sizeof(out->nonce)) out->nonce[0] = '\0'; // half of it signs nothing
    out->lame_duck = yyjson_get_bool(yyjson_obj_get(root, "ldm"));
    const char *name = yyjson_get_str(yyjson_obj_get(root, "server_name"));
    if (name == NULL) name = yyjson_get_str(yyjson_obj_get(root, "server_id"));
    text_copy(out->server, sizeof(out->server), name);
    yyjson_doc_free(doc);
    return 0;
}

int nats_puback_parse(const u8 *json, u32 len, nats_puback *out) {
    memset(out, 0, sizeof(*out));
    yyjson_doc *doc = object_read((const char *)json, len);
    if (doc == NULL) return -EINVAL;
    yyjson_val *root = yyjson_doc_get_root(doc), *error = yyjson_obj_get(root, "error");
    out->code = (u32)yyjson_get_uint(yyjson_obj_get(error, "code"));
    out->err_code = (u32)yyjson_get_uint(yyjson_obj_get(error, "err_code"));
    text_copy(out->text, sizeof(out->text), yyjson_get_str(yyjson_obj_get(error, "description")));
    out->stored = error == NULL && yyjson_is_str(yyjson_obj_get(root, "stream"));
    out->duplicate = yyjson_get_bool(yyjson_obj_get(root, "duplicate"));
    bool answer = error != NULL || out->stored;
    yyjson_doc_free(doc);
    return answer ? 0 : -EINVAL;
}

// --- what goes ---

int nats_write_connect(const nats_login *login, char *out, u32 room) {
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *o = yyjson_mut_obj(doc);
    if (doc == NULL || o == NULL) return -ENOMEM;
    bool ok = yyjson_mut_obj_add_bool(doc, o, "verbose", false) &&
              yyjson_mut_obj_add_bool(doc, o, "pedantic", false) &&
              yyjson_mut_obj_add_bool(doc, o, "tls_required", login->tls) &&
              yyjson_mut_obj_add_bool(doc, o, "echo", false) &&
              yyjson_mut_obj_add_bool(doc, o, "headers", true) &&
              yyjson_mut_obj_add_bool(doc, o, "no_responders", true) && yyjson_mut_obj_add_int(doc, o, "protocol", 1) &&
              yyjson_mut_obj_add_str(doc, o, "lang", "sluice") &&
              yyjson_mut_obj_add_str(doc, o, "version", SLUICE_VERSION) &&
              yyjson_mut_obj_add_str(doc, o, "name", login->name);
    if (login->user[0] != '\0') {
        ok = ok && yyjson_mut_obj_add_str(doc, o, "user", login->user) &&
             yyjson_mut_obj_add_str(doc, o, "pass", login->password);
    }
    if (login->token[0] != '\0') ok = ok && yyjson_mut_obj_add_str(doc, o, "auth_token", login->token);
    if (login->jwt[0] != '\0') ok = ok && yyjson_mut_obj_add_str(doc, o, "jwt", login->jwt);
    else if (login->public_key[0] != '\0') ok = ok && yyjson_mut_obj_add_str(doc, o, "nkey", login->public_key);
    if (login->signature[0] != '\0') ok = ok && yyjson_mut_obj_add_str(doc, o, "sig", login->signature);
    yyjson_mut_doc_set_root(doc, o);
    size_t len = 0;
    char *json = ok ? yyjson_mut_write(doc, 0, &len) : NULL;
    yyjson_mut_doc_free(doc);
    if (json == NULL) return -ENOMEM;
    int n = snprintf(out, room, "CONNECT %s\r\n", json);
    free(json);
    return n < 0 || (u32)n >= room ? -ENOSPC : n;
}

typedef struct text_out {
    char *data;
    u32 used, room;
    bool full;
} text_out;

static void put(text_out *t, const char *data, u32 len) {
    if (t->room - t->used < len) {
        t->full = true;
        return;
    }
    if (len > 0) memcpy(t->data + t->used, data, len);
    t->used += len;
}

static void put_text(text_out *t, const char *text) {
    put(t, text, (u32)strlen(text));
}

static bool is_plain(mqtt_bytes b) {
    for (u32 i = 0; i < b.len; i++) {
        if (b.data[i] < ' ' || b.data[i] == 0x7f) return false;
    }
    return true;
}

static bool is_name(mqtt_bytes b) {
    for (u32 i = 0; i < b.len; i++) {
        if (b.data[i] <= ' ' || b.data[i] >= 0x7f || b.data[i] == ':') return false;
    }
    return b.len > 0;
}

static void put_header(text_out *t, const char *prefix, mqtt_bytes name, mqtt_bytes value) {
    if (!is_plain(value)) return;
    put_text(t, prefix);
    put(t, (const char *)name.data, name.len);
    put_text(t, ": ");
    put(t, (const char *)value.data, value.len);
    put_text(t, "\r\n");
}

static void put_base64(text_out *t, const char *name, mqtt_bytes value) {
    u32 chars = (u32)BASE64_CHARS(value.len);
    put_text(t, name);
    put_text(t, ": ");
    if (t->room - t->used < chars) t->full = true;
    else base64_encode(value.data, value.len, t->data + t->used);
    t->used += t->full ? 0 : chars;
    put_text(t, "\r\n");
}

static void put_properties(text_out *t, const uplink_message *m) {
    mqtt_properties props = {m->props, m->props_len, m->props_present};
    mqtt_property p;
    mqtt_bytes none = {0};
    for (cursor at = mqtt_properties_begin(&props); mqtt_property_next(&at, &p);) {
        if (p.id == MQTT_CONTENT_TYPE) put_header(t, "Mqtt-Content-Type", none, p.value);
        else if (p.id == MQTT_RESPONSE_TOPIC) put_header(t, "Mqtt-Response-Topic", none, p.value);
        else if (p.id == MQTT_CORRELATION_DATA) put_base64(t, "Mqtt-Correlation-Data", p.value);
        else if (p.id == MQTT_USER_PROPERTY && is_name(p.key)) put_header(t, "Mqtt-User-", p.key, p.value);
    }
}

#define SIZES_BYTES 24u // " 4294967295 4294967295\r\n"

int nats_write_publish_head(const uplink_message *m, const char *subject, u32 subject_len, const char *reply,
                            const char *message_id, const char *via, char *out, u32 room) {
    // The sizes stand in front of the headers and are known behind them: the headers are written after a gap
    // first.
    char sizes[SIZES_BYTES + 1];
    text_out line = {.data = out, .room = room};
    put_text(&line, "HPUB ");
    put(&line, subject, subject_len);
    put_text(&line, " ");
    put_text(&line, reply);
    if (line.full || room - line.used < SIZES_BYTES) return -ENOSPC;
    u32 gap = line.used + SIZES_BYTES;
    text_out head = {.data = out + gap, .room = room - gap};
    put_text(&head, "NATS/1.0\r\nNats-Msg-Id: ");
    put_text(&head, message_id);
    put_text(&head, "\r\n" UPLINK_VIA ": ");
    put_text(&head, via);
    put_text(&head, "\r\n");
    if (m->retain) put_text(&head, "Mqtt-Retain: 1\r\n");
    put_properties(&head, m);
    put_text(&head, "\r\n");
    if (head.full) return -ENOSPC;
    int n = snprintf(sizes, sizeof(sizes), " %u %u\r\n", head.used, head.used + m->payload_len);
    ASSERT(n > 0 && (u32)n <= SIZES_BYTES);
    memcpy(out + line.used, sizes, (u32)n);
    memmove(out + line.used + n, out + gap, head.used);
    return (int)(line.used + (u32)n + head.used);
}
