// SPDX-License-Identifier: Apache-2.0
// landlock.c: which files the process can still reach (Landlock, Linux 5.13): the data directory, and the directories
// of the files that the configuration names. A rule is for a directory and not for a file, because
// whoever changes a configuration or a certificate writes a new file and renames it over the old one, and
// a rule belongs to an inode. What is open already (log, listeners, pipes) stays usable.
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "conf/schema.h"
#include "conf/schema_text.h"
#include "sandbox/sandbox.h"

#define FS(name) LANDLOCK_ACCESS_FS_##name

// Rights that a rule for a file may have; the others are a directory's.
#define FILE_RIGHTS (FS(EXECUTE) | FS(READ_FILE) | FS(WRITE_FILE) | FS(TRUNCATE) | FS(IOCTL_DEV))
#define READ (FS(READ_FILE) | FS(READ_DIR))
#define DEVICE (FS(READ_FILE) | FS(WRITE_FILE))
#define SOCKETS (FS(MAKE_SOCK) | FS(REMOVE_FILE))
#define OWN (READ | SOCKETS | FS(WRITE_FILE) | FS(TRUNCATE) | FS(MAKE_REG) | FS(MAKE_DIR) | FS(REMOVE_DIR) | FS(REFER))

typedef struct rules {
    int fd;
    u64 handled; // rights that this kernel knows and the process does without
    u32 count;
    int failed;  // first -errno
} rules;

// Every right there is in this ABI: what no rule gives is refused.
static u64 rights_of_abi(long abi) {
    u64 rights = FS(MAKE_SYM) << 1;
    rights -= 1; // ABI 1: all up to MAKE_SYM
    if (abi >= 2) rights |= FS(REFER);
    if (abi >= 3) rights |= FS(TRUNCATE);
    if (abi >= 5) rights |= FS(IOCTL_DEV);
    return rights;
}

static void rule_add_fd(rules *r, int fd, u64 rights) {
    struct stat st;
    if (fstat(fd, &st) < 0) return;
    struct landlock_path_beneath_attr rule = {.allowed_access = rights & r->handled, .parent_fd = fd};
    if (!S_ISDIR(st.st_mode)) rule.allowed_access &= FILE_RIGHTS;
    if (rule.allowed_access == 0) return;
    if (syscall(SYS_landlock_add_rule, r->fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0) r->count++;
    else if (r->failed == 0) r->failed = -errno;
}

// What does not exist can not be allowed, and needs no right.
static void rule_add(rules *r, const char *path, u64 rights) {
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0) return;
    rule_add_fd(r, fd, rights);
    close(fd);
}

// For the directory of a file.
static void rule_add_parent(rules *r, const char *path, u64 rights) {
    char parent[512];
    const char *slash = strrchr(path, '/');
    size_t len = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    if (len >= sizeof(parent)) return;
    snprintf(parent, sizeof(parent), "%.*s", (int)len, path);
    rule_add(r, len == 0 ? "." : parent, rights);
}

static void rule_of_file(rules *r, const char *path) {
    struct stat st;
    rule_add_parent(r, path, READ);
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) rule_add(r, path, READ);
}

// Files that a section's settings name: certificates, keys, password files. They are read again at each reload.
static void rules_of_section(rules *r, section_kind section, const void *base) {
    for (u32 i = 0; i < schema_setting_count; i++) {
        const setting *s = &schema_settings[i];
        bool path = s->check == text_check_path || s->check == text_check_optional_path;
        bool one = s->type == SETTING_TEXT, list = s->type == SETTING_LIST;
        const char *text = (const char *)base + s->offset;
        if (s->section != section || !path || !(one || list)) continue;
        while (*text != '\0') { // a list's elements end in newlines
            char name[256];
            size_t len = list ? strcspn(text, "\n") : strlen(text);
            snprintf(name, sizeof(name), "%.*s", (int)len, text);
            rule_of_file(r, name);
            text += len + (text[len] == '\n');
        }
    }
}

