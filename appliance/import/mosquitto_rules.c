// SPDX-License-Identifier: Apache-2.0
// mosquitto_rules.c: what each option of mosquitto.conf means here. One table: most options are a
// number, a switch or a text that has a setting of its own, or have no equivalent and say why;
// the others have a function in mosquitto_special.c.
//
// Options of accounts (allow_anonymous, password_file ...) are global unless per_listener_settings
// is true, wherever they stand; limits are global there and belong to listeners here.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conf/suggest.h"
#include "import/mosquitto_rules.h"

#define TOP IMPORT_TOP
#define LIS IMPORT_LISTENER
#define ALL IMPORT_EVERY
#define SAFE "not needed: "

static const import_rule rules[] = {
    // listeners
    {"listener", IMPORT_SPECIAL, 0, NULL, NULL, import_listener_begin},
    {"port", IMPORT_SPECIAL, 0, NULL, NULL, import_port_set},
    {"bind_address", IMPORT_SPECIAL, 0, NULL, NULL, import_bind_set},
    {"bind_interface", IMPORT_LOST, 0, NULL, "listeners are bound to addresses: set `bind`", NULL},
    {"protocol", IMPORT_SPECIAL, 0, NULL, NULL, import_protocol_set},
    {"socket_domain", IMPORT_SPECIAL, 0, NULL, NULL, import_domain_set},
    {"max_connections", IMPORT_COUNT, LIS, "max_conns", NULL, NULL},
    {"mount_point", IMPORT_LOST, 0, NULL, "topics are not prefixed by listener", NULL},
    {"use_username_as_clientid", IMPORT_LOST, 0, NULL, "client ids are the client's own", NULL},
    {"http_dir", IMPORT_LOST, 0, NULL, "no files are served over HTTP", NULL},
    {"websockets_log_level", IMPORT_NEEDLESS, 0, NULL, SAFE "there is one log level", NULL},
    {"websockets_headers_size", IMPORT_NEEDLESS, 0, NULL, SAFE "header size is bounded", NULL},
    {"websockets_origin", IMPORT_LOST, 0, NULL, "all origins are let in: set `ws_origins`", NULL},
    {"accept_protocol_versions", IMPORT_LOST, 0, NULL, "all versions are accepted", NULL},
    {"enable_proxy_protocol", IMPORT_LOST, 0, NULL, "set `proxy_protocol`, and `proxy_from` to the proxies", NULL},
    // accounts
    {"per_listener_settings", IMPORT_SPECIAL, 0, NULL, NULL, import_per_listener_set},
    {"allow_anonymous", IMPORT_SPECIAL, 0, NULL, NULL, import_anonymous_set},
    {"password_file", IMPORT_SPECIAL, 0, NULL, NULL, import_auth_file_set},
    {"psk_file", IMPORT_SPECIAL, 0, NULL, NULL, import_accounts_set},
    {"psk_hint", IMPORT_LOST, 0, NULL, "TLS with pre-shared keys is not offered", NULL},
    {"acl_file", IMPORT_SPECIAL, 0, NULL, NULL, import_auth_file_set},
    {"allow_zero_length_clientid", IMPORT_LOST, 0, NULL,
     "an empty client id gets one assigned, as the standard says", NULL},
    {"auto_id_prefix", IMPORT_LOST, 0, NULL, "assigned client ids have a form of their own", NULL},
    {"clientid_prefixes", IMPORT_LOST, 0, NULL, "client ids are not restricted", NULL},
    {"plugin", IMPORT_SPECIAL, 0, NULL, NULL, import_accounts_set},
    {"auth_plugin", IMPORT_SPECIAL, 0, NULL, NULL, import_accounts_set},
    {"global_plugin", IMPORT_SPECIAL, 0, NULL, NULL, import_accounts_set},
    {"plugin_load", IMPORT_SPECIAL, 0, NULL, NULL, import_accounts_set},
    {"plugin_use", IMPORT_SPECIAL, 0, NULL, NULL, import_accounts_set},
    {"auth_plugin_deny_special_chars", IMPORT_LOST, 0, NULL, "there are no plugins", NULL},
    // TLS
    {"certfile", IMPORT_SPECIAL, 0, NULL, NULL, import_tls_set},
    {"keyfile", IMPORT_SPECIAL, 0, NULL, NULL, import_tls_set},
    {"cafile", IMPORT_SPECIAL, 0, NULL, NULL, import_tls_set},
    {"require_certificate", IMPORT_SPECIAL, 0, NULL, NULL, import_tls_set},
    {"capath", IMPORT_LOST, 0, NULL, "certificates of authorities are read from one file", NULL},
    {"crlfile", IMPORT_SPECIAL, 0, NULL, NULL, import_tls_set},
    {"dhparamfile", IMPORT_NEEDLESS, 0, NULL, SAFE "key exchange is on elliptic curves", NULL},
    {"ciphers", IMPORT_NEEDLESS, 0, NULL, SAFE "only AEAD suites are offered", NULL},
    {"ciphers_tls1.3", IMPORT_NEEDLESS, 0, NULL, SAFE "only AEAD suites are offered", NULL},
    {"tls_version", IMPORT_NEEDLESS, 0, NULL, SAFE "TLS 1.2 is spoken", NULL},
    {"tls_engine", IMPORT_LOST, 0, NULL, "keys are files", NULL},
    {"tls_engine_kpass_sha1", IMPORT_LOST, 0, NULL, "keys are files", NULL},
    {"tls_keyform", IMPORT_LOST, 0, NULL, "keys are files", NULL},
    {"use_identity_as_username", IMPORT_NEEDLESS, 0, NULL,
     SAFE "the common name is the user of clients that show a certificate and bring no password", NULL},
    {"use_subject_as_username", IMPORT_LOST, 0, NULL, "a user is one name of a certificate, not its subject",
     NULL},
    // limits
    {"max_packet_size", IMPORT_BYTES, ALL, "max_packet", NULL, NULL},
    {"message_size_limit", IMPORT_BYTES, ALL, "max_packet", NULL, NULL},
    {"max_inflight_messages", IMPORT_SPECIAL, 0, NULL, NULL, import_inflight_set},
    {"max_inflight_bytes", IMPORT_LOST, 0, NULL, "in flight are counted as messages", NULL},
    {"max_queued_messages", IMPORT_COUNT, ALL, "max_queued_messages", NULL, NULL},
    {"max_queued_bytes", IMPORT_BYTES, ALL, "max_queued_bytes", NULL, NULL},
    {"max_topic_alias", IMPORT_COUNT, LIS, "topic_alias_max", NULL, NULL},
    {"max_topic_alias_broker", IMPORT_NEEDLESS, 0, NULL,
     SAFE "`topic_alias_max` bounds both directions", NULL},
    {"max_keepalive", IMPORT_SECONDS, ALL, "max_keepalive", NULL, NULL},
    {"max_qos", IMPORT_COUNT, LIS, "max_qos", NULL, NULL},
    {"retain_available", IMPORT_BOOL, ALL, "retain_available", NULL, NULL},
    {"memory_limit", IMPORT_BYTES, TOP, "memory_max", NULL, NULL},
    {"global_max_connections", IMPORT_COUNT, TOP, "max_conns", NULL, NULL},
    {"global_max_clients", IMPORT_COUNT, TOP, "max_sessions", NULL, NULL},
    {"sys_interval", IMPORT_SECONDS, TOP, "sys_interval", NULL, NULL},
    {"persistent_client_expiration", IMPORT_SPECIAL, 0, NULL, NULL, import_expiration_set},
    {"queue_qos0_messages", IMPORT_LOST, 0, NULL,
     "QoS 0 is not kept for absent clients", NULL},
    {"upgrade_outgoing_qos", IMPORT_LOST, 0, NULL,
     "a message is not delivered above the QoS it was published with", NULL},
    {"allow_duplicate_messages", IMPORT_LOST, 0, NULL,
     "overlapping subscriptions follow the standard", NULL},
    {"check_retain_source", IMPORT_LOST, 0, NULL, "who published a retained message is not remembered", NULL},
    {"retain_expiry_interval", IMPORT_LOST, 0, NULL,
     "retained messages expire by their own expiry only", NULL},
    {"set_tcp_nodelay", IMPORT_NEEDLESS, 0, NULL, SAFE "it is always on", NULL},
    // persistence
    {"persistence", IMPORT_SPECIAL, 0, NULL, NULL, import_persistence_set},
    {"persistence_location", IMPORT_TEXT, TOP, "data_dir", NULL, NULL},
    {"persistence_file", IMPORT_NEEDLESS, 0, NULL, SAFE "`data_dir` has files of its own", NULL},
    {"autosave_interval", IMPORT_NEEDLESS, 0, NULL, SAFE "nothing is saved at intervals", NULL},
    {"autosave_on_changes", IMPORT_NEEDLESS, 0, NULL, SAFE "nothing is saved at intervals", NULL},
    {"store_clean_interval", IMPORT_NEEDLESS, 0, NULL, SAFE "memory is freed at once", NULL},
    {"retained_persistence", IMPORT_NEEDLESS, 0, NULL, SAFE "`persistence` covers it", NULL},
    // log and process
    {"log_dest", IMPORT_SPECIAL, 0, NULL, NULL, import_log_dest},
    {"log_type", IMPORT_SPECIAL, 0, NULL, NULL, import_log_type},
    {"log_facility", IMPORT_NEEDLESS, 0, NULL, SAFE "RFC 5424 with one facility", NULL},
    {"log_timestamp", IMPORT_NEEDLESS, 0, NULL, SAFE "lines carry the time", NULL},
    {"log_timestamp_format", IMPORT_NEEDLESS, 0, NULL, SAFE "ISO 8601", NULL},
    {"connection_messages", IMPORT_LOG_BOOL, 0, "connections", NULL, NULL},
    {"pid_file", IMPORT_NEEDLESS, 0, NULL, SAFE "the gateway runs in the foreground", NULL},
    {"user", IMPORT_LOST, 0, NULL, "it stays who starts it: set `user` to an account of this machine", NULL},
    {"bridge_attempt_unsubscribe", IMPORT_NEEDLESS, 0, NULL, SAFE "an uplink subscribes to what `down` says", NULL},
    // bridges
    {"connection", IMPORT_SPECIAL, 0, NULL, NULL, import_bridge_begin},
    {"address", IMPORT_BRIDGE, 0, NULL, NULL, import_bridge_address},
    {"addresses", IMPORT_BRIDGE, 0, NULL, NULL, import_bridge_address},
    {"topic", IMPORT_BRIDGE, 0, NULL, NULL, import_bridge_topic},
    {"remote_username", IMPORT_BRIDGE, 0, NULL, NULL, import_bridge_account},
    {"username", IMPORT_BRIDGE, 0, NULL, NULL, import_bridge_account},
    {"remote_password", IMPORT_BRIDGE, 0, NULL, NULL, import_bridge_account},
    {"password", IMPORT_BRIDGE, 0, NULL, NULL, import_bridge_account},
    {"bridge_cafile", IMPORT_BRIDGE, 0, NULL, NULL, import_bridge_tls},
    {"bridge_capath", IMPORT_BRIDGE, 0, NULL, NULL, import_bridge_tls},
    {"bridge_certfile", IMPORT_BRIDGE, 0, NULL, NULL, import_bridge_tls},
    {"bridge_keyfile", IMPORT_BRIDGE, 0, NULL, NULL, import_bridge_tls},
};

