// SPDX-License-Identifier: Apache-2.0
// tls_pem.h: certificates, keys and lists in PEM files (RFC 7468). Main thread: it reads files and allocates.
#ifndef SLUICE_NET_TLS_PEM_H
#define SLUICE_NET_TLS_PEM_H

#include "base/base.h"

typedef struct pem_object {
    char name[48];   // "CERTIFICATE"
    u32 line;        // of its BEGIN line, counted from 1
    u8 *data;        // decoded
    u32 len;
} pem_object;

typedef struct pem_file {
    pem_object *objects;
    u32 count;
} pem_file;

// Cuts text into objects; what stands between them is skipped, as the standard says. Returns 0, -ENOMEM,
// -E2BIG (more than LIMIT_TLS_PEM_OBJECTS), or -EINVAL with the line of the mistake in *line. Free in any case.
int pem_parse(const char *text, u32 len, pem_file *out, u32 *line);
// Reads a whole file of at most LIMIT_TLS_FILE_BYTES into memory that tls_file_free wipes. Returns 0 or -errno.
int tls_file_read(const char *path, char **text, u32 *len);
void tls_file_free(char *text, u32 len);
// Wipes and frees.
void pem_free(pem_file *file);

#endif
