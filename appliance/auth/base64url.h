// SPDX-License-Identifier: Apache-2.0
// base64url.h: base64 (base/base64.h) with a bound on what it becomes, and base64url (RFC 4648 section 5) without
// padding. Strict: no blanks, no foreign characters, unused bits zero. Pure functions, any thread.
#ifndef SLUICE_AUTH_BASE64URL_H
#define SLUICE_AUTH_BASE64URL_H

#include "base/base64.h"

// Room that len bytes need as text, with padding and terminator.
#define BASE64_TEXT_BYTES(len) (BASE64_CHARS(len) + 1)

// Returns the bytes written to out, or -1: not base64, or more than size bytes.
int base64_decode_bounded(const char *text, size_t len, u8 *out, size_t size);
int base64url_decode(const char *text, size_t len, u8 *out, size_t size);
// Writes the text and a terminator; out has room for BASE64_TEXT_BYTES(len). Returns its length.
size_t base64_text(const u8 *data, size_t len, char *out);

#endif
