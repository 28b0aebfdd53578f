// SPDX-License-Identifier: Apache-2.0
// routes.c: the table of routes. A path that ends in '/' takes one more segment, which the handler gets
// as `rest`, or several where DEEP says so; all others match exactly. HEAD goes wherever GET goes: the
// answer's body is left out.
//
// Invariant: a handler is only called with a method that its row allows and after the guard agreed.
#include "ops/routes.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "auth/pbkdf2.h"
#include "base/log.h"

#define READ (HTTP_METHOD_GET | HTTP_METHOD_HEAD)
#define DEEP (1u << 31) // beside the methods: the handler takes the rest of the path apart

typedef struct route {
    const char *path;
    u32 methods;
    bool harmless; // tells nothing about clients; may be asked under any host name
    void (*handle)(http_exchange *x, const char *rest);
} route;

static const route routes[] = {
    {"/metrics", READ, true, metrics_handle},
    {"/healthz", READ, true, healthz_handle},
    {"/readyz", READ, true, readyz_handle},
    {"/api/status", READ, false, status_handle},
    {"/api/conns", READ, false, conns_handle},
    {"/api/conns/", READ | HTTP_METHOD_DELETE, false, conn_handle},
    {"/api/sessions", READ, false, sessions_handle},
    {"/api/subs", READ, false, subs_handle},
    {"/api/retained", READ, false, retained_handle},
    {"/api/uplinks", READ, false, uplinks_handle},
    {"/api/tls", READ, false, tls_handle},
    {"/api/trace", READ, false, trace_handle},
    {"/api/log", READ, false, log_handle},
    {"/api/streams", READ, false, streams_handle},
    {"/api/streams/", DEEP | READ | HTTP_METHOD_DELETE, false, stream_handle},
    {"/api/reload", HTTP_METHOD_POST, false, reload_handle},
    {"/api/publish", HTTP_METHOD_POST, false, publish_handle},
    {"/api/config", READ, false, config_handle},
    {"/api/appliance/", READ | HTTP_METHOD_POST, false, appliance_handle},
};

// Returns what follows the route's path, NULL when the path is not the route's.
static const char *route_match(const route *r, const char *path) {
    size_t len = strlen(r->path);
    if (r->path[len - 1] != '/') return strcmp(path, r->path) == 0 ? path + len : NULL;
    if (strncmp(path, r->path, len) != 0 || path[len] == '\0') return NULL;
    return (r->methods & DEEP) != 0 || strchr(path + len, '/') == NULL ? path + len : NULL;
}

// "127.0.0.1:9600" -> "127.0.0.1".
static void bind_host_of(const http_exchange *x, char *out, size_t size) {
    const char *bind = x->worker->conf->admin_bind.text;
    const char *colon = strrchr(bind, ':');
    size_t len = colon == NULL ? strlen(bind) : (size_t)(colon - bind);
    len = MIN(len, size - 1);
    memcpy(out, bind, len);
    out[len] = '\0';
}

// What load balancers and supervisors ask: whether it is well, and nothing else.
static bool is_health(const char *path) {
    return strcmp(path, "/healthz") == 0 || strcmp(path, "/readyz") == 0;
}

// Whether the request needs no token, or carries the right one. Compares in time that depends on the buffer only.
static bool token_is_right(const http_exchange *x, bool open) {
    const char *wanted = x->worker->conf->admin_token, *given = http_req(x)->bearer;
    char a[sizeof(x->worker->conf->admin_token)] = {0}, b[sizeof(a)] = {0};
    if (open || wanted[0] == '\0' || x->c->peer_family == AF_UNIX) return true;
    memcpy(a, wanted, strnlen(wanted, sizeof(a)));
    memcpy(b, given, strnlen(given, sizeof(b)));
    return secret_is_equal(a, b, sizeof(a));
}

// Counts it, and logs one a second.
static void refused(http_exchange *x, admin_refusal why, const char *what) {
    static u64 logged_ns; // the operations worker's
    worker *w = x->worker;
    char peer[CONN_PEER_TEXT];
    counter_add(&w->metrics.admin_refused[why], 1);
    if (w->now_ns - logged_ns < NS_PER_S) return;
    logged_ns = w->now_ns;
    log_warn("admin: %s: %s %s", conn_peer_text(x->c, peer), http_req(x)->path, what);
}

static void refuse_token(http_exchange *x) {
    refused(x, ADMIN_REFUSED_TOKEN, "without the right token");
    http_answer_error(x, 401, "this needs the admin token: Authorization: Bearer ...");
}

static void refuse_peer(http_exchange *x) {
    char what[64];
    snprintf(what, sizeof(what), "by user %u, who may not", x->peer_uid);
    refused(x, ADMIN_REFUSED_PEER, what);
    http_answer_error(x, 403, "user %u may not use this socket: root, the gateway's user and those in ctl_allow may",
                      x->peer_uid);
}

static void refuse_origin(http_exchange *x, const char *why) {
    refused(x, ADMIN_REFUSED_ORIGIN, "under a foreign name, or by a page of somebody else");
    http_answer_error(x, 403, "%s", why);
}

void routes_dispatch(http_exchange *x) {
    const http_request *r = http_req(x);
    if (x->peer_refused) {
        refuse_peer(x);
        return;
    }
    for (u32 i = 0; i < ARRAY_LEN(routes); i++) {
        const char *rest = route_match(&routes[i], r->path);
        if (rest == NULL) continue;
        if ((routes[i].methods & (u32)r->method) == 0) {
            http_answer_not_allowed(x, routes[i].methods);
            return;
        }
        char bind_host[LIMIT_HTTP_HOST_BYTES + 1];
        bind_host_of(x, bind_host, sizeof(bind_host));
        const char *refusal =
            guard_refusal(r, x->c->peer_family == AF_UNIX, routes[i].harmless, bind_host);
        if (refusal != NULL) refuse_origin(x, refusal);
        else if (!token_is_right(x, is_health(r->path))) refuse_token(x);
        else routes[i].handle(x, rest);
        return;
    }
    http_answer_error(x, 404, "no such resource");
}
