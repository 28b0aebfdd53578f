// SPDX-License-Identifier: Apache-2.0
// units.c: parses and prints sizes and times. A number is decimal digits and nothing else before
// the unit: no sign, fraction, exponent or base, so that what is written is what is meant. A time
// needs its unit; only 0 stands without one.
#include "conf/units.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conf/config.h"

typedef struct unit {
    const char *name;
    u64 factor;
} unit;

// Largest first, as printing wants them.
static const unit byte_units[] = {{"g", 1ull << 30}, {"m", 1ull << 20}, {"k", 1ull << 10}};
static const unit time_units_us[] = {
    {"d", 86400000000ull}, {"h", 3600000000ull}, {"m", 60000000ull},
    {"s", 1000000ull},     {"ms", 1000ull},      {"us", 1ull},
};
// The same without microseconds, in milliseconds.
static const unit time_units_ms[] = {
    {"d", 86400000ull}, {"h", 3600000ull}, {"m", 60000ull}, {"s", 1000ull}, {"ms", 1ull},
};

// Reads the digits at the start; *rest is what follows them.
static int parse_digits(const char *text, u64 *out, const char **rest) {
    u64 value = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(value, 10u, &value)) return -ERANGE;
        if (__builtin_add_overflow(value, (u64)(*p - '0'), &value)) return -ERANGE;
    }
    if (p == text) return -EINVAL;
    *out = value;
    *rest = p;
    return 0;
}

static int parse_with_units(const char *text, const unit *units, size_t count, bool bare_allowed,
                            u64 *out) {
    const char *suffix;
    u64 value;
    int rc = parse_digits(text, &value, &suffix);
    if (rc != 0) return rc;
    if (*suffix == '\0') {
        if (!bare_allowed && value != 0) return -EINVAL;
        *out = value;
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(suffix, units[i].name) != 0) continue;
        if (__builtin_mul_overflow(value, units[i].factor, &value)) return -ERANGE;
        *out = value;
        return 0;
    }
    return -EINVAL;
}

static const char *print_with_units(u64 value, const unit *units, size_t count,
                                    char out[UNITS_TEXT_BYTES]) {
    for (size_t i = 0; i < count && value != 0; i++) {
        if (value % units[i].factor != 0) continue;
        snprintf(out, UNITS_TEXT_BYTES, "%llu%s", (unsigned long long)(value / units[i].factor),
                 units[i].name);
        return out;
    }
    snprintf(out, UNITS_TEXT_BYTES, "%llu", (unsigned long long)value);
    return out;
}

int units_parse_count(const char *text, u64 *out) {
    const char *rest;
    u64 value;
    int rc = parse_digits(text, &value, &rest);
    if (rc != 0) return rc;
    if (*rest != '\0') return -EINVAL;
    *out = value;
    return 0;
}

int config_parse_bytes(const char *text, u64 *bytes) {
    return parse_with_units(text, byte_units, ARRAY_LEN(byte_units), true, bytes);
}

int config_parse_duration_ms(const char *text, u64 *ms) {
    return parse_with_units(text, time_units_ms, ARRAY_LEN(time_units_ms), false, ms);
}

int units_parse_us(const char *text, u64 *us) {
    return parse_with_units(text, time_units_us, ARRAY_LEN(time_units_us), false, us);
}

const char *units_print_bytes(u64 bytes, char out[UNITS_TEXT_BYTES]) {
    return print_with_units(bytes, byte_units, ARRAY_LEN(byte_units), out);
}

const char *units_print_ms(u64 ms, char out[UNITS_TEXT_BYTES]) {
    return print_with_units(ms, time_units_ms, ARRAY_LEN(time_units_ms), out);
}

const char *units_print_us(u64 us, char out[UNITS_TEXT_BYTES]) {
    return print_with_units(us, time_units_us, ARRAY_LEN(time_units_us), out);
}
