// SPDX-License-Identifier: Apache-2.0
// gateway_user.c: see gateway_user.h.
#include "init/gateway_user.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "init/config_collect.h"

#define WALK_FDS 16

int gateway_user_give_file(int fd, u32 mode) {
    if (fchown(fd, 0, GATEWAY_UID) < 0 || fchmod(fd, mode) < 0) return -errno;
    return 0;
}

int gateway_user_give_path(const char *path, u32 mode) {
    if (lchown(path, 0, GATEWAY_UID) < 0 || chmod(path, mode) < 0) return -errno;
    return 0;
}

static int entry_give(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)kind, (void)at;
    if (st->st_uid == 0 && lchown(path, GATEWAY_UID, GATEWAY_UID) < 0) return errno;
    return 0;
}

// PID 1's own, by the names it gives them; "crash" holds the kernel's records (init/pstore.c).
static bool is_ours(const char *name) {
    static const char *const names[] = {".", "..", "lost+found", "crash"};
    for (u32 i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(names[i], name) == 0) return true;
    }
    return strncmp(name, CONFIG_GOOD_FILE, strlen(CONFIG_GOOD_FILE)) == 0;
}

int gateway_user_give_dir(const char *dir) {
    int result = gateway_user_give_path(dir, 01770);
    DIR *d = result == 0 ? opendir(dir) : NULL;
    if (d == NULL) return result != 0 ? result : -errno;
    for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
        char path[512];
        struct stat st;
        if (is_ours(entry->d_name)) continue;
        if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name) >= sizeof(path)) continue;
        if (lstat(path, &st) < 0 || st.st_uid != 0) continue;
        int failed = nftw(path, entry_give, WALK_FDS, FTW_PHYS | FTW_MOUNT);
        if (failed != 0 && result == 0) result = failed > 0 ? -failed : -errno;
    }
    closedir(d);
    return result;
}

static int capability_keep(u32 number) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    memset(data, 0, sizeof(data));
    data[0].effective = data[0].permitted = data[0].inheritable = 1u << number;
    if (syscall(SYS_capset, &head, data) < 0) return -errno;
    // Ambient, Linux 4.3: the only way through execve of a file without capabilities of its own.
    return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, number, 0, 0) < 0 ? -errno : 0;
}

int gateway_user_become(void) {
    // The least real-time priority, which the log's writer asks for; where it is refused the log runs without.
    (void)setrlimit(RLIMIT_RTPRIO, &(struct rlimit){1, 1});
    if (setgroups(0, NULL) < 0 || setresgid(GATEWAY_UID, GATEWAY_UID, GATEWAY_UID) < 0) return -errno;
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0) return -errno;
    if (setresuid(GATEWAY_UID, GATEWAY_UID, GATEWAY_UID) < 0) return -errno;
    return capability_keep(CAP_NET_BIND_SERVICE);
}
