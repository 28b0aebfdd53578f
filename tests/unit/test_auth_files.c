// SPDX-License-Identifier: Apache-2.0
// test_auth_files.c: password files and ACL files: what is taken, what is refused with which line, and how they are
// judged. Lines that other programs made are from Mosquitto 2.0.11's mosquitto_passwd and Python's hashlib.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "auth/acl.h"
#include "auth/base64url.h"
#include "auth/passwd_text.h"
#include "auth/password_file.h"

static char said[512];

// --- base64 ---

static void test_base64(void **state) {
    (void)state;
    static const struct {
        const char *data, *text;
    } rows[] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="},
                {"foobar", "Zm9vYmFy"}}; // RFC 4648 section 10
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        char text[BASE64_TEXT_BYTES(8)];
        u8 data[8];
        size_t len = strlen(rows[i].data);
        assert_int_equal(base64_text((const u8 *)rows[i].data, len, text), strlen(rows[i].text));
        assert_string_equal(text, rows[i].text);
        assert_int_equal(base64_decode_bounded(text, strlen(text), data, sizeof(data)), len);
        assert_memory_equal(data, rows[i].data, len);
    }
    u8 data[4];
    static const char *const bad[] = {"Zg", "Zg=", "Z===", "Zh==", "Z g=", "Zg==Zg==", "Zm9vYmFy", "Zg-_"};
    for (u32 i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(base64_decode_bounded(bad[i], strlen(bad[i]), data, 4), -1);
    }
    assert_int_equal(base64url_decode("-_8", 3, data, 4), 2);
    assert_int_equal(base64url_decode("Zg==", 4, data, 4), -1);
    assert_int_equal(base64url_decode("Z", 1, data, 4), -1);
}

// --- PBKDF2 ---

static void test_pbkdf2(void **state) {
    (void)state;
    // RFC 7914 section 11 has HMAC-SHA-256 with one and with 80000 iterations.
    static const u8 one[32] = {0x55, 0xac, 0x04, 0x6e, 0x56, 0xe3, 0x08, 0x9f, 0xec, 0x16, 0x91,
                               0xc2, 0x25, 0x44, 0xb6, 0x05, 0xf9, 0x41, 0x85, 0x21, 0x6d, 0xde,
                               0x04, 0x65, 0xe6, 0x8b, 0x9d, 0x57, 0xc2, 0x0d, 0xac, 0xbc};
    pbkdf2 p;
    pbkdf2_begin(&p, &br_sha256_vtable, "passwd", 6, (const u8 *)"salt", 4, 1);
    assert_true(pbkdf2_run(&p, 0));
    assert_memory_equal(p.sum, one, 32);
    // In slices of any size the result is the same.
    u8 whole[64];
    pbkdf2_begin(&p, &br_sha512_vtable, "passwd", 6, (const u8 *)"salt", 4, 1000);
    assert_true(pbkdf2_run(&p, 1000));
    memcpy(whole, p.sum, 64);
    pbkdf2_begin(&p, &br_sha512_vtable, "passwd", 6, (const u8 *)"salt", 4, 1000);
    u32 slices = 1;
    while (!pbkdf2_run(&p, 7)) slices++;
    assert_int_equal(slices, (999 + 6) / 7);
    assert_memory_equal(p.sum, whole, 64);
}

// --- password files ---

static password_file file;

static int parse(const char *text) {
    said[0] = '\0';
    // From a malloc'd copy of exactly its size, so that a read beyond it is seen.
    size_t len = strlen(text);
    char *copy = malloc(len > 0 ? len : 1);
    memcpy(copy, text, len);
    int result = password_file_parse("p", copy, len, &file, said, sizeof(said));
    free(copy);
    return result;
}

static bool check(const char *user, const char *password) {
    password_check c;
    password_check_begin(&c, &file, user, (u32)strlen(user), password, (u32)strlen(password));
    while (!password_check_run(&c, 128)) {
    }
    return password_check_end(&c);
}

