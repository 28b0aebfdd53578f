// SPDX-License-Identifier: Apache-2.0
// test_dhcp4.c: the DHCPv4 client without sockets: a fake server, a fake clock. Each test is one of the
// stories that clients of others failed: renewals to 0.0.0.0, an address that changes after an outage, a
// lease of 0 s, a refusal in a loop.
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

#include "init/dhcp4.h"
#include "init/dhcp4_socket.h"

static const u8 MAC[6] = {0x52, 0x54, 0, 1, 2, 3};
static const u8 SERVER[4] = {192, 0, 2, 1};
static const u8 ANY[4];

typedef struct rig {
    dhcp4 d;
    u64 now;
    u64 timer_at;
    u32 sent, applied, dropped, warned;
    u64 seconds_left;
    dhcp4_way way;
    u8 to[4];
    u8 packet[DHCP4_PACKET_BYTES_MAX];
    u32 packet_len;
    const char *why;
} rig;

static void op_send(void *context, dhcp4_way way, const u8 server[4], const u8 *data, u32 len) {
    rig *r = context;
    r->sent++;
    r->way = way;
    memcpy(r->to, server, 4);
    memcpy(r->packet, data, len);
    r->packet_len = len;
}
static void op_apply(void *context, const dhcp4_lease *lease, u64 seconds_left) {
    rig *r = context;
    assert_true(dhcp4_lease_is_valid(lease));
    r->applied++;
    r->seconds_left = seconds_left;
}
static void op_drop(void *context, const char *why) {
    ((rig *)context)->dropped++;
    ((rig *)context)->why = why;
}
static void op_timer(void *context, u64 ms) {
    ((rig *)context)->timer_at = ((rig *)context)->now + ms;
}
static void op_say(void *context, bool warning, const char *text) {
    (void)text;
    ((rig *)context)->warned += warning;
}
static u32 op_random(void *context) {
    static u32 n = 1000;
    (void)context;
    return n += 7;
}
static const dhcp4_ops OPS = {op_send, op_apply, op_drop, op_timer, op_say, op_random};

static void rig_make(rig *r) {
    memset(r, 0, sizeof(*r));
    r->now = 1000;
    dhcp4_init(&r->d, &OPS, r, MAC, "box");
}

static void fire(rig *r) {
    assert_true(r->timer_at >= r->now);
    r->now = r->timer_at;
    dhcp4_timer(&r->d, r->now);
}

// Option of the last packet sent; NULL when it is not in it.
static const u8 *option(const rig *r, u8 code) {
    for (u32 at = 240; at + 1 < r->packet_len && r->packet[at] != 255; at += 2u + r->packet[at + 1]) {
        if (r->packet[at] == code) return r->packet + at;
    }
    return NULL;
}

static dhcp4_type sent_type(const rig *r) {
    const u8 *o = option(r, 53);
    assert_non_null(o);
    return o[2];
}

typedef struct reply {
    dhcp4_type type;
    u8 address[4], server[4];
    u32 lease_s;
    bool no_lease, no_server;
} reply;

static u32 build(const rig *r, const reply *what, u8 *out) {
    static const u8 mask[4] = {255, 255, 255, 0};
    u32 at = 240, lease = what->lease_s;
    memset(out, 0, 300);
    out[0] = 2, out[1] = 1, out[2] = 6;
    memcpy(out + 4, r->packet + 4, 4);
    memcpy(out + 16, what->address, 4);
    memcpy(out + 28, MAC, 6);
    memcpy(out + 236, "\x63\x82\x53\x63", 4);
    out[at++] = 53, out[at++] = 1, out[at++] = (u8)what->type;
    if (!what->no_server) out[at++] = 54, out[at++] = 4, memcpy(out + at, what->server, 4), at += 4;
    out[at++] = 1, out[at++] = 4, memcpy(out + at, mask, 4), at += 4;
    out[at++] = 3, out[at++] = 4, memcpy(out + at, SERVER, 4), at += 4;
    if (!what->no_lease) {
        out[at++] = 51, out[at++] = 4;
        for (int shift = 24; shift >= 0; shift -= 8) out[at++] = (u8)(lease >> shift);
    }
    out[at++] = 255;
    return MAX(at, 300u);
}

