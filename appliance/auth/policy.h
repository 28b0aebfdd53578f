// SPDX-License-Identifier: Apache-2.0
// policy.h: what a listener's files say about who may come in and do what: passwords, ACL, keys of tokens, read and
// checked by main at the start and at a reload, read only from then on. Workers' listeners, clients' grants and
// attempts that are being judged hold references; the last one frees it.
#ifndef SLUICE_AUTH_POLICY_H
#define SLUICE_AUTH_POLICY_H

#include "auth/acl.h"
#include "auth/jwt.h"
#include "auth/password_file.h"
#include "conf/config.h"

typedef struct auth_policy {
    u32 refs;              // atomic
    bool has_passwords, has_acl, has_jwt;
    password_file passwords;
    acl acl;
    jwt_policy jwt;
} auth_policy;

// Reads the files of all listeners into their `auth` (NULL where a listener names none). 0; else -errno or -EINVAL
// with "FILE:LINE: what is wrong" in error, and nothing is held. Main only; the configuration must have passed its
// checks.
int auth_policies_load(config *conf, config_error *error);
// Gives the references of a configuration back; before it is freed.
void auth_policies_release(config *conf);

// NULL is let through. Any thread.
auth_policy *auth_policy_ref(auth_policy *p);
void auth_policy_unref(auth_policy *p);

// Reads a file whole; for secrets too: the copy is wiped by auth_file_free. 0 or -errno with a message.
int auth_file_read(const char *path, char **text, size_t *len, char *error, size_t error_bytes);
void auth_file_free(char *text, size_t len);

#endif