// Other options of a bridge: known by name, without equivalent.
static const struct {
    const char *name, *reason;
} bridge_lost[] = {
    {"remote_clientid", "set `client_id` of the uplink"},
    {"clientid", "set `client_id` of the uplink"},
    {"local_clientid", "an uplink is no client of the gateway"},
    {"local_username", "an uplink is no client of the gateway"},
    {"local_password", "an uplink is no client of the gateway"},
    {"local_cleansession", "an uplink reads the log, and keeps its place in it"},
    {"cleansession", "an uplink reads the log, and keeps its place in it"},
    {"keepalive_interval", "set `keepalive` of the uplink"},
    {"idle_timeout", "an uplink stays connected"},
    {"start_type", "an uplink stays connected"},
    {"threshold", "an uplink stays connected"},
    {"restart_timeout", "set `backoff_min` and `backoff_max` of the uplink"},
    {"round_robin", "the first URL is used while it works"},
    {"try_private", "messages are marked, so that they do not come back"},
    {"notifications", "set `status_topic` of the uplink; here its state is on `$SYS/broker/connection/NAME/state`"},
    {"notifications_local_only", "leave `status_topic` of the uplink unset"},
    {"notification_topic", "set `status_topic` of the uplink"},
    {"bridge_protocol_version", "set `version` of the uplink: 5 or 3.1.1"},
    {"bridge_bind_address", "the system chooses the address"},
    {"bridge_max_packet_size", "set `max_packet` of the uplink"},
    {"bridge_max_topic_alias", "chosen by the uplink"},
    {"bridge_receive_maximum", "set `inflight` of the uplink"},
    {"bridge_session_expiry_interval", "set `session_expiry` of the uplink"},
    {"bridge_outgoing_retain", "retained flags are passed on"},
    {"bridge_reload_type", "an uplink keeps its place in the log"},
    {"bridge_tcp_keepalive", "on by itself"},
    {"bridge_tcp_user_timeout", "on by itself"},
    {"bridge_insecure", "the peer's certificate is always checked"},
    {"bridge_require_ocsp", "OCSP is not asked"},
    {"bridge_alpn", "no ALPN is sent"},
    {"bridge_identity", "no pre-shared keys"},
    {"bridge_psk", "no pre-shared keys"},
    {"bridge_tls_version", "TLS 1.2 is spoken"},
    {"bridge_ciphers", "only AEAD suites are offered"},
    {"bridge_tls_use_os_certs", "certificates are given as a file"},
};

