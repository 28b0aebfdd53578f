// SPDX-License-Identifier: Apache-2.0
// mounts.c: see mounts.h. One table. The root is the initramfs in RAM: nothing has to be saved from it.
#include "init/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "init/control.h"
#include "init/init_log.h"
#include "init/requests.h"
#include "limits.h"

typedef struct mount_row {
    const char *type, *at, *options;
    unsigned long flags;
    bool optional; // a kernel without it is fine
} mount_row;

#define STRICT (MS_NOSUID | MS_NODEV | MS_NOEXEC)

static const mount_row rows[] = {
    {"devtmpfs", "/dev", "mode=0755", MS_NOSUID | MS_NOEXEC, false},
    {"proc", "/proc", NULL, STRICT, false},
    {"sysfs", "/sys", NULL, STRICT, true},
    // Sockets, the configuration and small files only.
    {"tmpfs", "/run", "mode=0755,size=16m,nr_inodes=4096", STRICT, true},
    {"pstore", "/sys/fs/pstore", NULL, STRICT, true},
};

static int failures[ARRAY_LEN(rows)];

// The image starts PID 1 with /dev/console as its descriptors, or with none when there is no console. Later
// files must not get the numbers 0 to 2.
static void standard_descriptors(void) {
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO) close(fd);
}

static void limits_set(void) {
    // The gateway raises its soft limit to what it needs; io_uring locks memory.
    // A connection takes the kernel more than a page, so no more descriptors than pages of RAM can be of
    // use; what the gateway keeps for each possible one would fill a small machine.
    struct sysinfo info;
    u64 pages = sysinfo(&info) == 0 ? (u64)info.totalram * info.mem_unit / 4096 : LIMIT_INIT_NOFILE;
    u64 count = MIN(MAX(pages, 4096ull), (u64)LIMIT_INIT_NOFILE);
    struct rlimit files = {count, count};
    struct rlimit locked = {RLIM_INFINITY, RLIM_INFINITY};
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_NOFILE, &files);
    setrlimit(RLIMIT_MEMLOCK, &locked);
    setrlimit(RLIMIT_CORE, &none);
}

static void self_protect(void) {
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (write(fd, "-1000", 5) != 5) init_warn("oom_score_adj: %s", errno_name(errno));
        close(fd);
    }
    prctl(PR_SET_DUMPABLE, 0);
}

int mounts_make(void) {
    int result = 0;
    umask(0022);
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        const mount_row *r = &rows[i];
        mkdir(r->at, 0755);
        if (mount(r->type, r->at, r->type, r->flags, r->options) < 0) failures[i] = -errno;
        if (failures[i] == -EBUSY) failures[i] = 0; // the kernel has mounted it already
        if (failures[i] < 0 && !r->optional && result == 0) result = failures[i];
    }
    mkdir(INIT_RUN_DIR, 0755);
    standard_descriptors();
    limits_set();
    self_protect();
    return result;
}

void mounts_report(void) {
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        if (failures[i] < 0) init_warn("%s is not mounted: %s", rows[i].at, errno_name(failures[i]));
    }
}

int mounts_end(void) {
    int result = 0;
    if (init_data_is_mounted()) {
        if (umount2(INIT_DATA_DIR, 0) < 0) result = -errno;
        // Somebody still has a file open there (a helper that hangs in the kernel): at least nothing half
        // written remains.
        if (result < 0 && mount(NULL, INIT_DATA_DIR, NULL, MS_REMOUNT | MS_RDONLY, NULL) < 0) {
            init_error("%s could be neither unmounted nor made read-only", INIT_DATA_DIR);
        }
    }
    sync();
    return result;
}