// hashlib.pbkdf2_hmac("sha512", b"secret", b"0123456789ab", 101) and sha512(b"secret" + b"0123456789ab"); the RFC 7677
// example as a verifier (user "user", password "pencil").
#define HASHLIB_7 \
    "alice:$7$101$MDEyMzQ1Njc4OWFi$" HASH_7 "\n"
#define HASHLIB_6 \
    "bob:$6$MDEyMzQ1Njc4OWFi$" HASH_6 "\n"
#include "auth_vectors.h"

static void test_passwords(void **state) {
    (void)state;
    assert_int_equal(parse("# accounts\n\n" HASHLIB_7 HASHLIB_6 SCRAM_7677 MOSQUITTO_7), 0);
    assert_int_equal(file.count, 4);
    assert_true(check("alice", "secret"));
    assert_false(check("alice", "secret "));
    assert_false(check("alice", ""));
    assert_true(check("bob", "secret"));
    assert_false(check("bob", "Secret"));
    assert_true(check("user", "pencil"));
    assert_false(check("user", "pencils"));
    assert_true(check("carol", "correct horse"));
    assert_false(check("carol", "secret"));
    assert_false(check("nobody", "secret"));
    assert_false(check("", "secret"));
    const password_entry *a = password_file_find(&file, "alice", 5, false);
    assert_non_null(a);
    assert_null(password_file_find(&file, "alice", 5, true));
    assert_non_null(password_file_find(&file, "user", 4, true));
    u64 before = a->fingerprint;
    password_file_free(&file);
    assert_int_equal(parse(HASHLIB_7), 0);
    assert_true(password_file_find(&file, "alice", 5, false)->fingerprint == before);
    password_file_free(&file);
    assert_int_equal(parse(""), 0);
    assert_false(check("alice", "secret"));
    password_file_free(&file);
}

static void test_bad_passwords(void **state) {
    (void)state;
    static const struct {
        const char *text, *said;
    } rows[] = {
        {"alice\n", "p:1: not of the form user:hash"},
        {"\n# x\n:$7$\n", "p:3: the user name is missing"},
        {"alice:\n", "p:1: the password is missing"},
        {"alice:secret\n", "p:1: not a hash"},
        {"alice:$argon2id$v=19$m=1\n", "p:1: argon2 hashes are not supported"},
        {"alice:$7$x$MDEy$MDEy\n", "p:1: the number of iterations"},
        {"alice:$7$0$MDEy$MDEy\n", "p:1: the number of iterations"},
        {"alice:$7$99999999$MDEy$MDEy\n", "p:1: the number of iterations"},
        {"alice:$7$101$\n", "p:1: salt or hash is missing"},
        {"alice:$7$101$$MDEy\n", "p:1: the salt is not base64"},
        {"alice:$7$101$MDEy$MDEy\n", "p:1: the hash is not base64 of 64 bytes"},
        {"alice:$6$MDEy\n", "p:1: salt or hash is missing"},
        {"u:SCRAM-SHA-256$4096:MDEy$MDEy:MDEy\n", "p:1: the keys are not base64 of 32 bytes each"},
        {HASHLIB_7 HASHLIB_6 HASHLIB_7, "p:3: the user has a line of this kind already"},
    };
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(parse(rows[i].text), -EINVAL);
        if (strncmp(said, rows[i].said, strlen(rows[i].said)) != 0) fail_msg("\"%s\", not \"%s\"", said, rows[i].said);
    }
}

// --- the text of `sluice passwd` ---

