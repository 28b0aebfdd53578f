// SPDX-License-Identifier: Apache-2.0
// config_merge.h: several configurations made into one, key by key, and where each key came from. Pure:
// texts in, text out. The result has one statement on each line, so that a mistake the checker finds in
// it can be told by the file and line that it was written in.
//
// Rules: of equal keys the later source's stands. Sections with a name (listener, network) of the first
// source, the baked default, count only while no file above it has one of that kind: who writes listeners
// gets those and no others. Words of the kernel's command line change single keys and replace nothing.
#ifndef SLUICE_INIT_CONFIG_MERGE_H
#define SLUICE_INIT_CONFIG_MERGE_H

#include "conf/config.h"

#define CONFIG_SOURCES_MAX 6u
#define CONFIG_SOURCE_BYTES_MAX (256u << 10) // of one source
#define CONFIG_NODES_MAX 8192u               // sections and settings, all sources together

typedef struct config_text {
    const char *name;  // "esp /sluice.conf": in messages
    const char *text;
    size_t len;
    bool is_default;   // gives way to named sections of others
    bool is_words;     // "KEY=VALUE" lines with dotted keys, instead of a file
} config_text;

typedef struct config_origin {
    u8 source;
    u32 line; // 0 = none (command line)
} config_origin;

typedef struct config_merged {
    char *text; // terminated
    size_t len;
    u32 lines;
    config_origin *origins; // of each line
    struct config_node *nodes;
    u32 node_count;
    const char *names[CONFIG_SOURCES_MAX];
} config_merged;

// Returns 0; -EINVAL with error->text: a source can not be read (its own file and line); -ENOMEM.
// bad_source (may be NULL) receives the index of the source at fault. names are kept by pointer.
int config_merge(const config_text *sources, u32 count, config_merged *out, config_error *error,
                 u32 *bad_source);
void config_merged_free(config_merged *m);

// Checks the merged text as the gateway does. On -EINVAL error->text names the sources' own lines and
// *bad_source is the highest source with a mistake (CONFIG_SOURCES_MAX when none can be named).
int config_merged_check(const config_merged *m, config *out, config_error *error, u32 *bad_source);

// Where the key of a section ("" at the top, else "log" or "listener/devices") was written; false when no
// source has it (its default is in force).
bool config_merged_origin(const config_merged *m, const char *section, const char *key,
                          config_origin *out);

#endif
