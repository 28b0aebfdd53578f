// SPDX-License-Identifier: Apache-2.0
// passwd_text.h: a password file's text with a user's lines set or taken out; everything else stays as it is,
// comments included. Pure but for memory.
#ifndef SLUICE_AUTH_PASSWD_TEXT_H
#define SLUICE_AUTH_PASSWD_TEXT_H

#include "base/base.h"

enum { PASSWD_CRYPT = 1u << 0, PASSWD_SCRAM = 1u << 1 }; // kinds of lines: $7$ and SCRAM-SHA-256

// One line, newline included, for a password; salt is random.
#define PASSWD_SALT_BYTES 16u
#define PASSWD_LINE_BYTES 768u
void passwd_line(u32 kind, const char *user, const char *password, u32 iterations,
                 const u8 salt[PASSWD_SALT_BYTES], char out[PASSWD_LINE_BYTES]);
// The kinds of lines that a user has in a text.
u32 passwd_kinds(const char *text, size_t len, const char *user);
// The text without the user's lines and with `lines` (NULL: none) in the place of the first of them, or at the end.
// malloc; NULL when out of memory.
char *passwd_replace(const char *text, size_t len, const char *user, const char *lines, size_t *out_len);
// NULL, or what is wrong with a user's name.
const char *passwd_user_wrong(const char *user);

#endif
