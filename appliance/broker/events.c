// SPDX-License-Identifier: Apache-2.0
// events.c: one JSON object an event. Texts come from clients and are valid UTF-8; what JSON can not hold as
// it is becomes an escape. An event is bounded: a filter is cut, never the JSON.
#include "broker/events.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/message.h"
#include "worker.h"

#define EVENT_BYTES 4096u
#define EVENT_TEXT_BYTES 512u // of one text; longer ones are cut

typedef struct event {
    char text[EVENT_BYTES];
    u32 len;
} event;

static void put_raw(event *e, const char *text) {
    u32 len = (u32)strlen(text);
    ASSERT(e->len + len <= sizeof(e->text));
    memcpy(e->text + e->len, text, len);
    e->len += len;
}

static void put_number(event *e, const char *key, u64 value) {
    char text[96];
    snprintf(text, sizeof(text), ",\"%s\":%llu", key, (unsigned long long)value);
    put_raw(e, text);
}

static void put_bool(event *e, const char *key, bool value) {
    char text[96];
    snprintf(text, sizeof(text), ",\"%s\":%s", key, value ? "true" : "false");
    put_raw(e, text);
}

// Cuts at a character's start.
static u32 text_cut(const char *value, u32 len) {
    if (len <= EVENT_TEXT_BYTES) return len;
    len = EVENT_TEXT_BYTES;
    while (len > 0 && ((u8)value[len] & 0xc0) == 0x80) len--;
    return len;
}

static void put_text(event *e, const char *key, const char *value, u32 len) {
    char head[64], escape[8];
    snprintf(head, sizeof(head), ",\"%s\":\"", key);
    put_raw(e, head);
    len = text_cut(value, len);
    for (u32 i = 0; i < len; i++) {
        u8 byte = (u8)value[i];
        if (byte == '"' || byte == '\\') snprintf(escape, sizeof(escape), "\\%c", byte);
        else if (byte < 0x20 || byte == 0x7f) snprintf(escape, sizeof(escape), "\\u%04x", byte);
        else snprintf(escape, sizeof(escape), "%c", byte);
        if (e->len + 1024 > sizeof(e->text)) break; // room for the rest
        put_raw(e, escape);
    }
    put_raw(e, "\"");
}

static void event_begin(event *e, const char *client, u32 len) {
    char text[64];
    e->len = 0;
    snprintf(text, sizeof(text), "{\"time_ms\":%llu", (unsigned long long)(clock_real_ns() / NS_PER_MS));
    put_raw(e, text);
    put_text(e, "client", client, len);
}

static void event_publish(worker *w, event *e, const char *topic) {
    put_raw(e, "}");
    publication p = {
        .topic = topic,
        .topic_len = (u32)strlen(topic),
        .payload = (const u8 *)e->text,
        .payload_len = e->len,
    };
    if (broker_publish(w->broker, &p, NULL) < 0) counter_add(&w->metrics.events_dropped, 1);
}

void events_connect(worker *w, const event_connect *c) {
    if (!w->conf->events) return;
    event e;
    event_begin(&e, c->client, c->client_len);
    put_text(&e, "peer", c->peer, (u32)strlen(c->peer));
    put_text(&e, "listener", c->listener, (u32)strlen(c->listener));
    put_number(&e, "version", c->version);
    put_number(&e, "keep_alive_s", c->keep_alive_s);
    put_number(&e, "session_expiry_s", c->expiry_s);
    put_bool(&e, "clean_start", c->clean_start);
    put_bool(&e, "session_present", c->session_present);
    event_publish(w, &e, "$events/connect");
}

void events_disconnect(worker *w, const char *client, u32 client_len, const char *reason) {
    if (!w->conf->events) return;
    event e;
    event_begin(&e, client, client_len);
    put_text(&e, "reason", reason, (u32)strlen(reason));
    event_publish(w, &e, "$events/disconnect");
}

void events_subscribe(worker *w, const char *client, u32 client_len, const char *filter, u32 len, u8 qos) {
    if (!w->conf->events) return;
    event e;
    event_begin(&e, client, client_len);
    put_text(&e, "filter", filter, len);
    put_number(&e, "qos", qos);
    event_publish(w, &e, "$events/subscribe");
}

void events_unsubscribe(worker *w, const char *client, u32 client_len, const char *filter, u32 len) {
    if (!w->conf->events) return;
    event e;
    event_begin(&e, client, client_len);
    put_text(&e, "filter", filter, len);
    event_publish(w, &e, "$events/unsubscribe");
}
