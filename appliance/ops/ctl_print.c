// SPDX-License-Identifier: Apache-2.0
// ctl_print.c: see ctl_print.h. Units: sizes in powers of 1024, times rounded to what one can use; exact numbers are
// what --json is for.
#include "ops/ctl_print.h"

#include <stdio.h>
#include <string.h>

#include "ops/ctl_table.h"

static const char *str(yyjson_val *obj, const char *key) {
    const char *s = yyjson_get_str(yyjson_obj_get(obj, key));
    return s != NULL ? s : "-";
}

static u64 num(yyjson_val *obj, const char *key) {
    return yyjson_get_uint(yyjson_obj_get(obj, key));
}

static double real(yyjson_val *obj, const char *key) {
    return yyjson_get_num(yyjson_obj_get(obj, key));
}

static bool is_true(yyjson_val *obj, const char *key) {
    return yyjson_get_bool(yyjson_obj_get(obj, key));
}

// Text of a string, a number or null.
static void cell_any(ctl_table *t, yyjson_val *val) {
    if (yyjson_is_str(val)) ctl_table_cell(t, "%s", yyjson_get_str(val));
    else if (yyjson_is_int(val)) ctl_table_cell(t, "%lld", (long long)yyjson_get_sint(val));
    else ctl_table_cell(t, "-");
}

static void cell_bytes(ctl_table *t, u64 bytes) {
    char text_out[CTL_UNIT_BYTES];
    ctl_table_cell(t, "%s", ctl_bytes(bytes, text_out));
}

static void cell_duration(ctl_table *t, double seconds) {
    char text_out[CTL_UNIT_BYTES];
    ctl_table_cell(t, "%s", ctl_duration(seconds, text_out));
}

static void print_line(const char *name, const char *value) {
    char copy[1100];
    snprintf(copy, sizeof(copy), "%s", value);
    ctl_clean(copy);
    printf("%-11s %s\n", name, copy);
}

// --- status ---

static u64 slabs_sum(yyjson_val *w, const char *key) {
    yyjson_val *slabs = yyjson_obj_get(w, "slabs"), *s;
    size_t i, max;
    u64 sum = 0;
    yyjson_arr_foreach(slabs, i, max, s) sum += num(s, key);
    return sum;
}

static void worker_row(ctl_table *t, const char *name, yyjson_val *w) {
    ctl_table_cell(t, "%s", name);
    cell_any(t, yyjson_obj_get(w, "cpu"));
    cell_duration(t, real(w, "cpu_seconds"));
    ctl_table_cell(t, "%llu", (unsigned long long)num(w, "conns_open"));
    ctl_table_cell(t, "%llu", (unsigned long long)num(w, "conns_opened"));
    cell_bytes(t, num(w, "received_bytes"));
    cell_bytes(t, num(w, "sent_bytes"));
    cell_duration(t, real(w, "loop_lag_p99_ms") / 1e3);
    cell_duration(t, real(w, "reply_p99_ms") / 1e3);
    cell_bytes(t, slabs_sum(w, "mapped_bytes"));
    cell_duration(t, real(w, "heartbeat_age_seconds"));
}

static void print_workers(yyjson_val *root) {
    static const char *const heads[] = {"WORKER", ">CPU",  ">CPU TIME",  ">CONNS",    ">OPENED", ">IN",
                                        ">OUT",   ">LAG P99", ">REPLY P99", ">SLABS", ">TURNED AGO"};
    ctl_table t;
    yyjson_val *w;
    size_t i, max;
    char name[24];
    ctl_table_begin(&t, heads, ARRAY_LEN(heads));
    yyjson_arr_foreach(yyjson_obj_get(root, "workers"), i, max, w) {
        snprintf(name, sizeof(name), "%llu", (unsigned long long)num(w, "worker"));
        worker_row(&t, name, w);
    }
    w = yyjson_obj_get(root, "operations");
    if (w != NULL) worker_row(&t, "ops", w);
    printf("\n");
    ctl_table_end(&t, 0);
}

