// SPDX-License-Identifier: Apache-2.0
// network.c: see network.h. Words are cut out of the text one by one; each is parsed whole or refused,
// nothing is guessed (no class-full masks, no octal: inet_pton's strict forms only).
#include "conf/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BYTES 128

// The next word of *text without the separators; false at the end, or when it is too long (then *bad).
static bool next_word(const char **text, const char *separators, char word[WORD_BYTES], bool *bad) {
    *text += strspn(*text, separators);
    size_t len = strcspn(*text, separators);
    if (len == 0) return false;
    if (len >= WORD_BYTES) {
        *bad = true;
        return false;
    }
    memcpy(word, *text, len);
    word[len] = '\0';
    *text += len;
    return true;
}

int network_parse_address(const char *text, net_addr *out) {
    memset(out, 0, sizeof(*out));
    if (inet_pton(AF_INET, text, out->bytes) == 1) {
        out->family = AF_INET;
        out->prefix = 32;
        return 0;
    }
    if (inet_pton(AF_INET6, text, out->bytes) == 1) {
        out->family = AF_INET6;
        out->prefix = 128;
        return 0;
    }
    return -EINVAL;
}

int network_parse_prefix(const char *text, net_addr *out) {
    char address[WORD_BYTES];
    const char *slash = strchr(text, '/');
    if (slash == NULL) return network_parse_address(text, out);
    size_t len = (size_t)(slash - text);
    if (len >= sizeof(address)) return -EINVAL;
    memcpy(address, text, len);
    address[len] = '\0';
    if (network_parse_address(address, out) != 0) return -EINVAL;
    size_t digits = strspn(slash + 1, "0123456789");
    if (digits == 0 || digits > 3 || slash[1 + digits] != '\0') return -EINVAL;
    unsigned long bits = strtoul(slash + 1, NULL, 10);
    if (bits > out->prefix) return -EINVAL;
    out->prefix = (u8)bits;
    return 0;
}

static int parse_list(const char *text, net_addr out[NETWORK_LIST_MAX],
                      int (*parse)(const char *, net_addr *)) {
    char word[WORD_BYTES];
    bool bad = false;
    u32 count = 0;
    while (next_word(&text, " ,\t", word, &bad)) {
        if (count == NETWORK_LIST_MAX) return -E2BIG;
        if (parse(word, &out[count++]) != 0) return -EINVAL;
    }
    return bad ? -EINVAL : (int)count;
}

int network_parse_addresses(const char *text, net_addr out[NETWORK_LIST_MAX]) {
    return parse_list(text, out, network_parse_address);
}

int network_parse_prefixes(const char *text, net_addr out[NETWORK_LIST_MAX]) {
    return parse_list(text, out, network_parse_prefix);
}

// "PREFIX" or "PREFIX via ADDRESS".
static int parse_route(const char *text, net_route *out) {
    char to[WORD_BYTES], word[WORD_BYTES];
    bool bad = false;
    memset(out, 0, sizeof(*out));
    if (!next_word(&text, " \t", to, &bad)) return -EINVAL;
    if (strcmp(to, "default") == 0) return -EINVAL; // that is what gateway is for
    if (network_parse_prefix(to, &out->to) != 0) return -EINVAL;
    if (!next_word(&text, " \t", word, &bad)) return bad ? -EINVAL : 0;
    if (strcmp(word, "via") != 0 || !next_word(&text, " \t", word, &bad)) return -EINVAL;
    if (network_parse_address(word, &out->via) != 0) return -EINVAL;
    if (out->via.family != out->to.family) return -EINVAL;
    return next_word(&text, " \t", word, &bad) || bad ? -EINVAL : 0;
}

int network_parse_routes(const char *text, net_route out[NETWORK_LIST_MAX]) {
    char word[WORD_BYTES];
    bool bad = false;
    u32 count = 0;
    while (next_word(&text, ",", word, &bad)) {
        if (strspn(word, " \t") == strlen(word)) continue;
        if (count == NETWORK_LIST_MAX) return -E2BIG;
        if (parse_route(word, &out[count++]) != 0) return -EINVAL;
    }
    return bad ? -EINVAL : (int)count;
}

