// SPDX-License-Identifier: Apache-2.0
// test_store_record.c: the log's bytes: coding, and telling a record from padding, damage and stale bytes.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "store/crc32c.h"
#include "store/moved.h"
#include "store/record.h"

static void test_crc(void **state) {
    (void)state;
    // RFC 3720 appendix B.4: 32 bytes of zeros, of ones; and the usual check value.
    u8 bytes[32] = {0}, other[3000];
    assert_int_equal(crc32c(0, bytes, 32), 0x8a9136aau);
    memset(bytes, 0xff, 32);
    assert_int_equal(crc32c(0, bytes, 32), 0x62a8ab43u);
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283u);
    for (u32 i = 0; i < sizeof(other); i++) other[i] = (u8)(i * 131 + (i >> 3));
    for (u32 at = 0; at < 17; at++) {
        for (u32 len = 0; len < 80; len++)
            assert_int_equal(crc32c(7, other + at, len), crc32c_table(7, other + at, len));
    }
    assert_int_equal(crc32c(crc32c(0, other, 1000), other + 1000, 2000), crc32c(0, other, 3000));
}

static u32 make(u8 *at, store_pos pos, u32 payload, u32 flags) {
    for (u32 i = 0; i < payload; i++) at[sizeof(record_head) + i] = (u8)(i + payload);
    return record_seal(at, pos, 1234567, STORE_MESSAGE, flags, META_NONE, payload);
}

static void test_round_trip(void **state) {
    (void)state;
    static u8 bytes[9000];
    for (u32 payload = 0; payload < 8000; payload += payload < 40 ? 1 : 777) {
        record_view v;
        u32 need, size = make(bytes, 4096 + 1024, payload, RECORD_KEEP);
        assert_int_equal(size % RECORD_ALIGN, 0);
        assert_int_equal(record_scan(bytes, size, 4096 + 1024, &v, &need), SCAN_RECORD);
        assert_int_equal(v.size, size);
        assert_int_equal(v.record.len, payload);
        assert_int_equal(v.record.kind, STORE_MESSAGE);
        assert_int_equal(v.record.flags, STORE_KEEP);
        assert_int_equal(v.record.time_ms, 1234567);
        assert_int_equal(v.record.origin, v.record.pos);
        // Somewhere else it is nothing: stale bytes of a reused file never count.
        assert_int_equal(record_scan(bytes, size, 4096 + 1032, &v, &need), SCAN_INVALID);
        for (u32 have = 0; have < size; have += 1 + have / 8) {
            if (have >= sizeof(record_head) + payload) break;
            assert_int_equal(record_scan(bytes, have, 4096 + 1024, &v, &need), SCAN_MORE);
            assert_true(need > have && need <= size);
        }
    }
}

static void test_every_flipped_bit_is_seen(void **state) {
    (void)state;
    u8 bytes[256];
    u32 size = make(bytes, 8192, 100, 0), need;
    for (u32 bit = 0; bit < (sizeof(record_head) + 100) * 8; bit++) {
        record_view v;
        bytes[bit / 8] ^= (u8)(1u << (bit % 8));
        record_scan_result r = record_scan(bytes, size, 8192, &v, &need);
        assert_true(r == SCAN_INVALID || r == SCAN_DAMAGED);
        if (r == SCAN_DAMAGED) assert_int_equal(need, size); // its length can be trusted
        bytes[bit / 8] ^= (u8)(1u << (bit % 8));
    }
}

static void test_copies_and_padding(void **state) {
    (void)state;
    u8 bytes[600] = {0};
    record_moved moved = {.origin = 77, .from = 99};
    record_view v;
    u32 need;
    memcpy(bytes + sizeof(record_head), &moved, sizeof(moved));
    memcpy(bytes + sizeof(record_head) + sizeof(moved), "hello", 5);
    u32 size = record_seal(bytes, 4096, 5, STORE_RETAINED, RECORD_MOVED, META_NONE, sizeof(moved) + 5);
    assert_int_equal(record_scan(bytes, sizeof(bytes), 4096, &v, &need), SCAN_RECORD);
    assert_int_equal(v.record.origin, 77);
    assert_int_equal(v.from, 99);
    assert_int_equal(v.record.len, 5);
    assert_memory_equal(v.record.data, "hello", 5);
    assert_int_equal(record_scan(bytes + size, 512 - size, 4096 + size, &v, &need), SCAN_PADDING);
    assert_int_equal(need, 512 - size);
    // At a sector's beginning zeros are no padding: a batch would be there.
    assert_int_equal(record_scan(bytes + 512, 64, 4096 + 512, &v, &need), SCAN_INVALID);
}

