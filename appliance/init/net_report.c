// SPDX-License-Identifier: Apache-2.0
// net_report.c: the request "net": interfaces with their addresses, leases and what is missing, the layout of
// queues and interrupts, and the kernel settings. What `sluice ctl net` prints.
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "init/init_log.h"
#include "init/layout.h"
#include "init/net_iface.h"
#include "init/requests.h"
#include "init/sysctl_table.h"

static void add_address(yyjson_mut_doc *doc, yyjson_mut_val *obj, const char *key, const net_addr *a,
                        bool with_prefix) {
    char text[NETWORK_TEXT_BYTES];
    if (a->family != 0) yyjson_mut_obj_add_strcpy(doc, obj, key, network_print(a, with_prefix, text));
}

static void add_bytes(yyjson_mut_doc *doc, yyjson_mut_val *list, u8 family, const u8 *bytes) {
    char text[NETWORK_TEXT_BYTES];
    net_addr a = {.family = family};
    memcpy(a.bytes, bytes, family == AF_INET ? 4 : 16);
    yyjson_mut_arr_add_strcpy(doc, list, network_print(&a, false, text));
}

static void add_seconds(yyjson_mut_doc *doc, yyjson_mut_val *obj, const char *key, u64 at_ms) {
    u64 now = clock_mono_ns() / NS_PER_MS;
    if (at_ms == UINT64_MAX) yyjson_mut_obj_add_null(doc, obj, key);
    else yyjson_mut_obj_add_uint(doc, obj, key, at_ms > now ? (at_ms - now) / 1000 : 0);
}

static void add_dhcp4(yyjson_mut_doc *doc, yyjson_mut_val *obj, const net_iface *i) {
    const dhcp4 *d = &i->dhcp4.client;
    if (!i->dhcp4.running) return;
    yyjson_mut_val *o = yyjson_mut_obj_add_obj(doc, obj, "dhcp4");
    yyjson_mut_obj_add_str(doc, o, "state", dhcp4_state_name(d->state));
    yyjson_mut_obj_add_uint(doc, o, "sent", d->sent);
    yyjson_mut_obj_add_uint(doc, o, "acks", d->acks);
    yyjson_mut_obj_add_uint(doc, o, "naks", d->nak_count);
    if (d->last_note != NULL) yyjson_mut_obj_add_str(doc, o, "note", d->last_note);
    if (!d->in_force) return;
    net_addr server = {.family = AF_INET};
    memcpy(server.bytes, d->lease.server, 4);
    add_address(doc, o, "server", &server, false);
    yyjson_mut_obj_add_uint(doc, o, "lease_seconds", d->lease.lease_s);
    add_seconds(doc, o, "renews_in_seconds", d->t1_ms);
    add_seconds(doc, o, "ends_in_seconds", d->end_ms);
    if (d->lease.domain[0] != '\0') yyjson_mut_obj_add_strcpy(doc, o, "domain", d->lease.domain);
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, o, "dns");
    for (u32 k = 0; k < d->lease.dns_count; k++) add_bytes(doc, list, AF_INET, d->lease.dns[k]);
    list = yyjson_mut_obj_add_arr(doc, o, "ntp");
    for (u32 k = 0; k < d->lease.ntp_count; k++) add_bytes(doc, list, AF_INET, d->lease.ntp[k]);
}

static void add_dhcp6(yyjson_mut_doc *doc, yyjson_mut_val *obj, const net_iface *i) {
    const dhcp6 *d = &i->dhcp6.client;
    if (!i->dhcp6.running) return;
    yyjson_mut_val *o = yyjson_mut_obj_add_obj(doc, obj, "dhcp6");
    yyjson_mut_obj_add_str(doc, o, "state", dhcp6_state_name(d->state));
    yyjson_mut_obj_add_uint(doc, o, "sent", d->sent);
    yyjson_mut_obj_add_uint(doc, o, "replies", d->replies);
    if (!d->in_force || !d->lease.has_address) return;
    yyjson_mut_obj_add_uint(doc, o, "valid_seconds", d->lease.valid_s);
    add_seconds(doc, o, "renews_in_seconds", d->t1_ms);
}

