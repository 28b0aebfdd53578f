// SPDX-License-Identifier: Apache-2.0
// test_network.c: the texts of `network NAME { ... }`: addresses, routes, which interface a block is for.
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "conf/network.h"

static void test_addresses(void **state) {
    static const char *const wrong[] = {"192.0.2", "192.0.2.256", "01.2.3.4", "192.0.2.1/33", "192.0.2.1/",
                                        "192.0.2.1/-1",
                                        "192.0.2.1/+4", "2001:db8::1/129", "::1/1 x", "a", "1.2.3.4/0024"};
    net_addr a, list[NETWORK_LIST_MAX];
    (void)state;
    for (u32 i = 0; i < ARRAY_LEN(wrong); i++) assert_int_equal(network_parse_prefix(wrong[i], &a), -EINVAL);
    assert_int_equal(network_parse_prefix("192.0.2.5/24", &a), 0);
    assert_int_equal(a.prefix, 24);
    assert_int_equal(network_parse_prefix("2001:db8::5", &a), 0);
    assert_int_equal(a.prefix, 128);
    assert_int_equal(network_parse_prefixes(" 192.0.2.5/24,\t2001:db8::5/64 ", list), 2);
    assert_int_equal(network_parse_addresses("", list), 0);
    assert_int_equal(network_parse_addresses("1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 "
                                             "1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1", list),
                     -E2BIG);
    char text[NETWORK_TEXT_BYTES];
    assert_string_equal(network_print(&list[0], false, text), "1.1.1.1");
}

static void test_routes(void **state) {
    static const char *const wrong[] = {"10.0.0.0/8 via", "10.0.0.0/8 by 1.2.3.4", "10.0.0.0/8 via ::1",
                                        "default via 1.2.3.4",
                                        "10.0.0.0/8 via 1.2.3.4 x", "via 1.2.3.4"};
    net_route list[NETWORK_LIST_MAX];
    (void)state;
    for (u32 i = 0; i < ARRAY_LEN(wrong); i++) assert_int_equal(network_parse_routes(wrong[i], list), -EINVAL);
    assert_int_equal(network_parse_routes("10.0.0.0/8 via 192.0.2.254, 198.51.100.0/24", list), 2);
    assert_int_equal(list[0].via.family, AF_INET);
    assert_int_equal(list[1].via.family, 0);
}

static void test_match(void **state) {
    network_candidate c = {.name = "eth0", .driver = "virtio_net", .mac = {0x52, 0x54, 0, 0x12, 0x34, 0x56}};
    (void)state;
    assert_int_equal(network_match_rank("any", &c), 1);
    assert_int_equal(network_match_rank("driver:virtio_net", &c), 2);
    assert_int_equal(network_match_rank("driver:ena", &c), 0);
    assert_int_equal(network_match_rank("name:eth*", &c), 3);
    assert_int_equal(network_match_rank("any name:eth0", &c), 4);
    assert_int_equal(network_match_rank("mac:52:54:00:12:34:56", &c), 5);
    assert_int_equal(network_match_rank("mac:52:54:00:12:34:57 name:wlan0", &c), 0);
    assert_null(text_check_match("mac:52:54:00:12:34:56"));
    static const char *const wrong[] = {"", " ", "eth0", "name:", "mac:52:54:00:12:34", "mac:52:54:00:12:34:5",
                                        "mac:525400123456",
                                        "mac:52:54:00:12:34:56:", "driver:", "mac:+1:54:00:12:34:56"};
    for (u32 i = 0; i < ARRAY_LEN(wrong); i++) {
        if (text_check_match(wrong[i]) == NULL) fail_msg("accepted: %s", wrong[i]);
    }
}

static void test_contains(void **state) {
    net_addr net, a;
    (void)state;
    network_parse_prefix("192.0.2.77/26", &net);
    network_parse_address("192.0.2.64", &a);
    assert_true(network_contains(&net, &a));
    network_parse_address("192.0.2.63", &a);
    assert_false(network_contains(&net, &a));
    network_parse_address("::1", &a);
    assert_false(network_contains(&net, &a));
}

static void check(const char *block, const char *complaint) {
    config *c = malloc(sizeof(*c));
    config_error *error = calloc(1, sizeof(*error));
    char text[2048] = "listener a { protocol = frame; bind = \"127.0.0.1:7000\" }\n";
    strcat(text, block);
    int rc = config_parse("t", text, strlen(text), c, error);
    if (complaint == NULL && rc != 0) fail_msg("%s", error->text);
    if (complaint != NULL && (rc == 0 || strstr(error->text, complaint) == NULL))
        fail_msg("%s: %s", block, error->text);
    free(c);
    free(error);
}

static void test_blocks(void **state) {
    (void)state;
    check("network a { }", NULL);
    check("network a { address = \"192.0.2.5/24\"; gateway = \"192.0.2.1\" }", NULL);
    check("network a { address = \"192.0.2.5/24\"; gateway = \"198.51.100.1\" }",
          "t:2: network a: gateway: is in none");
    check("network a { address = \"192.0.2.5/32\"; gateway = \"198.51.100.1\" }", NULL); // a cloud's point to point
    check("network a { address = \"2001:db8::5/64\"; gateway = \"fe80::1\" }", NULL);
    check("network a { gateway = \"192.0.2.1\" }", "needs address");
    check("network a { address = \"192.0.2.5\" }", "length of the network is missing");
    check("network a { address = \"192.0.2.5/24\"; routes = \"10.0.0.0/8 via 10.9.9.9\" }", "a next hop is in none");
    check("network abcdefghijklmnop { vlan = 5 }", "at most 15 characters");
    check("network a { mtu = 100 }", "below 576");
    check("network a { dns = \"dns.example\" }", "IP addresses are expected");
    check("network a { ntp = \"time.example 192.0.2.1\" }", NULL);
    check("network a { ntp = \"a$b\" }", "an address or a host name");
    check("network a { dhcp = yes }", "unknown key 'dhcp'");
}

static void test_dhcp4_default(void **state) {
    static const char text[] = "listener a { protocol = frame; bind = \"127.0.0.1:7000\" }\nnetwork a { }\n"
                               "network b { address = \"192.0.2.5/24\" }\nnetwork c { address = \"2001:db8::5/64\" }\n"
                               "network d { address = \"192.0.2.6/24\"; dhcp4 = yes }\n";
    config *c = malloc(sizeof(*c));
    config_error *error = calloc(1, sizeof(*error));
    (void)state;
    assert_int_equal(config_parse("t", text, sizeof(text) - 1, c, error), 0);
    assert_true(c->networks[0].dhcp4);
    assert_false(c->networks[1].dhcp4);
    assert_true(c->networks[2].dhcp4);
    assert_true(c->networks[3].dhcp4);
    free(c);
    free(error);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses), cmocka_unit_test(test_routes), cmocka_unit_test(test_match),
        cmocka_unit_test(test_contains),  cmocka_unit_test(test_blocks), cmocka_unit_test(test_dhcp4_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
