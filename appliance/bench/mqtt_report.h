// SPDX-License-Identifier: Apache-2.0
// mqtt_report.h: the result of an MQTT run, for people (mqtt_report.c) and as JSON
// (mqtt_report_json.c).
#ifndef SLUICE_BENCH_MQTT_REPORT_H
#define SLUICE_BENCH_MQTT_REPORT_H

#include <stdio.h>

#include "bench/mqtt_run.h"

void mq_report_table(FILE *f, const mq_options *o, const mq_result *r);
void mq_report_json(FILE *f, const mq_options *o, const mq_result *r);
// Broker's CPU, microseconds for each delivery (or connection of a storm); 0 when not known.
double mq_report_cpu_us(const mq_options *o, const mq_result *r);

#endif
