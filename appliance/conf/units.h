// SPDX-License-Identifier: Apache-2.0
// units.h: sizes and times as people write them. Exact whole numbers only: k, m and g are 1024,
// 1024^2 and 1024^3; times are us, ms, s, m, h, d. What is printed reads back as the same value.
// config_parse_bytes and config_parse_duration_ms (config.h) are defined here too. No I/O, any
// thread.
#ifndef SLUICE_CONF_UNITS_H
#define SLUICE_CONF_UNITS_H

#include "base/base.h"

#define UNITS_TEXT_BYTES 32 // enough for every printed value

// A whole number without sign or unit. 0, -EINVAL, or -ERANGE beyond 64 bits.
int units_parse_count(const char *text, u64 *out);
// As config_parse_duration_ms, but in microseconds and with the unit us.
int units_parse_us(const char *text, u64 *us);

// Printed with the largest unit that keeps the value exact: "64k", "1500ms", "0". Returns out.
const char *units_print_bytes(u64 bytes, char out[UNITS_TEXT_BYTES]);
const char *units_print_ms(u64 ms, char out[UNITS_TEXT_BYTES]);
const char *units_print_us(u64 us, char out[UNITS_TEXT_BYTES]);

#endif
