// SPDX-License-Identifier: Apache-2.0
// test_recorder_mt.c: a reader follows a recorder that is written as fast as the writer can: every
// record that is handed out is whole, in order, and read + lost adds up to written.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/recorder.h"

#define RECORDS 1000000u

static u64 now_ns;
static recorder rec;
static u32 writer_done; // atomic

// All fields follow from the record's number, so that a mixture of two shows.
static void *write_records(void *argument) {
    (void)argument;
    for (u32 i = 1; i <= RECORDS; i++) {
        now_ns = (u64)i * 5; // the writer's own clock
        recorder_add(&rec, (recorder_event)(i % REC_EVENTS), i, ~i, (i32)(i * 7), i ^ 0x5555u);
    }
    __atomic_store_n(&writer_done, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void test_live_reader(void **state) {
    (void)state;
    static recorder_record out[512];
    u64 after = 0, read = 0, lost = 0, torn = 0;
    pthread_t writer;
    assert_int_equal(recorder_init(&rec, &now_ns), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_records, NULL), 0);
    for (bool last = false; !last;) {
        last = __atomic_load_n(&writer_done, __ATOMIC_ACQUIRE) != 0;
        u64 lost_now = 0, next = 0;
        size_t n;
        do {
            n = recorder_read(&rec, after, out, ARRAY_LEN(out), &next, &lost_now);
            u32 previous = (u32)after;
            for (size_t k = 0; k < n; k++) {
                u32 i = out[k].sequence;
                torn += i <= previous || out[k].time_ns != (u64)i * 5 || out[k].slot != i ||
                        out[k].generation != ~i || out[k].event != i % REC_EVENTS ||
                        out[k].result != (i32)(i * 7) || out[k].flags != (i ^ 0x5555u);
                previous = i;
            }
            read += n;
            lost += lost_now;
            after = next;
        } while (n > 0);
    }
    pthread_join(writer, NULL);
    assert_int_equal(torn, 0);
    assert_int_equal(after, RECORDS);
    assert_int_equal(read + lost, RECORDS);
    assert_true(read > 0);
    recorder_free(&rec);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_live_reader)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
