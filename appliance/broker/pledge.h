// SPDX-License-Identifier: Apache-2.0
// pledge.h: an acknowledgement that is owed and waits for the disk. A publication that somebody must have
// after a crash gives its publisher a pledge; it is settled when the record in this worker's log and those of
// the other workers are committed. Who publishes keeps its pledges in a line and answers from the front, so
// that acknowledgements leave in the order of the publications (MQTT 5.0 section 4.6), and QoS 0 is never
// held up.
//
// A line that is given up (its connection has gone) leaves its pledges to themselves: each is freed when it is
// settled. Owner thread only.
#ifndef SLUICE_BROKER_PLEDGE_H
#define SLUICE_BROKER_PLEDGE_H

#include "broker/broker.h"
#include "store/log.h"

typedef struct pledge pledge;
typedef struct pledge_line pledge_line;

struct pledge {
    store_waiter waiter; // for this worker's log
    broker *broker;
    pledge_line *line;   // NULL: nobody is told
    pledge *next;        // in the line
    u32 waits;           // commits outstanding: this worker's, the others'
    int result;          // 0, or the first failure: -ENOSPC, -EIO
    u32 word;            // the owner's: what is to be answered
    // Its exchange is not in a record (see route.c): who remembers it does so when this is settled, not before.
    bool late;
};

struct pledge_line {
    pledge *head, *tail;
    u32 count;
    // The first one is settled. Called from the loop, never inside broker_publish or pledge_line_add.
    void (*settled)(pledge_line *line);
};

// One that waits for nothing yet. NULL: no memory.
pledge *pledge_create(broker *b);
// Gives up one that is in no line and waits for nothing.
void pledge_discard(pledge *p);
// Gives up one that is in no line, whatever it waits for.
static inline void pledge_forget(pledge *p) {
    if (p->waits == 0) pledge_discard(p);
}
// It waits for this worker's log up to pos.
void pledge_on_log(pledge *p, store *log, store_pos pos);
// It waits for something more, which ends with pledge_part_done.
static inline void pledge_on_part(pledge *p) {
    p->waits++;
}
void pledge_part_done(pledge *p, int result);

// At the end of the line, with what is to be answered.
void pledge_line_add(pledge_line *line, pledge *p, u32 word);
// Takes the first one if it is settled: false: none is. *word and *result are its.
bool pledge_line_take(pledge_line *line, u32 *word, int *result);
void pledge_line_abandon(pledge_line *line);

#endif
