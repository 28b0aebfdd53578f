// SPDX-License-Identifier: Apache-2.0
// tls_deny.c: which client certificates are refused although they are validly signed: revocation lists (RFC 5280
// section 5) and plain lists of digests. Both become one sorted table of SHA-256 digests, so that a handshake asks
// twice by binary search and does no parsing.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "net/tls_context.h"
#include "net/tls_pem.h"

void tls_serial_digest(der issuer, der serial, u8 out[TLS_DIGEST_BYTES]) {
    br_sha256_context sha;
    br_sha256_init(&sha);
    br_sha256_update(&sha, issuer.at, issuer.left);
    br_sha256_update(&sha, serial.at, serial.left);
    br_sha256_out(&sha, out);
}

static int by_digest(const void *a, const void *b) {
    return memcmp(a, b, TLS_DIGEST_BYTES);
}

void tls_deny_sort(tls_context *context) {
    if (context->denied_count > 1) qsort(context->denied, context->denied_count, TLS_DIGEST_BYTES, by_digest);
}

bool tls_context_denies(const tls_context *context, const u8 digest[TLS_DIGEST_BYTES]) {
    return context->denied_count > 0 && bsearch(digest, context->denied, context->denied_count, TLS_DIGEST_BYTES,
                                                by_digest) != NULL;
}

// Grows by doubling. Returns 0, -ENOMEM or -E2BIG.
static int deny_add(tls_context *context, const u8 digest[TLS_DIGEST_BYTES]) {
    u32 count = context->denied_count;
    if (count == LIMIT_TLS_DENIED) return -E2BIG;
    if (count == 0 || (count >= 16 && IS_POWER_OF_TWO(count))) {
        void *grown = realloc(context->denied, TLS_DIGEST_BYTES * (size_t)MAX(count * 2, 16u));
        if (grown == NULL) return -ENOMEM;
        context->denied = grown;
    }
    memcpy(context->denied[context->denied_count++], digest, TLS_DIGEST_BYTES);
    return 0;
}

static int say_limit(const char *path, int result, char *why, size_t why_bytes) {
    if (result == -E2BIG) snprintf(why, why_bytes, "%s: more than %u denied certificates", path, LIMIT_TLS_DENIED);
    else snprintf(why, why_bytes, "%s: out of memory", path);
    return result;
}

// --- revocation lists ---

static const u8 *hash_oid(u8 hash) {
    // Length first, as BearSSL's RSA functions want it.
    static const u8 sha256[] = {9, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01};
    static const u8 sha384[] = {9, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02};
    static const u8 sha512[] = {9, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x03};
    return hash == br_sha256_ID ? sha256 : hash == br_sha384_ID ? sha384 : sha512;
}

static bool signed_by(const crl_info *crl, const br_x509_trust_anchor *ta) {
    const br_hash_class *class = crl->signature_hash == br_sha256_ID   ? &br_sha256_vtable
                                 : crl->signature_hash == br_sha384_ID ? &br_sha384_vtable
                                                                       : &br_sha512_vtable;
    size_t len = (class->desc >> BR_HASHDESC_OUT_OFF) & BR_HASHDESC_OUT_MASK;
    br_hash_compat_context hash;
    u8 digest[64], found[64];
    class->init(&hash.vtable);
    class->update(&hash.vtable, crl->tbs.at, crl->tbs.left);
    class->out(&hash.vtable, digest);
    if (crl->is_ecdsa) {
        return ta->pkey.key_type == BR_KEYTYPE_EC &&
               br_ecdsa_vrfy_asn1_get_default()(br_ec_get_default(), digest, len, &ta->pkey.key.ec,
                                                crl->signature.at, crl->signature.left) == 1;
    }
    return ta->pkey.key_type == BR_KEYTYPE_RSA &&
           br_rsa_pkcs1_vrfy_get_default()(crl->signature.at, crl->signature.left, hash_oid(crl->signature_hash), len,
                                           &ta->pkey.key.rsa, found) == 1 &&
           memcmp(found, digest, len) == 0;
}

static bool issuer_is(der issuer, const br_x509_trust_anchor *ta) {
    return issuer.left == ta->dn.len && memcmp(issuer.at, ta->dn.data, issuer.left) == 0;
}

