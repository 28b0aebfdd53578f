// SPDX-License-Identifier: Apache-2.0
// config_good.c: see config_good.h. In the record: config.good (length and CRC32C of the whole) and
// config.good0, config.good1 ... (its pieces). The head is written last and checked on reading, so that a
// mixture of two configurations is never taken for one.
#include "init/config_good.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/config_collect.h"
#include "init/config_merge.h"
#include "init/crc.h"
#include "init/state.h"

#define PIECES (CONFIG_GOOD_STATE_BYTES / STATE_VALUE_BYTES_MAX)
#define HEAD_NAME "config.good"
_Static_assert(CONFIG_GOOD_STATE_BYTES % STATE_VALUE_BYTES_MAX == 0, "whole pieces");

typedef struct good_head {
    u32 len, crc;
} good_head;

static void piece_name(u32 i, char out[STATE_NAME_BYTES_MAX + 1]) {
    snprintf(out, STATE_NAME_BYTES_MAX + 1, HEAD_NAME "%u", i);
}

static void file_name(const char *dir, const char *suffix, char *out, size_t size) {
    snprintf(out, size, "%s/" CONFIG_GOOD_FILE "%s", dir, suffix);
}

static void forget_state(void) {
    char name[STATE_NAME_BYTES_MAX + 1];
    state_delete(HEAD_NAME);
    for (u32 i = 0; i < PIECES; i++) {
        piece_name(i, name);
        state_delete(name);
    }
}

static int keep_in_state(const char *text, size_t len) {
    char name[STATE_NAME_BYTES_MAX + 1];
    good_head head = {.len = (u32)len, .crc = init_crc32c(text, len)};
    int rc = 0;
    for (u32 i = 0; i < PIECES && rc == 0; i++) {
        size_t at = i * STATE_VALUE_BYTES_MAX;
        piece_name(i, name);
        if (at < len) rc = state_put(name, text + at, MIN(len - at, STATE_VALUE_BYTES_MAX));
        else state_delete(name);
    }
    if (rc == 0) rc = state_put(HEAD_NAME, &head, sizeof(head));
    if (rc != 0) forget_state();
    return rc;
}

static int write_whole(int fd, const char *text, size_t len) {
    while (len > 0) {
        ssize_t n = write(fd, text, len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? -errno : -EIO;
        text += n;
        len -= (size_t)n;
    }
    return fsync(fd) != 0 ? -errno : 0;
}

// Its own checksum stands in the first line, as a comment.
static int keep_in_file(const char *text, size_t len, const char *dir) {
    char path[128], temporary[128], head[32];
    file_name(dir, "", path, sizeof(path));
    file_name(dir, ".new", temporary, sizeof(temporary));
    int n = snprintf(head, sizeof(head), "# %08x\n", init_crc32c(text, len));
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return -errno;
    int rc = write_whole(fd, head, (size_t)n);
    if (rc == 0) rc = write_whole(fd, text, len);
    close(fd);
    if (rc == 0 && rename(temporary, path) != 0) rc = -errno;
    if (rc != 0) unlink(temporary);
    return rc;
}

static char *load_state(size_t *len) {
    char name[STATE_NAME_BYTES_MAX + 1];
    good_head head;
    if (state_get(HEAD_NAME, &head, sizeof(head)) != (int)sizeof(head)) return NULL;
    if (head.len > CONFIG_GOOD_STATE_BYTES) return NULL;
    char *text = calloc(1, CONFIG_GOOD_STATE_BYTES + 1);
    if (text == NULL) return NULL;
    size_t at = 0;
    for (u32 i = 0; at < head.len; i++) {
        size_t want = MIN(head.len - at, STATE_VALUE_BYTES_MAX);
        piece_name(i, name);
        if (state_get(name, text + at, want) != (int)want) break;
        at += want;
    }
    if (at == head.len && init_crc32c(text, head.len) == head.crc) {
        *len = head.len;
        return text;
    }
    free(text);
    return NULL;
}

static char *load_file(const char *dir, size_t *len) {
    char path[128];
    unsigned crc = 0;
    struct stat st;
    file_name(dir, "", path, sizeof(path));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return NULL;
    char *text = NULL;
    ssize_t n = -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 11 &&
        st.st_size <= (off_t)CONFIG_SOURCE_BYTES_MAX * 4)
        text = calloc(1, (size_t)st.st_size + 1);
    if (text != NULL) n = read(fd, text, (size_t)st.st_size);
    close(fd);
    bool whole = n > 11 && sscanf(text, "# %8x\n", &crc) == 1 && text[10] == '\n';
    if (whole && init_crc32c(text + 11, (size_t)n - 11) == crc) {
        *len = (size_t)n - 11;
        memmove(text, text + 11, *len + 1);
        return text;
    }
    free(text);
    return NULL;
}

int config_good_keep(const char *text, size_t len, const char *dir) {
    size_t have_len = 0;
    char *have = config_good_load(dir, &have_len), path[128];
    bool same = have != NULL && have_len == len && memcmp(have, text, len) == 0;
    free(have);
    if (same) return 0;
    if (len <= CONFIG_GOOD_STATE_BYTES) {
        int rc = keep_in_state(text, len);
        if (rc == 0 && dir != NULL) {
            file_name(dir, "", path, sizeof(path));
            unlink(path);
        }
        if (rc == 0 || dir == NULL) return rc;
    }
    if (dir == NULL) return -ENOENT;
    int rc = keep_in_file(text, len, dir);
    if (rc == 0) forget_state();
    return rc;
}

char *config_good_load(const char *dir, size_t *len) {
    char *text = load_state(len);
    if (text == NULL && dir != NULL) text = load_file(dir, len);
    return text;
}
