// SPDX-License-Identifier: Apache-2.0
// test_tls_files.c: PEM, certificates and revocation lists as files give them: what is read, and that every cut and
// every altered byte is either read or refused, never worse.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/tls_context.h"
#include "net/tls_pem.h"
#include "tls_files.h"

static void test_pem(void **state) {
    (void)state;
    static char text[16384];
    pem_file file;
    u32 line;
    snprintf(text, sizeof(text), "comment\n%sbetween\n%s", tls_server_pem, tls_server_key_pem);
    assert_int_equal(pem_parse(text, (u32)strlen(text), &file, &line), 0);
    assert_int_equal(file.count, 2);
    assert_string_equal(file.objects[0].name, "CERTIFICATE");
    assert_int_equal(file.objects[0].line, 2);
    assert_string_equal(file.objects[1].name, "EC PRIVATE KEY");
    pem_free(&file);
    // The second line of the first object.
    memset(text + strlen("comment\n-----BEGIN CERTIFICATE-----\n") + 65, '*', 64);
    assert_int_equal(pem_parse(text, (u32)strlen(text), &file, &line), -EINVAL);
    assert_int_equal(line, 4);
    pem_free(&file);
    u32 cut = (u32)strlen(tls_ca_pem) - 30; // without its END line
    assert_int_equal(pem_parse(tls_ca_pem, cut, &file, &line), -EINVAL);
    pem_free(&file);
    // The last line's end may be missing.
    assert_int_equal(pem_parse(tls_ca_pem, (u32)strlen(tls_ca_pem) - 1, &file, &line), 0);
    assert_int_equal(file.count, 1);
    pem_free(&file);
    assert_int_equal(pem_parse("", 0, &file, &line), 0);
    assert_int_equal(file.count, 0);
    pem_free(&file);
}

static void der_of(const char *pem, u8 *out, u32 *len) {
    pem_file file;
    u32 line;
    assert_int_equal(pem_parse(pem, (u32)strlen(pem), &file, &line), 0);
    memcpy(out, file.objects[0].data, file.objects[0].len);
    *len = file.objects[0].len;
    pem_free(&file);
}

static void test_certificate(void **state) {
    (void)state;
    u8 der_bytes[2048];
    u32 len, offset;
    cert_info info;
    der_of(tls_server_pem, der_bytes, &len);
    assert_int_equal(cert_read(der_bytes, len, &info, &offset), 0);
    assert_int_equal(info.serial.left, 2);
    assert_int_equal(info.serial.at[0] << 8 | info.serial.at[1], 4660);
    assert_int_equal(info.common_name.left, strlen("gw.example"));
    assert_true(info.not_before_s == 1577836800 && info.not_after_s == 4701974400);
    assert_true(cert_is_for(&info, "gw.example", 10));
    assert_true(cert_is_for(&info, "GW.Example", 10));
    assert_true(cert_is_for(&info, "a.gw.example", 12));
    assert_false(cert_is_for(&info, "a.b.gw.example", 14));
    assert_false(cert_is_for(&info, ".gw.example", 11));
    assert_false(cert_is_for(&info, "xgw.example", 11));
    assert_false(cert_is_for(&info, "", 0));
    for (u32 cut = 0; cut < len; cut++) assert_int_equal(cert_read(der_bytes, cut, &info, &offset), -EINVAL);
    der_of(tls_device_pem, der_bytes, &len);
    assert_int_equal(cert_read(der_bytes, len, &info, &offset), 0);
    assert_true(cert_is_for(&info, "device-7", 8)); // no alternative names: the common name counts
}

static void test_altered_bytes(void **state) {
    (void)state;
    u8 der_bytes[2048];
    u32 len, offset;
    cert_info info;
    crl_info crl;
    der_of(tls_server_pem, der_bytes, &len);
    for (u32 at = 0; at < len; at++) {
        for (u32 value = 0; value < 256; value += 15) {
            u8 *copy = malloc(len); // of this size: a read beyond it is seen
            memcpy(copy, der_bytes, len);
            copy[at] = (u8)value;
            if (cert_read(copy, len, &info, &offset) == 0) cert_is_for(&info, "gw.example", 10);
            crl_read(copy, len, &crl, &offset);
            free(copy);
        }
    }
}

