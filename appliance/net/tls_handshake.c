// SPDX-License-Identifier: Apache-2.0
// tls_handshake.c: BearSSL's engine, fed record by record.
#include "net/tls_handshake.h"

#include <string.h>
#include <sys/random.h>


#define ENTROPY_BYTES 48u

static br_ssl_engine_context *engine_of(tls_handshake *hs) {
    return &hs->ssl.engine;
}
_Static_assert(offsetof(br_ssl_server_context, eng) == 0 && offsetof(br_ssl_client_context, eng) == 0,
               "one pointer serves all three");

// --- resumption ---

static void session_save(const br_ssl_session_cache_class **ctx, br_ssl_server_context *server,
                         const br_ssl_session_parameters *params) {
    const tls_handshake *hs = CONTAINER_OF(ctx, tls_handshake, resumption.vtable);
    (void)server;
    if (hs->verifier.failure != TLS_OK) return; // tolerated by the engine, not by us
    u64 now_ns = clock_mono_ns();
    tls_session session = {
        .scope = hs->policy.context->scope,
        .ends_ns = now_ns + LIMIT_TLS_SESSION_S * NS_PER_S,
        .version = params->version,
        .suite = params->cipher_suite,
        .has_certificate = hs->verifier.shown,
    };
    memcpy(session.id, params->session_id, sizeof(session.id));
    memcpy(session.master, params->master_secret, sizeof(session.master));
    memcpy(session.digest, hs->verifier.digest, sizeof(session.digest));
    session.identity_len = (u8)tls_handshake_identity(hs, session.identity);
    tls_sessions_put(&session, now_ns);
    explicit_bzero(&session, sizeof(session));
}

static int session_load(const br_ssl_session_cache_class **ctx, br_ssl_server_context *server,
                        br_ssl_session_parameters *params) {
    tls_handshake *hs = CONTAINER_OF(ctx, tls_handshake, resumption.vtable);
    tls_session *session = &hs->resumption.session;
    (void)server;
    if (!tls_sessions_get(params->session_id, hs->policy.context->scope, clock_mono_ns(), session)) return 0;
    if (session->has_certificate && tls_context_denies(hs->policy.context, session->digest)) return 0;
    params->version = session->version;
    params->cipher_suite = session->suite;
    memcpy(params->master_secret, session->master, sizeof(params->master_secret));
    hs->resumption.resumed = true; // unless the client does not offer that suite any more: see below
    return 1;
}

static const br_ssl_session_cache_class session_class = {
    .context_size = sizeof(tls_resumption),
    .save = session_save,
    .load = session_load,
};

// The engine goes on with a new session when the client does not offer the old suite; it has another id then.
static bool was_resumed(const tls_handshake *hs) {
    return hs->resumption.resumed && memcmp(hs->ssl.engine.session.session_id, hs->resumption.session.id,
                                            TLS_SESSION_ID_BYTES) == 0;
}

// --- beginning ---

// BearSSL is built without a source of its own (RDRAND alone, or a file opened for each handshake).
static bool engine_begin(tls_handshake *hs) {
    u8 entropy[ENTROPY_BYTES];
    br_ssl_engine_context *engine = engine_of(hs);
    tls_profile_set(engine, &hs->curves);
    br_ssl_engine_set_buffers_bidi(engine, hs->in, sizeof(hs->in), hs->out, sizeof(hs->out));
    // The engine takes the smaller of the two for its own records, which is of no need: what it gets is looked
    // at before it gets it.
    engine->max_frag_len = TLS_OUT_FRAGMENT_BYTES;
    engine->log_max_frag_len = 12;
    if (getrandom(entropy, sizeof(entropy), 0) != (ssize_t)sizeof(entropy)) return false;
    br_ssl_engine_inject_entropy(engine, entropy, sizeof(entropy));
    explicit_bzero(entropy, sizeof(entropy));
    return true;
}
_Static_assert(1u << 12 == TLS_OUT_FRAGMENT_BYTES, "as the engine keeps it");

