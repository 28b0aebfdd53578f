// SPDX-License-Identifier: Apache-2.0
// tls_verify.c: a validator that wraps BearSSL's.
#include "net/tls_verify.h"

#include <string.h>


#define UNIX_DAY_0 719528u // days from the year 0 to 1970, as BearSSL counts
#define RSA_BYTES_MIN 256u // 2048 bits

static tls_verifier *verifier_of(const br_x509_class **ctx) {
    return CONTAINER_OF(ctx, tls_verifier, vtable);
}

static const br_x509_class **inner(tls_verifier *v) {
    return &v->minimal.vtable;
}

static void start_chain(const br_x509_class **ctx, const char *server_name) {
    tls_verifier *v = verifier_of(ctx);
    v->certificate = 0;
    v->own_len = 0;
    v->too_long = false;
    v->shown = false;
    v->failure = TLS_OK;
    v->minimal.vtable->start_chain(inner(v), server_name);
}

static void start_cert(const br_x509_class **ctx, uint32_t length) {
    tls_verifier *v = verifier_of(ctx);
    v->shown = true;
    if (v->certificate == 0) br_sha256_init(&v->sha);
    v->minimal.vtable->start_cert(inner(v), length);
}

static void append(const br_x509_class **ctx, const unsigned char *buf, size_t len) {
    tls_verifier *v = verifier_of(ctx);
    if (v->certificate == 0) {
        u32 take = MIN((u32)len, TLS_CERT_BYTES_MAX - v->own_len);
        memcpy(v->own + v->own_len, buf, take);
        v->own_len += take;
        v->too_long = v->too_long || take < len;
        br_sha256_update(&v->sha, buf, len);
    }
    v->minimal.vtable->append(inner(v), buf, len);
}

static void end_cert(const br_x509_class **ctx) {
    tls_verifier *v = verifier_of(ctx);
    if (v->certificate++ == 0) br_sha256_out(&v->sha, v->digest);
    v->minimal.vtable->end_cert(inner(v));
}

// What BearSSL knows nothing of.
static tls_failure own_checks(const tls_verifier *v) {
    cert_info info;
    u32 offset;
    u8 digest[TLS_DIGEST_BYTES];
    // A server may have hundreds of names, and was asked for its own. A client has one.
    if (v->too_long) return v->context == NULL ? TLS_OK : TLS_FAIL_TOO_LARGE;
    if (cert_read(v->own, v->own_len, &info, &offset) < 0) return TLS_FAIL_CERT_INVALID;
    if (!cert_is_for_purpose(&info, v->context == NULL ? CERT_OF_SERVER : CERT_OF_CLIENT)) return TLS_FAIL_CERT_USAGE;
    if (v->context == NULL) return TLS_OK;
    tls_serial_digest(info.issuer, info.serial, digest);
    if (tls_context_denies(v->context, v->digest) || tls_context_denies(v->context, digest)) {
        return TLS_FAIL_CERT_REVOKED;
    }
    return v->name.status == 1 && v->identity[0] != '\0' ? TLS_OK : TLS_FAIL_IDENTITY;
}

static unsigned end_chain(const br_x509_class **ctx) {
    tls_verifier *v = verifier_of(ctx);
    unsigned error = v->minimal.vtable->end_chain(inner(v));
    v->failure = error != 0 ? tls_failure_of((int)error) : own_checks(v);
    if (error == 0 && v->failure != TLS_OK) error = BR_ERR_X509_NOT_TRUSTED;
    return error;
}

static const br_x509_pkey *get_pkey(const br_x509_class *const *ctx, unsigned *usages) {
    const tls_verifier *v = CONTAINER_OF((const br_x509_class **)(uintptr_t)ctx, tls_verifier, vtable);
    return v->minimal.vtable->get_pkey(&v->minimal.vtable, usages);
}

static const br_x509_class verifier_class = {
    .context_size = sizeof(tls_verifier),
    .start_chain = start_chain,
    .start_cert = start_cert,
    .append = append,
    .end_cert = end_cert,
    .end_chain = end_chain,
    .get_pkey = get_pkey,
};

static void init(tls_verifier *out, const tls_context *context, const br_x509_trust_anchor *anchors, u32 count) {
    memset(out, 0, sizeof(*out));
    out->vtable = &verifier_class;
    out->context = context;
    br_x509_minimal_init(&out->minimal, &br_sha256_vtable, anchors, count);
    br_x509_minimal_set_rsa(&out->minimal, br_rsa_pkcs1_vrfy_get_default());
    br_x509_minimal_set_ecdsa(&out->minimal, br_ec_get_default(), br_ecdsa_vrfy_asn1_get_default());
    br_x509_minimal_set_hash(&out->minimal, br_sha256_ID, &br_sha256_vtable);
    br_x509_minimal_set_hash(&out->minimal, br_sha384_ID, &br_sha384_vtable);
    br_x509_minimal_set_hash(&out->minimal, br_sha512_ID, &br_sha512_vtable);
    br_x509_minimal_set_minrsa(&out->minimal, RSA_BYTES_MIN);
    u64 now_s = clock_real_ns() / NS_PER_S;
    br_x509_minimal_set_time(&out->minimal, (uint32_t)(now_s / 86400) + UNIX_DAY_0, (uint32_t)(now_s % 86400));
}

void tls_verifier_init_client(tls_verifier *out, const br_x509_trust_anchor *anchors, u32 count) {
    init(out, NULL, anchors, count);
}

void tls_verifier_init_server(tls_verifier *out, const tls_context *context) {
    // BearSSL's notation: an OID with its length, or 0 and the tag of a kind of alternative name.
    static const u8 common_name[] = {3, 0x55, 0x04, 0x03}, dns[] = {0, 2}, email[] = {0, 1}, uri[] = {0, 6};
    init(out, context, context->anchors, context->anchor_count);
    const u8 *oid = common_name;
    if (context->identity == TLS_ID_DNS) oid = dns;
    if (context->identity == TLS_ID_EMAIL) oid = email;
    if (context->identity == TLS_ID_URI) oid = uri;
    out->name = (br_name_element){.oid = oid, .buf = out->identity, .len = sizeof(out->identity)};
    br_x509_minimal_set_name_elements(&out->minimal, &out->name, 1);
}
