// SPDX-License-Identifier: Apache-2.0
// base64.h: RFC 4648 section 4, with padding, without line breaks. Pure; any thread.
#ifndef SLUICE_BASE_BASE64_H
#define SLUICE_BASE_BASE64_H

#include "base/base.h"

// Characters that len bytes become, without a terminator.
#define BASE64_CHARS(len) (((len) + 2) / 3 * 4)

// Writes BASE64_CHARS(len) characters.
void base64_encode(const u8 *data, size_t len, char *out);
// Returns the bytes written, at most len / 4 * 3, or -EINVAL when the text is not exactly one encoding.
ssize_t base64_decode(const char *text, size_t len, u8 *out);

#endif
