// SPDX-License-Identifier: Apache-2.0
// test_stream_index.c: finding by offset and time against a plain list of all messages, the bound on memory, and
// what retention leaves, with clocks that jump.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "store/stream_clock.h"
#include "store/stream_index.h"

#define MESSAGES 300000u
#define T0 1767225600000ull

typedef struct row {
    u64 pos, time_ms, bytes_before;
} row;

static row rows[MESSAGES + 1]; // by offset; the first is 1
static stream_index x;

// Appends messages of random size and distance until `count` are there.
static void fill(u32 count, u64 seed) {
    u64 pos = 4096, time_ms = T0, bytes = 0;
    stream_index_free(&x);
    for (u32 offset = 1; offset <= count; offset++) {
        u32 len = 64 + random_below(&seed, 400);
        rows[offset] = (row){pos, time_ms, bytes};
        stream_mark m = {.offset = offset, .pos = pos, .time_ms = time_ms, .bytes_before = bytes};
        assert_true(stream_index_append(&x, &m, len));
        bytes += len;
        pos += len + (random_below(&seed, 1000) == 0 ? 1u << 20 : random_below(&seed, 64));
        time_ms += random_below(&seed, 5);
    }
}

static void check_mark(const stream_mark *m) {
    assert_non_null(m);
    assert_int_equal(m->pos, rows[m->offset].pos);
    assert_int_equal(m->time_ms, rows[m->offset].time_ms);
    assert_int_equal(m->bytes_before, rows[m->offset].bytes_before);
}

static void test_finds_offsets(void **state) {
    (void)state;
    u64 seed = 7;
    assert_null(stream_index_find(&(stream_index){0}, 1));
    fill(MESSAGES, 1);
    assert_true(x.count <= LIMIT_STREAM_MARKS && x.size <= LIMIT_STREAM_MARKS);
    assert_true(x.count >= LIMIT_STREAM_MARKS / 4);
    u64 widest = 0;
    for (u32 i = 1; i < x.count; i++) widest = MAX(widest, x.marks[i].offset - x.marks[i - 1].offset);
    assert_true(widest <= 16 * MESSAGES / LIMIT_STREAM_MARKS); // the cost of a lookup: so many messages are read
    for (u32 n = 0; n < 10000; n++) {
        u64 offset = 1 + random_below(&seed, MESSAGES);
        const stream_mark *m = stream_index_find(&x, offset), *next = stream_index_next(&x, offset);
        check_mark(m);
        assert_true(m->offset <= offset);
        if (next != NULL) assert_true(next->offset > offset && m + 1 == next);
    }
    assert_null(stream_index_find(&x, 0));
    assert_null(stream_index_next(&x, MESSAGES));
}

static void test_finds_times(void **state) {
    (void)state;
    u64 seed = 8;
    fill(MESSAGES, 2);
    for (u32 n = 0; n < 1000; n++) {
        u64 time_ms = T0 + random_below(&seed, (u32)(rows[MESSAGES].time_ms - T0));
        const stream_mark *m = stream_index_find_time(&x, time_ms);
        check_mark(m);
        // Everything before the mark is older than what is looked for.
        if (m->offset > 1) assert_true(rows[m->offset - 1].time_ms < time_ms || m->time_ms < time_ms);
    }
    assert_int_equal(stream_index_find_time(&x, 0)->offset, 1);
    assert_int_equal(stream_index_find_time(&x, UINT64_MAX)->offset, x.marks[x.count - 1].offset);
}

static void test_retains_bytes(void **state) {
    (void)state;
    fill(20000, 3);
    u64 total = x.last_bytes_end, first = 0;
    assert_int_equal(stream_index_retain(&x, 0, 0, 0), 0);
    assert_int_equal(stream_index_retain(&x, total, 0, 0), 0);
    for (u64 keep = total; keep > 0; keep -= MIN(keep, 50000u)) {
        u64 offset = stream_index_retain(&x, keep, 0, 0);
        assert_true(offset >= first);
        first = offset;
        if (offset == 0) continue;
        const stream_mark *m = stream_index_find(&x, offset);
        assert_int_equal(m->offset, offset);
        bool last = stream_index_next(&x, offset) == NULL;
        assert_true(last || total - m->bytes_before <= keep);
    }
    stream_index_trim(&x, first);
    assert_int_equal(x.marks[0].offset, first);
    assert_int_equal(stream_index_find(&x, 20000)->offset, x.marks[x.count - 1].offset);
}

