// SPDX-License-Identifier: Apache-2.0
// sim.h: the simulated world behind the `sim` engine: one virtual clock, one network of stream sockets
// with fake descriptors, and one source of chance. Everything that happens follows from the seed, so a
// failing seed repeats exactly.
//
// Place in the path: the program under test sees only io.h (io_create with IO_SIM makes an engine in
// the current world). The test drives the other ends of the connections (sim_peer_*), decides when time
// moves (sim_advance, sim_step) and turns the io_run of each engine in whatever order it likes.
//
// Invariants: one world at a time, one thread; only the test moves the clock; bytes of one direction of
// a connection keep their order and none is lost unless a reset says so; descriptors belong to the
// world, not to an engine, so a detached one may be attached to another engine.
#ifndef SLUICE_IO_SIM_H
#define SLUICE_IO_SIM_H

#include <stdio.h>
#include <sys/socket.h>

#include "base/base.h"

#define SIM_FD_BASE (1 << 24) // fake descriptors start here, above any descriptor limit
#define SIM_FDS_MAX 65536u    // sockets of one world at once

static inline bool sim_fd_is_fake(int fd) {
    return fd >= SIM_FD_BASE;
}

// A small seeded generator (a Weyl sequence through a mixing function); also for the tests' own choices.
typedef struct sim_random {
    u64 state;
} sim_random;
u64 sim_random_next(sim_random *r);
// Uniform in [0, below); 0 when below is 0.
u64 sim_random_below(sim_random *r, u64 below);
// Uniform in [low, high].
u64 sim_random_range(sim_random *r, u64 low, u64 high);
// True with a probability of permille / 1000.
bool sim_random_chance(sim_random *r, u32 permille);

// How an engine orders its work. Both are legal under io.h; the real engines show one each.
typedef enum sim_style {
    SIM_STYLE_COMPLETION, // like uring: results are fixed first, callbacks run later, sends stay pending
    SIM_STYLE_READINESS,  // like epoll: one result, one callback; sends succeed at once when they can
    SIM_STYLE_MIXED,      // chosen anew for each turn
    SIM_STYLES
} sim_style;

// Probabilities in thousandths for each opportunity, and the sizes of what they cause. All zero: a
// perfect network.
typedef struct sim_faults {
    u16 short_recv;       // a receive takes a random part of what has arrived
    u16 short_send;       // a send takes a random part of what there is room for
    u16 send_pending;     // readiness style: a send is not done at once although it could be
    u16 send_silent;      // completion style: a send that goes out whole wakes nobody; its end is told when
                          // io_run returns for another cause (as uring's sends within the submission do)
    u16 delay;            // a completion comes later than it could, up to delay_ns_max
    u16 late_recv;        // after io_recv_stop one more round of data is delivered
    u16 starve;           // a receive ends without a buffer although there is one
    u16 multishot_end;    // a multishot receive ends after data and has to be armed again
    u16 reset;            // the network resets the connection instead of moving its bytes
    u16 reset_drops;      // a reset discards what had arrived before it and was not read
    u16 accept_error;     // EMFILE, ENFILE, ENOBUFS, ENOMEM or ECONNABORTED instead of a connection
    u16 spurious_wake;    // io_run returns with nothing done
    u16 close_delay;      // on_closed comes later than it could, up to delay_ns_max
    u16 connect_error;    // a connect fails although somebody listens
    u16 attach_error;     // io_attach fails with ENOMEM
    u16 time_jump;        // sim_step moves the clock up to jump_ns_max beyond the next event
    u64 delay_ns_max;
    u64 jump_ns_max;
} sim_faults;

typedef struct sim_config {
    u64 seed;
    u64 start_ns;           // first time of the clock; 0 = one hour
    u32 pipe_bytes_min;     // room in one direction of a connection, sender's and receiver's buffer
    u32 pipe_bytes_max;     // together; chosen for each connection. 0 = 64 KiB
    u64 latency_ns_max;     // each write arrives after a random time up to this, in order
    u32 fds_max;            // descriptors of the world; beyond it accept gives EMFILE. 0 = SIM_FDS_MAX
    sim_style style;
    sim_faults faults;
    FILE *trace;            // every event as a line; NULL = none
} sim_config;

