// SPDX-License-Identifier: Apache-2.0
// crc.c: bit by bit: a few kilobytes are summed per boot, a table would be larger than the code.
#include "init/crc.h"

#define CASTAGNOLI 0x82f63b78u
#define IEEE 0xedb88320u

static u32 crc_reflected(u32 polynomial, const u8 *data, size_t len) {
    u32 crc = 0xffffffffu;
    for (size_t i = 0; i < len; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (polynomial & (0u - (crc & 1u)));
    }
    return ~crc;
}

u32 init_crc32c(const void *data, size_t len) {
    return crc_reflected(CASTAGNOLI, data, len);
}

u32 init_crc32(const void *data, size_t len) {
    return crc_reflected(IEEE, data, len);
}
