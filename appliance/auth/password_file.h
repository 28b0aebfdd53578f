// SPDX-License-Identifier: Apache-2.0
// password_file.h: Mosquitto's password files, and SCRAM verifiers in the same file. One account a line:
//
//   user:$7$ITERATIONS$SALT$HASH       PBKDF2-HMAC-SHA-512, what mosquitto_passwd and `sluice passwd` write
//   user:$6$SALT$HASH                  SHA-512 of password and salt, one round (Mosquitto before 2.0)
//   user:SCRAM-SHA-256$ITERATIONS:SALT$STOREDKEY:SERVERKEY   (RFC 5803, as PostgreSQL spells it)
//
// SALT, HASH and the keys are base64. A user may have one line of the first two forms and one SCRAM line; without
// the former, passwords are checked against the SCRAM line. Blank lines and lines that begin with '#' are skipped.
//
// A file, once parsed, is read only and may be used by all threads.
#ifndef SLUICE_AUTH_PASSWORD_FILE_H
#define SLUICE_AUTH_PASSWORD_FILE_H

#include "auth/pbkdf2.h"

typedef enum password_kind { PASSWORD_SHA512, PASSWORD_PBKDF2, PASSWORD_SCRAM } password_kind;

typedef struct password_entry {
    const char *user;          // not terminated
    u32 user_len;
    u32 line;
    u32 iterations;
    password_kind kind;
    u32 salt_len;
    u8 salt[PBKDF2_SALT_BYTES_MAX];
    u8 key[64];                // the hash; of SCRAM: StoredKey, ServerKey (32 bytes each)
    u64 fingerprint;           // of the line: another one means that the credential was changed
} password_entry;

typedef struct password_file {
    char *text;                // the file: users point into it
    password_entry *entries;   // sorted by user; SCRAM lines behind the others of a user
    size_t text_bytes;
    u32 count, room;           // entries, and how many there is memory for
    u32 scram_iterations;      // of the first SCRAM line, for users that do not exist; 0 = there is no such line
} password_file;

// Parses a file's content; name is for messages. 0; or -EINVAL with "NAME:LINE: what is wrong" in error; or -ENOMEM.
int password_file_parse(const char *name, const char *text, size_t len, password_file *out, char *error,
                        size_t error_bytes);
void password_file_free(password_file *f);
// Parses what stands behind "user:". NULL, or what is wrong. Touches only kind, iterations, salt and key.
const char *password_entry_parse(const char *text, size_t len, password_entry *out);

// The line of a user that passwords (scram false), or SCRAM exchanges, are checked against; NULL when there is none.
const password_entry *password_file_find(const password_file *f, const char *user, u32 len, bool scram);

// --- checking a password, in slices ---

typedef struct password_check {
    pbkdf2 kdf;
    password_entry against;    // a made-up one when there is no such user: the work is the same
    bool known;
    u8 once[64];               // PASSWORD_SHA512: the result
} password_check;

void password_check_begin(password_check *c, const password_file *f, const char *user, u32 user_len,
                          const void *password, u32 len);
// At most so many iterations more; true when done.
bool password_check_run(password_check *c, u32 iterations);
// The result, after the end. Clears the check; c->known tells the log which part was wrong.
bool password_check_end(password_check *c);

#endif
