// SPDX-License-Identifier: Apache-2.0
// dhcp4_packet.c: see dhcp4_packet.h. Options are looked up by code over all areas that may hold them
// (the option field, and the file and sname fields when option 52 says so), pieces of one code joined in
// order (RFC 3396), so that the order in a packet never matters.
#include "init/dhcp4_packet.h"

#include <errno.h>
#include <string.h>

#define FIXED_BYTES 236u
#define COOKIE 0x63825363u
#define PACKET_BYTES_MIN 300u
#define BOOT_REQUEST 1
#define BOOT_REPLY 2
#define OPTION_BYTES_MAX 512u

enum {
    OPT_PAD = 0,
    OPT_MASK = 1,
    OPT_ROUTER = 3,
    OPT_DNS = 6,
    OPT_HOSTNAME = 12,
    OPT_DOMAIN = 15,
    OPT_MTU = 26,
    OPT_NTP = 42,
    OPT_REQUESTED = 50,
    OPT_LEASE = 51,
    OPT_OVERLOAD = 52,
    OPT_TYPE = 53,
    OPT_SERVER = 54,
    OPT_PARAMETERS = 55,
    OPT_TEXT = 56,
    OPT_MAX_SIZE = 57,
    OPT_T1 = 58,
    OPT_T2 = 59,
    OPT_CLIENT_ID = 61,
    OPT_ROUTES = 121,
    OPT_END = 255,
};

// --- building ---

typedef struct builder {
    u8 *out;
    u32 at;
} builder;

static void put_option(builder *b, u8 code, const void *data, u8 len) {
    ASSERT(b->at + 2u + len < DHCP4_PACKET_BYTES_MAX);
    b->out[b->at++] = code;
    b->out[b->at++] = len;
    memcpy(b->out + b->at, data, len);
    b->at += len;
}

static void put_u32(u8 *at, u32 value) {
    at[0] = (u8)(value >> 24);
    at[1] = (u8)(value >> 16);
    at[2] = (u8)(value >> 8);
    at[3] = (u8)value;
}

static bool is_zero(const u8 address[4]) {
    return (address[0] | address[1] | address[2] | address[3]) == 0;
}

u32 dhcp4_packet_build(const dhcp4_ask *ask, u8 out[DHCP4_PACKET_BYTES_MAX]) {
    static const u8 parameters[] = {OPT_MASK, OPT_ROUTES, OPT_ROUTER, OPT_DNS, OPT_DOMAIN, OPT_MTU,
                                    OPT_NTP,  OPT_LEASE,  OPT_T1,     OPT_T2};
    builder b = {.out = out, .at = FIXED_BYTES + 4};
    u8 type = (u8)ask->type, client_id[7] = {1}, size[2] = {DHCP4_PACKET_BYTES_MAX >> 8,
                                                            DHCP4_PACKET_BYTES_MAX & 0xff};
    memset(out, 0, PACKET_BYTES_MIN);
    out[0] = BOOT_REQUEST;
    out[1] = 1; // Ethernet
    out[2] = 6;
    put_u32(out + 4, ask->xid);
    out[8] = (u8)(ask->secs >> 8);
    out[9] = (u8)ask->secs;
    memcpy(out + 12, ask->client, 4);
    memcpy(out + 28, ask->mac, 6);
    put_u32(out + FIXED_BYTES, COOKIE);
    put_option(&b, OPT_TYPE, &type, 1);
    // The hardware address, never something made up: a new id at each boot is a new address each time.
    memcpy(client_id + 1, ask->mac, 6);
    put_option(&b, OPT_CLIENT_ID, client_id, sizeof(client_id));
    if (!is_zero(ask->requested)) put_option(&b, OPT_REQUESTED, ask->requested, 4);
    if (!is_zero(ask->server)) put_option(&b, OPT_SERVER, ask->server, 4);
    if (ask->type == DHCP4_DISCOVER || ask->type == DHCP4_REQUEST) {
        put_option(&b, OPT_PARAMETERS, parameters, sizeof(parameters));
        put_option(&b, OPT_MAX_SIZE, size, sizeof(size));
        size_t len = ask->hostname != NULL ? strlen(ask->hostname) : 0;
        if (len > 0 && len <= 63) put_option(&b, OPT_HOSTNAME, ask->hostname, (u8)len);
    }
    out[b.at++] = OPT_END;
    return MAX(b.at, PACKET_BYTES_MIN);
}

// --- reading ---

typedef struct packet {
    const u8 *data;
    size_t len;
    u8 overload; // 1 file, 2 sname, 3 both
} packet;

