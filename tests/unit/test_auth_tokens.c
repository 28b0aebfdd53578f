// SPDX-License-Identifier: Apache-2.0
// test_auth_tokens.c: JSON web tokens and SCRAM-SHA-256 against the examples of their RFCs and what OpenSSL signed, and
// every way in which they can be wrong. Also rates and the memory of answers.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "auth/base64url.h"
#include "auth/grant.h"
#include "auth/jwt.h"
#include "auth/scram.h"
#include "auth_vectors.h"

#define NOW 1800000000ull

static jwt_policy policy;
static jwt_claims claims;

static const char *keys(const char *text) {
    policy = (jwt_policy){.leeway_s = 30};
    return jwt_keys_parse(text, strlen(text), &policy.keys);
}

static jwt_verdict check_at(const char *token, u64 now_s) {
    size_t len = strlen(token);
    char *copy = malloc(len > 0 ? len : 1);
    memcpy(copy, token, len);
    jwt_verdict verdict = jwt_check(&policy, copy, (u32)len, now_s, &claims);
    free(copy);
    return verdict;
}

// RFC 7515 appendix A.1.
static void test_rfc_7515(void **state) {
    (void)state;
    static const char token[] = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9"
                                ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFt"
                                "cGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
                                ".dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    static const char key[] = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
    policy = (jwt_policy){.keys.count = 1};
    jwt_key *k = &policy.keys.keys[0];
    k->kind = JWT_HS256;
    k->len = (u32)base64url_decode(key, strlen(key), k->bytes, sizeof(k->bytes));
    assert_int_equal(k->len, 64);
    assert_int_equal(check_at(token, 1300819379), JWT_FINE);
    assert_int_equal(claims.user_len, 0);
    assert_int_equal(claims.expires_s, 1300819380);
    assert_null(claims.rules);
    assert_int_equal(check_at(token, 1300819380), JWT_EXPIRED);
    k->bytes[63] ^= 1;
    assert_int_equal(check_at(token, 1300819379), JWT_SIGNATURE);
}

static void test_public_keys(void **state) {
    (void)state;
    static const char *const tokens[] = {ES256_TOKEN, RS256_TOKEN};
    assert_null(keys("comment\n" EC_PUBLIC_PEM RSA_PUBLIC_PEM));
    assert_int_equal(policy.keys.count, 2);
    for (u32 i = 0; i < ARRAY_LEN(tokens); i++) {
        assert_int_equal(check_at(tokens[i], NOW), JWT_FINE);
        assert_string_equal(claims.user, "dev-1");
        assert_string_equal(claims.rules, "wup/%c/#\nrdown/%u\n");
        assert_int_equal(claims.rules_len, strlen(claims.rules));
        assert_int_equal(claims.expires_s, 2000000030);
        free(claims.rules);
        char other[2048];
        snprintf(other, sizeof(other), "%s", tokens[i]);
        char *last = other + strlen(other) - 10;
        *last = *last == 'A' ? 'B' : 'A';
        assert_int_equal(check_at(other, NOW), JWT_SIGNATURE);
        char *payload = strchr(other, '.') + 5;
        *payload = *payload == 'A' ? 'B' : 'A';
        assert_int_equal(check_at(other, NOW), JWT_SIGNATURE);
        assert_int_equal(check_at(tokens[i], 1699999969), JWT_NOT_YET);
        assert_int_equal(check_at(tokens[i], 2000000030), JWT_EXPIRED);
    }
    // The key's kind decides: a token of another algorithm is not checked with it.
    assert_null(keys(EC_PUBLIC_PEM));
    assert_int_equal(check_at(RS256_TOKEN, NOW), JWT_ALGORITHM);
    assert_null(keys("a secret of at least thirty-two bytes\n"));
    assert_int_equal(check_at(ES256_TOKEN, NOW), JWT_ALGORITHM);
    assert_null(keys(EC_PUBLIC_PEM));
    snprintf(policy.issuer, sizeof(policy.issuer), "you");
    assert_int_equal(check_at(ES256_TOKEN, NOW), JWT_ISSUER);
    snprintf(policy.issuer, sizeof(policy.issuer), "me");
    snprintf(policy.audience, sizeof(policy.audience), "y");
    assert_int_equal(check_at(ES256_TOKEN, NOW), JWT_AUDIENCE);
    snprintf(policy.audience, sizeof(policy.audience), "sluice");
    assert_int_equal(check_at(ES256_TOKEN, NOW), JWT_FINE);
    free(claims.rules);
}

