// SPDX-License-Identifier: Apache-2.0
// mqtt_conn.h: MQTT 3.1, 3.1.1 and 5.0 as a listener speaks it.
#ifndef SLUICE_PROTO_MQTT_CONN_H
#define SLUICE_PROTO_MQTT_CONN_H

#include "net/conn.h"

extern const proto proto_mqtt;

#endif
