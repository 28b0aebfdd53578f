// SPDX-License-Identifier: Apache-2.0
// format.h: a received message as text: payload, topic and payload, JSON, or a format string.
#ifndef SLUICE_CLIENT_FORMAT_H
#define SLUICE_CLIENT_FORMAT_H

#include <stdio.h>

#include "client/options.h"

// NULL when the format can be used, else what is wrong with it.
const char *client_format_check(const char *format);
// Prints one message as the options ask. wall_ns: when it came, since 1970.
void client_message_print(FILE *f, const client_options *o, const mqtt_publish *m, u64 wall_ns);
// A whole JSON string with its quotes; bytes that are no UTF-8 are the caller's to avoid.
void client_json_text(FILE *f, const u8 *text, u32 len);

#endif