static void test_bad_keys(void **state) {
    (void)state;
    assert_non_null(keys(""));
    assert_non_null(keys("too short"));
    assert_non_null(keys("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"));
    assert_non_null(keys("-----BEGIN PUBLIC KEY-----\n!!\n-----END PUBLIC KEY-----\n"));
    assert_non_null(keys("-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"));
    assert_non_null(keys("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"));
    assert_non_null(keys(EC_PUBLIC_PEM EC_PUBLIC_PEM EC_PUBLIC_PEM EC_PUBLIC_PEM EC_PUBLIC_PEM));
}

// --- tokens made here ---

static void url_encode(const void *data, size_t len, char *out) {
    size_t n = base64_text(data, len, out);
    while (n > 0 && out[n - 1] == '=') out[--n] = '\0';
    for (; n > 0; n--) out[n - 1] = out[n - 1] == '+' ? '-' : out[n - 1] == '/' ? '_' : out[n - 1];
}

static jwt_verdict hs256(const char *header, const char *payload) {
    static const char secret[] = "0123456789abcdef0123456789abcdef";
    char token[16384];
    u8 mac[32];
    assert_null(keys(secret));
    url_encode(header, strlen(header), token);
    strcat(token, ".");
    url_encode(payload, strlen(payload), token + strlen(token));
    secret_hmac(&br_sha256_vtable, secret, 32, token, strlen(token), mac);
    strcat(token, ".");
    url_encode(mac, sizeof(mac), token + strlen(token));
    return check_at(token, NOW);
}

static void test_claims(void **state) {
    (void)state;
    static const char head[] = "{\"alg\":\"HS256\"}";
    static const struct {
        const char *header, *payload;
        jwt_verdict verdict;
    } rows[] = {
        {head, "{\"exp\":1800000001}", JWT_FINE},
        {head, "{\"exp\":1800000001.5}", JWT_FINE},
        {head, "{\"exp\":1799999971}", JWT_FINE}, // leeway
        {head, "{\"exp\":1799999970}", JWT_EXPIRED},
        {head, "{\"exp\":1900000000,\"nbf\":1800000030}", JWT_FINE},
        {head, "{\"exp\":1900000000,\"nbf\":1800000031}", JWT_NOT_YET},
        {head, "{\"exp\":1900000000,\"iat\":1800000031}", JWT_NOT_YET},
        {head, "{}", JWT_CLAIMS},
        {head, "{\"exp\":\"1900000000\"}", JWT_CLAIMS},
        {head, "{\"exp\":-1}", JWT_CLAIMS},
        {head, "{\"exp\":1e300}", JWT_CLAIMS},
        {head, "{\"exp\":18446744073709551615}", JWT_CLAIMS},
        {head, "{\"exp\":1900000000,\"exp\":1900000000}", JWT_MALFORMED},
        {head, "{\"exp\":1900000000,\"sub\":7}", JWT_CLAIMS},
        {head, "{\"exp\":1900000000,\"sub\":\"\"}", JWT_CLAIMS},
        {head, "{\"exp\":1900000000,\"sub\":\"a\\u0000b\"}", JWT_CLAIMS},
        {head, "{\"exp\":1900000000,\"sub\":\"a\",\"sub\":\"b\"}", JWT_MALFORMED},
        {head, "{\"exp\":1900000000,\"publish\":\"a\"}", JWT_CLAIMS},
        {head, "{\"exp\":1900000000,\"publish\":[1]}", JWT_CLAIMS},
        {head, "{\"exp\":1900000000,\"publish\":[\"a\\nwb\"]}", JWT_CLAIMS},
        {head, "{\"exp\":1900000000,\"subscribe\":[\"a/#/b\"]}", JWT_CLAIMS},
        {head, "[1]", JWT_MALFORMED},
        {head, "{\"exp\":1900000000", JWT_MALFORMED},
        {"{\"alg\":\"none\"}", "{\"exp\":1900000000}", JWT_ALGORITHM},
        {"{\"alg\":\"hs256\"}", "{\"exp\":1900000000}", JWT_ALGORITHM},
        {"{\"alg\":\"HS256\",\"crit\":[\"b64\"]}", "{\"exp\":1900000000}", JWT_MALFORMED},
        {"{\"alg\":\"HS256\",\"alg\":\"HS256\"}", "{\"exp\":1900000000}", JWT_MALFORMED},
        {"{}", "{\"exp\":1900000000}", JWT_MALFORMED},
    };
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        jwt_verdict verdict = hs256(rows[i].header, rows[i].payload);
        if (verdict == rows[i].verdict) continue;
        fail_msg("%s %s: %s", rows[i].header, rows[i].payload, jwt_verdict_name(verdict));
    }
    assert_int_equal(hs256(head, "{\"exp\":1900000000,\"publish\":[]}"), JWT_FINE);
    assert_string_equal(claims.rules, ""); // may publish nothing, and subscribe to nothing
    free(claims.rules);
    static const char *const bad[] = {"", ".", "..", "a.b", "a.b.c.d", "a.b.", ".b.c", "a b.c.d", "!.!.!", "YQ.YQ.YQ"};
    for (u32 i = 0; i < ARRAY_LEN(bad); i++) assert_int_equal(check_at(bad[i], NOW), JWT_MALFORMED);
}

