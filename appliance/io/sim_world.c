// SPDX-License-Identifier: Apache-2.0
// sim_world.c: the world of the simulation: its clock, its source of chance, its trace and digest, and
// the table of fake descriptors.
//
// Invariants: time moves only in sim_advance and sim_step; every event passes sim_event, so two runs
// with equal digests did the same things in the same order.
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "io/sim_net.h"

static sim *world; // the current one

sim *sim_world(void) {
    return world;
}

u64 sim_random_next(sim_random *r) {
    r->state += 0x9e3779b97f4a7c15ull; // odd, from the golden ratio: visits every state once
    u64 x = r->state;
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
    return x ^ (x >> 32);
}

u64 sim_random_below(sim_random *r, u64 below) {
    if (below == 0) return 0;
    return (u64)(((unsigned __int128)sim_random_next(r) * below) >> 64);
}

u64 sim_random_range(sim_random *r, u64 low, u64 high) {
    ASSERT(low <= high);
    return low + sim_random_below(r, high - low + 1);
}

bool sim_random_chance(sim_random *r, u32 permille) {
    return permille > 0 && sim_random_below(r, 1000) < permille;
}

bool sim_chance(sim *s, u32 permille) {
    return sim_random_chance(&s->rng, permille);
}

sim *sim_create(const sim_config *config) {
    ASSERT(world == NULL);
    sim *s = calloc(1, sizeof(*s));
    if (s == NULL) base_out_of_memory("simulated world", sizeof(*s));
    s->config = *config;
    if (s->config.pipe_bytes_max == 0) {
        s->config.pipe_bytes_min = s->config.pipe_bytes_max = SIM_PIPE_BYTES_DEFAULT;
    }
    ASSERT(s->config.pipe_bytes_min > 0 && s->config.pipe_bytes_min <= s->config.pipe_bytes_max);
    s->rng.state = config->seed;
    s->now_ns = config->start_ns != 0 ? config->start_ns : 3600 * NS_PER_S;
    s->digest = 0xcbf29ce484222325ull;
    s->fds_max = config->fds_max != 0 ? config->fds_max : SIM_FDS_MAX;
    ASSERT(s->fds_max <= SIM_FDS_MAX);
    s->fds = calloc(SIM_FDS_MAX, sizeof(sim_socket *));
    if (s->fds == NULL) base_out_of_memory("simulated descriptors", SIM_FDS_MAX * sizeof(void *));
    world = s;
    return s;
}

void sim_destroy(sim *s) {
    ASSERT(s == world && s->engine_count == 0);
    while (s->sockets != NULL) sim_socket_close(s->sockets, true);
    free(s->fds);
    free(s);
    world = NULL;
}

sim_random *sim_rng(sim *s) {
    return &s->rng;
}

void sim_faults_set(sim *s, const sim_faults *faults) {
    s->config.faults = *faults;
}

sim_counts sim_counts_get(const sim *s) {
    return s->counts;
}

u64 sim_digest(const sim *s) {
    return s->digest;
}

static void digest_add(sim *s, u64 value) {
    u64 x = s->digest ^ value;
    x *= 0x100000001b3ull;
    s->digest = x ^ (x >> 29);
}

void sim_event(sim *s, const char *what, u32 number, i64 value) {
    for (const char *p = what; *p != '\0'; p++) digest_add(s, (u64)*p);
    digest_add(s, s->now_ns);
    digest_add(s, number);
    digest_add(s, (u64)value);
    if (s->config.trace == NULL) return;
    fprintf(s->config.trace, "%12.6f  #%-5" PRIu32 " %-14s %" PRId64 "%s%s\n",
            (double)s->now_ns / 1e9, number, what, value, value < 0 ? " " : "",
            value < 0 ? errno_name((int)value) : "");
}

void sim_note(sim *s, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    ASSERT(n >= 0);
    for (const char *p = text; *p != '\0'; p++) digest_add(s, (u64)*p);
    if (s->config.trace == NULL) return;
    fprintf(s->config.trace, "%12.6f  %s\n", (double)s->now_ns / 1e9, text);
}

// --- time ---

u64 sim_now_ns(const sim *s) {
    return s->now_ns;
}

void sim_advance(sim *s, u64 ns) {
    ASSERT(!s->in_run);
    s->now_ns += ns;
    s->counts.steps++;
}

bool sim_has_work(const sim *s) {
    for (u32 i = 0; i < s->engine_count; i++) {
        if (sim_engine_has_work(s->engines[i])) return true;
    }
    return false;
}

u64 sim_next_ns(const sim *s) {
    u64 next = UINT64_MAX;
    for (u32 i = 0; i < s->engine_count; i++) {
        u64 at = sim_engine_next_ns(s->engines[i]);
        next = MIN(next, at);
    }
    for (const sim_socket *socket = s->sockets; socket != NULL; socket = socket->next) {
        u64 at = sim_socket_next_ns(socket);
        next = MIN(next, at);
    }
    return MAX(next, s->now_ns);
}

u64 sim_step(sim *s, u64 ns_max) {
    u64 next = sim_next_ns(s);
    u64 by = MIN(next - s->now_ns, ns_max);
    if (by < ns_max && sim_chance(s, s->config.faults.time_jump)) {
        s->counts.time_jumps++;
        u64 room = ns_max - by;
        by += sim_random_below(&s->rng, MIN(room, s->config.faults.jump_ns_max) + 1);
    }
    sim_advance(s, by);
    return by;
}

// --- descriptors ---

int sim_fd_assign(sim *s, sim_socket *socket) {
    if (s->fds_used >= s->fds_max) return -EMFILE;
    for (u32 i = 0; i < SIM_FDS_MAX; i++) {
        if (s->fds[i] != NULL) continue;
        s->fds[i] = socket;
        s->fds_used++;
        socket->fd = SIM_FD_BASE + (int)i;
        return socket->fd;
    }
    return -ENFILE;
}

void sim_fd_release(sim *s, sim_socket *socket) {
    if (socket->fd < 0) return;
    ASSERT(s->fds[socket->fd - SIM_FD_BASE] == socket);
    s->fds[socket->fd - SIM_FD_BASE] = NULL;
    s->fds_used--;
    socket->fd = -1;
}

sim_socket *sim_fd_find(sim *s, int fd) {
    if (fd < SIM_FD_BASE || (u32)(fd - SIM_FD_BASE) >= SIM_FDS_MAX) return NULL;
    return s->fds[fd - SIM_FD_BASE];
}

int sim_fd_close(sim *s, int fd) {
    sim_socket *socket = sim_fd_find(s, fd);
    if (socket == NULL) return -EBADF;
    ASSERT(socket->engine == NULL); // an engine closes what it holds
    sim_event(s, "fd_close", socket->number, 0);
    sim_socket_close(socket, false);
    return 0;
}

u32 sim_fds_open(const sim *s) {
    return s->fds_used;
}

void sim_fds_limit(sim *s, u32 max) {
    ASSERT(max <= SIM_FDS_MAX);
    s->fds_max = max;
}