static void test_passwd_text(void **state) {
    (void)state;
    static const u8 salt[PASSWD_SALT_BYTES] = {1, 2, 3};
    char crypt[PASSWD_LINE_BYTES], scram[PASSWD_LINE_BYTES], text[4096];
    passwd_line(PASSWD_CRYPT, "dora", "open sesame", 10, salt, crypt);
    passwd_line(PASSWD_SCRAM, "dora", "open sesame", 10, salt, scram);
    snprintf(text, sizeof(text), "# first\n%s%s# last\n" HASHLIB_6, crypt, scram);
    assert_int_equal(parse(text), 0);
    assert_true(check("dora", "open sesame"));
    assert_int_equal(passwd_kinds(text, strlen(text), "dora"), PASSWD_CRYPT | PASSWD_SCRAM);
    assert_int_equal(passwd_kinds(text, strlen(text), "dor"), 0);
    password_file_free(&file);
    size_t len;
    char *out = passwd_replace(text, strlen(text), "dora", "dora:new\n", &len);
    assert_string_equal(out, "# first\ndora:new\n# last\n" HASHLIB_6);
    assert_int_equal(len, strlen(out));
    free(out);
    out = passwd_replace(text, strlen(text), "dora", NULL, &len);
    assert_string_equal(out, "# first\n# last\n" HASHLIB_6);
    free(out);
    out = passwd_replace("a:b", 3, "c", "c:d\n", &len);
    assert_string_equal(out, "a:b\nc:d\n");
    free(out);
    assert_non_null(passwd_user_wrong("a:b"));
    assert_non_null(passwd_user_wrong(""));
    assert_non_null(passwd_user_wrong("a\nb"));
    assert_null(passwd_user_wrong("a b"));
}

// --- ACL files ---

static acl rules;

static int acl_of(const char *text) {
    said[0] = '\0';
    size_t len = strlen(text);
    char *copy = malloc(len > 0 ? len : 1);
    memcpy(copy, text, len);
    int result = acl_parse("a", copy, len, &rules, said, sizeof(said));
    free(copy);
    return result;
}

static acl_subject subject(const char *user, const char *client) {
    u32 len = user == NULL ? 0 : (u32)strlen(user);
    return (acl_subject){user, len, client, (u32)strlen(client), acl_rules_of(&rules, user, len), false};
}

static bool may(const char *user, const char *client, u8 access, const char *topic) {
    acl_subject who = subject(user, client);
    return acl_allows(&rules, &who, access, topic, (u32)strlen(topic));
}

static bool may_filter(const char *user, const char *filter) {
    acl_subject who = subject(user, "c");
    return acl_allows_filter(&rules, &who, filter, (u32)strlen(filter));
}

static void test_acl(void **state) {
    (void)state;
    assert_int_equal(acl_of("topic read public/#\n"
                            "# comment\n\n"
                            "user alice\n"
                            "topic both of these\n" // a topic with blanks
                            "topic write up/+\n"
                            "topic deny up/secret\n"
                            "user bob b\n"
                            "topic read $SYS/#\n"
                            "topic #\n"
                            "pattern readwrite devices/%c/#\n"
                            "pattern read users/%u/x\n"
                            "pattern deny users/+/private\n"
                            "user alice\n"
                            "topic read later\n"),
                     0);
    assert_true(may(NULL, "c", ACL_READ, "public/a/b"));
    assert_true(may(NULL, "c", ACL_READ, "public"));
    assert_false(may(NULL, "c", ACL_WRITE, "public/a"));
    assert_false(may("alice", "c", ACL_READ, "public/a"));
    assert_true(may("alice", "c", ACL_READ, "both of these"));
    assert_true(may("alice", "c", ACL_WRITE, "both of these"));
    assert_true(may("alice", "c", ACL_WRITE, "up/x"));
    assert_false(may("alice", "c", ACL_WRITE, "up/secret"));
    assert_false(may("alice", "c", ACL_READ, "up/x"));
    assert_true(may("alice", "c", ACL_READ, "later"));
    assert_true(may("bob b", "c", ACL_WRITE, "anything/at/all"));
    assert_true(may("bob b", "c", ACL_READ, "$SYS/x"));
    assert_false(may("bob b", "c", ACL_WRITE, "$SYS/x"));
    assert_false(may("bob", "c", ACL_READ, "anything"));
    assert_true(may("bob", "dev1", ACL_WRITE, "devices/dev1/up"));
    assert_false(may("bob", "dev1", ACL_WRITE, "devices/dev2/up"));
    assert_true(may(NULL, "dev1", ACL_WRITE, "devices/dev1"));
    assert_true(may("bob", "c", ACL_READ, "users/bob/x"));
    assert_false(may(NULL, "c", ACL_READ, "users//x"));
    assert_false(may("bob", "c", ACL_READ, "users/bob/private"));
    // Names that would stand for other people's topics.
    assert_false(may("bob", "+", ACL_READ, "devices/+/x"));
    assert_false(may("bob", "dev1/up", ACL_READ, "devices/dev1/up/x"));
    assert_false(may("#", "c", ACL_READ, "users/a/x"));
    acl_free(&rules);
    assert_int_equal(acl_of(""), 0);
    assert_false(may("bob", "c", ACL_READ, "a"));
    acl_free(&rules);
}