static int crl_add(tls_context *context, const char *path, const pem_object *o, bool log, char *why,
                   size_t why_bytes) {
    crl_info crl;
    u32 offset;
    if (crl_read(o->data, o->len, &crl, &offset) < 0) {
        snprintf(why, why_bytes, "%s:%u: the revocation list is not understood at its byte %u", path, o->line, offset);
        return -EINVAL;
    }
    bool known = false;
    for (u32 i = 0; i < context->anchor_count && !known; i++) {
        known = issuer_is(crl.issuer, &context->anchors[i]) && signed_by(&crl, &context->anchors[i]);
    }
    if (!known) {
        snprintf(why, why_bytes, "%s:%u: the revocation list is not signed by a certificate in client_ca", path,
                 o->line);
        return -EINVAL;
    }
    if (log && crl.next_update_s != 0 && crl.next_update_s < (i64)(clock_real_ns() / NS_PER_S)) {
        log_warn("%s:%u: the revocation list should have been replaced by a newer one before now", path, o->line);
    }
    der serial;
    while (crl_next(&crl.revoked, &serial)) {
        u8 digest[TLS_DIGEST_BYTES];
        tls_serial_digest(crl.issuer, serial, digest);
        int result = deny_add(context, digest);
        if (result < 0) return say_limit(path, result, why, why_bytes);
    }
    if (crl.revoked.left == 0) return 0;
    snprintf(why, why_bytes, "%s:%u: an entry of the revocation list is damaged", path, o->line);
    return -EINVAL;
}

// --- lists of digests ---

static int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// One line: a digest, or nothing (blank, comment): then *any is false. False: it is neither.
static bool digest_line(const char *line, u32 len, u8 out[TLS_DIGEST_BYTES], bool *any) {
    u32 nibbles = 0;
    *any = false;
    for (u32 i = 0; i < len && line[i] != '#'; i++) {
        char c = line[i];
        if (c == ' ' || c == '\t' || c == '\r' || c == ':') continue;
        int value = hex_value(c);
        if (value < 0 || nibbles == 2 * TLS_DIGEST_BYTES) return false;
        out[nibbles / 2] = (u8)(nibbles % 2 == 0 ? value << 4 : out[nibbles / 2] | value);
        nibbles++;
    }
    *any = nibbles > 0;
    return nibbles == 0 || nibbles == 2 * TLS_DIGEST_BYTES;
}

static int digests_add(tls_context *context, const char *path, const char *text, u32 len, char *why,
                       size_t why_bytes) {
    u32 line = 1;
    for (u32 at = 0; at < len; line++) {
        const char *newline = memchr(text + at, '\n', len - at);
        u32 bytes = newline != NULL ? (u32)(newline - (text + at)) : len - at;
        u8 digest[TLS_DIGEST_BYTES];
        bool any;
        if (!digest_line(text + at, bytes, digest, &any)) {
            snprintf(why, why_bytes, "%s:%u: the SHA-256 of a certificate is expected, %u hexadecimal digits", path,
                     line, 2 * TLS_DIGEST_BYTES);
            return -EINVAL;
        }
        int result = any ? deny_add(context, digest) : 0;
        if (result < 0) return say_limit(path, result, why, why_bytes);
        at += bytes + 1;
    }
    return 0;
}

int tls_deny_load(tls_context *context, const char *path, bool log, char *why, size_t why_bytes) {
    char *text;
    u32 len, line = 0;
    int result = tls_file_read(path, &text, &len);
    if (result < 0) {
        snprintf(why, why_bytes, "%s: can not be read: %s (%s)", path, strerror(-result), errno_name(result));
        return result;
    }
    if (memmem(text, len, "-----BEGIN", 10) == NULL) {
        result = digests_add(context, path, text, len, why, why_bytes);
        tls_file_free(text, len);
        return result;
    }
    pem_file file;
    result = pem_parse(text, len, &file, &line);
    tls_file_free(text, len);
    if (result < 0) snprintf(why, why_bytes, "%s:%u: not valid PEM", path, line);
    for (u32 i = 0; i < file.count && result == 0; i++) {
        if (strcmp(file.objects[i].name, "X509 CRL") != 0) continue;
        result = crl_add(context, path, &file.objects[i], log, why, why_bytes);
    }
    pem_free(&file);
    return result;
}