static const import_rule *rule_find(const char *key) {
    for (u32 i = 0; i < ARRAY_LEN(rules); i++) {
        if (strcmp(rules[i].name, key) == 0) return &rules[i];
    }
    return NULL;
}

static const char *bridge_reason(const char *key) {
    for (u32 i = 0; i < ARRAY_LEN(bridge_lost); i++) {
        if (strcmp(bridge_lost[i].name, key) == 0) return bridge_lost[i].reason;
    }
    return NULL;
}

static void unknown_report(import_model *m, import_place at, const char *key) {
    const char *near = NULL;
    u32 best = UINT32_MAX;
    for (u32 i = 0; i < ARRAY_LEN(rules); i++) {
        suggest_offer(key, strlen(key), rules[i].name, &best, &near);
    }
    import_error_add(m, at, "unknown option %.64s%s%s%s", key, near != NULL ? "; did you mean " : "",
                     near != NULL ? near : "", near != NULL ? "?" : "");
}

bool import_number(import_model *m, import_place at, const char *key, const char *value, i64 min,
                   i64 max, i64 *out) {
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (errno == 0 && end != value && *end == 0 && number >= min && number <= max) {
        *out = number;
        return true;
    }
    import_error_add(m, at, "%s: \"%.64s\" is not allowed; allowed: %lld to %lld", key, value,
                     (long long)min, (long long)max);
    return false;
}

