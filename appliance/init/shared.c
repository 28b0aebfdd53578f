// SPDX-License-Identifier: Apache-2.0
// shared.c: see shared.h. Both ends of the page, so that they can not disagree.
#include "init/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static u32 load32(const u32 *at) {
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static u64 load64(const u64 *at) {
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

// --- the gateway's side ---

static init_shared *attach_failed(const char *text, const char *what) {
    fprintf(stderr, "sluice run: %s=%s: %s; running without\n", INIT_SHARED_ENV, text, what);
    return NULL;
}

init_shared *init_shared_attach(void) {
    const char *text = getenv(INIT_SHARED_ENV);
    if (text == NULL) return NULL;
    char *end;
    errno = 0;
    long fd = strtol(text, &end, 10);
    struct stat st;
    bool is_number = errno == 0 && *end == '\0' && end != text;
    if (!is_number || fd < 3 || fd > INT32_MAX) return attach_failed(text, "no descriptor");
    bool is_page = fstat((int)fd, &st) == 0 && st.st_size == (off_t)INIT_SHARED_BYTES;
    if (!is_page) return attach_failed(text, "not init's page");
    init_shared *s = mmap(NULL, INIT_SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
    if (s == MAP_FAILED) return attach_failed(text, errno_name(errno));
    if (load32(&s->magic) != INIT_SHARED_MAGIC) {
        munmap(s, INIT_SHARED_BYTES);
        return attach_failed(text, "not init's page");
    }
    close((int)fd);
    unsetenv(INIT_SHARED_ENV);
    return s;
}

// --- init's side ---

init_shared *init_shared_create(int *fd) {
    *fd = memfd_create("sluice-init", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0) {
        *fd = -errno;
        return NULL;
    }
    int failed = 0;
    if (ftruncate(*fd, INIT_SHARED_BYTES) < 0) failed = -errno;
    // The gateway must not be able to shrink the page under init's reads.
    if (failed == 0 && fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) failed = -errno;
    init_shared *s = MAP_FAILED;
    if (failed == 0) s = mmap(NULL, INIT_SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (failed == 0 && s == MAP_FAILED) failed = -errno;
    if (failed < 0) {
        close(*fd);
        *fd = failed;
        return NULL;
    }
    init_shared_reset(s);
    return s;
}

void init_shared_reset(init_shared *s) {
    *s = (init_shared){.magic = INIT_SHARED_MAGIC};
}

static bool beat_is_old(u64 beat_ns, u64 now_ns, u64 bound_ns) {
    return beat_ns < now_ns && now_ns - beat_ns > bound_ns;
}

beat_verdict init_shared_check(const init_shared *s, u64 now_ns, u64 bound_ns, int *who) {
    u32 count = MIN(load32(&s->worker_count), (u32)ARRAY_LEN(s->worker_ns));
    *who = -1;
    if (count == 0) return BEAT_STARTING;
    if (beat_is_old(load64(&s->main_ns), now_ns, bound_ns)) return BEAT_STALE;
    for (u32 i = 0; i < count; i++) {
        if (!beat_is_old(load64(&s->worker_ns[i]), now_ns, bound_ns)) continue;
        *who = (int)i;
        return BEAT_STALE;
    }
    return BEAT_ALIVE;
}
