// SPDX-License-Identifier: Apache-2.0
// http_guard.c: what protects the admin port from other people's web pages, which run in a browser that can
// reach the port. Such a page can send requests across sites, but without a preflight it can not add a
// header of its own, and it can not read answers; by rebinding its own name to our address it could, but
// then Host carries its name.
//
// So: a method that changes something needs X-Sluice-Admin: 1, and everything but the health checks and
// the metrics needs a Host that is an IP address, localhost, or the name we are bound to. No answer ever
// carries a CORS field. Not a replacement for authentication: the port belongs on loopback or behind
// something that authenticates.
#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "ops/routes.h"

static bool is_port(const char *s) {
    size_t len = strspn(s, "0123456789");
    return s[len] == '\0' && len <= 5;
}

bool guard_host_is_allowed(const char *host, const char *bind_host) {
    char name[LIMIT_HTTP_HOST_BYTES + 1];
    u8 addr[16];
    if (host[0] == '[') {
        const char *end = strchr(host, ']');
        if (end == NULL || (end[1] != '\0' && (end[1] != ':' || !is_port(end + 2)))) return false;
        size_t len = (size_t)(end - host) - 1;
        if (len >= sizeof(name)) return false;
        memcpy(name, host + 1, len);
        name[len] = '\0';
        return inet_pton(AF_INET6, name, addr) == 1;
    }
    size_t len = strcspn(host, ":");
    if (len == 0 || len >= sizeof(name)) return false;
    if (host[len] == ':' && !is_port(host + len + 1)) return false;
    memcpy(name, host, len);
    name[len] = '\0';
    if (inet_pton(AF_INET, name, addr) == 1) return true;
    if (strcasecmp(name, "localhost") == 0) return true;
    return bind_host[0] != '\0' && strcasecmp(name, bind_host) == 0;
}

const char *guard_refusal(const http_request *r, bool over_unix, bool harmless, const char *bind_host) {
    if (over_unix) return NULL;
    bool reads = r->method == HTTP_METHOD_GET || r->method == HTTP_METHOD_HEAD;
    if (!reads && !r->admin_header) {
        return "this method needs the header X-Sluice-Admin: 1";
    }
    if (reads && harmless) return NULL;
    // HTTP/1.0 without Host is no browser.
    if (r->has_host && !guard_host_is_allowed(r->host, bind_host)) {
        return "Host must be an IP address, localhost or the name of the admin listener";
    }
    return NULL;
}
