// SPDX-License-Identifier: Apache-2.0
// mqtt_options.h: the command line of `sluice bench mqtt`, parsed and checked. One table in
// mqtt_options.c gives every option its argument, bounds, the scenarios that know it, and its text.
#ifndef SLUICE_BENCH_MQTT_OPTIONS_H
#define SLUICE_BENCH_MQTT_OPTIONS_H

#include "bench/mqtt_limits.h"

typedef enum mq_kind {
    MQ_IDLE,
    MQ_STORM,
    MQ_FAN_IN,
    MQ_FAN_OUT,
    MQ_PAIRS,
    MQ_SHARED,
    MQ_RETAINED,
    MQ_INGEST,
    MQ_KINDS
} mq_kind;

typedef struct mq_options {
    mq_kind kind;
    const char *to;
    u32 version; // 0: 3.1.1, 1: 5.0
    u32 qos, sub_qos;
    u32 pubs, subs, groups;
    u32 stalled; // subscribers beside the load that stop reading
    u32 conns;   // idle and storm; storm 0: as many as the duration allows
    u32 filters; // idle: subscriptions of each connection
    u32 at_once; // storm
    bool hold;   // storm: connections stay until all are served
    u32 messages; // retained
    bool keep;    // retained: messages are left in the broker
    // messages/s of all publishers; connections/s of a storm. 0: a storm without pause, ingest as acknowledged
    double rate;
    u32 burst, size, inflight, arrival, engine, wait;
    u64 duration_ns, warmup_ns, drain_ns, timeout_ns, p99_limit_ns, lag_limit_ns;
    u64 keepalive_ns;
    double connect_rate;
    u32 src_addrs;
    u64 seed;
    i32 pin_cpu;
    u32 pids[BENCH_PIDS_MAX];
    u32 pid_count;
    bool pid_none, find_max, json, verbose;
    const char *prefix, *id_prefix, *user, *password, *out;
    const char *tls_ca, *tls_cert, *tls_key; // PEM files; no tls_ca: without TLS
    bool tls_resume;
} mq_options;

const char *mq_kind_name(mq_kind kind);
void mq_options_default(mq_options *o, mq_kind kind);
// Parses argv[1..] of `bench mqtt KIND`. 0; 1 when help was printed; -EINVAL after a message.
int mq_options_parse(mq_options *o, int argc, char **argv);

#endif
