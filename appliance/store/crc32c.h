// SPDX-License-Identifier: Apache-2.0
// crc32c.h: CRC-32C (Castagnoli; RFC 3720 section 12.1), the checksum of everything in the log. The instruction
// of the processor where there is one (SSE4.2, ARMv8 CRC), found at run time; else a table.
#ifndef SLUICE_STORE_CRC32C_H
#define SLUICE_STORE_CRC32C_H

#include "base/base.h"

// Continues a checksum: crc32c(crc32c(0, a, n), b, m) is that of a and b one after the other. Any thread.
u32 crc32c(u32 crc, const void *data, size_t bytes);
// The table's way, on every machine; for tests and for comparing.
u32 crc32c_table(u32 crc, const void *data, size_t bytes);
// "sse4.2", "armv8", "table"
const char *crc32c_variant(void);

#endif
