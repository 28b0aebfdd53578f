// SPDX-License-Identifier: Apache-2.0
// watchdog.c: see watchdog.h.
#include "init/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/watchdog.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "init/init_log.h"
#include "init/loop.h"
#include "limits.h"

#define FEEDS_PER_TIMEOUT 4u // one more than needed: a turn may come late

static void feed_fired(init_timer *t);

static struct {
    int fd;
    u32 timeout_s;
    bool (*may_feed)(void);
    bool held, ending;
    u64 feeds, fed_ns;
    init_timer timer;
    char identity[33];
} dog = {.fd = -1, .timer = {.name = "watchdog", .on_fire = feed_fired}};

// A device may not know long timeouts: shorter ones are tried, then its own is taken.
static void timeout_set(u32 wanted_s) {
    for (u32 s = wanted_s; s >= 5; s /= 2) {
        int value = (int)s;
        if (ioctl(dog.fd, WDIOC_SETTIMEOUT, &value) == 0) break;
    }
    int in_force = 0;
    if (ioctl(dog.fd, WDIOC_GETTIMEOUT, &in_force) == 0 && in_force > 0) dog.timeout_s = (u32)in_force;
    else dog.timeout_s = wanted_s;
}

static bool identity_read(u32 number, char *out, size_t size) {
    char path[64];
    snprintf(path, sizeof(path), "/sys/class/watchdog/watchdog%u/identity", number);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, out, size - 1);
    close(fd);
    out[MAX(n, 0)] = '\0';
    return n > 0;
}

void watchdog_find(char *out, size_t size) {
    char identity[64];
    snprintf(out, size, "/dev/watchdog");
    for (u32 i = 0; i < LIMIT_WATCHDOGS; i++) {
        if (!identity_read(i, identity, sizeof(identity)) || strncmp(identity, "Software Watchdog", 17) == 0) continue;
        snprintf(out, size, "/dev/watchdog%u", i);
        return;
    }
}

int watchdog_open(const char *path, u32 timeout_s) {
    dog.fd = open(path, O_WRONLY | O_CLOEXEC);
    if (dog.fd < 0) return -errno;
    struct watchdog_info info = {0};
    if (ioctl(dog.fd, WDIOC_GETSUPPORT, &info) == 0) memcpy(dog.identity, info.identity, sizeof(info.identity));
    timeout_set(timeout_s);
    return (int)dog.timeout_s;
}

static void feed(void) {
    if (ioctl(dog.fd, WDIOC_KEEPALIVE, 0) < 0 && write(dog.fd, "", 1) != 1) {
        init_error("watchdog: could not be fed: %s", errno_name(errno));
        return;
    }
    dog.feeds++;
    dog.fed_ns = clock_mono_ns();
}

static void feed_fired(init_timer *t) {
    if (dog.ending) return;
    bool may = dog.may_feed();
    if (may) feed();
    else if (!dog.held) init_warn("watchdog: not fed: the gateway's heartbeats do not move");
    dog.held = !may;
    init_timer_set(t, dog.timeout_s * 1000u / FEEDS_PER_TIMEOUT);
}

void watchdog_turn(void) {
    if (dog.fd >= 0 && !dog.ending && dog.may_feed()) feed();
}

void watchdog_start(bool (*may_feed)(void)) {
    dog.may_feed = may_feed;
    if (dog.fd >= 0) feed_fired(&dog.timer);
}

void watchdog_shutdown(u32 budget_s) {
    dog.ending = true;
    init_timer_clear(&dog.timer);
    if (dog.fd < 0) return;
    timeout_set(budget_s);
    feed();
}

const char *watchdog_identity(void) {
    return dog.identity;
}

void watchdog_describe(yyjson_mut_doc *doc, yyjson_mut_val *to) {
    yyjson_mut_obj_add_bool(doc, to, "present", dog.fd >= 0);
    if (dog.fd < 0) return;
    yyjson_mut_obj_add_str(doc, to, "identity", dog.identity);
    yyjson_mut_obj_add_uint(doc, to, "timeout_s", dog.timeout_s);
    yyjson_mut_obj_add_uint(doc, to, "feeds", dog.feeds);
    yyjson_mut_obj_add_bool(doc, to, "held_back", dog.held);
    yyjson_mut_obj_add_uint(doc, to, "fed_ms_ago", dog.fed_ns == 0 ? 0 : (clock_mono_ns() - dog.fed_ns) / NS_PER_MS);
}
