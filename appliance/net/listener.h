// SPDX-License-Identifier: Apache-2.0
// listener.h: a listening socket. Main opens one socket per worker and configured listener
// (SO_REUSEPORT; a unix socket is duplicated), so that every worker accepts for itself; options that
// accepted sockets need are set on the listening socket and inherited, which saves a system call or more
// for each connection.
#ifndef SLUICE_NET_LISTENER_H
#define SLUICE_NET_LISTENER_H

#include "auth/result.h"
#include "base/base.h"
#include "base/timer.h"
#include "conf/config.h"
#include "io/io.h"
#include "net/conn.h"

// What all workers share of one configured listener. Atomics.
typedef struct listener_shared {
    char name[LIMIT_NAME_BYTES];
    char configured[128];        // bind as configured; name and this identify it at a reload
    bind_address bound;          // real address: port 0 resolved. Written before the workers see it
    u32 conns;                   // open connections, all workers
    struct shared_rate *rate;    // message_rate_all, byte_rate_all
    struct shared_rate *accepts; // accept_rate
    struct tls_context *tls;     // what is in force, see tls_context_at; NULL: without TLS
    struct listener_shared *next_all; // main's: every one ever opened, freed at the end
} listener_shared;

struct listener {
    io_handle io;                // first: callbacks get it
    worker *owner;
    listener_config conf;        // replaced by a reload; connections read it through conn.origin
    const proto *proto;
    struct tls_context *tls;     // NULL: without TLS; a reference
    listener_shared *shared;
    u32 conns;                   // on this worker; a removed listener is freed at 0
    bool started;                // accepting, or paused
    bool removed;
    bool closed;                 // handle is gone
    bool paused;                 // not accepting: back-off, throttle
    timer_node timer;            // ends a pause
    u64 rate_logged_ns[RATE_SCOPES]; // at most one log line in LIMIT_RATE_LOG_S about messages that wait
    u64 refused_logged_ns;       // at most one log line a second about refusals
    u64 refused_unlogged;
    listener *graveyard_next;
};

// --- main thread ---

// NULL: out of memory. Freed when no worker has it any more.
listener_shared *listener_shared_create(u32 workers);
void listener_shared_free(listener_shared *shared);

// Opens the sockets of one listener for `count` workers into fds, sets their options, attaches the
// steering program. On failure returns -errno and puts a message naming listener, address and cause
// into why. Nothing stays open then.
int listener_sockets_open(const listener_config *conf, u32 count, const int *worker_cpus, int *fds,
                          bool nonblock, bind_address *bound, char *why, size_t why_bytes);

// --- owner worker ---

// Adds a listener to the worker; listener_accept_all starts accepting. fd is the listener's from now on.
// Returns 0 or -errno (-ENOSPC: table full; -ENOMEM).
int listener_add(worker *w, const listener_config *conf, listener_shared *shared, int fd);
// Starts accepting on listeners that were added since. Not before every worker has them: a connection
// accepted here may belong to another worker and has to find its listener there.
void listener_accept_all(worker *w);
// Replaces the settings (reload). A changed mode holds for new connections only.
void listener_configure(listener *l, const listener_config *conf);
// What new connections are spoken to with; NULL: without TLS. Takes a reference of its own.
void listener_set_tls(listener *l, struct tls_context *context);
// Stops accepting and closes the socket; the struct stays until its connections are gone.
void listener_remove(listener *l);
// A connection of it left this worker; ended: not by moving to another one.
void listener_conn_gone(listener *l, bool ended);
// An accepted connection is not, or no longer, counted against the limits of the listener and the process.
void listener_uncount(worker *w, listener_shared *shared);
// The worker's instance of a shared listener, also a removed one that still has connections; else NULL.
listener *listener_find(worker *w, const listener_shared *shared);
// Stops accepting on all listeners of the worker (drain); for good.
void listener_stop_all(worker *w);
// Frees removed listeners without connections. Called once per loop when there are any.
void listener_sweep(worker *w);
// Counts a refused connection and logs at most one line a second.
void listener_refused(listener *l, close_reason reason);
static inline const listener_config *listener_settings(const listener *l) {
    return &l->conf;
}

// --- addresses (net/address_limit.c) ---

// Counts connections per peer address, process-wide; any worker. Returns 0 (counted), ADDRESS_REFUSED
// when the address already has max, or ADDRESS_NOT_COUNTED when the table has no room for it: then the
// connection is let in without a count, and address_limit_overflows tells how often.
enum { ADDRESS_REFUSED = 1, ADDRESS_NOT_COUNTED = 2 };
int address_limit_take(const u8 addr[16], u32 max);
// Gives back a place that was counted.
void address_limit_give(const u8 addr[16]);
u64 address_limit_overflows(void);

#endif
