// SPDX-License-Identifier: Apache-2.0
// net_rtnl.c: see net_rtnl.h: the sockets and the requests. A request that the kernel finds already done
// (an address that is there, a route that is gone) counts as done, so that everything can be set again.
#include "init/net_rtnl.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define REQUEST_BYTES 512u
#define RECEIVE_BYTES 32768u
#define ANSWER_S 2      // the kernel answers at once; this only ends a wait that must not happen
#define EVENT_READS 64  // messages of one turn

typedef struct request {
    union {
        struct nlmsghdr head;
        u8 bytes[REQUEST_BYTES];
    } u;
    size_t len;
} request;

static int open_socket(u32 groups, int flags) {
    struct sockaddr_nl own = {.nl_family = AF_NETLINK, .nl_groups = groups};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | flags, NETLINK_ROUTE);
    if (fd < 0) return -errno;
    if (bind(fd, (struct sockaddr *)&own, sizeof(own)) == 0) return fd;
    int err = errno;
    close(fd);
    return -err;
}

int rtnl_open(rtnl *r) {
    struct timeval wait = {.tv_sec = ANSWER_S};
    int nd = RTNLGRP_ND_USEROPT, bytes = 1 << 20;
    *r = (rtnl){.request_fd = -1, .event_fd = -1};
    int fd = open_socket(0, 0);
    if (fd < 0) return fd;
    r->request_fd = fd;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    fd = open_socket(RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE |
                         RTMGRP_IPV6_ROUTE | RTMGRP_IPV6_IFINFO,
                     SOCK_NONBLOCK);
    if (fd < 0) {
        rtnl_close(r);
        return fd;
    }
    r->event_fd = fd;
    // Best effort both: without the first, name servers of router advertisements are not seen.
    setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &nd, sizeof(nd));
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    return 0;
}

void rtnl_close(rtnl *r) {
    if (r->request_fd >= 0) close(r->request_fd);
    if (r->event_fd >= 0) close(r->event_fd);
    r->request_fd = r->event_fd = -1;
}

// --- building ---

static void begin(rtnl *r, request *q, u16 type, u16 flags, const void *body, size_t len) {
    memset(q, 0, sizeof(*q));
    q->u.head.nlmsg_type = type;
    q->u.head.nlmsg_flags = (u16)(NLM_F_REQUEST | flags);
    q->u.head.nlmsg_seq = ++r->sequence;
    memcpy(q->u.bytes + NLMSG_HDRLEN, body, len);
    q->len = NLMSG_HDRLEN + NLMSG_ALIGN(len);
}

static void put(request *q, u16 type, const void *data, size_t len) {
    struct rtattr head = {.rta_type = type, .rta_len = (u16)RTA_LENGTH(len)};
    ASSERT(q->len + RTA_SPACE(len) <= REQUEST_BYTES);
    memcpy(q->u.bytes + q->len, &head, sizeof(head));
    if (len > 0) memcpy(q->u.bytes + q->len + RTA_LENGTH(0), data, len);
    q->len += RTA_SPACE(len);
}

static void put_u32(request *q, u16 type, u32 value) {
    put(q, type, &value, sizeof(value));
}

static size_t nest(request *q, u16 type) {
    size_t at = q->len;
    put(q, type, NULL, 0);
    return at;
}

static void unnest(request *q, size_t at) {
    u16 len = (u16)(q->len - at);
    memcpy(q->u.bytes + at, &len, sizeof(len)); // rta_len is the first field
}

// --- asking ---

static int send_request(rtnl *r, request *q) {
    q->u.head.nlmsg_len = (u32)q->len;
    return send(r->request_fd, q->u.bytes, q->len, 0) < 0 ? -errno : 0;
}