static void answer(rig *r, const reply *what) {
    u8 packet[DHCP4_PACKET_BYTES_MAX];
    u32 len = build(r, what, packet);
    dhcp4_packet(&r->d, packet, len, SERVER, r->now);
}

static reply usual(dhcp4_type type) {
    return (reply){.type = type, .address = {192, 0, 2, 50}, .server = {192, 0, 2, 1}, .lease_s = 1000};
}

static void bind_usual(rig *r) {
    reply offer = usual(DHCP4_OFFER), ack = usual(DHCP4_ACK);
    dhcp4_link(&r->d, true, r->now);
    answer(r, &offer);
    answer(r, &ack);
    assert_int_equal(r->d.state, DHCP4_BOUND);
}

static void test_acquires(void **state) {
    rig r;
    (void)state;
    rig_make(&r);
    dhcp4_link(&r.d, true, r.now);
    assert_int_equal(sent_type(&r), DHCP4_DISCOVER);
    assert_int_equal(r.way, DHCP4_RAW);
    assert_null(option(&r, 50));
    const u8 *id = option(&r, 61);
    assert_non_null(id);
    assert_memory_equal(id + 3, MAC, 6); // the hardware address, at every boot
    reply offer = usual(DHCP4_OFFER), ack = usual(DHCP4_ACK);
    answer(&r, &offer);
    assert_int_equal(sent_type(&r), DHCP4_REQUEST);
    assert_memory_equal(option(&r, 50) + 2, offer.address, 4);
    assert_memory_equal(option(&r, 54) + 2, SERVER, 4);
    answer(&r, &ack);
    assert_int_equal(r.applied, 1);
    assert_int_equal(r.d.state, DHCP4_BOUND);
    assert_int_equal(r.timer_at, r.now + 500000);
}

static void test_renews_by_unicast_with_its_address(void **state) {
    rig r;
    (void)state;
    rig_make(&r);
    bind_usual(&r);
    fire(&r);
    assert_int_equal(r.d.state, DHCP4_RENEWING);
    assert_int_equal(r.way, DHCP4_UNICAST);
    assert_memory_equal(r.to, SERVER, 4);
    assert_memory_equal(r.packet + 12, ((u8[]){192, 0, 2, 50}), 4); // ciaddr
    assert_null(option(&r, 50));
    assert_null(option(&r, 54));
    reply ack = usual(DHCP4_ACK);
    answer(&r, &ack);
    assert_int_equal(r.d.state, DHCP4_BOUND);
    assert_int_equal(r.dropped, 0);
}

static void test_rebinds_then_gives_up(void **state) {
    rig r;
    (void)state;
    rig_make(&r);
    bind_usual(&r);
    u64 bound_at = r.now;
    for (int i = 0; i < 40 && r.d.state != DHCP4_REBINDING; i++) fire(&r);
    assert_int_equal(r.d.state, DHCP4_REBINDING);
    assert_int_equal(r.now, bound_at + 875000);
    assert_int_equal(r.way, DHCP4_BROADCAST);
    for (int i = 0; i < 40 && r.dropped == 0; i++) fire(&r);
    assert_int_equal(r.dropped, 1);
    assert_true(r.now >= bound_at + 1000000 && r.now < bound_at + 1002000);
    assert_int_equal(r.d.state, DHCP4_SELECTING);
    assert_non_null(option(&r, 50)); // asks for the same again
}

static void test_server_id_zero_is_never_written_to(void **state) {
    rig r;
    (void)state;
    rig_make(&r);
    reply offer = usual(DHCP4_OFFER), ack = usual(DHCP4_ACK);
    memcpy(offer.server, ANY, 4);
    memcpy(ack.server, ANY, 4);
    dhcp4_link(&r.d, true, r.now);
    answer(&r, &offer);
    answer(&r, &ack);
    assert_int_equal(r.d.state, DHCP4_BOUND);
    fire(&r);
    assert_memory_equal(r.to, SERVER, 4); // the packet's sender
    assert_true(r.warned > 0);
    // Neither id nor sender: by broadcast.
    memcpy(r.d.lease.server, ANY, 4);
    r.d.state = DHCP4_BOUND;
    dhcp4_timer(&r.d, r.d.t1_ms);
    assert_int_equal(r.way, DHCP4_BROADCAST);
}