bool tls_handshake_server(tls_handshake *hs, const tls_context *context) {
    memset(hs, 0, sizeof(*hs));
    br_ssl_server_zero(&hs->ssl.server);
    if (!engine_begin(hs)) return false;
    u32 flags = BR_OPT_ENFORCE_SERVER_PREFERENCES | BR_OPT_NO_RENEGOTIATION;
    if (context->client_auth == TLS_CLIENT_OPTIONAL) flags |= BR_OPT_TOLERATE_NO_CLIENT_AUTH;
    br_ssl_engine_set_all_flags(engine_of(hs), flags);
    tls_policy_init(&hs->policy, context);
    br_ssl_server_set_policy(&hs->ssl.server, &hs->policy.vtable);
    if (context->client_auth != TLS_CLIENT_NONE) {
        tls_verifier_init_server(&hs->verifier, context);
        br_ssl_server_set_trust_anchor_names_alt(&hs->ssl.server, context->anchors, context->anchor_count);
        br_ssl_engine_set_x509(engine_of(hs), &hs->verifier.vtable);
    }
    if (context->sessions) {
        hs->resumption.vtable = &session_class;
        br_ssl_server_set_cache(&hs->ssl.server, &hs->resumption.vtable);
    }
    if (context->alpn_count > 0) {
        br_ssl_engine_set_protocol_names(engine_of(hs), (const char **)(uintptr_t)context->alpn, context->alpn_count);
    }
    return br_ssl_server_reset(&hs->ssl.server) == 1;
}

bool tls_handshake_client(tls_handshake *hs, const tls_client *client, const char *name,
                          const br_ssl_session_parameters *session) {
    memset(hs, 0, sizeof(*hs));
    hs->is_client = true;
    br_ssl_client_zero(&hs->ssl.client);
    if (!engine_begin(hs)) return false;
    // It would ask the server for small fragments (RFC 6066 section 4), which then bind our records as well.
    hs->ssl.engine.log_max_frag_len = 14;
    br_ssl_engine_set_all_flags(engine_of(hs), BR_OPT_NO_RENEGOTIATION);
    br_ssl_client_set_default_rsapub(&hs->ssl.client);
    tls_verifier_init_client(&hs->verifier, client->anchors, client->anchor_count);
    br_ssl_engine_set_x509(engine_of(hs), &hs->verifier.vtable);
    const tls_certificate *cert = &client->cert;
    if (cert->chain_len > 0 && br_skey_decoder_key_type(&cert->key) == BR_KEYTYPE_RSA) {
        br_ssl_client_set_single_rsa(&hs->ssl.client, cert->chain, cert->chain_len,
                                     br_skey_decoder_get_rsa(&cert->key), br_rsa_pkcs1_sign_get_default());
    } else if (cert->chain_len > 0) {
        br_ssl_client_set_single_ec(&hs->ssl.client, cert->chain, cert->chain_len, br_skey_decoder_get_ec(&cert->key),
                                    BR_KEYTYPE_SIGN, BR_KEYTYPE_EC, br_ec_get_default(),
                                    br_ecdsa_sign_asn1_get_default());
    }
    if (client->alpn != NULL) {
        hs->client_alpn = client->alpn;
        br_ssl_engine_set_protocol_names(engine_of(hs), &hs->client_alpn, 1);
    }
    bool again = session != NULL && session->session_id_len > 0;
    if (again) br_ssl_engine_set_session_parameters(engine_of(hs), session);
    return br_ssl_client_reset(&hs->ssl.client, name, again) == 1;
}

// --- going on ---

static bool take_output(tls_handshake *hs, tls_sink sink, void *to) {
    for (;;) {
        size_t len;
        const u8 *data = br_ssl_engine_sendrec_buf(engine_of(hs), &len);
        if (data == NULL || len == 0) return true;
        if (!sink(to, data, (u32)len)) return false;
        br_ssl_engine_sendrec_ack(engine_of(hs), len);
    }
}

static tls_step step_of(const tls_handshake *hs) {
    unsigned state = br_ssl_engine_current_state(&hs->ssl.engine);
    if (state & BR_SSL_CLOSED) return TLS_STEP_FAILED;
    if (!(state & BR_SSL_SENDAPP)) return TLS_STEP_MORE;
    // With BR_OPT_TOLERATE_NO_CLIENT_AUTH the engine lets a bad certificate pass like none. We do not.
    return hs->verifier.failure != TLS_OK ? TLS_STEP_FAILED : TLS_STEP_DONE;
}

