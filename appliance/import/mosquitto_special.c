// SPDX-License-Identifier: Apache-2.0
// mosquitto_special.c: options that open a block, belong together, or mean more than one setting.
#include <stdlib.h>
#include <string.h>

#include "conf/schema.h"
#include "import/mosquitto_rules.h"

static char *copy(const char *text) {
    char *s = strdup(text);
    if (s == NULL) base_out_of_memory("the import", strlen(text));
    return s;
}

static void replace(char **field, const char *text) {
    free(*field);
    *field = copy(text);
}

static import_listener *current(import_model *m) {
    return &m->listeners[m->current];
}

// The next blank-separated word; NULL at the end.
static char *word_next(char **rest) {
    char *word = *rest + strspn(*rest, " \t");
    if (*word == 0) return NULL;
    char *end = word + strcspn(word, " \t");
    *rest = *end == 0 ? end : end + 1;
    *end = 0;
    return word;
}

void import_limit_set(import_model *m, import_block *b, import_place at, const import_rule *r,
                      i64 number) {
    const setting *s = schema_find(r->where == IMPORT_TOP ? SECTION_TOP : SECTION_LISTENER,
                                   r->target, strlen(r->target));
    u64 unit = r->kind == IMPORT_SECONDS && s != NULL && s->type == SETTING_MS64 ? 1000 : 1;
    u64 value = number > 0 ? (u64)number * unit : 0;
    char text[48];
    bool none = number < 0 || (number == 0 && s != NULL && s->min > 0);
    if (s != NULL && number <= 0 && s->zero != NULL) {
        import_set(m, b, at, r->target, s->zero);
        return;
    }
    if (s != NULL && none) {
        import_note_add(m, at, "%s: unlimited there; the most that is allowed here is taken", r->name);
        value = s->max;
    } else if (s != NULL && (value < s->min || value > s->max)) {
        value = value < s->min ? s->min : s->max;
        import_note_add(m, at, "%s: %lld is outside of what is allowed here; %llu is taken", r->name,
                        (long long)number, (unsigned long long)value);
    }
    snprintf(text, sizeof(text), "%llu%s", (unsigned long long)(value / unit),
             r->kind == IMPORT_SECONDS ? "s" : "");
    import_set(m, b, at, r->target, text);
}

// --- listeners ---

static bool listener_add(import_model *m, import_place at) {
    if (m->listener_count == IMPORT_LISTENERS_MAX) {
        import_error_add(m, at, "more than %u listeners", IMPORT_LISTENERS_MAX);
        return false;
    }
    m->current = m->listener_count++;
    m->listeners[m->current] = (import_listener){.place = at, .anonymous = -1};
    m->bridge = NULL;
    return true;
}

IMPORT_APPLY(import_listener_begin) {
    char *rest = value, *port = word_next(&rest), *bind = word_next(&rest);
    i64 number;
    if (port == NULL) {
        import_error_add(m, at, "listener: a port is missing; allowed: listener PORT [ADDRESS]");
        return;
    }
    if (!import_number(m, at, key, port, 0, 65535, &number)) return;
    if (number == 0 && (bind == NULL || bind[0] != '/')) {
        import_error_add(m, at, "listener: port 0 needs the path of a unix socket behind it");
        return;
    }
    if (!listener_add(m, at)) return;
    current(m)->port = (u32)number;
    current(m)->is_unix = number == 0;
    if (bind != NULL) replace(&current(m)->bind, bind);
}

IMPORT_APPLY(import_port_set) {
    i64 number;
    if (!import_number(m, at, key, value, 1, 65535, &number)) return;
    m->listeners[0].port = (u32)number;
    m->listeners[0].place = at;
    m->default_used = true;
}

IMPORT_APPLY(import_bind_set) {
    (void)key;
    if (*value == 0) {
        import_error_add(m, at, "bind_address: an address is missing");
        return;
    }
    replace(&m->listeners[0].bind, value);
    if (!m->default_used) m->listeners[0].place = at;
    if (m->listeners[0].port == 0) m->listeners[0].port = 1883;
    m->default_used = true;
}

IMPORT_APPLY(import_protocol_set) {
    current(m)->websocket = strcmp(value, "websockets") == 0;
    current(m)->http = strcmp(value, "http_api") == 0;
    if (current(m)->http) {
        import_note_add(m, at, "protocol http_api: the admin port has an HTTP API of its own");
    } else if (!current(m)->websocket && strcmp(value, "mqtt") != 0) {
        import_error_add(m, at, "%s: \"%.64s\" is not allowed; allowed: mqtt, websockets, http_api", key,
                         value);
    }
}

IMPORT_APPLY(import_domain_set) {
    current(m)->ipv4_only = strcmp(value, "ipv4") == 0;
    if (strcmp(value, "ipv6") == 0) {
        import_note_add(m, at, "socket_domain ipv6: IPv4 is accepted too");
    } else if (!current(m)->ipv4_only && strcmp(value, "unix") != 0) {
        import_error_add(m, at, "%s: \"%.64s\" is not allowed; allowed: ipv4, ipv6, unix", key, value);
    }
}

// --- accounts ---

