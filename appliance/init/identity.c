// SPDX-License-Identifier: Apache-2.0
// identity.c: see identity.h: the machine id and the host name.
#include "init/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "init/control.h"
#include "init/init_log.h"
#include "init/state.h"

#define KEY_ID "machine_id"
#define KEY_HARDWARE "hardware_uuid"

static char id_text[MACHINE_ID_BYTES * 2 + 1];
static char host_text[16];

static const char *const origin_names[] = {
    [IDENTITY_KEPT] = "kept",
    [IDENTITY_NEW] = "made now",
    [IDENTITY_CLONE] = "made now: the disk comes from another machine",
    [IDENTITY_HARDWARE] = "from the hardware's UUID: there is no state record",
    [IDENTITY_RAM] = "random, for this boot only: there is no state record",
};

const char *identity_origin_name(identity_origin origin) {
    ASSERT(origin < ARRAY_LEN(origin_names));
    return origin_names[origin];
}

const char *init_machine_id(void) {
    return id_text;
}

const char *init_hostname(void) {
    return host_text;
}

// --- the hardware's UUID ---

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static bool is_placeholder(const u8 uuid[MACHINE_ID_BYTES]) {
    // What a firmware writer leaves in the template of a board.
    static const u8 vendor_template[] = {0x03, 0x00, 0x02, 0x00, 0x04, 0x00, 0x05, 0x00,
                                         0x00, 0x06, 0x00, 0x07, 0x00, 0x08, 0x00, 0x09};
    if (memcmp(uuid, vendor_template, MACHINE_ID_BYTES) == 0) return true;
    return memcmp(uuid, uuid + 1, MACHINE_ID_BYTES - 1) == 0;
}

bool identity_uuid_parse(const char *text, u8 out[MACHINE_ID_BYTES]) {
    u32 digits = 0;
    u8 uuid[MACHINE_ID_BYTES] = {0};
    for (; *text != '\0' && *text != '\n'; text++) {
        if (*text == '-') continue;
        int value = hex_digit(*text);
        if (value < 0 || digits == MACHINE_ID_BYTES * 2) return false;
        uuid[digits / 2] = (u8)(uuid[digits / 2] << 4 | value);
        digits++;
    }
    if (digits != MACHINE_ID_BYTES * 2 || is_placeholder(uuid)) return false;
    memcpy(out, uuid, MACHINE_ID_BYTES);
    return true;
}

bool identity_hardware_uuid(u8 out[MACHINE_ID_BYTES]) {
    // x86 and arm64 servers; device-tree virtual machines.
    static const char *const paths[] = {"/sys/class/dmi/id/product_uuid", "/proc/device-tree/vm,uuid",
                                        "/proc/device-tree/hypervisor/uuid"};
    for (u32 i = 0; i < ARRAY_LEN(paths); i++) {
        char text[64];
        int fd = open(paths[i], O_RDONLY | O_CLOEXEC);
        if (fd < 0) continue;
        ssize_t n = read(fd, text, sizeof(text) - 1);
        close(fd);
        if (n <= 0) continue;
        text[n] = '\0';
        if (identity_uuid_parse(text, out)) return true;
    }
    return false;
}

// --- the machine's id ---

// machine-id(5) as others know it: a version 4 UUID without dashes.
static void id_make(u8 id[MACHINE_ID_BYTES]) {
    // Blocks until the generator is ready; the seed was loaded before, and a machine without any source
    // of randomness must not make an id that others make too.
    size_t got = 0;
    while (got < MACHINE_ID_BYTES) {
        ssize_t n = getrandom(id + got, MACHINE_ID_BYTES - got, 0);
        if (n < 0 && errno != EINTR) base_assert_fail(__FILE__, __LINE__, "getrandom works");
        if (n > 0) got += (size_t)n;
    }
    id[6] = (u8)((id[6] & 0x0f) | 0x40);
    id[8] = (u8)((id[8] & 0x3f) | 0x80);
}

static void id_take(const u8 id[MACHINE_ID_BYTES], bool real) {
    for (u32 i = 0; i < MACHINE_ID_BYTES; i++) snprintf(id_text + 2 * i, 3, "%02x", id[i]);
    snprintf(host_text, sizeof(host_text), "sluice-%.8s", id_text);
    if (real && sethostname(host_text, strlen(host_text)) < 0) init_warn("host name: %s", errno_name(errno));
}

identity_origin identity_decide(const u8 *hardware_uuid, bool real) {
    u8 id[MACHINE_ID_BYTES], known[MACHINE_ID_BYTES];
    bool kept = state_get(KEY_ID, id, sizeof(id)) == (int)sizeof(id);
    bool has_known = state_get(KEY_HARDWARE, known, sizeof(known)) == (int)sizeof(known);
    bool moved = kept && has_known && hardware_uuid != NULL && memcmp(known, hardware_uuid, sizeof(known)) != 0;
    identity_origin origin = moved ? IDENTITY_CLONE : kept ? IDENTITY_KEPT : IDENTITY_NEW;
    if (!kept && state_health_get() == STATE_NO_DEVICE) {
        origin = hardware_uuid != NULL ? IDENTITY_HARDWARE : IDENTITY_RAM;
    }
    if (origin == IDENTITY_HARDWARE) memcpy(id, hardware_uuid, sizeof(id));
    else if (origin != IDENTITY_KEPT) id_make(id);
    id_take(id, real);
    state_put(KEY_ID, id, sizeof(id));
    if (hardware_uuid != NULL) state_put(KEY_HARDWARE, hardware_uuid, MACHINE_ID_BYTES);
    if (origin == IDENTITY_NEW || origin == IDENTITY_CLONE) state_flush();
    return origin;
}
