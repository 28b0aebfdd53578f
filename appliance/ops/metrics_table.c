// SPDX-License-Identifier: Apache-2.0
// metrics_table.c: every metric, in the order of a byte's path; docs/metrics.md describes them, a test holds both lists
// together. The values are single-writer counters that any thread may read; nothing here touches a worker otherwise.
#include <stdio.h>

#include "base/log.h"
#include "net/address_rate.h"
#include "net/address_share.h"
#include "broker/broker.h"
#include "net/listener.h"
#include "ops/metrics.h"
#include "ops/metrics_streams.h"
#include "ops/metrics_tls.h"
#include "ops/metrics_uplink.h"
#include "ops/process.h"
#include "ops/request.h"
#include "proto/mqtt.h"
#include "version.h"

// --- process ---

static void emit_build(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)gw, (void)w;
    metric_sample(out, f, NULL, "version=\"" SLUICE_VERSION "\",commit=\"" SLUICE_COMMIT "\"", 1);
}

static void emit_engine(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)w;
    text labels = text_make(4096);
    metric_label(&labels, "engine", io_kind_name(gw->engine));
    text_puts(&labels, ",");
    metric_label(&labels, "why", gw->engine_why);
    if (labels.failed) out->failed = true;
    else metric_sample(out, f, NULL, labels.data, 1);
    text_free(&labels);
}

static void emit_start(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)w;
    metric_sample_ns(out, f, NULL, "", gw->started_real_ns);
}

static void emit_ready(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)w;
    bool ready = __atomic_load_n(&gw->ready, __ATOMIC_ACQUIRE) != 0;
    metric_sample(out, f, NULL, "", ready && __atomic_load_n(&gw->draining, __ATOMIC_ACQUIRE) == 0);
}

static void emit_reloads(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)w;
    metric_sample(out, f, NULL, "result=\"applied\"", __atomic_load_n(&gw->reloads_applied, __ATOMIC_ACQUIRE));
    metric_sample(out, f, NULL, "result=\"refused\"", __atomic_load_n(&gw->reloads_refused, __ATOMIC_ACQUIRE));
}

static void emit_workers(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)w;
    metric_sample(out, f, NULL, "", gw->worker_count);
}

// One family for each number: the kernel is asked again for each, which costs a scrape some microseconds.
#define EMIT_PROCESS(name, field, sample) \
    static void emit_process_##name(text *out, const metric_family *f, const gateway *gw, const worker *w) { \
        (void)gw, (void)w; \
        sample(out, f, NULL, "", process_usage_get().field); \
    }
EMIT_PROCESS(resident, resident_bytes, metric_sample)
EMIT_PROCESS(virtual, virtual_bytes, metric_sample)
EMIT_PROCESS(fds, fds_open, metric_sample)
EMIT_PROCESS(fds_max, fds_max, metric_sample)

static void emit_process_cpu(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)gw, (void)w;
    process_usage u = process_usage_get();
    metric_sample_ns(out, f, NULL, "mode=\"user\"", u.user_ns);
    metric_sample_ns(out, f, NULL, "mode=\"system\"", u.system_ns);
}

#define EMIT_LOG(name, field) \
    static void emit_log_##name(text *out, const metric_family *f, const gateway *gw, const worker *w) { \
        (void)gw, (void)w; \
        metric_sample(out, f, NULL, "", log_stats_get().field); \
    }
EMIT_LOG(lines, lines)
EMIT_LOG(dropped, dropped)
EMIT_LOG(sink_errors, sink_errors)
EMIT_LOG(ring, ring_bytes)
EMIT_LOG(ring_used_max, ring_used_max)

static void emit_address_overflows(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)gw, (void)w;
    metric_sample(out, f, NULL, "", address_limit_overflows());
}

static void emit_listener_conns(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)w;
    u32 count = __atomic_load_n(&gw->listener_count, __ATOMIC_ACQUIRE);
    for (u32 i = 0; i < count; i++) {
        const listener_shared *l = __atomic_load_n(&gw->listeners[i], __ATOMIC_ACQUIRE);
        text labels = text_make(256);
        metric_label(&labels, "listener", l->name);
        if (labels.failed) out->failed = true;
        else metric_sample(out, f, NULL, labels.data, __atomic_load_n(&l->conns, __ATOMIC_RELAXED));
        text_free(&labels);
    }
}

// The operations worker's own connections.
static void emit_admin_open(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)w;
    metric_sample(out, f, NULL, "", counter_get(&gw->workers[gw->worker_count].metrics.conns_open));
}

static void emit_admin_opened(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)w;
    metric_sample(out, f, NULL, "", counter_get(&gw->workers[gw->worker_count].metrics.conns_opened));
}

static void emit_admin_requests(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)gw, (void)w;
    metric_sample(out, f, NULL, "", ops_requests_outstanding());
}

// --- worker ---

