// SPDX-License-Identifier: Apache-2.0
// machine.h: the life of an uplink's connection as one table state x event -> next state and action. No I/O, no
// clock, no memory: uplink.c does what the action says and reports what comes of it as the next event.
//
//   stopped -> resolving -> connecting -> greeting -> up
//                  |            |            |         |
//                waiting <---- closing <-----+---------+          stopping: as closing, but for good
//
// One deadline belongs to the state; `due` is its passing.
#ifndef SLUICE_UPLINK_MACHINE_H
#define SLUICE_UPLINK_MACHINE_H

#include "base/base.h"

#define UPLINK_STATES(X) \
    X(STOPPED, "stopped") X(WAITING, "waiting") X(RESOLVING, "resolving") X(CONNECTING, "connecting") \
    X(GREETING, "greeting") X(UP, "up") X(CLOSING, "closing") X(STOPPING, "stopping")

typedef enum uplink_state {
#define UPLINK_STATE_ENUM(symbol, name) UPLINK_##symbol,
    UPLINK_STATES(UPLINK_STATE_ENUM)
#undef UPLINK_STATE_ENUM
        UPLINK_STATE_COUNT
} uplink_state;

typedef enum uplink_event {
    UPLINK_EV_START,
    UPLINK_EV_STOP,
    UPLINK_EV_DUE,       // the state's deadline has passed
    UPLINK_EV_RESOLVED,  // addresses are there
    UPLINK_EV_CONNECTED,
    UPLINK_EV_GREETED,   // the remote has accepted us
    UPLINK_EV_FAILED,    // anything that ends the attempt or the connection; the error is set
    UPLINK_EV_CLOSED,    // the socket is gone
    UPLINK_EV_COUNT
} uplink_event;

typedef enum uplink_action {
    UPLINK_DO_NOTHING,
    UPLINK_DO_RESOLVE,   // look up the current URL's host
    UPLINK_DO_GIVE_UP,   // forget the look-up
    UPLINK_DO_DIAL,      // connect to the current address
    UPLINK_DO_GREET,     // send what the protocol begins with
    UPLINK_DO_OPEN,      // drain the backlog
    UPLINK_DO_CHECK,     // up: is anything overdue?
    UPLINK_DO_CLOSE,     // close the socket; CLOSED follows
    UPLINK_DO_LEAVE,     // say goodbye and close; CLOSED follows
    UPLINK_DO_CHOOSE,    // next address or URL at once, or wait: sets the deadline
    UPLINK_DO_FORGET,    // the end: nothing of the connection is left
} uplink_action;

typedef struct uplink_step {
    u8 state;  // uplink_state afterwards
    u8 action; // uplink_action
    u8 error;  // uplink_error that a passed deadline means; 0: the event brings its own, or none
} uplink_step;

// What an event does in a state. One that means nothing there leaves the state and does nothing.
uplink_step uplink_machine(uplink_state state, uplink_event event);
const char *uplink_state_name(u32 state);

#endif
