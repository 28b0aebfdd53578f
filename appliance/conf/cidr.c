// SPDX-License-Identifier: Apache-2.0
// cidr.c: see cidr.h.
#include "conf/cidr.h"

#include <arpa/inet.h>
#include <string.h>

#define TEXT_BYTES 64u // longer than any range

static bool bit_is_set(const u8 addr[16], u32 bit) {
    return (addr[bit / 8] >> (7 - bit % 8) & 1u) != 0;
}

static bool bits_parse(const char *text, u32 max, u32 *bits) {
    u32 value = 0;
    size_t len = strlen(text);
    if (len == 0 || len > 3 || (len > 1 && text[0] == '0')) return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        value = value * 10 + (u32)(text[i] - '0');
    }
    *bits = value;
    return value <= max;
}

bool cidr_parse(const char *text, size_t len, cidr *out) {
    char copy[TEXT_BYTES];
    if (len == 0 || len >= sizeof(copy)) return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    char *slash = strchr(copy, '/');
    if (slash != NULL) *slash = '\0';
    *out = (cidr){.bits = 128};
    u32 before = 0;
    if (inet_pton(AF_INET6, copy, out->addr) != 1) {
        if (inet_pton(AF_INET, copy, out->addr + 12) != 1) return false;
        out->addr[10] = out->addr[11] = 0xff;
        before = 96;
    }
    if (slash != NULL && !bits_parse(slash + 1, 128 - before, &out->bits)) return false;
    if (slash != NULL) out->bits += before;
    for (u32 bit = out->bits; bit < 128; bit++) {
        if (bit_is_set(out->addr, bit)) return false;
    }
    return true;
}

bool cidr_has(const cidr *range, const u8 addr[16]) {
    u32 whole = range->bits / 8;
    if (memcmp(range->addr, addr, whole) != 0) return false;
    for (u32 bit = whole * 8; bit < range->bits; bit++) {
        if (bit_is_set(range->addr, bit) != bit_is_set(addr, bit)) return false;
    }
    return true;
}

bool cidr_list_has(const char *list, const u8 addr[16]) {
    while (*list != '\0') {
        size_t len = strcspn(list, "\n");
        cidr range;
        if (cidr_parse(list, len, &range) && cidr_has(&range, addr)) return true;
        list += len + (list[len] == '\n');
    }
    return false;
}
