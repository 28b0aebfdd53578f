// SPDX-License-Identifier: Apache-2.0
// conn_json.c: see conn_json.h; docs/http-api.md has the members' meaning. Absent conditions are null or
// left out, never a magic number.
#include "ops/conn_json.h"

#include "net/reason.h"
#include "ops/conn_id.h"

void conn_json_put(json *j, yyjson_mut_val *obj, const conn_view *v) {
    char id[CONN_ID_TEXT], peer[CONN_PEER_TEXT];
    json_str(j, obj, "id", conn_id_print(v->id, id));
    json_str(j, obj, "peer", conn_view_peer(v, peer));
    if (v->client[0] == '\0') json_null(j, obj, "client");
    else json_str(j, obj, "client", v->client);
    json_str(j, obj, "listener", v->listener);
    json_str(j, obj, "protocol", v->protocol);
    json_u64(j, obj, "worker", v->worker);
    json_str(j, obj, "state", conn_state_name(v->state));
    if (v->slow == CONN_SLOW_NO) json_null(j, obj, "slow");
    else json_str(j, obj, "slow", conn_slow_name(v->slow));
    json_seconds(j, obj, "age_seconds", v->age_ns);
    json_seconds(j, obj, "idle_seconds", v->idle_ns);
    json_u64(j, obj, "bytes_in", v->bytes_in);
    json_u64(j, obj, "bytes_out", v->bytes_out);
    json_u64(j, obj, "packets_in", v->packets_in);
    json_u64(j, obj, "packets_out", v->packets_out);
    json_u64(j, obj, "out_bytes", v->out_bytes);
}

static void tls_put(json *j, yyjson_mut_val *obj, const conn_view *v) {
    if (v->tls_suite == NULL) {
        json_null(j, obj, "tls");
        return;
    }
    yyjson_mut_val *tls = json_obj(j, obj, "tls");
    json_str(j, tls, "version", "1.2");
    json_str(j, tls, "suite", v->tls_suite);
    json_bool(j, tls, "resumed", v->tls_resumed);
    json_bool(j, tls, "kernel_send", v->tls_kernel_send);
    json_bool(j, tls, "kernel_receive", v->tls_kernel_receive);
    if (v->tls_identity[0] == '\0') json_null(j, tls, "identity");
    else json_str(j, tls, "identity", v->tls_identity);
}

void conn_json_put_detail(json *j, yyjson_mut_val *obj, const conn_view *v) {
    u32 bit = 0;
    const char *name;
    yyjson_mut_val *flags = json_arr(j, obj, "flags");
    while ((name = conn_flag_next(v->flags, &bit)) != NULL) json_arr_str(j, flags, name);
    yyjson_mut_val *armed = json_arr(j, obj, "armed");
    bit = 0;
    while ((name = conn_armed_next(v->armed, &bit)) != NULL) json_arr_str(j, armed, name);
    if (v->reason == CLOSE_NONE) json_null(j, obj, "close_reason");
    else json_str(j, obj, "close_reason", close_reason_name(v->reason));
    if (v->moved_from == 0) json_null(j, obj, "moved_from");
    else json_u64(j, obj, "moved_from", v->moved_from - 1u);
    json_u64(j, obj, "slot", v->slot);
    json_u64(j, obj, "generation", v->generation);

    tls_put(j, obj, v);
    yyjson_mut_val *queues = json_obj(j, obj, "queues");
    json_u64(j, queues, "out_bytes", v->out_bytes);
    json_u64(j, queues, "lent_bytes", v->lent_bytes);
    json_u64(j, queues, "head_bytes", v->head_bytes);
    json_u64(j, queues, "tail_bytes", v->tail_bytes);
    json_u64(j, queues, "tail_size", v->tail_size);
    json_u64(j, queues, "stash_bytes", v->stash_bytes);
    json_u64(j, queues, "stash_size", v->stash_size);

    yyjson_mut_val *timers = json_obj(j, obj, "timers");
    if (v->timer_in_ns == UINT64_MAX) json_null(j, timers, "next_check_in_seconds");
    else json_seconds(j, timers, "next_check_in_seconds", v->timer_in_ns);
    if (v->partial_ns == 0) json_null(j, timers, "packet_incomplete_seconds");
    else json_seconds(j, timers, "packet_incomplete_seconds", v->partial_ns);
    if (v->out_bytes == 0) json_null(j, timers, "output_stalled_seconds");
    else json_seconds(j, timers, "output_stalled_seconds", v->output_stalled_ns);
}

const char *conn_event_result_name(const recorder_record *r) {
    if (r->result < 0) return errno_name(r->result);
    if (r->event == REC_CLOSE) return close_reason_name((u32)r->result);
    return NULL;
}

void conn_json_put_event(json *j, yyjson_mut_val *obj, const recorder_record *r, u64 real_offset_ns) {
    char time[TEXT_TIME_BYTES];
    const char *name = conn_event_result_name(r);
    json_str(j, obj, "time", text_time(r->time_ns + real_offset_ns, time));
    json_str(j, obj, "event", recorder_event_name(r->event));
    json_int(j, obj, "result", r->result);
    if (name != NULL) json_str(j, obj, "result_name", name);
    json_u64(j, obj, "flags", r->flags);
}
