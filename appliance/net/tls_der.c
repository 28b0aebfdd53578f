// SPDX-License-Identifier: Apache-2.0
// tls_der.c: reading DER: one cursor, definite lengths only, nothing deeper than these structures are.
#include "net/tls_der.h"

#include <bearssl.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

// Lengths beyond this are refused: no certificate or list comes near.
#define DER_LEN_MAX (64u << 20)

bool der_next(der *in, u8 *tag, der *content, der *whole) {
    if (in->left < 2 || (in->at[0] & 0x1f) == 0x1f) return false; // tags above 30 do not occur
    u32 head = 2, len = in->at[1];
    if (len >= 0x80) {
        u32 bytes = len & 0x7f;
        if (bytes == 0 || bytes > 4 || in->left < 2 + bytes) return false;
        len = 0;
        for (u32 i = 0; i < bytes; i++) len = len << 8 | in->at[2 + i];
        head += bytes;
    }
    if (len > DER_LEN_MAX || len > in->left - head) return false;
    *tag = in->at[0];
    *content = (der){in->at + head, len};
    if (whole != NULL) *whole = (der){in->at, head + len};
    in->at += head + len;
    in->left -= head + len;
    return true;
}

bool der_take(der *in, u8 tag, der *content) {
    der copy = *in;
    u8 found;
    if (!der_next(&copy, &found, content, NULL) || found != tag) return false;
    *in = copy;
    return true;
}

static bool digits(const u8 *at, u32 count, int *out) {
    *out = 0;
    for (u32 i = 0; i < count; i++) {
        if (at[i] < '0' || at[i] > '9') return false;
        *out = *out * 10 + (at[i] - '0');
    }
    return true;
}

