// SPDX-License-Identifier: Apache-2.0
// url.c: see url.h. RFC 3986 as far as an MQTT address needs it: percent escapes in user, password
// and topic, brackets around an IPv6 address.
#include "client/url.h"

#include <stdlib.h>
#include <string.h>

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

// In place. False for a broken escape, or one for a zero byte.
static bool unescape(char *text) {
    char *to = text;
    for (; *text != 0; text++) {
        if (*text != '%') {
            *to++ = *text;
            continue;
        }
        int high = hex_digit(text[1]), low = high < 0 ? -1 : hex_digit(text[2]);
        if (low < 0 || high * 16 + low == 0) return false;
        *to++ = (char)(high * 16 + low);
        text += 2;
    }
    *to = 0;
    return true;
}

static bool port_parse(const char *text, u16 *port) {
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != 0 || n == 0 || n > 65535) return false;
    *port = (u16)n;
    return true;
}

// host, host:port, [v6], [v6]:port.
static bool host_parse(char *text, client_url *out) {
    char *port = NULL;
    if (text[0] == '[') {
        char *close = strchr(text, ']');
        if (close == NULL) return false;
        *close = 0;
        out->host = text + 1;
        if (close[1] == ':') port = close + 2;
        else if (close[1] != 0) return false;
    } else {
        out->host = text;
        char *colon = strchr(text, ':');
        if (colon != NULL) {
            *colon = 0;
            port = colon + 1;
        }
    }
    return out->host[0] != 0 && (port == NULL || port_parse(port, &out->port));
}

static const char *parts_parse(char *text, client_url *out) {
    static const char form[] = "mqtt://[USER[:PASSWORD]@]HOST[:PORT][/TOPIC]";
    char *slash = strchr(text, '/');
    if (slash != NULL) {
        *slash = 0;
        if (slash[1] != 0) {
            if (!unescape(slash + 1)) return form;
            out->topic = slash + 1;
        }
    }
    char *at = strrchr(text, '@');
    if (at != NULL) {
        *at = 0;
        char *colon = strchr(text, ':');
        if (colon != NULL) {
            *colon = 0;
            if (!unescape(colon + 1)) return form;
            out->password = colon + 1;
        }
        if (!unescape(text)) return form;
        out->user = text;
        text = at + 1;
    }
    return host_parse(text, out) ? NULL : form;
}

const char *client_url_parse(const char *text, client_url *out) {
    bool tls = strncmp(text, "mqtts://", 8) == 0;
    if (!tls && strncmp(text, "mqtt://", 7) != 0) return "mqtt[s]://[USER[:PASSWORD]@]HOST[:PORT][/TOPIC]";
    client_url url = {.port = tls ? 8883 : 1883, .tls = tls};
    url.memory = strdup(text + (tls ? 8 : 7));
    if (url.memory == NULL) base_out_of_memory("an address", strlen(text));
    const char *wrong = parts_parse(url.memory, &url);
    if (wrong != NULL) {
        free(url.memory);
        return wrong;
    }
    *out = url;
    return NULL;
}