static void rules_of_bind(rules *r, const bind_address *bind) {
    if (bind->addr.ss_family == AF_UNIX) rule_add_parent(r, bind->text + strlen("unix:"), SOCKETS);
}

// Name servers may change while the gateway runs, and whoever writes the file renames it into place: its directory,
// wherever /etc/resolv.conf points to. Not all of /etc for root, though, who could read what no other user can.
static void rules_of_resolver(rules *r) {
    char real[512];
    bool found = realpath("/etc/resolv.conf", real) != NULL;
    if (found && (geteuid() != 0 || strncmp(real, "/etc/", 5) != 0)) rule_add_parent(r, real, READ);
    rule_add(r, "/etc/resolv.conf", READ);
    rule_add(r, "/etc/hosts", READ);
}

static void rules_of_process(rules *r) {
    // Held open: a rule belongs to an inode, and that of /proc/PID is a new one when nobody uses it.
    static int self = -1;
    if (self < 0) self = open("/proc/self", O_PATH | O_CLOEXEC);
    if (self >= 0) rule_add_fd(r, self, READ);
    rule_add(r, "/proc/sys/kernel", READ);
    rule_add(r, "/sys/fs/cgroup", READ);
    rule_add(r, "/sys/devices/system/cpu", READ);
    rule_add(r, "/dev/null", DEVICE);
}

static void rules_of_config(rules *r, const config *conf) {
    rule_add(r, conf->data_dir, OWN);
    rule_add_parent(r, conf->ctl_socket, SOCKETS);
    if (conf->source[0] != '(') rule_add_parent(r, conf->source, READ);
    if (conf->log.file[0] != '\0') rule_add_parent(r, conf->log.file, OWN);
    rules_of_bind(r, &conf->admin_bind);
    for (section_kind k = SECTION_ADMIN; k < SECTION_LISTENER; k++) {
        if (k != SECTION_LOG) rules_of_section(r, k, conf);
    }
    for (u32 i = 0; i < conf->listener_count; i++) {
        rules_of_bind(r, &conf->listeners[i].bind);
        rules_of_section(r, SECTION_LISTENER, &conf->listeners[i]);
        rules_of_section(r, SECTION_TLS, &conf->listeners[i]);
    }
    for (u32 i = 0; i < conf->uplink_count; i++) rules_of_section(r, SECTION_UPLINK, &conf->uplinks[i]);
}

static int not_available(char *out, size_t out_bytes, int error) {
    const char *cause = error == -ENOSYS       ? " (a kernel or an emulator without it)"
                        : error == -EOPNOTSUPP ? " (not among the kernel's security modules, lsm=)"
                        : error == -EPERM      ? " (refused by the container)"
                                               : "";
    snprintf(out, out_bytes, "not available: %s%s", errno_name(error), cause);
    return error;
}

int landlock_enter(const config *conf, char *out, size_t out_bytes) {
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 1) return not_available(out, out_bytes, -errno);
    struct landlock_ruleset_attr attr = {.handled_access_fs = rights_of_abi(abi)};
    size_t attr_bytes = abi >= 6 ? sizeof(attr) : sizeof(attr.handled_access_fs);
    // Nor abstract unix sockets of others, nor signals to others.
    if (abi >= 6) attr.scoped = LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | LANDLOCK_SCOPE_SIGNAL;
    rules r = {.handled = attr.handled_access_fs};
    r.fd = (int)syscall(SYS_landlock_create_ruleset, &attr, attr_bytes, 0);
    if (r.fd < 0) return not_available(out, out_bytes, -errno);
    rules_of_process(&r);
    rules_of_resolver(&r);
    rules_of_config(&r, conf);
    int result = r.failed;
    if (result == 0 && syscall(SYS_landlock_restrict_self, r.fd, 0) < 0) result = -errno;
    close(r.fd);
    if (result < 0) return not_available(out, out_bytes, result);
    snprintf(out, out_bytes, "ABI %ld, %u paths", abi, r.count);
    return 0;
}