bool import_bool(import_model *m, import_place at, const char *key, const char *value, bool *out) {
    bool yes = strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
    if (yes || strcmp(value, "false") == 0 || strcmp(value, "0") == 0) {
        *out = yes;
        return true;
    }
    import_error_add(m, at, "%s: \"%.64s\" is not allowed; allowed: true, false", key, value);
    return false;
}

static import_block *block_of(import_model *m, const import_rule *r) {
    if (r->where == IMPORT_TOP) return &m->top;
    if (r->where == IMPORT_EVERY) return &m->every_listener;
    return &m->listeners[m->current].block;
}

static void value_apply(import_model *m, import_place at, const import_rule *r, const char *value) {
    char text[48];
    i64 number;
    bool yes;
    switch (r->kind) {
    case IMPORT_COUNT:
    case IMPORT_BYTES:
    case IMPORT_SECONDS:
        if (!import_number(m, at, r->name, value, -1, UINT32_MAX, &number)) return;
        import_limit_set(m, block_of(m, r), at, r, number);
        return;
    case IMPORT_BOOL:
    case IMPORT_LOG_BOOL:
        if (!import_bool(m, at, r->name, value, &yes)) return;
        snprintf(text, sizeof(text), "%s", yes ? "yes" : "no");
        import_set(m, r->kind == IMPORT_LOG_BOOL ? &m->log : block_of(m, r), at, r->target, text);
        return;
    default: // IMPORT_TEXT
        if (*value == 0) import_error_add(m, at, "%s: a value is missing", r->name);
        else import_set_text(m, block_of(m, r), at, r->target, value);
    }
}

static bool is_plugin_option(const char *key) {
    return strncmp(key, "auth_opt_", 9) == 0 || strncmp(key, "plugin_opt_", 11) == 0;
}

void import_option_apply(import_model *m, import_place at, const char *key, char *value) {
    const import_rule *r = rule_find(key);
    const char *reason = bridge_reason(key);
    if (is_plugin_option(key)) return; // its plugin has been named
    if (r == NULL && reason == NULL) {
        unknown_report(m, at, key);
        return;
    }
    bool belongs_to_bridge = r == NULL || r->kind == IMPORT_BRIDGE;
    if (belongs_to_bridge && m->bridge == NULL) {
        import_error_add(m, at, "%s: belongs behind a `connection`", key);
        return;
    }
    if (r == NULL) {
        import_note_add(m, at, "%s: %s", key, reason);
        return;
    }
    switch (r->kind) {
    case IMPORT_SPECIAL:
    case IMPORT_BRIDGE: r->apply(m, at, key, value); return;
    case IMPORT_LOST: import_note_add(m, at, "%s: %s", key, r->reason); return;
    case IMPORT_NEEDLESS: return;
    default: value_apply(m, at, r, value);
    }
}
