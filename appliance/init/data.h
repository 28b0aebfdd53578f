// SPDX-License-Identifier: Apache-2.0
// data.h: the data partition: grown at the first boot, checked, mounted on INIT_DATA_DIR; and what is done when
// it is damaged: repaired, else made anew, empty, and said so; else the gateway runs without one (QoS 0). A check that
// was killed or a mount that fails for another reason than damage leaves it as it is.
// `sluice.data=none` on the kernel's command line does without, `sluice.data=NAME` takes another partition.
#ifndef SLUICE_INIT_DATA_H
#define SLUICE_INIT_DATA_H

#include <yyjson.h>

#include "base/base.h"

typedef enum data_outcome {
    DATA_UNDECIDED,
    DATA_NONE,       // there is no such partition, or none is wanted
    DATA_MOUNTED,
    DATA_REPAIRED,   // mounted after a repair
    DATA_NEW,        // mounted; it was beyond repair (or had no file system) and starts empty
    DATA_FAILED,     // there is a partition, but it could not be used
    DATA_OUTCOMES
} data_outcome;

// Does all of it in a helper process and calls on_decided once; at once when there is nothing to do.
void data_start(void (*on_decided)(void));
data_outcome data_outcome_get(void);
void data_describe(yyjson_mut_doc *doc, yyjson_mut_val *to);

#endif
