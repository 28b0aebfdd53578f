// SPDX-License-Identifier: Apache-2.0
// metadata_http.h: an HTTP/1.1 answer read from bytes (RFC 9112), bounded; llhttp has the grammar. No I/O:
// the same code runs under the fuzzer.
#ifndef SLUICE_INIT_METADATA_HTTP_H
#define SLUICE_INIT_METADATA_HTTP_H

#include <llhttp.h>

#include "init/metadata.h"

#define METADATA_HEADER_BYTES_MAX 16384u

typedef enum answer_progress { ANSWER_MORE, ANSWER_COMPLETE, ANSWER_BAD } answer_progress;

typedef struct http_answer {
    llhttp_t llhttp;
    llhttp_settings_t settings;
    int status;
    char *body; // malloc'd
    size_t body_len, body_room;
    u32 header_bytes;
    char field[24], value[16]; // cut: only short ones matter
    u32 field_len, value_len;
    bool flavor_google, complete;
    const char *why; // of ANSWER_BAD; static
} http_answer;

void http_answer_init(http_answer *a);
void http_answer_free(http_answer *a);
answer_progress http_answer_feed(http_answer *a, const char *data, size_t len);
// The connection ended: complete if the answer's length was "until the end".
answer_progress http_answer_end(http_answer *a);

#endif
