// SPDX-License-Identifier: Apache-2.0
// privileges.c: who the process is. As root it becomes the configured user at once and keeps two capabilities until the
// listeners are open, for a port below 1024 and for the priority of the log's writer; so every file that it makes
// belongs to that user from the beginning.
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/sandbox.h"

typedef struct identity {
    const char *name; // NULL: given as numbers
    uid_t uid;
    gid_t gid;
} identity;

static int capabilities_set(u64 wanted) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    memset(data, 0, sizeof(data));
    for (u32 i = 0; i < 2; i++) data[i].effective = data[i].permitted = (u32)(wanted >> 32 * i);
    return syscall(SYS_capset, &head, data) == 0 ? 0 : -errno;
}

int privileges_drop(void) {
    // Ambient ones go with the permitted ones.
    return capabilities_set(0);
}

static bool id_parse(const char **text, u32 *id) {
    char *end;
    if (**text < '0' || **text > '9') return false;
    errno = 0;
    unsigned long value = strtoul(*text, &end, 10);
    if (errno != 0 || value >= UINT32_MAX) return false;
    *id = (u32)value;
    *text = end;
    return true;
}

// "sluice", "991", "991:991".
static int identity_find(const char *user, identity *out, char *why, size_t why_bytes) {
    const char *at = user;
    u32 uid, gid;
    if (id_parse(&at, &uid)) {
        gid = uid;
        bool group = *at == ':';
        if (group) at++;
        if ((!group || id_parse(&at, &gid)) && *at == '\0') {
            *out = (identity){NULL, uid, gid};
            return 0;
        }
    }
    const struct passwd *entry = getpwnam(user);
    if (entry == NULL) {
        snprintf(why, why_bytes, "user %s: there is none of this name on this machine", user);
        return -ENOENT;
    }
    *out = (identity){user, entry->pw_uid, entry->pw_gid};
    return 0;
}

// A data directory that root has made a moment ago, or before there was a user.
static int data_dir_give(const char *path, const identity *who, char *why, size_t why_bytes) {
    struct stat st;
    if (stat(path, &st) < 0 || st.st_uid != 0) return 0;
    if (chown(path, who->uid, who->gid) == 0) return 0;
    int failed = -errno;
    snprintf(why, why_bytes, "data_dir %s: can not be given to user %u: %s", path, (u32)who->uid, errno_name(failed));
    return failed;
}

static int identity_take(const identity *who, const char **step) {
    int death_signal = 0; // of `sluice init`: the kernel forgets it when the user changes
    (void)prctl(PR_GET_PDEATHSIG, &death_signal, 0, 0, 0);
    *step = "setgroups";
    if ((who->name != NULL ? initgroups(who->name, who->gid) : setgroups(0, NULL)) < 0) return -errno;
    *step = "setresgid";
    if (setresgid(who->gid, who->gid, who->gid) < 0) return -errno;
    *step = "PR_SET_KEEPCAPS";
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0) return -errno;
    *step = "setresuid";
    if (setresuid(who->uid, who->uid, who->uid) < 0) return -errno;
    (void)prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0);
    *step = "capset";
    return capabilities_set(1ull << CAP_NET_BIND_SERVICE | 1ull << CAP_SYS_NICE);
}

int privileges_become(const char *user, const char *data_dir, char *text, size_t text_bytes, char *why,
                      size_t why_bytes) {
    identity who;
    if (user[0] == '\0') {
        snprintf(text, text_bytes, "%u:%u", (u32)geteuid(), (u32)getegid());
        return 0;
    }
    int result = identity_find(user, &who, why, why_bytes);
    if (result < 0) return result;
    snprintf(text, text_bytes, "%s%s%u:%u%s", who.name != NULL ? who.name : "", who.name != NULL ? " (" : "",
             (u32)who.uid, (u32)who.gid, who.name != NULL ? ")" : "");
    if (geteuid() == who.uid) return 0;
    if (geteuid() != 0) {
        snprintf(why, why_bytes, "user %s: only root can become another user; this is user %u", user, (u32)geteuid());
        return -EPERM;
    }
    if (who.uid == 0) return 0;
    result = data_dir_give(data_dir, &who, why, why_bytes);
    if (result < 0) return result;
    const char *step = "";
    result = identity_take(&who, &step);
    if (result < 0) snprintf(why, why_bytes, "user %s: %s: %s", user, step, errno_name(result));
    return result;
}
