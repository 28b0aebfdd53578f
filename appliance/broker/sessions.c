// SPDX-License-Identifier: Apache-2.0
// sessions.c: the names of what befalls messages of sessions.
#include "broker/sessions.h"

const char *mqtt_drop_name(u32 reason) {
    static const char *const names[] = {
#define MQTT_DROP_TEXT(symbol, name) [MQTT_DROP_##symbol] = name,
        MQTT_DROPS(MQTT_DROP_TEXT)
#undef MQTT_DROP_TEXT
    };
    return reason < MQTT_DROP_REASONS ? names[reason] : "unknown";
}
