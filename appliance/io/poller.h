// SPDX-License-Identifier: Apache-2.0
// poller.h: what the readiness engines need from select, poll and epoll: a set of descriptors with
// interest in reading or writing, and a wait. io/readiness.c is the one loop above them.
#ifndef SLUICE_IO_POLLER_H
#define SLUICE_IO_POLLER_H

#include "io/engine.h"

enum {
    POLLER_IN = 1u << 0,
    POLLER_OUT = 1u << 1,
    POLLER_HANGUP = 1u << 2, // peer finished, reset or error: a read will tell
};

#define POLLER_EVENTS_MAX 512u
#define POLLER_SLOT_WAKE UINT32_MAX // the doorbell's own slot

typedef struct poller_event {
    u32 slot;
    u32 generation;
    u32 ready; // POLLER_* bits
} poller_event;

typedef struct poller poller;
typedef struct poller_ops {
    bool edge_triggered; // an event is told once: what is not used up must be remembered
    // Starts watching a descriptor for `interest`; slot and generation come back in events.
    // Returns 0, -ENOMEM, -ENOSPC (cannot hold this descriptor), or the system call's -errno.
    int (*add)(poller *p, io_handle *h, u32 interest);
    // Changes the interest of a watched descriptor. With 0 nothing is told, a hang-up at most once.
    void (*change)(poller *p, io_handle *h, u32 interest);
    // Stops watching; before the descriptor is closed.
    void (*remove)(poller *p, io_handle *h);
    // Waits up to timeout_ms (-1 = for ever), fills up to POLLER_EVENTS_MAX events.
    // Returns their number or -errno (EINTR gives 0).
    int (*wait)(poller *p, int timeout_ms, poller_event *events);
    void (*destroy)(poller *p);
} poller_ops;

// Every poller's struct begins with this.
struct poller {
    const poller_ops *ops;
    counter *syscalls;
};

poller *poller_epoll_create(bool edge_triggered, int *error);
poller *poller_poll_create(u32 handles_max, int *error);
poller *poller_select_create(u32 handles_max, int *error);

#endif