static void add_addresses(yyjson_mut_doc *doc, yyjson_mut_val *obj, const net_iface *i) {
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, obj, "addresses");
    char text[NETWORK_TEXT_BYTES];
    for (u32 k = 0; k < i->address_count; k++) {
        const rtnl_address *a = &i->addresses[k];
        yyjson_mut_val *row = yyjson_mut_arr_add_obj(doc, list);
        yyjson_mut_obj_add_strcpy(doc, row, "address", network_print(&a->address, true, text));
        if (a->failed) yyjson_mut_obj_add_str(doc, row, "state", "duplicate");
        else if (a->tentative) yyjson_mut_obj_add_str(doc, row, "state", "tentative");
        else yyjson_mut_obj_add_str(doc, row, "state", "ok");
    }
}

static void add_iface(yyjson_mut_doc *doc, yyjson_mut_val *list, const net_iface *i) {
    char mac[18];
    const u8 *m = i->link.mac;
    yyjson_mut_val *o = yyjson_mut_arr_add_obj(doc, list);
    snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5]);
    yyjson_mut_obj_add_strcpy(doc, o, "name", i->link.name);
    yyjson_mut_obj_add_str(doc, o, "state", net_iface_status(i));
    if (i->enabled) yyjson_mut_obj_add_strcpy(doc, o, "block", i->block.name);
    yyjson_mut_obj_add_strcpy(doc, o, "driver", i->driver);
    if (i->link.has_mac) yyjson_mut_obj_add_strcpy(doc, o, "mac", mac);
    if (i->link.vlan != 0) yyjson_mut_obj_add_uint(doc, o, "vlan", i->link.vlan);
    yyjson_mut_obj_add_uint(doc, o, "mtu", i->link.mtu);
    yyjson_mut_obj_add_bool(doc, o, "carrier", i->link.carrier);
    yyjson_mut_obj_add_uint(doc, o, "carrier_changes", i->carrier_changes);
    add_addresses(doc, o, i);
    if (i->default4) add_address(doc, o, "gateway", &i->gateway4, false);
    if (i->default6) add_address(doc, o, "gateway6", &i->gateway6, false);
    add_dhcp4(doc, o, i);
    add_dhcp6(doc, o, i);
}

static void add_sysctls(yyjson_mut_doc *doc, yyjson_mut_val *root) {
    static const char *const words[] = {"set", "absent", "failed", "command line"};
    const sysctl_row *rows;
    const sysctl_result *results;
    u32 count = sysctl_applied(&rows, &results);
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, root, "sysctls");
    for (u32 k = 0; k < count; k++) {
        yyjson_mut_val *row = yyjson_mut_arr_add_obj(doc, list);
        yyjson_mut_obj_add_str(doc, row, "name", rows[k].name);
        yyjson_mut_obj_add_str(doc, row, "value", rows[k].value);
        yyjson_mut_obj_add_str(doc, row, "result", words[results[k]]);
        yyjson_mut_obj_add_str(doc, row, "why", rows[k].why);
    }
}

static void on_request(init_request *r, yyjson_val *args) {
    (void)args;
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    if (doc != NULL) {
        yyjson_mut_val *root = yyjson_mut_obj(doc);
        yyjson_mut_doc_set_root(doc, root);
        yyjson_mut_obj_add_bool(doc, root, "up", net.up);
        yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, root, "interfaces");
        for (u32 n = 0; n < LIMIT_NET_IFACES; n++) {
            if (net.ifaces[n].index != 0) add_iface(doc, list, &net.ifaces[n]);
        }
        yyjson_mut_obj_add_val(doc, root, "layout", layout_json(doc));
        add_sysctls(doc, root);
    }
    init_request_answer_doc(r, doc);
}

void net_report_register(void) {
    init_request_register("net", on_request);
}
