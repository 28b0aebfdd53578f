// SPDX-License-Identifier: Apache-2.0
// routes.h: which path of the admin port is served by which handler, and who may ask (http_guard.c).
//
// A handler runs on the operations worker, inside http_enter/http_leave, and starts exactly one answer
// (ops/http.h).
#ifndef SLUICE_OPS_ROUTES_H
#define SLUICE_OPS_ROUTES_H

#include "ops/http.h"

// Finds the route of the request that is ready in x and calls its handler, or answers 403, 404 or 405.
void routes_dispatch(http_exchange *x);

// Handlers. rest is what follows the route's path: the ID of /api/conns/ID, "" elsewhere.
void metrics_handle(http_exchange *x, const char *rest);        // metrics.c
void healthz_handle(http_exchange *x, const char *rest);        // health.c
void readyz_handle(http_exchange *x, const char *rest);         // health.c
void status_handle(http_exchange *x, const char *rest);         // status.c
void conns_handle(http_exchange *x, const char *rest);          // conns.c
void conn_handle(http_exchange *x, const char *rest);           // conn_detail.c: GET, DELETE
void sessions_handle(http_exchange *x, const char *rest);       // sessions.c
void uplinks_handle(http_exchange *x, const char *rest);        // uplinks.c
void tls_handle(http_exchange *x, const char *rest);            // tls.c
void subs_handle(http_exchange *x, const char *rest);           // routing.c
void retained_handle(http_exchange *x, const char *rest);       // routing.c
void streams_handle(http_exchange *x, const char *rest);        // streams.c
void stream_handle(http_exchange *x, const char *rest);         // streams.c: GET, DELETE
void trace_handle(http_exchange *x, const char *rest);          // trace.c
void log_handle(http_exchange *x, const char *rest);            // control.c
void reload_handle(http_exchange *x, const char *rest);         // control.c
void publish_handle(http_exchange *x, const char *rest);        // control.c
void config_handle(http_exchange *x, const char *rest);         // control.c
void appliance_handle(http_exchange *x, const char *rest);      // appliance.c: GET, POST

// http_guard.c: why a request may not be served, NULL when it may. over_unix: it came through the unix
// socket, whose permissions are the check. bind_host: host part of the admin address as configured.
const char *guard_refusal(const http_request *r, bool over_unix, bool harmless, const char *bind_host);
// Whether host (with or without a port) is an IP address, localhost or bind_host.
bool guard_host_is_allowed(const char *host, const char *bind_host);

#endif
