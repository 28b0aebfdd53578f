// SPDX-License-Identifier: Apache-2.0
// schema.h: the table of all settings. A row gives a key its section, type, place in config.h's
// structs, default, bounds and text; parsing, defaults, checks, printing and the reference all read
// this one table, so that none of them can know a key that the others do not.
#ifndef SLUICE_CONF_SCHEMA_H
#define SLUICE_CONF_SCHEMA_H

#include "conf/config.h"

typedef enum section_kind {
    SECTION_TOP,
    SECTION_ADMIN,
    SECTION_LOG,
    SECTION_UPDATE,
    SECTION_LISTENER,
    SECTION_TLS,     // a block in a listener's; rows are of listener_config
    SECTION_UPLINK,
    SECTION_NETWORK,
    SECTION_STREAM,
    SECTIONS
} section_kind;

typedef enum setting_type {
    SETTING_BOOL,
    SETTING_COUNT,   // u32
    SETTING_BYTES32, // u32 bytes
    SETTING_BYTES64, // u64 bytes
    SETTING_MS32,    // u32 milliseconds
    SETTING_MS64,    // u64 milliseconds
    SETTING_S32,     // u32 seconds
    SETTING_US32,    // u32 microseconds
    SETTING_WORD,    // one of words, stored as an enum (int)
    SETTING_ENGINE,  // auto or one of words; config.engine_auto and config.engine
    SETTING_TEXT,    // char[capacity]
    SETTING_BIND,    // bind_address
    SETTING_FILTERS, // list of topic filters: char[capacity], each ended by a newline
    SETTING_LIST,    // list of other texts, the same way; each is given to check
} setting_type;

enum {
    SETTING_POWER_OF_TWO = 1u << 0,
    SETTING_REQUIRED = 1u << 1,     // has no default
    SETTING_SECRET = 1u << 2,       // never printed
    SETTING_PUBLISH_ONLY = 1u << 3, // of no use on a frame listener of another mode
    SETTING_FRAME_ONLY = 1u << 4,   // of no use on a listener of another protocol
    SETTING_MQTT_ONLY = 1u << 5,
    SETTING_WS_ONLY = 1u << 6,      // of no use without transport = websocket
};

typedef struct setting_word {
    const char *name;
    int value;
} setting_word;

typedef struct setting {
    section_kind section;
    setting_type type;
    const char *key;
    size_t offset;             // in config, or in the block's own struct
    size_t capacity;           // SETTING_TEXT: bytes, with the terminator
    u64 min, max;              // in the unit of the field; both inclusive
    const char *zero;          // the word for 0: "auto", "never", "off", "unlimited"; NULL = none
    const setting_word *words; // ends with a NULL name
    u32 flags;
    // Text, or element of a list, beyond its length: NULL when it is acceptable, else what is wrong with it.
    const char *(*check)(const char *text);
    const char *def; // as in a file; NULL = decided after parsing (def_note says how) or required
    const char *def_note;
    const char *list_note; // SETTING_LIST: what an element is, with an example; may be NULL
    const char *since; // version
    const char *text;  // one paragraph: what it does, when to change it
} setting;

extern const setting schema_settings[];
extern const u32 schema_setting_count;

typedef struct section_info {
    const char *name;  // "" at the top
    bool named;        // NAME follows: one block for each
    const char *title; // of the reference
    const char *text;
} section_info;
extern const section_info schema_sections[SECTIONS];

// The row of a key in a section, or NULL.
const setting *schema_find(section_kind section, const char *key, size_t key_len);
// The row for a key that must exist (programmer's error otherwise).
u32 schema_index(section_kind section, const char *key);
// The key or section most like an unknown one: "max_frame"; NULL when nothing is near.
const char *schema_suggest_key(section_kind section, const char *key, size_t key_len);
const char *schema_suggest_section(const char *name, size_t name_len);

#define SCHEMA_SETTINGS_MAX 256

#endif
