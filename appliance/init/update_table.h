// SPDX-License-Identifier: Apache-2.0
// update_table.h: the life of an update as one table, state x event. Pure: update.c does what it says. What is on
// the ESP meanwhile is written in update_write.h; here is what init does about it.
//
//            begin    written  failed   blessed  healthy  deadline
// OFF        refuse   -        -        -        -        -           not started by our loader
// IDLE       WRITING  -        -        -        -        -           the system has proved itself
// WRITING    refuse   WRITTEN  IDLE     -        -        -           a helper writes the other slot
// WRITTEN    refuse   -        -        -        -        -           the trial is arranged, a restart begins it
// TRIAL      refuse   -        -        -        BLESSING restart     this start is the trial
// BLESSING   refuse   -        TRIAL    IDLE     -        stay        a helper writes that it passed
#ifndef SLUICE_INIT_UPDATE_TABLE_H
#define SLUICE_INIT_UPDATE_TABLE_H

#include "base/base.h"

typedef enum update_state {
    UPDATE_OFF,
    UPDATE_IDLE,
    UPDATE_WRITING,
    UPDATE_WRITTEN,
    UPDATE_TRIAL,
    UPDATE_BLESSING,
    UPDATE_STATES
} update_state;

typedef enum update_event {
    UPDATE_BEGIN,    // somebody has an update
    UPDATE_DONE,     // the helper has written the slot
    UPDATE_FAILED,   // the helper could not do its work
    UPDATE_BLESSED,  // the helper has written that the trial passed
    UPDATE_HEALTHY,  // the check holds, or an operator confirms
    UPDATE_DEADLINE, // the time for the trial is over
    UPDATE_EVENTS
} update_event;

typedef enum update_action {
    UPDATE_NOTHING,
    UPDATE_REFUSE,   // the event is not possible now
    UPDATE_WRITE,    // start the writer
    UPDATE_RESTART,  // into the trial, when that was asked for
    UPDATE_BLESS,    // start the helper that blesses
    UPDATE_RECORD,   // note the outcome
    UPDATE_ROLL_BACK // restart into the old system
} update_action;

typedef struct update_step {
    update_state next;
    update_action action;
} update_step;

update_step update_table(update_state state, update_event event);
const char *update_state_name(update_state state);
// Why an event is refused in this state; a sentence without full stop.
const char *update_refusal(update_state state);

#endif
