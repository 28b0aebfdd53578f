// SPDX-License-Identifier: Apache-2.0
// requests.h: what may be asked of `sluice init`. A unix stream socket (INIT_SOCKET_PATH; root and the
// gateway may connect)
// takes one JSON object a line and answers with one JSON line each, in the order asked:
//   {"request":"net","args":{...}}   ->   {"ok":true,"result":{...}}  or  {"ok":false,"error":"..."}
// args may be left out. The gateway offers every request as /api/appliance/<name> (GET: no args;
// POST: the body is args), `sluice ctl` prints them.
//
// A handler answers at once or later, exactly once. A client that went away meanwhile does not concern
// it: the answer is dropped. All runs on init's loop.
#ifndef SLUICE_INIT_REQUESTS_H
#define SLUICE_INIT_REQUESTS_H

#include <yyjson.h>

#include "base/base.h"

#define INIT_RUN_DIR "/run/sluice"
#define INIT_SOCKET_PATH INIT_RUN_DIR "/init.sock"
#define INIT_SOCKET_ENV "SLUICE_INIT_SOCKET" // init tells the gateway of another path (containers, tests)

typedef struct init_request init_request;
// args: the object given, NULL when none; valid only during the call.
typedef void (*init_request_handler)(init_request *r, yyjson_val *args);

// name: static, [a-z0-9-]. At most LIMIT_INIT_REQUESTS; the same name twice is a programmer's error.
void init_request_register(const char *name, init_request_handler handler);

// The answer: a JSON value as text (an object; no newline in it). json is copied.
void init_request_answer(init_request *r, const char *json, size_t len);
// The same from a document, which is freed; doc NULL (out of memory) answers an error.
void init_request_answer_doc(init_request *r, yyjson_mut_doc *doc);
void init_request_answer_error(init_request *r, const char *format, ...) PRINTF_LIKE(2, 3);

// Opens the socket and serves; path: INIT_SOCKET_PATH, or a test's. Returns 0 or -errno.
int init_requests_open(const char *path);
void init_requests_close(void);
// The names registered, for the request "help" and for tests; NULL beyond the last.
const char *init_request_name(u32 index);

#endif