static void test_lease_of_zero(void **state) {
    rig r;
    (void)state;
    rig_make(&r);
    reply offer = usual(DHCP4_OFFER), ack = usual(DHCP4_ACK);
    offer.lease_s = ack.lease_s = 0;
    dhcp4_link(&r.d, true, r.now);
    answer(&r, &offer);
    answer(&r, &ack);
    assert_int_equal(r.d.lease.lease_s, DHCP4_LEASE_S_MIN);
    assert_int_equal(r.timer_at, r.now + 30000);
    ack.no_lease = true;
    fire(&r);
    answer(&r, &ack);
    assert_int_equal(r.d.lease.lease_s, DHCP4_LEASE_S_DEFAULT);
}

static void test_endless_lease(void **state) {
    rig r;
    (void)state;
    rig_make(&r);
    reply offer = usual(DHCP4_OFFER), ack = usual(DHCP4_ACK);
    offer.lease_s = ack.lease_s = UINT32_MAX;
    dhcp4_link(&r.d, true, r.now);
    answer(&r, &offer);
    answer(&r, &ack);
    u32 sent = r.sent;
    for (int i = 0; i < 5; i++) fire(&r);
    assert_int_equal(r.sent, sent);
    assert_int_equal(r.d.state, DHCP4_BOUND);
}

static void test_nak_starts_over_without_a_loop(void **state) {
    rig r;
    (void)state;
    rig_make(&r);
    bind_usual(&r);
    fire(&r);
    reply nak = usual(DHCP4_NAK), offer = usual(DHCP4_OFFER);
    answer(&r, &nak);
    assert_int_equal(r.dropped, 1);
    assert_int_equal(sent_type(&r), DHCP4_DISCOVER);
    assert_null(option(&r, 50)); // a refused address is not asked for again
    u64 began = r.now;
    u32 sent = r.sent;
    for (int i = 0; i < 8; i++) { // a server that offers what it then refuses
        while (sent_type(&r) != DHCP4_DISCOVER || r.d.waiting) fire(&r);
        answer(&r, &offer);
        assert_int_equal(r.d.state, DHCP4_REQUESTING);
        answer(&r, &nak);
    }
    assert_true(r.now - began > 60000);
    assert_true(r.sent - sent < 64);
}

static void test_flap_keeps_the_address(void **state) {
    rig r;
    (void)state;
    rig_make(&r);
    bind_usual(&r);
    dhcp4_link(&r.d, false, r.now);
    assert_int_equal(r.dropped, 0);
    r.now += 3000;
    dhcp4_link(&r.d, true, r.now);
    assert_int_equal(r.d.state, DHCP4_REBOOTING);
    assert_int_equal(sent_type(&r), DHCP4_REQUEST);
    assert_memory_equal(option(&r, 50) + 2, ((u8[]){192, 0, 2, 50}), 4);
    assert_null(option(&r, 54));
    assert_memory_equal(r.packet + 12, ANY, 4); // ciaddr is zero in INIT-REBOOT
    reply ack = usual(DHCP4_ACK);
    answer(&r, &ack);
    assert_int_equal(r.d.state, DHCP4_BOUND);
    assert_int_equal(r.dropped, 0);
    // In another network now.
    dhcp4_link(&r.d, false, r.now);
    dhcp4_link(&r.d, true, r.now);
    reply nak = usual(DHCP4_NAK);
    answer(&r, &nak);
    assert_int_equal(r.dropped, 1);
}

static void test_flap_in_silence(void **state) {
    rig r;
    (void)state;
    rig_make(&r);
    bind_usual(&r);
    dhcp4_link(&r.d, false, r.now);
    dhcp4_link(&r.d, true, r.now);
    while (r.d.state == DHCP4_REBOOTING) fire(&r);
    assert_int_equal(r.d.state, DHCP4_SELECTING);
    assert_int_equal(r.dropped, 0); // still in force until its end
    u64 end = r.d.end_ms;
    while (r.dropped == 0) fire(&r);
    assert_true(r.now >= end && r.now < end + 2000);
}

static void test_link_stays_down_over_the_end(void **state) {
    rig r;
    (void)state;
    rig_make(&r);
    bind_usual(&r);
    u64 end = r.d.end_ms;
    dhcp4_link(&r.d, false, r.now);
    fire(&r);
    assert_int_equal(r.dropped, 1);
    assert_int_equal(r.now, end);
}

