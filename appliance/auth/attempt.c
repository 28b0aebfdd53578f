// SPDX-License-Identifier: Apache-2.0
// attempt.c: see attempt.h.
//
//   RUNNING  -> JUDGED              right
//   RUNNING  -> DELAYED -> JUDGED   wrong; or at once DELAYED: wrong before there was anything to compute
//   EXCHANGE -> DELAYED -> JUDGED   SCRAM, where the protocol does the work: wrong
#include "auth/attempt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "net/address_rate.h"
#include "net/listener.h"
#include "net/tls.h"
#include "worker.h"

typedef enum attempt_state { RUNNING, EXCHANGE, DELAYED, JUDGED } attempt_state;

typedef struct auth_attempt auth_attempt;
struct auth_attempt {
    conn *c;
    auth_attempt *next, *prev; // RUNNING: in the queue
    timer_node timer;          // DELAYED
    u64 begun_ns, deadline_ns; // RUNNING
    auth_policy *policy;
    attempt_state state;
    auth_identity who;
    const char *why;           // for the log; NULL: the result's name
    char user[LIMIT_USER_BYTES], client[64];
    u32 user_len, client_len;
    u32 id_len;                // user_is_id: a token's sub must be the user
    jwt_claims claims;
    char *token;               // malloc; NULL: a password is checked
    u32 token_len;
    password_check check;
    auth_exchange *exchange;
};

typedef struct auth_worker {
    auth_attempt **by_slot;    // conns_max of them; zero pages until used
    auth_attempt *head, *tail; // RUNNING ones
    timer_node work, recheck;
    u32 count;
    u32 recheck_at;            // connections before it were asked
    u64 logged_ns;             // second that `logged` lines belong to
    u32 logged, unlogged;
} auth_worker;

static void work_run(timer_node *node, void *context);
static void recheck_run(timer_node *node, void *context);

static auth_worker *auth_of(worker *w) {
    if (w->auth != NULL || w->conns_max == 0) return w->auth;
    auth_worker *a = calloc(1, sizeof(*a));
    if (a == NULL) return NULL;
    a->by_slot = calloc(w->conns_max, sizeof(*a->by_slot));
    if (a->by_slot == NULL) {
        free(a);
        return NULL;
    }
    a->work.callback = work_run;
    a->recheck.callback = recheck_run;
    w->auth = a;
    return a;
}

static auth_attempt *attempt_of(const conn *c) {
    const auth_worker *a = c->owner->auth;
    return a == NULL ? NULL : a->by_slot[c->table_slot];
}

// --- the queue ---

static void queue_append(auth_worker *a, auth_attempt *t) {
    t->next = NULL;
    t->prev = a->tail;
    if (a->tail != NULL) a->tail->next = t;
    else a->head = t;
    a->tail = t;
}

static void queue_remove(auth_worker *a, auth_attempt *t) {
    if (t->prev != NULL) t->prev->next = t->next;
    else a->head = t->next;
    if (t->next != NULL) t->next->prev = t->prev;
    else a->tail = t->prev;
    t->next = t->prev = NULL;
}

// --- records ---

static void exchange_free(worker *w, auth_exchange *x) {
    if (x == NULL) return;
    if (x->connect != NULL) worker_buf_free(w, x->connect, x->connect_size);
    secret_wipe(x, sizeof(*x));
    free(x);
}

static void attempt_free(auth_worker *a, auth_attempt *t) {
    worker *w = t->c->owner;
    if (t->state == RUNNING) queue_remove(a, t);
    timer_cancel(w->wheel, &t->timer);
    a->by_slot[t->c->table_slot] = NULL;
    a->count--;
    exchange_free(w, t->exchange);
    auth_policy_unref(t->policy);
    free(t->claims.rules);
    if (t->token != NULL) secret_wipe(t->token, t->token_len);
    free(t->token);
    secret_wipe(t, sizeof(*t));
    free(t);
}

