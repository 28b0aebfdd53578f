// SPDX-License-Identifier: Apache-2.0
// tls_load.c: certificate chains, private keys and trust anchors from files. Every failure is a sentence that names
// the file and what is wrong in it; what is wrong with a key never shows anything of the key.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/tls_context.h"
#include "net/tls_pem.h"

#define RSA_BITS_MIN 2048u
#define RSA_BITS_MAX 4096u

// Reads a file and cuts it into objects.
static int objects_load(const char *path, pem_file *out, char *why, size_t why_bytes) {
    char *text;
    u32 len, line = 0;
    *out = (pem_file){0};
    int result = tls_file_read(path, &text, &len);
    if (result < 0) {
        snprintf(why, why_bytes, "%s: can not be read: %s (%s)", path, strerror(-result), errno_name(result));
        return result;
    }
    result = pem_parse(text, len, out, &line);
    tls_file_free(text, len);
    if (result == -EINVAL) snprintf(why, why_bytes, "%s:%u: not valid PEM", path, line);
    else if (result == -E2BIG) snprintf(why, why_bytes, "%s:%u: more than %u objects", path, line,
                                        LIMIT_TLS_PEM_OBJECTS);
    else if (result < 0) snprintf(why, why_bytes, "%s: out of memory", path);
    if (result < 0) pem_free(out);
    return result;
}

static bool is_certificate(const pem_object *o) {
    return strcmp(o->name, "CERTIFICATE") == 0 || strcmp(o->name, "X509 CERTIFICATE") == 0;
}

static bool is_private_key(const pem_object *o) {
    return strcmp(o->name, "PRIVATE KEY") == 0 || strcmp(o->name, "EC PRIVATE KEY") == 0 ||
           strcmp(o->name, "RSA PRIVATE KEY") == 0;
}

// --- trust anchors ---

typedef struct name_buf {
    u8 *data;
    u32 len, room;
    bool failed;
} name_buf;

static void name_append(void *context, const void *data, size_t len) {
    name_buf *n = context;
    if (n->failed) return;
    if (n->len + len > n->room) {
        u32 room = MAX(n->room * 2, (u32)(n->len + len));
        u8 *grown = realloc(n->data, room);
        if (grown == NULL) {
            n->failed = true;
            return;
        }
        n->data = grown;
        n->room = room;
    }
    memcpy(n->data + n->len, data, len);
    n->len += (u32)len;
}

static u8 *copy_of(const u8 *data, size_t len) {
    u8 *copy = malloc(MAX(len, (size_t)1));
    if (copy != NULL) memcpy(copy, data, len);
    return copy;
}

// The numbers of a public key, in memory of their own. False: out of memory.
static bool pkey_copy(const br_x509_pkey *from, br_x509_pkey *to) {
    *to = *from;
    if (from->key_type == BR_KEYTYPE_RSA) {
        to->key.rsa.n = copy_of(from->key.rsa.n, from->key.rsa.nlen);
        to->key.rsa.e = copy_of(from->key.rsa.e, from->key.rsa.elen);
        return to->key.rsa.n != NULL && to->key.rsa.e != NULL;
    }
    to->key.ec.q = copy_of(from->key.ec.q, from->key.ec.qlen);
    return to->key.ec.q != NULL;
}

static void anchor_free(br_x509_trust_anchor *ta) {
    free(ta->dn.data);
    if (ta->pkey.key_type == BR_KEYTYPE_RSA) {
        free(ta->pkey.key.rsa.n);
        free(ta->pkey.key.rsa.e);
    } else if (ta->pkey.key_type == BR_KEYTYPE_EC) {
        free(ta->pkey.key.ec.q);
    }
}

void tls_anchors_free(br_x509_trust_anchor *anchors, u32 count) {
    for (u32 i = 0; i < count; i++) anchor_free(&anchors[i]);
    free(anchors);
}