static void emit_closes(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)gw;
    for (u32 i = 0; i < CLOSE_REASONS; i++) {
        char labels[64];
        snprintf(labels, sizeof(labels), "reason=\"%s\"", close_reason_name(i));
        metric_sample(out, f, w, labels, counter_get(&w->metrics.closes[i]));
    }
}

static void emit_heartbeat_age(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)gw;
    u64 now = clock_mono_ns(), last = counter_get(&w->metrics.heartbeat_ns);
    metric_sample_ns(out, f, w, "", last != 0 && now > last ? now - last : 0);
}

static void emit_recorder(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)gw;
    metric_sample(out, f, w, "", __atomic_load_n(&w->rec.written, __ATOMIC_RELAXED));
}

enum { SLABS = 5 };
static slab_usage slab_of(const worker *w, u32 i) {
    return slab_usage_get(i == 0 ? w->conn_slab : w->segment_slabs[i - 1]);
}
_Static_assert(ARRAY_LEN(((worker *)NULL)->segment_slabs) == SLABS - 1, "slab_of knows all slabs");

#define EMIT_SLABS(metric, value) \
    static void emit_slab_##metric(text *out, const metric_family *f, const gateway *gw, const worker *w) { \
        (void)gw; \
        for (u32 i = 0; i < SLABS; i++) { \
            char labels[64]; \
            slab_usage u = slab_of(w, i); \
            snprintf(labels, sizeof(labels), "slab=\"%s\"", u.name); \
            metric_sample(out, f, w, labels, value); \
        } \
    }
EMIT_SLABS(used, u.used * u.object_bytes)
EMIT_SLABS(mapped, u.mapped_bytes)
EMIT_SLABS(budget, u.budget_bytes)
EMIT_SLABS(refused, u.refused)

#define EMIT_BROKER(name, field) \
    static void emit_broker_##name(text *out, const metric_family *f, const gateway *gw, const worker *w) { \
        (void)gw; \
        metric_sample(out, f, w, "", broker_usage_get(w->broker).field); \
    }
EMIT_BROKER(subscriptions, subscriptions)
EMIT_BROKER(remote, remote_filters)
EMIT_BROKER(memory, memory_bytes)
EMIT_BROKER(memory_max, memory_budget_bytes)
EMIT_BROKER(transit, in_transit)
EMIT_BROKER(messages, messages)
EMIT_BROKER(message_bytes, message_bytes)
EMIT_BROKER(shared, shared)
EMIT_BROKER(shared_waiting, shared_waiting)
EMIT_BROKER(shared_handed_on, shared_handed_on)
EMIT_BROKER(shared_dropped, shared_dropped)
EMIT_BROKER(retained, retained)
EMIT_BROKER(retained_bytes, retained_bytes)
EMIT_BROKER(retained_refused, retained_refused)
EMIT_BROKER(sessions_full, sessions_full)

#define EMIT_MQTT_PACKETS(direction) \
    static void emit_mqtt_##direction(text *out, const metric_family *f, const gateway *gw, const worker *w) { \
        (void)gw; \
        for (u32 i = MQTT_CONNECT; i <= MQTT_AUTH; i++) { \
            char labels[64]; \
            snprintf(labels, sizeof(labels), "type=\"%s\"", mqtt_type_name(i)); \
            metric_sample(out, f, w, labels, counter_get(&w->metrics.mqtt_##direction[i])); \
        } \
    }
EMIT_MQTT_PACKETS(packets_in)
EMIT_MQTT_PACKETS(packets_out)

#define EMIT_MQTT_QOS(direction) \
    static void emit_mqtt_##direction(text *out, const metric_family *f, const gateway *gw, const worker *w) { \
        (void)gw; \
        for (u32 i = 0; i < 3; i++) { \
            char labels[64]; \
            snprintf(labels, sizeof(labels), "qos=\"%u\"", i); \
            metric_sample(out, f, w, labels, counter_get(&w->metrics.mqtt_##direction[i])); \
        } \
    }
EMIT_MQTT_QOS(publish_in)
EMIT_MQTT_QOS(publish_out)

static void emit_auth(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)gw;
    for (u32 i = 0; i < AUTH_RESULTS; i++) {
        char labels[64];
        snprintf(labels, sizeof(labels), "result=\"%s\"", auth_result_name(i));
        metric_sample(out, f, w, labels, counter_get(&w->metrics.auth_results[i]));
    }
}

static void emit_denied(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)gw;
    metric_sample(out, f, w, "access=\"publish\"", counter_get(&w->metrics.publish_denied));
    metric_sample(out, f, w, "access=\"subscribe\"", counter_get(&w->metrics.subscribe_denied));
    metric_sample(out, f, w, "access=\"read\"", counter_get(&w->metrics.read_denied));
}