static size_t gather_area(const u8 *area, size_t len, u8 code, u8 *out, size_t used, bool *found) {
    for (size_t at = 0; at < len && area[at] != OPT_END;) {
        if (area[at] == OPT_PAD) {
            at++;
            continue;
        }
        if (len - at < 2) break;
        size_t size = area[at + 1];
        if (size > len - at - 2) break; // cut off: what stands before it counts
        if (area[at] == code) {
            size_t take = MIN(size, OPTION_BYTES_MAX - used);
            memcpy(out + used, area + at + 2, take);
            used += take;
            *found = true;
        }
        at += 2 + size;
    }
    return used;
}

// Bytes of an option, all its pieces; -1 when it is not there.
static int option_get(const packet *p, u8 code, u8 out[OPTION_BYTES_MAX]) {
    bool found = false;
    size_t used = gather_area(p->data + FIXED_BYTES + 4, p->len - FIXED_BYTES - 4, code, out, 0, &found);
    if ((p->overload & 1) != 0) used = gather_area(p->data + 108, 128, code, out, used, &found);
    if ((p->overload & 2) != 0) used = gather_area(p->data + 44, 64, code, out, used, &found);
    return found ? (int)used : -1;
}

static bool option_u32(const packet *p, u8 code, u32 *value) {
    u8 data[OPTION_BYTES_MAX];
    if (option_get(p, code, data) != 4) return false;
    *value = (u32)data[0] << 24 | (u32)data[1] << 16 | (u32)data[2] << 8 | data[3];
    return true;
}

// At most DHCP4_SERVERS_MAX addresses; zeroes and what is not a host are left out.
static u8 option_servers(const packet *p, u8 code, u8 out[DHCP4_SERVERS_MAX][4]) {
    u8 data[OPTION_BYTES_MAX], count = 0;
    int len = option_get(p, code, data);
    for (int at = 0; at + 4 <= len && count < DHCP4_SERVERS_MAX; at += 4) {
        if (data[at] == 0 || data[at] >= 224) continue;
        memcpy(out[count++], data + at, 4);
    }
    return count;
}

// RFC 3442: prefix length, so many significant bytes, router. Returns false when it is not well formed.
static bool read_classless(const u8 *data, size_t len, dhcp4_lease *out) {
    for (size_t at = 0; at < len;) {
        u8 prefix = data[at++];
        size_t bytes = (prefix + 7u) / 8u;
        if (prefix > 32 || len - at < bytes + 4) return false;
        if (out->route_count < DHCP4_ROUTES_MAX) {
            dhcp4_route *r = &out->routes[out->route_count++];
            r->prefix = prefix;
            memcpy(r->to, data + at, bytes);
            memcpy(r->via, data + at + bytes, 4);
        }
        at += bytes + 4;
    }
    return true;
}

static void read_routes(const packet *p, dhcp4_lease *out, const char **note) {
    u8 data[OPTION_BYTES_MAX], routers[DHCP4_SERVERS_MAX][4];
    int len = option_get(p, OPT_ROUTES, data);
    if (len > 0) {
        if (read_classless(data, (size_t)len, out)) return; // then the router option must be ignored
        *note = "classless routes (option 121) that can not be read";
        out->route_count = 0;
        memset(out->routes, 0, sizeof(out->routes));
    }
    if (option_servers(p, OPT_ROUTER, routers) == 0) return;
    memcpy(out->routes[0].via, routers[0], 4);
    out->route_count = 1;
}

static u8 class_prefix(u8 first) {
    return first < 128 ? 8 : first < 192 ? 16 : 24;
}

static u8 read_prefix(const packet *p, const u8 address[4], const char **note) {
    u32 mask = 0;
    if (option_u32(p, OPT_MASK, &mask)) {
        u32 inverted = ~mask;
        if (mask != 0 && (inverted & (inverted + 1)) == 0) return (u8)__builtin_popcount(mask);
    }
    *note = "no usable subnet mask; the class of the address stands in";
    return class_prefix(address[0]);
}

static void read_times(const packet *p, dhcp4_lease *out, const char **note) {
    u32 lease = DHCP4_LEASE_S_DEFAULT, t1 = 0, t2 = 0;
    if (!option_u32(p, OPT_LEASE, &lease)) *note = "no lease time; an hour stands in";
    if (lease < DHCP4_LEASE_S_MIN) {
        *note = "a lease below 60 s; it is taken as 60 s";
        lease = DHCP4_LEASE_S_MIN;
    }
    out->lease_s = lease;
    out->t1_s = lease == DHCP4_FOREVER_S ? lease : lease / 2;
    out->t2_s = lease == DHCP4_FOREVER_S ? lease : lease - lease / 8;
    if (lease == DHCP4_FOREVER_S) return;
    bool has_t1 = option_u32(p, OPT_T1, &t1), has_t2 = option_u32(p, OPT_T2, &t2);
    if (!has_t1) t1 = out->t1_s;
    if (!has_t2) t2 = out->t2_s;
    if (t1 >= DHCP4_LEASE_S_MIN / 2 && t1 < t2 && t2 < lease) {
        out->t1_s = t1;
        out->t2_s = t2;
    } else if (has_t1 || has_t2) {
        *note = "renewal times out of order; half and seven eighths of the lease stand in";
    }
}