// --- SCRAM ---

static password_file accounts;
static scram s;

static const char *begin(const char *text, const char *nonce) {
    return scram_begin(&s, &accounts, text, (u32)strlen(text), nonce);
}

// RFC 7677 section 3.
static void test_rfc_7677(void **state) {
    (void)state;
    char error[256], final[SCRAM_FINAL_BYTES];
    u32 len, final_len;
    assert_int_equal(password_file_parse("p", SCRAM_7677, sizeof(SCRAM_7677) - 1, &accounts, error, sizeof(error)), 0);
    // The RFC's server nonce is longer than ours: its exchange is replayed with the client's nonce made up for it.
    static const char nonce[] = "UEUqPVV2NuiA5Tvzk0bXYZab";
    assert_null(begin("n,,n=user,r=rOprNGfwEbeRWgbNEkqO", nonce));
    const char *challenge = scram_challenge(&s, &len);
    assert_int_equal(len, strlen("r=rOprNGfwEbeRWgbNEkqO") + 24 + strlen(",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"));
    assert_memory_equal(challenge + len - 34, ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", 34);
    assert_string_equal(scram_finish(&s, "c=biws,r=x,p=AA==", 17, final, &final_len), "scram_nonce");
    // With the nonce of the RFC set into the state, its proof and its signature are right to the byte.
    assert_null(begin("n,,n=user,r=rOprNGfwEbeRWgbNEkqO", nonce));
    static const char rfc[] = "n=user,r=rOprNGfwEbeRWgbNEkqO,"
                              "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    memcpy(s.text, rfc, sizeof(rfc) - 1);
    s.used = sizeof(rfc) - 1;
    s.nonce_at = 32;
    s.nonce_len = (u32)strlen("rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0");
    static const char last[] = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
                               "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    assert_null(scram_finish(&s, last, sizeof(last) - 1, final, &final_len));
    static const char signature[] = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
    assert_int_equal(final_len, sizeof(signature) - 1);
    assert_memory_equal(final, signature, final_len);
}

static void test_scram_refusals(void **state) {
    (void)state;
    static const char nonce[] = "abcdefghijklmnopqrstuvwx";
    static const char *const bad[] = {"", "n", "n,", "n,,", "n,,n=", "n,,n=user", "n,,n=user,r=", "n,,r=x,n=user",
                                      "x,,n=user,r=a", "n,,n=us=er,r=a", "n,,n=us=2c,r=a", "n,,m=ext,n=user,r=a",
                                      "n,b=user,n=user,r=a",
                                      "n,,n=user,r=a b", "n,a=,n=user,r=a"};
    for (u32 i = 0; i < ARRAY_LEN(bad); i++) assert_string_equal(begin(bad[i], nonce), "scram_malformed");
    assert_string_equal(begin("p=tls-unique,,n=user,r=a", nonce), "scram_channel_binding");
    assert_string_equal(begin("n,a=other,n=user,r=a", nonce), "scram_authzid");
    assert_null(begin("y,a=user,n=user,r=a,x=ext", nonce));
    assert_null(begin("n,,n=a=2Cb=3Dc,r=a", nonce));
    assert_int_equal(s.user_len, 5);
    assert_memory_equal(s.user, "a,b=c", 5);
    // One that does not exist gets the same salt each time, and fails at the end only.
    u8 salt[16];
    memcpy(salt, s.entry.salt, 16);
    assert_null(begin("n,,n=a=2Cb=3Dc,r=b", nonce));
    assert_memory_equal(salt, s.entry.salt, 16);
    assert_int_equal(s.entry.iterations, 4096);
    char final[SCRAM_FINAL_BYTES];
    u32 len;
    static const char last[] = "c=biws,r=babcdefghijklmnopqrstuvwx,p=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    assert_string_equal(scram_finish(&s, last, sizeof(last) - 1, final, &len), "unknown_user");
    assert_null(begin("n,,n=user,r=b", nonce));
    assert_string_equal(scram_finish(&s, last, sizeof(last) - 1, final, &len), "wrong_password");
    static const char *const endings[] = {"c=eSws,r=babcdefghijklmnopqrstuvwx,p=AA==", "c=biws",
                                          "c=biws,r=babcdefghijklmnopqrstuvwx",
                                          "c=biws,r=babcdefghijklmnopqrstuvwx,p=AA==",
                                          "c=biws,r=babcdefghijklmnopqrstuvwx,x,p=AA=="};
    for (u32 i = 0; i < ARRAY_LEN(endings); i++) {
        assert_null(begin("n,,n=user,r=b", nonce));
        const char *why = scram_finish(&s, endings[i], (u32)strlen(endings[i]), final, &len);
        assert_string_equal(why, i == 0 ? "scram_binding" : "scram_malformed");
    }
    // The longest messages of both sides fit.
    char text[SCRAM_TEXT_BYTES + 8] = "n,,n=user,r=";
    memset(text + strlen(text), 'x', SCRAM_TEXT_BYTES - strlen(text));
    text[SCRAM_TEXT_BYTES] = '\0';
    assert_null(begin(text, nonce));
    password_file_free(&accounts);
}

static void test_expiry_of_any_number(void **state) {
    (void)state;
    jwt_claims claims = {.expires_s = 1030};
    assert_int_equal(jwt_expires_ns(&claims, 1000, 5 * NS_PER_S), 35 * NS_PER_S);
    u64 last = 0;
    static const u64 far[] = {1ull << 33, 1700000000000ull /* milliseconds */, 1ull << 55, UINT64_MAX / 4 + 86400};
    for (u32 i = 0; i < ARRAY_LEN(far); i++) {
        claims.expires_s = far[i];
        u64 due = jwt_expires_ns(&claims, 1000, 5 * NS_PER_S);
        assert_true(due >= last && due > 90ull * 365 * 86400 * NS_PER_S && due < INT64_MAX);
        last = due;
    }
}

// A clock that is wrong by years, as on a board without one, would let in what has long expired.
static void test_a_wrong_clock(void **state) {
    (void)state;
    jwt_policy policy = {.clock_min_s = 1700000000};
    jwt_claims claims;
    assert_int_equal(jwt_check(&policy, "e30.e30.AAAA", 12, 5, &claims), JWT_CLOCK);
    assert_int_equal(jwt_check(&policy, "e30.e30.AAAA", 12, 1700000000, &claims), JWT_MALFORMED);
    assert_string_equal(jwt_verdict_name(JWT_CLOCK), "jwt_clock");
}

// --- rates ---

static void test_rates(void **state) {
    (void)state;
    auth_grant g = {0};
    grant_rates ten = {10, 0}, kilo = {0, 1000}, none = {0, 0};
    u64 now = 100 * NS_PER_S;
    assert_int_equal(grant_rate_due(&g, none, 1u << 30, now), 0);
    u32 passed = 0;
    while (grant_rate_due(&g, ten, 5, now) == 0) {
        grant_rate_charge(&g, ten, 5);
        passed++;
    }
    assert_int_equal(passed, 10); // a second's worth at once
    assert_int_equal(grant_rate_due(&g, ten, 5, now), now + NS_PER_S / 10);
    assert_int_equal(grant_rate_due(&g, ten, 5, now + NS_PER_S / 10), 0);
    // A message larger than a second's worth passes, and is paid for.
    assert_int_equal(grant_rate_due(&g, kilo, 5000, now), 0);
    grant_rate_charge(&g, kilo, 5000);
    assert_int_equal(grant_rate_due(&g, kilo, 1, now), now + 4 * NS_PER_S + NS_PER_MS);
    assert_int_equal(grant_rate_due(&g, kilo, 1, now + 4 * NS_PER_S + NS_PER_MS), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rfc_7515), cmocka_unit_test(test_public_keys),    cmocka_unit_test(test_bad_keys),
        cmocka_unit_test(test_claims),   cmocka_unit_test(test_rfc_7677),       cmocka_unit_test(test_scram_refusals),
        cmocka_unit_test(test_rates),    cmocka_unit_test(test_expiry_of_any_number),
        cmocka_unit_test(test_a_wrong_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