static void print_stores(yyjson_val *root) {
    static const char *const heads[] = {"LOG",         "STATE",       ">RECORDS", ">COMMITS",
                                        ">COMMIT P50", ">COMMIT P99", ">WRITTEN", ">ON DISK",
                                        ">LIVE",       ">SEGMENTS",   ">REFUSED", ">DAMAGED"};
    ctl_table t;
    yyjson_val *w;
    size_t i, max;
    ctl_table_begin(&t, heads, ARRAY_LEN(heads));
    yyjson_arr_foreach(yyjson_obj_get(root, "workers"), i, max, w) {
        yyjson_val *l = yyjson_obj_get(w, "store");
        if (l == NULL) {
            ctl_table_cell(&t, "%llu", (unsigned long long)num(w, "worker"));
            ctl_table_cell(&t, "none: nothing is durable");
            for (u32 k = 2; k < ARRAY_LEN(heads); k++) ctl_table_cell(&t, "-");
            continue;
        }
        ctl_table_cell(&t, "%llu", (unsigned long long)num(w, "worker"));
        ctl_table_cell(&t, "%s", str(l, "state"));
        ctl_table_cell(&t, "%llu", (unsigned long long)num(l, "records"));
        ctl_table_cell(&t, "%llu", (unsigned long long)num(l, "commits"));
        cell_duration(&t, real(l, "commit_p50_ms") / 1e3);
        cell_duration(&t, real(l, "commit_p99_ms") / 1e3);
        cell_bytes(&t, num(l, "written_bytes"));
        cell_bytes(&t, num(l, "disk_bytes"));
        cell_bytes(&t, num(l, "live_bytes"));
        ctl_table_cell(&t, "%llu/%llu", (unsigned long long)num(l, "segments"),
                       (unsigned long long)num(l, "segments_max"));
        ctl_table_cell(&t, "%llu", (unsigned long long)num(l, "refused"));
        ctl_table_cell(&t, "%llu", (unsigned long long)num(l, "damaged"));
    }
    printf("\n");
    ctl_table_end(&t, 0);
    yyjson_arr_foreach(yyjson_obj_get(root, "workers"), i, max, w) {
        yyjson_val *l = yyjson_obj_get(w, "store");
        const char *why = l != NULL ? str(l, "why") : "-";
        if (why[0] != 0 && strcmp(why, "-") != 0)
            printf("log of worker %llu: %s\n", (unsigned long long)num(w, "worker"), why);
    }
}

static void print_listeners(yyjson_val *root) {
    static const char *const heads[] = {"LISTENER", "PROTOCOL", "ADDRESS", ">CONNS"};
    ctl_table t;
    yyjson_val *l;
    size_t i, max;
    ctl_table_begin(&t, heads, ARRAY_LEN(heads));
    yyjson_arr_foreach(yyjson_obj_get(root, "listeners"), i, max, l) {
        ctl_table_cell(&t, "%s", str(l, "name"));
        ctl_table_cell(&t, "%s", str(l, "protocol"));
        ctl_table_cell(&t, "%s", str(l, "bind"));
        ctl_table_cell(&t, "%llu", (unsigned long long)num(l, "conns"));
    }
    printf("\n");
    ctl_table_end(&t, 0);
}

void ctl_print_status(yyjson_val *root) {
    char line[1024], a[CTL_UNIT_BYTES], b[CTL_UNIT_BYTES];
    yyjson_val *process = yyjson_obj_get(root, "process"), *log = yyjson_obj_get(root, "log");
    snprintf(line, sizeof(line), "%s (%s), pid %llu", str(root, "version"), str(root, "commit"),
             (unsigned long long)num(root, "pid"));
    print_line("sluice", line);
    snprintf(line, sizeof(line), "%s, up %s, %llu connections",
             is_true(root, "draining") ? "draining" : is_true(root, "ready") ? "ready" : "starting",
             ctl_duration(real(root, "uptime_seconds"), a), (unsigned long long)num(root, "conns_open"));
    print_line("state", line);
    snprintf(line, sizeof(line), "%s: %s", str(root, "engine"), str(root, "engine_why"));
    print_line("engine", line);
    print_line("config", str(root, "config"));
    snprintf(line, sizeof(line), "%s resident, %llu of %llu descriptors, CPU %s user + %s system",
             ctl_bytes(num(process, "resident_bytes"), (char[CTL_UNIT_BYTES]){0}),
             (unsigned long long)num(process, "fds_open"), (unsigned long long)num(process, "fds_max"),
             ctl_duration(real(process, "cpu_user_seconds"), a),
             ctl_duration(real(process, "cpu_system_seconds"), b));
    print_line("process", line);
    yyjson_val *sandbox = yyjson_obj_get(root, "sandbox");
    snprintf(line, sizeof(line), "%s: user %s; capabilities: %s; landlock: %s; seccomp: %s", str(sandbox, "mode"),
             str(sandbox, "user"), str(sandbox, "capabilities"), str(sandbox, "landlock"), str(sandbox, "seccomp"));
    print_line("sandbox", line);
    snprintf(line, sizeof(line), "%llu lines, %llu dropped, %llu sink errors", (unsigned long long)num(log, "lines"),
             (unsigned long long)num(log, "dropped"), (unsigned long long)num(log, "sink_errors"));
    print_line("log", line);
    print_workers(root);
    print_stores(root);
    print_listeners(root);
}

