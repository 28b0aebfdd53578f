// SPDX-License-Identifier: Apache-2.0
// nats_parse.h: the NATS client protocol as a server sends it: INFO, MSG, HMSG, PING, PONG, +OK, -ERR
// (docs.nats.io, reference "Client Protocol"; headers: ADR-4). Bytes in, one operation out, in place. Pure; no
// allocation; any thread.
//
// Verbs are taken in any case, fields are separated by blanks and tabs, lines end with CR LF; a bare LF is a
// fault.
#ifndef SLUICE_UPLINK_NATS_PARSE_H
#define SLUICE_UPLINK_NATS_PARSE_H

#include "base/base.h"

#define NATS_LINE_BYTES_MAX 65536u   // an INFO of a large cluster is the longest line there is
#define NATS_SUBJECT_BYTES_MAX 4096u // the server's max_control_line by default

typedef enum nats_verb {
    NATS_INFO,
    NATS_MSG,
    NATS_HMSG,
    NATS_PING,
    NATS_PONG,
    NATS_OK,
    NATS_ERR,
} nats_verb;

typedef struct nats_text { // not terminated; data NULL: absent
    const char *data;
    u32 len;
} nats_text;

typedef struct nats_op {
    nats_verb verb;
    nats_text text;            // INFO: JSON; -ERR: what it says, without quotes
    nats_text subject, reply;  // MSG, HMSG
    u64 sid;
    nats_text headers;         // HMSG: from "NATS/1.0" to the empty line
    const u8 *payload;
    u32 payload_len;
} nats_op;

typedef enum nats_fault {
    NATS_FAULT_NONE,
    NATS_FAULT_VERB,      // no such operation
    NATS_FAULT_LINE,      // too long, or a carriage return without a line feed
    NATS_FAULT_FIELDS,    // too few, too many, or not a number
    NATS_FAULT_TOO_LARGE, // payload over payload_bytes_max
    NATS_FAULT_END,       // no CR LF behind the payload
} nats_fault;

// Parses what starts at data. Returns the bytes it takes with *out filled; 0 when len bytes are not all of it
// (*need: how many are needed at least, more than len); or a negative nats_fault.
int nats_parse(const u8 *data, u32 len, u32 payload_bytes_max, nats_op *out, u32 *need);
const char *nats_fault_text(int fault); // of the negative value

typedef enum nats_denial {
    NATS_DENIED_NOTHING,
    NATS_DENIED_PUBLISH,
    NATS_DENIED_SUBSCRIBE,
} nats_denial;
// Reads an -ERR: Permissions Violation for Publish to "a.b", for Subscription to "c.>". The connection goes on.
// The subject is written to out, without the escapes of Go's %q, which the server quotes it with.
// NATS_DENIED_NOTHING: another error, or a subject that can not be read or is longer than out_bytes.
nats_denial nats_denied(nats_text error, char *out, u32 out_bytes, u32 *out_len);

// The status in the first line of headers ("NATS/1.0 503 No Responders"); 0: none.
u32 nats_header_status(nats_text headers);
// Walks the headers: false at the end. *at is 0 to begin. Names and values as they stand, blanks around the
// value off. Lines without a colon are skipped.
bool nats_header_next(nats_text headers, u32 *at, nats_text *name, nats_text *value);

#endif
