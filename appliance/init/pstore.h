// SPDX-License-Identifier: Apache-2.0
// pstore.h: what the kernel left behind when it died (/sys/fs/pstore): collected at boot, kept, shown by the
// request "pstore", and removed from where it was: a full firmware store refuses the next record, and some
// machines do not start with one.
#ifndef SLUICE_INIT_PSTORE_H
#define SLUICE_INIT_PSTORE_H

#include <yyjson.h>

#include "base/base.h"

// Reads the records into memory (the newest LIMIT_PSTORE_BYTES in all) and says so in the log.
void pstore_collect(void);
// The data partition is decided: writes them there (crash/pstore-<boot>-<name>, the newest LIMIT_PSTORE_KEEP
// files are kept) and removes them from the store. Without a data partition they stay in memory and are
// removed all the same: the request shows them until the machine restarts.
void pstore_keep(void);
u32 pstore_count(void);
// Whether the last kernel died: one of the records is its log at a panic or oops.
bool pstore_has_panic(void);
void pstore_describe(yyjson_mut_doc *doc, yyjson_mut_val *to);

// For tests: other directories than /sys/fs/pstore and INIT_DATA_DIR. keep_dir NULL = none.
void pstore_collect_from(const char *dir);
void pstore_keep_in(const char *keep_dir, u64 boot);

#endif
