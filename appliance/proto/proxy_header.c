// SPDX-License-Identifier: Apache-2.0
// proxy_header.c: see proxy_header.h. The bytes are gathered one by one up to the point where the header's length is
// known: it comes once in a connection's life, and nothing behind it may be taken.
#include "proto/proxy_header.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/cursor.h"

#define V2_HEAD_BYTES 16u
#define V2_INET_BYTES 12u
#define V2_INET6_BYTES 36u
#define V2_UNIX_BYTES 216u

static const u8 v1_signature[] = {'P', 'R', 'O', 'X', 'Y', ' '};
static const u8 v2_signature[12] = {0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a};

static void address_set(proxy_parser *p, u8 family, const u8 *addr, u16 port) {
    memset(p->addr, 0, sizeof(p->addr));
    if (family == AF_INET) {
        p->addr[10] = p->addr[11] = 0xff;
        memcpy(p->addr + 12, addr, 4);
    } else {
        memcpy(p->addr, addr, 16);
    }
    p->family = family;
    p->port = port;
}

// --- version 1 ---

// Takes a word that ends with a space or the end of the text. NULL: there is none. Words stand with one space between.
static char *word_take(char **at) {
    char *word = *at;
    size_t len = strcspn(word, " ");
    if (len == 0) return NULL;
    *at = word[len] == ' ' ? word + len + 1 : word + len;
    word[len] = '\0';
    return word;
}

// Decimal, no sign, no leading zero, at most 65535.
static bool port_parse(const char *text, u16 *port) {
    u32 value = 0;
    size_t len = strlen(text);
    if (len == 0 || len > 5 || (len > 1 && text[0] == '0')) return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        value = value * 10 + (u32)(text[i] - '0');
    }
    *port = (u16)value;
    return value <= 65535;
}

// The line without its end, terminated.
static proxy_fault line_parse(proxy_parser *p, char *line) {
    char *at = line + sizeof(v1_signature);
    const char *protocol = word_take(&at);
    if (protocol == NULL) return PROXY_LINE;
    if (strcmp(protocol, "UNKNOWN") == 0) return PROXY_OK; // what follows is to be ignored
    int family = strcmp(protocol, "TCP4") == 0 ? AF_INET : strcmp(protocol, "TCP6") == 0 ? AF_INET6 : AF_UNSPEC;
    if (family == AF_UNSPEC) return PROXY_LINE;
    const char *words[4];
    bool more = true; // a space stands behind the last word taken
    for (u32 i = 0; i < ARRAY_LEN(words); i++) {
        words[i] = more ? word_take(&at) : NULL;
        if (words[i] == NULL) return PROXY_LINE;
        more = at != words[i] + strlen(words[i]);
    }
    u8 source[16], target[16];
    u16 source_port, target_port;
    if (more || inet_pton(family, words[0], source) != 1 || inet_pton(family, words[1], target) != 1) return PROXY_LINE;
    if (!port_parse(words[2], &source_port) || !port_parse(words[3], &target_port)) return PROXY_LINE;
    address_set(p, (u8)family, source, source_port);
    return PROXY_OK;
}

// 0: more bytes are needed.
static proxy_progress line_take(proxy_parser *p, proxy_fault *fault) {
    if (p->head[p->len - 1] != '\n') {
        if (p->len < PROXY_V1_BYTES_MAX) return PROXY_NEED_MORE;
        *fault = PROXY_LINE_LONG;
        return PROXY_REFUSED;
    }
    *fault = PROXY_LINE;
    if (p->head[p->len - 2] != '\r' || memchr(p->head, '\0', p->len) != NULL) return PROXY_REFUSED;
    p->head[p->len - 2] = '\0';
    *fault = line_parse(p, (char *)p->head);
    return *fault == PROXY_OK ? PROXY_READY : PROXY_REFUSED;
}

// --- version 2 ---

// Bytes of the address block that are looked at; what is behind them is skipped.
static u32 addresses_bytes(u8 command, u8 family) {
    if (command == 0) return 0;
    return family == 1 ? V2_INET_BYTES : family == 2 ? V2_INET6_BYTES : 0;
}

