// SPDX-License-Identifier: Apache-2.0
// tls_pair.h: a client and a server handshake in one thread, records passed between them by hand.
#ifndef SLUICE_TESTS_TLS_PAIR_H
#define SLUICE_TESTS_TLS_PAIR_H

#include <stdio.h>
#include <string.h>

#include "net/tls_handshake.h"
#include "../unit/tls_files.h"

typedef struct wire {
    u8 bytes[65536];
    u32 used;
} wire;

static bool wire_sink(void *to, const u8 *data, u32 len) {
    wire *w = to;
    if (w->used + len > sizeof(w->bytes)) return false;
    memcpy(w->bytes + w->used, data, len);
    w->used += len;
    return true;
}

// Takes the first record off the wire into out. Returns its bytes, 0 = none whole.
static u32 wire_record(wire *w, u8 *out) {
    u8 type;
    if (w->used < TLS_HEADER_BYTES) return 0;
    u32 bytes = tls_record_bytes(w->bytes, &type);
    if (bytes == 0 || bytes > w->used) return 0;
    memcpy(out, w->bytes, bytes);
    memmove(w->bytes, w->bytes + bytes, w->used - bytes);
    w->used -= bytes;
    return bytes;
}

UNUSED static void pair_files(void) {
    const struct {
        const char *name, *text;
    } files[] = {{"ca.pem", tls_ca_pem},         {"server.pem", tls_server_pem}, {"server.key", tls_server_key_pem},
                 {"device.pem", tls_device_pem}, {"device.key", tls_device_key_pem}, {"crl.pem", tls_crl_pem}};
    for (u32 i = 0; i < ARRAY_LEN(files); i++) {
        FILE *f = fopen(files[i].name, "w");
        if (f == NULL) return;
        fputs(files[i].text, f);
        fclose(f);
    }
}

// Runs both to their end. Returns the server's last step; *client its own.
UNUSED static tls_step pair_run(tls_handshake *server, tls_handshake *client, tls_step *client_step) {
    static wire to_server, to_client;
    static u8 record[TLS_RECORD_BYTES_MAX];
    to_server.used = to_client.used = 0;
    tls_step server_step = TLS_STEP_MORE;
    *client_step = tls_handshake_feed(client, NULL, 0, wire_sink, &to_server);
    for (u32 turns = 0; turns < 100; turns++) {
        u32 bytes = wire_record(&to_server, record);
        if (bytes > 0 && server_step == TLS_STEP_MORE) {
            server_step = tls_handshake_feed(server, record, bytes, wire_sink, &to_client);
            continue;
        }
        bytes = wire_record(&to_client, record);
        if (bytes == 0) break;
        if (*client_step == TLS_STEP_MORE) {
            *client_step = tls_handshake_feed(client, record, bytes, wire_sink, &to_server);
        }
    }
    return server_step;
}

#endif
