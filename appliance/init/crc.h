// SPDX-License-Identifier: Apache-2.0
// crc.h: the two 32-bit checksums of what init keeps on disk: Castagnoli's for the state record, IEEE
// 802.3's for GPT headers and tables (UEFI specification, section 5.3.2). Both reflected, preset and
// inverted in the usual way: crc of "123456789" is e3069283 and cbf43926.
#ifndef SLUICE_INIT_CRC_H
#define SLUICE_INIT_CRC_H

#include "base/base.h"

u32 init_crc32c(const void *data, size_t len);
u32 init_crc32(const void *data, size_t len);

#endif
