// SPDX-License-Identifier: Apache-2.0
// micro_route.c: what routing a message costs, without connections: publishes to one worker whose
// subscribers only count. Each line is one shape of load; ns of processor time per publish and per
// delivery, and allocations of the broker's memory that a publish leaves (0, or the program fails).
//
//   micro_route [MILLIONS]      publishes of each shape, default 1
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../unit/fake_net.h"

typedef struct sink {
    subscriber s;
    u64 received;
} sink;

static void require(bool ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "micro_route: %s\n", what);
    exit(1);
}

static u64 cpu_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (u64)ts.tv_sec * NS_PER_S + (u64)ts.tv_nsec;
}

static delivery_result sink_deliver(subscriber *s, delivery *d) {
    (void)d;
    CONTAINER_OF(s, sink, s)->received++;
    return DELIVERY_TAKEN;
}

static const subscriber_ops sink_ops = {.deliver = sink_deliver};

static void sink_subscribed(void *context, int result) {
    (void)context, (void)result;
}

static sink *sink_new(const char *share, const char *filter) {
    broker *b = net.workers[0].broker;
    sink *made = calloc(1, sizeof(*made));
    require(made != NULL, "no memory");
    made->s = (subscriber){.ops = &sink_ops, .number = broker_subscriber_number(b)};
    subscription_options o = {.qos = 1};
    int result = broker_subscribe(b, &made->s, share, share == NULL ? 0 : (u32)strlen(share), filter,
                                  (u32)strlen(filter), &o, sink_subscribed, made, NULL);
    require(result == 0, "subscribe");
    return made;
}

// Publishes `rounds` times on `topics` topics in turn.
static void measure(const char *name, u64 rounds, u32 topics, const char *form, bool retain) {
    static char text[65536][48];
    static u8 payload[64];
    broker *b = net.workers[0].broker;
    for (u32 i = 0; i < topics; i++) snprintf(text[i], sizeof(text[i]), form, i);
    const worker_metrics *m = &net.workers[0].metrics;
    u64 delivered = 0, used = 0, start = 0;
    for (u64 i = 0; i < rounds + topics; i++) {
        if (i == topics) { // after one round that warms everything
            delivered = counter_get(&m->delivered);
            used = broker_usage_get(b).memory_bytes;
            start = cpu_ns();
        }
        const char *topic = text[i % topics];
        publication p = {.topic = topic, .topic_len = (u32)strlen(topic), .payload = payload,
                         .payload_len = sizeof(payload), .retain = retain};
        require(broker_publish(b, &p, NULL) == 0, "publish");
    }
    u64 ns = cpu_ns() - start;
    delivered = counter_get(&m->delivered) - delivered;
    require(broker_usage_get(b).memory_bytes == used, "publishing left memory behind");
    printf("%-34s %8.1f ns a publish %8.1f ns a delivery\n", name, (double)ns / (double)rounds,
           delivered == 0 ? 0.0 : (double)ns / (double)delivered);
}

static void begin(void) {
    net_start(1, 1ull << 30, 1);
}

int main(int argc, char **argv) {
    u64 rounds = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1) * 1000000;
    begin();
    sink_new(NULL, "bench/#");
    measure("fan-in, 100 topics, one reader", rounds, 100, "bench/%u/sensors/temp", false);
    measure("fan-in, 50000 topics, one reader", rounds, 50000, "bench/%u/sensors/temp", false);
    measure("nobody listens", rounds, 100, "other/%u/sensors/temp", false);
    for (u32 i = 0; i < 1000; i++) sink_new(NULL, "bench/0/sensors/temp");
    measure("two filters, 1001 subscribers", rounds / 200, 1, "bench/%u/sensors/temp", false);
    net_stop();
    begin();
    for (u32 i = 0; i < 10000; i++) {
        char filter[48];
        snprintf(filter, sizeof(filter), "pair/%u/down", i);
        sink_new(NULL, filter);
    }
    measure("10000 pairs", rounds, 10000, "pair/%u/down", false);
    net_stop();
    begin();
    for (u32 i = 0; i < 500; i++) sink_new(NULL, "fan/#");
    measure("fan-out to 500", rounds / 100, 5, "fan/%u", false);
    net_stop();
    begin();
    for (u32 i = 0; i < 100; i++) sink_new("g", "share/#");
    measure("shared by 100", rounds, 100, "share/%u", false);
    net_stop();
    begin();
    measure("retained, 10000 topics", rounds, 10000, "keep/%u/x", true);
    net_stop();
    return 0;
}