void auth_forget(conn *c) {
    auth_attempt *t = attempt_of(c);
    if (t != NULL) attempt_free(c->owner->auth, t);
}

static void delay_over(timer_node *node, void *context) {
    (void)context;
    auth_attempt *t = CONTAINER_OF(node, auth_attempt, timer);
    t->state = JUDGED;
    conn_unblock(t->c);
}

static auth_attempt *attempt_make(conn *c, attempt_state state) {
    auth_worker *a = auth_of(c->owner);
    if (a == NULL || a->count >= LIMIT_AUTH_ATTEMPTS) return NULL;
    auth_attempt *t = calloc(1, sizeof(*t));
    if (t == NULL) return NULL;
    const listener_config *conf = listener_settings(c->origin);
    t->c = c;
    t->state = state;
    t->timer.callback = delay_over;
    t->begun_ns = c->owner->now_ns;
    t->deadline_ns = c->owner->now_ns + conf->hello_timeout_ms * NS_PER_MS;
    t->policy = auth_policy_ref(conf->auth);
    a->by_slot[c->table_slot] = t;
    a->count++;
    return t;
}

static void names_keep(auth_attempt *t, const auth_request *r) {
    t->user_len = MIN(r->user_len, (u32)sizeof(t->user));
    t->client_len = MIN(r->client_len, (u32)sizeof(t->client));
    if (r->user != NULL) memcpy(t->user, r->user, t->user_len);
    if (r->client != NULL) memcpy(t->client, r->client, t->client_len);
    t->id_len = r->user_is_id ? t->user_len : 0;
}

// --- results ---

void auth_count(worker *w, auth_result result) {
    counter_add(&w->metrics.auth_results[result], 1);
}

// A line for each, but not so many that they are all there is.
static void log_refusal(const auth_attempt *t) {
    worker *w = t->c->owner;
    auth_worker *a = w->auth;
    if (w->now_ns - a->logged_ns >= NS_PER_S) {
        if (a->unlogged > 0) log_warn("auth: %u more clients were refused in the last second", a->unlogged);
        a->logged_ns = w->now_ns;
        a->logged = a->unlogged = 0;
    }
    if (a->logged >= LIMIT_AUTH_LOG_PER_S) {
        a->unlogged++;
        return;
    }
    a->logged++;
    char peer[CONN_PEER_TEXT];
    log_info("auth: %s on listener %s: client \"%.*s\", user \"%.*s\" refused: %s", conn_peer_text(t->c, peer),
             t->c->origin->conf.name, (int)t->client_len, t->client, (int)t->user_len, t->user,
             t->why != NULL ? t->why : auth_result_name(t->who.how));
}

void auth_revoked(conn *c, const char *id, u32 id_len, auth_result result) {
    char peer[CONN_PEER_TEXT];
    auth_count(c->owner, result);
    log_info("auth: %s on listener %s: client \"%.*s\" is no longer let in: %s", conn_peer_text(c, peer),
             c->origin->conf.name, (int)MIN(id_len, 64u), id, auth_result_name(result));
}

static bool has_address(const conn *c) {
    return c->peer_family == AF_INET || c->peer_family == AF_INET6;
}

bool auth_is_barred(const conn *c) {
    const listener_config *conf = listener_settings(c->origin);
    return conf->auth_failures > 0 && has_address(c) &&
           address_rate_is_failing(c->peer_addr, conf->auth_failures, c->owner->now_ns);
}

// When a client is told. After a computation, at the next multiple of the delay from its begin: how long it took tells
// nothing about whether there is such a user, and how many iterations its line has.
static u64 told_ns(const auth_attempt *t, u64 delay_ns) {
    u64 now_ns = t->c->owner->now_ns;
    if (t->state != RUNNING || delay_ns == 0) return now_ns + delay_ns;
    return t->begun_ns + ((now_ns - t->begun_ns) / delay_ns + 1) * delay_ns;
}

