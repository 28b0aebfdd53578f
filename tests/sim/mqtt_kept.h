// SPDX-License-Identifier: Apache-2.0
// mqtt_kept.h: of mqtt_kept.c only: what is known of a run.
#ifndef SLUICE_TESTS_MQTT_KEPT_H
#define SLUICE_TESTS_MQTT_KEPT_H

#include "mqtt_script.h"

#define KEPT_TOPICS 6u
#define KEPT_MEMBERS 2u
#define KEPT_PUBLISHERS 3u // of retained messages; the first one of all others
#define KEPT_PLAIN 4u
#define KEPT_RECEIVERS (KEPT_MEMBERS + KEPT_PLAIN)
#define KEPT_MAX 1024u    // messages of one kind
#define KEPT_PAYLOAD 40u

typedef struct kept_value {
    u32 number;
    bool is_set;
} kept_value;

typedef struct kept_open { // the message that is being published
    char topic[16];
    u32 number, times;
    u16 id;
    u8 qos, by; // by: which of the publishers
    char kind;
    bool is_open, released, retain, empty;
} kept_open;

typedef struct kept_session { // of a receiver
    script_client client;
    const char *filter;
    char kind;             // of the messages it gets
    bool firm;             // its SUBACK has come
    u32 taken[65536];      // QoS 2: number + 1 by identifier, from PUBLISH to PUBREL
    u32 seen[KEPT_MAX];
} kept_session;

typedef struct kept_publisher {
    script_client client;
    bool firm; // its session must be there
} kept_publisher;

typedef struct kept {
    rig *r;
    kept_publisher publishers[KEPT_PUBLISHERS];
    kept_session members[KEPT_MEMBERS], plain[KEPT_PLAIN], watcher;
    kept_open open;
    u32 last_id;
    kept_value value[KEPT_TOPICS], next[KEPT_TOPICS]; // acknowledged; being published, where next_open
    bool next_open[KEPT_TOPICS];
    bool unsure[KEPT_TOPICS]; // next was sent once, and nobody was told
    u32 retained_count, shared_count, will_count, plain_count;
    u8 plain_qos[KEPT_MAX];
    bool will_wanted[KEPT_MAX]; // its client was there, and has not said goodbye
    bool will_gone[KEPT_MAX];   // it has, and that is on disk
    u32 life, lives;
    bool flips, converts;
} kept;

typedef struct kept_totals {
    u64 cuts, conversions, retained, looks, shared, plain, wills, flips, damaged;
} kept_totals;
extern kept_totals kept_total;
void kept_print_counts(void);


#endif
