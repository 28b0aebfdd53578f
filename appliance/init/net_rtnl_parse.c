// SPDX-License-Identifier: Apache-2.0
// net_rtnl_parse.c: rtnetlink messages read. The kernel is trusted to mean well, not to fit: every length
// is checked against what is left, so that a message of a newer kernel can not lead astray.
#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/if.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

#include "init/net_rtnl.h"

typedef struct attribute {
    u16 type;
    const u8 *data;
    size_t len;
} attribute;

typedef struct attributes {
    const u8 *at;
    size_t left;
} attributes;

static bool next_attribute(attributes *a, attribute *out) {
    struct rtattr head;
    if (a->left < sizeof(head)) return false;
    memcpy(&head, a->at, sizeof(head));
    if (head.rta_len < sizeof(head) || head.rta_len > a->left) return false;
    *out = (attribute){.type = head.rta_type & NLA_TYPE_MASK, .data = a->at + sizeof(head),
                       .len = head.rta_len - sizeof(head)};
    size_t step = MIN(RTA_ALIGN((size_t)head.rta_len), a->left);
    a->at += step;
    a->left -= step;
    return true;
}

static u32 get_u32(const attribute *a) {
    u32 value = 0;
    if (a->len >= sizeof(value)) memcpy(&value, a->data, sizeof(value));
    return value;
}

static u16 get_u16(const attribute *a) {
    u16 value = 0;
    if (a->len >= sizeof(value)) memcpy(&value, a->data, sizeof(value));
    return value;
}

static void get_text(const attribute *a, char *out, size_t size) {
    size_t len = strnlen((const char *)a->data, a->len);
    len = MIN(len, size - 1);
    memcpy(out, a->data, len);
    out[len] = '\0';
}

static bool get_address(const attribute *a, u8 family, net_addr *out) {
    size_t bytes = family == AF_INET ? 4 : 16;
    if ((family != AF_INET && family != AF_INET6) || a->len < bytes) return false;
    out->family = family;
    memcpy(out->bytes, a->data, bytes);
    return true;
}

static void read_link_info(const attribute *info, rtnl_link *l) {
    attributes in = {.at = info->data, .left = info->len};
    attribute a, b;
    while (next_attribute(&in, &a)) {
        if (a.type == IFLA_INFO_KIND) get_text(&a, l->kind, sizeof(l->kind));
        if (a.type != IFLA_INFO_DATA || strcmp(l->kind, "vlan") != 0) continue;
        attributes data = {.at = a.data, .left = a.len};
        while (next_attribute(&data, &b)) {
            if (b.type == IFLA_VLAN_ID) l->vlan = get_u16(&b);
        }
    }
}

// inet6's part: within IFLA_AF_SPEC of an ordinary message, within IFLA_PROTINFO of one about inet6 alone.
static void read_inet6(const u8 *data, size_t len, rtnl_link *l) {
    attributes in = {.at = data, .left = len};
    attribute a;
    while (next_attribute(&in, &a)) {
        if (a.type != IFLA_INET6_FLAGS) continue;
        l->inet6_flags = get_u32(&a);
        l->has_inet6_flags = true;
    }
}

static void read_af_spec(const attribute *spec, rtnl_link *l) {
    attributes in = {.at = spec->data, .left = spec->len};
    attribute a;
    while (next_attribute(&in, &a)) {
        if (a.type == AF_INET6) read_inet6(a.data, a.len, l);
    }
}

static void read_link(const u8 *data, size_t len, bool added, const rtnl_callbacks *cb, void *context) {
    struct ifinfomsg head;
    attribute a;
    rtnl_link l = {0};
    if (len < sizeof(head) || cb->link == NULL) return;
    memcpy(&head, data, sizeof(head));
    if (head.ifi_family != AF_UNSPEC && head.ifi_family != AF_INET6) return; // a bridge's port
    l.inet6_only = head.ifi_family == AF_INET6;
    l.index = (u32)head.ifi_index;
    l.type = head.ifi_type;
    l.up = (head.ifi_flags & IFF_UP) != 0;
    l.carrier = (head.ifi_flags & IFF_LOWER_UP) != 0;
    attributes in = {.at = data + NLMSG_ALIGN(sizeof(head)), .left = len - NLMSG_ALIGN(sizeof(head))};
    while (next_attribute(&in, &a)) {
        switch (a.type) {
        case IFLA_IFNAME: get_text(&a, l.name, sizeof(l.name)); break;
        case IFLA_MTU: l.mtu = get_u32(&a); break;
        case IFLA_LINK: l.parent = get_u32(&a); break;
        case IFLA_MASTER: l.enslaved = get_u32(&a) != 0; break;
        case IFLA_LINKINFO: read_link_info(&a, &l); break;
        case IFLA_AF_SPEC: read_af_spec(&a, &l); break;
        case IFLA_PROTINFO:
            if (l.inet6_only) read_inet6(a.data, a.len, &l);
            break;
        case IFLA_ADDRESS:
            l.has_mac = a.len == sizeof(l.mac);
            if (l.has_mac) memcpy(l.mac, a.data, sizeof(l.mac));
            break;
        default: break;
        }
    }
    // A message of inet6 alone is no word about the link's existence.
    if (l.inet6_only && !added) return;
    if (l.index != 0) cb->link(context, &l, added);
}

