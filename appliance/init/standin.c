// SPDX-License-Identifier: Apache-2.0
// standin.c: weak definitions of what the network and configuration files define, for builds of a tree in which those
// files are not there yet: the baked configuration is used as it is and the network stays down. Goes when they come.
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "init/config_collect.h"
#include "init/control.h"
#include "init/net_start.h"

#define WEAK __attribute__((weak))

WEAK int init_net_start(void) {
    return -ENOSYS;
}

WEAK void init_net_stop(void) {}

WEAK int init_config_collect(void) {
    char text[4096];
    int from = open(CONFIG_BAKED_PATH, O_RDONLY | O_CLOEXEC);
    int to = open(CONFIG_RUN_PATH, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t n = from < 0 || to < 0 ? -1 : read(from, text, sizeof(text));
    int result = n < 0 || write(to, text, (size_t)n) != n ? -errno : 0;
    if (from >= 0) close(from);
    if (to >= 0) close(to);
    if (result == 0) init_config_ready(false);
    return result;
}

WEAK void init_config_data_mounted(void) {}

WEAK void init_config_rejected(const char *why) {
    (void)why;
}

WEAK void init_config_accepted(void) {}
