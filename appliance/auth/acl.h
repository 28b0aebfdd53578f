// SPDX-License-Identifier: Apache-2.0
// acl.h: who may read and write which topics: Mosquitto's ACL files, and the lists of a JSON web token.
//
//   topic [read|write|readwrite|deny] FILTER      before the first `user` line: for clients without a user name
//   user NAME                                     the topics below are this user's
//   pattern [read|write|readwrite|deny] FILTER    for everybody; %u is the user's name, %c the client's id
//
// Order of judgement, as Mosquitto's: a client's `deny` topics, then its other topics, then `deny` patterns, then
// the other patterns; what nothing allows is refused. A pattern with %u is not for clients without a user name, and
// no pattern is for one whose name or id holds '+', '#' or '/': it could stand for other people's topics. ('/' is
// stricter than Mosquitto, in whose patterns a client "a/b" fits two levels.) A token's lists stand in the place of
// the client's own topics; patterns that allow something are then left out, those that deny are not.
//
// An acl, once parsed, is read only and may be used by all threads.
#ifndef SLUICE_AUTH_ACL_H
#define SLUICE_AUTH_ACL_H

#include "base/base.h"

enum { ACL_READ = 1u << 0, ACL_WRITE = 1u << 1 };

// A list of rules: for each an access letter ('r', 'w', 'b' for both, 'd' for deny), the filter, and a newline.
// Terminated; NULL is the empty list.
typedef char acl_rules;

typedef struct acl_user {
    const char *name;
    u32 len;
    acl_rules *rules;
    u32 rules_len;
} acl_user;

typedef struct acl {
    acl_user *users;         // sorted by name
    u32 user_count;
    acl_user anonymous;      // name NULL
    acl_user patterns;
} acl;

// Parses a file's content. 0; or -EINVAL with "NAME:LINE: what is wrong" in error; or -ENOMEM. Free it with acl_free
// after success only.
int acl_parse(const char *name, const char *text, size_t len, acl *out, char *error, size_t error_bytes);
void acl_free(acl *a);
// The rules of a user's `topic` lines (user NULL: of those without a name).
const acl_rules *acl_rules_of(const acl *a, const char *user, u32 len);

typedef struct acl_subject {
    const char *user;        // NULL: none that was proved
    u32 user_len;
    const char *client;
    u32 client_len;
    const acl_rules *own;    // acl_rules_of, or of a token
    bool own_is_token;       // patterns of the token's lists are expanded; see above
} acl_subject;

// Whether the subject may read or write a topic name. a NULL: only the token counts.
bool acl_allows(const acl *a, const acl_subject *who, u8 access, const char *topic, u32 len);
// Whether there may be a topic under this filter that the subject may read: a subscription that could never receive
// anything is refused, all others are let in and filtered message by message.
bool acl_allows_filter(const acl *a, const acl_subject *who, const char *filter, u32 len);

// Whether a filter with its %u and %c is valid, for files and tokens.
bool acl_filter_is_valid(const char *filter, size_t len, bool pattern);

#endif