// Wrong: counted, logged, and answered later.
static void attempt_refuse(auth_attempt *t, auth_result result, const char *why) {
    conn *c = t->c;
    worker *w = c->owner;
    const listener_config *conf = listener_settings(c->origin);
    u64 due_ns = told_ns(t, conf->auth_delay_ms * NS_PER_MS);
    t->state = DELAYED;
    t->who = (auth_identity){.how = result};
    t->why = why;
    auth_count(w, result);
    log_refusal(t);
    bool guess = result != AUTH_RATE && result != AUTH_BUSY && result != AUTH_NO_IDENTITY;
    if (guess && conf->auth_failures > 0 && has_address(c)) {
        address_rate_failed(c->peer_addr, conf->auth_failures, w->now_ns);
    }
    timer_arm(w->wheel, &t->timer, due_ns);
}

static void attempt_let_in(auth_attempt *t) {
    t->state = JUDGED;
    auth_count(t->c->owner, t->who.how);
    conn_unblock(t->c);
}

// --- work ---

static void password_done(auth_attempt *t) {
    bool right = password_check_end(&t->check), known = t->check.known;
    if (auth_is_barred(t->c)) { // others of its address have failed meanwhile: guesses made at once are guesses too
        attempt_refuse(t, AUTH_RATE, NULL);
        return;
    }
    if (!right) {
        attempt_refuse(t, known ? AUTH_WRONG_PASSWORD : AUTH_UNKNOWN_USER, NULL);
        return;
    }
    const password_entry *e = password_file_find(&t->policy->passwords, t->user, t->user_len, false);
    t->who = (auth_identity){
        .how = AUTH_PASSWORD, .user = t->user, .user_len = t->user_len, .fingerprint = e->fingerprint};
    attempt_let_in(t);
}

static void token_done(auth_attempt *t) {
    const worker *w = t->c->owner;
    if (auth_is_barred(t->c)) {
        attempt_refuse(t, AUTH_RATE, NULL);
        return;
    }
    u64 now_s = clock_real_ns() / NS_PER_S;
    jwt_verdict verdict = jwt_check(&t->policy->jwt, t->token, t->token_len, now_s, &t->claims);
    if (verdict != JWT_FINE) {
        attempt_refuse(t, AUTH_JWT_REFUSED, jwt_verdict_name(verdict));
        return;
    }
    const jwt_claims *claims = &t->claims;
    bool other = t->id_len > 0 && claims->user_len > 0 &&
                 (claims->user_len != t->id_len || memcmp(claims->user, t->user, t->id_len) != 0);
    if (other) {
        attempt_refuse(t, AUTH_JWT_REFUSED, "jwt_other_device");
        return;
    }
    t->who = (auth_identity){
        .how = AUTH_JWT,
        .user = claims->user_len > 0 ? claims->user : NULL,
        .user_len = claims->user_len,
        .expires_ns = jwt_expires_ns(claims, now_s, w->now_ns),
        .rules = claims->rules,
        .rules_len = claims->rules_len,
    };
    attempt_let_in(t);
}

// One slice for the one that waits longest, which then goes behind the others.
static void work_run(timer_node *node, void *context) {
    worker *w = context;
    auth_worker *a = CONTAINER_OF(node, auth_worker, work);
    auth_attempt *t = a->head;
    if (t == NULL) return;
    queue_remove(a, t);
    if (w->now_ns >= t->deadline_ns) {
        attempt_refuse(t, AUTH_BUSY, NULL);
    } else if (t->token != NULL) {
        token_done(t);
    } else if (password_check_run(&t->check, LIMIT_AUTH_SLICE_ITERATIONS)) {
        password_done(t);
    } else {
        queue_append(a, t);
    }
    if (a->head != NULL) timer_arm(w->wheel, &a->work, 0);
}

