// SPDX-License-Identifier: Apache-2.0
// suggest.h: "did you mean": the known name that is most like a mistyped word. Pure; any thread.
#ifndef SLUICE_CONF_SUGGEST_H
#define SLUICE_CONF_SUGGEST_H

#include "base/base.h"

// Offers one known name after the other; *found becomes the nearest so far. Start with *best =
// UINT32_MAX and *found = NULL, which it stays when no name is near. Words beyond 40 bytes are near
// to nothing.
void suggest_offer(const char *word, size_t word_len, const char *name, u32 *best,
                   const char **found);

#endif
