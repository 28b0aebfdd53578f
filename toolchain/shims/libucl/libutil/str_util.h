// SPDX-License-Identifier: Apache-2.0
//
// The second helper libucl's copy in rspamd expects: comparison of two keys of equal length without
// regard to ASCII case, 0 when equal.

#ifndef SLUICE_SHIM_STR_UTIL_H
#define SLUICE_SHIM_STR_UTIL_H

#include <stddef.h>
#include <strings.h>

static inline int rspamd_lc_cmp(const char *a, const char *b, size_t len)
{
    return strncasecmp(a, b, len);
}

#endif