static dhcp4_lease saved(void) {
    rig r;
    rig_make(&r);
    bind_usual(&r);
    return r.d.lease;
}

static void test_saved_lease(void **state) {
    rig r;
    dhcp4_lease lease = saved();
    (void)state;
    rig_make(&r);
    dhcp4_remember(&r.d, &lease, 600, r.now);
    dhcp4_link(&r.d, true, r.now);
    assert_int_equal(sent_type(&r), DHCP4_REQUEST); // one exchange, not two
    reply ack = usual(DHCP4_ACK);
    answer(&r, &ack);
    assert_int_equal(r.d.state, DHCP4_BOUND);
    assert_int_equal(r.applied, 1);
    assert_int_equal(r.seconds_left, 1000);
}

static void test_saved_lease_in_silence(void **state) {
    rig r;
    dhcp4_lease lease = saved();
    (void)state;
    rig_make(&r);
    dhcp4_remember(&r.d, &lease, 600, r.now);
    dhcp4_link(&r.d, true, r.now);
    u64 began = r.now;
    while (r.applied == 0) fire(&r);
    assert_true(r.now - began < 10000);
    assert_true(r.seconds_left > 580 && r.seconds_left <= 600);
    assert_int_equal(sent_type(&r), DHCP4_DISCOVER);
    // A server appears, with another address.
    reply offer = usual(DHCP4_OFFER), ack = usual(DHCP4_ACK);
    offer.address[3] = ack.address[3] = 77;
    answer(&r, &offer);
    answer(&r, &ack);
    assert_int_equal(r.dropped, 1);
    assert_int_equal(r.d.lease.address[3], 77);
    // One whose time is over, or unknown, is never used without a server's word.
    rig_make(&r);
    dhcp4_remember(&r.d, &lease, 0, r.now);
    dhcp4_link(&r.d, true, r.now);
    for (int i = 0; i < 10; i++) fire(&r);
    assert_int_equal(r.applied, 0);
    assert_non_null(option(&r, 50));
}

static void test_backs_off(void **state) {
    rig r;
    (void)state;
    rig_make(&r);
    dhcp4_link(&r.d, true, r.now);
    u64 began = r.now;
    for (int i = 0; i < 6; i++) fire(&r);
    assert_true(r.now - began > 50000 && r.now - began < 80000);
    u64 before = r.now;
    fire(&r);
    assert_true(r.timer_at - r.now <= 71000);
    assert_true(r.now - before >= 57000);
}

static void test_others_packets(void **state) {
    rig r;
    u8 packet[DHCP4_PACKET_BYTES_MAX];
    (void)state;
    rig_make(&r);
    dhcp4_link(&r.d, true, r.now);
    reply offer = usual(DHCP4_OFFER);
    u32 len = build(&r, &offer, packet);
    packet[7] ^= 1; // another transaction
    dhcp4_packet(&r.d, packet, len, SERVER, r.now);
    packet[7] ^= 1, packet[28] ^= 1; // another client
    dhcp4_packet(&r.d, packet, len, SERVER, r.now);
    assert_int_equal(r.d.state, DHCP4_SELECTING);
    answer(&r, &offer);
    reply ack = usual(DHCP4_ACK);
    ack.server[3] = 9; // another server's word
    answer(&r, &ack);
    assert_int_equal(r.d.state, DHCP4_REQUESTING);
    offer.address[0] = 224; // no host's
    dhcp4_packet(&r.d, packet, 200, SERVER, r.now);
    assert_int_equal(r.d.state, DHCP4_REQUESTING);
}

static void parse_options(const u8 *options, u32 bytes, dhcp4_message *m) {
    u8 packet[600] = {0};
    const char *why;
    packet[0] = 2, packet[1] = 1, packet[2] = 6;
    memcpy(packet + 16, "\x0a\x80\x00\x05", 4);
    memcpy(packet + 236, "\x63\x82\x53\x63", 4);
    memcpy(packet + 240, options, bytes);
    assert_int_equal(dhcp4_packet_parse(packet, 240 + bytes, SERVER, m, &why), 0);
    assert_true(dhcp4_lease_is_valid(&m->lease));
}