// --- connections ---

void ctl_print_conns(yyjson_val *root) {
    static const char *const heads[] = {"ID",   "PEER",  "CLIENT", "LISTENER", ">W",     "STATE",
                                        "SLOW", ">AGE",  ">IDLE",  ">IN",      ">OUT",   ">QUEUED"};
    ctl_table t;
    yyjson_val *list = yyjson_obj_get(root, "conns"), *c;
    size_t i, max;
    ctl_table_begin(&t, heads, ARRAY_LEN(heads));
    yyjson_arr_foreach(list, i, max, c) {
        ctl_table_cell(&t, "%s", str(c, "id"));
        ctl_table_cell(&t, "%s", str(c, "peer"));
        ctl_table_cell(&t, "%s", str(c, "client"));
        ctl_table_cell(&t, "%s", str(c, "listener"));
        ctl_table_cell(&t, "%llu", (unsigned long long)num(c, "worker"));
        ctl_table_cell(&t, "%s", str(c, "state"));
        ctl_table_cell(&t, "%s", str(c, "slow"));
        cell_duration(&t, real(c, "age_seconds"));
        cell_duration(&t, real(c, "idle_seconds"));
        cell_bytes(&t, num(c, "bytes_in"));
        cell_bytes(&t, num(c, "bytes_out"));
        cell_bytes(&t, num(c, "out_bytes"));
    }
    ctl_table_end(&t, 0);
    u64 total = num(root, "total"), shown = yyjson_arr_size(list), offset = num(root, "offset");
    if (offset + shown < total) {
        printf("%llu of %llu shown; --limit N and --offset N show others\n", (unsigned long long)shown,
               (unsigned long long)total);
    }
}

void ctl_print_sessions(yyjson_val *root) {
    static const char *const heads[] = {"CLIENT",  "STATE",      ">W",      "VERSION", "CONN", ">EXPIRY",
                                        ">FILTERS", ">IN FLIGHT", ">QUEUED", ">BYTES", ">IN LOG", ">BYTES",
                                        "POLICY"};
    ctl_table t;
    yyjson_val *list = yyjson_obj_get(root, "sessions"), *s;
    size_t i, max;
    ctl_table_begin(&t, heads, ARRAY_LEN(heads));
    yyjson_arr_foreach(list, i, max, s) {
        yyjson_val *left = yyjson_obj_get(s, "expires_in_seconds");
        ctl_table_cell(&t, "%s", str(s, "client"));
        ctl_table_cell(&t, "%s", str(s, "state"));
        ctl_table_cell(&t, "%llu", (unsigned long long)num(s, "worker"));
        ctl_table_cell(&t, "%s", str(s, "version"));
        ctl_table_cell(&t, "%s", str(s, "conn"));
        if (yyjson_is_num(left)) cell_duration(&t, yyjson_get_num(left));
        else ctl_table_cell(&t, "-");
        ctl_table_cell(&t, "%llu", (unsigned long long)num(s, "subscriptions"));
        ctl_table_cell(&t, "%llu", (unsigned long long)num(s, "in_flight"));
        ctl_table_cell(&t, "%llu", (unsigned long long)num(s, "queued"));
        cell_bytes(&t, num(s, "queued_bytes"));
        ctl_table_cell(&t, "%llu", (unsigned long long)num(s, "queued_log"));
        cell_bytes(&t, num(s, "queued_log_bytes"));
        bool rejects = yyjson_is_true(yyjson_obj_get(s, "rejects"));
        ctl_table_cell(&t, "%s%s", str(s, "queue_policy"), rejects ? " (full)" : "");
    }
    ctl_table_end(&t, 0);
    u64 total = num(root, "total"), shown = yyjson_arr_size(list), offset = num(root, "offset");
    if (offset + shown < total) {
        printf("%llu of %llu shown; --limit N and --offset N show others\n", (unsigned long long)shown,
               (unsigned long long)total);
    }
}

