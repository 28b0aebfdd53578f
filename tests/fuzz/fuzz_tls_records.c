// SPDX-License-Identifier: Apache-2.0
// fuzz_tls_records.c: the seam of TLS: any bytes as records of a client, whole or cut, into a server's handshake, and
// as sealed records behind one. Nothing unauthentic may come out, and nothing may be written beyond a record.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../unit/tls_pair.h"

#define CHECK(ok) \
    do { \
        if (!(ok)) abort(); \
    } while (0)

static tls_context *context;
static tls_cipher sealed_in;

static void prepare(void) {
    static listener_config conf;
    static tls_handshake server, client;
    char why[768], directory[] = "/tmp/fuzz-tls-XXXXXX";
    CHECK(mkdtemp(directory) != NULL && chdir(directory) == 0);
    pair_files();
    snprintf(conf.name, sizeof(conf.name), "fuzz");
    snprintf(conf.tls.cert, sizeof(conf.tls.cert), "server.pem\n");
    snprintf(conf.tls.key, sizeof(conf.tls.key), "server.key\n");
    snprintf(conf.tls.client_ca, sizeof(conf.tls.client_ca), "ca.pem\n");
    conf.tls.client_auth = TLS_CLIENT_OPTIONAL;
    CHECK(tls_context_load(&conf, false, &context, why, sizeof(why)) == 0);
    tls_client trusting = {0};
    CHECK(tls_anchors_load("ca.pem", &trusting.anchors, &trusting.anchor_count, why, sizeof(why)) == 0);
    tls_step step;
    tls_cipher out;
    CHECK(tls_handshake_server(&server, context) && tls_handshake_client(&client, &trusting, "gw.example", NULL));
    CHECK(pair_run(&server, &client, &step) == TLS_STEP_DONE);
    tls_handshake_ciphers(&server, &sealed_in, &out);
    tls_anchors_free(trusting.anchors, trusting.anchor_count);
}

static void feed_handshake(const u8 *data, u32 len) {
    static tls_handshake hs;
    static wire out;
    out.used = 0;
    CHECK(tls_handshake_server(&hs, context));
    tls_step step = TLS_STEP_MORE;
    for (u32 at = 0; at + TLS_HEADER_BYTES <= len && step == TLS_STEP_MORE;) {
        u8 type;
        u32 bytes = tls_record_bytes(data + at, &type);
        if (bytes == 0 || bytes > len - at) break;
        u8 *record = malloc(bytes); // of its size: a read beyond it is seen
        memcpy(record, data + at, bytes);
        step = tls_handshake_feed(&hs, record, bytes, wire_sink, &out);
        free(record);
        at += bytes;
    }
    CHECK(step != TLS_STEP_DONE); // nobody guesses a Finished
    u8 alert, told[TLS_ALERT_BYTES];
    if (step != TLS_STEP_FAILED) return;
    tls_failure failure = tls_handshake_failure(&hs, &alert);
    CHECK(failure > TLS_OK && failure < TLS_FAILURES);
    CHECK(tls_handshake_alert(&hs, 40, told) <= sizeof(told));
}

static void open_records(const u8 *data, u32 len) {
    tls_cipher in = sealed_in;
    for (u32 at = 0; at + TLS_HEADER_BYTES <= len;) {
        u8 type;
        u32 bytes = tls_record_bytes(data + at, &type), plain_len;
        if (bytes == 0 || bytes > len - at) break;
        u8 *record = malloc(bytes);
        memcpy(record, data + at, bytes);
        CHECK(tls_record_open(&in, record, bytes, &plain_len) == NULL); // nobody guesses a tag
        free(record);
        at += bytes;
    }
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
    if (context == NULL) prepare();
    if (size == 0 || size > 20000) return 0;
    if (data[0] & 1) feed_handshake(data + 1, (u32)size - 1);
    else open_records(data + 1, (u32)size - 1);
    return 0;
}