static void test_acl_filters(void **state) {
    (void)state;
    assert_int_equal(acl_of("user alice\ntopic read a/b/#\ntopic write w\ntopic deny a/b/c/#\n"
                            "pattern read %c/in\n"), 0);
    assert_true(may_filter("alice", "#"));      // filtered message by message
    assert_true(may_filter("alice", "a/+/x"));
    assert_true(may_filter("alice", "a/b"));
    assert_false(may_filter("alice", "a/c"));
    assert_false(may_filter("alice", "w"));
    assert_false(may_filter("alice", "a/b/c"));
    assert_false(may_filter("alice", "a/b/c/#"));
    assert_false(may_filter("alice", "a/b/c/+/d"));
    assert_true(may_filter("alice", "a/b/+/d"));
    assert_true(may_filter("alice", "c/in"));
    assert_true(may_filter("alice", "+/in"));
    assert_false(may_filter("alice", "d/in"));
    acl_free(&rules);
}

static void test_bad_acl(void **state) {
    (void)state;
    static const struct {
        const char *text, *said;
    } rows[] = {
        {"topics a\n", "a:1: unknown word \"topics\"; allowed: user, topic, pattern"},
        {"user\n", "a:1: the user name is missing"},
        {"\ntopic\n", "a:2: the topic filter is missing"},
        {"topic read a/#/b\n", "a:1: \"a/#/b\" is no valid topic filter"},
        {"user x\npattern %u+\n", "a:2: \"%u+\" is no valid topic filter"},
        {"topic a+\n", "a:1: \"a+\" is no valid topic filter"},
    };
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(acl_of(rows[i].text), -EINVAL);
        assert_string_equal(said, rows[i].said);
    }
    assert_int_equal(acl_of("topic read\n"), 0); // the topic "read"
    assert_true(may(NULL, "c", ACL_WRITE, "read"));
    acl_free(&rules);
    assert_int_equal(acl_of("topic %u\n"), 0); // no pattern: the topic "%u"
    assert_true(may(NULL, "c", ACL_WRITE, "%u"));
    acl_free(&rules);
}

static void test_token_rules(void **state) {
    (void)state;
    assert_int_equal(acl_of("user alice\ntopic read file\ntopic deny up/no\n"
                            "pattern deny never/#\npattern read all\n"), 0);
    acl_subject who = {"alice", 5, "c1", 2, "wup/#\nrdown/%c\nrnever/x\n", true};
    assert_true(acl_allows(&rules, &who, ACL_WRITE, "up/x", 4));
    assert_false(acl_allows(&rules, &who, ACL_WRITE, "up/no", 5));
    assert_true(acl_allows(&rules, &who, ACL_READ, "down/c1", 7));
    assert_false(acl_allows(&rules, &who, ACL_READ, "down/c2", 7));
    assert_false(acl_allows(&rules, &who, ACL_READ, "never/x", 7));
    assert_false(acl_allows(&rules, &who, ACL_READ, "file", 4));
    assert_false(acl_allows(&rules, &who, ACL_READ, "all", 3));
    assert_true(acl_allows(NULL, &who, ACL_READ, "never/x", 7)); // without a file
    acl_free(&rules);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base64),      cmocka_unit_test(test_pbkdf2),
        cmocka_unit_test(test_passwords),   cmocka_unit_test(test_bad_passwords),
        cmocka_unit_test(test_passwd_text), cmocka_unit_test(test_acl),
        cmocka_unit_test(test_acl_filters), cmocka_unit_test(test_bad_acl),
        cmocka_unit_test(test_token_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
