// SPDX-License-Identifier: Apache-2.0
// fuzz_network.c: any bytes as what the network part reads from outside: DHCP packets, rtnetlink messages,
// the beginning of a disk, the metadata service's answer. The first byte chooses. What is accepted keeps
// its promises.
#include <stdlib.h>
#include <string.h>

#include "init/config_user_data.h"
#include "init/config_volume.h"
#include "init/dhcp4.h"
#include "init/dhcp4_socket.h"
#include "init/dhcp6_packet.h"
#include "init/metadata_http.h"
#include "init/net_rtnl.h"

#define CHECK(ok) \
    do { \
        if (!(ok)) abort(); \
    } while (0)

static const u8 MAC[6] = {0x52, 0x54, 0, 1, 2, 3};

static void fuzz_dhcp4(const u8 *data, size_t size) {
    static const u8 source[4] = {192, 0, 2, 1};
    dhcp4_message m;
    const char *why = NULL;
    u8 from[4];
    size_t len = 0;
    if (dhcp4_packet_parse(data, size, source, &m, &why) == 0) {
        CHECK(m.type == DHCP4_OFFER || m.type == DHCP4_ACK || m.type == DHCP4_NAK);
        CHECK(m.type == DHCP4_NAK || dhcp4_lease_is_valid(&m.lease));
        CHECK(memchr(m.text, '\0', sizeof(m.text)) != NULL);
    } else {
        CHECK(why != NULL);
    }
    const u8 *message = dhcp4_ip_unwrap(data, size, &len, from);
    CHECK(message == NULL || (message >= data && message + len <= data + size));
}

static void fuzz_dhcp6(const u8 *data, size_t size) {
    dhcp6_message m;
    if (dhcp6_packet_parse(data, size, MAC, &m) != 0) return;
    CHECK(m.server_len > 0 && m.server_len <= DHCP6_DUID_BYTES_MAX);
    CHECK(m.lease.dns_count <= DHCP6_SERVERS_MAX && m.lease.ntp_count <= DHCP6_SERVERS_MAX);
    CHECK(!m.lease.has_address || (m.lease.valid_s >= DHCP6_VALID_S_MIN && m.lease.t1_s <= m.lease.t2_s));
}

static void on_link(void *context, const rtnl_link *l, bool added) {
    (void)context;
    (void)added;
    CHECK(memchr(l->name, '\0', sizeof(l->name)) != NULL && memchr(l->kind, '\0', sizeof(l->kind)) != NULL);
}
static void on_address(void *context, const rtnl_address *a, bool added) {
    (void)context;
    (void)added;
    CHECK(a->address.family != 0);
}
static void on_route(void *context, const rtnl_route_info *r, bool added) {
    (void)context;
    (void)r;
    (void)added;
}
static void on_rdnss(void *context, const rtnl_rdnss *r) {
    (void)context;
    CHECK(r->count <= RTNL_RDNSS_MAX);
}

// The answer in two pieces, then what the exchange makes of it, for each cloud.
static void fuzz_metadata(const u8 *data, size_t size) {
    http_answer a;
    http_answer_init(&a);
    size_t cut = size > 0 ? data[0] % (size + 1) : 0;
    answer_progress p = http_answer_feed(&a, (const char *)data, cut);
    if (p == ANSWER_MORE) p = http_answer_feed(&a, (const char *)data + cut, size - cut);
    if (p == ANSWER_MORE) p = http_answer_end(&a);
    CHECK(p != ANSWER_MORE && (p != ANSWER_BAD || a.why != NULL) && a.body_len <= METADATA_BODY_BYTES_MAX);
    for (cloud_kind kind = CLOUD_EC2; kind <= CLOUD_OPENSTACK; kind++) {
        metadata_step s;
        metadata_answer what = {.status = p == ANSWER_COMPLETE ? a.status : 0, .body = a.body,
                                .body_len = a.body_len, .flavor_google = a.flavor_google, .why = a.why};
        metadata_verdict v = metadata_step_begin(&s, kind);
        for (int turns = 0; turns < 200 && (v == METADATA_ASK || v == METADATA_WAIT); turns++) {
            CHECK(v != METADATA_WAIT || s.wait_ms > 0);
            if (v == METADATA_WAIT) v = metadata_step_again(&s);
            CHECK(strstr(s.request, "\r\n\r\n") == s.request + strlen(s.request) - 4);
            v = metadata_step_answer(&s, &what);
        }
        CHECK(v == METADATA_DONE || v == METADATA_EMPTY || v == METADATA_FAILED);
    }
    http_answer_free(&a);
}

static void fuzz_volume(const u8 *data, size_t size) {
    static u8 head[VOLUME_HEAD_BYTES];
    char label[VOLUME_LABEL_BYTES];
    // The interesting places of both kinds, without a long input.
    memset(head, 0, sizeof(head));
    memcpy(head, data, MIN(size, 1024u));
    if (size > 1024) memcpy(head + 32768, data + 1024, MIN(size - 1024, 2048u));
    volume_recognise(head, sizeof(head), label);
    CHECK(memchr(label, '\0', sizeof(label)) != NULL);
    volume_recognise(data, size, label);
    CHECK(memchr(label, '\0', sizeof(label)) != NULL);
}

static void fuzz_user_data(const u8 *data, size_t size) {
    const char *text, *why = NULL;
    size_t len;
    int rc = config_user_data((const char *)data, size, &text, &len, &why);
    if (rc == 0) CHECK(len <= size);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
    static const rtnl_callbacks callbacks = {on_link, on_address, on_route, on_rdnss};
    if (size == 0) return 0;
    u8 which = data[0];
    data++, size--;
    switch (which % 6) {
    case 0: fuzz_dhcp4(data, size); break;
    case 1: fuzz_dhcp6(data, size); break;
    case 2: rtnl_parse(data, size, &callbacks, NULL); break;
    case 3: fuzz_metadata(data, size); break;
    case 4: fuzz_volume(data, size); break;
    default: fuzz_user_data(data, size); break;
    }
    return 0;
}
