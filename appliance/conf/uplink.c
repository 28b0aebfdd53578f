// SPDX-License-Identifier: Apache-2.0
// uplink.c: the checks of `uplink NAME { ... }` blocks: texts, and what contradicts each other. Pure.
#include <stdio.h>
#include <string.h>

#include "broker/topic.h"
#include "conf/check.h"
#include "conf/schema_text.h"
#include "uplink/endpoint.h"
#include "uplink/map.h"

const char *text_check_name(const char *text) {
    size_t len = strlen(text);
    if (len == 0 || len >= LIMIT_NAME_BYTES) return "a name has 1 to 63 characters";
    return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == len
               ? NULL
               : "not a name: a-z A-Z 0-9 - _ . are allowed";
}

const char *text_check_client_id(const char *text) {
    if (text[0] == '\0') return "a client id is needed: it is what a remote knows the gateway by";
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '%' && p[1] != 'h' && p[1] != 'n') return "behind % stands h (host name) or n (name of the uplink)";
        if (*p == ' ' || strchr("/+#", *p) != NULL) return "blanks, / + and # can not stand in a client id";
    }
    return NULL;
}

const char *text_check_prefix(const char *text) {
    size_t len = strlen(text);
    if (len == 0) return NULL;
    if (text[len - 1] != '/') return "a prefix ends with /";
    if (text[0] == '$') return "a prefix does not begin with $";
    return topic_name_is_valid(text, len) ? NULL : "not the beginning of a topic";
}

const char *text_check_status_topic(const char *text) {
    size_t len = strlen(text);
    return len == 0 || topic_name_is_valid(text, len) ? NULL : "not a topic to publish on";
}

typedef struct place {
    const conf_lines *lines;
    conf_errors *errors;
    const uplink_config *u;
    u32 index;
} place;

static void refuse(const place *p, const char *key, const char *what) {
    char where[LIMIT_NAME_BYTES + 64];
    u32 line = p->lines->uplink[p->index][schema_index(SECTION_UPLINK, key)];
    snprintf(where, sizeof(where), "uplink %s: %s", p->u->name, key);
    conf_errors_add(p->errors, line != 0 ? line : p->lines->uplink_begin[p->index], where, "%s", what);
}

static bool is_given(const place *p, const char *key) {
    return p->lines->uplink[p->index][schema_index(SECTION_UPLINK, key)] != 0;
}

static u32 elements(const char *list) {
    u32 count = 0;
    for (; *list != '\0'; list++) count += *list == '\n';
    return count;
}

static void check_urls(const place *p) {
    if (elements(p->u->url) == 0) refuse(p, "url", "no URL");
    if (elements(p->u->url) > UPLINK_URLS_MAX) refuse(p, "url", "more than 8 URLs");
    for (const char *at = p->u->url; *at != '\0'; at = strchr(at, '\n') + 1) {
        endpoint e;
        if (endpoint_parse(at, (size_t)(strchr(at, '\n') - at), &e) != NULL) continue;
        if (e.kind != p->u->kind) {
            refuse(p, "url", p->u->kind == UPLINK_MQTT ? "kind = mqtt goes with mqtt:// or mqtts://"
                                                       : "kind = nats goes with nats:// or tls://");
            return;
        }
        if (e.tls && p->u->tls_ca[0] == '\0') {
            refuse(p, "tls_ca", "needed for mqtts:// and tls://");
            return;
        }
    }
}

// Whether a filter may match a topic that begins with the prefix.
static bool overlaps(const char *filter, u32 filter_len, const char *prefix) {
    topic_level f[LIMIT_TOPIC_LEVELS], x[LIMIT_TOPIC_LEVELS];
    u32 levels = topic_split(filter, filter_len, f), prefix_levels = topic_split(prefix, (u32)strlen(prefix), x) - 1;
    for (u32 i = 0; i < prefix_levels; i++) {
        if (i >= levels) return false;
        if (f[i].len == 1 && f[i].text[0] == '#') return true;
        if (f[i].len == 1 && f[i].text[0] == '+') continue;
        if (f[i].len != x[i].len || memcmp(f[i].text, x[i].text, x[i].len) != 0) return false;
    }
    return true;
}

