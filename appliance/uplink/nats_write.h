// SPDX-License-Identifier: Apache-2.0
// nats_write.h: what a NATS client sends: CONNECT, SUB, HPUB. Text into the caller's memory; pure, but for the
// allocations of the JSON writer. (docs.nats.io, "Client Protocol"; ADR-4 for headers; JetStream's Nats-Msg-
// Id.)
#ifndef SLUICE_UPLINK_NATS_WRITE_H
#define SLUICE_UPLINK_NATS_WRITE_H

#include "uplink/message.h"
#include "uplink/nats_parse.h"

// What is in an INFO.
typedef struct nats_info {
    u32 max_payload;   // 0: not told
    bool headers;
    bool jetstream;
    bool tls_required, tls_available;
    bool lame_duck;    // the server is about to stop: go elsewhere
    char server[64];   // name or id
    char nonce[128];   // to be signed by who logs in with a key; "" = none
} nats_info;
// Returns 0, -EINVAL (not JSON, or not an object) or -ENOMEM.
int nats_info_parse(nats_text json, nats_info *out);

// The answer of JetStream to a publication.
typedef struct nats_puback {
    bool stored;        // or known already: duplicate
    bool duplicate;
    u32 code, err_code; // of a refusal
    char text[96];      // the same
} nats_puback;
// Returns 0, -EINVAL (not an answer of JetStream) or -ENOMEM.
int nats_puback_parse(const u8 *json, u32 len, nats_puback *out);

typedef struct nats_login {
    const char *name; // of the connection
    const char *user, *password, *token; // "" = none
    const char *public_key, *jwt;        // of a key, "" = none; the JWT stands in place of its public key
    const char *signature;               // of the nonce; goes with these
    bool tls;
} nats_login;
// "CONNECT {...}\r\n". Returns the length, -ENOSPC or -ENOMEM.
int nats_write_connect(const nats_login *login, char *out, u32 room);

// The head of a publication, up to its payload, which follows with CR LF behind it. reply: where the answer is
// to go. Returns the length or -ENOSPC.
int nats_write_publish_head(const uplink_message *m, const char *subject, u32 subject_len, const char *reply,
                            const char *message_id, const char *via, char *out, u32 room);

#endif