static void test_purposes(void **state) {
    (void)state;
    static const u8 server[] = {6, 8, 0x2b, 6, 1, 5, 5, 7, 3, 1}, client[] = {6, 8, 0x2b, 6, 1, 5, 5, 7, 3, 2};
    static const u8 any[] = {6, 4, 0x55, 0x1d, 0x25, 0}, broken[] = {6, 9, 0x2b};
    cert_info info = {0};
    assert_true(cert_is_for_purpose(&info, CERT_OF_CLIENT));
    info.has_purposes = true;
    assert_false(cert_is_for_purpose(&info, CERT_OF_CLIENT));
    info.purposes = (der){server, sizeof(server)};
    assert_true(cert_is_for_purpose(&info, CERT_OF_SERVER));
    assert_false(cert_is_for_purpose(&info, CERT_OF_CLIENT));
    info.purposes = (der){client, sizeof(client)};
    assert_true(cert_is_for_purpose(&info, CERT_OF_CLIENT));
    info.purposes = (der){any, sizeof(any)};
    assert_true(cert_is_for_purpose(&info, CERT_OF_CLIENT));
    info.purposes = (der){broken, sizeof(broken)};
    assert_false(cert_is_for_purpose(&info, CERT_OF_CLIENT));
}

// Once a day by the clock, and when that was set by a day or more.
static void test_expiry_check(void **state) {
    (void)state;
    i64 last = 1000000;
    assert_false(tls_expiry_check_is_due(&last, 1000000));
    assert_false(tls_expiry_check_is_due(&last, 1000000 + 86399));
    assert_true(tls_expiry_check_is_due(&last, 1000000 + 86400));
    assert_false(tls_expiry_check_is_due(&last, 1000000 + 86401));
    assert_true(tls_expiry_check_is_due(&last, 2000000000)); // the clock was set
    assert_true(tls_expiry_check_is_due(&last, 1999999999)); // and back
    assert_int_equal(last, 1999999999);
}

static void test_published(void **state) {
    (void)state;
    tls_context *place = NULL, first = {.refs = 5}, second = {.refs = 5};
    assert_null(tls_context_at(&place));
    tls_context_publish(&place, &first);
    assert_ptr_equal(tls_context_at(&place), &first);
    assert_int_equal(first.refs, 7);
    tls_context_publish(&place, &second);
    assert_int_equal(first.refs, 6);
    tls_context_publish(&place, NULL);
    assert_int_equal(second.refs, 5);
    assert_null(tls_context_at(&place));
}

static void test_times(void **state) {
    (void)state;
    static const struct {
        u8 tag;
        const char *text;
        i64 unix_s; // -1: refused
    } times[] = {
        {DER_UTC_TIME, "700101000000Z", 0},         {DER_UTC_TIME, "491231235959Z", 2524607999},
        {DER_UTC_TIME, "000229000000Z", 951782400}, {DER_GENERALIZED_TIME, "20500101000000Z", 2524608000},
        {DER_UTC_TIME, "7001010000Z", -1},          {DER_UTC_TIME, "701301000000Z", -1},
        {DER_UTC_TIME, "70010100000xZ", -1},        {DER_GENERALIZED_TIME, "20500101000000", -1},
        {DER_INTEGER, "700101000000Z", -1},
    };
    for (u32 i = 0; i < ARRAY_LEN(times); i++) {
        i64 got = -1;
        der content = {(const u8 *)times[i].text, (u32)strlen(times[i].text)};
        bool good = der_time(times[i].tag, content, &got);
        assert_int_equal(good, times[i].unix_s >= 0);
        if (good) assert_true(got == times[i].unix_s);
    }
}

// --- contexts ---

