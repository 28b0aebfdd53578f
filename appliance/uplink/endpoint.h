// SPDX-License-Identifier: Apache-2.0
// endpoint.h: where an uplink connects to: SCHEME://HOST[:PORT]. Names and passwords do not stand in a URL
// here: they have settings of their own, which are never printed. Pure; any thread. (RFC 3986 section 3.2.)
#ifndef SLUICE_UPLINK_ENDPOINT_H
#define SLUICE_UPLINK_ENDPOINT_H

#include "base/base.h"

typedef enum uplink_kind { UPLINK_MQTT, UPLINK_NATS } uplink_kind; // what the remote is

#define ENDPOINT_HOST_BYTES 256u // RFC 1035 section 2.3.4: a name has at most 253

typedef struct endpoint {
    char host[ENDPOINT_HOST_BYTES];
    u16 port;
    bool tls;
    uplink_kind kind; // what the scheme is for
} endpoint;

// NULL, or what is wrong with it (static); *out is then undefined.
const char *endpoint_parse(const char *text, size_t len, endpoint *out);
// The check of an element of the setting `url`.
const char *endpoint_check(const char *text);

#endif
