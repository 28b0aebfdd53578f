// SPDX-License-Identifier: Apache-2.0
// sntp_packet.h: the SNTP client's packets (RFC 4330, RFC 5905 section 14) and the judgement of several
// servers' answers; bytes in, verdict out, no I/O and no clock.
#ifndef SLUICE_INIT_SNTP_PACKET_H
#define SLUICE_INIT_SNTP_PACKET_H

#include "base/base.h"
#include "limits.h"

#define SNTP_BYTES 48u

typedef enum sntp_verdict {
    SNTP_GOOD,
    SNTP_NO_ANSWER,   // the client's: timeout, unreachable
    SNTP_SHORT,       // fewer than 48 bytes
    SNTP_NOT_SERVER,  // mode or version is not a server's
    SNTP_NOT_OURS,    // does not answer the request that was sent: late, or forged
    SNTP_UNSYNCED,    // the server says that it has no time itself
    SNTP_KISS_RATE,   // asks for fewer requests
    SNTP_KISS_DENY,   // does not want to be asked
    SNTP_BAD_TIME,    // impossible time stamps, or before the build
    SNTP_TOO_FAR,     // its own error, or the round trip, is too large to be of use
    SNTP_VERDICTS
} sntp_verdict;

// What one good answer says.
typedef struct sntp_sample {
    i64 offset_ns;     // to add to our clock
    u64 delay_ns;      // round trip without the server's share
    u64 distance_ns;   // how wrong the offset may be: half the delay, and what the server is off itself
    u8 stratum;
} sntp_sample;

// When the request left and the answer came: our wall clock at both, made from one reading and the
// monotonic clock, so that a step in between does no harm.
typedef struct sntp_times {
    i64 sent_ns, received_ns; // since 1970
} sntp_times;

// The request. nonce: random; it stands where our time would, and must come back: it hides our clock and
// makes answers unforgeable for who does not see the request.
void sntp_request_write(u8 out[SNTP_BYTES], u64 nonce);
// The answer. not_before_s: the build; time stamps are read as the era that is not before it, and an answer
// before it is a bad time. out is written only when SNTP_GOOD. An answer longer than 48 bytes has
// extensions or a MAC, which are not looked at.
sntp_verdict sntp_answer_read(const u8 *data, size_t len, u64 nonce, i64 not_before_s, const sntp_times *times,
                              sntp_sample *out);
const char *sntp_verdict_name(sntp_verdict v);

// Which sample is to be believed: the one with the least distance among the largest group that agrees with it
// (offsets no further apart than both distances and LIMIT_NTP_AGREE_NS). The group must be the majority of all
// samples and at least two. Returns its index; -1 when there is no such group.
int sntp_agree(const sntp_sample *samples, u32 count);

#endif