static void test_resync(void **state) {
    (void)state;
    static u8 bytes[4096];
    memset(bytes, 0xaa, sizeof(bytes));
    u32 size = make(bytes + 1000, 8192 + 1000, 50, 0);
    assert_int_equal(record_resync(bytes, sizeof(bytes), 8192), 1000);
    assert_int_equal(record_resync(bytes + 8, sizeof(bytes) - 8, 8200), 992);
    assert_int_equal(record_resync(bytes + 1000 + size, sizeof(bytes) - 1000 - size, 8192 + 1000 + size),
                     sizeof(bytes) - 1000 - size);
}

static void test_segment_head(void **state) {
    (void)state;
    static u8 bytes[8192];
    segment_head h = {.state = SEGMENT_LIVE, .bytes = 1 << 20, .base = 5 << 20}, out;
    segment_head_seal(&h);
    memcpy(bytes, &h, sizeof(h));
    assert_int_equal(segment_head_check(bytes, sizeof(bytes), &out), HEAD_LIVE);
    assert_int_equal(out.base, 5 << 20);
    for (u32 bit = 0; bit < SECTOR_BYTES * 8; bit++) {
        bytes[bit / 8] ^= (u8)(1u << (bit % 8));
        assert_int_equal(segment_head_check(bytes, sizeof(bytes), &out), HEAD_DAMAGED);
        bytes[bit / 8] ^= (u8)(1u << (bit % 8));
    }
    assert_int_equal(segment_head_check(bytes, 100, &out), HEAD_DAMAGED);
    memset(bytes, 0, SECTOR_BYTES);
    assert_int_equal(segment_head_check(bytes, sizeof(bytes), &out), HEAD_EMPTY);
    // Without a head the records tell the base.
    make(bytes + 5000, ((u64)5 << 20) + 5000, 64, 0);
    assert_int_equal(segment_base_guess(bytes, sizeof(bytes), 0), 5 << 20);
    assert_int_equal(segment_base_guess(bytes, 5000, 0), 0);
}

static void test_moved_table(void **state) {
    (void)state;
    moved_table t = {0};
    // A run of copies needs one entry each 64 KiB, a new segment another.
    for (u64 i = 0; i < 1000; i++) assert_true(moved_add(&t, 1000 + i * 100, 5000000 + i * 200, i == 0, false));
    assert_int_equal(t.count, 4);
    assert_int_equal(moved_find(&t, 1000 + 500 * 100)->to, moved_find(&t, 1000 + 400 * 100)->to);
    assert_true(moved_add(&t, 200000, 9000000, true, false));
    assert_int_equal(moved_find(&t, 250000)->to, 9000000);
    assert_null(moved_find(&t, 999));
    assert_int_equal(moved_from(&t, 150000)->origin, 200000);
    // Moved again: what points into the freed place goes.
    assert_true(moved_add(&t, 1500, 9500000, true, false));
    moved_forget_places(&t, 5000000, 6000000);
    assert_int_equal(t.count, 2);
    assert_int_equal(moved_find(&t, 1600)->to, 9500000);
    moved_free(&t);
}

// What a conversion copies out of several logs: origins of one run lie between those of another, or are the same. From
// the place that the table names on each copy is met within a step, also after a start.
static void test_moved_between_each_other(void **state) {
    (void)state;
    for (u32 seed = 1; seed <= 200; seed++) {
        u64 origins[600], at[600];
        u32 count = 0, random = seed * 2654435761u;
        moved_table t = {0};
        for (u32 log = 0; log < 4; log++) {
            u64 origin = 1000;
            for (u32 i = 0; i < 150; i++, count++) {
                random = random * 1664525u + 1013904223u;
                origin += 1 + (random >> 16) % 40 * ((random >> 8) % 16 == 0 ? 4000 : 1);
                origins[count] = origin;
                at[count] = 1ull << 32 | count * 512;
                assert_true(moved_add(&t, origin, at[count], count % 200 == 0, true));
            }
            if (log != 1) continue; // a checkpoint and a start
            moved_table read = {0};
            for (u32 i = 0; i < t.count; i++) assert_true(moved_restore(&read, t.entries[i]));
            for (u32 i = 0; i < t.count; i++) moved_restore_last(&read, t.lasts[i]);
            moved_free(&t);
            t = read;
        }
        for (u32 i = 0; i < count; i++) {
            const moved_entry *e = moved_find(&t, origins[i]);
            assert_non_null(e);
            u32 from = (u32)(e->to - (1ull << 32)) / 512, met = from;
            while (met < count && origins[met] != origins[i]) met++;
            assert_true(met < count && at[met] - e->to < LIMIT_STORE_INDEX_STEP);
        }
        moved_free(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_every_flipped_bit_is_seen),
        cmocka_unit_test(test_copies_and_padding),
        cmocka_unit_test(test_resync),
        cmocka_unit_test(test_segment_head),
        cmocka_unit_test(test_moved_table),
        cmocka_unit_test(test_moved_between_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
