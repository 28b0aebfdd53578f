// SPDX-License-Identifier: Apache-2.0
// update_internal.h: what update.c (state, requests) and update_trial.c (the trial's watch) share, and the work of
// their helper processes (update_work.c). Not for others.
#ifndef SLUICE_INIT_UPDATE_INTERNAL_H
#define SLUICE_INIT_UPDATE_INTERNAL_H

#include "conf/config.h"
#include "init/boot_slot.h"
#include "init/requests.h"
#include "init/update_helper.h"
#include "init/update_table.h"

// --- update.c ---

// What the loader said about this start.
const boot_slot *update_boot(void);
update_state update_state_now(void);
// Feeds an event to the table. Returns the action that was taken, or UPDATE_REFUSE.
update_action update_feed(update_event event);
// The outcome of the last update, for the state record, the log and the status.
void update_record(const char *format, ...) PRINTF_LIKE(1, 2);

// --- update_trial.c ---

void update_trial_start(void);
// The helper that blesses; called by update.c for UPDATE_BLESS.
void update_trial_bless(void);
// "" or what the last check found.
const char *update_trial_complaint(void);
u64 update_trial_left_ms(void);

// --- update_work.c: in helper processes; blocking ---

typedef struct update_order {
    char running;          // slot
    bool allow_downgrade;
    int fd;                // the update's bytes, or -1: from url
    char url[1024];
} update_order;

// Each says lines to its owner: "progress DONE TOTAL", "version TEXT", "slot X", "error TEXT". Return the exit status.
int update_work_write(const update_helper *h, const update_order *order);
// slot has proved itself.
int update_work_bless(const update_helper *h, char slot);
// Says "env SLOT TRY TRIED".
int update_work_look(const update_helper *h);
int update_work_check(const update_helper *h);

#endif
