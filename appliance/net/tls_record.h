// SPDX-License-Identifier: Apache-2.0
// tls_record.h: the record layer of TLS 1.2 (RFC 5246 section 6.2) with AEAD suites, once a handshake is done: one
// record in place, no buffer of its own. The cryptography is BearSSL's, whose record contexts are taken over from
// its engine as they stand. Also the keys as the kernel wants them. Pure; the caller owns memory.
#ifndef SLUICE_NET_TLS_RECORD_H
#define SLUICE_NET_TLS_RECORD_H

#include <bearssl.h>

#include "base/base.h"

#define TLS_HEADER_BYTES 5u
#define TLS_PLAIN_BYTES_MAX 16384u
// Nonce and tag of AES-GCM (RFC 5288); ChaCha20-Poly1305 (RFC 7905) has the tag alone.
#define TLS_OVERHEAD_BYTES 24u
#define TLS_RECORD_BYTES_MAX (TLS_HEADER_BYTES + TLS_PLAIN_BYTES_MAX + TLS_OVERHEAD_BYTES)
// Room for a record's header and explicit nonce in front of the plaintext, and behind it.
#define TLS_ROOM_FRONT 16u
#define TLS_ROOM_BEHIND 16u

enum { TLS_CHANGE_CIPHER_SPEC = 20, TLS_ALERT = 21, TLS_HANDSHAKE = 22, TLS_DATA = 23 };

// One direction. Copied from br_ssl_engine_context.in or .out; has no pointer into itself.
typedef struct tls_cipher {
    union {
        const br_sslrec_in_class *in;
        const br_sslrec_out_class *out;
        br_sslrec_gcm_context gcm;
        br_sslrec_chapol_context chapol;
    } u;
} tls_cipher;

// Whole size of the record that starts at head (TLS_HEADER_BYTES of it); 0: no TLS 1.x record, or one
// beyond the standard's limit. *type receives its type. In a handshake the version is not looked at beyond
// its first byte (RFC 5246 appendix E.1).
u32 tls_record_bytes(const u8 head[TLS_HEADER_BYTES], u8 *type);
// Opens a whole record in place. Returns the plaintext, inside it, with its length in *plain_len; NULL: the
// record was altered or is too short or long.
u8 *tls_record_open(tls_cipher *in, u8 *record, u32 bytes, u32 *plain_len);
// Where plaintext has to lie behind the start of a record's room: its header and nonce.
u32 tls_record_front(const tls_cipher *out);
// Seals len bytes at plain; tls_record_front bytes before it and TLS_ROOM_BEHIND behind are written too. Returns the
// size of the record, which starts at plain - tls_record_front.
u32 tls_record_seal(tls_cipher *out, u8 type, u8 *plain, u32 len);
// Number of the next record.
u64 tls_cipher_sequence(const tls_cipher *cipher);

// --- keys for the kernel ---

// What linux/tls.h's structures are made of, one direction.
typedef struct tls_kernel_keys {
    u16 cipher;        // TLS_CIPHER_AES_GCM_128, _256 or TLS_CIPHER_CHACHA20_POLY1305
    u8 key_bytes, salt_bytes, iv_bytes;
    u8 key[32];
    u8 salt[4];        // AES-GCM: the implicit part of the nonce
    u8 iv[12];         // AES-GCM: first explicit nonce, 8 bytes; ChaCha20: the whole
    u8 sequence[8];
} tls_kernel_keys;

// Derives both directions again from the session (RFC 5246 section 6.3). False: a suite the kernel does not
// know. sequence is left 0. Wipe both.
bool tls_kernel_keys_derive(const br_ssl_session_parameters *session, const u8 client_random[32],
                            const u8 server_random[32], bool is_client, tls_kernel_keys *send,
                            tls_kernel_keys *receive);
void tls_kernel_keys_sequence(tls_kernel_keys *keys, u64 sequence);

#endif
