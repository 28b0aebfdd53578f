// SPDX-License-Identifier: Apache-2.0
// dhcp6_packet.c: see dhcp6_packet.h. Options are walked with one bounded function; what is nested
// (address in IA_NA, status in address) is walked the same way within its bounds.
#include "init/dhcp6_packet.h"

#include <errno.h>
#include <string.h>

enum {
    OPT_CLIENT_ID = 1,
    OPT_SERVER_ID = 2,
    OPT_IA_NA = 3,
    OPT_ADDRESS = 5,
    OPT_REQUEST = 6,
    OPT_ELAPSED = 8,
    OPT_STATUS = 13,
    OPT_RAPID = 14,
    OPT_DNS = 23,
    OPT_NTP = 56,
};
#define NTP_ADDRESS 1
#define DUID_LL_BYTES 10u

static void put16(u8 *at, u32 value) {
    at[0] = (u8)(value >> 8);
    at[1] = (u8)value;
}

static u32 get16(const u8 *at) {
    return (u32)at[0] << 8 | at[1];
}

static u32 get32(const u8 *at) {
    return get16(at) << 16 | get16(at + 2);
}

static void duid_make(const u8 mac[6], u8 out[DUID_LL_BYTES]) {
    put16(out, 3);     // DUID-LL
    put16(out + 2, 1); // Ethernet
    memcpy(out + 4, mac, 6);
}

typedef struct builder {
    u8 *out;
    u32 at;
} builder;

static void put_option(builder *b, u32 code, const void *data, u32 len) {
    ASSERT(b->at + 4 + len <= DHCP6_PACKET_BYTES_MAX);
    put16(b->out + b->at, code);
    put16(b->out + b->at + 2, len);
    if (len > 0) memcpy(b->out + b->at + 4, data, len);
    b->at += 4 + len;
}

static void put_ia(builder *b, const dhcp6_ask *ask) {
    u8 ia[12 + 4 + 24] = {0};
    u32 len = 12;
    memcpy(ia, ask->mac + 2, 4); // IAID
    if (ask->address != NULL) {
        put16(ia + 12, OPT_ADDRESS);
        put16(ia + 14, 24);
        memcpy(ia + 16, ask->address, 16);
        len = sizeof(ia);
    }
    put_option(b, OPT_IA_NA, ia, len);
}

u32 dhcp6_packet_build(const dhcp6_ask *ask, u8 out[DHCP6_PACKET_BYTES_MAX]) {
    static const u8 wanted[] = {0, OPT_DNS, 0, OPT_NTP};
    builder b = {.out = out, .at = 4};
    u8 duid[DUID_LL_BYTES], elapsed[2];
    put16(out, (u32)ask->type << 8 | (ask->xid >> 16 & 0xff));
    put16(out + 2, ask->xid & 0xffff);
    duid_make(ask->mac, duid);
    put_option(&b, OPT_CLIENT_ID, duid, sizeof(duid));
    if (ask->server != NULL) put_option(&b, OPT_SERVER_ID, ask->server, ask->server_len);
    put16(elapsed, ask->elapsed_cs);
    put_option(&b, OPT_ELAPSED, elapsed, sizeof(elapsed));
    put_option(&b, OPT_REQUEST, wanted, sizeof(wanted));
    if (ask->type == DHCP6_SOLICIT) put_option(&b, OPT_RAPID, NULL, 0);
    if (ask->type != DHCP6_INFORMATION) put_ia(&b, ask);
    return b.at;
}

// --- reading ---

typedef struct options {
    const u8 *at;
    size_t left;
    bool bad;
} options;

typedef struct option {
    u32 code;
    const u8 *data;
    size_t len;
} option;

static bool next_option(options *o, option *out) {
    if (o->left == 0) return false;
    if (o->left < 4 || get16(o->at + 2) > o->left - 4) {
        o->bad = true;
        return false;
    }
    *out = (option){.code = get16(o->at), .data = o->at + 4, .len = get16(o->at + 2)};
    o->at += 4 + out->len;
    o->left -= 4 + out->len;
    return true;
}

static bool is_unicast(const u8 address[16]) {
    static const u8 zero[15];
    bool none_or_loopback = memcmp(address, zero, 15) == 0;
    return address[0] != 0xff && !none_or_loopback;
}