// Days since 1970 of a day in the Gregorian calendar.
static i64 days_from_civil(i64 year, int month, int day) {
    year -= month <= 2;
    i64 era = year / 400;
    i64 of_era = year - era * 400;
    i64 of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

bool der_time(u8 tag, der content, i64 *unix_s) {
    u32 year_digits = tag == DER_UTC_TIME ? 2 : 4;
    if (tag != DER_UTC_TIME && tag != DER_GENERALIZED_TIME) return false;
    if (content.left != year_digits + 11 || content.at[year_digits + 10] != 'Z') return false;
    int year, part[5];
    if (!digits(content.at, year_digits, &year)) return false;
    for (u32 i = 0; i < ARRAY_LEN(part); i++) {
        if (!digits(content.at + year_digits + 2 * i, 2, &part[i])) return false;
    }
    if (year_digits == 2) year += year < 50 ? 2000 : 1900;
    bool good = part[0] >= 1 && part[0] <= 12 && part[1] >= 1 && part[1] <= 31 && part[2] < 24 && part[3] < 60 &&
                part[4] <= 60;
    if (!good) return false;
    *unix_s = days_from_civil(year, part[0], part[1]) * 86400 + part[2] * 3600 + part[3] * 60 + part[4];
    return true;
}

static bool take_time(der *in, i64 *unix_s) {
    der content;
    u8 tag;
    return der_next(in, &tag, &content, NULL) && der_time(tag, content, unix_s);
}

static bool take_whole(der *in, u8 tag, der *whole) {
    der content;
    u8 found;
    return der_next(in, &found, &content, whole) && found == tag;
}

// --- certificates ---

static const u8 oid_common_name[] = {0x55, 0x04, 0x03};
static const u8 oid_alt_name[] = {0x55, 0x1d, 0x11};
static const u8 oid_ext_key_usage[] = {0x55, 0x1d, 0x25};

static bool is_oid(der oid, const u8 *want, u32 len) {
    return oid.left == len && memcmp(oid.at, want, len) == 0;
}

static void find_common_name(der name, cert_info *out) {
    der rdns, set, pair, oid, value;
    u8 tag;
    if (!der_take(&name, DER_SEQUENCE, &rdns)) return;
    while (der_take(&rdns, DER_SET, &set)) {
        while (der_take(&set, DER_SEQUENCE, &pair)) {
            if (!der_take(&pair, DER_OID, &oid) || !der_next(&pair, &tag, &value, NULL)) return;
            if (is_oid(oid, oid_common_name, sizeof(oid_common_name))) out->common_name = value;
        }
    }
}

static void find_extensions(der extensions, cert_info *out) {
    der list, one, oid, critical, value, names;
    if (!der_take(&extensions, DER_SEQUENCE, &list)) return;
    while (der_take(&list, DER_SEQUENCE, &one)) {
        if (!der_take(&one, DER_OID, &oid)) return;
        der_take(&one, 0x01, &critical); // BOOLEAN, when it is there
        if (!der_take(&one, DER_OCTET_STRING, &value)) return;
        if (is_oid(oid, oid_alt_name, sizeof(oid_alt_name)) && der_take(&value, DER_SEQUENCE, &names)) {
            out->alt_names = names;
        }
        if (is_oid(oid, oid_ext_key_usage, sizeof(oid_ext_key_usage)) && der_take(&value, DER_SEQUENCE, &names)) {
            out->purposes = names;
            out->has_purposes = true;
        }
    }
}

// Up to the issuer; *tbs is left behind it.
static bool read_start(der *tbs, cert_info *out) {
    der version, algorithm;
    der_take(tbs, 0xa0, &version); // [0], absent in version 1
    return der_take(tbs, DER_INTEGER, &out->serial) && der_take(tbs, DER_SEQUENCE, &algorithm) &&
           take_whole(tbs, DER_SEQUENCE, &out->issuer);
}

int cert_read(const u8 *cert, u32 len, cert_info *out, u32 *offset) {
    der in = {cert, len}, outer, tbs = {cert, 0}, validity, extensions;
    *out = (cert_info){0};
    u8 tag;
    bool good = der_take(&in, DER_SEQUENCE, &outer) && in.left == 0 && der_take(&outer, DER_SEQUENCE, &tbs) &&
                read_start(&tbs, out) && der_take(&tbs, DER_SEQUENCE, &validity) &&
                take_time(&validity, &out->not_before_s) && take_time(&validity, &out->not_after_s) &&
                take_whole(&tbs, DER_SEQUENCE, &out->subject);
    if (!good) {
        *offset = (u32)(tbs.at - cert);
        return -EINVAL;
    }
    find_common_name(out->subject, out);
    der content;
    while (der_next(&tbs, &tag, &content, NULL)) {
        if (tag == 0xa3) {
            extensions = content;
            find_extensions(extensions, out);
        }
    }
    return 0;
}

bool cert_is_for_purpose(const cert_info *info, cert_purpose purpose) {
    static const u8 any[] = {0x55, 0x1d, 0x25, 0x00};
    const u8 wanted[] = {0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, (u8)purpose};
    der list = info->purposes, oid;
    if (!info->has_purposes) return true;
    while (der_take(&list, DER_OID, &oid)) {
        if (is_oid(oid, wanted, sizeof(wanted)) || is_oid(oid, any, sizeof(any))) return true;
    }
    return false;
}

bool cert_next_dns(der *alt_names, der *name) {
    u8 tag;
    while (der_next(alt_names, &tag, name, NULL)) {
        if (tag == 0x82) return true; // [2] IA5String
    }
    return false;
}

static bool name_matches(der pattern, const char *host, u32 len) {
    if (pattern.left == 0 || memchr(pattern.at, '\0', pattern.left) != NULL) return false;
    if (pattern.left > 2 && pattern.at[0] == '*' && pattern.at[1] == '.') {
        const char *dot = memchr(host, '.', len);
        if (dot == NULL || dot == host) return false;
        u32 rest = len - (u32)(dot - host);
        return rest == pattern.left - 1 && strncasecmp((const char *)pattern.at + 1, dot, rest) == 0;
    }
    return pattern.left == len && strncasecmp((const char *)pattern.at, host, len) == 0;
}

bool cert_is_for(const cert_info *info, const char *host, u32 len) {
    der names = info->alt_names, name;
    bool any = false;
    while (cert_next_dns(&names, &name)) {
        any = true;
        if (name_matches(name, host, len)) return true;
    }
    return !any && name_matches(info->common_name, host, len);
}

// --- revocation lists ---

static const u8 oid_rsa[] = {0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01}; // and 11, 12, 13
static const u8 oid_ecdsa[] = {0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03};     // and 2, 3, 4

static bool signature_algorithm(der algorithm, crl_info *out) {
    der oid;
    if (!der_take(&algorithm, DER_OID, &oid) || oid.left < 1) return false;
    u8 last = oid.at[oid.left - 1];
    der start = {oid.at, oid.left - 1};
    if (is_oid(start, oid_rsa, sizeof(oid_rsa)) && last >= 11 && last <= 13) {
        out->signature_hash = (u8)(br_sha256_ID + last - 11);
        return true;
    }
    if (is_oid(start, oid_ecdsa, sizeof(oid_ecdsa)) && last >= 2 && last <= 4) {
        out->signature_hash = (u8)(br_sha256_ID + last - 2);
        out->is_ecdsa = true;
        return true;
    }
    return false;
}

int crl_read(const u8 *crl, u32 len, crl_info *out, u32 *offset) {
    der in = {crl, len}, outer = {crl, 0}, tbs = {crl, 0}, version, algorithm, bits;
    *out = (crl_info){0};
    bool good = der_take(&in, DER_SEQUENCE, &outer) && in.left == 0;
    der copy = outer;
    good = good && take_whole(&copy, DER_SEQUENCE, &out->tbs) && der_take(&outer, DER_SEQUENCE, &tbs);
    if (good) der_take(&tbs, DER_INTEGER, &version);
    good = good && der_take(&tbs, DER_SEQUENCE, &algorithm) && take_whole(&tbs, DER_SEQUENCE, &out->issuer) &&
           take_time(&tbs, &out->this_update_s);
    if (good && tbs.left > 0 && (tbs.at[0] == DER_UTC_TIME || tbs.at[0] == DER_GENERALIZED_TIME)) {
        good = take_time(&tbs, &out->next_update_s);
    }
    if (good) der_take(&tbs, DER_SEQUENCE, &out->revoked);
    good = good && der_take(&outer, DER_SEQUENCE, &algorithm) && signature_algorithm(algorithm, out) &&
           der_take(&outer, DER_BIT_STRING, &bits) && bits.left > 1 && bits.at[0] == 0;
    if (!good) {
        *offset = (u32)((tbs.at > outer.at ? tbs.at : outer.at) - crl);
        return -EINVAL;
    }
    out->signature = (der){bits.at + 1, bits.left - 1};
    return 0;
}

bool crl_next(der *revoked, der *serial) {
    der entry;
    return der_take(revoked, DER_SEQUENCE, &entry) && der_take(&entry, DER_INTEGER, serial);
}
