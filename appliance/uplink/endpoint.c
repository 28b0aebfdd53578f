// SPDX-License-Identifier: Apache-2.0
// endpoint.c: see endpoint.h.
#include "uplink/endpoint.h"

#include <string.h>

static const struct {
    const char *scheme;
    u16 port;
    bool tls;
    uplink_kind kind;
} schemes[] = {
    {"mqtt://", 1883, false, UPLINK_MQTT},
    {"mqtts://", 8883, true, UPLINK_MQTT},
    {"nats://", 4222, false, UPLINK_NATS},
    {"tls://", 4222, true, UPLINK_NATS},
};

static bool port_parse(const char *text, size_t len, u16 *port) {
    u32 value = 0;
    if (len == 0 || len > 5) return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        value = value * 10 + (u32)(text[i] - '0');
    }
    if (value == 0 || value > 65535) return false;
    *port = (u16)value;
    return true;
}

static bool host_is_valid(const char *host, size_t len) {
    if (len == 0 || len >= ENDPOINT_HOST_BYTES) return false;
    for (size_t i = 0; i < len; i++) {
        char c = host[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && c != '-' && c != '.' && c != '_' && c != ':') return false;
    }
    return true;
}

const char *endpoint_parse(const char *text, size_t len, endpoint *out) {
    static const char form[] = "not mqtt://HOST[:PORT], mqtts://..., nats://... or tls://...";
    memset(out, 0, sizeof(*out));
    size_t i = 0, skip = 0;
    for (; i < ARRAY_LEN(schemes); i++) {
        skip = strlen(schemes[i].scheme);
        if (len > skip && memcmp(text, schemes[i].scheme, skip) == 0) break;
    }
    if (i == ARRAY_LEN(schemes)) return form;
    *out = (endpoint){.port = schemes[i].port, .tls = schemes[i].tls, .kind = schemes[i].kind};
    const char *host = text + skip, *end = text + len;
    if (memchr(host, '@', (size_t)(end - host)) != NULL) {
        return "user and password do not stand in the URL; use user, password or token";
    }
    if (end[-1] == '/') end--;
    const char *close = host[0] == '[' ? memchr(host, ']', (size_t)(end - host)) : NULL;
    if (host[0] == '[' && close == NULL) return form;
    const char *colon = close != NULL ? close + 1 : memchr(host, ':', (size_t)(end - host));
    const char *host_end = close != NULL ? close : colon != NULL ? colon : end;
    if (close != NULL) host++;
    if (!host_is_valid(host, (size_t)(host_end - host))) return form;
    if (close == NULL && memchr(host, ':', (size_t)(host_end - host)) != NULL) return form;
    memcpy(out->host, host, (size_t)(host_end - host));
    if (colon == NULL || colon == end) return NULL;
    if (*colon != ':' || !port_parse(colon + 1, (size_t)(end - colon - 1), &out->port)) return form;
    return NULL;
}

const char *endpoint_check(const char *text) {
    endpoint parsed;
    return endpoint_parse(text, strlen(text), &parsed);
}
