// SPDX-License-Identifier: Apache-2.0
// mqtt_find.h: the highest rate of publications that a broker carries.
#ifndef SLUICE_BENCH_MQTT_FIND_H
#define SLUICE_BENCH_MQTT_FIND_H

#include "bench/mqtt_run.h"

// Searches from o->rate for the highest rate with p99 under the limit, nothing lost and no error.
// *best is the run at it (failed when none held), *limited_by why the next step did not hold. 0, or
// -EINTR when stopped.
int mq_find_max(const mq_options *o, mq_result *best, double *best_rate, const char **limited_by);

#endif