// What the simulator did: a fault that a test relies on must be seen to happen.
typedef struct sim_counts {
    u64 steps, events;      // clock moves; completions delivered by all engines
    u64 short_recvs, short_sends, send_waits, silent_sends, delays, late_recvs, starved, multishot_ends;
    u64 resets, accept_errors, spurious_wakes, close_delays, attach_errors, time_jumps;
    u64 bytes_to_engines, bytes_to_peers;
    u64 poisoned;           // receive buffers overwritten when they went back
} sim_counts;

typedef struct sim sim;
typedef struct sim_peer sim_peer;

// Makes the world and makes it current. Exits when out of memory (tests only).
sim *sim_create(const sim_config *config);
// Engines must be destroyed before. Peers that are still there are freed.
void sim_destroy(sim *s);

// The generator of the world; use another one for choices that must not disturb it.
sim_random *sim_rng(sim *s);
void sim_faults_set(sim *s, const sim_faults *faults);
sim_counts sim_counts_get(const sim *s);
// Digest over every event so far: equal for equal seeds and equal programs.
u64 sim_digest(const sim *s);
// Adds a line of the test to the trace and to the digest.
void sim_note(sim *s, const char *format, ...) PRINTF_LIKE(2, 3);

// --- time ---
u64 sim_now_ns(const sim *s);
void sim_advance(sim *s, u64 ns);
// Whether some engine could complete something, or was rung, without the clock moving.
bool sim_has_work(const sim *s);
// Earliest time in the future at which bytes arrive, a delayed completion is due, or a deadline given to
// io_run strikes; UINT64_MAX when none. A deadline that has struck counts as now.
u64 sim_next_ns(const sim *s);
// Moves the clock to sim_next_ns, but at most by ns_max; with time_jump maybe beyond (never beyond
// ns_max). Returns nanoseconds moved.
u64 sim_step(sim *s, u64 ns_max);

// --- sockets for the program under test ---
// A listening socket; attach it to an engine, or take its connections with sim_accept. NULL address: the
// world chooses one. Returns the descriptor, -EMFILE or -EADDRINUSE.
int sim_listen(sim *s, const struct sockaddr *addr, socklen_t addr_len, u32 backlog);
// A stream socket that is not connected yet, for io_connect. Returns the descriptor or -EMFILE.
int sim_stream(sim *s);
// What close(2) is to a real descriptor: for one that no engine holds. Returns 0 or -EBADF.
int sim_fd_close(sim *s, int fd);
// Open descriptors of the program under test, listeners included (peers' ends excluded).
u32 sim_fds_open(const sim *s);
// Changes how many there may be (config.fds_max); those open stay.
void sim_fds_limit(sim *s, u32 max);
// For the wrappers of system calls in a test program: the current world, NULL when none.
sim *sim_world(void);

// --- the other end ---
// Connects to a listening descriptor. NULL when its backlog is full or it is not listening. addr: where
// the peer comes from; NULL = the world chooses.
sim_peer *sim_connect(sim *s, int listen_fd, const struct sockaddr_storage *addr);
// Takes a connection that io_connect made to a listener without engine. NULL when none waits.
sim_peer *sim_accept(sim *s, int listen_fd);
// Bytes taken (may be fewer), -EAGAIN when full, -EPIPE, -ECONNRESET.
ssize_t sim_peer_write(sim_peer *p, const void *data, size_t len);
// Bytes, 0 at the end of the stream, -EAGAIN, -ECONNRESET (once, then 0).
ssize_t sim_peer_read(sim_peer *p, void *out, size_t len);
// No more bytes from the peer: end of stream at the engine.
void sim_peer_shutdown(sim_peer *p);
// Sends RST and frees.
void sim_peer_reset(sim_peer *p);
// Closes and frees; as in Linux, bytes not read turn the FIN into an RST.
void sim_peer_close(sim_peer *p);
// Whether the program under test has accepted and not closed it.
bool sim_peer_is_accepted(const sim_peer *p);
bool sim_peer_is_gone(const sim_peer *p);
// Local address of the peer as the engine sees it.
const struct sockaddr_storage *sim_peer_address(const sim_peer *p);
u32 sim_peer_fd(const sim_peer *p); // its number in traces

#endif
