// SPDX-License-Identifier: Apache-2.0
// post.h: the worker loop's side of the messages between workers; others post with worker_post.
#ifndef SLUICE_POST_H
#define SLUICE_POST_H

#include "worker.h"

#define POST_MESSAGES_PER_TURN 1024u // from one ring, before connections get a turn

typedef struct worker_post worker_post_queue;
struct worker_post {
    spsc_message *waiting; // LIMIT_RING_OVERFLOW of them, allocated at the first overflow
    u32 first, count;
};

// workers_all: device workers and the operations worker. Returns 0 or -ENOMEM.
int post_init(worker *w, u32 workers_all);
void post_fini(worker *w);
void post_overflow_run(worker *w);
void post_bells(worker *w);
bool post_sleep(worker *w);
void post_awake(worker *w);

#endif
