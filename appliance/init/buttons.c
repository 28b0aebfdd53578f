// SPDX-License-Identifier: Apache-2.0
// buttons.c: see buttons.h. New devices are seen by inotify on /dev/input, which devtmpfs fills.
#include "init/buttons.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/input.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/init_log.h"
#include "init/loop.h"
#include "limits.h"

#define INPUT_DIR "/dev/input"
#define LONG_BITS (8u * sizeof(unsigned long))

typedef struct button {
    init_watch watch;
    char name[64];    // what the device calls itself
    char node[32];    // "event0"
    bool used;
} button;

static button buttons[LIMIT_INIT_BUTTONS];
static init_watch news = {.fd = -1};
static void (*pressed)(const char *device);

u32 buttons_count(void) {
    u32 count = 0;
    for (u32 i = 0; i < LIMIT_INIT_BUTTONS; i++) count += buttons[i].used ? 1 : 0;
    return count;
}

static void button_close(button *b) {
    init_loop_unwatch(&b->watch);
    close(b->watch.fd);
    b->used = false;
}

static void button_ready(init_watch *w, u32 events) {
    button *b = CONTAINER_OF(w, button, watch);
    struct input_event list[16];
    ssize_t n = read(w->fd, list, sizeof(list));
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0 || ((events & (u32)EPOLLHUP) != 0 && n == 0)) {
        button_close(b); // unplugged
        return;
    }
    for (size_t i = 0; i < (size_t)n / sizeof(list[0]); i++) {
        // 1: pressed. Releases and repeats are not presses.
        if (list[i].type == EV_KEY && list[i].code == KEY_POWER && list[i].value == 1) pressed(b->name);
    }
}

static bool has_power_key(int fd) {
    unsigned long keys[KEY_MAX / LONG_BITS + 1] = {0};
    if (ioctl(fd, EVIOCGBIT(EV_KEY, sizeof(keys)), keys) < 0) return false;
    return (keys[KEY_POWER / LONG_BITS] >> (KEY_POWER % LONG_BITS) & 1) != 0;
}

static bool is_open(const char *node) {
    for (u32 i = 0; i < LIMIT_INIT_BUTTONS; i++) {
        if (buttons[i].used && strcmp(buttons[i].node, node) == 0) return true;
    }
    return false;
}

static void device_try(const char *node) {
    if (strncmp(node, "event", 5) != 0 || strlen(node) >= sizeof(buttons[0].node) || is_open(node)) return;
    char path[64];
    snprintf(path, sizeof(path), INPUT_DIR "/%s", node);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return;
    button *b = NULL;
    for (u32 i = 0; i < LIMIT_INIT_BUTTONS && b == NULL; i++) {
        if (!buttons[i].used) b = &buttons[i];
    }
    if (!has_power_key(fd) || b == NULL) {
        if (b == NULL) init_warn("power keys: more than %u devices; %s is not listened to", LIMIT_INIT_BUTTONS, node);
        close(fd);
        return;
    }
    *b = (button){.watch = {.name = "power button", .on_ready = button_ready, .fd = fd}, .used = true};
    snprintf(b->node, sizeof(b->node), "%s", node);
    if (ioctl(fd, EVIOCGNAME(sizeof(b->name) - 1), b->name) < 0) snprintf(b->name, sizeof(b->name), "%s", node);
    if (init_loop_watch(&b->watch, EPOLLIN) < 0) {
        close(fd);
        b->used = false;
        return;
    }
    init_info("power button: %s (%s)", b->name, b->node);
}

static void devices_scan(void) {
    DIR *dir = opendir(INPUT_DIR);
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) device_try(entry->d_name);
    if (dir != NULL) closedir(dir);
}

static void news_ready(init_watch *w, u32 events) {
    _Alignas(struct inotify_event) char list[4096];
    (void)events;
    ssize_t n = read(w->fd, list, sizeof(list));
    // Which one is new does not matter: the directory is small.
    if (n > 0) devices_scan();
}

int buttons_open(void (*on_press)(const char *device)) {
    pressed = on_press;
    // The directory exists only once there is a device; watching needs it.
    mkdir(INPUT_DIR, 0755);
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd < 0) return -errno;
    news = (init_watch){.name = "input devices", .on_ready = news_ready, .fd = fd};
    if (inotify_add_watch(fd, INPUT_DIR, IN_CREATE | IN_ATTRIB) < 0 || init_loop_watch(&news, EPOLLIN) < 0) {
        int failed = -errno;
        close(fd);
        devices_scan();
        return failed;
    }
    devices_scan();
    return (int)buttons_count();
}