static void write_file(const char *name, const char *text) {
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static listener_config *settings(void) {
    static listener_config conf;
    write_file("ca.pem", tls_ca_pem);
    write_file("server.pem", tls_server_pem);
    write_file("server.key", tls_server_key_pem);
    write_file("device.key", tls_device_key_pem);
    write_file("crl.pem", tls_crl_pem);
    memset(&conf, 0, sizeof(conf));
    snprintf(conf.name, sizeof(conf.name), "t");
    snprintf(conf.tls.cert, sizeof(conf.tls.cert), "server.pem\n");
    snprintf(conf.tls.key, sizeof(conf.tls.key), "server.key\n");
    return &conf;
}

static void test_context(void **state) {
    (void)state;
    listener_config *conf = settings();
    tls_context *context = NULL;
    char why[768];
    snprintf(conf->tls.client_ca, sizeof(conf->tls.client_ca), "ca.pem\n");
    snprintf(conf->tls.deny, sizeof(conf->tls.deny), "crl.pem\n");
    snprintf(conf->tls.alpn, sizeof(conf->tls.alpn), "mqtt other");
    conf->tls.client_auth = TLS_CLIENT_REQUIRED;
    assert_int_equal(tls_context_load(conf, false, &context, why, sizeof(why)), 0);
    assert_int_equal(context->cert_count, 1);
    assert_int_equal(context->anchor_count, 1);
    assert_int_equal(context->denied_count, 1);
    assert_int_equal(context->alpn_count, 2);
    assert_string_equal(context->alpn[1], "other");
    u8 der_bytes[2048], digest[TLS_DIGEST_BYTES];
    u32 len, offset;
    cert_info info;
    der_of(tls_device_pem, der_bytes, &len);
    cert_read(der_bytes, len, &info, &offset);
    tls_serial_digest(info.issuer, info.serial, digest);
    assert_true(tls_context_denies(context, digest));
    digest[0] ^= 1;
    assert_false(tls_context_denies(context, digest));
    u64 scope = context->scope;
    tls_context_drop(context);
    // Other rules, other scope; the same ones have the same.
    assert_int_equal(tls_context_load(conf, false, &context, why, sizeof(why)), 0);
    assert_true(context->scope == scope);
    tls_context_drop(context);
    conf->tls.deny[0] = '\0';
    assert_int_equal(tls_context_load(conf, false, &context, why, sizeof(why)), 0);
    assert_true(context->scope != scope);
    tls_context *same = tls_context_hold(context);
    tls_context_drop(context);
    assert_int_equal(same->cert_count, 1);
    tls_context_drop(same);
}

static void refused(const listener_config *conf, const char *said) {
    tls_context *context = NULL;
    char why[768] = "";
    assert_true(tls_context_load(conf, false, &context, why, sizeof(why)) < 0);
    if (strstr(why, said) == NULL) fail_msg("'%s' is not in '%s'", said, why);
    assert_null(context);
}

static void test_mistakes(void **state) {
    (void)state;
    listener_config *conf = settings();
    snprintf(conf->tls.key, sizeof(conf->tls.key), "device.key\n");
    refused(conf, "listener t: tls: device.key: is not the key of the certificate in server.pem");
    snprintf(conf->tls.key, sizeof(conf->tls.key), "ca.pem\n");
    refused(conf, "ca.pem: no private key in it");
    conf->tls.key[0] = '\0';
    refused(conf, "server.pem: no private key in it");
    snprintf(conf->tls.cert, sizeof(conf->tls.cert), "absent.pem\n");
    refused(conf, "absent.pem: can not be read: No such file or directory (ENOENT)");
    conf = settings();
    conf->tls.client_auth = TLS_CLIENT_REQUIRED;
    snprintf(conf->tls.client_ca, sizeof(conf->tls.client_ca), "server.key\n");
    refused(conf, "server.key: no certificate in it");
    snprintf(conf->tls.client_ca, sizeof(conf->tls.client_ca), "ca.pem\n");
    write_file("deny", "# nobody\n\n00:11\n");
    snprintf(conf->tls.deny, sizeof(conf->tls.deny), "deny\n");
    refused(conf, "deny:3: the SHA-256 of a certificate is expected");
    snprintf(conf->tls.client_ca, sizeof(conf->tls.client_ca), "server.pem\n");
    snprintf(conf->tls.deny, sizeof(conf->tls.deny), "crl.pem\n");
    refused(conf, "crl.pem:1: the revocation list is not signed by a certificate in client_ca");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pem),           cmocka_unit_test(test_certificate),
        cmocka_unit_test(test_altered_bytes), cmocka_unit_test(test_times),
        cmocka_unit_test(test_purposes),      cmocka_unit_test(test_expiry_check),
        cmocka_unit_test(test_published),
        cmocka_unit_test(test_context),       cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
