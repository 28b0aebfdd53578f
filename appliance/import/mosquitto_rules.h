// SPDX-License-Identifier: Apache-2.0
// mosquitto_rules.h: between mosquitto_rules.c (the table) and mosquitto_special.c (options that
// need more than a table), seen by no one else.
#ifndef SLUICE_IMPORT_MOSQUITTO_RULES_H
#define SLUICE_IMPORT_MOSQUITTO_RULES_H

#include "import/mosquitto.h"

typedef enum import_kind {
    IMPORT_SPECIAL,  // apply does it
    IMPORT_BRIDGE,   // the same, only behind a `connection`
    IMPORT_COUNT,    // a number: target
    IMPORT_BYTES,
    IMPORT_SECONDS,
    IMPORT_BOOL,
    IMPORT_LOG_BOOL, // in log { }
    IMPORT_TEXT,
    IMPORT_LOST,     // no equivalent: reason
    IMPORT_NEEDLESS, // nothing is lost without it: reason
} import_kind;

typedef enum import_where { IMPORT_TOP, IMPORT_LISTENER, IMPORT_EVERY } import_where;

typedef struct import_rule {
    const char *name;
    u8 kind, where;
    const char *target, *reason;
    void (*apply)(import_model *m, import_place at, const char *key, char *value);
} import_rule;

bool import_number(import_model *m, import_place at, const char *key, const char *value, i64 min,
                   i64 max, i64 *out);
bool import_bool(import_model *m, import_place at, const char *key, const char *value, bool *out);
// A limit, where 0 or -1 means none in mosquitto.conf, within the bounds of the setting here.
void import_limit_set(import_model *m, import_block *b, import_place at, const import_rule *r,
                      i64 number);

#define IMPORT_APPLY(name) \
    void name(import_model *m, import_place at, const char *key, char *value)
IMPORT_APPLY(import_listener_begin);
IMPORT_APPLY(import_port_set);
IMPORT_APPLY(import_bind_set);
IMPORT_APPLY(import_protocol_set);
IMPORT_APPLY(import_domain_set);
IMPORT_APPLY(import_per_listener_set);
IMPORT_APPLY(import_anonymous_set);
IMPORT_APPLY(import_accounts_set);
IMPORT_APPLY(import_auth_file_set);
IMPORT_APPLY(import_tls_set);
IMPORT_APPLY(import_inflight_set);
IMPORT_APPLY(import_expiration_set);
IMPORT_APPLY(import_persistence_set);
IMPORT_APPLY(import_log_dest);
IMPORT_APPLY(import_log_type);
IMPORT_APPLY(import_bridge_begin);
IMPORT_APPLY(import_bridge_address);
IMPORT_APPLY(import_bridge_topic);
IMPORT_APPLY(import_bridge_account);
IMPORT_APPLY(import_bridge_tls);

#endif
