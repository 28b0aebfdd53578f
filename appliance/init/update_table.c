// SPDX-License-Identifier: Apache-2.0
// update_table.c: see update_table.h. An event that the table does not name for a state changes nothing.
#include "init/update_table.h"

#define STAY(state, action) {state, action}

static const update_step table[UPDATE_STATES][UPDATE_EVENTS] = {
    [UPDATE_OFF] = {
        [UPDATE_BEGIN] = STAY(UPDATE_OFF, UPDATE_REFUSE),
        [UPDATE_DONE] = STAY(UPDATE_OFF, UPDATE_NOTHING),
        [UPDATE_FAILED] = STAY(UPDATE_OFF, UPDATE_NOTHING),
        [UPDATE_BLESSED] = STAY(UPDATE_OFF, UPDATE_NOTHING),
        [UPDATE_HEALTHY] = STAY(UPDATE_OFF, UPDATE_REFUSE),
        [UPDATE_DEADLINE] = STAY(UPDATE_OFF, UPDATE_NOTHING),
    },
    [UPDATE_IDLE] = {
        [UPDATE_BEGIN] = {UPDATE_WRITING, UPDATE_WRITE},
        [UPDATE_DONE] = STAY(UPDATE_IDLE, UPDATE_NOTHING),
        [UPDATE_FAILED] = STAY(UPDATE_IDLE, UPDATE_NOTHING),
        [UPDATE_BLESSED] = STAY(UPDATE_IDLE, UPDATE_NOTHING),
        [UPDATE_HEALTHY] = STAY(UPDATE_IDLE, UPDATE_REFUSE),
        [UPDATE_DEADLINE] = STAY(UPDATE_IDLE, UPDATE_NOTHING),
    },
    [UPDATE_WRITING] = {
        [UPDATE_BEGIN] = STAY(UPDATE_WRITING, UPDATE_REFUSE),
        [UPDATE_DONE] = {UPDATE_WRITTEN, UPDATE_RESTART},
        [UPDATE_FAILED] = {UPDATE_IDLE, UPDATE_RECORD},
        [UPDATE_BLESSED] = STAY(UPDATE_WRITING, UPDATE_NOTHING),
        [UPDATE_HEALTHY] = STAY(UPDATE_WRITING, UPDATE_REFUSE),
        [UPDATE_DEADLINE] = STAY(UPDATE_WRITING, UPDATE_NOTHING),
    },
    [UPDATE_WRITTEN] = {
        [UPDATE_BEGIN] = STAY(UPDATE_WRITTEN, UPDATE_REFUSE),
        [UPDATE_DONE] = STAY(UPDATE_WRITTEN, UPDATE_NOTHING),
        [UPDATE_FAILED] = STAY(UPDATE_WRITTEN, UPDATE_NOTHING),
        [UPDATE_BLESSED] = STAY(UPDATE_WRITTEN, UPDATE_NOTHING),
        [UPDATE_HEALTHY] = STAY(UPDATE_WRITTEN, UPDATE_REFUSE),
        [UPDATE_DEADLINE] = STAY(UPDATE_WRITTEN, UPDATE_NOTHING),
    },
    [UPDATE_TRIAL] = {
        [UPDATE_BEGIN] = STAY(UPDATE_TRIAL, UPDATE_REFUSE),
        [UPDATE_DONE] = STAY(UPDATE_TRIAL, UPDATE_NOTHING),
        [UPDATE_FAILED] = STAY(UPDATE_TRIAL, UPDATE_NOTHING),
        [UPDATE_BLESSED] = STAY(UPDATE_TRIAL, UPDATE_NOTHING),
        [UPDATE_HEALTHY] = {UPDATE_BLESSING, UPDATE_BLESS},
        [UPDATE_DEADLINE] = STAY(UPDATE_TRIAL, UPDATE_ROLL_BACK),
    },
    [UPDATE_BLESSING] = {
        [UPDATE_BEGIN] = STAY(UPDATE_BLESSING, UPDATE_REFUSE),
        [UPDATE_DONE] = STAY(UPDATE_BLESSING, UPDATE_NOTHING),
        [UPDATE_FAILED] = STAY(UPDATE_TRIAL, UPDATE_NOTHING),
        [UPDATE_BLESSED] = {UPDATE_IDLE, UPDATE_RECORD},
        [UPDATE_HEALTHY] = STAY(UPDATE_BLESSING, UPDATE_NOTHING),
        [UPDATE_DEADLINE] = STAY(UPDATE_BLESSING, UPDATE_NOTHING),
    },
};

update_step update_table(update_state state, update_event event) {
    ASSERT(state < UPDATE_STATES && event < UPDATE_EVENTS);
    return table[state][event];
}

const char *update_state_name(update_state state) {
    static const char *const names[UPDATE_STATES] = {"off", "idle", "writing", "written", "trial", "blessing"};
    return state < UPDATE_STATES ? names[state] : "?";
}

const char *update_refusal(update_state state) {
    static const char *const texts[UPDATE_STATES] = {
        [UPDATE_OFF] = "this system was not started by the image's boot loader, which an update needs to fall back",
        [UPDATE_IDLE] = "there is no trial to confirm",
        [UPDATE_WRITING] = "another update is being written",
        [UPDATE_WRITTEN] = "an update is written and waits for the restart",
        [UPDATE_TRIAL] = "the running system is itself on trial; confirm it, or restart to go back",
        [UPDATE_BLESSING] = "the running system is just being confirmed",
    };
    return state < UPDATE_STATES ? texts[state] : "?";
}
