// SPDX-License-Identifier: Apache-2.0
// net_resolv.c: which name servers and time servers are in force, over all interfaces. A block's own `dns`
// or `ntp` replaces what was learnt on its interface. resolv.conf is written whole and renamed into place,
// on a file system in memory (the root or /run); the C library reads at most three servers of it.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "init/control.h"
#include "init/init_log.h"
#include "init/net_iface.h"

#define RESOLV_SERVERS_MAX 3u // MAXNS of the C library
#define RESOLV_BYTES 1024u

const char *net_resolv_path = "/etc/resolv.conf";

typedef struct server_list {
    char text[NETWORK_LIST_MAX][128];
    u32 count;
} server_list;

static void add_text(server_list *list, const char *text) {
    for (u32 i = 0; i < list->count; i++) {
        if (strcmp(list->text[i], text) == 0) return;
    }
    if (list->count == NETWORK_LIST_MAX) return;
    snprintf(list->text[list->count++], sizeof(list->text[0]), "%s", text);
}

static void add_bytes(server_list *list, u8 family, const u8 *bytes) {
    char text[NETWORK_TEXT_BYTES];
    net_addr a = {.family = family};
    memcpy(a.bytes, bytes, family == AF_INET ? 4 : 16);
    add_text(list, network_print(&a, false, text));
}

static void add_words(server_list *list, const char *words) {
    char word[128];
    for (;;) {
        words += strspn(words, " ,\t");
        size_t len = strcspn(words, " ,\t");
        if (len == 0) return;
        snprintf(word, sizeof(word), "%.*s", (int)MIN(len, sizeof(word) - 1), words);
        add_text(list, word);
        words += len;
    }
}

// A link-local server needs its interface: fe80::1%eth0.
static void add_router_servers(server_list *list, const net_iface *i) {
    char address[NETWORK_TEXT_BYTES], text[128];
    for (u32 k = 0; k < i->ra_dns_count; k++) {
        bool local = i->ra_dns[k].bytes[0] == 0xfe && (i->ra_dns[k].bytes[1] & 0xc0) == 0x80;
        network_print(&i->ra_dns[k], false, address);
        snprintf(text, sizeof(text), "%s%s%s", address, local ? "%" : "", local ? i->link.name : "");
        add_text(list, text);
    }
}

static void gather_dns(server_list *list) {
    for (u32 n = 0; n < LIMIT_NET_IFACES; n++) {
        const net_iface *i = &net.ifaces[n];
        if (i->index == 0 || !i->enabled) continue;
        add_words(list, i->block.dns);
        if (i->block.dns[0] != '\0') continue;
        for (u32 k = 0; i->dhcp4.applied && k < i->dhcp4.lease.dns_count; k++)
            add_bytes(list, AF_INET, i->dhcp4.lease.dns[k]);
        add_router_servers(list, i);
        for (u32 k = 0; i->dhcp6.applied && k < i->dhcp6.lease.dns_count; k++)
            add_bytes(list, AF_INET6, i->dhcp6.lease.dns[k]);
    }
}

static bool gather_ntp(server_list *list) {
    bool configured = false;
    for (u32 n = 0; n < LIMIT_NET_IFACES; n++) {
        const net_iface *i = &net.ifaces[n];
        if (i->index == 0 || !i->enabled || i->block.ntp[0] == '\0') continue;
        add_words(list, i->block.ntp);
        configured = true;
    }
    for (u32 n = 0; n < LIMIT_NET_IFACES && !configured; n++) {
        const net_iface *i = &net.ifaces[n];
        if (i->index == 0 || !i->enabled) continue;
        for (u32 k = 0; i->dhcp4.applied && k < i->dhcp4.lease.ntp_count; k++)
            add_bytes(list, AF_INET, i->dhcp4.lease.ntp[k]);
        for (u32 k = 0; i->dhcp6.applied && k < i->dhcp6.lease.ntp_count; k++)
            add_bytes(list, AF_INET6, i->dhcp6.lease.ntp[k]);
    }
    return configured;
}

static const char *search_domain(void) {
    for (u32 n = 0; n < LIMIT_NET_IFACES; n++) {
        const net_iface *i = &net.ifaces[n];
        if (i->index != 0 && i->dhcp4.applied && i->dhcp4.lease.domain[0] != '\0')
            return i->dhcp4.lease.domain;
    }
    return NULL;
}

static int write_file(const char *text, size_t len) {
    char temporary[160];
    snprintf(temporary, sizeof(temporary), "%s.new", net_resolv_path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) return -errno;
    ssize_t n = write(fd, text, len);
    int err = n == (ssize_t)len ? 0 : n < 0 ? errno : ENOSPC;
    close(fd);
    if (err == 0 && rename(temporary, net_resolv_path) != 0) err = errno;
    if (err != 0) unlink(temporary);
    return -err;
}

static void write_resolv(const server_list *dns) {
    static char before[RESOLV_BYTES];
    char text[RESOLV_BYTES] = "";
    size_t used = 0;
    const char *domain = search_domain();
    if (domain != NULL) used += (size_t)snprintf(text, sizeof(text), "search %s\n", domain);
    for (u32 k = 0; k < MIN(dns->count, RESOLV_SERVERS_MAX); k++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "nameserver %s\n", dns->text[k]);
    ASSERT(used < sizeof(text));
    if (strcmp(text, before) == 0) return;
    int rc = write_file(text, used);
    if (rc != 0) {
        init_warn("net: can not write %s: %s (%s)", net_resolv_path, strerror(-rc), errno_name(rc));
        return;
    }
    memcpy(before, text, sizeof(before));
    init_info("net: name servers: %s%s%s%s%s", dns->count > 0 ? dns->text[0] : "none",
              dns->count > 1 ? ", " : "", dns->count > 1 ? dns->text[1] : "",
              dns->count > 2 ? ", " : "", dns->count > 2 ? dns->text[2] : "");
}

static void tell_clock(const server_list *ntp, bool configured) {
    static server_list before;
    static bool told;
    const char *servers[NETWORK_LIST_MAX];
    if (!told && ntp->count == 0) return;
    bool same = told && memcmp(&before, ntp, sizeof(before)) == 0;
    if (same) return;
    before = *ntp;
    told = true;
    for (u32 k = 0; k < ntp->count; k++) servers[k] = before.text[k];
    init_clock_servers(servers, ntp->count, configured);
}

void net_resolv_update(void) {
    server_list dns = {0}, ntp = {0};
    gather_dns(&dns);
    write_resolv(&dns);
    bool configured = gather_ntp(&ntp);
    tell_clock(&ntp, configured);
}
