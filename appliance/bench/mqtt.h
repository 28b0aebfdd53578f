// SPDX-License-Identifier: Apache-2.0
// mqtt.h: `sluice bench mqtt SCENARIO ...`. argv[0] is "mqtt". Returns the exit status.
#ifndef SLUICE_BENCH_MQTT_H
#define SLUICE_BENCH_MQTT_H

int mq_bench_main(int argc, char **argv);

#endif
