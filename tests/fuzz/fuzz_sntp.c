// SPDX-License-Identifier: Apache-2.0
// fuzz_sntp.c: any bytes as the answer of a time server, with a nonce and clocks taken from the input too. What
// is accepted keeps the promises of sntp_answer_read: bounded distance, a time that is not before the build.
#include <stdlib.h>
#include <string.h>

#include "init/sntp_packet.h"

#define BUILD 1796000000ll
#define CHECK(ok) \
    do { \
        if (!(ok)) abort(); \
    } while (0)

int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
    u64 nonce = 0, sent = 0, took = 0;
    sntp_sample sample;
    memset(&sample, 0xaa, sizeof(sample));
    if (size < 12) return 0;
    memcpy(&sent, data, 8);
    memcpy(&took, data + 8, 4);
    data += 12;
    size -= 12;
    // The nonce is the one that was sent, mostly: nothing else gets anywhere.
    for (u32 i = 0; i < 8 && size >= SNTP_BYTES; i++) nonce = nonce << 8 | data[24 + i];
    sntp_times times = {.sent_ns = (i64)(sent >> 2)};
    times.received_ns = times.sent_ns + (i64)took;
    sntp_verdict v = sntp_answer_read(data, size, nonce, BUILD, &times, &sample);
    CHECK(v < SNTP_VERDICTS && sntp_verdict_name(v) != NULL);
    CHECK(size >= SNTP_BYTES || v == SNTP_SHORT);
    if (v != SNTP_GOOD) return 0;
    CHECK(sample.distance_ns <= LIMIT_NTP_DISTANCE_NS);
    CHECK(sample.stratum >= 1 && sample.stratum <= LIMIT_NTP_STRATUM);
    i64 server_ns = times.sent_ns / 2 + times.received_ns / 2 + sample.offset_ns;
    CHECK(server_ns >= (BUILD - 2) * (i64)NS_PER_S);
    CHECK(sntp_agree(&sample, 1) == -1);
    return 0;
}