static void test_retains_age(void **state) {
    (void)state;
    fill(20000, 4);
    u64 last_ms = rows[20000].time_ms, age = 1000;
    assert_int_equal(stream_index_retain(&x, 0, age, 0), 0); // no clock to judge by
    u64 offset = stream_index_retain(&x, 0, age, last_ms);
    assert_true(offset > 1);
    assert_true(rows[offset].time_ms <= last_ms - age);
    const stream_mark *next = stream_index_next(&x, offset);
    if (next != NULL) assert_true(next->time_ms > last_ms - age);
    // All of them too old: nothing stays, though no mark lies behind the last message.
    assert_int_equal(stream_index_retain(&x, 0, age, last_ms + age), 20001);
    stream_index_trim(&x, 20001);
    assert_int_equal(x.count, 0);
    assert_int_equal(stream_index_retain(&x, 1, 1, last_ms * 2), 0);
}

static void append(u64 offset, u64 time_ms) {
    stream_mark m = {.offset = offset, .pos = offset * 100, .time_ms = time_ms, .bytes_before = (offset - 1) * 100};
    assert_true(stream_index_append(&x, &m, 100));
}

static void test_wrong_clocks(void **state) {
    (void)state;
    const u64 minute = 60000, day = 86400000;
    // Ten years ahead for a while, then right again: what was written meanwhile is not younger than what follows.
    stream_index_free(&x);
    for (u64 i = 1; i <= 10; i++) append(i, T0 + i * minute);
    for (u64 i = 11; i <= 20; i++) append(i, T0 + 3650 * day + i * minute);
    for (u64 i = 21; i <= 30; i++) append(i, T0 + i * minute);
    assert_int_equal(stream_index_retain(&x, 0, 5 * minute, T0 + 30 * minute), 25);
    // Ten years behind in the middle: young ones in front are not taken with it.
    stream_index_free(&x);
    for (u64 i = 1; i <= 10; i++) append(i, T0 + i * minute);
    for (u64 i = 11; i <= 20; i++) append(i, T0 - 3650 * day + i * minute);
    for (u64 i = 21; i <= 30; i++) append(i, T0 + i * minute);
    assert_int_equal(stream_index_retain(&x, 0, 60 * minute, T0 + 30 * minute), 0);
    // Reading from a time finds all that follows it.
    assert_int_equal(stream_index_find_time(&x, T0 + 5 * minute)->offset, 4);
    stream_index_free(&x);
}

// A clock that goes from 1970 to today, or years ahead, and back: what is judged and when.
static void test_the_clock_is_set(void **state) {
    (void)state;
    const u64 minute = 60000, hour = 60 * minute, day = 24 * hour, year = 365 * day;
    stream_clock c = {0};
    u64 mono = 5000, wall = T0;
    i64 step;
    assert_int_equal(stream_clock_look(&c, mono, wall, 0, &step), CLOCK_STEADY);
    // Small steps, as a slewed clock and a busy machine make them.
    assert_int_equal(stream_clock_look(&c, mono += 1000, wall += 1400, 0, &step), CLOCK_STEADY);
    assert_int_equal(step, 0);
    // A machine that was paused: no age is judged for an hour, and then as it stands.
    assert_int_equal(stream_clock_look(&c, mono += 1000, wall += 3 * day, 0, &step), CLOCK_RESTS);
    assert_int_equal(step, 3 * day - 1000);
    assert_int_equal(stream_clock_look(&c, mono += hour - 1, wall += hour - 1, 0, &step), CLOCK_RESTS);
    assert_int_equal(step, 0);
    assert_int_equal(stream_clock_look(&c, mono += 1, wall += 1, 0, &step), CLOCK_STEADY);
    assert_int_equal(stream_clock_look(&c, mono += 1000, wall += 56 * year, 0, &step), CLOCK_FORWARD);
    assert_int_equal(stream_clock_look(&c, mono += 1000, wall += 1000, 0, &step), CLOCK_RESTS);
    assert_int_equal(stream_clock_look(&c, mono += 1000, wall -= 56 * year, 0, &step), CLOCK_BACK);
    assert_int_equal(stream_clock_look(&c, mono += hour, wall += hour, 0, &step), CLOCK_STEADY);
    // Starts: the last time in the log is days, or years away.
    c = (stream_clock){0};
    assert_int_equal(stream_clock_look(&c, 5, T0 + 20 * day, T0, &step), CLOCK_STEADY);
    c = (stream_clock){0};
    assert_int_equal(stream_clock_look(&c, 5, T0 + 40 * day, T0, &step), CLOCK_FORWARD);
    assert_int_equal(stream_clock_look(&c, 5 + hour, T0 + 40 * day + hour, T0, &step), CLOCK_STEADY);
    c = (stream_clock){0};
    assert_int_equal(stream_clock_look(&c, 5, T0 - year, T0, &step), CLOCK_BACK);
}