// --- match ---

static int parse_mac(const char *text, u8 mac[6]) {
    for (u32 i = 0; i < 6; i++, text += 2) {
        char *end, digits[3] = {text[0], text[0] != '\0' ? text[1] : '\0', '\0'};
        unsigned long byte = strtoul(digits, &end, 16);
        if (strlen(digits) != 2 || end != digits + 2 || digits[0] == '+' || digits[0] == '-' ||
            digits[0] == ' ')
            return -EINVAL;
        mac[i] = (u8)byte;
        if (i < 5 && *(text++ + 2) != ':') return -EINVAL;
    }
    return *text == '\0' ? 0 : -EINVAL;
}

// Rank of one word, -1 when it is no word of a match.
static int word_rank(const char *word, const network_candidate *c) {
    u8 mac[6];
    if (strcmp(word, "any") == 0) return 1;
    if (strncmp(word, "driver:", 7) == 0 && word[7] != '\0')
        return c != NULL && strcmp(word + 7, c->driver) == 0 ? 2 : 0;
    if (strncmp(word, "name:", 5) == 0 && word[5] != '\0') {
        bool exact = strpbrk(word + 5, "*?[") == NULL;
        return c != NULL && fnmatch(word + 5, c->name, 0) == 0 ? exact ? 4 : 3 : 0;
    }
    if (strncmp(word, "mac:", 4) == 0) {
        if (parse_mac(word + 4, mac) != 0) return -1;
        return c != NULL && memcmp(mac, c->mac, sizeof(mac)) == 0 ? 5 : 0;
    }
    return -1;
}

int network_match_rank(const char *match, const network_candidate *candidate) {
    char word[WORD_BYTES];
    bool bad = false;
    int best = 0;
    while (next_word(&match, " ,\t", word, &bad)) {
        int rank = word_rank(word, candidate);
        best = MAX(best, rank);
    }
    return best;
}

// --- printing and comparing ---

const char *network_print(const net_addr *a, bool with_prefix, char out[NETWORK_TEXT_BYTES]) {
    char address[INET6_ADDRSTRLEN] = "-";
    if (a->family != 0) inet_ntop(a->family, a->bytes, address, sizeof(address));
    if (with_prefix && a->family != 0) snprintf(out, NETWORK_TEXT_BYTES, "%s/%u", address, a->prefix);
    else snprintf(out, NETWORK_TEXT_BYTES, "%s", address);
    return out;
}

bool network_is_same(const net_addr *a, const net_addr *b) {
    size_t len = a->family == AF_INET6 ? 16 : 4;
    return a->family == b->family && a->prefix == b->prefix &&
           (a->family == 0 || memcmp(a->bytes, b->bytes, len) == 0);
}

bool network_contains(const net_addr *prefix, const net_addr *addr) {
    if (prefix->family != addr->family || prefix->family == 0) return false;
    u32 whole = prefix->prefix / 8, rest = prefix->prefix % 8;
    if (memcmp(prefix->bytes, addr->bytes, whole) != 0) return false;
    if (rest == 0) return true;
    u8 mask = (u8)(0xff << (8 - rest));
    return ((prefix->bytes[whole] ^ addr->bytes[whole]) & mask) == 0;
}

// --- checks ---

const char *text_check_match(const char *text) {
    char word[WORD_BYTES];
    bool bad = false;
    u32 count = 0;
    for (; next_word(&text, " ,\t", word, &bad); count++) {
        if (word_rank(word, NULL) < 0)
            return "any, name:NAME, mac:aa:bb:cc:dd:ee:ff or driver:DRIVER is expected";
    }
    return bad ? "a word is too long" : count == 0 ? "at least one word is expected" : NULL;
}

static const char *list_problem(int rc, const char *wrong) {
    if (rc == -E2BIG) return "more than 16 in one setting";
    return rc < 0 ? wrong : NULL;
}