static void work_begin(auth_attempt *t, const auth_request *r, bool token) {
    worker *w = t->c->owner;
    auth_worker *a = w->auth;
    if (token) {
        t->token = malloc(r->secret_len);
        if (t->token == NULL) {
            attempt_refuse(t, AUTH_BUSY, NULL);
            return;
        }
        memcpy(t->token, r->secret, r->secret_len);
        t->token_len = r->secret_len;
    } else {
        password_check_begin(&t->check, &t->policy->passwords, r->user, r->user_len, r->secret, r->secret_len);
    }
    queue_append(a, t);
    if (!timer_is_armed(&a->work)) timer_arm(w->wheel, &a->work, 0);
}

// --- judging ---

// Compares with the listener's token in time that depends on the token's buffer only.
static bool token_is(const listener_config *conf, const auth_request *r) {
    const u8 *given = r->secret;
    volatile u8 difference = 0;
    u32 len = 0;
    for (u32 i = 0; i < sizeof(conf->token); i++) {
        bool inside = conf->token[i] != 0 && len == i;
        u8 other = i < r->secret_len ? given[i] : 0;
        if (inside) len++;
        difference = (u8)(difference | (inside ? (u8)conf->token[i] ^ other : 0));
    }
    return difference == 0 && r->secret_len == len;
}

enum { NEEDS_PASSWORD = AUTH_RESULTS, NEEDS_TOKEN };

// What can be said at once: a result, or NEEDS_*. certified: a certificate has proved the client's name.
static u32 judge_now(const listener_config *conf, const auth_request *r, bool certified) {
    const auth_policy *p = conf->auth;
    bool passwords = p != NULL && p->has_passwords, jwt = p != NULL && p->has_jwt;
    bool anonymous = conf->anonymous && conf->token[0] == '\0'; // a token is always asked for
    bool has_user = r->user != NULL && !r->user_is_id;
    if (certified && (r->secret == NULL || (!passwords && !jwt && conf->token[0] == '\0'))) return AUTH_CERTIFICATE;
    if (r->secret == NULL && !has_user) return anonymous ? AUTH_ANONYMOUS : AUTH_NO_IDENTITY;
    if (anonymous && !passwords && !jwt) return AUTH_ANONYMOUS; // asks for nothing
    if (r->secret == NULL) return AUTH_NO_IDENTITY;
    if (conf->token[0] != '\0' && token_is(conf, r)) return AUTH_TOKEN;
    if (jwt && jwt_is_one(r->secret, r->secret_len)) return NEEDS_TOKEN;
    if (passwords && r->user != NULL) return r->user_len > LIMIT_USER_BYTES ? AUTH_USER_TOO_LONG : (u32)NEEDS_PASSWORD;
    if (passwords) return AUTH_UNKNOWN_USER;
    if (jwt) return AUTH_JWT_REFUSED;
    return conf->token[0] != '\0' ? AUTH_WRONG_TOKEN : AUTH_NO_IDENTITY;
}

int auth_judge(conn *c, const auth_request *r, auth_identity *who) {
    auth_attempt *t = attempt_of(c);
    if (t != NULL) {
        *who = t->who;
        return t->state == JUDGED ? 0 : AUTH_WAITS;
    }
    u32 identity_len = 0;
    const char *identity = tls_peer_identity(c, &identity_len);
    u32 result = judge_now(listener_settings(c->origin), r, identity != NULL);
    // Whoever has guessed too often is not told any more whether he is right: also not about the listener's token.
    bool judged = result != AUTH_ANONYMOUS && result != AUTH_CERTIFICATE && result != AUTH_NO_IDENTITY;
    if (judged && auth_is_barred(c)) result = AUTH_RATE;
    *who = (auth_identity){.how = (auth_result)MIN(result, (u32)AUTH_RESULTS - 1)};
    if (result == AUTH_CERTIFICATE) {
        who->user = identity;
        who->user_len = identity_len;
    }
    if (auth_lets_in((auth_result)result)) {
        auth_count(c->owner, (auth_result)result);
        return 0;
    }
    t = attempt_make(c, DELAYED);
    if (t == NULL) {
        who->how = AUTH_BUSY;
        auth_count(c->owner, AUTH_BUSY);
        return 0;
    }
    names_keep(t, r);
    if (result < AUTH_RESULTS) {
        attempt_refuse(t, (auth_result)result, NULL);
    } else {
        t->state = RUNNING;
        work_begin(t, r, result == NEEDS_TOKEN);
    }
    return AUTH_WAITS;
}

