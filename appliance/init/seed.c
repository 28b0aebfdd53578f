// SPDX-License-Identifier: Apache-2.0
// seed.c: the random seed of identity.h. The kernel credits its own sources (the processor's generator, the
// firmware's or device tree's seed, virtio-rng) by default; the saved seed makes machines without any of
// them start with good randomness from their second boot on. Images carry no seed: clones would share it.
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "init/identity.h"
#include "init/init_log.h"
#include "init/state.h"

#define KEY_SEED "seed"
#define KEY_SEED_GOOD "seed_good"

// The kernel's generator mixes what it is given with all it has: reading it after adding the old seed gives a
// hash of both. *good: it was ready.
static bool seed_read(u8 out[SEED_BYTES], bool *good) {
    *good = getrandom(out, SEED_BYTES, GRND_NONBLOCK) == (ssize_t)SEED_BYTES;
    return *good || getrandom(out, SEED_BYTES, GRND_INSECURE) == (ssize_t)SEED_BYTES;
}

// True when the new seed is on disk; *good as above.
static bool seed_renew(bool *good) {
    u8 seed[SEED_BYTES];
    if (!seed_read(seed, good)) return false;
    u8 flag = *good ? 1 : 0;
    int result = state_put(KEY_SEED, seed, sizeof(seed));
    if (result == 0) result = state_put(KEY_SEED_GOOD, &flag, 1);
    if (result == 0) result = state_flush();
    explicit_bzero(seed, sizeof(seed));
    return result == 0;
}

static int seed_give(const u8 seed[SEED_BYTES], bool credit) {
    // struct rand_pool_info with its buffer: bits credited, bytes, the bytes.
    struct {
        int entropy_count, buf_size;
        u8 buf[SEED_BYTES];
    } pool = {.entropy_count = credit ? (int)SEED_BYTES * 8 : 0, .buf_size = (int)SEED_BYTES};
    _Static_assert(offsetof(struct rand_pool_info, buf) == 2 * sizeof(int), "the kernel's layout");
    memcpy(pool.buf, seed, SEED_BYTES);
    int fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    int result = ioctl(fd, RNDADDENTROPY, &pool) < 0 ? -errno : 0;
    close(fd);
    explicit_bzero(&pool, sizeof(pool));
    return result;
}

void seed_load(void) {
    u8 seed[SEED_BYTES], flag = 0;
    bool good = false;
    bool have = state_get(KEY_SEED, seed, sizeof(seed)) == (int)sizeof(seed);
    bool was_good = have && state_get(KEY_SEED_GOOD, &flag, 1) == 1 && flag == 1;
    int result = 0;
    // First mixed in without credit, then replaced on disk, and only then credited: a power cut between
    // the steps never leads to the same seed being credited twice.
    if (have) result = seed_give(seed, false);
    bool renewed = seed_renew(&good);
    if (have && result == 0 && renewed && was_good) {
        result = seed_give(seed, true);
        // The generator is ready now, if it was not: what it gives from here on may be credited next time.
        if (!good) seed_renew(&good);
    }
    if (result < 0) init_warn("seed: %s", errno_name(result));
    explicit_bzero(seed, sizeof(seed));
}

void seed_save(void) {
    bool good;
    seed_renew(&good);
}
