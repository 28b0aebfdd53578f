// SPDX-License-Identifier: Apache-2.0
// update_fetch.h: an update from an http:// URL, as a source for the writer. HTTP/1.1 (RFC 9110, 9112), GET,
// redirects followed up to LIMIT_UPDATE_REDIRECTS. The update proves itself by its signature, so nobody on
// the way can change it; who may see it is another matter: https follows with TLS.
// There is no limit of the whole time, since links are as slow as they are. A connection that breaks off, or
// brings nothing for LIMIT_UPDATE_STALL_MS, is followed by another that goes on where it was;
// LIMIT_UPDATE_IDLE_MS without a byte are the end. Blocking; for a helper process.
#ifndef SLUICE_INIT_UPDATE_FETCH_H
#define SLUICE_INIT_UPDATE_FETCH_H

#include "init/update_write.h"

typedef struct update_fetch update_fetch;

// What is wrong with a URL, or NULL.
const char *update_fetch_check(const char *url);
// Connects, asks, reads up to the body's beginning, and makes *source read the body. NULL with a sentence in
// source->error.
update_fetch *update_fetch_open(const char *url, update_source *source);
void update_fetch_close(update_fetch *f);

// A source that reads a descriptor (a pipe or a socket), with the same bound on each wait.
void update_source_fd(int fd, update_source *source);

#endif