// Answers of this request until its end; others (late ones of a request that was given up) are left out.
static int read_answer(rtnl *r, bool dump, const rtnl_callbacks *cb, void *context) {
    static u8 buf[RECEIVE_BYTES] __attribute__((aligned(8)));
    for (;;) {
        ssize_t n = recv(r->request_fd, buf, sizeof(buf), 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno == EAGAIN ? -ETIMEDOUT : -errno;
        size_t left = (size_t)n;
        for (u8 *at = buf; left >= sizeof(struct nlmsghdr);) {
            struct nlmsghdr head;
            struct nlmsgerr error;
            memcpy(&head, at, sizeof(head));
            if (head.nlmsg_len < sizeof(head) || head.nlmsg_len > left) break;
            bool mine = head.nlmsg_seq == r->sequence;
            if (mine && head.nlmsg_type == NLMSG_DONE) return 0;
            if (mine && head.nlmsg_type == NLMSG_ERROR && head.nlmsg_len >= NLMSG_LENGTH(sizeof(error))) {
                memcpy(&error, at + NLMSG_HDRLEN, sizeof(error));
                return error.error;
            }
            if (mine && dump) rtnl_parse(at, head.nlmsg_len, cb, context);
            size_t step = MIN((size_t)NLMSG_ALIGN(head.nlmsg_len), left);
            at += step;
            left -= step;
        }
    }
}

static int ask(rtnl *r, request *q) {
    q->u.head.nlmsg_flags |= NLM_F_ACK;
    int rc = send_request(r, q);
    return rc != 0 ? rc : read_answer(r, false, NULL, NULL);
}

static int dump(rtnl *r, u16 type, const rtnl_callbacks *cb, void *context) {
    struct ifinfomsg body = {.ifi_family = AF_UNSPEC};
    struct rtmsg route = {.rtm_family = AF_UNSPEC};
    request q;
    if (type == RTM_GETROUTE) begin(r, &q, type, NLM_F_DUMP, &route, sizeof(route));
    else begin(r, &q, type, NLM_F_DUMP, &body, sizeof(body));
    int rc = send_request(r, &q);
    return rc != 0 ? rc : read_answer(r, true, cb, context);
}

int rtnl_dump(rtnl *r, const rtnl_callbacks *cb, void *context) {
    int rc = dump(r, RTM_GETLINK, cb, context);
    if (rc == 0) rc = dump(r, RTM_GETADDR, cb, context);
    if (rc == 0) rc = dump(r, RTM_GETROUTE, cb, context);
    return rc;
}

int rtnl_read_events(rtnl *r, const rtnl_callbacks *cb, void *context) {
    static u8 buf[RECEIVE_BYTES] __attribute__((aligned(8)));
    for (int i = 0; i < EVENT_READS; i++) {
        ssize_t n = recv(r->event_fd, buf, sizeof(buf), 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
        if (n < 0) return -errno;
        rtnl_parse(buf, (size_t)n, cb, context);
    }
    return 0; // the rest at the next turn
}

// --- requests ---

int rtnl_link_up(rtnl *r, u32 index, bool up) {
    struct ifinfomsg body = {.ifi_family = AF_UNSPEC, .ifi_index = (int)index,
                             .ifi_flags = up ? IFF_UP : 0, .ifi_change = IFF_UP};
    request q;
    begin(r, &q, RTM_NEWLINK, 0, &body, sizeof(body));
    return ask(r, &q);
}

int rtnl_link_mtu(rtnl *r, u32 index, u32 mtu) {
    struct ifinfomsg body = {.ifi_family = AF_UNSPEC, .ifi_index = (int)index};
    request q;
    begin(r, &q, RTM_NEWLINK, 0, &body, sizeof(body));
    put_u32(&q, IFLA_MTU, mtu);
    return ask(r, &q);
}

int rtnl_vlan_add(rtnl *r, u32 parent, u16 id, const char *name) {
    struct ifinfomsg body = {.ifi_family = AF_UNSPEC};
    request q;
    begin(r, &q, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &body, sizeof(body));
    put_u32(&q, IFLA_LINK, parent);
    put(&q, IFLA_IFNAME, name, strlen(name) + 1);
    size_t info = nest(&q, IFLA_LINKINFO);
    put(&q, IFLA_INFO_KIND, "vlan", 5);
    size_t data = nest(&q, IFLA_INFO_DATA);
    put(&q, IFLA_VLAN_ID, &id, sizeof(id));
    unnest(&q, data);
    unnest(&q, info);
    int rc = ask(r, &q);
    return rc == -EEXIST ? 0 : rc;
}

int rtnl_link_delete(rtnl *r, u32 index) {
    struct ifinfomsg body = {.ifi_family = AF_UNSPEC, .ifi_index = (int)index};
    request q;
    begin(r, &q, RTM_DELLINK, 0, &body, sizeof(body));
    int rc = ask(r, &q);
    return rc == -ENODEV ? 0 : rc;
}

static size_t address_bytes(const net_addr *a) {
    return a->family == AF_INET ? 4 : 16;
}

static void begin_address(rtnl *r, request *q, u16 type, u16 flags, u32 index, const net_addr *a) {
    struct ifaddrmsg body = {.ifa_family = a->family, .ifa_prefixlen = a->prefix, .ifa_index = index};
    begin(r, q, type, flags, &body, sizeof(body));
    put(q, IFA_LOCAL, a->bytes, address_bytes(a));
    put(q, IFA_ADDRESS, a->bytes, address_bytes(a));
}

int rtnl_address_set(rtnl *r, u32 index, const net_addr *a, u32 valid_s, u32 metric) {
    struct ifa_cacheinfo cache = {.ifa_valid = valid_s, .ifa_prefered = valid_s};
    request q;
    begin_address(r, &q, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, index, a);
    if (a->family == AF_INET && a->prefix < 31) {
        u8 broadcast[4];
        memcpy(broadcast, a->bytes, 4);
        for (u32 bit = a->prefix; bit < 32; bit++) broadcast[bit / 8] |= (u8)(0x80 >> (bit % 8));
        put(&q, IFA_BROADCAST, broadcast, 4);
    }
    put(&q, IFA_CACHEINFO, &cache, sizeof(cache));
    put_u32(&q, IFA_RT_PRIORITY, metric);
    int rc = ask(r, &q);
    return rc == -EEXIST ? 0 : rc;
}

int rtnl_address_delete(rtnl *r, u32 index, const net_addr *a) {
    request q;
    begin_address(r, &q, RTM_DELADDR, 0, index, a);
    int rc = ask(r, &q);
    return rc == -EADDRNOTAVAIL || rc == -ENODEV ? 0 : rc;
}

static void begin_route(rtnl *r, request *q, u16 type, u16 flags, u32 index, const net_route *route,
                        u32 metric, bool onlink) {
    bool gateway = route->via.family != 0;
    struct rtmsg body = {.rtm_family = route->to.family, .rtm_dst_len = route->to.prefix,
                         .rtm_table = RT_TABLE_MAIN, .rtm_protocol = RTPROT_DHCP,
                         .rtm_scope = gateway || route->to.family == AF_INET6 ? RT_SCOPE_UNIVERSE
                                                                              : RT_SCOPE_LINK,
                         .rtm_type = RTN_UNICAST, .rtm_flags = onlink ? RTNH_F_ONLINK : 0};
    begin(r, q, type, flags, &body, sizeof(body));
    if (route->to.prefix > 0) put(q, RTA_DST, route->to.bytes, address_bytes(&route->to));
    if (gateway) put(q, RTA_GATEWAY, route->via.bytes, address_bytes(&route->via));
    put_u32(q, RTA_OIF, index);
    put_u32(q, RTA_PRIORITY, metric);
}

int rtnl_route_set(rtnl *r, u32 index, const net_route *route, u32 metric, bool onlink) {
    request q;
    begin_route(r, &q, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, index, route, metric, onlink);
    int rc = ask(r, &q);
    return rc == -EEXIST ? 0 : rc;
}

int rtnl_route_delete(rtnl *r, u32 index, const net_route *route, u32 metric) {
    request q;
    begin_route(r, &q, RTM_DELROUTE, 0, index, route, metric, false);
    int rc = ask(r, &q);
    return rc == -ESRCH || rc == -ENODEV ? 0 : rc;
}
