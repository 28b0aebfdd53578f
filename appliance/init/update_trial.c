// SPDX-License-Identifier: Apache-2.0
// update_trial.c: watches the first start of a new system: once the gateway has been ready long enough a helper makes
// the check of boot_check.h; when that holds, another helper writes that the system is good. When the time is over
// the machine restarts, and the loader, which has noted the trial, starts the old system. A panic, a hang
// that the watchdog ends, a crash loop (supervise.c) and a power cut come to the same end without this file.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "init/config_collect.h"
#include "init/control.h"
#include "init/init_log.h"
#include "init/update_internal.h"

#define LOOK_MS 1000u  // how often the gateway is looked at
#define AGAIN_MS 5000u // after a check that failed

static struct {
    bool policy_known;
    update_confirm confirm;
    u64 after_ms, within_ms, deadline_ns;
    init_timer look;
    update_helper check, bless;
    char complaint[UPDATE_HELPER_LINE_BYTES];
} trial = {.within_ms = LIMIT_UPDATE_TRIAL_MS};

const char *update_trial_complaint(void) {
    return trial.complaint;
}

u64 update_trial_left_ms(void) {
    u64 now = init_loop_now_ns();
    return trial.deadline_ns > now ? (trial.deadline_ns - now) / NS_PER_MS : 0;
}

// The configuration's update block, once the gateway runs on it. Before, the longest default holds.
static void learn_policy(void) {
    config *c = malloc(sizeof(*c));
    config_error *error = malloc(sizeof(*error));
    u64 started_ns = trial.deadline_ns - trial.within_ms * NS_PER_MS;
    if (c != NULL && error != NULL && config_load(CONFIG_RUN_PATH, c, error) == 0) {
        trial.policy_known = true;
        trial.confirm = c->update.confirm;
        trial.after_ms = c->update.after_ms;
        trial.within_ms = c->update.within_ms;
        trial.deadline_ns = started_ns + trial.within_ms * NS_PER_MS;
        init_info("update: this system is on trial for %llu s; it counts as good %s",
                  (unsigned long long)(trial.within_ms / 1000),
                  trial.confirm == UPDATE_CONFIRM_OPERATOR ? "when an operator confirms it" : "when its check holds");
    }
    free(c);
    free(error);
}

static void check_end(update_helper *h, int status) {
    (void)h;
    if (update_state_now() != UPDATE_TRIAL) return;
    if (status == 0) {
        trial.complaint[0] = '\0';
        update_feed(UPDATE_HEALTHY);
    } else {
        init_warn("update: the check of the new system fails: %s", trial.complaint);
        init_timer_set(&trial.look, AGAIN_MS);
    }
}

static void keep_complaint(update_helper *h, const char *line) {
    (void)h;
    if (strncmp(line, "error ", 6) == 0) snprintf(trial.complaint, sizeof(trial.complaint), "%s", line + 6);
}

static int check_run(update_helper *h) {
    return update_work_check(h);
}

static void start_check(void) {
    trial.check = (update_helper){
        .name = "update check", .run = check_run, .on_line = keep_complaint, .on_end = check_end};
    int err = update_helper_start(&trial.check);
    if (err == 0) return;
    init_error("update: the check could not be started: %s", errno_name(err));
    init_timer_set(&trial.look, AGAIN_MS);
}

static void look(init_timer *t) {
    init_gateway_status g;
    if (update_state_now() != UPDATE_TRIAL) return;
    if (update_trial_left_ms() == 0) {
        update_feed(UPDATE_DEADLINE);
        return;
    }
    init_gateway_status_get(&g);
    if (g.ready && !trial.policy_known) learn_policy();
    bool due = trial.policy_known && trial.confirm == UPDATE_CONFIRM_AUTO && g.ready && g.ready_ms >= trial.after_ms;
    if (due && !update_helper_is_running(&trial.check)) start_check();
    if (!t->armed) init_timer_set(t, LOOK_MS);
}

static void bless_end(update_helper *h, int status) {
    (void)h;
    if (status == 0) {
        update_feed(UPDATE_BLESSED);
        update_record("slot %c has proved itself", update_boot()->slot);
    } else {
        init_error("update: the new system could not be confirmed: %s", trial.complaint);
        update_feed(UPDATE_FAILED);
        init_timer_set(&trial.look, AGAIN_MS);
    }
}

static int bless_run(update_helper *h) {
    return update_work_bless(h, update_boot()->slot);
}

void update_trial_bless(void) {
    trial.bless = (update_helper){
        .name = "update confirm", .run = bless_run, .on_line = keep_complaint, .on_end = bless_end};
    int err = update_helper_start(&trial.bless);
    if (err == 0) return;
    init_error("update: the confirmation could not be started: %s", errno_name(err));
    update_feed(UPDATE_FAILED);
    init_timer_set(&trial.look, AGAIN_MS);
}

void update_trial_start(void) {
    trial.deadline_ns = init_loop_now_ns() + trial.within_ms * NS_PER_MS;
    trial.look = (init_timer){.name = "update trial", .on_fire = look};
    init_info("update: first start of slot %c, on trial", update_boot()->slot);
    init_timer_set(&trial.look, LOOK_MS);
}
