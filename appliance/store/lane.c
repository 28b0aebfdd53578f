// SPDX-License-Identifier: Apache-2.0
// lane.c: the helper thread: sleeps on a semaphore, runs operations in order, puts them into the way back and
// wakes the owner. The semaphore counts what was submitted, so that no wake-up is lost and none is needed
// twice.
#include "store/lane.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/crash.h"
#include "base/spsc.h"

#define SLICE_NS 100000u // the least that a kernel takes

// sched_setattr(2), its first version; not every C library declares it.
typedef struct schedule_attributes {
    u32 size, policy;
    u64 flags;
    i32 nice;
    u32 priority;
    u64 runtime, deadline, period;
} schedule_attributes;

struct lane {
    disk *disk;
    u32 ops_max, outstanding;
    bool thread;
    u32 stopping; // atomic
    void (*begin)(void);
    void (*wake)(void *context);
    void *context;
    char name[16];
    spsc submitted, ended;
    sem_t work;
    pthread_t id;
};

static void run_one(lane *l, lane_op *op) {
    op->started_ns = clock_mono_ns();
    bool stop = __atomic_load_n(&l->stopping, __ATOMIC_ACQUIRE) != 0;
    op->result = stop ? -ECANCELED : op->run(op, l->disk);
    op->ended_ns = clock_mono_ns();
    spsc_message back = {.ptr = op};
    bool pushed = spsc_push(&l->ended, &back);
    ASSERT(pushed); // the ring holds ops_max
}

static void *lane_thread(void *argument) {
    lane *l = argument;
    prctl(PR_SET_NAME, l->name);
    if (l->begin != NULL) l->begin();
    crash_thread_setup();
    for (;;) {
        while (sem_wait(&l->work) < 0) {
        }
        spsc_message message;
        if (!spsc_pop(&l->submitted, &message)) break; // posted by lane_destroy
        run_one(l, message.ptr);
        l->wake(l->context);
    }
    crash_thread_teardown();
    return NULL;
}

static int attributes_set(schedule_attributes a) {
    a.size = sizeof(a);
    return syscall(SYS_sched_setattr, 0, &a, 0) == 0 ? 0 : -errno;
}

// A lane works for microseconds and sleeps; the thread that waits for it is busy on the same core, and the kernel
// lets that one finish its slice of milliseconds before the lane, whose disk has answered, may go on. An urgent lane
// asks for the least real-time priority, which needs CAP_SYS_NICE or RLIMIT_RTPRIO. The others, and that one where it
// is refused, ask for a short slice, which is an early deadline (since Linux 6.12; older kernels ignore it). Set on the
// thread that starts the lane, which inherits it, because the process's list of system calls may be closed by the time
// the lane runs. Returns whether the starting thread must be set back.
static bool schedule_begin(bool urgent, schedule_attributes *before) {
    *before = (schedule_attributes){0};
    if (syscall(SYS_sched_getattr, 0, before, sizeof(*before), 0) != 0 || before->policy != SCHED_OTHER) return false;
    if (urgent && attributes_set((schedule_attributes){.policy = SCHED_FIFO, .priority = 1}) == 0) return true;
    schedule_attributes brief = *before;
    brief.runtime = SLICE_NS;
    return attributes_set(brief) == 0;
}

static void schedule_end(const schedule_attributes *before) {
    schedule_attributes a = *before;
    a.runtime = 0; // the kernel's own
    (void)attributes_set(a);
}

static int thread_start(lane *l, bool urgent) {
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 128u << 10);
    schedule_attributes before;
    bool changed = schedule_begin(urgent, &before);
    int result = -pthread_create(&l->id, &attr, lane_thread, l);
    if (changed) schedule_end(&before);
    pthread_attr_destroy(&attr);
    return result;
}

int lane_create(const char *name, disk *d, u32 ops_max, u32 flags, void (*begin)(void),
                void (*wake)(void *context), void *context, lane **out) {
    u32 slots = 16;
    while (slots < ops_max) slots *= 2;
    lane *l = aligned_alloc(CACHE_LINE, align_up_u64(sizeof(*l), CACHE_LINE));
    if (l == NULL) return -ENOMEM;
    memset(l, 0, sizeof(*l));
    l->disk = d;
    l->ops_max = ops_max;
    l->thread = (flags & LANE_THREAD) != 0;
    l->begin = begin;
    l->wake = wake;
    l->context = context;
    snprintf(l->name, sizeof(l->name), "%s", name);
    sem_init(&l->work, 0, 0);
    int result = spsc_init(&l->submitted, slots);
    if (result == 0) result = spsc_init(&l->ended, slots);
    if (result == 0 && l->thread) result = thread_start(l, (flags & LANE_URGENT) != 0);
    if (result < 0) {
        l->thread = false;
        lane_destroy(l);
        return result;
    }
    *out = l;
    return 0;
}

void lane_submit(lane *l, lane_op *op) {
    ASSERT(l->outstanding < l->ops_max);
    spsc_message message = {.ptr = op};
    bool pushed = spsc_push(&l->submitted, &message);
    ASSERT(pushed);
    l->outstanding++;
    if (l->thread) sem_post(&l->work);
}

u32 lane_take(lane *l) {
    spsc_message message;
    u32 taken = 0;
    while (spsc_pop(&l->ended, &message)) {
        lane_op *op = message.ptr;
        l->outstanding--;
        taken++;
        op->done(op, op->result);
    }
    return taken;
}

u32 lane_outstanding(const lane *l) {
    return l->outstanding;
}

bool lane_step(lane *l) {
    ASSERT(!l->thread);
    spsc_message message;
    if (!spsc_pop(&l->submitted, &message)) return false;
    run_one(l, message.ptr);
    return true;
}

void lane_destroy(lane *l) {
    if (l == NULL) return;
    __atomic_store_n(&l->stopping, 1, __ATOMIC_RELEASE);
    if (l->thread) {
        sem_post(&l->work);
        pthread_join(l->id, NULL);
    }
    spsc_message message;
    while (l->submitted.slots != NULL && spsc_pop(&l->submitted, &message)) run_one(l, message.ptr);
    if (l->ended.slots != NULL) lane_take(l);
    spsc_free(&l->submitted);
    spsc_free(&l->ended);
    sem_destroy(&l->work);
    free(l);
}
