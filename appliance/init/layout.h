// SPDX-License-Identifier: Apache-2.0
// layout.h: which CPU does what: interrupts of network queues, receive and transmit steering, workers. One
// plan for all of it, from a description of the machine, by one recipe (docs/network.md):
//   as many queues as CPUs   interrupt i, transmit queue i and worker i on CPU i, no RPS
//   fewer queues than CPUs   each queue's interrupt on the first CPU of its share, RPS over the share
//   one queue                interrupt on the first CPU, RPS over all CPUs, RFS follows the worker
//   more queues than CPUs    round robin
// Nothing else on the appliance moves interrupts. Applied at start, when an interface comes up, and when
// asked; writing the same again changes nothing.
#ifndef SLUICE_INIT_LAYOUT_H
#define SLUICE_INIT_LAYOUT_H

#include <yyjson.h>

#include "base/base.h"
#include "limits.h"

#define LAYOUT_CPUS_MAX 64u   // a mask is one u64
#define LAYOUT_QUEUES_MAX 64u
#define LAYOUT_IRQS_MAX 130u  // receive and transmit apart, and one or two of the device's own
#define LAYOUT_RFS_ENTRIES 32768u

typedef enum layout_role { LAYOUT_OTHER, LAYOUT_RX, LAYOUT_TX, LAYOUT_BOTH } layout_role;

typedef struct layout_irq {
    u32 irq, queue;
    layout_role role;
    char name[48];
} layout_irq;

typedef struct layout_nic {
    char name[16], driver[32];
    u32 rx_queues, tx_queues;
    u32 channels, channels_max; // by ethtool; max 0 = can not be changed
    u32 channels_wanted;        // of the configuration; 0 = auto
    u32 irq_count;
    layout_irq irqs[LAYOUT_IRQS_MAX];
} layout_nic;

typedef struct layout_cpus {
    u32 count;
    u8 ids[LAYOUT_CPUS_MAX]; // online, ascending
} layout_cpus;

typedef struct layout_plan {
    u32 channels; // to set; 0 = leave
    u32 rps_flows; // of each receive queue; 0 = RFS off
    const char *why;
    int irq_cpu[LAYOUT_IRQS_MAX]; // -1 = leave
    u64 rps[LAYOUT_QUEUES_MAX];   // mask of each receive queue
    u64 xps[LAYOUT_QUEUES_MAX];   // mask of each transmit queue; 0 = leave
} layout_plan;

// Pure. How many queues the interface should have; 0 = leave what it has.
u32 layout_channels(const layout_cpus *cpus, const layout_nic *nic);
// Pure. For the queues that the interface has.
void layout_make(const layout_cpus *cpus, const layout_nic *nic, layout_plan *out);
// Pure. "virtio2-input.0" -> RX 0, "eth0-TxRx-3" -> BOTH 3, "ena-mgmnt@pci..." -> OTHER.
layout_role layout_irq_role(const char *name, u32 *queue);
// Pure. "0-3,8" -> ids; false when it is not such a list or goes beyond LAYOUT_CPUS_MAX.
bool layout_parse_cpus(const char *text, layout_cpus *out);
// "3", "ffffffff,00000001" as the kernel's files want it. Returns out.
#define LAYOUT_MASK_BYTES 24u
const char *layout_mask(u64 mask, char out[LAYOUT_MASK_BYTES]);

// Reads the machine, applies, logs the table when it changed. On init's loop.
void layout_run(void);
// The last one, as JSON: what should be and what the kernel took.
yyjson_mut_val *layout_json(yyjson_mut_doc *doc);

#endif