static void read_servers(const u8 *data, size_t len, u8 out[DHCP6_SERVERS_MAX][16], u8 *count) {
    for (size_t at = 0; at + 16 <= len && *count < DHCP6_SERVERS_MAX; at += 16) {
        if (is_unicast(data + at)) memcpy(out[(*count)++], data + at, 16);
    }
}

static bool read_address(const option *a, dhcp6_message *m) {
    if (a->len < 24) return false;
    dhcp6_lease *l = &m->lease;
    u32 preferred = get32(a->data + 16), valid = get32(a->data + 20);
    options in = {.at = a->data + 24, .left = a->len - 24};
    option o;
    while (next_option(&in, &o)) {
        if (o.code == OPT_STATUS && o.len >= 2 && get16(o.data) != 0) m->status = (u16)get16(o.data);
    }
    if (in.bad || preferred > valid || !is_unicast(a->data) || l->has_address) return !in.bad;
    if (valid == 0) return true; // the server takes it back
    memcpy(l->address, a->data, 16);
    l->has_address = true;
    l->valid_s = MAX(valid, DHCP6_VALID_S_MIN);
    l->preferred_s = preferred;
    return true;
}

static bool read_ia(const option *ia, const u8 mac[6], dhcp6_message *m) {
    if (ia->len < 12) return false;
    if (memcmp(ia->data, mac + 2, 4) != 0) return true; // not one that was asked for
    m->lease.t1_s = get32(ia->data + 4);
    m->lease.t2_s = get32(ia->data + 8);
    options in = {.at = ia->data + 12, .left = ia->len - 12};
    option o;
    while (next_option(&in, &o)) {
        if (o.code == OPT_ADDRESS && !read_address(&o, m)) return false;
        if (o.code == OPT_STATUS && o.len >= 2 && get16(o.data) != 0) m->status = (u16)get16(o.data);
    }
    return !in.bad;
}

static void read_ntp(const option *ntp, dhcp6_lease *l) {
    options in = {.at = ntp->data, .left = ntp->len};
    option o;
    while (next_option(&in, &o)) {
        if (o.code == NTP_ADDRESS) read_servers(o.data, o.len, l->ntp, &l->ntp_count);
    }
}

// RFC 8415 section 14.2: 0 leaves the times to the client.
static void settle_times(dhcp6_lease *l) {
    bool forever = l->valid_s == UINT32_MAX;
    bool in_order = l->t1_s != 0 && l->t1_s < l->t2_s && l->t2_s < l->valid_s;
    if (in_order) return;
    u32 base = MIN(MAX(l->preferred_s, DHCP6_VALID_S_MIN), l->valid_s);
    l->t1_s = forever && l->preferred_s == UINT32_MAX ? UINT32_MAX : base / 2;
    l->t2_s = l->t1_s == UINT32_MAX ? UINT32_MAX : base - base / 5;
}

int dhcp6_packet_parse(const u8 *data, size_t len, const u8 mac[6], dhcp6_message *out) {
    u8 duid[DUID_LL_BYTES];
    bool for_us = false;
    option o;
    memset(out, 0, sizeof(*out));
    if (len < 4 || (data[0] != DHCP6_ADVERTISE && data[0] != DHCP6_REPLY)) return -EINVAL;
    out->type = data[0];
    out->xid = get32(data) & 0xffffff;
    duid_make(mac, duid);
    options in = {.at = data + 4, .left = len - 4};
    while (next_option(&in, &o)) {
        switch (o.code) {
        case OPT_CLIENT_ID:
            for_us = o.len == sizeof(duid) && memcmp(o.data, duid, sizeof(duid)) == 0;
            break;
        case OPT_SERVER_ID:
            if (o.len == 0 || o.len > DHCP6_DUID_BYTES_MAX) return -EINVAL;
            memcpy(out->server, o.data, o.len);
            out->server_len = (u32)o.len;
            break;
        case OPT_IA_NA:
            if (!read_ia(&o, mac, out)) return -EINVAL;
            break;
        case OPT_STATUS:
            if (o.len >= 2 && get16(o.data) != 0) out->status = (u16)get16(o.data);
            break;
        case OPT_RAPID: out->rapid = true; break;
        case OPT_DNS: read_servers(o.data, o.len, out->lease.dns, &out->lease.dns_count); break;
        case OPT_NTP: read_ntp(&o, &out->lease); break;
        default: break;
        }
    }
    if (in.bad || !for_us || out->server_len == 0) return -EINVAL;
    if (out->lease.has_address) settle_times(&out->lease);
    return 0;
}
