// SPDX-License-Identifier: Apache-2.0
// test_dhcp6.c: the DHCPv6 client without sockets; recognising volumes by their first bytes; rtnetlink messages
// cut anywhere.
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "init/config_volume.h"
#include "init/dhcp6.h"
#include "init/net_rtnl.h"

static const u8 MAC[6] = {0x52, 0x54, 0, 1, 2, 3};
static const u8 ADDRESS[16] = {0xfd, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 5};

typedef struct rig {
    dhcp6 d;
    u64 now, timer_at;
    u32 sent, applied, dropped;
    u8 packet[DHCP6_PACKET_BYTES_MAX];
    u32 len;
} rig;

static void op_send(void *context, const u8 *data, u32 len) {
    rig *r = context;
    r->sent++;
    memcpy(r->packet, data, len);
    r->len = len;
}
static void op_apply(void *context, const dhcp6_lease *lease) {
    (void)lease;
    ((rig *)context)->applied++;
}
static void op_drop(void *context, const char *why) {
    (void)why;
    ((rig *)context)->dropped++;
}
static void op_timer(void *context, u64 ms) {
    ((rig *)context)->timer_at = ((rig *)context)->now + ms;
}
static void op_say(void *context, bool warning, const char *text) {
    (void)context;
    (void)warning;
    (void)text;
}
static u32 op_random(void *context) {
    static u32 n = 77;
    (void)context;
    return n += 1009;
}
static const dhcp6_ops OPS = {op_send, op_apply, op_drop, op_timer, op_say, op_random};

static void fire(rig *r) {
    r->now = r->timer_at;
    dhcp6_timer(&r->d, r->now);
}

static u32 put(u8 *out, u32 at, u32 code, const void *data, u32 len) {
    out[at] = (u8)(code >> 8), out[at + 1] = (u8)code, out[at + 2] = (u8)(len >> 8), out[at + 3] = (u8)len;
    memcpy(out + at + 4, data, len);
    return at + 4 + len;
}

static void put32(u8 *out, u32 value) {
    out[0] = (u8)(value >> 24), out[1] = (u8)(value >> 16), out[2] = (u8)(value >> 8), out[3] = (u8)value;
}

// valid 0 = a status "no addresses" in place of an address.
static void answer(rig *r, dhcp6_type type, u32 valid, bool rapid) {
    u8 packet[512], ia[64] = {0}, inner[24], duid[10] = {0, 3, 0, 1};
    u32 at = 4, ia_len = 12;
    memcpy(duid + 4, MAC, 6);
    memcpy(packet, r->packet, 4);
    packet[0] = (u8)type;
    at = put(packet, at, 1, duid, sizeof(duid));
    at = put(packet, at, 2, "server", 6);
    if (rapid) at = put(packet, at, 14, "", 0);
    memcpy(ia, MAC + 2, 4);
    if (valid > 0) {
        memcpy(inner, ADDRESS, 16);
        put32(inner + 16, valid / 2);
        put32(inner + 20, valid);
        ia_len = put(ia, ia_len, 5, inner, sizeof(inner));
    } else {
        ia_len = put(ia, ia_len, 13, "\0\2none", 6);
    }
    at = put(packet, at, 3, ia, ia_len);
    at = put(packet, at, 23, ADDRESS, 16);
    dhcp6_packet(&r->d, packet, at, r->now);
}

static void start(rig *r, bool address) {
    memset(r, 0, sizeof(*r));
    dhcp6_init(&r->d, &OPS, r, MAC);
    dhcp6_start(&r->d, address, r->now);
}

static void test_four_messages(void **state) {
    rig r;
    (void)state;
    start(&r, true);
    assert_int_equal(r.packet[0], DHCP6_SOLICIT);
    answer(&r, DHCP6_ADVERTISE, 1000, false);
    assert_int_equal(r.packet[0], DHCP6_REQUEST);
    answer(&r, DHCP6_REPLY, 1000, false);
    assert_int_equal(r.d.state, DHCP6_S_BOUND);
    assert_int_equal(r.applied, 1);
    assert_int_equal(r.timer_at, r.now + 250000); // half of the preferred time
    fire(&r);
    assert_int_equal(r.packet[0], DHCP6_RENEW);
    answer(&r, DHCP6_REPLY, 1000, false);
    assert_int_equal(r.d.state, DHCP6_S_BOUND);
}

static void test_two_messages(void **state) {
    rig r;
    (void)state;
    start(&r, true);
    answer(&r, DHCP6_REPLY, 1000, false); // not asked for without rapid commit
    assert_int_equal(r.d.state, DHCP6_S_SOLICIT);
    answer(&r, DHCP6_REPLY, 1000, true);
    assert_int_equal(r.d.state, DHCP6_S_BOUND);
    // A flap: asked for again, kept meanwhile.
    dhcp6_link_up(&r.d, r.now);
    assert_int_equal(r.packet[0], DHCP6_REBIND);
    assert_int_equal(r.dropped, 0);
    answer(&r, DHCP6_REPLY, 0, false); // in another network now
    assert_int_equal(r.dropped, 1);
    assert_int_equal(r.d.state, DHCP6_S_SOLICIT);
}

