// SPDX-License-Identifier: Apache-2.0
// jwt_key.c: see jwt_key.h. Only two shapes of public key are of use, so the DER is read by a small strict reader:
// definite lengths in their shortest form, nothing behind the end.
#include "auth/jwt_key.h"

#include <string.h>

#include "auth/pbkdf2.h"
#include "base/cursor.h"

// --- DER ---

enum { DER_INTEGER = 0x02, DER_BIT_STRING = 0x03, DER_OID = 0x06, DER_SEQUENCE = 0x30 };

// Takes an element of that type. False: it is not one.
static bool der_take(cursor *c, u8 type, cursor *content) {
    if (cursor_u8(c) != type) return false;
    u32 len = cursor_u8(c);
    if (len > 0x82) return false;
    if (len == 0x80) return false; // indefinite
    if (len > 0x80) {
        u32 least = len == 0x81 ? 0x80 : 0x100;
        len = len == 0x81 ? cursor_u8(c) : cursor_u16(c);
        if (len < least) return false;
    }
    const u8 *data = cursor_take(c, len);
    if (data == NULL || c->overrun) return false;
    *content = cursor_of(data, len);
    return true;
}

static bool is_oid(const cursor *c, const u8 *oid, size_t len) {
    return cursor_left(c) == len && memcmp(c->at, oid, len) == 0;
}

// A positive integer without its leading zero, at the end of the key's bytes.
static bool integer_append(cursor *c, jwt_key *key, u32 *at, u32 *len) {
    cursor number;
    if (!der_take(c, DER_INTEGER, &number) || cursor_left(&number) == 0) return false;
    if (*number.at == 0) (void)cursor_u8(&number);
    *len = cursor_left(&number);
    if (*len == 0 || *number.at == 0 || *at + *len > sizeof(key->bytes)) return false;
    memcpy(key->bytes + *at, number.at, *len);
    return true;
}

static const char *rsa_parse(cursor bits, jwt_key *out) {
    cursor pair;
    u32 at = 0;
    out->kind = JWT_RS256;
    if (!der_take(&bits, DER_SEQUENCE, &pair) || cursor_left(&bits) > 0 ||
        !integer_append(&pair, out, &at, &out->len)) {
        return "the RSA key is malformed";
    }
    out->exponent_at = at = out->len;
    if (!integer_append(&pair, out, &at, &out->exponent_len) || cursor_left(&pair) > 0) {
        return "the RSA key is malformed";
    }
    if (out->len < 256 || out->len > 512) return "the RSA key is not one of 2048 to 4096 bits";
    return NULL;
}

static const char *ec_parse(cursor bits, jwt_key *out) {
    out->kind = JWT_ES256;
    out->len = cursor_left(&bits);
    if (out->len != 65 || *bits.at != 0x04) return "the EC key is not an uncompressed point of P-256";
    memcpy(out->bytes, bits.at, out->len);
    return NULL;
}

const char *jwt_key_parse_der(const u8 *der, size_t len, jwt_key *out) {
    static const u8 rsa[] = {0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01};
    static const u8 ec[] = {0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01};
    static const u8 p256[] = {0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07};
    cursor c = cursor_of(der, len), info, algorithm, oid, curve, bits;
    memset(out, 0, sizeof(*out));
    if (!der_take(&c, DER_SEQUENCE, &info) || cursor_left(&c) > 0 || !der_take(&info, DER_SEQUENCE, &algorithm) ||
        !der_take(&algorithm, DER_OID, &oid) || !der_take(&info, DER_BIT_STRING, &bits) || cursor_left(&info) > 0 ||
        cursor_left(&bits) < 2 || cursor_u8(&bits) != 0) {
        return "the public key is malformed";
    }
    if (is_oid(&oid, rsa, sizeof(rsa))) return rsa_parse(bits, out);
    if (!is_oid(&oid, ec, sizeof(ec))) return "the public key is neither RSA nor EC";
    if (!der_take(&algorithm, DER_OID, &curve) || !is_oid(&curve, p256, sizeof(p256))) {
        return "the EC key's curve is not P-256";
    }
    return ec_parse(bits, out);
}

// --- files ---

typedef struct der_buffer {
    u8 bytes[JWT_KEY_BYTES];
    size_t len;
    bool overflow;
} der_buffer;