static proxy_fault binary_check(u8 version_command, u8 family_protocol, u32 len) {
    u8 command = version_command & 15u, family = family_protocol >> 4, protocol = family_protocol & 15u;
    if (version_command >> 4 != 2) return PROXY_VERSION;
    if (command > 1) return PROXY_COMMAND;
    if (len > PROXY_V2_BYTES_MAX) return PROXY_LENGTH;
    if (command == 0) return PROXY_OK; // LOCAL: the family is to be ignored
    if (family > 3 || protocol > 1 || (family == 0) != (protocol == 0)) return PROXY_FAMILY;
    u32 need = family == 3 ? V2_UNIX_BYTES : addresses_bytes(command, family);
    return len < need ? PROXY_LENGTH : PROXY_OK;
}

// The first 16 bytes are there.
static proxy_progress binary_take(proxy_parser *p, proxy_fault *fault) {
    cursor in = cursor_of(p->head + sizeof(v2_signature), p->len - (u32)sizeof(v2_signature));
    u8 version_command = cursor_u8(&in), family_protocol = cursor_u8(&in);
    u32 len = cursor_u16(&in);
    *fault = binary_check(version_command, family_protocol, len);
    if (*fault != PROXY_OK) return PROXY_REFUSED;
    u8 family = family_protocol >> 4;
    u32 need = addresses_bytes(version_command & 15u, family);
    if (p->len < V2_HEAD_BYTES + need) return PROXY_NEED_MORE;
    u32 addr_bytes = family == 1 ? 4 : 16;
    if (need > 0) {
        const u8 *source = cursor_take(&in, addr_bytes);
        (void)cursor_take(&in, addr_bytes); // the address it came in at
        address_set(p, family == 1 ? AF_INET : AF_INET6, source, cursor_u16(&in));
    }
    p->skipping = true;
    p->skip = (u16)(len - need);
    return p->skip == 0 ? PROXY_READY : PROXY_NEED_MORE;
}

// --- both ---

// One byte more has come.
static proxy_progress head_take(proxy_parser *p, proxy_fault *fault) {
    u32 first = MIN((u32)p->len, (u32)sizeof(v1_signature)), second = MIN((u32)p->len, (u32)sizeof(v2_signature));
    bool line = memcmp(p->head, v1_signature, first) == 0, binary = memcmp(p->head, v2_signature, second) == 0;
    if (!line && !binary) {
        *fault = PROXY_NO_HEADER;
        return PROXY_REFUSED;
    }
    if (line) return p->len > sizeof(v1_signature) ? line_take(p, fault) : PROXY_NEED_MORE;
    return p->len >= V2_HEAD_BYTES ? binary_take(p, fault) : PROXY_NEED_MORE;
}

proxy_progress proxy_header_feed(proxy_parser *p, const u8 *data, u32 len, u32 *used, proxy_fault *fault) {
    *used = 0;
    *fault = PROXY_OK;
    while (*used < len && !p->skipping) {
        ASSERT(p->len < PROXY_V1_BYTES_MAX);
        p->head[p->len++] = data[(*used)++];
        proxy_progress progress = head_take(p, fault);
        if (progress != PROXY_NEED_MORE) return progress;
    }
    if (!p->skipping) return PROXY_NEED_MORE;
    u32 take = MIN(len - *used, (u32)p->skip);
    *used += take;
    p->skip = (u16)(p->skip - take);
    return p->skip == 0 ? PROXY_READY : PROXY_NEED_MORE;
}

const char *proxy_fault_text(proxy_fault fault) {
    static const char *const texts[PROXY_FAULTS] = {
        [PROXY_OK] = "none",
        [PROXY_NO_HEADER] = "no PROXY header",
        [PROXY_LINE_LONG] = "a PROXY line of more than 107 bytes",
        [PROXY_LINE] = "a malformed PROXY line",
        [PROXY_VERSION] = "an unknown version of the PROXY header",
        [PROXY_COMMAND] = "an unknown command in the PROXY header",
        [PROXY_FAMILY] = "an address family or protocol that the PROXY header may not have here",
        [PROXY_LENGTH] = "a PROXY header with a wrong length",
    };
    return fault < PROXY_FAULTS ? texts[fault] : "unknown";
}