static void emit_admin_refused(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    static const char *const why[ADMIN_REFUSALS] = {
#define ADMIN_REFUSAL_LABEL(symbol, text) [ADMIN_REFUSED_##symbol] = "reason=\"" text "\"",
        ADMIN_REFUSALS_LIST(ADMIN_REFUSAL_LABEL)
#undef ADMIN_REFUSAL_LABEL
    };
    (void)w;
    const worker *ops = &gw->workers[gw->worker_count];
    for (u32 i = 0; i < ADMIN_REFUSALS; i++) {
        metric_sample(out, f, NULL, why[i], counter_get(&ops->metrics.admin_refused[i]));
    }
}

static void emit_rate_pauses(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)gw;
    for (u32 i = 0; i < RATE_SCOPES; i++) {
        char labels[32];
        snprintf(labels, sizeof(labels), "limit=\"%s\"", rate_scope_name(i));
        metric_sample(out, f, w, labels, counter_get(&w->metrics.rate_pauses[i]));
    }
}

static void emit_rate_overflows(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)gw, (void)w;
    metric_sample(out, f, NULL, "", address_rate_overflows() + address_share_overflows());
}

static void emit_mqtt_drops(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)gw;
    for (u32 i = 0; i < MQTT_DROP_REASONS; i++) {
        char labels[64];
        snprintf(labels, sizeof(labels), "reason=\"%s\"", mqtt_drop_name(i));
        metric_sample(out, f, w, labels, counter_get(&w->metrics.mqtt_drops[i]));
    }
}

// One sample for each state, 1 for the present one: an alert needs to know no number.
static void emit_store_state(text *out, const metric_family *f, const gateway *gw, const worker *w) {
    (void)gw;
    if (w->store == NULL) return;
    u64 now = counter_get(&store_metrics_get(w->store)->state);
    for (u32 i = 0; i < STORE_STATES; i++) {
        char labels[32];
        snprintf(labels, sizeof(labels), "state=\"%s\"", store_state_name((store_state)i));
        metric_sample(out, f, w, labels, i == now);
    }
}

#define PROCESS(name, type, emit, help) \
    {name, help, type, SCOPE_PROCESS, SOURCE_EMIT, 0, UNIT_ONE, emit}
#define EMIT(name, type, scope, emit, help) {name, help, type, scope, SOURCE_EMIT, 0, UNIT_ONE, emit}
#define DEVICE(name, type, field, help) \
    {name, help, type, SCOPE_DEVICE, SOURCE_WORKER, offsetof(worker_metrics, field), UNIT_ONE, NULL}
#define DEVICE_NS(name, type, field, help) \
    {name, help, type, SCOPE_DEVICE, SOURCE_WORKER, offsetof(worker_metrics, field), UNIT_NS, NULL}
#define WORKER(name, type, field, unit, help) \
    {name, help, type, SCOPE_ALL, SOURCE_WORKER, offsetof(worker_metrics, field), unit, NULL}
#define IO(name, type, field, help) \
    {name, help, type, SCOPE_ALL, SOURCE_IO, offsetof(io_stats, field), UNIT_ONE, NULL}

#define STORE(name, type, field, unit, help) \
    {name, help, type, SCOPE_DEVICE, SOURCE_STORE, offsetof(store_metrics, field), unit, NULL}

