// SPDX-License-Identifier: Apache-2.0
// supervise.h: the gateway as a child of init: starts it, watches its heartbeats, restarts it, stops it.
// What is decided is in supervise_table.h; this is who does it. Init's loop only.
#ifndef SLUICE_INIT_SUPERVISE_H
#define SLUICE_INIT_SUPERVISE_H

#include <yyjson.h>

#include "base/base.h"

#define SUPERVISE_KEY_PANICS "boot.panics" // in the state record: boots in a row that the kernel's death ended

typedef struct supervise_config {
    const char *program;   // what is run: PROGRAM run -c CONFIG
    const char *conf_path; // NULL: without -c
    const char *socket_path; // of init's requests; NULL = none
    bool real;             // a crash loop restarts the machine
} supervise_config;

// Makes the shared page. Strings must outlive it. Returns 0 or -errno: without the page heartbeats can
// not be seen, and init does not go on.
int supervise_open(const supervise_config *config);
// The kernel died at the end of so many boots in a row: status mode from the start, when they are too many. Before
// supervise_go.
void supervise_panics(u64 boots);
// Configuration and data partition are there: start. volatile_data: there is no data partition; the
// gateway is told by SLUICE_DATA_VOLATILE=1 that what it writes does not survive.
void supervise_go(bool volatile_data);
// The configuration file has changed (SIGHUP); a gateway that waits after a crash is started at once.
void supervise_reload(void);
// Drains and ends the child within LIMIT_DRAIN_MS; on_done is called when there is none any more (at
// once when there is none now). Again: at once.
void supervise_stop(void (*on_done)(void));
// For the hardware watchdog: does everything move?
bool supervise_is_healthy(void);
bool supervise_in_status_mode(void);
bool supervise_had_crash_loop(void);
// Fields for the request "appliance".
void supervise_describe(yyjson_mut_doc *doc, yyjson_mut_val *to);

#endif