static int anchor_make(const char *path, const pem_object *o, br_x509_trust_anchor *out, char *why,
                       size_t why_bytes) {
    br_x509_decoder_context decoder;
    name_buf name = {0};
    *out = (br_x509_trust_anchor){0};
    br_x509_decoder_init(&decoder, name_append, &name);
    br_x509_decoder_push(&decoder, o->data, o->len);
    const br_x509_pkey *key = br_x509_decoder_get_pkey(&decoder);
    out->dn.data = name.data;
    out->dn.len = name.len;
    if (key == NULL) {
        snprintf(why, why_bytes, "%s:%u: not a certificate that is understood (error %d)", path, o->line,
                 br_x509_decoder_last_error(&decoder));
        return -EINVAL;
    }
    if (name.failed || !pkey_copy(key, &out->pkey)) {
        snprintf(why, why_bytes, "%s: out of memory", path);
        return -ENOMEM;
    }
    out->flags = br_x509_decoder_isCA(&decoder) ? BR_X509_TA_CA : 0;
    return 0;
}

int tls_anchors_load(const char *path, br_x509_trust_anchor **anchors, u32 *count, char *why, size_t why_bytes) {
    pem_file file;
    int result = objects_load(path, &file, why, why_bytes);
    if (result < 0) return result;
    u32 before = *count;
    br_x509_trust_anchor *grown = realloc(*anchors, sizeof(**anchors) * (*count + file.count + 1));
    if (grown == NULL) {
        snprintf(why, why_bytes, "%s: out of memory", path);
        result = -ENOMEM;
    } else {
        *anchors = grown;
    }
    for (u32 i = 0; i < file.count && result == 0; i++) {
        if (!is_certificate(&file.objects[i])) continue;
        result = anchor_make(path, &file.objects[i], &grown[*count], why, why_bytes);
        if (result == 0) (*count)++;
        else anchor_free(&grown[*count]);
    }
    if (result == 0 && *count == before) {
        snprintf(why, why_bytes, "%s: no certificate in it", path);
        result = -EINVAL;
    }
    pem_free(&file);
    return result;
}

// --- own certificates ---

static int chain_make(const char *path, const pem_file *file, tls_certificate *out, char *why, size_t why_bytes) {
    out->chain = calloc(LIMIT_TLS_CHAIN, sizeof(*out->chain));
    if (out->chain == NULL) {
        snprintf(why, why_bytes, "%s: out of memory", path);
        return -ENOMEM;
    }
    for (u32 i = 0; i < file->count; i++) {
        const pem_object *o = &file->objects[i];
        if (!is_certificate(o)) continue;
        if (out->chain_len == LIMIT_TLS_CHAIN) {
            snprintf(why, why_bytes, "%s:%u: more than %u certificates in the chain", path, o->line, LIMIT_TLS_CHAIN);
            return -EINVAL;
        }
        cert_info info;
        u32 offset;
        u8 *copy = copy_of(o->data, o->len);
        if (copy == NULL) {
            snprintf(why, why_bytes, "%s: out of memory", path);
            return -ENOMEM;
        }
        out->chain[out->chain_len++] = (br_x509_certificate){copy, o->len};
        if (cert_read(copy, o->len, &info, &offset) < 0) {
            snprintf(why, why_bytes, "%s:%u: the certificate is damaged at its byte %u", path, o->line, offset);
            return -EINVAL;
        }
        if (out->chain_len == 1) out->info = info;
    }
    if (out->chain_len > 0) return 0;
    snprintf(why, why_bytes, "%s: no certificate in it", path);
    return -EINVAL;
}

static int key_make(const char *path, const pem_file *file, tls_certificate *out, char *why, size_t why_bytes) {
    for (u32 i = 0; i < file->count; i++) {
        const pem_object *o = &file->objects[i];
        if (strcmp(o->name, "ENCRYPTED PRIVATE KEY") == 0) {
            snprintf(why, why_bytes, "%s:%u: the private key is encrypted; the gateway asks nobody for a password",
                     path, o->line);
            return -EINVAL;
        }
        if (!is_private_key(o)) continue;
        br_skey_decoder_init(&out->key);
        br_skey_decoder_push(&out->key, o->data, o->len);
        if (br_skey_decoder_last_error(&out->key) == 0) return 0;
        snprintf(why, why_bytes, "%s:%u: not a private key that is understood (RSA or EC; error %d)", path, o->line,
                 br_skey_decoder_last_error(&out->key));
        return -EINVAL;
    }
    snprintf(why, why_bytes, "%s: no private key in it", path);
    return -EINVAL;
}