tls_step tls_handshake_feed(tls_handshake *hs, const u8 *record, u32 bytes, tls_sink sink, void *to) {
    br_ssl_engine_context *engine = engine_of(hs);
    for (;;) {
        if (!take_output(hs, sink, to)) return TLS_STEP_NO_MEMORY;
        if (bytes == 0) break;
        size_t room;
        u8 *buf = br_ssl_engine_recvrec_buf(engine, &room);
        if (buf == NULL || room == 0) break; // closed; or the engine is stuck, which step_of does not call done
        u32 take = (u32)MIN(room, (size_t)bytes);
        memcpy(buf, record, take);
        br_ssl_engine_recvrec_ack(engine, take);
        record += take;
        bytes -= take;
    }
    return step_of(hs);
}

tls_failure tls_handshake_failure(const tls_handshake *hs, u8 *alert) {
    int error = br_ssl_engine_last_error(&hs->ssl.engine);
    bool received = error >= BR_ERR_RECV_FATAL_ALERT && error < BR_ERR_SEND_FATAL_ALERT;
    *alert = received ? (u8)(error - BR_ERR_RECV_FATAL_ALERT) : 0;
    if (hs->verifier.failure != TLS_OK) return hs->verifier.failure;
    // The only end without an error: the peer closed in the middle of it.
    return error == BR_ERR_OK ? TLS_FAIL_PEER_CLOSED : tls_failure_of(error);
}

bool tls_handshake_told(const tls_handshake *hs) {
    return br_ssl_engine_last_error(&hs->ssl.engine) >= BR_ERR_RECV_FATAL_ALERT;
}

u32 tls_handshake_alert(tls_handshake *hs, u8 alert, u8 out[TLS_ALERT_BYTES]) {
    const br_ssl_engine_context *engine = &hs->ssl.engine;
    bool clear = engine->out.vtable != &br_sslrec_out_gcm_vtable.inner &&
                 engine->out.vtable != &br_sslrec_out_chapol_vtable.inner;
    if (clear) {
        const u8 record[] = {TLS_ALERT, 3, 3, 0, 2, 2, alert};
        memcpy(out, record, sizeof(record));
        return sizeof(record);
    }
    tls_cipher in, cipher;
    tls_handshake_ciphers(hs, &in, &cipher);
    u32 front = tls_record_front(&cipher);
    out[front] = 2; // fatal
    out[front + 1] = alert;
    u32 bytes = tls_record_seal(&cipher, TLS_ALERT, out + front, 2);
    explicit_bzero(&in, sizeof(in));
    explicit_bzero(&cipher, sizeof(cipher));
    return bytes;
}

void tls_handshake_ciphers(const tls_handshake *hs, tls_cipher *in, tls_cipher *out) {
    const br_ssl_engine_context *engine = &hs->ssl.engine;
    memset(in, 0, sizeof(*in));
    memset(out, 0, sizeof(*out));
    if (engine->in.vtable == &br_sslrec_in_gcm_vtable.inner) in->u.gcm = engine->in.gcm;
    else in->u.chapol = engine->in.chapol;
    if (engine->out.vtable == &br_sslrec_out_gcm_vtable.inner) out->u.gcm = engine->out.gcm;
    else out->u.chapol = engine->out.chapol;
}

u32 tls_handshake_identity(const tls_handshake *hs, char out[LIMIT_TLS_IDENTITY_BYTES]) {
    if (was_resumed(hs)) {
        memcpy(out, hs->resumption.session.identity, hs->resumption.session.identity_len);
        return hs->resumption.session.identity_len;
    }
    if (!hs->verifier.shown || hs->verifier.failure != TLS_OK) return 0;
    u32 len = (u32)strnlen(hs->verifier.identity, LIMIT_TLS_IDENTITY_BYTES);
    memcpy(out, hs->verifier.identity, len);
    return len;
}

bool tls_handshake_resumed(const tls_handshake *hs) {
    return was_resumed(hs);
}
