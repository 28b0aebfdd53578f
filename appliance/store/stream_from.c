// SPDX-License-Identifier: Apache-2.0
// stream_from.c: see stream_from.h. Text from clients: everything is read by position and bound, nothing beyond
// what the forms say is accepted.
#include "store/stream_from.h"

#include <string.h>

#include "conf/config.h"

#define MS_S 1000ull
#define YEAR_MAX 9999u
#define WORD_BYTES_MAX 40u // longer is none of the forms but the list of places

typedef struct reader {
    const char *at, *end;
} reader;

static bool take_char(reader *r, char c) {
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

// One to `digits` digits.
static bool take_number(reader *r, u32 digits, u64 *out) {
    u64 value = 0;
    u32 count = 0;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9' && count < digits) {
        value = value * 10 + (u64)(*r->at++ - '0');
        count++;
    }
    *out = value;
    return count > 0;
}

// Exactly two digits, at most max.
static bool take_pair(reader *r, u32 max, u32 *out) {
    u64 value;
    const char *start = r->at;
    if (!take_number(r, 2, &value) || r->at - start != 2 || value > max) return false;
    *out = (u32)value;
    return true;
}

// Up to 18 digits: 10^18 messages are 30,000 years at a million a second.
static bool take_offset(reader *r, u64 *out) {
    return take_number(r, 18, out) && *out > 0;
}

// ".5" -> 500 ms; further digits are cut off. Without a point 0.
static bool take_fraction_ms(reader *r, u32 digits_max, u64 *ms) {
    *ms = 0;
    if (!take_char(r, '.')) return true;
    u64 unit = 100;
    u32 digits = 0;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9' && digits < digits_max) {
        *ms += (u64)(*r->at++ - '0') * unit;
        unit /= 10;
        digits++;
    }
    return digits > 0;
}

// Days since 1970 of a date of the Gregorian calendar, year 1970 or later. March is the first month of a
// year here, so that the leap day is its last day.
static u64 days_since_1970(u32 year, u32 month, u32 day) {
    u32 y = month > 2 ? year : year - 1, m = month > 2 ? month - 3 : month + 9;
    u32 of_year = (153 * m + 2) / 5 + day - 1;
    u64 days = 365ull * y + y / 4 - y / 100 + y / 400 + of_year;
    return days - 719468; // from 0000-03-01 to 1970-01-01
}

static bool date_is_valid(u32 year, u32 month, u32 day) {
    static const u8 days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (year < 1970 || year > YEAR_MAX || month < 1 || month > 12 || day < 1) return false;
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return day <= days[month - 1] + (month == 2 && leap ? 1u : 0u);
}

// "Z", "+02:00": minutes to be subtracted.
static bool take_zone(reader *r, i64 *minutes) {
    u32 hour, minute;
    *minutes = 0;
    if (take_char(r, 'Z') || take_char(r, 'z')) return true;
    i64 sign = take_char(r, '+') ? 1 : take_char(r, '-') ? -1 : 0;
    if (sign == 0 || !take_pair(r, 23, &hour) || !take_char(r, ':') || !take_pair(r, 59, &minute)) return false;
    *minutes = sign * (i64)(hour * 60 + minute);
    return true;
}

static bool parse_rfc3339(reader r, u64 *ms) {
    u64 year, fraction;
    u32 month, day, hour, minute, second;
    i64 zone;
    const char *start = r.at;
    if (!take_number(&r, 4, &year) || r.at - start != 4) return false;
    if (!take_char(&r, '-') || !take_pair(&r, 12, &month) || !take_char(&r, '-') || !take_pair(&r, 31, &day)) {
        return false;
    }
    if (!take_char(&r, 'T') && !take_char(&r, 't') && !take_char(&r, ' ')) return false;
    if (!take_pair(&r, 23, &hour) || !take_char(&r, ':') || !take_pair(&r, 59, &minute)) return false;
    if (!take_char(&r, ':') || !take_pair(&r, 60, &second)) return false; // 60: a leap second
    if (!take_fraction_ms(&r, 9, &fraction) || !take_zone(&r, &zone) || r.at != r.end) return false;
    if (!date_is_valid((u32)year, month, day)) return false;
    u64 days = days_since_1970((u32)year, month, day);
    i64 seconds = (i64)(days * 86400 + hour * 3600 + minute * 60 + second) - zone * 60;
    if (seconds < 0) return false;
    *ms = (u64)seconds * MS_S + fraction;
    return true;
}

// "@1767225600.5"
static bool parse_unix(reader r, u64 *ms) {
    u64 seconds, fraction;
    if (!take_char(&r, '@') || !take_number(&r, 12, &seconds)) return false;
    if (!take_fraction_ms(&r, 3, &fraction) || r.at != r.end) return false;
    *ms = seconds * MS_S + fraction;
    return true;
}

static bool parse_relative(reader r, u64 now_ms, u64 *ms) {
    char word[WORD_BYTES_MAX + 1];
    u64 back;
    if (!take_char(&r, '-')) return false;
    size_t len = (size_t)(r.end - r.at);
    memcpy(word, r.at, len);
    word[len] = '\0';
    if (memchr(word, '\0', len) != NULL || config_parse_duration_ms(word, &back) != 0) return false;
    *ms = back < now_ms ? now_ms - back : 0;
    return true;
}

// "0:1234,1:88"
static bool parse_places(reader r, stream_from_all *out) {
    do {
        u64 partition, offset;
        if (!take_number(&r, 2, &partition) || partition >= LIMIT_WORKERS_MAX) return false;
        if (!take_char(&r, ':') || !take_offset(&r, &offset) || out->at[partition] != 0) return false;
        out->at[partition] = offset;
    } while (take_char(&r, ','));
    out->by_partition = true;
    return r.at == r.end;
}

static bool word_is(reader r, const char *word) {
    size_t len = strlen(word);
    return (size_t)(r.end - r.at) == len && memcmp(r.at, word, len) == 0;
}

bool stream_from_parse(const char *text, u32 len, u64 now_ms, stream_from_all *out) {
    memset(out, 0, sizeof(*out));
    if (len == 0 || len > LIMIT_STREAM_FROM_BYTES) return false;
    const reader r = {text, text + len};
    if (memchr(text, ':', len) != NULL && memchr(text, '-', len) == NULL && parse_places(r, out)) return true;
    memset(out, 0, sizeof(*out));
    if (len > WORD_BYTES_MAX) return false;
    out->all.kind = FROM_EARLIEST;
    if (word_is(r, "earliest")) return true;
    out->all.kind = FROM_LATEST;
    if (word_is(r, "latest")) return true;
    out->all.kind = FROM_OFFSET;
    reader number = r;
    if (take_offset(&number, &out->all.value) && number.at == number.end) return true;
    out->all.kind = FROM_TIME;
    return parse_relative(r, now_ms, &out->all.value) || parse_unix(r, &out->all.value) ||
           parse_rfc3339(r, &out->all.value);
}

stream_from stream_from_of(const stream_from_all *from, u32 partition) {
    if (!from->by_partition) return from->all;
    u64 at = from->at[partition];
    return at == 0 ? (stream_from){.kind = FROM_LATEST} : (stream_from){.kind = FROM_OFFSET, .value = at};
}
