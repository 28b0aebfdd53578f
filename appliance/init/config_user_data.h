// SPDX-License-Identifier: Apache-2.0
// config_user_data.h: what a cloud or a NoCloud volume hands over as user data, which may be meant for
// somebody else. Accepted is a configuration as in a file, with or without the first line `#sluice-config`.
// Pure.
#ifndef SLUICE_INIT_CONFIG_USER_DATA_H
#define SLUICE_INIT_CONFIG_USER_DATA_H

#include "base/base.h"

// Returns 0 and where the configuration lies in data (the first line stays: it is a comment, and the line
// numbers with it), or -EINVAL with what it is instead in *why (static). Nothing but blanks is -ENODATA.
int config_user_data(const char *data, size_t len, const char **text, size_t *text_len, const char **why);

#endif
