// SPDX-License-Identifier: Apache-2.0
// put.h: writing the integers of records, big-endian as base/cursor.h reads them. Each returns the place behind.
#ifndef SLUICE_STORE_PUT_H
#define SLUICE_STORE_PUT_H

#include "base/base.h"

static inline u8 *put_u8(u8 *to, u8 value) {
    *to = value;
    return to + 1;
}
static inline u8 *put_u16(u8 *to, u16 value) {
    to[0] = (u8)(value >> 8);
    to[1] = (u8)value;
    return to + 2;
}
static inline u8 *put_u32(u8 *to, u32 value) {
    return put_u16(put_u16(to, (u16)(value >> 16)), (u16)value);
}
static inline u8 *put_u64(u8 *to, u64 value) {
    return put_u32(put_u32(to, (u32)(value >> 32)), (u32)value);
}

#endif
