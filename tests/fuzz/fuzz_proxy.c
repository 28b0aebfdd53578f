// SPDX-License-Identifier: Apache-2.0
// fuzz_proxy.c: the PROXY header with bytes of anybody, whole and cut into pieces; and address ranges of a
// configuration. The first byte seeds the cuts.
//
// Checked: however the bytes are cut the result is the same; a header never takes bytes behind its end; what is
// refused has a name.
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "conf/cidr.h"
#include "proto/proxy_header.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

typedef struct outcome {
    proxy_progress progress;
    proxy_fault fault;
    size_t used;
    u8 addr[16];
    u16 port;
    u8 family;
} outcome;

static outcome header_read(const u8 *data, size_t size, u32 seed, bool cut) {
    outcome o = {.progress = PROXY_NEED_MORE};
    proxy_parser p = {0};
    while (o.used < size && o.progress == PROXY_NEED_MORE) {
        seed = seed * 1103515245 + 12345;
        u32 used, take = (u32)MIN(size - o.used, cut ? 1 + (seed >> 16) % 20 : size);
        u8 *copy = malloc(take);
        if (copy == NULL) break;
        memcpy(copy, data + o.used, take);
        o.progress = proxy_header_feed(&p, copy, take, &used, &o.fault);
        free(copy);
        ASSERT(used <= take && (used == take || o.progress != PROXY_NEED_MORE));
        o.used += used;
    }
    ASSERT((o.progress == PROXY_REFUSED) == (o.fault != PROXY_OK) && proxy_fault_text(o.fault) != NULL);
    ASSERT(p.family == 0 || p.family == AF_INET || p.family == AF_INET6);
    memcpy(o.addr, p.addr, sizeof(o.addr));
    o.port = p.port;
    o.family = p.family;
    return o;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
    if (size == 0) return 0;
    outcome whole = header_read(data + 1, size - 1, 0, false), parts = header_read(data + 1, size - 1, data[0], true);
    ASSERT(whole.progress == parts.progress && whole.fault == parts.fault);
    if (whole.progress == PROXY_READY) {
        ASSERT(whole.used == parts.used && whole.family == parts.family && whole.port == parts.port);
        ASSERT(memcmp(whole.addr, parts.addr, sizeof(whole.addr)) == 0);
    }
    cidr range;
    if (cidr_parse((const char *)data + 1, size - 1, &range)) ASSERT(range.bits <= 128 && cidr_has(&range, range.addr));
    char *text = malloc(size);
    if (text == NULL) return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    (void)cidr_list_has(text, whole.addr);
    free(text);
    return 0;
}
