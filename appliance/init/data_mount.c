// SPDX-License-Identifier: Apache-2.0
// data_mount.c: check, repair, mount, grow the file system. e2fsck and mke2fs are in the initramfs; where
// an image was built without them the kernel's own journal replay is the check, and damage beyond it
// means running without a data partition.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/control.h"
#include "init/data_helper.h"
#include "init/init_log.h"

#include <linux/fs.h>

#define FSCK "/sbin/e2fsck"
#define MKFS "/sbin/mke2fs"
// e2fsck(8), exit status: bits.
#define FSCK_FIXED 1
#define FSCK_REBOOT 2
#define FSCK_GAVE_UP 8 // an operation failed: no memory, a medium that can not be read, no superblock found
#define PROGRAM_NOT_STARTED 127
#define EXT4_RESIZE _IOW('f', 16, u64) // EXT4_IOC_RESIZE_FS: blocks
#define SUPERBLOCK_AT 1024
#define SUPERBLOCK_BYTES 1024u
#define EXT4_ERRORS 2u                 // s_state: the kernel saw errors

// Flash: noatime, because reading must not write; data=ordered and barriers, because the log's order is what
// survives a power cut; commit=5 bounds what an unsynced file can lose; errors=remount-ro, because a damaged
// file system must not be written further: the gateway then sees EROFS, keeps QoS 0 flowing, and the next
// boot repairs. No discard: trimming at each delete makes cheap cards slow, and some lose data by it.
#define MOUNT_OPTIONS "data=ordered,barrier=1,commit=5,errors=remount-ro"
#define MOUNT_FLAGS (MS_NOATIME | MS_NODEV | MS_NOSUID | MS_NOEXEC)

// Runs a program to its end, its output in the log. Returns the exit status, -errno or -EINTR when killed.
static int program_run(char *const argv[]) {
    static char path[] = "PATH=/bin:/sbin";
    // Neither has a file of settings in the image: mke2fs then uses the ones it was built with.
    char *const env[] = {path, NULL};
    pid_t pid = fork();
    if (pid < 0) return -errno;
    if (pid == 0) {
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fd >= 0) dup2(fd, STDIN_FILENO);
        execve(argv[0], argv, env);
        _exit(PROGRAM_NOT_STARTED);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) return -errno;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -EINTR;
}

// Returns the status of e2fsck; mode: -p repairs what is safe, -y all there is to repair.
static int fsck_run(const char *partition, const char *mode) {
    char program[] = FSCK, option[4], device[64];
    snprintf(option, sizeof(option), "%s", mode);
    snprintf(device, sizeof(device), "%s", partition);
    char *argv[] = {program, option, device, NULL};
    return program_run(argv);
}

static bool is_there(const char *program) {
    return access(program, X_OK) == 0;
}

