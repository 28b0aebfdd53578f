// SPDX-License-Identifier: Apache-2.0
// acl_parse.c: from an ACL file's lines to lists of rules. A user may have several blocks; the later ones are added.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/acl.h"
#include "broker/topic.h"
#include "limits.h"

typedef struct parse {
    acl *a;
    u32 user_room;
    acl_user *current;     // whose `topic` lines come now
    char problem[160];
} parse;

static const char *problem_set(parse *p, const char *before, const char *text, size_t len, const char *behind) {
    snprintf(p->problem, sizeof(p->problem), "%s\"%.*s\"%s", before, (int)MIN(len, (size_t)64), text, behind);
    return p->problem;
}

static const char *const no_memory = "out of memory";

static bool rule_add(acl_user *u, char letter, const char *filter, size_t len) {
    size_t want = u->rules_len + len + 3;
    // Grown by doubling: a file of many lines is read in linear time.
    size_t size = 64, have = 0;
    while (size < want) size *= 2;
    for (have = 64; u->rules != NULL && have < u->rules_len + 1;) have *= 2;
    if (u->rules == NULL || size != have) {
        acl_rules *grown = realloc(u->rules, size);
        if (grown == NULL) return false;
        u->rules = grown;
    }
    u->rules[u->rules_len] = letter;
    memcpy(u->rules + u->rules_len + 1, filter, len);
    u->rules_len += (u32)len + 2;
    u->rules[u->rules_len - 1] = '\n';
    u->rules[u->rules_len] = '\0';
    return true;
}

// Splits the first word off.
static void word_split(const char *text, size_t len, size_t *word, const char **rest, size_t *rest_len) {
    size_t at = 0;
    while (at < len && text[at] != ' ' && text[at] != '\t') at++;
    *word = at;
    while (at < len && (text[at] == ' ' || text[at] == '\t')) at++;
    *rest = text + at;
    *rest_len = len - at;
}

static bool word_is(const char *text, size_t len, const char *word) {
    return len == strlen(word) && memcmp(text, word, len) == 0;
}

// "read a/b" or "a/b". A filter may hold blanks; one that begins with an access word needs that word twice.
static const char *rule_parse(parse *p, acl_user *to, const char *text, size_t len, bool pattern) {
    static const struct {
        const char *word;
        char letter;
    } accesses[] = {{"read", 'r'}, {"write", 'w'}, {"readwrite", 'b'}, {"deny", 'd'}};
    const char *filter;
    size_t word, filter_len;
    char letter = 'b';
    word_split(text, len, &word, &filter, &filter_len);
    bool found = false;
    for (u32 i = 0; i < ARRAY_LEN(accesses) && !found; i++) {
        found = filter_len > 0 && word_is(text, word, accesses[i].word);
        if (found) letter = accesses[i].letter;
    }
    if (!found) {
        filter = text;
        filter_len = len;
    }
    if (filter_len == 0) return "the topic filter is missing";
    if (filter_len > LIMIT_ACL_FILTER_BYTES) return "the topic filter is longer than 1024 bytes";
    if (!acl_filter_is_valid(filter, filter_len, pattern)) {
        return problem_set(p, "", filter, filter_len, " is no valid topic filter");
    }
    return rule_add(to, letter, filter, filter_len) ? NULL : no_memory;
}

static const char *user_begin(parse *p, const char *name, size_t len) {
    acl *a = p->a;
    if (len == 0) return "the user name is missing";
    if (len > LIMIT_USER_BYTES) return "the user name is longer than 256 bytes";
    if (!utf8_is_valid(name, len)) return "the user name is not UTF-8 text";
    if (a->user_count == p->user_room) {
        u32 room = MAX(p->user_room * 2, 16u);
        acl_user *grown = realloc(a->users, room * sizeof(*grown));
        if (grown == NULL) return no_memory;
        a->users = grown;
        p->user_room = room;
    }
    char *copy = malloc(len);
    if (copy == NULL) return no_memory;
    memcpy(copy, name, len);
    p->current = &a->users[a->user_count++];
    *p->current = (acl_user){.name = copy, .len = (u32)len};
    return NULL;
}

static const char *line_parse(parse *p, const char *line, size_t len) {
    const char *rest;
    size_t word, rest_len;
    while (len > 0 && (line[len - 1] == ' ' || line[len - 1] == '\t' || line[len - 1] == '\r')) len--;
    while (len > 0 && (*line == ' ' || *line == '\t')) line++, len--;
    if (len == 0 || *line == '#') return NULL;
    if (memchr(line, '\0', len) != NULL) return "a zero byte";
    word_split(line, len, &word, &rest, &rest_len);
    if (word_is(line, word, "user")) return user_begin(p, rest, rest_len);
    if (word_is(line, word, "topic")) return rule_parse(p, p->current, rest, rest_len, false);
    if (word_is(line, word, "pattern")) return rule_parse(p, &p->a->patterns, rest, rest_len, true);
    return problem_set(p, "unknown word ", line, word, "; allowed: user, topic, pattern");
}

static int user_compare(const void *a, const void *b) {
    const acl_user *x = a, *y = b;
    int order = memcmp(x->name, y->name, MIN(x->len, y->len));
    return order != 0 ? order : (x->len > y->len) - (x->len < y->len);
}

static void user_free(acl_user *u) {
    free((char *)(uintptr_t)u->name);
    free(u->rules);
}

// Sorts the users, and joins several blocks of one. qsort is not stable, but the order of blocks means nothing.
static bool users_finish(acl *a) {
    if (a->user_count == 0) return true;
    qsort(a->users, a->user_count, sizeof(*a->users), user_compare);
    u32 kept = 0;
    for (u32 i = 1; i < a->user_count; i++) {
        acl_user *to = &a->users[kept], *u = &a->users[i];
        if (user_compare(to, u) != 0) {
            a->users[++kept] = *u;
            if (kept != i) *u = (acl_user){0};
            continue;
        }
        if (u->rules_len > 0) {
            acl_rules *joined = realloc(to->rules, to->rules_len + u->rules_len + 1);
            if (joined == NULL) return false;
            memcpy(joined + to->rules_len, u->rules, u->rules_len + 1);
            to->rules = joined;
            to->rules_len += u->rules_len;
        }
        user_free(u);
        *u = (acl_user){0};
    }
    a->user_count = kept + 1;
    return true;
}

int acl_parse(const char *name, const char *text, size_t len, acl *out, char *error, size_t error_bytes) {
    *out = (acl){0};
    parse p = {.a = out, .current = &out->anonymous};
    u32 number = 0;
    const char *wrong = NULL;
    for (size_t at = 0; at < len && wrong == NULL; number++) {
        const char *line = text + at, *end = memchr(line, '\n', len - at);
        size_t bytes = end != NULL ? (size_t)(end - line) : len - at;
        at += bytes + 1;
        wrong = line_parse(&p, line, bytes);
    }
    if (wrong == NULL && !users_finish(out)) wrong = no_memory;
    if (wrong == NULL) return 0;
    snprintf(error, error_bytes, "%s:%u: %s", name, number, wrong);
    int result = wrong == no_memory ? -ENOMEM : -EINVAL;
    acl_free(out);
    return result;
}

void acl_free(acl *a) {
    for (u32 i = 0; i < a->user_count; i++) user_free(&a->users[i]);
    free(a->users);
    free(a->anonymous.rules);
    free(a->patterns.rules);
    *a = (acl){0};
}
