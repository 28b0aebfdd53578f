// SPDX-License-Identifier: Apache-2.0
// ctl_client.h: one HTTP request to a gateway, blocking, with the answer's body given on as it comes.
// Prints what went wrong to stderr itself, because only here is known what was tried.
#ifndef SLUICE_OPS_CTL_CLIENT_H
#define SLUICE_OPS_CTL_CLIENT_H

#include <sys/socket.h>

#include "base/base.h"
#include "limits.h"

typedef struct ctl_target {
    struct sockaddr_storage addr;
    socklen_t addr_len;
    char text[160];   // as people write it, for messages
    char host[80];    // Host field
    char token[LIMIT_ADMIN_TOKEN_BYTES + 1]; // of the admin listener; "" = none
} ctl_target;

// A unix socket's path. False when it is too long.
bool ctl_target_unix(ctl_target *out, const char *path);
// HOST:PORT, [V6]:PORT; a name is looked up. False with a message on stderr.
bool ctl_target_tcp(ctl_target *out, const char *text);

typedef struct ctl_call {
    const char *method; // "GET"
    const char *path;   // with its query, encoded
    const void *body;
    size_t body_len;
    bool quiet;         // an answer that is not 200 is for the caller to judge: nothing is printed
    bool silent;        // quiet, and a connection that fails is not told either: the caller tries again
    bool endless;       // no limit of time between bytes
    // Bytes of a 200 answer's body as they come. False ends the call.
    bool (*body_part)(void *context, const char *bytes, size_t len);
    void *context;
} ctl_call;

// Returns a CTL_ status; an error's text has been printed. CTL_REFUSED for every answer that is not 200.
int ctl_call_run(const ctl_target *target, const ctl_call *call);

#endif
