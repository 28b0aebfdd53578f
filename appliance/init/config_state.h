// SPDX-License-Identifier: Apache-2.0
// config_state.h: what config_collect.c knows, for config_report.c, which shows it. One module in two files.
#ifndef SLUICE_INIT_CONFIG_STATE_H
#define SLUICE_INIT_CONFIG_STATE_H

#include "init/config_merge.h"
#include "init/metadata.h"

// In order: a later one's keys stand over an earlier one's.
typedef enum config_source {
    SOURCE_BAKED,
    SOURCE_ESP,
    SOURCE_CIDATA,
    SOURCE_METADATA,
    SOURCE_CMDLINE,
    SOURCES
} config_source;
_Static_assert(SOURCES <= CONFIG_SOURCES_MAX, "all are merged");

// Where the configuration in force came from.
typedef enum config_use {
    CONFIG_USE_NONE,
    CONFIG_USE_SOURCES,   // all that are there
    CONFIG_USE_LAST_GOOD, // of an earlier boot, since the sources have a mistake
    CONFIG_USE_REDUCED,   // without the sources with mistakes, since there is no last good one
    CONFIG_USE_BUILT_IN,  // not even the baked default could be used
} config_use;

typedef struct source_state {
    bool present;
    bool left_out; // CONFIG_USE_REDUCED
    bool unreadable; // its medium is damaged: what it says is not known
    char *text;
    size_t len;
    char name[64];
    char problem[256]; // of this source alone
} source_state;

typedef struct config_state {
    source_state sources[SOURCES];
    config_use use;
    config_merged merged; // in force; without content when use is the last good one or built in
    config *effective;    // in force
    char *text;           // as written to CONFIG_RUN_PATH
    size_t len;
    config_error problem; // of what was tried last; "" = none
    char rejected[256];   // the gateway's refusal; "" = none
    cloud_kind cloud;
    const char *metadata; // "off", "waiting", "asking", "done", "none", "failed"
    bool pending;         // text has not been accepted by the gateway yet
    u32 generation;
} config_state;
extern config_state collected;

const char *config_use_name(config_use use);
void config_report_register(void);

#endif