void ctl_print_tls(yyjson_val *root) {
    static const char *const heads[] = {"LISTENER", "CLIENTS", "FILE", "NAME", "KEY", "ENDS", ">LEFT", "STATE"};
    ctl_table t;
    yyjson_val *l, *c;
    size_t i, k, max, certs;
    ctl_table_begin(&t, heads, ARRAY_LEN(heads));
    yyjson_arr_foreach(yyjson_obj_get(root, "listeners"), i, max, l) {
        yyjson_arr_foreach(yyjson_obj_get(l, "certificates"), k, certs, c) {
            ctl_table_cell(&t, "%s", str(l, "listener"));
            ctl_table_cell(&t, "%s", str(l, "client_certificates"));
            ctl_table_cell(&t, "%s", str(c, "file"));
            ctl_table_cell(&t, "%s", str(c, "common_name"));
            ctl_table_cell(&t, "%s", str(c, "key"));
            ctl_table_cell(&t, "%.10s", str(c, "not_after"));
            ctl_table_cell(&t, "%lld days", (long long)(yyjson_get_sint(yyjson_obj_get(c, "seconds_left")) / 86400));
            ctl_table_cell(&t, "%s", str(c, "state"));
        }
    }
    ctl_table_end(&t, 0);
}

// "refused 3, too_large 1"; "-": nothing was left out.
static void cell_dropped(ctl_table *t, yyjson_val *reasons) {
    char text[256] = "-";
    yyjson_val *name, *count;
    size_t i, max, used = 0;
    yyjson_obj_foreach(reasons, i, max, name, count) {
        int len = snprintf(text + used, sizeof(text) - used, "%s%s %llu", used > 0 ? ", " : "", yyjson_get_str(name),
                           (unsigned long long)yyjson_get_uint(count));
        used = MIN(used + (size_t)len, sizeof(text) - 1);
    }
    ctl_table_cell(t, "%s", text);
}

void ctl_print_uplinks(yyjson_val *root) {
    static const char *const heads[] = {"UPLINK",  ">W",         "STATE",  "REMOTE",   ">LAG",    ">BYTES",
                                        ">OLDEST", ">IN FLIGHT", ">ACKED", ">RETRIES", "DROPPED", "ERROR"};
    ctl_table t;
    yyjson_val *u, *w;
    size_t i, max, k, workers;
    ctl_table_begin(&t, heads, ARRAY_LEN(heads));
    yyjson_arr_foreach(yyjson_obj_get(root, "uplinks"), i, max, u) {
        yyjson_arr_foreach(yyjson_obj_get(u, "workers"), k, workers, w) {
            const char *error = str(w, "error"), *detail = str(w, "detail");
            bool fine = strcmp(error, "none") == 0;
            ctl_table_cell(&t, "%s", str(u, "name"));
            ctl_table_cell(&t, "%llu", (unsigned long long)num(w, "worker"));
            ctl_table_cell(&t, "%s", str(w, "state"));
            ctl_table_cell(&t, "%s", str(w, "remote"));
            ctl_table_cell(&t, "%llu", (unsigned long long)num(w, "lag_messages"));
            cell_bytes(&t, num(w, "lag_bytes"));
            cell_duration(&t, yyjson_get_num(yyjson_obj_get(w, "lag_seconds")));
            ctl_table_cell(&t, "%llu", (unsigned long long)num(w, "in_flight"));
            ctl_table_cell(&t, "%llu", (unsigned long long)num(w, "acked"));
            ctl_table_cell(&t, "%llu", (unsigned long long)num(w, "retries"));
            cell_dropped(&t, yyjson_obj_get(w, "dropped"));
            ctl_table_cell(&t, "%s%s%s", fine ? "-" : error, !fine && detail[0] != '\0' ? ": " : "",
                           fine ? "" : detail);
        }
    }
    ctl_table_end(&t, 0);
}

static void print_others(yyjson_val *root, yyjson_val *list) {
    u64 total = num(root, "total"), shown = yyjson_arr_size(list), offset = num(root, "offset");
    if (offset + shown >= total) return;
    printf("%llu of %llu shown; --limit N and --offset N show others\n", (unsigned long long)shown,
           (unsigned long long)total);
}