static void read_domain(const packet *p, dhcp4_lease *out) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    u8 data[OPTION_BYTES_MAX];
    int len = option_get(p, OPT_DOMAIN, data);
    while (len > 0 && data[len - 1] == '\0') len--;
    if (len <= 0 || (size_t)len >= sizeof(out->domain)) return;
    memcpy(out->domain, data, (size_t)len);
    // It goes into resolv.conf: anything but a plain name is dropped whole.
    if (strspn(out->domain, plain) != (size_t)len) memset(out->domain, 0, sizeof(out->domain));
}

static bool is_host(const u8 a[4]) {
    return a[0] != 0 && a[0] != 127 && a[0] < 224;
}

bool dhcp4_lease_is_valid(const dhcp4_lease *l) {
    bool times = l->lease_s == DHCP4_FOREVER_S ||
                 (l->lease_s >= DHCP4_LEASE_S_MIN && l->t1_s < l->t2_s && l->t2_s < l->lease_s);
    if (!is_host(l->address) || l->prefix == 0 || l->prefix > 32 || !times) return false;
    if (l->dns_count > DHCP4_SERVERS_MAX || l->ntp_count > DHCP4_SERVERS_MAX) return false;
    if (l->route_count > DHCP4_ROUTES_MAX) return false;
    for (u32 i = 0; i < l->route_count; i++) {
        if (l->routes[i].prefix > 32) return false;
    }
    return memchr(l->domain, '\0', sizeof(l->domain)) != NULL;
}

static int read_lease(const packet *p, const u8 source[4], dhcp4_message *out, const char **why) {
    dhcp4_lease *l = &out->lease;
    u8 data[OPTION_BYTES_MAX];
    memcpy(l->address, p->data + 16, 4);
    if (!is_host(l->address)) {
        *why = "the offered address is not a host's";
        return -EINVAL;
    }
    // A server id of 0.0.0.0 has been seen; renewing must not be sent there.
    bool given = option_get(p, OPT_SERVER, data) == 4;
    if (given && is_host(data)) memcpy(l->server, data, 4);
    else if (is_host(source)) memcpy(l->server, source, 4);
    if (!given || is_zero(data)) out->note = "no usable server id; the packet's sender stands in";
    l->prefix = read_prefix(p, l->address, &out->note);
    read_times(p, l, &out->note);
    l->dns_count = option_servers(p, OPT_DNS, l->dns);
    l->ntp_count = option_servers(p, OPT_NTP, l->ntp);
    read_routes(p, l, &out->note);
    read_domain(p, l);
    if (option_get(p, OPT_MTU, data) == 2) {
        u16 mtu = (u16)(data[0] << 8 | data[1]);
        if (mtu >= 576) l->mtu = mtu; // RFC 2132 says 68; nothing works below 576
        else out->note = "an MTU below 576; it is not used";
    }
    return 0;
}

static void read_text(const packet *p, dhcp4_message *out) {
    u8 data[OPTION_BYTES_MAX];
    int len = option_get(p, OPT_TEXT, data);
    for (int i = 0; i < len && (size_t)i + 1 < sizeof(out->text); i++)
        out->text[i] = data[i] >= 0x20 && data[i] < 0x7f ? (char)data[i] : '?';
}

int dhcp4_packet_parse(const u8 *data, size_t len, const u8 source[4], dhcp4_message *out,
                       const char **why) {
    u8 option[OPTION_BYTES_MAX];
    packet p = {.data = data, .len = len};
    memset(out, 0, sizeof(*out));
    *why = "not a DHCP server's message";
    if (len < FIXED_BYTES + 4 || data[0] != BOOT_REPLY || data[1] != 1 || data[2] != 6) return -EINVAL;
    const u8 *c = data + FIXED_BYTES;
    if (((u32)c[0] << 24 | (u32)c[1] << 16 | (u32)c[2] << 8 | c[3]) != COOKIE) return -EINVAL;
    out->xid = (u32)data[4] << 24 | (u32)data[5] << 16 | (u32)data[6] << 8 | data[7];
    memcpy(out->mac, data + 28, 6);
    if (option_get(&p, OPT_OVERLOAD, option) == 1) p.overload = option[0] & 3;
    if (option_get(&p, OPT_TYPE, option) != 1) return -EINVAL;
    out->type = option[0];
    if (out->type == DHCP4_NAK) {
        if (option_get(&p, OPT_SERVER, option) == 4) memcpy(out->lease.server, option, 4);
        else memcpy(out->lease.server, source, 4);
        read_text(&p, out);
        return 0;
    }
    if (out->type != DHCP4_OFFER && out->type != DHCP4_ACK) return -EINVAL;
    return read_lease(&p, source, out, why);
}
