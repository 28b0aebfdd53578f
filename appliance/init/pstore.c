// SPDX-License-Identifier: Apache-2.0
// pstore.c: see pstore.h. A record is removed only when it was read whole; one that could not be kept on
// disk is still in memory, and the store must be empty for the next crash.
#include "init/pstore.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/control.h"
#include "init/init_log.h"
#include "init/state.h"
#include "limits.h"

typedef struct record {
    char name[64];
    char *text;
    size_t len;
    bool cut;
} record;

static record records[LIMIT_PSTORE_RECORDS];
static u32 count;
static size_t bytes_held;
static char store_dir[128];

u32 pstore_count(void) {
    return count;
}

bool pstore_has_panic(void) {
    // "console-..." records are there after every warm restart.
    for (u32 i = 0; i < count; i++) {
        if (strncmp(records[i].name, "dmesg", 5) == 0) return true;
    }
    return false;
}

// At most what is left of the budget; the rest of the record is not kept.
static bool record_read(record *r, int fd) {
    size_t room = MIN((size_t)LIMIT_PSTORE_BYTES - bytes_held, (size_t)LIMIT_PSTORE_RECORD_BYTES);
    r->text = malloc(room + 1);
    if (r->text == NULL) return false;
    r->len = 0;
    while (r->len < room) {
        ssize_t n = read(fd, r->text + r->len, room - r->len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        r->len += (size_t)n;
    }
    char more;
    r->cut = r->len == room && read(fd, &more, 1) == 1;
    bytes_held += r->len;
    return r->len > 0;
}

static void record_take(const char *name) {
    char path[256];
    bool full = count == LIMIT_PSTORE_RECORDS || bytes_held >= LIMIT_PSTORE_BYTES;
    if (full || strlen(name) >= sizeof(records[0].name)) return;
    snprintf(path, sizeof(path), "%s/%.63s", store_dir, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return;
    record *r = &records[count];
    snprintf(r->name, sizeof(r->name), "%.63s", name);
    if (record_read(r, fd)) count++;
    else free(r->text);
    close(fd);
}

void pstore_collect_from(const char *dir_path) {
    for (u32 i = 0; i < count; i++) free(records[i].text);
    count = 0;
    bytes_held = 0;
    snprintf(store_dir, sizeof(store_dir), "%s", dir_path);
    DIR *dir = opendir(store_dir);
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') record_take(entry->d_name);
    }
    if (dir != NULL) closedir(dir);
    if (count == 0) return;
    init_warn("the kernel left %u crash records (%zu bytes): `sluice ctl appliance pstore` shows them", count,
              bytes_held);
}

void pstore_collect(void) {
    pstore_collect_from("/sys/fs/pstore");
}

// --- keeping ---

static bool record_write(const record *r, const char *dir, u64 boot) {
    char path[256];
    snprintf(path, sizeof(path), "%s/pstore-%08llu-%s", dir, (unsigned long long)boot, r->name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    size_t put = 0;
    while (put < r->len) {
        ssize_t n = write(fd, r->text + put, r->len - put);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        put += (size_t)n;
    }
    bool whole = put == r->len && fdatasync(fd) == 0;
    close(fd);
    if (!whole) unlink(path);
    return whole;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_kept_record(const struct dirent *entry) {
    return strncmp(entry->d_name, "pstore-", 7) == 0;
}

// The boot's number in the name makes the oldest sort first.
static void oldest_remove(const char *dir) {
    struct dirent **names;
    int total = scandir(dir, &names, is_kept_record, by_name);
    for (int i = 0; i < total; i++) {
        char path[512];
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
        if (i < total - (int)LIMIT_PSTORE_KEEP) unlink(path);
        free(names[i]);
    }
    if (total >= 0) free(names);
}

void pstore_keep_in(const char *keep_dir, u64 boot) {
    char dir[128], path[256];
    u32 kept = 0;
    if (keep_dir != NULL && count > 0) {
        snprintf(dir, sizeof(dir), "%s/crash", keep_dir);
        mkdir(dir, 0700);
        for (u32 i = 0; i < count; i++) kept += record_write(&records[i], dir, boot) ? 1 : 0;
        oldest_remove(dir);
    }
    for (u32 i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s/%s", store_dir, records[i].name);
        if (unlink(path) < 0) init_warn("pstore: %s could not be removed: %s", records[i].name, errno_name(errno));
    }
    if (count > 0) init_info("pstore: %u of %u crash records kept on the data partition", kept, count);
}

void pstore_keep(void) {
    pstore_keep_in(init_data_is_mounted() ? INIT_DATA_DIR : NULL, state_get_u64("boot.count", 0));
}

void pstore_describe(yyjson_mut_doc *doc, yyjson_mut_val *to) {
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, to, "records");
    for (u32 i = 0; i < count; i++) {
        yyjson_mut_val *item = yyjson_mut_arr_add_obj(doc, list);
        yyjson_mut_obj_add_str(doc, item, "name", records[i].name);
        yyjson_mut_obj_add_uint(doc, item, "bytes", records[i].len);
        yyjson_mut_obj_add_bool(doc, item, "cut", records[i].cut);
        // Kernel text; bytes that are not UTF-8 become '?', JSON has no other way.
        for (size_t k = 0; k < records[i].len; k++) {
            u8 byte = (u8)records[i].text[k];
            if (byte >= 0x80 || (byte < 0x20 && byte != '\n' && byte != '\t')) records[i].text[k] = '?';
        }
        yyjson_mut_obj_add_strn(doc, item, "text", records[i].text, records[i].len);
    }
}