void ctl_print_subs(yyjson_val *root) {
    static const char *const heads[] = {"FILTER", "SHARE", "CLIENT", ">QOS", ">ID", ">W", "STATE"};
    ctl_table t;
    yyjson_val *list = yyjson_obj_get(root, "subs"), *s;
    size_t i, max;
    ctl_table_begin(&t, heads, ARRAY_LEN(heads));
    yyjson_arr_foreach(list, i, max, s) {
        yyjson_val *id = yyjson_obj_get(s, "id");
        ctl_table_cell(&t, "%s", str(s, "filter"));
        ctl_table_cell(&t, "%s", str(s, "share"));
        ctl_table_cell(&t, "%s", str(s, "client"));
        ctl_table_cell(&t, "%llu", (unsigned long long)num(s, "qos"));
        if (yyjson_is_num(id)) ctl_table_cell(&t, "%llu", (unsigned long long)num(s, "id"));
        else ctl_table_cell(&t, "-");
        ctl_table_cell(&t, "%llu", (unsigned long long)num(s, "worker"));
        ctl_table_cell(&t, "%s", yyjson_get_bool(yyjson_obj_get(s, "in_force")) ? "in force" : "pending");
    }
    ctl_table_end(&t, 0);
    print_others(root, list);
}

void ctl_print_retained(yyjson_val *root) {
    static const char *const heads[] = {"TOPIC", ">QOS", ">BYTES", ">AGE", ">EXPIRES", ">W"};
    ctl_table t;
    yyjson_val *list = yyjson_obj_get(root, "retained"), *m;
    size_t i, max;
    ctl_table_begin(&t, heads, ARRAY_LEN(heads));
    yyjson_arr_foreach(list, i, max, m) {
        yyjson_val *left = yyjson_obj_get(m, "expires_in_seconds");
        ctl_table_cell(&t, "%s", str(m, "topic"));
        ctl_table_cell(&t, "%llu", (unsigned long long)num(m, "qos"));
        cell_bytes(&t, num(m, "payload_bytes"));
        cell_duration(&t, real(m, "age_seconds"));
        if (yyjson_is_num(left)) cell_duration(&t, yyjson_get_num(left));
        else ctl_table_cell(&t, "-");
        ctl_table_cell(&t, "%llu", (unsigned long long)num(m, "worker"));
    }
    ctl_table_end(&t, 0);
    print_others(root, list);
}

static void print_names(const char *name, yyjson_val *list) {
    char line[512] = "";
    yyjson_val *v;
    size_t i, max;
    yyjson_arr_foreach(list, i, max, v) {
        size_t len = strlen(line);
        const char *s = yyjson_get_str(v);
        snprintf(line + len, sizeof(line) - len, "%s%s", i > 0 ? " " : "", s != NULL ? s : "?");
    }
    print_line(name, line[0] != '\0' ? line : "none");
}

// Every number of an object that is not 0: "out_bytes 12  tail_bytes 3".
static void print_numbers(const char *name, yyjson_val *obj) {
    char line[512] = "";
    yyjson_val *key, *val;
    size_t i, max;
    yyjson_obj_foreach(obj, i, max, key, val) {
        size_t len = strlen(line);
        double value = yyjson_get_num(val);
        if (!yyjson_is_num(val) || value == 0) continue;
        snprintf(line + len, sizeof(line) - len, yyjson_is_real(val) ? "%s%s %.3f" : "%s%s %.0f", len > 0 ? "  " : "",
                 yyjson_get_str(key), value);
    }
    print_line(name, line[0] != '\0' ? line : "empty");
}

static void print_events(yyjson_val *list) {
    static const char *const heads[] = {"TIME", "EVENT", ">RESULT", "", ">FLAGS"};
    ctl_table t;
    yyjson_val *e;
    size_t i, max;
    ctl_table_begin(&t, heads, ARRAY_LEN(heads));
    yyjson_arr_foreach(list, i, max, e) {
        ctl_table_cell(&t, "%s", str(e, "time"));
        ctl_table_cell(&t, "%s", str(e, "event"));
        cell_any(&t, yyjson_obj_get(e, "result"));
        ctl_table_cell(&t, "%s", yyjson_obj_get(e, "result_name") != NULL ? str(e, "result_name") : "");
        cell_any(&t, yyjson_obj_get(e, "flags"));
    }
    printf("\n");
    ctl_table_end(&t, 0);
}

