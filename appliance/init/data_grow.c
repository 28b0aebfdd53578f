// SPDX-License-Identifier: Apache-2.0
// data_grow.c: writes the plan of gpt.h to the disk and tells the kernel. Order: backup first, flush; the new
// entries beside the old ones, flush; the primary header, one block, which switches over; flush. A cut in
// between leaves the old table in force and is continued at the next boot.
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/blkpg.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/data_helper.h"
#include "init/gpt.h"
#include "init/init_log.h"

#define BLOCK_BYTES_MAX 4096u

static int put(int fd, const void *data, size_t len, u64 at) {
    const u8 *from = data;
    while (len > 0) {
        ssize_t n = pwrite(fd, from, len, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? -errno : -EIO;
        from += n;
        at += (u64)n;
        len -= (size_t)n;
    }
    return 0;
}

static int put_header(int fd, const u8 header[512], u64 lba, u32 block_bytes) {
    u8 block[BLOCK_BYTES_MAX] = {0};
    memcpy(block, header, 512);
    return put(fd, block, block_bytes, lba * block_bytes);
}

static int flush(int fd) {
    return fsync(fd) < 0 ? -errno : 0;
}

static int plan_write(int fd, const gpt_plan *plan, u32 block_bytes) {
    int result = put(fd, plan->entries, plan->entries_bytes, plan->backup_entries_lba * block_bytes);
    if (result == 0) result = put_header(fd, plan->backup_header, plan->backup_header_lba, block_bytes);
    if (result == 0) result = flush(fd);
    if (result == 0) result = put(fd, plan->entries, plan->entries_bytes, plan->primary_entries_lba * block_bytes);
    if (result == 0) result = flush(fd);
    if (result == 0) result = put_header(fd, plan->primary_header, 1, block_bytes);
    if (result == 0) result = flush(fd);
    return result;
}

// Size in bytes and in logical blocks, of a disk or (in tests) of a file with 512-byte blocks.
static int disk_measure(int fd, u64 *bytes, u32 *block_bytes) {
    struct stat st;
    if (fstat(fd, &st) < 0) return -errno;
    *bytes = (u64)st.st_size;
    *block_bytes = 512;
    if (!S_ISBLK(st.st_mode)) return 0;
    int logical = 0;
    if (ioctl(fd, BLKGETSIZE64, bytes) < 0 || ioctl(fd, BLKSSZGET, &logical) < 0) return -errno;
    if (logical < 512 || logical > (int)BLOCK_BYTES_MAX) return -EINVAL;
    *block_bytes = (u32)logical;
    return 0;
}

static int table_grow(int fd, u32 number, gpt_plan *plan, u64 disk_bytes, u32 block_bytes) {
    u8 header[512], entries[GPT_ENTRIES_BYTES_MAX];
    u64 lba;
    u32 bytes;
    if (pread(fd, header, sizeof(header), block_bytes) != (ssize_t)sizeof(header)) return -EIO;
    if (!gpt_entries(header, &lba, &bytes)) return -EINVAL;
    if (pread(fd, entries, bytes, (off_t)(lba * block_bytes)) != (ssize_t)bytes) return -EIO;
    gpt_verdict v = gpt_grow_plan(header, entries, bytes, disk_bytes / block_bytes, block_bytes, number, plan);
    if (v == GPT_FULL) return 0;
    if (v != GPT_GROW) {
        init_warn("data partition: can not be grown: the partition table: %s", gpt_verdict_name(v));
        return -EINVAL;
    }
    int result = plan_write(fd, plan, block_bytes);
    return result < 0 ? result : 1;
}

int data_table_grow(const char *disk, u32 number, u64 *first_lba, u64 *blocks, u32 *block_bytes) {
    int fd = open(disk, O_RDWR | O_CLOEXEC);
    if (fd < 0) return -errno;
    gpt_plan *plan = malloc(sizeof(*plan));
    u64 bytes = 0;
    int result = plan == NULL ? -ENOMEM : disk_measure(fd, &bytes, block_bytes);
    if (result == 0) result = table_grow(fd, number, plan, bytes, *block_bytes);
    if (result == 1) {
        *first_lba = plan->first_lba;
        *blocks = plan->last_lba - plan->first_lba + 1;
    }
    free(plan);
    close(fd);
    return result;
}

// "/dev/vda4" -> "/dev/vda" and 4, by sysfs: names do not tell (mmcblk0p4, nvme0n1p4).
static int disk_of(const char *partition, char *disk, size_t size, u32 *number) {
    char link[256], target[512], text[16] = "";
    const char *name = strrchr(partition, '/') + 1;
    snprintf(link, sizeof(link), "/sys/class/block/%s/partition", name);
    int fd = open(link, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0) return -EIO;
    *number = (u32)strtoul(text, NULL, 10);
    snprintf(link, sizeof(link), "/sys/class/block/%s", name);
    n = readlink(link, target, sizeof(target) - 1);
    if (n < 0) return -errno;
    target[n] = '\0';
    snprintf(disk, size, "/dev/%s", basename(dirname(target)));
    return 0;
}

// The kernel's view changes while partitions of the disk are in use; no re-reading of the whole table.
static int kernel_tell(const char *disk, u32 number, u64 first_lba, u64 blocks, u32 block_bytes) {
    struct blkpg_partition part = {.start = (long long)(first_lba * block_bytes),
                                   .length = (long long)(blocks * block_bytes), .pno = (int)number};
    struct blkpg_ioctl_arg arg = {.op = BLKPG_RESIZE_PARTITION, .datalen = sizeof(part), .data = &part};
    int fd = open(disk, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    int result = ioctl(fd, BLKPG, &arg) < 0 ? -errno : 0;
    close(fd);
    return result;
}

int data_partition_grow(const char *partition) {
    char disk[300];
    u32 number = 0, block_bytes = 512;
    u64 first_lba = 0, blocks = 0;
    int result = disk_of(partition, disk, sizeof(disk), &number);
    if (result == 0) result = data_table_grow(disk, number, &first_lba, &blocks, &block_bytes);
    if (result != 1) return result;
    result = kernel_tell(disk, number, first_lba, blocks, block_bytes);
    init_info("data partition: grown to %llu MiB%s%s", (unsigned long long)(blocks * block_bytes >> 20),
              result < 0 ? "; in force after the next restart: " : "", result < 0 ? errno_name(result) : "");
    return 0;
}