const metric_family metric_families[] = {
    PROCESS("sluice_build_info", METRIC_GAUGE, emit_build, "Version of the program; the value is always 1."),
    PROCESS("sluice_engine_info", METRIC_GAUGE, emit_engine,
            "I/O engine of the device workers and why it was chosen; the value is always 1."),
    PROCESS("sluice_start_time_seconds", METRIC_GAUGE, emit_start, "Start of the gateway since the Unix epoch."),
    PROCESS("sluice_ready", METRIC_GAUGE, emit_ready, "1 when listeners are open and not draining."),
    PROCESS("sluice_reloads_total", METRIC_COUNTER, emit_reloads, "Reloads of the configuration."),
    PROCESS("sluice_workers", METRIC_GAUGE, emit_workers, "Device workers."),
    PROCESS("sluice_process_resident_memory_bytes", METRIC_GAUGE, emit_process_resident,
            "Resident memory of the process."),
    PROCESS("sluice_process_virtual_memory_bytes", METRIC_GAUGE, emit_process_virtual,
            "Virtual memory of the process."),
    PROCESS("sluice_process_open_fds", METRIC_GAUGE, emit_process_fds, "Open descriptors."),
    PROCESS("sluice_process_max_fds", METRIC_GAUGE, emit_process_fds_max, "Soft limit of open descriptors."),
    PROCESS("sluice_process_cpu_seconds_total", METRIC_COUNTER, emit_process_cpu, "Processor time of all threads."),

    DEVICE("sluice_conns_open", METRIC_GAUGE, conns_open, "Open device connections."),
    PROCESS("sluice_listener_conns_open", METRIC_GAUGE, emit_listener_conns, "Open connections by listener."),
    DEVICE("sluice_conns_opened_total", METRIC_COUNTER, conns_opened, "Device connections opened."),
    DEVICE("sluice_conns_refused_total", METRIC_COUNTER, refused, "Device connections refused by a limit."),
    WORKER("sluice_accept_errors_total", METRIC_COUNTER, accept_errors, UNIT_ONE,
           "Accepts that failed (descriptors or memory used up)."),
    EMIT("sluice_closes_total", METRIC_COUNTER, SCOPE_DEVICE, emit_closes, "Device connections ended, by reason."),
    DEVICE("sluice_conns_moved_out_total", METRIC_COUNTER, moved_out,
           "Connections handed over to the worker that owns their client id."),
    DEVICE("sluice_conns_moved_in_total", METRIC_COUNTER, moved_in, "Connections taken over from another worker."),
    PROCESS("sluice_address_limit_overflows_total", METRIC_COUNTER, emit_address_overflows,
            "Connections let in without counting because the table of addresses was full."),

    EMIT("sluice_tls_handshakes_total", METRIC_COUNTER, SCOPE_DEVICE, metrics_tls_handshakes,
         "TLS handshakes done: full, or an earlier session resumed."),
    EMIT("sluice_tls_handshake_failures_total", METRIC_COUNTER, SCOPE_DEVICE, metrics_tls_failures,
         "TLS handshakes that failed, by reason."),
    DEVICE("sluice_tls_handshaking", METRIC_GAUGE, tls_handshaking, "TLS handshakes under way."),
    DEVICE("sluice_tls_waiting", METRIC_GAUGE, tls_waiting,
           "Connections that wait because too many handshakes are under way, of all or of their address."),
    EMIT("sluice_tls_kernel_total", METRIC_COUNTER, SCOPE_DEVICE, metrics_tls_kernel,
         "TLS connections whose records were handed to the kernel, by direction."),
    DEVICE("sluice_tls_kernel_refused_total", METRIC_COUNTER, tls_kernel_refused,
           "TLS connections whose keys the kernel did not take; their records are done in user space."),
    PROCESS("sluice_tls_certificate_end_seconds", METRIC_GAUGE, metrics_tls_ends,
            "End of the validity of a listener's certificate, in seconds since the Unix epoch."),

    DEVICE("sluice_received_bytes_total", METRIC_COUNTER, bytes_in, "Bytes received from devices."),
    DEVICE("sluice_sent_bytes_total", METRIC_COUNTER, bytes_out, "Bytes sent to devices."),
    DEVICE("sluice_frames_received_total", METRIC_COUNTER, packets_in, "Frames received from devices."),
    DEVICE("sluice_frames_sent_total", METRIC_COUNTER, packets_out, "Frames sent to devices."),
    DEVICE("sluice_heartbeats_total", METRIC_COUNTER, heartbeats, "Heartbeats answered."),
    DEVICE("sluice_copied_in_bytes_total", METRIC_COUNTER, copied_in_bytes,
           "Received bytes that were copied because a frame did not lie whole in its buffer."),
    DEVICE("sluice_copied_out_bytes_total", METRIC_COUNTER, copied_out_bytes, "Bytes copied into output segments."),
    DEVICE("sluice_recv_pauses_total", METRIC_COUNTER, recv_pauses,
           "Times that reading of a connection was paused by back-pressure."),
    DEVICE_NS("sluice_reply_seconds", METRIC_HISTOGRAM, reply,
           "From the arrival of bytes to the answer being queued for sending."),

    DEVICE("sluice_published_total", METRIC_COUNTER, published, "Messages published by devices."),
    DEVICE("sluice_delivered_total", METRIC_COUNTER, delivered, "Messages delivered to devices."),
    DEVICE("sluice_delivery_dropped_total", METRIC_COUNTER, delivery_dropped,
           "Messages not delivered because the output budget of a device was exceeded."),
    EMIT("sluice_broker_subscriptions", METRIC_GAUGE, SCOPE_DEVICE, emit_broker_subscriptions,
         "Subscriptions of this worker's devices."),
    EMIT("sluice_broker_remote_filters", METRIC_GAUGE, SCOPE_DEVICE, emit_broker_remote,
         "Topic filters of other workers that this worker knows."),
    EMIT("sluice_broker_memory_bytes", METRIC_GAUGE, SCOPE_DEVICE, emit_broker_memory,
         "Memory of subscriptions and of messages in transit."),
    EMIT("sluice_broker_memory_budget_bytes", METRIC_GAUGE, SCOPE_DEVICE, emit_broker_memory_max,
         "Budget of that memory."),
    EMIT("sluice_broker_in_transit", METRIC_GAUGE, SCOPE_DEVICE, emit_broker_transit,
         "Messages handed to other workers and not returned yet."),
    EMIT("sluice_broker_messages", METRIC_GAUGE, SCOPE_DEVICE, emit_broker_messages,
         "Messages kept by reference: in queues, in output, retained."),
    EMIT("sluice_broker_message_bytes", METRIC_GAUGE, SCOPE_DEVICE, emit_broker_message_bytes,
         "Memory of these messages."),
    EMIT("sluice_shared_subscriptions", METRIC_GAUGE, SCOPE_DEVICE, emit_broker_shared,
         "Shared subscriptions among the subscriptions."),
    EMIT("sluice_shared_waiting", METRIC_GAUGE, SCOPE_DEVICE, emit_broker_shared_waiting,
         "Messages that wait because all connected members of a shared subscription are full."),
    EMIT("sluice_shared_handed_on_total", METRIC_COUNTER, SCOPE_DEVICE, emit_broker_shared_handed_on,
         "Messages of shared subscriptions given to another member or worker than the first one chosen."),
    EMIT("sluice_shared_dropped_total", METRIC_COUNTER, SCOPE_DEVICE, emit_broker_shared_dropped,
         "Messages of shared subscriptions that no member took."),
    EMIT("sluice_retained_messages", METRIC_GAUGE, SCOPE_DEVICE, emit_broker_retained,
         "Retained messages that this worker keeps."),
    EMIT("sluice_retained_bytes", METRIC_GAUGE, SCOPE_DEVICE, emit_broker_retained_bytes,
         "Memory of these retained messages."),
    EMIT("sluice_retained_refused_total", METRIC_COUNTER, SCOPE_DEVICE, emit_broker_retained_refused,
         "Messages accepted on another worker that could not be retained for want of memory."),

    DEVICE("sluice_mqtt_clients", METRIC_GAUGE, mqtt_online, "MQTT clients connected."),
    DEVICE("sluice_mqtt_sessions", METRIC_GAUGE, mqtt_sessions, "MQTT sessions, those of absent clients included."),
    DEVICE("sluice_mqtt_sessions_created_total", METRIC_COUNTER, mqtt_sessions_made, "MQTT sessions made."),
    DEVICE("sluice_mqtt_sessions_expired_total", METRIC_COUNTER, mqtt_sessions_expired,
           "MQTT sessions ended because their client did not come back."),
    DEVICE("sluice_mqtt_sessions_taken_over_total", METRIC_COUNTER, mqtt_sessions_taken_over,
           "Connections ended because another one came with the same client id."),
    DEVICE("sluice_mqtt_sessions_refused_total", METRIC_COUNTER, mqtt_sessions_refused,
           "MQTT clients refused for want of room for a session."),
    EMIT("sluice_mqtt_packets_received_total", METRIC_COUNTER, SCOPE_DEVICE, emit_mqtt_packets_in,
         "MQTT packets from clients, by type."),
    EMIT("sluice_mqtt_packets_sent_total", METRIC_COUNTER, SCOPE_DEVICE, emit_mqtt_packets_out,
         "MQTT packets to clients, by type."),
    EMIT("sluice_mqtt_publish_received_total", METRIC_COUNTER, SCOPE_DEVICE, emit_mqtt_publish_in,
         "Messages from MQTT clients, by QoS."),
    EMIT("sluice_mqtt_publish_sent_total", METRIC_COUNTER, SCOPE_DEVICE, emit_mqtt_publish_out,
         "Messages to MQTT clients, by QoS; what is sent again counts again."),
    DEVICE("sluice_mqtt_payload_received_bytes_total", METRIC_COUNTER, mqtt_publish_bytes_in,
           "Payload of messages from MQTT clients."),
    DEVICE("sluice_mqtt_payload_sent_bytes_total", METRIC_COUNTER, mqtt_publish_bytes_out,
           "Payload of messages to MQTT clients."),
    DEVICE("sluice_mqtt_in_flight", METRIC_GAUGE, mqtt_in_flight,
           "QoS 1 and 2 messages sent to MQTT clients and not acknowledged yet."),
    DEVICE("sluice_mqtt_queued", METRIC_GAUGE, mqtt_queued, "Messages that wait for MQTT clients."),
    DEVICE("sluice_mqtt_queued_log", METRIC_GAUGE, mqtt_queued_log, "Of them those that wait in the durable log."),
    DEVICE("sluice_mqtt_queued_bytes", METRIC_GAUGE, mqtt_queued_bytes,
           "What those messages are charged with; one that waits for several clients counts for each."),
    EMIT("sluice_mqtt_sessions_full", METRIC_GAUGE, SCOPE_DEVICE, emit_broker_sessions_full,
         "Sessions whose queue is full and for which messages are refused (queue_policy = reject)."),
    EMIT("sluice_mqtt_dropped_total", METRIC_COUNTER, SCOPE_DEVICE, emit_mqtt_drops,
         "Messages that an MQTT client did not get, or that were not taken from one (denied), by reason."),
    EMIT("sluice_auth_total", METRIC_COUNTER, SCOPE_DEVICE, emit_auth,
         "Clients let in and refused, by how they proved who they are, or why they did not."),
    EMIT("sluice_acl_denied_total", METRIC_COUNTER, SCOPE_DEVICE, emit_denied,
         "Messages, subscriptions and deliveries that the client's rights did not allow."),
    EMIT("sluice_rate_pauses_total", METRIC_COUNTER, SCOPE_DEVICE, emit_rate_pauses,
         "Messages that had to wait, or ended their connection, because a rate was used up, by whose it was."),
    DEVICE("sluice_accept_pauses_total", METRIC_COUNTER, accept_pauses,
           "Times that a worker stopped accepting on a listener because its accept_rate was used up."),
    PROCESS("sluice_admin_refused_total", METRIC_COUNTER, emit_admin_refused,
            "Requests of the admin API that were refused: without the token, by a user or a page that may not."),
    PROCESS("sluice_address_rate_overflows_total", METRIC_COUNTER, emit_rate_overflows,
            "Connections, failures or clients of addresses that the tables of rates had no room for."),
    DEVICE("sluice_mqtt_wills_total", METRIC_COUNTER, mqtt_wills, "Wills published."),
    DEVICE("sluice_websocket_upgrades_total", METRIC_COUNTER, ws_upgrades, "WebSocket handshakes that were accepted."),
    DEVICE("sluice_websocket_refused_total", METRIC_COUNTER, ws_refused, "WebSocket handshakes that were refused."),
    DEVICE("sluice_events_dropped_total", METRIC_COUNTER, events_dropped,
           "$events messages dropped because of congestion."),

    EMIT("sluice_stream_messages", METRIC_GAUGE, SCOPE_DEVICE, metrics_stream_messages,
         "Messages that a stream holds."),
    EMIT("sluice_stream_bytes", METRIC_GAUGE, SCOPE_DEVICE, metrics_stream_bytes, "Bytes of their records."),
    EMIT("sluice_stream_first_offset", METRIC_GAUGE, SCOPE_DEVICE, metrics_stream_first,
         "Offset of the oldest message; retention moves it."),
    EMIT("sluice_stream_next_offset", METRIC_GAUGE, SCOPE_DEVICE, metrics_stream_next,
         "Offset that the next message will have."),
    EMIT("sluice_stream_age_seconds", METRIC_GAUGE, SCOPE_DEVICE, metrics_stream_age, "Age of the oldest message."),
    EMIT("sluice_stream_taken_total", METRIC_COUNTER, SCOPE_DEVICE, metrics_stream_taken,
         "Messages taken since the start."),
    EMIT("sluice_stream_taken_bytes_total", METRIC_COUNTER, SCOPE_DEVICE, metrics_stream_taken_bytes,
         "Bytes of their records; a record in several streams counts for each."),
    EMIT("sluice_stream_refused_total", METRIC_COUNTER, SCOPE_DEVICE, metrics_stream_refused,
         "Messages that the log, or the stream (discard = new), had no room for; publishers of QoS 1 and 2 were told."),
    EMIT("sluice_stream_trimmed_total", METRIC_COUNTER, SCOPE_DEVICE, metrics_stream_trimmed,
         "Messages given up by retention."),
    EMIT("sluice_stream_missing_total", METRIC_COUNTER, SCOPE_DEVICE, metrics_stream_missing,
         "Offsets that readers did not find: damaged places of the log."),
    EMIT("sluice_stream_delivered_total", METRIC_COUNTER, SCOPE_DEVICE, metrics_stream_delivered,
         "Messages given to readers, by any way."),
    EMIT("sluice_stream_consumers", METRIC_GAUGE, SCOPE_DEVICE, metrics_stream_consumers, "Named consumers."),
    EMIT("sluice_stream_consumer_lag_max", METRIC_GAUGE, SCOPE_DEVICE, metrics_stream_lag,
         "Messages that the slowest named consumer has not acknowledged."),
#include "ops/metrics_rows_uplink.h"

    WORKER("sluice_loops_total", METRIC_COUNTER, loops, UNIT_ONE, "Turns of the worker's loop."),
    WORKER("sluice_worker_stalls_total", METRIC_COUNTER, stalls, UNIT_ONE,
           "Times the worker stood still for a second or more: the machine was paused, or its processor taken away."),
    WORKER("sluice_loop_busy_seconds_total", METRIC_COUNTER, loop_busy_ns, UNIT_NS,
           "Time spent outside the wait for events."),
    WORKER("sluice_loop_lag_seconds", METRIC_HISTOGRAM, loop_lag, UNIT_NS,
           "Time one turn of the loop took: how long a ready connection may have waited."),
    WORKER("sluice_worker_cpu_seconds_total", METRIC_COUNTER, cpu_ns, UNIT_NS,
           "Processor time of the worker's thread, updated once a second."),
    EMIT("sluice_heartbeat_age_seconds", METRIC_GAUGE, SCOPE_ALL, emit_heartbeat_age,
         "Time since the worker's last turn; an idle worker may sleep long."),
    WORKER("sluice_posts_total", METRIC_COUNTER, posts, UNIT_ONE, "Messages posted to other workers."),
    WORKER("sluice_post_overflows_total", METRIC_COUNTER, post_overflows, UNIT_ONE,
           "Messages that found the ring to the other worker full and had to wait."),
    WORKER("sluice_wakes_sent_total", METRIC_COUNTER, wakes_sent, UNIT_ONE, "Sleeping workers woken."),
    EMIT("sluice_recorder_events_total", METRIC_COUNTER, SCOPE_ALL, emit_recorder,
         "Events written to the flight recorder."),

    IO("sluice_io_waits_total", METRIC_COUNTER, waits, "Times the engine asked the kernel for events."),
    IO("sluice_io_syscalls_total", METRIC_COUNTER, syscalls, "System calls entered by the engine."),
    IO("sluice_io_completions_total", METRIC_COUNTER, completions, "Completions or events handled."),
    IO("sluice_io_batch_completions", METRIC_HISTOGRAM, batch, "Completions or events handled per wait."),
    IO("sluice_io_accepts_total", METRIC_COUNTER, accepts, "Connections accepted by the engine."),
    IO("sluice_io_recvs_total", METRIC_COUNTER, recvs, "Receives completed."),
    IO("sluice_io_recv_bytes_total", METRIC_COUNTER, recv_bytes, "Bytes received by the engine."),
    IO("sluice_io_sends_total", METRIC_COUNTER, sends, "Sends started."),
    IO("sluice_io_sent_bytes_total", METRIC_COUNTER, sent_bytes, "Bytes sent by the engine."),
    IO("sluice_io_short_sends_total", METRIC_COUNTER, short_sends, "Sends that took less than was offered."),
    IO("sluice_io_send_waits_total", METRIC_COUNTER, send_waits, "Sends that found the socket full."),
    IO("sluice_io_enobufs_total", METRIC_COUNTER, enobufs,
       "Receives that ended because no receive buffer was free (uring)."),
    IO("sluice_io_rearms_total", METRIC_COUNTER, rearms,
       "Multishot operations armed again after they ended by themselves (uring)."),
    IO("sluice_io_cq_overflows_total", METRIC_COUNTER, cq_overflows, "Times the completion queue overflowed (uring)."),
    IO("sluice_io_sq_full_total", METRIC_COUNTER, sq_full,
       "Times the submission queue was full and had to be flushed early (uring)."),
    IO("sluice_io_stale_total", METRIC_COUNTER, stale,
       "Completions that arrived for a slot in other use; anything but 0 is a defect."),
    IO("sluice_io_wakes_received_total", METRIC_COUNTER, wakes_received, "Wake-ups by other workers."),
    IO("sluice_io_recv_bufs", METRIC_GAUGE, bufs_total, "Provided receive buffers (uring)."),
    IO("sluice_io_recv_bufs_free", METRIC_GAUGE, bufs_free, "Receive buffers free now (uring)."),
    IO("sluice_io_recv_bufs_free_min", METRIC_GAUGE, bufs_free_low,
       "Fewest receive buffers free since the start (uring)."),

    WORKER("sluice_buffer_used_bytes", METRIC_GAUGE, memory_used, UNIT_ONE,
           "Memory of output segments and of bytes kept for later."),
    WORKER("sluice_buffer_refused_total", METRIC_COUNTER, memory_refused, UNIT_ONE,
           "Buffers refused because the budget or the memory was used up."),
    EMIT("sluice_slab_used_bytes", METRIC_GAUGE, SCOPE_ALL, emit_slab_used, "Memory in use, by slab."),
    EMIT("sluice_slab_mapped_bytes", METRIC_GAUGE, SCOPE_ALL, emit_slab_mapped, "Memory mapped for the slab."),
    EMIT("sluice_slab_budget_bytes", METRIC_GAUGE, SCOPE_ALL, emit_slab_budget, "Most that the slab may map."),
    EMIT("sluice_slab_refused_total", METRIC_COUNTER, SCOPE_ALL, emit_slab_refused,
         "Allocations refused for want of budget or memory."),

    EMIT("sluice_store_state", METRIC_GAUGE, SCOPE_DEVICE, emit_store_state,
         "State of the durable log: 1 for the present one."),
    STORE("sluice_store_commit_seconds", METRIC_HISTOGRAM, commit, UNIT_NS,
         "From the write of a commit to its being on disk."),
    STORE("sluice_store_recovery_seconds", METRIC_GAUGE, recovery_ns, UNIT_NS,
         "Time the last start took to read the log."),
    STORE("sluice_store_records_total", METRIC_COUNTER, appended, UNIT_ONE, "Records appended to the durable log."),
    STORE("sluice_store_accepted_bytes_total", METRIC_COUNTER, appended_bytes, UNIT_ONE, "Their bytes as given."),
    STORE("sluice_store_written_bytes_total", METRIC_COUNTER, written_bytes, UNIT_ONE,
         "Bytes given to the disk, heads, padding, copies and checkpoints included: flash wear."),
    STORE("sluice_store_commits_total", METRIC_COUNTER, commits, UNIT_ONE, "Commits: one write and one sync each."),
    STORE("sluice_store_commit_failures_total", METRIC_COUNTER, commit_failures, UNIT_ONE,
         "Commits whose write or sync failed; what they held went to a new segment."),
    STORE("sluice_store_refused_full_total", METRIC_COUNTER, refused_full, UNIT_ONE,
         "Records refused because the disk or log_max is used up."),
    STORE("sluice_store_refused_busy_total", METRIC_COUNTER, refused_busy, UNIT_ONE,
         "Records that had to wait because the buffers were full."),
    STORE("sluice_store_refused_failed_total", METRIC_COUNTER, refused_failed, UNIT_ONE,
         "Records refused because the disk does not take writes."),
    STORE("sluice_store_segments", METRIC_GAUGE, segments, UNIT_ONE, "Files of the log, spare ones included."),
    STORE("sluice_store_segments_max", METRIC_GAUGE, segments_max, UNIT_ONE, "As many as log_max allows."),
    STORE("sluice_store_disk_bytes", METRIC_GAUGE, disk_bytes, UNIT_ONE, "Size of these files."),
    STORE("sluice_store_live_bytes", METRIC_GAUGE, live_bytes, UNIT_ONE,
         "Kept records; an upper bound after a start until they have been looked at."),
    STORE("sluice_store_buffered_bytes", METRIC_GAUGE, buffered_bytes, UNIT_ONE, "Appended and not on disk yet."),
    STORE("sluice_store_segments_freed_total", METRIC_COUNTER, segments_freed, UNIT_ONE, "Segments freed by reclaim."),
    STORE("sluice_store_copied_bytes_total", METRIC_COUNTER, copied_bytes, UNIT_ONE,
         "Bytes of kept records that reclaim copied forward."),
    STORE("sluice_store_checkpoints_total", METRIC_COUNTER, checkpoints, UNIT_ONE, "Checkpoints completed."),
    STORE("sluice_store_checkpoint_bytes_total", METRIC_COUNTER, checkpoint_bytes, UNIT_ONE,
         "Bytes written while they were made."),
    STORE("sluice_store_damaged_total", METRIC_COUNTER, damaged, UNIT_ONE,
         "Places of the log that could not be read; they are skipped."),
    STORE("sluice_store_damaged_bytes_total", METRIC_COUNTER, damaged_bytes, UNIT_ONE, "Their bytes."),
    STORE("sluice_store_quarantined_total", METRIC_COUNTER, quarantined, UNIT_ONE,
         "Damaged places and files set aside at the start."),
    STORE("sluice_store_tail_cut_bytes_total", METRIC_COUNTER, tail_cut_bytes, UNIT_ONE,
         "Bytes of an unfinished commit that the start cut off."),
    STORE("sluice_store_replayed_records_total", METRIC_COUNTER, replayed, UNIT_ONE, "Records read at the start."),
    STORE("sluice_store_read_bytes_total", METRIC_COUNTER, read_bytes, UNIT_ONE,
         "Bytes read back for sessions, streams, uplinks and reclaim."),

    PROCESS("sluice_log_lines_total", METRIC_COUNTER, emit_log_lines, "Log lines accepted."),
    PROCESS("sluice_log_dropped_total", METRIC_COUNTER, emit_log_dropped,
            "Log lines dropped because the ring was full."),
    PROCESS("sluice_log_sink_errors_total", METRIC_COUNTER, emit_log_sink_errors, "Writes to a log sink that failed."),
    PROCESS("sluice_log_ring_bytes", METRIC_GAUGE, emit_log_ring, "Size of the log ring."),
    PROCESS("sluice_log_ring_used_max_bytes", METRIC_GAUGE, emit_log_ring_used_max,
            "Most of the log ring in use since the start."),

    PROCESS("sluice_admin_conns_open", METRIC_GAUGE, emit_admin_open,
            "Open connections of the admin port and the ctl socket."),
    PROCESS("sluice_admin_conns_opened_total", METRIC_COUNTER, emit_admin_opened,
            "Connections opened to the admin port and the ctl socket."),
    PROCESS("sluice_admin_requests_outstanding", METRIC_GAUGE, emit_admin_requests,
            "Questions to workers that are not answered yet."),
};
const u32 metric_family_count = ARRAY_LEN(metric_families);
