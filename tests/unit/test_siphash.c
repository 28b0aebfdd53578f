// SPDX-License-Identifier: Apache-2.0
// test_siphash.c: SipHash-2-4 against the published vectors (key 00..0f, input 00, 01, ...: the
// paper's appendix A for 15 bytes, the authors' table for the others).
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/siphash.h"

static void test_published_vectors(void **state) {
    (void)state;
    static const u64 expected[] = {
        0x726fdb47dd0e0e31ull, 0x74f839c593dc67fdull, 0x0d6c8009d9a94f5aull, 0x85676696d7fb7e2dull,
        0xcf2794e0277187b7ull, 0x18765564cd99a68dull, 0xcbc9466e58fee3ceull, 0xab0200f58b01d137ull,
        0x93f5f5799a932462ull,
    };
    u8 key[16], data[64 + 1];
    for (u32 i = 0; i < sizeof(key); i++) key[i] = (u8)i;
    for (u32 i = 0; i < ARRAY_LEN(expected); i++) {
        for (u32 n = 0; n < i; n++) data[n] = (u8)n;
        assert_true(siphash24(key, data, i) == expected[i]);
        memmove(data + 1, data, i); // and at an odd address
        assert_true(siphash24(key, data + 1, i) == expected[i]);
    }
    for (u32 n = 0; n < 15; n++) data[n] = (u8)n;
    assert_true(siphash24(key, data, 15) == 0xa129ca6149be45e5ull);
}

static void test_process_key(void **state) {
    (void)state;
    static const u8 zero[16];
    const u8 *key = siphash_process_key();
    u8 copy[16];
    memcpy(copy, key, 16);
    assert_memory_not_equal(key, zero, 16);
    assert_ptr_equal(siphash_process_key(), key);
    assert_memory_equal(key, copy, 16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_vectors),
        cmocka_unit_test(test_process_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
