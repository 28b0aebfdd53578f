// SPDX-License-Identifier: Apache-2.0
// conn_id.h: a connection's id as text: hexadecimal, as in the log's lines ("conn 2a: ..."). conn.id is
// worker << 48 | number; as a JSON number it would lose bits in readers that use doubles.
#ifndef SLUICE_OPS_CONN_ID_H
#define SLUICE_OPS_CONN_ID_H

#include "base/base.h"

#define CONN_ID_TEXT 24

// Returns out.
const char *conn_id_print(u64 id, char out[CONN_ID_TEXT]);
// Reads 1 to 16 hexadecimal digits, with or without 0x. False for anything else.
bool conn_id_parse(const char *text, u64 *id);

#endif