// Without user properties there is no mark: only topics can keep what is sent from coming back.
static void check_loops(const place *p) {
    uplink_map down;
    if (p->u->kind != UPLINK_MQTT || p->u->version != UPLINK_MQTT_3_1_1 || p->u->down[0] == '\0') return;
    if (map_make(&down, p->u->down) != 0) return;
    if (p->u->prefix[0] == '\0') {
        refuse(p, "prefix", "needed for `down` with version = 3.1.1: what is sent would come back");
        return;
    }
    for (u32 i = 0; i < down.count; i++) {
        if (!overlaps(down.rules[i].from, down.rules[i].from_len, p->u->prefix)) continue;
        refuse(p, "down", "a filter covers the prefix: with version = 3.1.1 what is sent would come back");
        return;
    }
}

static void check_login(const place *p) {
    const uplink_config *u = p->u;
    const struct {
        const char *key, *value;
    } others[] = {{"token", u->token}, {"nkey", u->nkey}, {"credentials", u->credentials}};
    bool login = u->user[0] != '\0';
    if (u->password[0] != '\0' && !login) refuse(p, "password", "goes with a user");
    for (u32 i = 0; i < ARRAY_LEN(others); i++) {
        if (others[i].value[0] == '\0') continue;
        if (u->kind == UPLINK_MQTT) refuse(p, others[i].key, "is for kind = nats");
        else if (login) refuse(p, others[i].key, "one way to log in is enough: user, token, nkey or credentials");
        login = true;
    }
}

static void check_streams(const place *p, const config *c) {
    char what[LIMIT_NAME_BYTES + 64];
    for (const char *at = p->u->streams; *at != '\0'; at = strchr(at, '\n') + 1) {
        size_t len = (size_t)(strchr(at, '\n') - at);
        bool found = false;
        for (u32 i = 0; i < c->stream_count; i++) {
            found = found || (strlen(c->streams[i].name) == len && memcmp(c->streams[i].name, at, len) == 0);
        }
        if (found) continue;
        snprintf(what, sizeof(what), "there is no stream %.*s { ... }", (int)len, at);
        refuse(p, "streams", what);
        return;
    }
}

static void check_lists(const place *p) {
    const uplink_config *u = p->u;
    if (elements(u->streams) == 0) refuse(p, "streams", "no stream: nothing would be sent");
    if (elements(u->streams) > UPLINK_STREAMS_MAX) refuse(p, "streams", "more than 16 streams");
    if (elements(u->remap) > MAP_RULES_MAX) refuse(p, "remap", "more than 32 rules");
    if (elements(u->down) > MAP_RULES_MAX) refuse(p, "down", "more than 32 rules");
    if (u->backoff_min_ms > u->backoff_max_ms) refuse(p, "backoff_min", "is above backoff_max");
    static const char *const mqtt_only[] = {"version", "status_topic", "session_expiry"};
    for (u32 i = 0; u->kind == UPLINK_NATS && i < ARRAY_LEN(mqtt_only); i++) {
        if (is_given(p, mqtt_only[i])) refuse(p, mqtt_only[i], "is of no use with kind = nats");
    }
}

void conf_check_uplinks(const config *c, const conf_lines *lines, conf_errors *errors) {
    place p = {.lines = lines, .errors = errors};
    for (p.index = 0; p.index < c->uplink_count; p.index++) {
        p.u = &c->uplinks[p.index];
        for (u32 i = 0; i < p.index; i++) {
            if (strcmp(c->uplinks[i].name, p.u->name) != 0) continue;
            conf_errors_add(errors, lines->uplink_begin[p.index], "uplink",
                            "the name %s is used twice; the first stands in line %u", p.u->name,
                            lines->uplink_begin[i]);
        }
        if (lines->uplink_wrong[p.index]) continue;
        if (!c->durable) refuse(&p, "streams", "needs durable = yes: what is sent comes from the log");
        check_urls(&p);
        check_lists(&p);
        check_streams(&p, c);
        check_login(&p);
        check_loops(&p);
    }
}
