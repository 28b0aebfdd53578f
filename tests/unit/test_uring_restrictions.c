// SPDX-License-Identifier: Apache-2.0
// test_uring_restrictions.c: what a ring of the gateway does for whoever has taken over its process: the operations
// that the engine submits, and nothing else. Every operation that the kernel's header knows is tried, and
// registrations.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <unistd.h>

#include "io/uring.h"

static io_engine *engine;
static recorder rec;
static u64 now_ns;

static bool open_engine(void) {
    const char *step = "";
    assert_int_equal(recorder_init(&rec, &now_ns), 0);
    io_config config = {.kind = IO_URING, .handles_max = 16, .rec = &rec, .now_ns = &now_ns};
    int result = io_create(&config, &engine, &step);
    if (result < 0) {
        print_message("no io_uring here: %s: %d\n", step, result);
        recorder_free(&rec);
        return false;
    }
    assert_int_equal(io_enable(engine), 0);
    return true;
}

static struct io_uring *ring_of(void) {
    return &CONTAINER_OF(engine, uring_engine, base)->ring;
}

// What an operation with nothing but its code is answered with.
static int answer(u8 opcode, u8 flags) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring_of());
    assert_non_null(sqe);
    io_uring_prep_rw(opcode, sqe, -1, NULL, 0, 0);
    sqe->flags = flags;
    assert_true(io_uring_submit_and_wait(ring_of(), 1) >= 0);
    struct io_uring_cqe *cqe;
    assert_int_equal(io_uring_peek_cqe(ring_of(), &cqe), 0);
    int result = cqe->res;
    io_uring_cqe_seen(ring_of(), cqe);
    return result;
}

static void test_operations(void **state) {
    (void)state;
    static const u8 ours[] = {
        IORING_OP_ACCEPT, IORING_OP_RECV,         IORING_OP_SEND,     IORING_OP_SENDMSG, IORING_OP_CLOSE,
        IORING_OP_CONNECT, IORING_OP_ASYNC_CANCEL, IORING_OP_POLL_ADD, IORING_OP_TIMEOUT};
    if (!open_engine()) {
        skip(); // this kernel refuses io_uring
        return;
    }
    for (u32 opcode = 0; opcode < IORING_OP_LAST; opcode++) {
        bool allowed = false;
        for (u32 i = 0; i < ARRAY_LEN(ours); i++) allowed = allowed || ours[i] == opcode;
        int result = answer((u8)opcode, 0);
        // One that this kernel does not know yet is EINVAL.
        bool as_wanted = allowed ? result != -EACCES : result == -EACCES || result == -EINVAL;
        if (!as_wanted) fail_msg("operation %u is answered with %d", opcode, result);
        if (opcode == IORING_OP_OPENAT || opcode == IORING_OP_OPENAT2 || opcode == IORING_OP_SOCKET ||
            opcode == IORING_OP_UNLINKAT || opcode == IORING_OP_READ || opcode == IORING_OP_WRITE) {
            assert_int_equal(result, -EACCES);
        }
    }
    assert_int_equal(answer(IORING_OP_RECV, IOSQE_FIXED_FILE), -EACCES); // a flag that is not the engine's
    assert_int_equal(answer(IORING_OP_RECV, IOSQE_ASYNC), -EACCES);
    io_destroy(engine);
    recorder_free(&rec);
}

static void test_registrations(void **state) {
    (void)state;
    if (!open_engine()) {
        skip(); // this kernel refuses io_uring
        return;
    }
    int fd = STDIN_FILENO;
    static char memory[4096];
    struct iovec piece = {memory, sizeof(memory)};
    assert_int_equal(io_uring_register_files(ring_of(), &fd, 1), -EACCES);
    assert_int_equal(io_uring_register_buffers(ring_of(), &piece, 1), -EACCES);
    assert_int_equal(io_uring_register_eventfd(ring_of(), fd), -EACCES);
    assert_int_equal(io_uring_register_personality(ring_of()), -EACCES);
    struct io_uring_restriction more = {.opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_OPENAT};
    assert_true(io_uring_register_restrictions(ring_of(), &more, 1) < 0); // and they can not be widened
    assert_int_equal(answer(IORING_OP_OPENAT, 0), -EACCES);
    io_destroy(engine);
    recorder_free(&rec);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_operations), cmocka_unit_test(test_registrations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
