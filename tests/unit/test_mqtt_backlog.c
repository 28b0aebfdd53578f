// SPDX-License-Identifier: Apache-2.0
// test_mqtt_backlog.c: references to what waits, against a plain list: pushed, popped, spilled, read again.
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "proto/mqtt_backlog.h"
#include "random.h"

#define BLOCKS 64u

static pool *memory;
static backlog list;
static backlog_ref blocks[BLOCKS][BACKLOG_CHUNK]; // what the log would hold
static u32 block_count;

static int setup(void **state) {
    (void)state;
    memory = pool_create(1 << 20);
    list = (backlog){0};
    block_count = 0;
    return memory == NULL ? -1 : 0;
}

static int teardown(void **state) {
    (void)state;
    backlog_free(&list, memory);
    assert_int_equal(pool_used_bytes(memory), 0);
    pool_destroy(memory);
    return 0;
}

static void push(u64 origin) {
    backlog_ref ref = {.origin = origin, .bytes = 100 + (u32)origin % 7, .part = 1};
    assert_true(backlog_push(&list, memory, &ref));
}

static void spill_all(u32 keep) {
    for (backlog_chunk *c; (c = backlog_spillable(&list, keep)) != NULL && block_count < BLOCKS;) {
        memcpy(blocks[block_count], c->refs, sizeof(blocks[0]));
        backlog_spilled(c, memory, 1000000 + block_count++, 33);
    }
}

// The oldest, read from its block if it is there.
static const backlog_ref *oldest(void) {
    backlog_chunk *c;
    const backlog_ref *ref = backlog_at(&list, 0, &c);
    if (ref != NULL || c == NULL) return ref;
    assert_true(backlog_load(&list, c, memory, blocks[c->block - 1000000]));
    return backlog_at(&list, 0, &c);
}

static void test_in_order_through_blocks(void **state) {
    (void)state;
    backlog_ref ref;
    u64 block;
    u32 block_bytes, freed = 0;
    for (u64 i = 1; i <= 1000; i++) {
        push(i);
        spill_all(0);
    }
    assert_int_equal(list.count, 1000);
    assert_true(block_count >= 13); // all but the first and the last chunk
    for (u64 i = 1; i <= 1000; i++) {
        assert_true(backlog_needs(&list, i) && (i == 1 || !backlog_needs(&list, i - 1)));
        assert_int_equal(oldest()->origin, i);
        assert_true(backlog_pop(&list, memory, &ref, &block, &block_bytes));
        assert_int_equal(ref.origin, i);
        freed += block != 0;
    }
    assert_int_equal(freed, block_count);
    assert_int_equal(list.count + list.bytes, 0);
    assert_false(backlog_pop(&list, memory, &ref, &block, &block_bytes));
}

static void test_counts_without_the_block(void **state) {
    (void)state;
    backlog_ref ref;
    u64 block, bytes = 0;
    u32 block_bytes;
    for (u64 i = 1; i <= 3 * BACKLOG_CHUNK; i++) push(i);
    spill_all(0);
    for (u32 i = 0; i < BACKLOG_CHUNK; i++) assert_true(backlog_pop(&list, memory, &ref, &block, &block_bytes));
    // The next one is in the log; a replay counts only.
    for (u32 i = 0; i < 10; i++) {
        assert_true(backlog_pop(&list, memory, &ref, &block, &block_bytes));
        assert_int_equal(ref.origin, 0);
    }
    assert_int_equal(list.count, 2 * BACKLOG_CHUNK - 10);
    assert_int_equal(oldest()->origin, BACKLOG_CHUNK + 11);
    for (u64 i = BACKLOG_CHUNK + 11; i <= 3 * BACKLOG_CHUNK; i++) bytes += 100 + i % 7;
    assert_int_equal(list.bytes, bytes);
}

static void test_undo_and_place(void **state) {
    (void)state;
    backlog_chunk *c;
    push(5);
    push(0);
    backlog_unpush(&list, memory);
    assert_int_equal(list.count, 1);
    push(0);
    backlog_place(&list, 9, 4);
    const backlog_ref *ref = backlog_at(&list, 1, &c);
    assert_true(ref->origin == 9 && ref->part == 4);
    assert_true(backlog_needs(&list, 9) && !backlog_needs(&list, 10));
    backlog_unpush(&list, memory);
    backlog_unpush(&list, memory);
    assert_int_equal(list.used + list.count, 0);
    push(0);
    backlog_place(&list, 20, 1);
    assert_true(backlog_needs(&list, 20) && !backlog_needs(&list, 19));
}

static void test_a_lost_block(void **state) {
    (void)state;
    backlog_chunk *c;
    for (u64 i = 1; i <= 3 * BACKLOG_CHUNK; i++) push(i);
    spill_all(0);
    (void)backlog_at(&list, BACKLOG_CHUNK, &c);
    assert_true(c->block != 0 && backlog_has_block(&list, c->block));
    assert_int_equal(backlog_lose(&list, c, memory), BACKLOG_CHUNK);
    assert_int_equal(list.count, 2 * BACKLOG_CHUNK);
    assert_int_equal(backlog_at(&list, BACKLOG_CHUNK, &c)->origin, 2 * BACKLOG_CHUNK + 1);
}

static void test_random(void **state) {
    (void)state;
    u64 seed = 7, first = 1, next = 1;
    for (u32 step = 0; step < 20000; step++) {
        if (random_below(&seed, 100) < 52 && next - first < 2000) push(next++);
        else if (first < next) {
            backlog_ref ref;
            u64 block;
            u32 block_bytes;
            assert_int_equal(oldest()->origin, first);
            assert_true(backlog_pop(&list, memory, &ref, &block, &block_bytes));
            assert_int_equal(ref.origin, first++);
        }
        if (block_count < BLOCKS) spill_all((u32)random_below(&seed, 100));
        assert_int_equal(list.count, next - first);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_in_order_through_blocks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_counts_without_the_block, setup, teardown),
        cmocka_unit_test_setup_teardown(test_undo_and_place, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_lost_block, setup, teardown),
        cmocka_unit_test_setup_teardown(test_random, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