static void test_ages_are_counted_anew(void **state) {
    (void)state;
    const u64 minute = 60000, day = 86400000, age = 7 * day, now = T0 + 20000 * day;
    stream_index_free(&x);
    for (u64 i = 1; i <= 20; i++) append(i, T0 + i * minute); // by a clock of long ago
    assert_int_equal(stream_index_retain(&x, 0, age, now), 21); // all of them, if it were believed
    stream_index_ages_anew(&x, now, true);
    assert_int_equal(stream_index_retain(&x, 0, age, now + minute), 0);
    for (u64 i = 21; i <= 30; i++) append(i, now + day + i);
    assert_int_equal(stream_index_retain(&x, 0, age, now + age - 1), 0);
    assert_int_equal(stream_index_retain(&x, 0, age, now + age), 20); // exact to the distance of two marks
    // It stood ahead and has come back: what seems to come yet is of now.
    stream_index_ages_anew(&x, now - 10000 * day, false);
    assert_int_equal(stream_index_retain(&x, 0, age, now - 10000 * day + minute), 0);
    assert_int_equal(stream_index_retain(&x, 0, age, now - 10000 * day + age), 31);
    stream_index_free(&x);
    stream_index_ages_anew(&x, now, true); // nothing is there
    assert_int_equal(x.last_time_ms, 0);
}

static void test_grows_fine_again(void **state) {
    (void)state;
    fill(MESSAGES, 5);
    u32 coarse = x.sparse;
    assert_true(coarse > 0);
    for (u64 offset = 10000; offset < MESSAGES; offset += 10000) {
        const stream_mark *m = stream_index_find(&x, offset);
        stream_index_trim(&x, m->offset);
    }
    assert_true(x.sparse < coarse);
}

static void test_restores(void **state) {
    (void)state;
    fill(5000, 6);
    stream_index copy = {0};
    stream_mark *marks = stream_index_restore(&copy, x.count);
    assert_non_null(marks);
    memcpy(marks, x.marks, x.count * sizeof(*marks));
    copy.sparse = x.sparse;
    copy.last_offset = x.last_offset;
    copy.last_pos = x.last_pos;
    copy.last_time_ms = x.last_time_ms;
    copy.last_bytes_end = x.last_bytes_end;
    for (u64 offset = 5001; offset < 200000; offset++) {
        stream_mark m = {.offset = offset, .pos = x.last_pos + 200, .time_ms = x.last_time_ms,
                         .bytes_before = x.last_bytes_end};
        assert_true(stream_index_append(&x, &m, 150));
        assert_true(stream_index_append(&copy, &m, 150));
    }
    assert_int_equal(copy.count, x.count);
    assert_memory_equal(copy.marks, x.marks, x.count * sizeof(*x.marks));
    stream_index_free(&copy);
    stream_index_free(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_offsets), cmocka_unit_test(test_finds_times),
        cmocka_unit_test(test_retains_bytes), cmocka_unit_test(test_retains_age),
        cmocka_unit_test(test_wrong_clocks),  cmocka_unit_test(test_the_clock_is_set),
        cmocka_unit_test(test_ages_are_counted_anew), cmocka_unit_test(test_grows_fine_again),
        cmocka_unit_test(test_restores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