static void print_conn_tls(yyjson_val *tls) {
    char line[512];
    if (!yyjson_is_obj(tls)) return;
    bool send = yyjson_get_bool(yyjson_obj_get(tls, "kernel_send"));
    bool receive = yyjson_get_bool(yyjson_obj_get(tls, "kernel_receive"));
    yyjson_val *identity = yyjson_obj_get(tls, "identity");
    snprintf(line, sizeof(line), "%s %s%s, records by the %s%s%s", str(tls, "version"), str(tls, "suite"),
             yyjson_get_bool(yyjson_obj_get(tls, "resumed")) ? ", resumed" : "",
             send && receive ? "kernel" : send ? "kernel (sent), gateway (received)" : "gateway",
             yyjson_is_str(identity) ? ", certificate of " : "",
             yyjson_is_str(identity) ? yyjson_get_str(identity) : "");
    print_line("tls", line);
}

void ctl_print_conn(yyjson_val *root) {
    char line[512], a[CTL_UNIT_BYTES], b[CTL_UNIT_BYTES];
    yyjson_val *slow = yyjson_obj_get(root, "slow"), *reason = yyjson_obj_get(root, "close_reason");
    snprintf(line, sizeof(line), "%s, listener %s (%s), worker %llu", str(root, "peer"), str(root, "listener"),
             str(root, "protocol"), (unsigned long long)num(root, "worker"));
    print_line(str(root, "id"), line);
    if (yyjson_is_str(yyjson_obj_get(root, "client"))) print_line("client", str(root, "client"));
    snprintf(line, sizeof(line), "%s%s%s%s%s", str(root, "state"), yyjson_is_str(slow) ? ", slow: " : "",
             yyjson_is_str(slow) ? yyjson_get_str(slow) : "", yyjson_is_str(reason) ? ", ends: " : "",
             yyjson_is_str(reason) ? yyjson_get_str(reason) : "");
    print_line("state", line);
    print_names("armed", yyjson_obj_get(root, "armed"));
    print_names("flags", yyjson_obj_get(root, "flags"));
    snprintf(line, sizeof(line), "%s, %s since it last sent", ctl_duration(real(root, "age_seconds"), a),
             ctl_duration(real(root, "idle_seconds"), b));
    print_line("age", line);
    snprintf(line, sizeof(line), "%llu bytes, %llu packets", (unsigned long long)num(root, "bytes_in"),
             (unsigned long long)num(root, "packets_in"));
    print_line("in", line);
    snprintf(line, sizeof(line), "%llu bytes, %llu packets", (unsigned long long)num(root, "bytes_out"),
             (unsigned long long)num(root, "packets_out"));
    print_line("out", line);
    print_conn_tls(yyjson_obj_get(root, "tls"));
    print_numbers("queues", yyjson_obj_get(root, "queues"));
    print_numbers("timers", yyjson_obj_get(root, "timers"));
    print_events(yyjson_obj_get(root, "events"));
}

// 12:00:00.000001 w0 2a 192.0.2.1:4711 recv = 64
void ctl_print_event(yyjson_val *event) {
    char line[512], what[64] = "";
    const char *time = str(event, "time"), *clock = strchr(time, 'T');
    yyjson_val *result = yyjson_obj_get(event, "result"), *name = yyjson_obj_get(event, "result_name");
    yyjson_val *conn = yyjson_obj_get(event, "conn"), *slot = yyjson_obj_get(event, "slot");
    if (conn != NULL) snprintf(what, sizeof(what), "%.24s", yyjson_get_str(conn));
    else if (slot != NULL) snprintf(what, sizeof(what), "slot %llu", (unsigned long long)yyjson_get_uint(slot));
    int n = snprintf(line, sizeof(line), "%.15s w%llu %s%s%s %s = %lld", clock != NULL ? clock + 1 : time,
                     (unsigned long long)num(event, "worker"), what[0] != '\0' ? what : "-",
                     yyjson_obj_get(event, "peer") != NULL ? " " : "",
                     yyjson_obj_get(event, "peer") != NULL ? str(event, "peer") : "", str(event, "event"),
                     (long long)yyjson_get_sint(result));
    if (n > 0 && (size_t)n < sizeof(line) && yyjson_is_str(name)) {
        snprintf(line + n, sizeof(line) - (size_t)n, " %s", yyjson_get_str(name));
    }
    ctl_clean(line);
    puts(line);
}
