// SPDX-License-Identifier: Apache-2.0
// sntp_packet.c: see sntp_packet.h. Time stamps are 32.32 fixed point since 1900, modulo 2^32 seconds (they
// wrap in 2036); everything is nanoseconds since 1970 in i64 once the era is known, good until 2262.
#include "init/sntp_packet.h"

#include <string.h>


#define EPOCH_1900_S 2208988800ll // 1900 to 1970
#define ERA_S (1ll << 32)
#define MODE_CLIENT 3u
#define MODE_SERVER 4u
#define VERSION 4u
#define LEAP_UNSYNCED 3u

static const char *const verdict_names[SNTP_VERDICTS] = {
    [SNTP_GOOD] = "good", [SNTP_NO_ANSWER] = "no_answer", [SNTP_SHORT] = "short", [SNTP_NOT_SERVER] = "not_server",
    [SNTP_NOT_OURS] = "not_ours", [SNTP_UNSYNCED] = "unsynced", [SNTP_KISS_RATE] = "kiss_rate",
    [SNTP_KISS_DENY] = "kiss_deny", [SNTP_BAD_TIME] = "bad_time", [SNTP_TOO_FAR] = "too_far",
};

const char *sntp_verdict_name(sntp_verdict v) {
    ASSERT(v < SNTP_VERDICTS);
    return verdict_names[v];
}

static u32 load_be32(const u8 *at) {
    return (u32)at[0] << 24 | (u32)at[1] << 16 | (u32)at[2] << 8 | at[3];
}

static u64 load_be64(const u8 *at) {
    return (u64)load_be32(at) << 32 | load_be32(at + 4);
}

void sntp_request_write(u8 out[SNTP_BYTES], u64 nonce) {
    memset(out, 0, SNTP_BYTES);
    out[0] = VERSION << 3 | MODE_CLIENT;
    for (int i = 0; i < 8; i++) out[40 + i] = (u8)(nonce >> (56 - 8 * i));
}

// 16.16 fixed point seconds.
static u64 short_to_ns(u32 value) {
    return (u64)value * NS_PER_S >> 16;
}

// The first time at or behind not_before_s that the stamp can mean.
static i64 stamp_to_ns(u64 stamp, i64 not_before_s) {
    i64 s = (i64)(stamp >> 32) - EPOCH_1900_S;
    while (s < not_before_s) s += ERA_S;
    return s * (i64)NS_PER_S + (i64)((stamp & 0xffffffffu) * NS_PER_S >> 32);
}

static sntp_verdict kiss_read(const u8 *data) {
    return memcmp(data + 12, "RATE", 4) == 0 ? SNTP_KISS_RATE : SNTP_KISS_DENY;
}

static sntp_verdict head_check(const u8 *data, size_t len, u64 nonce) {
    if (len < SNTP_BYTES) return SNTP_SHORT;
    u32 version = data[0] >> 3 & 7;
    if ((data[0] & 7) != MODE_SERVER || version < 3 || version > VERSION) return SNTP_NOT_SERVER;
    if (load_be64(data + 24) != nonce) return SNTP_NOT_OURS;
    if (data[1] == 0) return kiss_read(data);
    if (data[0] >> 6 == LEAP_UNSYNCED || data[1] > LIMIT_NTP_STRATUM) return SNTP_UNSYNCED;
    return SNTP_GOOD;
}

sntp_verdict sntp_answer_read(const u8 *data, size_t len, u64 nonce, i64 not_before_s, const sntp_times *times,
                              sntp_sample *out) {
    sntp_verdict head = head_check(data, len, nonce);
    if (head != SNTP_GOOD) return head;
    u64 receive = load_be64(data + 32), transmit = load_be64(data + 40);
    if (receive == 0 || transmit == 0) return SNTP_BAD_TIME;
    i64 t1 = times->sent_ns, t4 = times->received_ns;
    i64 t2 = stamp_to_ns(receive, not_before_s), t3 = stamp_to_ns(transmit, not_before_s);
    i64 ahead_ns = (not_before_s + (i64)LIMIT_CLOCK_AHEAD_S) * (i64)NS_PER_S;
    // A time before the build was unfolded into the next era, and is too far ahead like any other such time.
    if (t3 < t2 || t3 > ahead_ns || t4 < t1) return SNTP_BAD_TIME;
    i64 delay = (t4 - t1) - (t3 - t2);
    if (delay < 0) delay = 0; // clocks of different pace over a very short way
    u64 root_ns = short_to_ns(load_be32(data + 4)) / 2 + short_to_ns(load_be32(data + 8));
    u64 distance = (u64)delay / 2 + root_ns;
    if (distance > LIMIT_NTP_DISTANCE_NS) return SNTP_TOO_FAR;
    // Halves first: the differences may be large, their sum must not overflow.
    out->offset_ns = (t2 - t1) / 2 + (t3 - t4) / 2;
    out->delay_ns = (u64)delay;
    out->distance_ns = distance;
    out->stratum = data[1];
    return SNTP_GOOD;
}

static bool agrees(const sntp_sample *a, const sntp_sample *b) {
    i64 apart = a->offset_ns - b->offset_ns;
    u64 gap = apart < 0 ? (u64)-apart : (u64)apart;
    return gap <= a->distance_ns + b->distance_ns + LIMIT_NTP_AGREE_NS;
}

int sntp_agree(const sntp_sample *samples, u32 count) {
    int best = -1;
    u32 best_size = 1;
    for (u32 i = 0; i < count; i++) {
        u32 size = 0;
        for (u32 k = 0; k < count; k++) size += agrees(&samples[i], &samples[k]) ? 1 : 0;
        bool nearer = best >= 0 && size == best_size && samples[i].distance_ns < samples[best].distance_ns;
        if (size <= best_size && !nearer) continue;
        best = (int)i;
        best_size = size;
    }
    return best_size * 2 > count ? best : -1;
}
