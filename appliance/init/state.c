// SPDX-License-Identifier: Apache-2.0
// state.c: see state.h. The write is a plain call in init's loop: 8 KiB past the page cache. A disk that
// never answers it would not answer the gateway's log either; then the hardware watchdog is not fed and
// the machine restarts, which is the right end for a machine whose disk hangs.
#include "init/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "init/state_slot.h"

static struct {
    int fd;
    u32 current;                 // slot that holds the newest; the other is written next
    bool dirty;
    state_health health;
    u64 writes;
    void (*on_dirty)(void);
} st = {.fd = -1, .health = STATE_NO_DEVICE};

static state_table values;

// O_DIRECT wants the memory aligned to the device's block.
static _Alignas(4096) u8 slot_buf[STATE_SLOT_BYTES];

static const char *const health_names[STATE_HEALTHS] = {
    [STATE_OK] = "ok",     [STATE_EMPTY] = "empty",         [STATE_RECOVERED] = "recovered",
    [STATE_LOST] = "lost", [STATE_NO_DEVICE] = "no_device", [STATE_FAILED] = "failed",
};

// --- reading ---

// Some file systems of test machines refuse O_DIRECT.
static int record_open(const char *path) {
    int fd = open(path, O_RDWR | O_CLOEXEC | O_DIRECT | O_DSYNC);
    if (fd < 0 && errno == EINVAL) fd = open(path, O_RDWR | O_CLOEXEC | O_DSYNC);
    return fd;
}

static slot_verdict slot_load(u32 index, state_table *out) {
    size_t got = 0;
    memset(slot_buf, 0, sizeof(slot_buf));
    while (got < sizeof(slot_buf)) {
        ssize_t n = pread(st.fd, slot_buf + got, sizeof(slot_buf) - got, (off_t)(index * STATE_SLOT_STRIDE + got));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return SLOT_DAMAGED;
        if (n == 0) break;
        got += (size_t)n;
    }
    return state_slot_read(slot_buf, out);
}

static state_health record_load(const char **why) {
    state_table *found = calloc(STATE_SLOTS, sizeof(*found));
    if (found == NULL) base_out_of_memory("state record", STATE_SLOTS * sizeof(*found));
    slot_verdict a = slot_load(0, &found[0]);
    slot_verdict b = slot_load(1, &found[1]);
    state_health health;
    if (a == SLOT_GOOD || b == SLOT_GOOD) {
        st.current = a == SLOT_GOOD && (b != SLOT_GOOD || found[0].generation > found[1].generation) ? 0 : 1;
        values = found[st.current];
        health = a == SLOT_DAMAGED || b == SLOT_DAMAGED ? STATE_RECOVERED : STATE_OK;
        if (health == STATE_RECOVERED) *why = "one slot was damaged or half written; the other one is used";
    } else {
        // Nothing good: the first write goes to slot 0.
        st.current = 1;
        health = a == SLOT_BLANK && b == SLOT_BLANK ? STATE_EMPTY : STATE_LOST;
        *why = health == STATE_EMPTY ? "never written before" : "no slot is whole; started empty";
    }
    free(found);
    return health;
}

state_health state_open(const char *path, const char **why) {
    *why = NULL;
    state_close();
    memset(&values, 0, sizeof(values));
    st.current = 1;
    st.dirty = false;
    st.writes = 0;
    st.health = STATE_NO_DEVICE;
    if (path == NULL) {
        *why = "there is no partition sluice-state";
        return st.health;
    }
    st.fd = record_open(path);
    if (st.fd < 0) {
        *why = errno_name(errno);
        return st.health;
    }
    st.health = record_load(why);
    return st.health;
}

void state_close(void) {
    if (st.fd >= 0) close(st.fd);
    st.fd = -1;
}

// --- values ---

static state_entry *entry_find(const char *name) {
    for (u32 i = 0; i < values.count; i++) {
        if (strcmp(values.entries[i].name, name) == 0) return &values.entries[i];
    }
    return NULL;
}

static void dirty_set(void) {
    st.dirty = true;
    if (st.on_dirty != NULL) st.on_dirty();
}

void state_on_dirty(void (*callback)(void)) {
    st.on_dirty = callback;
}

int state_get(const char *name, void *out, size_t size) {
    const state_entry *e = entry_find(name);
    if (e == NULL) return -ENOENT;
    size_t take = MIN((size_t)e->len, size);
    if (take > 0) memcpy(out, e->value, take);
    return e->len;
}

int state_put(const char *name, const void *value, size_t len) {
    size_t name_len = strlen(name);
    if (name_len == 0 || name_len > STATE_NAME_BYTES_MAX || len > STATE_VALUE_BYTES_MAX) return -EINVAL;
    state_entry *e = entry_find(name);
    if (e != NULL && e->len == len && (len == 0 || memcmp(e->value, value, len) == 0)) return 0;
    state_entry whole = {.len = (u16)len};
    memcpy(whole.name, name, name_len);
    if (len > 0) memcpy(whole.value, value, len);
    u32 bytes = state_slot_bytes(&values) + (u32)(3 + name_len + len);
    if (e != NULL) bytes -= (u32)(3 + name_len + e->len);
    if (bytes > STATE_SLOT_BYTES || (e == NULL && values.count == LIMIT_STATE_ENTRIES)) return -ENOSPC;
    if (e == NULL) e = &values.entries[values.count++];
    *e = whole;
    dirty_set();
    return 0;
}

int state_delete(const char *name) {
    state_entry *e = entry_find(name);
    if (e == NULL) return 0;
    *e = values.entries[--values.count];
    dirty_set();
    return 0;
}

u64 state_get_u64(const char *name, u64 missing) {
    char text[24];
    int len = state_get(name, text, sizeof(text) - 1);
    if (len <= 0 || len >= (int)sizeof(text)) return missing;
    text[len] = '\0';
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    return *end != '\0' || errno != 0 || text[0] == '-' ? missing : value;
}

int state_put_u64(const char *name, u64 value) {
    char text[24];
    int len = snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    return state_put(name, text, (size_t)len);
}

// --- writing ---

static int slot_store(u32 index) {
    size_t put = 0;
    while (put < sizeof(slot_buf)) {
        ssize_t n = pwrite(st.fd, slot_buf + put, sizeof(slot_buf) - put, (off_t)(index * STATE_SLOT_STRIDE + put));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -errno;
        if (n == 0) return -EIO;
        put += (size_t)n;
    }
    return fdatasync(st.fd) < 0 ? -errno : 0;
}

int state_flush(void) {
    if (!st.dirty) return 0;
    if (st.fd < 0) {
        st.dirty = false; // there is nowhere to write to; RAM is all
        return -ENODEV;
    }
    u32 target = 1 - st.current;
    values.generation++;
    state_slot_write(&values, slot_buf);
    int result = slot_store(target);
    if (result < 0) {
        // The slot that was being written may be torn; the other one is still whole and stays current.
        st.health = STATE_FAILED;
        return result;
    }
    st.current = target;
    st.dirty = false;
    st.writes++;
    if (st.health == STATE_FAILED) st.health = STATE_OK;
    return 0;
}

bool state_is_dirty(void) {
    return st.dirty;
}

state_health state_health_get(void) {
    return st.health;
}

const char *state_health_name(state_health h) {
    ASSERT(h < STATE_HEALTHS);
    return health_names[h];
}

u64 state_generation(void) {
    return values.generation;
}

u64 state_writes(void) {
    return st.writes;
}