static void der_append(void *context, const void *data, size_t len) {
    der_buffer *b = context;
    if (len > sizeof(b->bytes) - b->len) {
        b->overflow = true;
        return;
    }
    memcpy(b->bytes + b->len, data, len);
    b->len += len;
}

static const char *pem_parse(const char *text, size_t len, jwt_keys *out) {
    br_pem_decoder_context pem;
    der_buffer der = {.len = 0};
    bool wanted = false;
    br_pem_decoder_init(&pem);
    while (len > 0) {
        size_t used = br_pem_decoder_push(&pem, text, len);
        text += used;
        len -= used;
        switch (br_pem_decoder_event(&pem)) {
        case BR_PEM_BEGIN_OBJ:
            if (strstr(br_pem_decoder_name(&pem), "PRIVATE") != NULL) return "a private key: give the public one";
            wanted = strcmp(br_pem_decoder_name(&pem), "PUBLIC KEY") == 0;
            der.len = 0;
            br_pem_decoder_setdest(&pem, wanted ? der_append : NULL, &der);
            break;
        case BR_PEM_END_OBJ: {
            if (!wanted) break;
            if (out->count == LIMIT_JWT_KEYS) return "more than 4 keys";
            const char *wrong = der.overflow ? "the key is too long"
                                             : jwt_key_parse_der(der.bytes, der.len, &out->keys[out->count]);
            if (wrong != NULL) return wrong;
            out->count++;
            break;
        }
        case BR_PEM_ERROR: return "a PEM block is malformed";
        default: break;
        }
    }
    return out->count > 0 ? NULL : "no PEM block \"PUBLIC KEY\"";
}

const char *jwt_keys_parse(const char *text, size_t len, jwt_keys *out) {
    memset(out, 0, sizeof(*out));
    if (memmem(text, len, "-----BEGIN ", 11) != NULL) return pem_parse(text, len, out);
    if (len > 0 && text[len - 1] == '\n') len--;
    if (len > 0 && text[len - 1] == '\r') len--;
    if (len < 32) return "a secret has at least 32 bytes (RFC 7518 section 3.2)";
    if (len > JWT_KEY_BYTES) return "the secret is longer than 1024 bytes";
    out->keys[0] = (jwt_key){.kind = JWT_HS256, .len = (u32)len};
    memcpy(out->keys[0].bytes, text, len);
    out->count = 1;
    return NULL;
}

// --- signatures (RFC 7518 section 3) ---

static bool rsa_verify(const jwt_key *key, const u8 hash[32], const u8 *signature, size_t len) {
    u8 found[32], modulus[512], exponent[512];
    if (len != key->len || key->exponent_len > sizeof(exponent)) return false;
    memcpy(modulus, key->bytes, key->len);
    memcpy(exponent, key->bytes + key->exponent_at, key->exponent_len);
    br_rsa_public_key pk = {modulus, key->len, exponent, key->exponent_len};
    if (!br_rsa_pkcs1_vrfy_get_default()(signature, len, BR_HASH_OID_SHA256, sizeof(found), &pk, found)) return false;
    return secret_is_equal(found, hash, sizeof(found));
}

static bool ec_verify(const jwt_key *key, const u8 hash[32], const u8 *signature, size_t len) {
    u8 point[65];
    if (len != 64) return false;
    memcpy(point, key->bytes, sizeof(point));
    br_ec_public_key pk = {BR_EC_secp256r1, point, sizeof(point)};
    return br_ecdsa_vrfy_raw_get_default()(br_ec_get_default(), hash, 32, &pk, signature, len) == 1;
}

bool jwt_key_verify(const jwt_key *key, const void *text, size_t len, const u8 *signature, size_t signature_len) {
    u8 hash[32];
    if (key->kind == JWT_HS256) {
        secret_hmac(&br_sha256_vtable, key->bytes, key->len, text, len, hash);
        return signature_len == sizeof(hash) && secret_is_equal(hash, signature, sizeof(hash));
    }
    br_sha256_context sha;
    br_sha256_init(&sha);
    br_sha256_update(&sha, text, len);
    br_sha256_out(&sha, hash);
    return key->kind == JWT_RS256 ? rsa_verify(key, hash, signature, signature_len)
                                  : ec_verify(key, hash, signature, signature_len);
}
