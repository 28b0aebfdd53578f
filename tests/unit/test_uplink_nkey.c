// SPDX-License-Identifier: Apache-2.0
// test_uplink_nkey.c: base32, nkeys and credentials files; the key is that of RFC 8032 section 7.1, test 1.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "uplink/nkey.h"

#define SEED "SUAJ2YNRTXX72WTAXKCEV5ES5QWMIRCJYVUXWMTJDFYDXLADDSXH6YALCA"
#define ACCOUNT_SEED "SAAJ2YNRTXX72WTAXKCEV5ES5QWMIRCJYVUXWMTJDFYDXLADDSXH6YHY3Q"
#define PUBLIC "UDLVVGABQKYQVN6VJP7NHSLEA45A5YLS6PNKMIZFV4BBU2HXA5IRUVAL"
#define JWT "eyJ0.eyJq-_0.c2ln"
#define BLOCK(what, body) "-----BEGIN " what "-----\n" body "\n------END " what "------\n"

static void test_base32(void **state) {
    (void)state;
    static const char *const rows[][2] = {{"", ""}, {"f", "MY"}, {"fo", "MZXQ"}, {"foo", "MZXW6"}, {"foob", "MZXW6YQ"},
                                          {"fooba", "MZXW6YTB"}, {"foobar", "MZXW6YTBOI"}}; // RFC 4648 section 10
    static const char *const bad[] = {"A", "MZ", "MZX", "mzxq", "MZXQ====", "M1XQ", "MZX Q"};
    u8 out[16];
    char text[32];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t len = strlen(rows[i][0]);
        base32_encode((const u8 *)rows[i][0], len, text);
        assert_string_equal(text, rows[i][1]);
        assert_int_equal(base32_decode(text, strlen(text), out, sizeof(out)), (int)len);
        assert_memory_equal(out, rows[i][0], len);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (base32_decode(bad[i], strlen(bad[i]), out, sizeof(out)) >= 0) fail_msg("%s was taken", bad[i]);
    }
    assert_int_equal(base32_decode("MZXW6", 5, out, 2), -1);
}

static void test_seed_and_signature(void **state) {
    (void)state;
    nkey key;
    char signature[NKEY_SIGNATURE_CHARS + 1];
    assert_null(nkey_from_seed(SEED, strlen(SEED), &key));
    assert_string_equal(key.public_key, PUBLIC);
    nkey_sign(&key, "", 0, signature);
    assert_string_equal(signature,
                        "5VZDAMNgrHKQhuLMgG6CioSHfx645dl02HPgZSJJAVVfuIIVkKM7rMYeOXAc-bRr0lv18FlbviRlUUFDjnoQCw");
    nkey_sign(&key, "PXoWU7zWAMt75FY", 15, signature);
    assert_string_equal(signature,
                        "yMW_dmyq0kcPX3pDXIg8BCs5YWPoGV62_rYbvc2XI8Q3UNF4d2sFXMV5f4N-tr0VTxdIyWXq5GO_oCldgPc_Bw");
    nkey_wipe(&key);
    assert_string_equal(key.public_key, "");
    assert_string_equal(nkey_from_seed(SEED, strlen(SEED) - 1, &key), "a seed has 58 characters");
    assert_string_equal(nkey_from_seed(ACCOUNT_SEED, strlen(ACCOUNT_SEED), &key),
                        "not the seed of a user: it begins with SU");
    char wrong[] = SEED;
    for (size_t i = 0; i < strlen(SEED); i++) { // no character may change
        wrong[i] = SEED[i] == 'A' ? 'B' : 'A';
        assert_non_null(nkey_from_seed(wrong, strlen(wrong), &key));
        wrong[i] = SEED[i];
    }
}

static void test_files(void **state) {
    (void)state;
    static const struct {
        const char *text, *why;
        bool jwt;
    } rows[] = {
        {BLOCK("NATS USER JWT", JWT) "\n*** IMPORTANT ***\nkeep it\n\n" BLOCK("USER NKEY SEED", SEED) "\n*****\n", NULL,
         true},
        {BLOCK("USER NKEY SEED", SEED) BLOCK("NATS USER JWT", JWT), NULL, true},
        {"-----BEGIN NATS USER JWT-----\r\n" JWT "\r\n------END NATS USER JWT------\r\n\r\n"
         "-----BEGIN USER NKEY SEED-----\r\n  " SEED "\t\r\n------END USER NKEY SEED------", NULL, true},
        {SEED, NULL, false},
        {"# made by nk\n" SEED "\n" PUBLIC "\n", NULL, false},
        {BLOCK("USER NKEY SEED", SEED), NULL, false},
        {BLOCK("USER NKEY SEED", SEED), "there is no JWT in it", true},
        {BLOCK("NATS USER JWT", JWT), "there is no seed in it", true},
        {BLOCK("NATS USER JWT", "a.b") BLOCK("USER NKEY SEED", SEED), "not a JWT", true},
        {BLOCK("NATS USER JWT", "a.b.c\"") BLOCK("USER NKEY SEED", SEED), "not a JWT", true},
        {"-----BEGIN NATS USER JWT-----\n" JWT "\n", "a block that has no end", true},
        {"-----BEGIN NATS USER JWT-----\n------END NATS USER JWT------\n", "a block that has no end", true},
        {BLOCK("USER NKEY SEED", ACCOUNT_SEED), "not the seed of a user: it begins with SU", false},
        {"", "there is no seed in it", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        nats_creds creds;
        const char *why = nats_creds_parse(rows[i].text, strlen(rows[i].text), rows[i].jwt, &creds);
        if (rows[i].why == NULL) {
            if (why != NULL) fail_msg("%s\n%s", rows[i].text, why);
            assert_string_equal(creds.key.public_key, PUBLIC);
            if (rows[i].jwt) assert_memory_equal(creds.jwt, JWT, creds.jwt_len);
        } else if (why == NULL || strcmp(why, rows[i].why) != 0) {
            fail_msg("%s\nsays %s\nnot %s", rows[i].text, why == NULL ? "nothing" : why, rows[i].why);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_base32), cmocka_unit_test(test_seed_and_signature),
                                       cmocka_unit_test(test_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