static void test_silence(void **state) {
    rig r;
    (void)state;
    start(&r, true);
    answer(&r, DHCP6_REPLY, 1000, true);
    u64 bound = r.now;
    while (r.dropped == 0) fire(&r);
    assert_true(r.now >= bound + 1000000 && r.now < bound + 1015000);
    assert_int_equal(r.packet[0], DHCP6_SOLICIT);
    u32 sent = r.sent;
    u64 began = r.now;
    while (r.now < began + 3600000) fire(&r);
    assert_true(r.sent - sent < 20);
}

static void test_no_addresses(void **state) {
    rig r;
    (void)state;
    start(&r, true);
    for (int i = 0; i < 5; i++) {
        answer(&r, DHCP6_ADVERTISE, 0, false);
        assert_int_equal(r.d.state, DHCP6_S_SOLICIT);
        fire(&r);
    }
    assert_int_equal(r.applied, 0);
}

static void test_information(void **state) {
    rig r;
    (void)state;
    start(&r, false);
    assert_int_equal(r.packet[0], DHCP6_INFORMATION);
    answer(&r, DHCP6_REPLY, 1000, false);
    assert_int_equal(r.d.state, DHCP6_S_INFORMED);
    assert_false(r.d.lease.has_address);
    assert_int_equal(r.d.lease.dns_count, 1);
}

static void test_cut_anywhere(void **state) {
    u8 good[] = {7, 0, 0, 1, 0, 1, 0, 10, 0, 3, 0, 1, 0x52, 0x54, 0, 1, 2, 3, 0, 2, 0, 2, 'a', 'b'};
    dhcp6_message m;
    (void)state;
    assert_int_equal(dhcp6_packet_parse(good, sizeof(good), MAC, &m), 0);
    for (size_t len = 0; len < sizeof(good); len++) assert_int_equal(dhcp6_packet_parse(good, len, MAC, &m), -EINVAL);
    good[17] ^= 1; // for another client
    assert_int_equal(dhcp6_packet_parse(good, sizeof(good), MAC, &m), -EINVAL);
}

static void test_volumes(void **state) {
    static u8 head[VOLUME_HEAD_BYTES];
    char label[VOLUME_LABEL_BYTES];
    (void)state;
    assert_int_equal(volume_recognise(head, sizeof(head), label), VOLUME_NONE);
    memcpy(head + 32768, "\1CD001\1", 7);
    memcpy(head + 32768 + 40, "cidata                          ", 32);
    assert_int_equal(volume_recognise(head, sizeof(head), label), VOLUME_ISO9660);
    assert_true(volume_is_cidata(label));
    assert_int_equal(volume_recognise(head, 32768 + 2047, label), VOLUME_NONE); // cut
    memset(head, 0, sizeof(head));
    head[11] = 0, head[12] = 2, head[14] = 1, head[16] = 2, head[17] = 16, head[22] = 1; // root directory at sector 3
    memcpy(head + 43, "NO NAME    ", 11);
    memcpy(head + 54, "FAT16   ", 8);
    head[510] = 0x55, head[511] = 0xaa;
    assert_int_equal(volume_recognise(head, sizeof(head), label), VOLUME_FAT);
    assert_string_equal(label, "");
    memcpy(head + 1536, "A file name\x20", 12);
    memcpy(head + 1568, "CIDATA     \x08", 12);
    assert_int_equal(volume_recognise(head, sizeof(head), label), VOLUME_FAT);
    assert_true(volume_is_cidata(label));
    head[1568] = 0xe5; // deleted
    volume_recognise(head, sizeof(head), label);
    assert_string_equal(label, "");
    assert_false(volume_is_cidata("cidata2"));
}

static u32 links, loopback_up;
static void on_link(void *context, const rtnl_link *l, bool added) {
    (void)context;
    links += added;
    if (l->index == 1 && l->up) loopback_up++;
}

static void test_rtnetlink_of_this_machine(void **state) {
    static const rtnl_callbacks callbacks = {.link = on_link};
    rtnl r;
    (void)state;
    if (rtnl_open(&r) != 0) skip();
    assert_int_equal(rtnl_dump(&r, &callbacks, NULL), 0);
    assert_true(links >= 1);
    rtnl_close(&r);
    u8 buf[256];
    for (size_t len = 0; len < sizeof(buf); len++) { // lengths that lie
        memset(buf, (int)len, sizeof(buf));
        rtnl_parse(buf, len, &callbacks, NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_four_messages), cmocka_unit_test(test_two_messages),
        cmocka_unit_test(test_silence),       cmocka_unit_test(test_no_addresses),
        cmocka_unit_test(test_information),   cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_volumes),       cmocka_unit_test(test_rtnetlink_of_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
