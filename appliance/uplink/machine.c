// SPDX-License-Identifier: Apache-2.0
// machine.c: the table of machine.h.
#include "uplink/machine.h"

#include "uplink/error.h"

#define TO(state_, action_) {UPLINK_##state_, UPLINK_DO_##action_, UPLINK_ERROR_NONE}
#define LATE(state_, action_, error_) {UPLINK_##state_, UPLINK_DO_##action_, UPLINK_ERROR_##error_}
#define STAY(state_) TO(state_, NOTHING)

static const uplink_step table[UPLINK_STATE_COUNT][UPLINK_EV_COUNT] = {
    //                       START                STOP                   DUE
    //                       RESOLVED             CONNECTED              GREETED           FAILED   CLOSED
    [UPLINK_STOPPED] = {TO(RESOLVING, RESOLVE), STAY(STOPPED), STAY(STOPPED),
                        STAY(STOPPED), STAY(STOPPED), STAY(STOPPED), STAY(STOPPED), STAY(STOPPED)},
    [UPLINK_WAITING] = {STAY(WAITING), TO(STOPPED, FORGET), TO(RESOLVING, RESOLVE),
                        STAY(WAITING), STAY(WAITING), STAY(WAITING), STAY(WAITING), STAY(WAITING)},
    [UPLINK_RESOLVING] = {STAY(RESOLVING), TO(STOPPED, GIVE_UP), LATE(WAITING, CHOOSE, RESOLVE_TIMEOUT),
                          TO(CONNECTING, DIAL), STAY(RESOLVING), STAY(RESOLVING), TO(WAITING, CHOOSE),
                          STAY(RESOLVING)},
    [UPLINK_CONNECTING] = {STAY(CONNECTING), TO(STOPPING, CLOSE), LATE(CLOSING, CLOSE, CONNECT_TIMEOUT),
                           STAY(CONNECTING), TO(GREETING, GREET), STAY(CONNECTING), TO(CLOSING, CLOSE),
                           STAY(CONNECTING)},
    [UPLINK_GREETING] = {STAY(GREETING), TO(STOPPING, LEAVE), LATE(CLOSING, CLOSE, HELLO_TIMEOUT),
                         STAY(GREETING), STAY(GREETING), TO(UP, OPEN), TO(CLOSING, CLOSE), STAY(GREETING)},
    [UPLINK_UP] = {STAY(UP), TO(STOPPING, LEAVE), TO(UP, CHECK),
                   STAY(UP), STAY(UP), STAY(UP), TO(CLOSING, CLOSE), STAY(UP)},
    [UPLINK_CLOSING] = {STAY(CLOSING), STAY(STOPPING), STAY(CLOSING),
                        STAY(CLOSING), STAY(CLOSING), STAY(CLOSING), STAY(CLOSING), TO(WAITING, CHOOSE)},
    [UPLINK_STOPPING] = {STAY(STOPPING), STAY(STOPPING), TO(STOPPING, CLOSE),
                         STAY(STOPPING), STAY(STOPPING), STAY(STOPPING), TO(STOPPING, CLOSE), TO(STOPPED, FORGET)},
};

uplink_step uplink_machine(uplink_state state, uplink_event event) {
    ASSERT((u32)state < UPLINK_STATE_COUNT && (u32)event < UPLINK_EV_COUNT);
    return table[state][event];
}

const char *uplink_state_name(u32 state) {
    static const char *const names[] = {
#define UPLINK_STATE_ROW(symbol, name) name,
        UPLINK_STATES(UPLINK_STATE_ROW)
#undef UPLINK_STATE_ROW
    };
    return state < ARRAY_LEN(names) ? names[state] : "unknown";
}
