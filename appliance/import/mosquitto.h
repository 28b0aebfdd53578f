// SPDX-License-Identifier: Apache-2.0
// mosquitto.h: what a mosquitto.conf says, as a model: settings of the process, listeners, bridges,
// and notes about everything that has no equivalent. mosquitto_read.c cuts text into options,
// mosquitto_rules.c gives each option its meaning, mosquitto_write.c prints the result.
//
// Start-up code of a command line tool: it allocates, and running out of memory ends the process.
#ifndef SLUICE_IMPORT_MOSQUITTO_H
#define SLUICE_IMPORT_MOSQUITTO_H

#include <stdio.h>

#include "base/base.h"

#define IMPORT_FILE_BYTES_MAX (4u << 20)
#define IMPORT_LINE_BYTES_MAX 65536u
#define IMPORT_FILES_MAX 256u
#define IMPORT_DEPTH_MAX 8u
#define IMPORT_LISTENERS_MAX 64u
#define IMPORT_BRIDGES_MAX 64u
#define IMPORT_SETTINGS_MAX 48u // of one block
#define IMPORT_TOPICS_MAX 128u  // of one bridge
#define IMPORT_ADDRESSES_MAX 8u // of one bridge: the URLs that an uplink may have
#define IMPORT_NOTES_MAX 1024u
#define IMPORT_ERRORS_MAX 64u

typedef struct import_place {
    const char *file; // lives as long as the model
    u32 line;
} import_place;

typedef struct import_setting { // a line of the result
    char key[32];
    char *value; // as in the file: quoted when it is a text
    import_place place;
} import_setting;

typedef struct import_block {
    import_setting settings[IMPORT_SETTINGS_MAX];
    u32 count;
} import_block;

typedef struct import_tls {
    char *cert, *key, *ca, *crl;
    bool require_certificate;
} import_tls;

typedef struct import_listener {
    import_place place;
    u32 port;
    char *bind;      // address, or path of a unix socket when is_unix; NULL: all addresses
    bool is_unix, websocket, ipv4_only;
    bool http; // its HTTP API: not a listener here
    i32 anonymous;   // -1: not said
    bool has_passwords; // a password file
    bool has_accounts;  // accounts of a kind that is not available
    import_block block;
    import_tls tls;
} import_listener;

typedef struct import_topic {
    import_place place;
    char *local, *remote; // the pattern with the prefix of either side
    bool out, in;
} import_topic;

typedef struct import_bridge {
    import_place place;
    char *name, *user, *password, *ca, *cert, *key;
    char *hosts[IMPORT_ADDRESSES_MAX]; // "HOST:PORT"
    u32 host_count;
    bool tls;
    import_topic topics[IMPORT_TOPICS_MAX];
    u32 topic_count;
} import_bridge;

typedef struct import_note {
    import_place place;
    char *text;
} import_note;

typedef struct import_model {
    import_block top, log;
    import_block every_listener; // limits that are global there and belong to listeners here
    import_listener *listeners;  // [0] is the default one (`port`), in use when its port is not 0
    u32 listener_count;
    import_bridge *bridges;
    u32 bridge_count;
    bool per_listener, default_used;
    i32 anonymous;
    bool has_passwords, has_accounts;
    u8 log_levels; // bits of log_level + 1 asked for by log_type
    bool log_dest_given, log_stderr;
    u32 current; // listener that options go to
    import_bridge *bridge; // bridge that options go to; NULL: a listener
    import_note *notes, *errors;
    u32 note_count, error_count;
    char *files[IMPORT_FILES_MAX];
    u32 file_count;
} import_model;

void import_model_prepare(import_model *m);
void import_model_free(import_model *m);
// Keeps a name for places.
const char *import_file_name(import_model *m, const char *name);
PRINTF_LIKE(3, 4) void import_note_add(import_model *m, import_place at, const char *format, ...);
PRINTF_LIKE(3, 4) void import_error_add(import_model *m, import_place at, const char *format, ...);
// Sets a line of a block; a later one replaces an earlier one. The value is copied.
void import_set(import_model *m, import_block *b, import_place at, const char *key,
                const char *value);
void import_set_text(import_model *m, import_block *b, import_place at, const char *key,
                     const char *text);

// Calls option for each option of the text, in order. Mistakes go to errors.
typedef void (*import_on_option)(import_model *m, import_place at, char *key, char *value,
                                 void *ctx);
void import_text_read(import_model *m, const char *file, const char *text, size_t bytes,
                      import_on_option option, void *ctx);
// One option into the model. include_dir is the caller's.
void import_option_apply(import_model *m, import_place at, const char *key, char *value);
// After the last option: what defaults mean together.
void import_model_finish(import_model *m);
// Prints the configuration with its notes as comments.
void import_model_write(import_model *m, const char *source, FILE *out);

#endif
