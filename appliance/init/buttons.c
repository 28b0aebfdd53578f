// SPDX-License-Identifier: Apache-2.0
// buttons.c: see buttons.h. New devices are announced by the kernel's uevents (netlink): the image's kernel has no
// inotify. Which one is new does not matter: the directory is small and is looked through again.
#include "init/buttons.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/input.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
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
    button_held held;
} button;

static button buttons[LIMIT_INIT_BUTTONS];
static init_watch news = {.fd = -1};
static void (*power_pressed)(const char *device);
static void (*restart_pressed)(const char *device); // NULL: the kernel knows Ctrl-Alt-Del itself

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

button_action buttons_key(button_held *held, u16 code, i32 value) {
    switch (code) {
    case KEY_LEFTCTRL:
    case KEY_RIGHTCTRL: held->ctrl = value != 0; return BUTTON_NOTHING;
    case KEY_LEFTALT:
    case KEY_RIGHTALT: held->alt = value != 0; return BUTTON_NOTHING;
    // Only a press acts.
    case KEY_POWER: return value == 1 ? BUTTON_POWER : BUTTON_NOTHING;
    case KEY_DELETE: return value == 1 && held->ctrl && held->alt ? BUTTON_RESTART : BUTTON_NOTHING;
    default: return BUTTON_NOTHING;
    }
}

static void key_take(button *b, u16 code, i32 value) {
    button_action action = buttons_key(&b->held, code, value);
    if (action == BUTTON_POWER) power_pressed(b->name);
    else if (action == BUTTON_RESTART && restart_pressed != NULL) restart_pressed(b->name);
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
        if (list[i].type == EV_KEY) key_take(b, list[i].code, list[i].value);
    }
}

static bool has_key(const unsigned long *keys, u32 key) {
    return (keys[key / LONG_BITS] >> (key % LONG_BITS) & 1) != 0;
}

static bool is_of_use(int fd) {
    unsigned long keys[KEY_MAX / LONG_BITS + 1] = {0};
    if (ioctl(fd, EVIOCGBIT(EV_KEY, sizeof(keys)), keys) < 0) return false;
    bool keyboard = has_key(keys, KEY_LEFTCTRL) && has_key(keys, KEY_LEFTALT) && has_key(keys, KEY_DELETE);
    return has_key(keys, KEY_POWER) || (keyboard && restart_pressed != NULL);
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
    snprintf(path, sizeof(path), INPUT_DIR "/%.31s", node);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return;
    button *b = NULL;
    for (u32 i = 0; i < LIMIT_INIT_BUTTONS && b == NULL; i++) {
        if (!buttons[i].used) b = &buttons[i];
    }
    if (!is_of_use(fd) || b == NULL) {
        if (b == NULL) init_warn("power keys: more than %u devices; %s is not listened to", LIMIT_INIT_BUTTONS, node);
        close(fd);
        return;
    }
    *b = (button){.watch = {.name = "power button", .on_ready = button_ready, .fd = fd}, .used = true};
    snprintf(b->node, sizeof(b->node), "%.31s", node);
    if (ioctl(fd, EVIOCGNAME(sizeof(b->name) - 1), b->name) < 0) snprintf(b->name, sizeof(b->name), "%.31s", node);
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

// A uevent: "add@/devices/...", then KEY=VALUE strings, each with its NUL.
static bool is_about_input(const char *event, size_t len) {
    static const char wanted[] = "SUBSYSTEM=input";
    for (size_t at = 0; at < len; at += strnlen(event + at, len - at) + 1) {
        if (len - at >= sizeof(wanted) && memcmp(event + at, wanted, sizeof(wanted)) == 0) return true;
    }
    return false;
}

static void news_ready(init_watch *w, u32 events) {
    char event[4096];
    bool scan = false;
    (void)events;
    for (u32 i = 0; i < LIMIT_INIT_UEVENTS; i++) {
        ssize_t n = recv(w->fd, event, sizeof(event), MSG_DONTWAIT);
        if (n < 0 && errno == ENOBUFS) scan = true; // some were lost
        if (n <= 0) break;
        scan |= is_about_input(event, (size_t)n);
    }
    if (scan) devices_scan();
}

static int news_open(void) {
    struct sockaddr_nl addr = {.nl_family = AF_NETLINK, .nl_groups = 1};
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
    if (fd < 0) return -errno;
    news = (init_watch){.name = "input devices", .on_ready = news_ready, .fd = fd};
    int result = bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno : init_loop_watch(&news, EPOLLIN);
    if (result < 0) close(fd);
    return result;
}

int buttons_open(void (*on_power)(const char *device), void (*on_restart)(const char *device)) {
    power_pressed = on_power;
    // With virtual terminals the kernel sends SIGINT for the same keys: once is enough.
    restart_pressed = access("/sys/class/tty/tty1", F_OK) == 0 ? NULL : on_restart;
    int result = news_open();
    devices_scan();
    return result < 0 ? result : (int)buttons_count();
}
