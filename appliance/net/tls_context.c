// SPDX-License-Identifier: Apache-2.0
// tls_context.c: a listener's tls block made into what handshakes use.
#include "net/tls_context.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "net/tls_pem.h"

#define PATH_BYTES 256u

// The next file of a list in which each is ended by a newline. False: there is none.
static bool next_path(const char **list, char out[PATH_BYTES]) {
    size_t len = strcspn(*list, "\n");
    if (**list == '\0') return false;
    snprintf(out, PATH_BYTES, "%.*s", (int)len, *list);
    *list += len + ((*list)[len] == '\n');
    return true;
}

static int certs_load(tls_context *context, const listener_config *conf, char *why, size_t why_bytes) {
    const char *certs = conf->tls.cert, *keys = conf->tls.key;
    char cert[PATH_BYTES], key[PATH_BYTES];
    while (next_path(&certs, cert)) {
        if (!next_path(&keys, key)) memcpy(key, cert, sizeof(key));
        int result = tls_certificate_load(cert, key, &context->certs[context->cert_count], why, why_bytes);
        if (result < 0) return result;
        context->cert_count++;
    }
    return 0;
}

// What a resumed session leaves out is the check of the client's certificate: a session is worth as much as
// the rules it was made under, so these have a number. Of the files' bytes: a reload of the same ones ends nothing.
static int scope_add(br_sha256_context *sha, const char *list) {
    char path[PATH_BYTES], *text;
    while (next_path(&list, path)) {
        u32 len;
        int result = tls_file_read(path, &text, &len);
        if (result < 0) return result;
        br_sha256_update(sha, text, len);
        br_sha256_update(sha, "|", 1);
        tls_file_free(text, len);
    }
    return 0;
}

static int scope_make(tls_context *context, const listener_config *conf) {
    br_sha256_context sha;
    u8 digest[br_sha256_SIZE];
    br_sha256_init(&sha);
    br_sha256_update(&sha, conf->name, strlen(conf->name) + 1);
    const u8 rules[2] = {(u8)conf->tls.client_auth, (u8)conf->tls.identity};
    br_sha256_update(&sha, rules, sizeof(rules));
    int result = scope_add(&sha, conf->tls.client_ca);
    if (result == 0) result = scope_add(&sha, conf->tls.deny);
    br_sha256_out(&sha, digest);
    memcpy(&context->scope, digest, sizeof(context->scope));
    return result;
}

static int clients_load(tls_context *context, const listener_config *conf, bool log, char *why, size_t why_bytes) {
    const char *list = conf->tls.client_ca;
    char path[PATH_BYTES];
    int result = 0;
    if (conf->tls.client_auth == TLS_CLIENT_NONE) return 0;
    while (result == 0 && next_path(&list, path)) {
        result = tls_anchors_load(path, &context->anchors, &context->anchor_count, why, why_bytes);
    }
    list = conf->tls.deny;
    while (result == 0 && next_path(&list, path)) result = tls_deny_load(context, path, log, why, why_bytes);
    tls_deny_sort(context);
    return result;
}

static void alpn_set(tls_context *context, const char *text) {
    snprintf(context->alpn_text, sizeof(context->alpn_text), "%s", text);
    char *rest = NULL;
    for (char *name = strtok_r(context->alpn_text, " ", &rest); name != NULL; name = strtok_r(NULL, " ", &rest)) {
        if (context->alpn_count < LIMIT_TLS_ALPN) context->alpn[context->alpn_count++] = name;
    }
}

int tls_context_load(const listener_config *conf, bool log, tls_context **out, char *why, size_t why_bytes) {
    tls_context *context = calloc(1, sizeof(*context));
    char reason[512] = "out of memory";
    int result = context == NULL ? -ENOMEM : 0;
    if (result == 0) {
        context->refs = 1;
        snprintf(context->name, sizeof(context->name), "%s", conf->name);
        context->client_auth = conf->tls.client_auth;
        context->identity = conf->tls.identity;
        context->sessions = conf->tls.sessions;
        context->handshake_timeout_ms = conf->tls.handshake_timeout_ms;
        context->handshakes_per_address = conf->tls.handshakes_per_address;
        alpn_set(context, conf->tls.alpn);
        result = certs_load(context, conf, reason, sizeof(reason));
    }
    if (result == 0) result = clients_load(context, conf, log, reason, sizeof(reason));
    if (result == 0) {
        result = scope_make(context, conf);
        if (result < 0) snprintf(reason, sizeof(reason), "a file changed while it was read");
    }
    if (result < 0) {
        snprintf(why, why_bytes, "listener %s: tls: %s", conf->name, reason);
        tls_context_drop(context);
        return result;
    }
    if (log) tls_context_warn_expiry(context);
    *out = context;
    return 0;
}

tls_context *tls_context_hold(tls_context *context) {
    if (context != NULL) __atomic_fetch_add(&context->refs, 1, __ATOMIC_RELAXED);
    return context;
}

void tls_context_drop(tls_context *context) {
    if (context == NULL || __atomic_sub_fetch(&context->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
    for (u32 i = 0; i < context->cert_count; i++) tls_certificate_free(&context->certs[i]);
    tls_anchors_free(context->anchors, context->anchor_count);
    free(context->denied);
    free(context);
}

void tls_context_warn_expiry(const tls_context *context) {
    i64 now_s = (i64)(clock_real_ns() / NS_PER_S);
    for (u32 i = 0; i < context->cert_count; i++) {
        const tls_certificate *cert = &context->certs[i];
        i64 left_s = cert->info.not_after_s - now_s;
        if (left_s < 0) {
            log_error("listener %s: tls: the certificate in %s ended %lld days ago: clients refuse it", context->name,
                      cert->file, (long long)(-left_s / 86400));
        } else if (left_s < LIMIT_TLS_EXPIRY_WARN_S) {
            log_warn("listener %s: tls: the certificate in %s ends in %lld days", context->name, cert->file,
                     (long long)(left_s / 86400));
        } else if (cert->info.not_before_s > now_s) {
            log_warn("listener %s: tls: the certificate in %s is not valid yet: is this machine's clock right?",
                     context->name, cert->file);
        }
    }
}

bool tls_expiry_check_is_due(i64 *last_s, i64 now_s) {
    i64 passed_s = now_s - *last_s;
    if (passed_s >= 0 && passed_s < 86400) return false;
    *last_s = now_s;
    return true;
}

// --- what is in force ---

static pthread_mutex_t places = PTHREAD_MUTEX_INITIALIZER;

void tls_context_publish(tls_context **place, tls_context *context) {
    pthread_mutex_lock(&places);
    tls_context *before = *place;
    *place = tls_context_hold(context);
    pthread_mutex_unlock(&places);
    tls_context_drop(before);
}

tls_context *tls_context_at(tls_context **place) {
    pthread_mutex_lock(&places);
    tls_context *context = tls_context_hold(*place);
    pthread_mutex_unlock(&places);
    return context;
}

const char *tls_certificate_key_text(const tls_certificate *cert, char out[TLS_KEY_TEXT]) {
    const br_rsa_private_key *rsa = br_skey_decoder_get_rsa(&cert->key);
    const br_ec_private_key *ec = br_skey_decoder_get_ec(&cert->key);
    if (rsa != NULL) snprintf(out, TLS_KEY_TEXT, "RSA %u", rsa->n_bitlen);
    else if (ec != NULL) snprintf(out, TLS_KEY_TEXT, "ECDSA %s", ec->curve == BR_EC_secp256r1 ? "P-256" : "P-384");
    else out[0] = '\0';
    return out;
}