static void test_options(void **state) {
    dhcp4_message m;
    (void)state;
    // A /32 with its router on the link, as a cloud hands out; option 3 is ignored beside 121.
    static const u8 cloud[] = {53, 1, 5, 1, 4, 255, 255, 255, 255, 3, 4, 9, 9, 9, 9,
                               121, 14, 32, 10, 128, 0, 1, 0, 0, 0, 0, 0, 10, 128, 0, 1,
                               26, 2, 0x05, 0xb4, 42, 4, 169, 254, 169, 254, 255};
    parse_options(cloud, sizeof(cloud), &m);
    assert_int_equal(m.lease.prefix, 32);
    assert_int_equal(m.lease.route_count, 2);
    assert_int_equal(m.lease.routes[0].prefix, 32);
    assert_int_equal(m.lease.routes[1].prefix, 0);
    assert_int_equal(m.lease.routes[1].via[3], 1);
    assert_int_equal(m.lease.mtu, 1460);
    assert_int_equal(m.lease.ntp_count, 1);
    // Broken routes, a mask with a hole, a tiny MTU, a domain that would be a line of its own.
    static const u8 broken[] = {53, 1, 5, 1, 4, 255, 0, 255, 0, 3, 4, 10, 128, 0, 1, 121, 3, 33, 1, 2,
                                26, 2, 0, 68, 15, 9, 'a', '\n', 'n', 'a', 'm', 'e', 's', 'e', 'r', 255};
    parse_options(broken, sizeof(broken), &m);
    assert_int_equal(m.lease.prefix, 8);
    assert_int_equal(m.lease.route_count, 1);
    assert_int_equal(m.lease.mtu, 0);
    assert_string_equal(m.lease.domain, "");
    assert_non_null(m.note);
    // Times out of order.
    static const u8 times[] = {53, 1, 5, 51, 4, 0, 0, 3, 232, 58, 4, 0, 0, 4, 0, 59, 4, 0, 0, 1, 0, 255};
    parse_options(times, sizeof(times), &m);
    assert_int_equal(m.lease.t1_s, 500);
    assert_int_equal(m.lease.t2_s, 875);
    // An option whose length goes beyond the end.
    static const u8 cut[] = {53, 1, 5, 6, 200, 1, 2, 3};
    parse_options(cut, sizeof(cut), &m);
    assert_int_equal(m.lease.dns_count, 0);
}

static void test_ip(void **state) {
    u8 message[300], packet[DHCP4_IP_BYTES + 300], source[4];
    size_t len = 0;
    (void)state;
    memset(message, 0x5a, sizeof(message));
    dhcp4_ip_wrap(packet, message, sizeof(message));
    assert_null(dhcp4_ip_unwrap(packet, sizeof(packet), &len, source)); // to port 67: a server's
    packet[23] = 68;
    const u8 *got = dhcp4_ip_unwrap(packet, sizeof(packet), &len, source);
    assert_non_null(got);
    assert_int_equal(len, sizeof(message));
    assert_memory_equal(got, message, len);
    assert_null(dhcp4_ip_unwrap(packet, sizeof(packet) - 1, &len, source)); // cut
    packet[6] |= 0x20; // a fragment
    assert_null(dhcp4_ip_unwrap(packet, sizeof(packet), &len, source));
    for (size_t cut = 0; cut < 28; cut++) assert_null(dhcp4_ip_unwrap(packet, cut, &len, source));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_acquires),
        cmocka_unit_test(test_renews_by_unicast_with_its_address),
        cmocka_unit_test(test_rebinds_then_gives_up),
        cmocka_unit_test(test_server_id_zero_is_never_written_to),
        cmocka_unit_test(test_lease_of_zero),
        cmocka_unit_test(test_endless_lease),
        cmocka_unit_test(test_nak_starts_over_without_a_loop),
        cmocka_unit_test(test_flap_keeps_the_address),
        cmocka_unit_test(test_flap_in_silence),
        cmocka_unit_test(test_link_stays_down_over_the_end),
        cmocka_unit_test(test_saved_lease),
        cmocka_unit_test(test_saved_lease_in_silence),
        cmocka_unit_test(test_backs_off),
        cmocka_unit_test(test_others_packets),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_ip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
