// SPDX-License-Identifier: Apache-2.0
// grant.h: what one client may do: who it is, how that was proved, its rights on topics, and its rates. A client of
// a listener without files and without rates has none (NULL), and each question costs it one branch.
//
// Answers about topics are remembered by the hash of the topic, so that a client that uses the same few topics again
// pays for a hash and not for a walk over rules.
//
// A reload gives a listener another policy. grant_renew then asks it about a client that is connected: a user that is
// gone, or whose password was changed, is no longer let in; other clients get the new rules. Owner thread only.
#ifndef SLUICE_AUTH_GRANT_H
#define SLUICE_AUTH_GRANT_H

#include "auth/policy.h"
#include "auth/result.h"
#include "base/timer.h"
#include "broker/pool.h"

// What was proved of a client. Pointers are valid as long as whoever gives it says.
typedef struct auth_identity {
    auth_result how;
    const char *user;        // NULL: no name was proved
    u32 user_len;
    u64 fingerprint;         // password_entry.fingerprint; 0 = none
    u64 expires_ns;          // monotonic; 0 = never
    const acl_rules *rules;  // of a token; NULL = none
    u32 rules_len;
} auth_identity;

#define GRANT_REMEMBERED 8u

typedef struct auth_grant {
    auth_policy *policy;     // a reference; may be NULL
    auth_identity who;       // user and rules point into text
    const acl_rules *own;    // as acl_subject.own; NULL also when the ACL has nothing for it
    bool restricted;         // topics are asked about
    u32 bytes;               // of this allocation
    u64 remembered[GRANT_REMEMBERED]; // hash of a topic, the last 4 bits replaced: asked and allowed, read and write
    u64 message_ns, byte_ns; // token buckets: time up to which the rates are used
    struct address_share *address; // auth/rate.h; NULL: its address has no rate, or it is away
    u32 address_worker;
    u64 turn_ns;             // it waits for a rate that others use too, and was told to ask then; 0 = it does not
    timer_node timer;        // the protocol's, while the client is connected: expiry, or its rates' pause
    void *owner;             // the protocol's session
    char text[];
} auth_grant;

// Makes the grant of a client that was let in; *out NULL when it needs none. rated: it has rates. 0, -ENOMEM.
int grant_make(pool *memory, auth_policy *policy, const auth_identity *who, bool rated, auth_grant **out);
void grant_free(pool *memory, auth_grant *g);

// What a policy says of a client that was let in by another one, or by this one a moment ago: a reload may have come
// while it was judged. AUTH_ANONYMOUS..: still let in; else why not.
auth_result grant_verdict(const auth_identity *who, const auth_policy *policy, bool anonymous);
// Asks another policy about the client of g. AUTH_ANONYMOUS..: let in, and g follows the policy; else why not.
auth_result grant_renew(auth_grant *g, auth_policy *policy, bool anonymous);

// Whether the client may read (ACL_READ) or write a topic name. g is not NULL.
bool grant_allows(auth_grant *g, const char *client, u32 client_len, u8 access, const char *topic, u32 len);
// Whether it may subscribe to a filter: acl_allows_filter.
bool grant_allows_filter(const auth_grant *g, const char *client, u32 client_len, const char *filter, u32 len);

// --- rates ---

typedef struct grant_rates {
    u32 messages_per_s; // 0 = no limit
    u64 bytes_per_s;    // 0 = no limit
} grant_rates;
// When one message of so many bytes is within the rates: 0 now, else the monotonic time. A second's worth may be saved
// up; a message larger than that may pass when a whole second has been.
u64 grant_rate_due(auth_grant *g, grant_rates rates, u32 bytes, u64 now_ns);
// It has passed.
void grant_rate_charge(auth_grant *g, grant_rates rates, u32 bytes);

#endif