IMPORT_APPLY(import_per_listener_set) {
    (void)import_bool(m, at, key, value, &m->per_listener);
}

IMPORT_APPLY(import_anonymous_set) {
    bool yes;
    if (!import_bool(m, at, key, value, &yes)) return;
    if (m->per_listener) current(m)->anonymous = yes;
    else m->anonymous = yes;
}

IMPORT_APPLY(import_accounts_set) {
    if (m->per_listener) current(m)->has_accounts = true;
    else m->has_accounts = true;
    import_note_add(m, at, "%s %.128s: accounts of this kind are not available; there are password files, JSON "
                           "web tokens and one `token` a listener", key, value);
}

// password_file and acl_file: the same files serve here (docs/authentication.md tells the differences).
IMPORT_APPLY(import_auth_file_set) {
    import_block *to = m->per_listener ? &current(m)->block : &m->every_listener;
    if (*value == 0) {
        import_error_add(m, at, "%s: a file is missing", key);
        return;
    }
    import_set_text(m, to, at, key, value);
    if (key[0] != 'p') return;
    if (m->per_listener) current(m)->has_passwords = true;
    else m->has_passwords = true;
}

IMPORT_APPLY(import_tls_set) {
    import_tls *tls = &current(m)->tls;
    if (strcmp(key, "require_certificate") == 0) {
        (void)import_bool(m, at, key, value, &tls->require_certificate);
        return;
    }
    if (*value == 0) {
        import_error_add(m, at, "%s: a file is missing", key);
        return;
    }
    char **into = key[0] == 'k' ? &tls->key : strcmp(key, "cafile") == 0 ? &tls->ca : &tls->cert;
    replace(strcmp(key, "crlfile") == 0 ? &tls->crl : into, value);
}

// --- limits and persistence ---

IMPORT_APPLY(import_inflight_set) {
    static const import_rule out = {"max_inflight_messages", IMPORT_COUNT, IMPORT_EVERY,
                                    "inflight_max", NULL, NULL};
    static const import_rule in = {"max_inflight_messages", IMPORT_COUNT, IMPORT_EVERY,
                                   "receive_max", NULL, NULL};
    i64 number;
    if (!import_number(m, at, key, value, 0, 65535, &number)) return;
    import_limit_set(m, &m->every_listener, at, &out, number);
    import_limit_set(m, &m->every_listener, at, &in, number);
}

// A number and h, d, w, m (months) or y.
IMPORT_APPLY(import_expiration_set) {
    static const struct {
        char unit;
        u64 hours;
    } units[] = {{'h', 1}, {'d', 24}, {'w', 168}, {'m', 730}, {'y', 8760}};
    char *end, text[32];
    unsigned long number = strtoul(value, &end, 10);
    for (u32 i = 0; i < ARRAY_LEN(units); i++) {
        if (end == value || *end != units[i].unit || end[1] != 0 || number == 0) continue;
        if (number > 1000000 || number * units[i].hours > 1000000) break;
        snprintf(text, sizeof(text), "%lluh", (unsigned long long)(number * units[i].hours));
        import_set(m, &m->every_listener, at, "session_expiry_max", text);
        return;
    }
    import_error_add(m, at, "%s: \"%.64s\" is not allowed; allowed: a number and h, d, w, m or y", key,
                     value);
}

IMPORT_APPLY(import_persistence_set) {
    bool yes;
    if (!import_bool(m, at, key, value, &yes)) return;
    if (!yes) import_note_add(m, at, "persistence: sessions and retained messages are kept here; with "
                                     "`durable = no` nothing is, and streams and uplinks hold nothing");
}

// --- log ---

IMPORT_APPLY(import_log_dest) {
    char *rest = value, *what = word_next(&rest);
    m->log_dest_given = true;
    if (what == NULL) {
        import_error_add(m, at, "%s: allowed: stdout, stderr, syslog, topic, file PATH, none", key);
    } else if (strcmp(what, "stderr") == 0 || strcmp(what, "stdout") == 0) {
        m->log_stderr = true;
        if (what[3] == 'o') import_note_add(m, at, "log_dest stdout: the log goes to standard error");
    } else if (strcmp(what, "syslog") == 0) {
        import_set_text(m, &m->log, at, "syslog", "unix:/dev/log");
    } else if (strcmp(what, "file") == 0) {
        rest += strspn(rest, " \t");
        if (*rest == 0) import_error_add(m, at, "log_dest file: a path is missing");
        else import_set_text(m, &m->log, at, "file", rest);
    } else if (strcmp(what, "topic") == 0 || strcmp(what, "dlt") == 0 || strcmp(what, "android") == 0) {
        import_note_add(m, at, "log_dest %s: the log does not go there", what);
    } else if (strcmp(what, "none") != 0) {
        import_error_add(m, at, "%s: \"%.64s\" is not allowed; allowed: stdout, stderr, syslog, topic, "
                                "file PATH, none", key, what);
    }
}

