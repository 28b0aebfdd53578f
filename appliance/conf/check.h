// SPDX-License-Identifier: Apache-2.0
// check.h: what one setting alone can not say: defaults that follow from other settings, and
// settings that contradict each other. Runs after every key of the file has been applied. Pure.
#ifndef SLUICE_CONF_CHECK_H
#define SLUICE_CONF_CHECK_H

#include "conf/errors.h"
#include "conf/schema.h"

// Where each setting stands in the file, by its row in the schema; 0 = it has its default.
typedef struct conf_lines {
    u32 top[SCHEMA_SETTINGS_MAX]; // and sections without a name
    u32 listener[LIMIT_LISTENERS_MAX][SCHEMA_SETTINGS_MAX];
    u32 listener_begin[LIMIT_LISTENERS_MAX];
    bool listener_wrong[LIMIT_LISTENERS_MAX]; // has a mistake already: more would only confuse
    u32 uplink[LIMIT_UPLINKS_MAX][SCHEMA_SETTINGS_MAX];
    u32 uplink_begin[LIMIT_UPLINKS_MAX];
    bool uplink_wrong[LIMIT_UPLINKS_MAX];
    u32 network[LIMIT_NETWORKS_MAX][SCHEMA_SETTINGS_MAX];
    u32 network_begin[LIMIT_NETWORKS_MAX];
    bool network_wrong[LIMIT_NETWORKS_MAX];
    u32 stream[LIMIT_STREAMS_MAX][SCHEMA_SETTINGS_MAX];
    u32 stream_begin[LIMIT_STREAMS_MAX];
} conf_lines;

// Completes c and adds the mistakes found to errors.
void conf_check(config *c, const conf_lines *lines, conf_errors *errors);

// conf/uplink.c: the same for `uplink NAME { ... }` blocks.
void conf_check_uplinks(const config *c, const conf_lines *lines, conf_errors *errors);

#endif
