// SPDX-License-Identifier: Apache-2.0
// test_tls_handshake.c: our client with our server, in memory: what both end up with, who is refused and why, and the
// table of sessions.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tls_pair.h"

static tls_handshake server, client;

static listener_config *settings(tls_client_auth auth) {
    static listener_config conf;
    memset(&conf, 0, sizeof(conf));
    snprintf(conf.name, sizeof(conf.name), "t");
    snprintf(conf.tls.cert, sizeof(conf.tls.cert), "server.pem\n");
    snprintf(conf.tls.key, sizeof(conf.tls.key), "server.key\n");
    if (auth != TLS_CLIENT_NONE) snprintf(conf.tls.client_ca, sizeof(conf.tls.client_ca), "ca.pem\n");
    conf.tls.client_auth = auth;
    conf.tls.sessions = true;
    return &conf;
}

static tls_context *context_of(const listener_config *conf) {
    tls_context *context = NULL;
    char why[768];
    if (tls_context_load(conf, false, &context, why, sizeof(why)) < 0) fail_msg("%s", why);
    return context;
}

// A client that trusts ca.pem, with a certificate or without.
static tls_client *client_make(bool certified) {
    tls_client *made = calloc(1, sizeof(*made));
    char why[768];
    assert_int_equal(tls_anchors_load("ca.pem", &made->anchors, &made->anchor_count, why, sizeof(why)), 0);
    if (certified) {
        assert_int_equal(tls_certificate_load("device.pem", "device.key", &made->cert, why, sizeof(why)), 0);
    }
    return made;
}

static void client_free(tls_client *made) {
    tls_anchors_free(made->anchors, made->anchor_count);
    tls_certificate_free(&made->cert);
    free(made);
}

static tls_step attempt(tls_client_auth auth, bool certified, const char *name, tls_step *client_step) {
    tls_context *context = context_of(settings(auth));
    tls_client *made = client_make(certified);
    assert_true(tls_handshake_server(&server, context));
    assert_true(tls_handshake_client(&client, made, name, NULL));
    tls_step step = pair_run(&server, &client, client_step);
    client_free(made);
    tls_context_drop(context);
    return step;
}

static void test_both_ends_agree(void **state) {
    (void)state;
    tls_step client_step;
    tls_cipher server_in, server_out, client_in, client_out;
    assert_int_equal(attempt(TLS_CLIENT_NONE, false, "gw.example", &client_step), TLS_STEP_DONE);
    assert_int_equal(client_step, TLS_STEP_DONE);
    tls_handshake_ciphers(&server, &server_in, &server_out);
    tls_handshake_ciphers(&client, &client_in, &client_out);
    u8 room[256];
    u32 front = tls_record_front(&server_out), len;
    memcpy(room + front, "to the client", 13);
    u32 bytes = tls_record_seal(&server_out, TLS_DATA, room + front, 13);
    u8 *plain = tls_record_open(&client_in, room, bytes, &len);
    assert_non_null(plain);
    assert_int_equal(len, 13);
    assert_memory_equal(plain, "to the client", 13);
    memcpy(room + front, "to the server", 13);
    bytes = tls_record_seal(&client_out, TLS_DATA, room + front, 13);
    plain = tls_record_open(&server_in, room, bytes, &len);
    assert_non_null(plain);
    assert_memory_equal(plain, "to the server", 13);
}

// The keys that go to the kernel are those the engine uses.
static void test_kernel_keys_are_the_engines(void **state) {
    (void)state;
    tls_step client_step;
    tls_kernel_keys send, receive;
    assert_int_equal(attempt(TLS_CLIENT_NONE, false, "gw.example", &client_step), TLS_STEP_DONE);
    const br_ssl_engine_context *engine = &server.ssl.engine;
    assert_true(tls_kernel_keys_derive(&engine->session, engine->client_random, engine->server_random, false, &send,
                                       &receive));
    tls_cipher in, out, copy = {0};
    tls_handshake_ciphers(&server, &in, &out);
    if (out.u.gcm.vtable.gen == &br_sslrec_out_gcm_vtable) {
        br_sslrec_out_gcm_vtable.init(&copy.u.gcm.vtable.out, &br_aes_ct64_ctr_vtable, send.key, send.key_bytes,
                                      br_ghash_ctmul64, send.salt);
        copy.u.gcm.seq = out.u.gcm.seq;
    } else {
        br_sslrec_out_chapol_vtable.init(&copy.u.chapol.vtable.out, br_chacha20_ct_run, br_poly1305_ctmul_run, send.key,
                                         send.iv);
        copy.u.chapol.seq = out.u.chapol.seq;
    }
    u8 one[64] = {0}, other[64] = {0};
    u32 front = tls_record_front(&out);
    u32 bytes = tls_record_seal(&out, TLS_DATA, one + front, 8);
    assert_int_equal(tls_record_seal(&copy, TLS_DATA, other + front, 8), bytes);
    assert_memory_equal(one, other, sizeof(one));
    assert_int_equal(tls_cipher_sequence(&in), 1); // the Finished was number 0
    assert_int_equal(tls_cipher_sequence(&out), 2);
}

