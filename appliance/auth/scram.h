// SPDX-License-Identifier: Apache-2.0
// scram.h: the server's side of SCRAM-SHA-256 (RFC 5802, RFC 7677), for MQTT 5's enhanced authentication. Bytes in,
// bytes out; the nonce comes from the caller. Without channel binding: "p=" is refused, "y" is taken. The password is
// never seen, and nothing here is slow: the iterations are the client's work.
//
// SASLprep (RFC 4013) is not applied: user names and passwords are compared as the bytes they are, which is the same
// for ASCII and for text that is in normal form already.
//
// A user that does not exist gets an answer like any other, with a salt that is always the same for it, and fails
// at the end.
#ifndef SLUICE_AUTH_SCRAM_H
#define SLUICE_AUTH_SCRAM_H

#include "auth/password_file.h"
#include "limits.h"

#define SCRAM_METHOD "SCRAM-SHA-256"
#define SCRAM_NONCE_BYTES 24u          // of the server's: printable ASCII without a comma
#define SCRAM_TEXT_BYTES 1024u         // the longest message of a client
#define SCRAM_FINAL_BYTES 64u          // room for the server's last message

typedef struct scram {
    password_entry entry;              // what is compared with
    bool known;
    char user[LIMIT_USER_BYTES];
    u32 user_len;
    u32 gs2_len;                       // header of the first message, kept in gs2
    char gs2[LIMIT_USER_BYTES * 3 + 8];
    u32 nonce_at, nonce_len;           // both sides' nonce, in text
    u32 first_at, first_len;           // the server's first message, in text
    u32 used;
    char text[4 * SCRAM_TEXT_BYTES];   // what is signed: AuthMessage; three messages of bounded length
} scram;

// Takes the client's first message. NULL: the answer is scram_challenge; else what is wrong with it.
const char *scram_begin(scram *s, const password_file *f, const void *data, u32 len,
                        const char nonce[SCRAM_NONCE_BYTES]);
static inline const char *scram_challenge(const scram *s, u32 *len) {
    *len = s->first_len;
    return s->text + s->first_at;
}
// Takes the client's last message. NULL: it knows the password; final and *final_len are for it. Else why not, by
// name, for the log. The exchange is over in either case; s->user stays.
const char *scram_finish(scram *s, const void *data, u32 len, char final[SCRAM_FINAL_BYTES], u32 *final_len);

// Makes StoredKey and ServerKey of a salted password (32 bytes each).
void scram_keys(const u8 salted[32], u8 stored[32], u8 server[32]);

#endif
