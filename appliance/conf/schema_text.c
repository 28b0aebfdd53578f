// SPDX-License-Identifier: Apache-2.0
// schema_text.c: checks of text settings: paths, syslog destinations, topics.
#include "conf/schema_text.h"

#include <stdlib.h>
#include <string.h>

#include "conf/bind.h"
#include "conf/cidr.h"

const char *text_check_path(const char *text) {
    return text[0] == '\0' ? "a path is expected" : NULL;
}

const char *text_check_optional_path(const char *text) {
    size_t len = strlen(text);
    return len > 0 && text[len - 1] == '/' ? "a file is expected, not a directory" : NULL;
}

const char *text_check_syslog(const char *text) {
    static const char form[] =
        "empty, unix:/path or udp:ADDRESS:PORT with an IP address is expected";
    bind_address parsed;
    if (text[0] == '\0') return NULL;
    if (strncmp(text, "unix:", 5) == 0) return config_parse_bind(text, &parsed) == 0 ? NULL : form;
    if (strncmp(text, "udp:", 4) != 0 || config_parse_bind(text + 4, &parsed) != 0) return form;
    return bind_port(&parsed) == 0 ? form : NULL;
}

// "HOST:PORT"; an IPv6 address stands in brackets.
const char *text_check_reach(const char *text) {
    static const char form[] = "empty or HOST:PORT is expected, an IPv6 address in brackets";
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-";
    if (text[0] == '\0') return NULL;
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text || colon[1] == '\0' || strlen(colon + 1) > 5) return form;
    if (strspn(colon + 1, "0123456789") != strlen(colon + 1)) return form;
    bind_address parsed;
    if (text[0] == '[') return config_parse_bind(text, &parsed) == 0 ? NULL : form;
    return strspn(text, plain) == (size_t)(colon - text) ? NULL : form;
}

// Uncompressed points on P-256: 04 and two numbers of 32 bytes.
const char *text_check_keys(const char *text) {
    static const char form[] = "public keys of 130 hexadecimal digits that begin with 04 are expected";
    u32 count = 0;
    for (text += strspn(text, " \t"); *text != '\0'; text += strspn(text, " \t")) {
        size_t len = strcspn(text, " \t");
        if (len != 130 || strspn(text, "0123456789abcdefABCDEF") < len || strncmp(text, "04", 2) != 0) return form;
        if (++count > LIMIT_UPDATE_KEYS) return "more than 4 keys";
        text += len;
    }
    return NULL;
}

static const char *check_topic(const char *text) {
    u32 levels = 1;
    if (text[0] == '\0') return "a topic is expected";
    if (text[0] == '$') return "topics that begin with $ belong to the broker";
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '/') levels++;
        if (*p == '%' && p[1] != 'i') return "only %i, the device's id, may follow a %";
    }
    return levels > LIMIT_TOPIC_LEVELS ? "too many levels" : NULL;
}

const char *text_check_up_topic(const char *text) {
    if (strpbrk(text, "+#") != NULL)
        return "wildcards (+ and #) can not stand in a topic to publish on";
    return check_topic(text);
}

const char *text_check_down_topic(const char *text) {
    for (const char *p = text; *p != '\0'; p++) {
        if (*p != '+' && *p != '#') continue;
        bool whole_level = (p == text || p[-1] == '/') && (p[1] == '\0' || p[1] == '/');
        if (!whole_level) return "a wildcard (+ or #) must be a whole level";
        if (*p == '#' && p[1] != '\0') return "# must be the last level";
    }
    return check_topic(text);
}

const char *text_check_ws_path(const char *text) {
    static const char form[] = "a path is expected: / and then visible ASCII without ? and #; or *";
    if (strcmp(text, "*") == 0) return NULL;
    if (text[0] != '/') return form;
    for (const char *p = text; *p != '\0'; p++) {
        if (*p <= ' ' || *p > '~' || *p == '?' || *p == '#') return form;
    }
    return NULL;
}

const char *text_check_origin(const char *text) {
    static const char form[] = "an origin is expected, https://HOST or https://HOST:PORT, without a path; or *";
    if (strcmp(text, "*") == 0 || strcmp(text, "null") == 0) return NULL;
    const char *host = strstr(text, "://");
    if (host == NULL || host == text || host[3] == '\0') return form;
    for (const char *p = text; *p != '\0'; p++) {
        bool inside = p > host && p < host + 3;
        if (*p <= ' ' || *p > '~' || strchr("?#@", *p) != NULL || (*p == '/' && !inside)) return form;
    }
    return NULL;
}

const char *text_check_range(const char *text) {
    cidr range;
    return cidr_parse(text, strlen(text), &range)
               ? NULL
               : "an IP address is expected, or ADDRESS/BITS with nothing set behind its bits";
}

const char *text_check_peer(const char *text) {
    static const char form[] = "uid:NUMBER or gid:NUMBER is expected";
    if (strncmp(text, "uid:", 4) != 0 && strncmp(text, "gid:", 4) != 0) return form;
    size_t digits = strspn(text + 4, "0123456789");
    bool fits = digits > 0 && digits <= 10 && text[4 + digits] == '\0';
    return fits && strtoull(text + 4, NULL, 10) < UINT32_MAX ? NULL : form;
}