const char *text_check_prefixes(const char *text) {
    net_addr list[NETWORK_LIST_MAX];
    int rc = network_parse_prefixes(text, list);
    for (int i = 0; i < rc; i++) {
        bool host_only = list[i].prefix == (list[i].family == AF_INET ? 32 : 128);
        if (host_only && strchr(text, '/') == NULL) return "the length of the network is missing (/24)";
        if (list[i].prefix == 0) return "a network of length 0 is not an address";
    }
    return list_problem(rc, "addresses such as 192.0.2.5/24 or 2001:db8::5/64 are expected");
}

const char *text_check_addresses(const char *text) {
    net_addr list[NETWORK_LIST_MAX];
    return list_problem(network_parse_addresses(text, list),
                        "IP addresses are expected, separated by blanks");
}

const char *text_check_routes(const char *text) {
    net_route list[NETWORK_LIST_MAX];
    return list_problem(network_parse_routes(text, list),
                        "NETWORK/BITS via ADDRESS is expected, separated by commas");
}

const char *text_check_hosts(const char *text) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:";
    char word[WORD_BYTES];
    bool bad = false;
    u32 count = 0;
    while (next_word(&text, " ,\t", word, &bad)) {
        if (strspn(word, plain) != strlen(word)) return "an address or a host name is expected";
        if (++count > NETWORK_LIST_MAX) return "more than 16 in one setting";
    }
    return bad ? "a name is too long" : NULL;
}

// --- rules between settings ---

typedef struct network_place {
    const conf_lines *lines;
    conf_errors *errors;
    u32 index;
    char where[LIMIT_NAME_BYTES + 64];
} network_place;

static void refuse(network_place *p, const network_config *n, const char *key, const char *what) {
    u32 line = p->lines->network[p->index][schema_index(SECTION_NETWORK, key)];
    if (line == 0) line = p->lines->network_begin[p->index];
    snprintf(p->where, sizeof(p->where), "network %s: %s", n->name, key);
    conf_errors_add(p->errors, line, p->where, "%s", what);
}

// A gateway or a route's next hop that no address of the block can reach.
static bool is_reachable(const network_config *n, const net_addr *via) {
    static const net_addr link_local = {AF_INET6, 10, {0xfe, 0x80}};
    net_addr own[NETWORK_LIST_MAX];
    int count = network_parse_prefixes(n->address, own);
    if (network_contains(&link_local, via)) return true;
    for (int i = 0; i < count; i++) {
        bool single = own[i].family == via->family && own[i].prefix >= (via->family == AF_INET ? 31 : 127);
        if (single || network_contains(&own[i], via)) return true;
    }
    return false;
}

static void check_static(network_place *p, const network_config *n) {
    net_addr gateways[NETWORK_LIST_MAX];
    net_route routes[NETWORK_LIST_MAX];
    int count = network_parse_addresses(n->gateway, gateways);
    if (count > 0 && n->address[0] == '\0') {
        refuse(p, n, "gateway", "needs address; with DHCP the gateway comes from the server");
        return;
    }
    for (int i = 0; i < count; i++) {
        if (!is_reachable(n, &gateways[i]))
            refuse(p, n, "gateway", "is in none of the networks of address");
    }
    count = network_parse_routes(n->routes, routes);
    for (int i = 0; i < count && n->address[0] != '\0'; i++) {
        if (routes[i].via.family != 0 && !n->dhcp4 && !is_reachable(n, &routes[i].via))
            refuse(p, n, "routes", "a next hop is in none of the networks of address");
    }
}

void conf_check_networks(const config *c, const conf_lines *lines, conf_errors *errors) {
    network_place p = {.lines = lines, .errors = errors};
    for (p.index = 0; p.index < c->network_count; p.index++) {
        const network_config *n = &c->networks[p.index];
        if (lines->network_wrong[p.index]) continue;
        for (u32 i = 0; i < p.index; i++) {
            if (strcmp(c->networks[i].name, n->name) == 0)
                refuse(&p, n, "match", "the name of the block is used twice");
        }
        check_static(&p, n);
        if (n->vlan != 0 && strlen(n->name) > 15)
            refuse(&p, n, "vlan", "the block's name becomes the interface's: at most 15 characters");
    }
}
