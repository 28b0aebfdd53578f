// SPDX-License-Identifier: Apache-2.0
// stream_messages.h: the answer of /api/streams/NAME/messages.
#ifndef SLUICE_OPS_STREAM_MESSAGES_H
#define SLUICE_OPS_STREAM_MESSAGES_H

#include "ops/http.h"
#include "ops/stream_query.h"

void stream_messages_answer(http_exchange *x, const char *name);

#endif