IMPORT_APPLY(import_log_type) {
    static const struct {
        const char *word;
        u8 level; // log_level + 1
    } words[] = {{"none", 0},        {"error", LOG_ERROR + 1}, {"warning", LOG_WARN + 1},
                 {"notice", LOG_INFO + 1}, {"information", LOG_INFO + 1}, {"subscribe", LOG_INFO + 1},
                 {"unsubscribe", LOG_INFO + 1}, {"websockets", LOG_INFO + 1}, {"internal", LOG_INFO + 1},
                 {"debug", LOG_DEBUG + 1}, {"all", LOG_DEBUG + 1}};
    for (u32 i = 0; i < ARRAY_LEN(words); i++) {
        if (strcmp(value, words[i].word) != 0) continue;
        m->log_levels = (u8)MAX(m->log_levels, words[i].level);
        return;
    }
    import_error_add(m, at, "%s: \"%.64s\" is not allowed; allowed: error, warning, notice, "
                            "information, debug, subscribe, unsubscribe, websockets, none, all",
                     key, value);
}

// --- bridges ---

IMPORT_APPLY(import_bridge_begin) {
    if (*value == 0) {
        import_error_add(m, at, "%s: a name is missing", key);
        return;
    }
    if (m->bridge_count == IMPORT_BRIDGES_MAX) {
        import_error_add(m, at, "more than %u bridges", IMPORT_BRIDGES_MAX);
        return;
    }
    m->bridge = &m->bridges[m->bridge_count++];
    m->bridge->place = at;
    m->bridge->name = copy(value);
}

// HOST, HOST:PORT or [V6]:PORT.
static void address_take(import_model *m, import_place at, import_bridge *b, char *text) {
    char *colon = strrchr(text, ':'), host[512];
    bool bracket = text[0] == '[';
    i64 port = 1883;
    if (b->host_count == IMPORT_ADDRESSES_MAX) {
        import_note_add(m, at, "address %.128s: an uplink has at most %u addresses", text, IMPORT_ADDRESSES_MAX);
        return;
    }
    if (colon != NULL && (bracket ? colon[-1] == ']' : strchr(text, ':') == colon)) {
        if (!import_number(m, at, "address", colon + 1, 1, 65535, &port)) return;
        *colon = 0;
    }
    snprintf(host, sizeof(host), "%.500s:%u", text, (u32)port);
    b->hosts[b->host_count++] = copy(host);
}

IMPORT_APPLY(import_bridge_address) {
    char *rest = value, *word = word_next(&rest);
    if (word == NULL) import_error_add(m, at, "%s: an address is missing", key);
    for (; word != NULL; word = word_next(&rest)) address_take(m, at, m->bridge, word);
}

static char *topic_join(const char *prefix, const char *pattern) {
    bool empty = prefix == NULL || strcmp(prefix, "\"\"") == 0;
    size_t bytes = (empty ? 0 : strlen(prefix)) + strlen(pattern) + 1;
    char *topic = malloc(bytes);
    if (topic == NULL) base_out_of_memory("the import", bytes);
    snprintf(topic, bytes, "%s%s", empty ? "" : prefix, pattern);
    return topic;
}

// topic PATTERN [out|in|both [QOS [LOCAL-PREFIX [REMOTE-PREFIX]]]]; "" is an empty part.
IMPORT_APPLY(import_bridge_topic) {
    char *rest = value, *pattern = word_next(&rest), *way = word_next(&rest), *qos = word_next(&rest);
    char *local = word_next(&rest), *remote = word_next(&rest);
    import_bridge *b = m->bridge;
    if (pattern == NULL) {
        import_error_add(m, at, "%s: a pattern is missing", key);
        return;
    }
    if (way != NULL && strcmp(way, "out") && strcmp(way, "in") && strcmp(way, "both")) {
        import_error_add(m, at, "topic: \"%.64s\" is not allowed; allowed: out, in, both", way);
        return;
    }
    if (b->topic_count == IMPORT_TOPICS_MAX) {
        import_error_add(m, at, "more than %u topics in one bridge", IMPORT_TOPICS_MAX);
        return;
    }
    import_topic *t = &b->topics[b->topic_count++];
    const char *bare = strcmp(pattern, "\"\"") == 0 ? "" : pattern;
    t->local = topic_join(local, bare);
    t->remote = topic_join(remote, bare);
    t->place = at;
    t->out = way == NULL || strcmp(way, "in") != 0;
    t->in = way != NULL && strcmp(way, "out") != 0;
    if (t->out && qos != NULL && strcmp(qos, "0") == 0) {
        import_note_add(m, at, "topic %.128s: an uplink sends with QoS 1, so that it can advance", t->local);
    }
}

IMPORT_APPLY(import_bridge_account) {
    (void)at;
    replace(strstr(key, "username") != NULL ? &m->bridge->user : &m->bridge->password, value);
}

IMPORT_APPLY(import_bridge_tls) {
    import_bridge *b = m->bridge;
    b->tls = true;
    if (strcmp(key, "bridge_capath") == 0) {
        import_note_add(m, at, "%s: certificates of authorities are read from one file: set `tls_ca`", key);
        return;
    }
    char **into = strcmp(key, "bridge_cafile") == 0 ? &b->ca : &b->cert;
    replace(strcmp(key, "bridge_keyfile") == 0 ? &b->key : into, value);
}
