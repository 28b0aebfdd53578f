// SPDX-License-Identifier: Apache-2.0
// url.h: mqtt://[user[:password]@]host[:port][/topic], or mqtts:// for TLS.
#ifndef SLUICE_CLIENT_URL_H
#define SLUICE_CLIENT_URL_H

#include "base/base.h"

typedef struct client_url {
    char *memory; // what the others point into; the caller frees it
    const char *host, *user, *password, *topic; // NULL where absent, but host
    u16 port;
    bool tls;
} client_url;

// NULL, or what is allowed instead (static); *out is set only on success. Percent escapes are
// decoded.
const char *client_url_parse(const char *text, client_url *out);

#endif
