// SPDX-License-Identifier: Apache-2.0
// update_work.c: what the helper processes of updates do; see update_internal.h. A helper ends with its work, so
// nothing here gives memory back.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "init/boot_check.h"
#include "init/config_collect.h"
#include "init/control.h"
#include "init/update.h"
#include "init/update_fetch.h"
#include "init/update_internal.h"

#define KEYS_BYTES_MAX 4096u
#define PROGRESS_BYTES (256u << 10)

static int complain(const update_helper *h, const char *what, int err) {
    update_helper_say(h, "error %s: %s", what, errno_name(err));
    return 1;
}

static int open_esp(const update_helper *h, bool writable, update_disk *disk) {
    char path[64];
    int err = init_partition_find(UPDATE_PARTITION, path, sizeof(path));
    if (err == 0) err = update_disk_open(path, 0, writable, disk);
    return err == 0 ? 0 : complain(h, "the partition " UPDATE_PARTITION, err);
}

// A system without the file has no key; a file that is wrong is an error.
static int read_keys(const update_helper *h, update_keys *keys) {
    char text[KEYS_BYTES_MAX];
    keys->count = 0;
    int fd = open(UPDATE_KEYS_PATH, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT ? 0 : complain(h, UPDATE_KEYS_PATH, errno);
    ssize_t len = read(fd, text, sizeof(text));
    close(fd);
    if (len < 0) return complain(h, UPDATE_KEYS_PATH, errno);
    int err = len == (ssize_t)sizeof(text) ? -EFBIG : update_keys_read(text, (size_t)len, keys);
    return err == 0 ? 0 : complain(h, UPDATE_KEYS_PATH, err);
}

// Adds the keys of the configuration, as far as there is room. One that can not be read adds none.
static void add_configured_keys(update_keys *keys) {
    config *c = malloc(sizeof(*c));
    config_error *error = malloc(sizeof(*error));
    update_keys more = {0};
    if (c != NULL && error != NULL && config_load(CONFIG_RUN_PATH, c, error) == 0) {
        for (char *p = c->update.keys; *p != '\0'; p++) {
            if (*p == ' ' || *p == '\t') *p = '\n';
        }
        if (update_keys_read(c->update.keys, strlen(c->update.keys), &more) < 0) more.count = 0;
    }
    for (u32 i = 0; i < more.count && keys->count < LIMIT_UPDATE_KEYS; i++) {
        memcpy(keys->points[keys->count++], more.points[i], UPDATE_KEY_BYTES);
    }
    free(c);
    free(error);
}

typedef struct progress_state {
    const update_helper *h;
    u64 said;
} progress_state;

static void progress(void *context, u64 done, u64 total) {
    progress_state *p = context;
    if (done < p->said + PROGRESS_BYTES && done != total) return;
    p->said = done;
    update_helper_say(p->h, "progress %llu %llu", (unsigned long long)done, (unsigned long long)total);
}

int update_work_write(const update_helper *h, const update_order *order) {
    static update_keys keys;
    update_disk disk;
    update_source source = {.error = ""};
    progress_state state = {.h = h};
    if (read_keys(h, &keys) != 0) return 1;
    add_configured_keys(&keys);
    if (order->fd >= 0) {
        update_source_fd(order->fd, &source);
    } else if (update_fetch_open(order->url, &source) == NULL) {
        update_helper_say(h, "error %s", source.error);
        return 1;
    }
    if (open_esp(h, true, &disk) != 0) return 1;
    update_job job = {.disk = &disk, .source = &source, .keys = &keys, .running = order->running,
                      .arch = update_own_arch(), .version = update_own_version(), .build_s = update_own_build_s(),
                      .allow_downgrade = order->allow_downgrade, .progress = progress, .progress_context = &state};
    if (update_write(&job) < 0) {
        update_helper_say(h, "error %s", job.error);
        return 1;
    }
    update_helper_say(h, "slot %c", job.target);
    update_helper_say(h, "version %s", job.header.version_text);
    return 0;
}

int update_work_bless(const update_helper *h, char slot) {
    update_disk disk;
    static update_esp esp;
    const char *why;
    update_env env = {.slot = slot};
    if (open_esp(h, true, &disk) != 0) return 1;
    int err = update_esp_find(&disk, &esp, &why);
    if (err < 0) return complain(h, why, err);
    err = update_esp_env_write(&disk, &esp, &env);
    return err == 0 ? 0 : complain(h, "the loader's environment", err);
}

int update_work_look(const update_helper *h) {
    update_disk disk;
    static update_esp esp;
    const char *why;
    update_env env;
    if (open_esp(h, false, &disk) != 0) return 1;
    int err = update_esp_find(&disk, &esp, &why);
    if (err < 0) return complain(h, why, err);
    err = update_esp_env_read(&disk, &esp, &env);
    if (err < 0) return complain(h, "the loader's environment", err);
    update_helper_say(h, "env %c %c %d", env.slot, env.try_slot == 0 ? '-' : env.try_slot, env.tried);
    return 0;
}

int update_work_check(const update_helper *h) {
    config *c = malloc(sizeof(*c));
    config_error *error = malloc(sizeof(*error));
    char why[300] = "";
    if (c == NULL || error == NULL) return complain(h, "the check", ENOMEM);
    int err = config_load(CONFIG_RUN_PATH, c, error);
    if (err < 0) return complain(h, CONFIG_RUN_PATH, err);
    err = boot_check_run(c, why, sizeof(why));
    if (err < 0) update_helper_say(h, "error %s", why);
    return err < 0;
}