auth_identity auth_identity_late(const conn *c) {
    const listener_config *conf = listener_settings(c->origin);
    auth_identity who = {.how = conf->token[0] != '\0' ? AUTH_TOKEN : AUTH_ANONYMOUS};
    who.user = tls_peer_identity(c, &who.user_len);
    if (who.user != NULL) who.how = AUTH_CERTIFICATE;
    return who;
}

bool auth_fail(conn *c, const auth_request *r, auth_result result, const char *why) {
    auth_attempt *t = attempt_of(c);
    if (t == NULL) t = attempt_make(c, DELAYED);
    if (t == NULL) {
        auth_count(c->owner, AUTH_BUSY);
        return false;
    }
    names_keep(t, r);
    attempt_refuse(t, result, why);
    return true;
}

// --- exchanges ---

auth_exchange *auth_exchange_begin(conn *c) {
    auth_forget(c);
    auth_attempt *t = attempt_make(c, EXCHANGE);
    if (t == NULL) return NULL;
    t->exchange = calloc(1, sizeof(*t->exchange));
    if (t->exchange == NULL) {
        attempt_free(c->owner->auth, t);
        return NULL;
    }
    return t->exchange;
}

auth_exchange *auth_exchange_of(const conn *c) {
    const auth_attempt *t = attempt_of(c);
    return t == NULL ? NULL : t->exchange;
}

bool auth_is_judged(const conn *c) {
    const auth_attempt *t = attempt_of(c);
    return t != NULL && t->state == JUDGED;
}

void auth_nonce(char out[SCRAM_NONCE_BYTES]) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    u8 random[SCRAM_NONCE_BYTES];
    ssize_t got = getrandom(random, sizeof(random), 0); // so few bytes come whole, once there are any
    ASSERT(got == (ssize_t)sizeof(random));
    for (u32 i = 0; i < SCRAM_NONCE_BYTES; i++) out[i] = digits[random[i] & 63];
}

// --- worker ---

static void recheck_run(timer_node *node, void *context) {
    worker *w = context;
    auth_worker *a = CONTAINER_OF(node, auth_worker, recheck);
    u32 end = MIN(a->recheck_at + LIMIT_AUTH_RECHECKS, w->conns_touched);
    for (; a->recheck_at < end; a->recheck_at++) {
        conn *c = w->conns[a->recheck_at];
        if (c != NULL && c->reason == CLOSE_NONE && c->proto->recheck != NULL) c->proto->recheck(c);
    }
    if (a->recheck_at < w->conns_touched) timer_arm(w->wheel, &a->recheck, 0);
}

void auth_recheck_all(worker *w) {
    auth_worker *a = w->is_ops ? NULL : auth_of(w);
    if (a == NULL) return; // without memory for it clients are looked at when they come back
    a->recheck_at = 0;
    timer_arm(w->wheel, &a->recheck, 0);
}

void auth_worker_free(worker *w) {
    auth_worker *a = w->auth;
    if (a == NULL) return;
    for (u32 i = 0; i < w->conns_touched && a->count > 0; i++) {
        if (a->by_slot[i] != NULL) attempt_free(a, a->by_slot[i]);
    }
    timer_cancel(w->wheel, &a->work);
    timer_cancel(w->wheel, &a->recheck);
    free(a->by_slot);
    free(a);
    w->auth = NULL;
}
