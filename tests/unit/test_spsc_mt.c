// SPDX-License-Identifier: Apache-2.0
// test_spsc_mt.c: the worker ring between two threads: nothing lost, doubled, reordered or seen
// half written; and the doorbell protocol of the workers (sleeping flag) never loses a wake-up.
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include <cmocka.h>

#include "base/spsc.h"

#define MESSAGES 400000u

typedef struct shared {
    spsc ring;
    u32 sleeping;              // atomic
    pthread_mutex_t lock;      // stands for the eventfd
    pthread_cond_t bell;
    bool rung;
    u64 rings;
} shared;

static void bell_ring(shared *s) {
    pthread_mutex_lock(&s->lock);
    s->rung = true;
    s->rings++;
    pthread_cond_signal(&s->bell);
    pthread_mutex_unlock(&s->lock);
}

// False after 30 s: a lost wake-up.
static bool bell_wait(shared *s) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 30;
    int rc = 0;
    pthread_mutex_lock(&s->lock);
    while (!s->rung && rc == 0) rc = pthread_cond_timedwait(&s->bell, &s->lock, &until);
    bool rung = s->rung;
    s->rung = false;
    pthread_mutex_unlock(&s->lock);
    return rung;
}

static void *produce(void *argument) {
    shared *s = argument;
    for (u64 i = 0; i < MESSAGES;) {
        spsc_message m = {.kind = (u32)i, .arg = ~(u32)i, .ptr = s, .extra = i * 3};
        if (!spsc_push(&s->ring, &m)) {
            sched_yield();
            continue;
        }
        i++;
        // seq_cst against the consumer's store of the flag and its look into the ring
        if (__atomic_exchange_n(&s->sleeping, 0, __ATOMIC_SEQ_CST) != 0) bell_ring(s);
        if (i % 1000 == 0) sched_yield();
    }
    return NULL;
}

static void test_two_threads(void **state) {
    (void)state;
    shared s = {.lock = PTHREAD_MUTEX_INITIALIZER, .bell = PTHREAD_COND_INITIALIZER};
    pthread_t producer;
    assert_int_equal(spsc_init(&s.ring, 256), 0);
    assert_int_equal(pthread_create(&producer, NULL, produce, &s), 0);
    u64 wrong = 0;
    bool lost_wake = false;
    for (u64 i = 0; i < MESSAGES && !lost_wake;) {
        spsc_message m;
        if (spsc_pop(&s.ring, &m)) {
            wrong += m.kind != (u32)i || m.arg != ~(u32)i || m.ptr != &s || m.extra != i * 3;
            i++;
            continue;
        }
        __atomic_store_n(&s.sleeping, 1, __ATOMIC_SEQ_CST);
        if (spsc_is_empty(&s.ring) && !bell_wait(&s)) lost_wake = true;
        __atomic_store_n(&s.sleeping, 0, __ATOMIC_SEQ_CST);
    }
    assert_false(lost_wake);
    pthread_join(producer, NULL);
    assert_int_equal(wrong, 0);
    assert_true(spsc_is_empty(&s.ring));
    assert_int_equal(spsc_count(&s.ring), 0);
    spsc_free(&s.ring);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