static bool rsa_matches(const br_rsa_private_key *key, const br_x509_pkey *cert) {
    u8 modulus[RSA_BITS_MAX / 8 + 8];
    br_rsa_compute_modulus compute = br_rsa_compute_modulus_get_default();
    size_t len = compute(NULL, key);
    if (cert->key_type != BR_KEYTYPE_RSA || len > sizeof(modulus)) return false;
    compute(modulus, key);
    const u8 *n = cert->key.rsa.n;
    size_t n_len = cert->key.rsa.nlen;
    while (n_len > 0 && *n == 0) {
        n++;
        n_len--;
    }
    return n_len == len && memcmp(n, modulus, len) == 0;
}

static bool ec_matches(const br_ec_private_key *key, const br_x509_pkey *cert) {
    u8 buf[BR_EC_KBUF_PUB_MAX_SIZE];
    br_ec_public_key pub;
    if (cert->key_type != BR_KEYTYPE_EC || cert->key.ec.curve != key->curve) return false;
    size_t len = br_ec_compute_pub(br_ec_get_default(), &pub, buf, key);
    return len > 0 && len == cert->key.ec.qlen && memcmp(pub.q, cert->key.ec.q, len) == 0;
}

// The key is of a kind that can be used, and is the certificate's.
static int pair_check(const char *cert_path, const char *key_path, const tls_certificate *cert, char *why,
                      size_t why_bytes) {
    br_x509_decoder_context decoder;
    br_x509_decoder_init(&decoder, NULL, NULL);
    br_x509_decoder_push(&decoder, cert->chain[0].data, cert->chain[0].data_len);
    const br_x509_pkey *pub = br_x509_decoder_get_pkey(&decoder);
    const br_rsa_private_key *rsa = br_skey_decoder_get_rsa(&cert->key);
    const br_ec_private_key *ec = br_skey_decoder_get_ec(&cert->key);
    if (pub == NULL) {
        snprintf(why, why_bytes, "%s: the certificate's public key is not RSA or EC", cert_path);
        return -EINVAL;
    }
    if (rsa != NULL && (rsa->n_bitlen < RSA_BITS_MIN || rsa->n_bitlen > RSA_BITS_MAX)) {
        snprintf(why, why_bytes, "%s: an RSA key of %u bits; allowed: %u to %u", key_path, (u32)rsa->n_bitlen,
                 RSA_BITS_MIN, RSA_BITS_MAX);
        return -EINVAL;
    }
    if (ec != NULL && ec->curve != BR_EC_secp256r1 && ec->curve != BR_EC_secp384r1) {
        snprintf(why, why_bytes, "%s: an EC key on another curve; allowed: P-256, P-384", key_path);
        return -EINVAL;
    }
    if (rsa != NULL ? rsa_matches(rsa, pub) : ec_matches(ec, pub)) return 0;
    snprintf(why, why_bytes, "%s: is not the key of the certificate in %s", key_path, cert_path);
    return -EINVAL;
}

int tls_certificate_load(const char *cert_path, const char *key_path, tls_certificate *out, char *why,
                         size_t why_bytes) {
    pem_file file;
    *out = (tls_certificate){0};
    snprintf(out->file, sizeof(out->file), "%s", cert_path);
    int result = objects_load(cert_path, &file, why, why_bytes);
    if (result == 0) result = chain_make(cert_path, &file, out, why, why_bytes);
    pem_free(&file);
    if (result == 0) result = objects_load(key_path, &file, why, why_bytes);
    if (result == 0) result = key_make(key_path, &file, out, why, why_bytes);
    pem_free(&file);
    if (result == 0) result = pair_check(cert_path, key_path, out, why, why_bytes);
    if (result < 0) tls_certificate_free(out);
    return result;
}

void tls_certificate_free(tls_certificate *cert) {
    for (u32 i = 0; i < cert->chain_len; i++) free(cert->chain[i].data);
    free(cert->chain);
    explicit_bzero(cert, sizeof(*cert));
}