static void read_address(const u8 *data, size_t len, bool added, const rtnl_callbacks *cb, void *context) {
    struct ifaddrmsg head;
    struct ifa_cacheinfo cache;
    attribute a;
    if (len < sizeof(head) || cb->address == NULL) return;
    memcpy(&head, data, sizeof(head));
    rtnl_address out = {.index = head.ifa_index, .valid_s = UINT32_MAX};
    u32 flags = head.ifa_flags;
    bool have_local = false;
    attributes in = {.at = data + NLMSG_ALIGN(sizeof(head)), .left = len - NLMSG_ALIGN(sizeof(head))};
    while (next_attribute(&in, &a)) {
        if (a.type == IFA_LOCAL) have_local = get_address(&a, head.ifa_family, &out.address);
        else if (a.type == IFA_ADDRESS && !have_local) get_address(&a, head.ifa_family, &out.address);
        else if (a.type == IFA_FLAGS) flags = get_u32(&a);
        else if (a.type == IFA_CACHEINFO && a.len >= sizeof(cache)) {
            memcpy(&cache, a.data, sizeof(cache));
            out.valid_s = cache.ifa_valid;
        }
    }
    if (out.address.family == 0) return;
    out.address.prefix = head.ifa_prefixlen;
    out.permanent = (flags & IFA_F_PERMANENT) != 0;
    out.tentative = (flags & IFA_F_TENTATIVE) != 0;
    out.failed = (flags & IFA_F_DADFAILED) != 0;
    cb->address(context, &out, added);
}

static void read_route(const u8 *data, size_t len, bool added, const rtnl_callbacks *cb, void *context) {
    struct rtmsg head;
    attribute a;
    u32 table = 0;
    if (len < sizeof(head) || cb->route == NULL) return;
    memcpy(&head, data, sizeof(head));
    rtnl_route_info out = {.family = head.rtm_family, .protocol = head.rtm_protocol,
                           .is_default = head.rtm_dst_len == 0};
    table = head.rtm_table;
    attributes in = {.at = data + NLMSG_ALIGN(sizeof(head)), .left = len - NLMSG_ALIGN(sizeof(head))};
    while (next_attribute(&in, &a)) {
        if (a.type == RTA_OIF) out.index = get_u32(&a);
        else if (a.type == RTA_PRIORITY) out.metric = get_u32(&a);
        else if (a.type == RTA_TABLE) table = get_u32(&a);
        else if (a.type == RTA_GATEWAY) get_address(&a, head.rtm_family, &out.via);
    }
    bool unicast = head.rtm_type == RTN_UNICAST && table == RT_TABLE_MAIN;
    if (unicast && (head.rtm_flags & RTM_F_CLONED) == 0) cb->route(context, &out, added);
}

// RFC 8106 section 5.1: 8 bytes of head, then addresses.
static void read_nd_option(const u8 *data, size_t len, const rtnl_callbacks *cb, void *context) {
    struct nduseroptmsg head;
    if (len < sizeof(head) || cb->rdnss == NULL) return;
    memcpy(&head, data, sizeof(head));
    size_t options = MIN((size_t)head.nduseropt_opts_len, len - sizeof(head));
    const u8 *at = data + sizeof(head);
    while (options >= 8) {
        size_t bytes = at[1] * 8u;
        if (bytes == 0 || bytes > options) return;
        if (at[0] == 25 && bytes >= 24) {
            rtnl_rdnss out = {.index = (u32)head.nduseropt_ifindex};
            out.lifetime_s = (u32)at[4] << 24 | (u32)at[5] << 16 | (u32)at[6] << 8 | at[7];
            for (size_t i = 8; i + 16 <= bytes && out.count < RTNL_RDNSS_MAX; i += 16) {
                net_addr *s = &out.servers[out.count++];
                *s = (net_addr){.family = AF_INET6, .prefix = 128};
                memcpy(s->bytes, at + i, 16);
            }
            cb->rdnss(context, &out);
        }
        at += bytes;
        options -= bytes;
    }
}

void rtnl_parse(const void *data, size_t len, const rtnl_callbacks *cb, void *context) {
    const u8 *at = data;
    struct nlmsghdr head;
    while (len >= sizeof(head)) {
        memcpy(&head, at, sizeof(head));
        if (head.nlmsg_len < sizeof(head) || head.nlmsg_len > len) return;
        const u8 *body = at + NLMSG_HDRLEN;
        size_t body_len = head.nlmsg_len - NLMSG_HDRLEN;
        switch (head.nlmsg_type) {
        case RTM_NEWLINK: read_link(body, body_len, true, cb, context); break;
        case RTM_DELLINK: read_link(body, body_len, false, cb, context); break;
        case RTM_NEWADDR: read_address(body, body_len, true, cb, context); break;
        case RTM_DELADDR: read_address(body, body_len, false, cb, context); break;
        case RTM_NEWROUTE: read_route(body, body_len, true, cb, context); break;
        case RTM_DELROUTE: read_route(body, body_len, false, cb, context); break;
        case RTM_NEWNDUSEROPT: read_nd_option(body, body_len, cb, context); break;
        default: break;
        }
        size_t step = MIN((size_t)NLMSG_ALIGN(head.nlmsg_len), len);
        at += step;
        len -= step;
    }
}
