// SPDX-License-Identifier: Apache-2.0
// acl.c: see acl.h. A list is walked from its start for each question; what asks often remembers the answers
// (auth/grant.c).
#include "auth/acl.h"

#include <string.h>

#include "broker/topic.h"
#include "limits.h"

#include <stdlib.h>

#define EXPANDED_BYTES (LIMIT_ACL_FILTER_BYTES + LIMIT_ACL_SUBSTITUTES * MAX(LIMIT_USER_BYTES, LIMIT_CLIENT_ID_BYTES))

// --- patterns ---

static bool is_substitute(const char *at, const char *end) {
    return at + 1 < end && at[0] == '%' && (at[1] == 'u' || at[1] == 'c');
}

bool acl_filter_is_valid(const char *filter, size_t len, bool pattern) {
    char plain[LIMIT_ACL_FILTER_BYTES];
    u32 used = 0, substitutes = 0;
    if (len == 0 || len > sizeof(plain)) return false;
    for (const char *at = filter, *end = filter + len; at < end;) {
        bool is = pattern && is_substitute(at, end);
        substitutes += is;
        plain[used++] = is ? 'x' : *at;
        at += is ? 2 : 1;
    }
    return substitutes <= LIMIT_ACL_SUBSTITUTES && topic_filter_is_valid(plain, used);
}

static bool is_one_level(const char *text, u32 len) {
    if (len == 0) return false;
    for (u32 i = 0; i < len; i++) {
        if (text[i] == '+' || text[i] == '#' || text[i] == '/') return false;
    }
    return true;
}

// The filter with its substitutes replaced. 0: it is not for this subject.
static u32 expand(const acl_subject *who, const char *filter, u32 len, char out[EXPANDED_BYTES]) {
    u32 used = 0;
    for (const char *at = filter, *end = filter + len; at < end;) {
        if (!is_substitute(at, end)) {
            out[used++] = *at++;
            continue;
        }
        const char *with = at[1] == 'u' ? who->user : who->client;
        u32 bytes = at[1] == 'u' ? who->user_len : who->client_len;
        if (with == NULL || !is_one_level(with, bytes) || used + bytes + (u32)(end - at) > EXPANDED_BYTES) return 0;
        memcpy(out + used, with, bytes);
        used += bytes;
        at += 2;
    }
    return used;
}

// --- questions ---

// How a rule's filter and what is asked for have to stand to each other.
typedef enum relation { OVERLAPS, COVERS } relation;

typedef struct question {
    const char *topic; // or filter
    u32 len;
    char access[3];    // letters of the rules that are looked for
    relation relation;
    bool patterns;     // substitutes are replaced
} question;

// Whether a rule of the list is such a one.
static bool list_has(const acl_rules *list, const acl_subject *who, const question *q) {
    char expanded[EXPANDED_BYTES];
    if (list == NULL) return false;
    while (*list != '\0') {
        const char *filter = list + 1, *end = strchr(filter, '\n');
        u32 len = (u32)(end - filter);
        if (strchr(q->access, *list) != NULL) {
            if (q->patterns && memchr(filter, '%', len) != NULL) {
                len = expand(who, filter, len, expanded);
                filter = expanded;
            }
            if (len > 0 && (q->relation == COVERS ? topic_filter_covers(filter, len, q->topic, q->len)
                                                  : topic_filters_overlap(filter, len, q->topic, q->len))) {
                return true;
            }
        }
        list = end + 1;
    }
    return false;
}

static bool judge(const acl *a, const acl_subject *who, const char *letters, relation deny, const char *topic,
                  u32 len) {
    question no = {topic, len, "d", deny, false}, yes = {topic, len, "", OVERLAPS, false};
    memcpy(yes.access, letters, sizeof(yes.access));
    const acl_rules *patterns = a == NULL ? NULL : a->patterns.rules;
    if (who->own_is_token) {
        const acl_rules *file = a == NULL ? NULL : acl_rules_of(a, who->user, who->user_len);
        if (list_has(file, who, &no)) return false;
        no.patterns = yes.patterns = true;
        return !list_has(patterns, who, &no) && list_has(who->own, who, &yes);
    }
    if (list_has(who->own, who, &no)) return false;
    if (list_has(who->own, who, &yes)) return true;
    no.patterns = yes.patterns = true;
    return !list_has(patterns, who, &no) && list_has(patterns, who, &yes);
}

bool acl_allows(const acl *a, const acl_subject *who, u8 access, const char *topic, u32 len) {
    return judge(a, who, access == ACL_READ ? "rb" : "wb", OVERLAPS, topic, len);
}

bool acl_allows_filter(const acl *a, const acl_subject *who, const char *filter, u32 len) {
    return judge(a, who, "rb", COVERS, filter, len);
}

static int user_compare(const void *a, const void *b) {
    const acl_user *x = a, *y = b;
    int order = memcmp(x->name, y->name, MIN(x->len, y->len));
    return order != 0 ? order : (x->len > y->len) - (x->len < y->len);
}

const acl_rules *acl_rules_of(const acl *a, const char *user, u32 len) {
    if (user == NULL) return a->anonymous.rules;
    acl_user key = {.name = user, .len = len};
    if (a->user_count == 0) return NULL;
    const acl_user *found = bsearch(&key, a->users, a->user_count, sizeof(*a->users), user_compare);
    return found == NULL ? NULL : found->rules;
}