static bool has_file_system(const char *partition) {
    u8 super[SUPERBLOCK_BYTES] = {0};
    int fd = open(partition, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool read_ok = pread(fd, super, sizeof(super), SUPERBLOCK_AT) == (ssize_t)sizeof(super);
    close(fd);
    bool errors = read_ok && (super[58] & EXT4_ERRORS) != 0;
    if (errors) init_warn("data partition: the kernel noted errors in the file system");
    return read_ok && super[56] == 0x53 && super[57] == 0xef;
}

static bool fsck_repaired(int status) {
    return status >= 0 && (status & ~(FSCK_FIXED | FSCK_REBOOT)) == 0;
}

// The least that can be lost is tried first. Returns DATA_MOUNTED when there is nothing (left) to repair,
// DATA_REPAIRED, or DATA_FAILED when it is beyond repair. *ended: the checker came to an end by itself; one that was
// killed (for lack of memory) or could not start says nothing about the file system.
static data_outcome check(const char *partition, bool *ended) {
    *ended = true;
    if (!is_there(FSCK)) return DATA_MOUNTED;
    bool known = has_file_system(partition);
    int status = fsck_run(partition, "-p");
    if (status == 0) return DATA_MOUNTED;
    if (fsck_repaired(status)) {
        init_warn("data partition: the file system was repaired");
        return DATA_REPAIRED;
    }
    if (status > 0) {
        init_error("data partition: the file system is damaged (status %d)%s: a full repair is tried", status,
                   known ? "" : ", its superblock is gone");
        status = fsck_run(partition, "-y");
        // Once more: what a first pass repairs may uncover more, and the second says whether all is well.
        if (fsck_repaired(status)) status = fsck_run(partition, "-y");
    }
    if (fsck_repaired(status)) {
        init_warn("data partition: repaired; what could not be put back is in lost+found");
        return DATA_REPAIRED;
    }
    *ended = status >= 0 && status != PROGRAM_NOT_STARTED;
    if (*ended && !(known && (status & FSCK_GAVE_UP) != 0)) return DATA_FAILED;
    init_error("data partition: the check did not come to its end (%d): mounting it unchecked", status);
    return DATA_MOUNTED;
}

static int make(const char *partition) {
    if (!is_there(MKFS)) return -ENOENT;
    char program[] = MKFS, quiet[] = "-q", force[] = "-F", type_option[] = "-t", type[] = "ext4", label_option[] = "-L",
         label[] = "sluice-data", block_option[] = "-b", block[] = "4096", reserved_option[] = "-m", reserved[] = "1",
         extra_option[] = "-E", extra[] = "lazy_itable_init=1,nodiscard", device[64];
    snprintf(device, sizeof(device), "%s", partition);
    char *argv[] = {program, quiet, force, type_option, type, label_option, label, block_option, block, reserved_option,
                    reserved, extra_option, extra, device, NULL};
    int status = program_run(argv);
    return status == 0 ? 0 : -EIO;
}

static int mount_on(const char *partition, const char *dir) {
    mkdir(dir, 0750);
    return mount(partition, dir, "ext4", MOUNT_FLAGS, MOUNT_OPTIONS) < 0 ? -errno : 0;
}

// A file system that already fills the partition says so without writing.
static void file_system_grow(const char *partition, const char *dir) {
    u64 bytes = 0;
    int device = open(partition, O_RDONLY | O_CLOEXEC);
    if (device < 0) return;
    int result = ioctl(device, BLKGETSIZE64, &bytes) < 0 ? -errno : 0;
    close(device);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_blksize <= 0) result = -errno;
    u64 blocks = result == 0 ? bytes / (u64)st.st_blksize : 0;
    if (result == 0 && ioctl(fd, EXT4_RESIZE, &blocks) < 0) result = -errno;
    if (fd >= 0) close(fd);
    if (result < 0) init_warn("data partition: the file system could not be grown: %s", errno_name(result));
}

static data_outcome make_anew(const char *partition, const char *dir) {
    init_error("data partition: BEYOND REPAIR: it is made anew, WHAT WAS ON IT IS LOST");
    int result = make(partition);
    if (result == 0) result = mount_on(partition, dir);
    if (result == 0) return DATA_NEW;
    init_error("data partition: could not be made anew: %s: running without one", errno_name(result));
    return DATA_FAILED;
}

// Whether mount's error says that the file system is damaged, and not that the machine has a problem.
static bool means_damage(int error) {
    return error == -EUCLEAN || error == -EBADMSG || error == -EINVAL;
}

data_outcome data_mount(const char *partition, const char *dir) {
    bool certain;
    data_outcome outcome = check(partition, &certain);
    if (outcome != DATA_FAILED) {
        int result = mount_on(partition, dir);
        if (result < 0) {
            init_error("data partition: mount: %s", errno_name(result));
            outcome = DATA_FAILED;
            certain = certain && means_damage(result);
        }
    }
    // What may be whole is never made anew.
    if (outcome == DATA_FAILED && certain) outcome = make_anew(partition, dir);
    else if (outcome == DATA_FAILED) init_error("data partition: left as it is: running without one");
    if (outcome != DATA_FAILED) file_system_grow(partition, dir);
    return outcome;
}
