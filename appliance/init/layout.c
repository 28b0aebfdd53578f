// SPDX-License-Identifier: Apache-2.0
// layout.c: the decisions of layout.h, without a look at the machine.
#include "init/layout.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

u32 layout_channels(const layout_cpus *cpus, const layout_nic *nic) {
    if (nic->channels_max == 0) return 0;
    u32 wanted = nic->channels_wanted != 0 ? nic->channels_wanted : cpus->count;
    wanted = MIN(MIN(wanted, nic->channels_max), LAYOUT_QUEUES_MAX);
    return wanted == nic->channels ? 0 : wanted;
}

static u64 all_cpus(const layout_cpus *cpus) {
    u64 mask = 0;
    for (u32 i = 0; i < cpus->count; i++) mask |= 1ull << cpus->ids[i];
    return mask;
}

// The CPUs of queue q of `queues`, of which there are no more than CPUs: shares of consecutive CPUs.
static void share_of(const layout_cpus *cpus, u32 q, u32 queues, u32 *first, u32 *end) {
    *first = q * cpus->count / queues;
    *end = (q + 1) * cpus->count / queues;
}

static u64 share_mask(const layout_cpus *cpus, u32 q, u32 queues) {
    u32 first, end;
    u64 mask = 0;
    if (queues >= cpus->count) return 1ull << cpus->ids[q % cpus->count];
    share_of(cpus, q, queues, &first, &end);
    for (u32 i = first; i < end; i++) mask |= 1ull << cpus->ids[i];
    return mask;
}

static int share_cpu(const layout_cpus *cpus, u32 q, u32 queues) {
    u32 first, end;
    if (queues >= cpus->count) return cpus->ids[q % cpus->count];
    share_of(cpus, q, queues, &first, &end);
    return cpus->ids[first];
}

static void place_irqs(const layout_cpus *cpus, const layout_nic *nic, u32 queues, layout_plan *out) {
    for (u32 i = 0; i < nic->irq_count; i++) {
        const layout_irq *irq = &nic->irqs[i];
        out->irq_cpu[i] = irq->role == LAYOUT_OTHER ? -1 : share_cpu(cpus, irq->queue % queues, queues);
    }
}

void layout_make(const layout_cpus *cpus, const layout_nic *nic, layout_plan *out) {
    u32 rx = MIN(MAX(nic->rx_queues, 1u), LAYOUT_QUEUES_MAX);
    u32 tx = MIN(MAX(nic->tx_queues, 1u), LAYOUT_QUEUES_MAX);
    *out = (layout_plan){0};
    ASSERT(cpus->count > 0 && cpus->count <= LAYOUT_CPUS_MAX && nic->irq_count <= LAYOUT_IRQS_MAX);
    place_irqs(cpus, nic, rx, out);
    // XPS: what a worker sends leaves by its own CPU's queue, and the host's side sends the flow's
    // packets back to that queue. With one queue there is nothing to choose.
    for (u32 q = 0; q < tx && tx > 1; q++) out->xps[q] = share_mask(cpus, q, tx);
    if (cpus->count == 1) {
        out->why = "one CPU: nothing to spread";
    } else if (rx == 1) {
        out->why = "one receive queue: RPS over all CPUs, RFS follows the worker";
        out->rps[0] = all_cpus(cpus);
        out->rps_flows = LAYOUT_RFS_ENTRIES;
    } else if (rx < cpus->count) {
        out->why = "fewer queues than CPUs: RPS within each queue's share";
        for (u32 q = 0; q < rx; q++) {
            u64 mask = share_mask(cpus, q, rx);
            out->rps[q] = IS_POWER_OF_TWO(mask) ? 0 : mask;
        }
        out->rps_flows = LAYOUT_RFS_ENTRIES / rx;
    } else if (rx == cpus->count) {
        out->why = "a queue for each CPU: interrupt, transmit queue and worker together, no RPS";
    } else {
        out->why = "more queues than CPUs: round robin, no RPS";
    }
}

// The last number in a name, in front of anything that follows an '@'.
static bool last_number(const char *name, u32 *out) {
    const char *end = strchr(name, '@');
    if (end == NULL) end = name + strlen(name);
    const char *p = end;
    while (p > name && !isdigit((unsigned char)p[-1])) p--;
    const char *stop = p;
    while (p > name && isdigit((unsigned char)p[-1])) p--;
    if (p == stop || stop != end) return false; // a queue's name ends with its number
    *out = (u32)strtoul(p, NULL, 10);
    return true;
}

layout_role layout_irq_role(const char *name, u32 *queue) {
    static const struct {
        const char *part;
        layout_role role;
    } parts[] = {
        {"input.", LAYOUT_RX},   {"output.", LAYOUT_TX}, {"txrx", LAYOUT_BOTH},
        {"tx-rx", LAYOUT_BOTH},  {"rxtx", LAYOUT_BOTH},  {"ntfy-bl", LAYOUT_BOTH},
        {"rx-", LAYOUT_RX},      {"tx-", LAYOUT_TX},     {"-rx", LAYOUT_RX},
        {"-tx", LAYOUT_TX},      {"_rx", LAYOUT_RX},     {"comp", LAYOUT_BOTH},
        {"rxq", LAYOUT_RX},      {"txq", LAYOUT_TX},
    };
    *queue = 0;
    if (!last_number(name, queue)) return LAYOUT_OTHER;
    for (u32 i = 0; i < ARRAY_LEN(parts); i++) {
        if (strcasestr(name, parts[i].part) != NULL) return parts[i].role;
    }
    *queue = 0;
    return LAYOUT_OTHER;
}

bool layout_parse_cpus(const char *text, layout_cpus *out) {
    *out = (layout_cpus){0};
    for (;;) {
        char *end;
        if (!isdigit((unsigned char)*text)) return false;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-') {
            if (!isdigit((unsigned char)end[1])) return false;
            last = strtoul(end + 1, &end, 10);
        }
        if (first > last || last >= LAYOUT_CPUS_MAX) return false;
        for (; first <= last; first++) {
            if (out->count > 0 && out->ids[out->count - 1] >= first) return false;
            out->ids[out->count++] = (u8)first;
        }
        if (*end == '\0' || *end == '\n') return true;
        if (*end != ',') return false;
        text = end + 1;
    }
}

const char *layout_mask(u64 mask, char out[LAYOUT_MASK_BYTES]) {
    u32 high = (u32)(mask >> 32), low = (u32)mask;
    if (high != 0) snprintf(out, LAYOUT_MASK_BYTES, "%x,%08x", high, low);
    else snprintf(out, LAYOUT_MASK_BYTES, "%x", low);
    return out;
}
