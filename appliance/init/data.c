// SPDX-License-Identifier: Apache-2.0
// data.c: see data.h. Init's part: finds the partition (disks may still be probed when the image was started by
// its boot loader), starts the helper, takes its result.
#include "init/data.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "init/control.h"
#include "init/data_helper.h"
#include "init/gateway_user.h"
#include "init/init_log.h"
#include "init/loop.h"
#include "limits.h"

#define LOOK_MS 50u

static void helper_ended(init_child *c, int status);
static void look_fired(init_timer *t);
static void helper_late(init_timer *t);

static struct {
    data_outcome outcome;
    char name[40], partition[64];
    u64 deadline_ns;
    void (*on_decided)(void);
    init_child helper;
    init_timer look, late;
} data = {
    .helper = {.name = "data partition", .on_exit = helper_ended},
    .look = {.name = "data partition", .on_fire = look_fired},
    .late = {.name = "data partition", .on_fire = helper_late},
};

static const char *const outcome_names[DATA_OUTCOMES] = {
    [DATA_UNDECIDED] = "undecided", [DATA_NONE] = "none", [DATA_MOUNTED] = "mounted",
    [DATA_REPAIRED] = "repaired", [DATA_NEW] = "made anew", [DATA_FAILED] = "failed",
};

bool init_data_is_mounted(void) {
    return data.outcome == DATA_MOUNTED || data.outcome == DATA_REPAIRED || data.outcome == DATA_NEW;
}

data_outcome data_outcome_get(void) {
    return data.outcome;
}

// The gateway wants a directory to write to. A small one in RAM serves; it is told that nothing there
// survives (SLUICE_DATA_VOLATILE).
static void ram_mount(void) {
    mkdir(INIT_DATA_DIR, 0750);
    if (mount("tmpfs", INIT_DATA_DIR, "tmpfs", MS_NODEV | MS_NOSUID | MS_NOEXEC, "mode=0750,size=4m") < 0) {
        init_error("%s in RAM: %s", INIT_DATA_DIR, errno_name(errno));
    }
    int result = gateway_user_give_path(INIT_DATA_DIR, 01770);
    if (result < 0) init_error("%s: can not be given to the gateway: %s", INIT_DATA_DIR, errno_name(result));
}

static void decided(data_outcome outcome) {
    data.outcome = outcome;
    if (!init_data_is_mounted()) {
        ram_mount();
        init_log(outcome == DATA_NONE ? LOG_INFO : LOG_ERROR,
                 "data partition: %s: nothing that the gateway stores survives a restart",
                 outcome_names[outcome]);
    } else {
        init_info("data partition: %s is %s on %s", data.partition, outcome_names[outcome], INIT_DATA_DIR);
    }
    data.on_decided();
}

static int helper_run(void *context) {
    (void)context;
    int result = data_partition_grow(data.partition);
    if (result < 0) init_warn("data partition: could not be grown: %s", errno_name(result));
    data_outcome outcome = data_mount(data.partition, INIT_DATA_DIR);
    result = outcome == DATA_FAILED ? 0 : gateway_user_give_dir(INIT_DATA_DIR);
    if (result < 0) init_error("%s: can not be given to the gateway: %s", INIT_DATA_DIR, errno_name(result));
    return (int)outcome;
}

static void helper_ended(init_child *c, int status) {
    (void)c;
    data_outcome outcome = DATA_FAILED;
    init_timer_clear(&data.late);
    if (WIFEXITED(status) && WEXITSTATUS(status) < (int)DATA_OUTCOMES) outcome = (data_outcome)WEXITSTATUS(status);
    else init_error("data partition: the helper ended unexpectedly");
    decided(outcome);
}

// A disk that does not answer, or a repair without end: the gateway can serve without it.
static void helper_late(init_timer *t) {
    (void)t;
    init_error("data partition: not ready after %u s: going on without it", LIMIT_DATA_MS / 1000);
    init_child_signal(&data.helper, SIGKILL);
    init_child_forget(&data.helper);
    decided(DATA_FAILED);
}

static void helper_start(void) {
    int result = init_child_fork(&data.helper, helper_run, NULL);
    if (result == 0) {
        init_timer_set(&data.late, LIMIT_DATA_MS);
        return;
    }
    init_error("data partition: %s", errno_name(result));
    decided(DATA_FAILED);
}

static void look_fired(init_timer *t) {
    if (init_partition_find(data.name, data.partition, sizeof(data.partition)) == 0) helper_start();
    else if (clock_mono_ns() < data.deadline_ns) init_timer_set(t, LOOK_MS);
    else decided(DATA_NONE);
}

void data_start(void (*on_decided)(void)) {
    data.on_decided = on_decided;
    mkdir("/var", 0755);
    mkdir("/var/lib", 0755);
    const char *wanted = init_cmdline_get("sluice.data");
    snprintf(data.name, sizeof(data.name), "%s", wanted != NULL && *wanted != '\0' ? wanted : "sluice-data");
    if (strcmp(data.name, "none") == 0) {
        decided(DATA_NONE);
        return;
    }
    // Started by the boot loader from a disk: the disk is there, even if its driver is not ready yet.
    bool disk_is_certain = wanted != NULL || init_cmdline_get("sluice.slot") != NULL;
    data.deadline_ns = clock_mono_ns() + (disk_is_certain ? LIMIT_DISK_WAIT_MS * NS_PER_MS : 0);
    look_fired(&data.look);
}

void data_describe(yyjson_mut_doc *doc, yyjson_mut_val *to) {
    yyjson_mut_obj_add_str(doc, to, "outcome", outcome_names[data.outcome]);
    struct statvfs st;
    if (!init_data_is_mounted() || statvfs(INIT_DATA_DIR, &st) < 0) return;
    yyjson_mut_obj_add_str(doc, to, "device", data.partition);
    yyjson_mut_obj_add_uint(doc, to, "bytes", (u64)st.f_blocks * st.f_frsize);
    yyjson_mut_obj_add_uint(doc, to, "bytes_free", (u64)st.f_bavail * st.f_frsize);
    yyjson_mut_obj_add_bool(doc, to, "read_only", (st.f_flag & ST_RDONLY) != 0);
}
