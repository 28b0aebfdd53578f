// SPDX-License-Identifier: Apache-2.0
// bind.c: "127.0.0.1:7000", "[::1]:7000" and "unix:/run/sluice.sock" to socket addresses and back.
// The text kept with the address is the canonical form, so that two spellings of one address print
// and compare alike.
#include "conf/bind.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "conf/units.h"

static int parse_unix(const char *path, bind_address *out) {
    struct sockaddr_un *un = (struct sockaddr_un *)&out->addr;
    size_t len = strlen(path);
    if (len == 0) return -EINVAL;
    if (len >= sizeof(un->sun_path)) return -ERANGE;
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, path, len + 1);
    out->addr_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1);
    snprintf(out->text, sizeof(out->text), "unix:%s", un->sun_path);
    return 0;
}

static int parse_port(const char *text, u16 *port) {
    u64 value;
    int rc = units_parse_count(text, &value);
    if (rc != 0) return rc;
    if (value > UINT16_MAX) return -ERANGE;
    *port = (u16)value;
    return 0;
}

static int parse_inet6(const char *host, u16 port, bind_address *out) {
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&out->addr;
    char printed[INET6_ADDRSTRLEN];
    if (inet_pton(AF_INET6, host, &in6->sin6_addr) != 1) return -EINVAL;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    out->addr_len = sizeof(*in6);
    if (inet_ntop(AF_INET6, &in6->sin6_addr, printed, sizeof(printed)) == NULL) return -EINVAL;
    snprintf(out->text, sizeof(out->text), "[%s]:%u", printed, port);
    return 0;
}

static int parse_inet(const char *host, u16 port, bind_address *out) {
    struct sockaddr_in *in = (struct sockaddr_in *)&out->addr;
    char printed[INET_ADDRSTRLEN];
    if (inet_pton(AF_INET, host, &in->sin_addr) != 1) return -EINVAL;
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    out->addr_len = sizeof(*in);
    if (inet_ntop(AF_INET, &in->sin_addr, printed, sizeof(printed)) == NULL) return -EINVAL;
    snprintf(out->text, sizeof(out->text), "%s:%u", printed, port);
    return 0;
}

int config_parse_bind(const char *text, bind_address *out) {
    char host[INET6_ADDRSTRLEN];
    u16 port = 0;
    memset(out, 0, sizeof(*out));
    if (strncmp(text, "unix:", 5) == 0) return parse_unix(text + 5, out);
    const char *colon = strrchr(text, ':');
    if (colon == NULL) return -EINVAL;
    int rc = parse_port(colon + 1, &port);
    if (rc != 0) return rc;
    bool bracketed = text[0] == '[';
    if (bracketed && (colon == text || colon[-1] != ']')) return -EINVAL;
    const char *start = bracketed ? text + 1 : text;
    size_t len = (size_t)(colon - start) - (bracketed ? 1 : 0);
    if (len == 0 || len >= sizeof(host)) return -EINVAL;
    memcpy(host, start, len);
    host[len] = '\0';
    return bracketed ? parse_inet6(host, port, out) : parse_inet(host, port, out);
}

bool bind_is_local(const bind_address *b) {
    if (b->addr.ss_family == AF_UNIX) return true;
    if (b->addr.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&b->addr;
        return (ntohl(in->sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
    }
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&b->addr;
    if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) return in6->sin6_addr.s6_addr[12] == IN_LOOPBACKNET;
    return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

u16 bind_port(const bind_address *b) {
    if (b->addr.ss_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)&b->addr)->sin_port);
    if (b->addr.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)&b->addr)->sin6_port);
    return 0;
}

bool bind_is_same(const bind_address *a, const bind_address *b) {
    if (a->addr.ss_family != b->addr.ss_family) return false;
    if (a->addr.ss_family != AF_UNIX && bind_port(a) == 0) return false;
    return strcmp(a->text, b->text) == 0;
}
