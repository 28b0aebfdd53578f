// SPDX-License-Identifier: Apache-2.0
// config_good.h: the last configuration that the gateway ran with, kept over restarts. Rule of the place: up
// to CONFIG_GOOD_STATE_BYTES it is in the state record (in pieces of one value each), and so is there
// before any disk is mounted; a longer one is the file CONFIG_GOOD_FILE on the data partition. Never both.
#ifndef SLUICE_INIT_CONFIG_GOOD_H
#define SLUICE_INIT_CONFIG_GOOD_H

#include "base/base.h"

// Keeps it; equal to what is kept costs no write. dir: the data partition's, NULL = none there.
// 0, -ENOSPC (the record is full), -ENOENT (too long for the record, and no data partition), or -errno.
int config_good_keep(const char *text, size_t len, const char *dir);
// malloc'd and terminated, the caller's; NULL when there is none, or it is damaged (length and checksum do
// not fit).
char *config_good_load(const char *dir, size_t *len);

#endif
