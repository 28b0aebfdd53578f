// SPDX-License-Identifier: Apache-2.0
// deny.h: lists of topic filters that a listener refuses, as the configuration keeps them: one
// filter a line. Pure functions, any thread; all filters and topics are valid ones.
#ifndef SLUICE_BROKER_DENY_H
#define SLUICE_BROKER_DENY_H

#include "base/base.h"

// Whether a topic name is under one of the filters.
bool deny_topic(const char *list, const char *topic, u32 len);
// Whether some topic name would match both this filter and one of the list.
bool deny_filter(const char *list, const char *filter, u32 len);

#endif