static void test_identity(void **state) {
    (void)state;
    tls_step client_step;
    char identity[LIMIT_TLS_IDENTITY_BYTES];
    assert_int_equal(attempt(TLS_CLIENT_REQUIRED, true, "gw.example", &client_step), TLS_STEP_DONE);
    assert_int_equal(tls_handshake_identity(&server, identity), 8);
    assert_memory_equal(identity, "device-7", 8);
    assert_int_equal(attempt(TLS_CLIENT_OPTIONAL, true, "gw.example", &client_step), TLS_STEP_DONE);
    assert_int_equal(tls_handshake_identity(&server, identity), 8);
    assert_int_equal(attempt(TLS_CLIENT_OPTIONAL, false, "gw.example", &client_step), TLS_STEP_DONE);
    assert_int_equal(tls_handshake_identity(&server, identity), 0);
}

static void test_refusals(void **state) {
    (void)state;
    tls_step client_step;
    u8 alert, record[TLS_ALERT_BYTES];
    assert_int_equal(attempt(TLS_CLIENT_REQUIRED, false, "gw.example", &client_step), TLS_STEP_FAILED);
    assert_int_equal(tls_handshake_failure(&server, &alert), TLS_FAIL_NO_CERTIFICATE);
    assert_false(tls_handshake_told(&server));
    assert_int_equal(tls_handshake_alert(&server, 40, record), 7); // in the clear
    assert_memory_equal(record, "\x15\x03\x03\x00\x02\x02\x28", 7);
    // The client does not want this server.
    attempt(TLS_CLIENT_NONE, false, "other.example", &client_step);
    assert_int_equal(client_step, TLS_STEP_FAILED);
    assert_int_equal(tls_handshake_failure(&client, &alert), TLS_FAIL_CERT_NAME);
    // A list that has the device's serial number.
    listener_config *conf = settings(TLS_CLIENT_REQUIRED);
    snprintf(conf->tls.deny, sizeof(conf->tls.deny), "crl.pem\n");
    tls_context *context = context_of(conf);
    tls_client *made = client_make(true);
    tls_handshake_server(&server, context);
    tls_handshake_client(&client, made, "gw.example", NULL);
    assert_int_equal(pair_run(&server, &client, &client_step), TLS_STEP_FAILED);
    assert_int_equal(tls_handshake_failure(&server, &alert), TLS_FAIL_CERT_REVOKED);
    tls_context_drop(context);
    // A name that the certificate does not have.
    conf = settings(TLS_CLIENT_REQUIRED);
    conf->tls.identity = TLS_ID_URI;
    context = context_of(conf);
    tls_handshake_server(&server, context);
    tls_handshake_client(&client, made, "gw.example", NULL);
    assert_int_equal(pair_run(&server, &client, &client_step), TLS_STEP_FAILED);
    assert_int_equal(tls_handshake_failure(&server, &alert), TLS_FAIL_IDENTITY);
    tls_context_drop(context);
    client_free(made);
}

static bool no_memory(void *to, const u8 *data, u32 len) {
    (void)to;
    (void)data;
    (void)len;
    return false;
}

static void test_no_memory_for_output(void **state) {
    (void)state;
    tls_client *made = client_make(false);
    assert_true(tls_handshake_client(&client, made, "gw.example", NULL));
    assert_int_equal(tls_handshake_feed(&client, NULL, 0, no_memory, NULL), TLS_STEP_NO_MEMORY);
    client_free(made);
}

static void test_every_failure_has_a_name(void **state) {
    (void)state;
    for (u32 i = 0; i < TLS_FAILURES; i++) assert_string_not_equal(tls_failure_name(i), "unknown");
    assert_string_equal(tls_failure_name(TLS_FAILURES), "unknown");
    for (int error = 0; error < 1024; error++) assert_in_range(tls_failure_of(error), 0, TLS_FAILURES - 1);
    assert_int_equal(tls_failure_of(BR_ERR_OK), TLS_OK);
}

// --- sessions ---

static tls_session session_make(u32 number, u64 ends_ns) {
    tls_session s = {.scope = 7, .ends_ns = ends_ns, .version = 0x0303, .suite = 0xc02b};
    memcpy(s.id, &number, sizeof(number));
    s.id[31] = 1;
    return s;
}

static void test_sessions(void **state) {
    (void)state;
    tls_session found;
    assert_int_equal(tls_sessions_init(), 0);
    tls_session s = session_make(1, 1000);
    assert_false(tls_sessions_get(s.id, 7, 10, &found));
    tls_sessions_put(&s, 10);
    assert_true(tls_sessions_get(s.id, 7, 10, &found));
    assert_memory_equal(&found, &s, sizeof(s));
    assert_false(tls_sessions_get(s.id, 8, 10, &found)); // made under other rules
    assert_false(tls_sessions_get(s.id, 7, 1000, &found)); // ended
    // Five in a set of four: the one that ends first gives way.
    for (u32 i = 0; i < 5; i++) {
        tls_session more = session_make(2, 2000 + i);
        more.id[8] = (u8)i;
        tls_sessions_put(&more, 10);
    }
    s = session_make(2, 0);
    assert_false(tls_sessions_get(s.id, 7, 10, &found));
    for (u32 i = 1; i < 5; i++) {
        s.id[8] = (u8)i;
        assert_true(tls_sessions_get(s.id, 7, 10, &found));
    }
    tls_sessions_free();
    assert_false(tls_sessions_get(s.id, 7, 10, &found));
}

static int files(void **state) {
    (void)state;
    pair_files();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ends_agree),      cmocka_unit_test(test_kernel_keys_are_the_engines),
        cmocka_unit_test(test_identity),             cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_no_memory_for_output), cmocka_unit_test(test_every_failure_has_a_name),
        cmocka_unit_test(test_sessions),
    };
    return cmocka_run_group_tests(tests, files, NULL);
}
