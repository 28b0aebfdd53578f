// SPDX-License-Identifier: Apache-2.0
// grant.c: see grant.h.
#include "auth/grant.h"

#include <errno.h>
#include <string.h>

#include "auth/rate.h"
#include "base/siphash.h"

static const char *const result_names[AUTH_RESULTS] = {
#define AUTH_RESULT_NAME(symbol, text) [AUTH_##symbol] = (text),
    AUTH_RESULTS_LIST(AUTH_RESULT_NAME)
#undef AUTH_RESULT_NAME
};

const char *auth_result_name(u32 result) {
    return result < AUTH_RESULTS ? result_names[result] : "unknown";
}

static const char *const scope_names[RATE_SCOPES] = {
#define RATE_SCOPE_NAME(symbol, text) [RATE_OF_##symbol] = (text),
    RATE_SCOPES_LIST(RATE_SCOPE_NAME)
#undef RATE_SCOPE_NAME
};

const char *rate_scope_name(u32 scope) {
    return scope < RATE_SCOPES ? scope_names[scope] : "unknown";
}

// --- making ---

// What the policy says about the client's topics.
static void rules_take(auth_grant *g) {
    const auth_policy *p = g->policy;
    memset(g->remembered, 0, sizeof(g->remembered));
    bool has_acl = p != NULL && p->has_acl;
    g->restricted = has_acl || g->who.rules != NULL;
    g->own = g->who.rules;
    if (g->own == NULL && has_acl) g->own = acl_rules_of(&p->acl, g->who.user, g->who.user_len);
}

int grant_make(pool *memory, auth_policy *policy, const auth_identity *who, bool rated, auth_grant **out) {
    *out = NULL;
    if (policy == NULL && who->expires_ns == 0 && !rated) return 0;
    u32 bytes = (u32)sizeof(auth_grant) + who->user_len + 1 + who->rules_len + 1;
    auth_grant *g = pool_alloc(memory, bytes);
    if (g == NULL) return -ENOMEM;
    memset(g, 0, sizeof(*g));
    g->bytes = bytes;
    g->who = *who;
    char *at = g->text;
    if (who->user != NULL) {
        memcpy(at, who->user, who->user_len);
        g->who.user = at;
    }
    at += who->user_len;
    *at++ = '\0';
    if (who->rules != NULL) {
        memcpy(at, who->rules, who->rules_len);
        g->who.rules = at;
    }
    at[who->rules_len] = '\0';
    g->policy = auth_policy_ref(policy);
    rules_take(g);
    *out = g;
    return 0;
}

void grant_free(pool *memory, auth_grant *g) {
    if (g == NULL) return;
    rate_detach(g);
    auth_policy_unref(g->policy);
    pool_free(memory, g, g->bytes);
}

auth_result grant_verdict(const auth_identity *who, const auth_policy *policy, bool anonymous) {
    if (who->how == AUTH_ANONYMOUS && !anonymous) return AUTH_REVOKED;
    if (who->how == AUTH_PASSWORD || who->how == AUTH_SCRAM) {
        bool scram = who->how == AUTH_SCRAM;
        const password_entry *e = policy == NULL || !policy->has_passwords
                                      ? NULL
                                      : password_file_find(&policy->passwords, who->user, who->user_len, scram);
        if (e == NULL || e->fingerprint != who->fingerprint) return AUTH_REVOKED;
    }
    if (who->how == AUTH_JWT && (policy == NULL || !policy->has_jwt)) return AUTH_REVOKED;
    return who->how;
}

auth_result grant_renew(auth_grant *g, auth_policy *policy, bool anonymous) {
    auth_result result = grant_verdict(&g->who, policy, anonymous);
    if (!auth_lets_in(result)) return result;
    auth_policy *old = g->policy;
    g->policy = auth_policy_ref(policy);
    auth_policy_unref(old);
    rules_take(g);
    return result;
}

// --- asking ---

static acl_subject subject_of(const auth_grant *g, const char *client, u32 client_len) {
    return (acl_subject){
        .user = g->who.user,
        .user_len = g->who.user_len,
        .client = client,
        .client_len = client_len,
        .own = g->own,
        .own_is_token = g->who.rules != NULL,
    };
}

static const acl *acl_of(const auth_grant *g) {
    return g->policy != NULL && g->policy->has_acl ? &g->policy->acl : NULL;
}

bool grant_allows(auth_grant *g, const char *client, u32 client_len, u8 access, const char *topic, u32 len) {
    if (!g->restricted) return true;
    u64 hash = siphash24(siphash_process_key(), topic, len) & ~15ull;
    u64 *slot = &g->remembered[hash >> 60 & (GRANT_REMEMBERED - 1)];
    if ((*slot & ~15ull) != hash) *slot = hash;
    u64 asked = (u64)access << 2, allowed = access;
    if ((*slot & asked) == 0) {
        acl_subject who = subject_of(g, client, client_len);
        *slot |= asked;
        if (acl_allows(acl_of(g), &who, access, topic, len)) *slot |= allowed;
    }
    return (*slot & allowed) != 0;
}

bool grant_allows_filter(const auth_grant *g, const char *client, u32 client_len, const char *filter, u32 len) {
    if (!g->restricted) return true;
    acl_subject who = subject_of(g, client, client_len);
    return acl_allows_filter(acl_of(g), &who, filter, len);
}

// --- rates ---

// A bucket as a time: it is `used` up to there. What may be saved up is a second.
static u64 bucket_due(u64 *used_ns, u64 cost_ns, u64 now_ns) {
    u64 oldest = now_ns > NS_PER_S ? now_ns - NS_PER_S : 0;
    if (*used_ns < oldest) *used_ns = oldest;
    u64 after = *used_ns + MIN(cost_ns, NS_PER_S);
    return after <= now_ns ? 0 : after;
}

static u64 message_cost(grant_rates r) {
    return r.messages_per_s == 0 ? 0 : NS_PER_S / r.messages_per_s;
}

static u64 byte_cost(grant_rates r, u32 bytes) {
    return r.bytes_per_s == 0 ? 0 : (u64)((double)bytes * (double)NS_PER_S / (double)r.bytes_per_s);
}

u64 grant_rate_due(auth_grant *g, grant_rates rates, u32 bytes, u64 now_ns) {
    u64 due = rates.messages_per_s == 0 ? 0 : bucket_due(&g->message_ns, message_cost(rates), now_ns);
    u64 byte_due = rates.bytes_per_s == 0 ? 0 : bucket_due(&g->byte_ns, byte_cost(rates, bytes), now_ns);
    return MAX(due, byte_due);
}

void grant_rate_charge(auth_grant *g, grant_rates rates, u32 bytes) {
    g->message_ns += message_cost(rates);
    g->byte_ns += byte_cost(rates, bytes);
}
