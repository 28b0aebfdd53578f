// SPDX-License-Identifier: Apache-2.0
// tls_layer.h: what the files of the TLS layer share: tls.c (handshake and life), tls_open.c (records of an open
// connection), tls_admission.c (whose turn it is). Nobody else includes it.
#ifndef SLUICE_NET_TLS_LAYER_H
#define SLUICE_NET_TLS_LAYER_H

#include "net/layer.h"
#include "net/tls.h"

typedef enum tls_phase { TLS_PLAIN, TLS_WAITING, TLS_IN_HANDSHAKE, TLS_HANDOVER, TLS_OPEN, TLS_ENDED } tls_phase;
typedef enum tls_queue { TLS_NOT_QUEUED, TLS_QUEUE_READY, TLS_QUEUE_SLOTS } tls_queue;

typedef struct tls_layer {
    layer base;            // first
    u8 phase, queue;
    u8 alerts;             // warnings received
    u8 failure, peer_alert; // tls_failure, when failed
    bool is_client, resumed, failed, counted;
    u8 identity_len;
    u16 suite;
    u16 out_max;           // plain bytes of a record: fewer when the client has asked for that (RFC 6066 section 4)
    u32 held_start, held_used, held_size;
    u8 *held;              // bytes of records that are not done with; borrowed
    tls_handshake *hs;     // borrowed, in handshake and handover
    u32 hs_size;
    tls_context *context;  // reference, until open; NULL for clients
    const tls_client *client; // clients
    const char *server_name;
    struct tls_layer *next, *prev;             // in the queue
    struct tls_layer *next_active, *prev_active; // of those with hs, least recent progress first
    u64 progress_ns;
    tls_cipher in, out;
    char identity[LIMIT_TLS_IDENTITY_BYTES];
} tls_layer;
_Static_assert(sizeof(tls_layer) <= 1024, "one buffer of 1 KiB: what an idle TLS connection costs");

extern const layer_ops tls_layer_ops;

static inline tls_layer *tls_of(layer *l) {
    return CONTAINER_OF(l, tls_layer, base);
}

// tls.c
void tls_layer_step(tls_layer *t);                  // feeds one record to the handshake; t has hs
bool tls_layer_begin(tls_layer *t);                 // makes hs, which was just lent; false: failed, and is told
bool tls_layer_has_record(const tls_layer *t);      // a whole record is held
void tls_layer_fail(tls_layer *t, tls_failure failure, u8 peer_alert); // told, logged, counted, closed
int tls_layer_hold_bytes(tls_layer *t, const u8 *data, u32 len, u32 room); // keeps them; 0 or CLOSE_NO_MEMORY
void tls_layer_held_free(tls_layer *t);

// tls_open.c
int tls_open_input(tls_layer *t, u8 *data, u32 len);
int tls_open_output(layer *l, const struct iovec *pieces, u32 count, u32 bytes);
int tls_open_error(layer *l, int result);
void tls_open_closing(layer *l);

// tls_admission.c
void tls_admission_enqueue(tls_layer *t);           // it has a record for its handshake
void tls_admission_leave(tls_layer *t);             // out of all lists; gives hs back

#endif
