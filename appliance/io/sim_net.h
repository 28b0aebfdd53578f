// SPDX-License-Identifier: Apache-2.0
// sim_net.h: inside of the simulated world, shared by sim_world.c (clock, chance, descriptors),
// sim_net.c (sockets and the pipes between them), sim_peer.c (the test's ends) and sim.c (the engine).
// Nothing else includes it.
#ifndef SLUICE_IO_SIM_NET_H
#define SLUICE_IO_SIM_NET_H

#include "io/sim.h"

#define SIM_PIPE_CHUNKS 32u        // writes under way in one direction; more are merged
#define SIM_PIPE_BYTES_DEFAULT 65536u
#define SIM_ENGINES_MAX 8u

typedef struct sim_engine sim_engine;
typedef struct sim_socket sim_socket;

// One direction of a connection: bytes in order, each with a time of arrival.
typedef struct sim_pipe {
    u8 *bytes;              // ring of size bytes
    u32 size, head, used;
    u32 readable;           // of used: arrived
    u32 chunk_head, chunk_count;
    struct {
        u64 arrive_ns;
        u32 len;
    } chunks[SIM_PIPE_CHUNKS];
    u64 last_ns;            // nothing arrives before what was sent earlier
    u64 fin_ns, reset_ns;   // when they arrive; UINT64_MAX = not sent
    bool reset_told;        // ECONNRESET was returned once
} sim_pipe;

typedef enum sim_socket_kind {
    SIM_SOCKET_FRESH,    // made, neither connected nor listening
    SIM_SOCKET_LISTENER,
    SIM_SOCKET_CONNECTING,
    SIM_SOCKET_STREAM,
} sim_socket_kind;

struct sim_socket {
    sim *world;
    sim_socket *next, *prev;    // all sockets
    sim_socket_kind kind;
    sim_peer *peer;             // the test's end; NULL: the program's. Freed with the socket
    bool write_shut;            // FIN sent
    int fd;                     // -1: not accepted yet, or a peer's
    u32 number;                 // for traces
    sim_engine *engine;         // holds it; NULL: nobody (being handed over)
    u32 slot;
    sim_socket *other;          // NULL: closed
    sim_pipe in;
    struct sockaddr_storage local, remote;
    socklen_t local_len;
    sim_socket **backlog;       // listener: engine ends that wait for accept
    u32 backlog_count, backlog_max;
    u64 connect_ns;             // connecting: when it is decided
    int connect_result;
};

struct sim {
    sim_config config;
    sim_random rng;
    u64 now_ns;
    u64 digest;
    sim_counts counts;
    sim_socket *sockets;
    u32 socket_numbers;
    sim_socket **fds;           // table of descriptors
    u32 fds_max, fds_used;
    sim_engine *engines[SIM_ENGINES_MAX];
    u32 engine_count;
    bool in_run;                // an engine runs callbacks
    u32 ports;
};

struct sim_peer {
    sim_socket *socket;
};

// --- sim_world.c ---
// One event: goes into the digest, and into the trace when there is one. what: static string.
void sim_event(sim *s, const char *what, u32 number, i64 value);
bool sim_chance(sim *s, u32 permille);
int sim_fd_assign(sim *s, sim_socket *socket); // lowest free, like the kernel; or -EMFILE
void sim_fd_release(sim *s, sim_socket *socket);
sim_socket *sim_fd_find(sim *s, int fd); // NULL when it is not open

// --- sim_net.c ---
sim_socket *sim_socket_create(sim *s, sim_socket_kind kind);
// Two ends with pipes of seeded sizes.
void sim_socket_join(sim_socket *a, sim_socket *b);
// Makes the engine's end of a connection from `from` and queues it; false when the backlog is full.
bool sim_socket_knock(sim_socket *listener, sim_socket *from);
sim_socket *sim_socket_backlog_pop(sim_socket *listener);
// Bytes that can be read now; FIN and RST are seen through sim_socket_read.
u32 sim_socket_readable(sim_socket *s);
// Whether a read would return something else than -EAGAIN, and a write.
bool sim_socket_can_read(sim_socket *s);
bool sim_socket_can_write(sim_socket *s);
// Bytes that a write would take whole and without an error.
u32 sim_socket_room(sim_socket *s);
ssize_t sim_socket_read(sim_socket *s, u8 *out, u32 len);
ssize_t sim_socket_write(sim_socket *s, const u8 *data, u32 len);
void sim_socket_shutdown(sim_socket *s);
// The network breaks the connection: both ends see a reset now.
void sim_socket_break(sim_socket *s);
// Closes and frees. reset, or bytes not read: RST instead of FIN.
void sim_socket_close(sim_socket *s, bool reset);
// Earliest future arrival at this socket, UINT64_MAX when none.
u64 sim_socket_next_ns(const sim_socket *s);
sim_socket *sim_socket_find_listener(sim *s, const struct sockaddr *addr, socklen_t addr_len);
void sim_socket_address(sim *s, struct sockaddr_storage *out, socklen_t *len);

// --- sim.c ---
bool sim_engine_has_work(const sim_engine *e);
u64 sim_engine_next_ns(const sim_engine *e);

#endif
