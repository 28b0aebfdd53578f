// SPDX-License-Identifier: Apache-2.0
// partition.c: finds a partition by its GPT name, through sysfs: /sys/class/block/*/uevent has PARTNAME=
// and DEVNAME=. Device names depend on the driver and on the order of probing and are never used.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "init/control.h"
#include "init/partition.h"

#define UEVENT_BYTES 1024

// The value of KEY= in a uevent file's text.
static bool uevent_value(const char *text, const char *key, char *out, size_t size) {
    size_t key_len = strlen(key);
    for (const char *line = text; line != NULL && *line != '\0';) {
        const char *end = strchr(line, '\n');
        size_t len = end == NULL ? strlen(line) : (size_t)(end - line);
        if (len > key_len && memcmp(line, key, key_len) == 0 && line[key_len] == '=') {
            size_t value_len = len - key_len - 1;
            if (value_len >= size) return false;
            memcpy(out, line + key_len + 1, value_len);
            out[value_len] = '\0';
            return true;
        }
        line = end == NULL ? NULL : end + 1;
    }
    return false;
}

static bool uevent_read(const char *sysfs, const char *name, char *text) {
    char path[512];
    snprintf(path, sizeof(path), "%s/%s/uevent", sysfs, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, text, UEVENT_BYTES - 1);
    close(fd);
    if (n < 0) return false;
    text[n] = '\0';
    return true;
}

int init_partition_find_in(const char *sysfs, const char *partname, char *out, size_t size) {
    DIR *dir = opendir(sysfs);
    if (dir == NULL) return -errno;
    char text[UEVENT_BYTES], value[128];
    int result = -ENOENT;
    const struct dirent *entry;
    while (result == -ENOENT && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.' || !uevent_read(sysfs, entry->d_name, text)) continue;
        if (!uevent_value(text, "PARTNAME", value, sizeof(value)) || strcmp(value, partname) != 0) continue;
        if (!uevent_value(text, "DEVNAME", value, sizeof(value))) continue;
        int len = snprintf(out, size, "/dev/%s", value);
        result = len < 0 || (size_t)len >= size ? -ENAMETOOLONG : 0;
    }
    closedir(dir);
    return result;
}

int init_partition_find(const char *partname, char *out, size_t size) {
    return init_partition_find_in("/sys/class/block", partname, out, size);
}
