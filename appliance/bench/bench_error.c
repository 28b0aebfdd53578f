// SPDX-License-Identifier: Apache-2.0
// bench_error.c: names and advice of the load generator's errors, and the map from errno.
#include "bench/bench_error.h"

#include <errno.h>

static const struct {
    const char *name, *advice;
} rows[] = {
    [BENCH_ERROR_CONNECT_REFUSED] = {"connect_refused",
                                     "nothing listens there: check --to and that the server is up"},
    [BENCH_ERROR_CONNECT_TIMEOUT] =
        {"connect_timeout",
         "the accept queue is full or packets are dropped: lower --connect-rate, or raise the "
         "listener's backlog and net.core.somaxconn"},
    [BENCH_ERROR_CONNECT_FAILED] = {"connect_failed", "no route, or the address is not reachable"},
    [BENCH_ERROR_ADDR_NOT_AVAIL] = {"addr_not_avail",
                                    "local ports are used up: raise --src-addrs, widen "
                                    "net.ipv4.ip_local_port_range, or use --close rst"},
    [BENCH_ERROR_DESCRIPTORS] =
        {"too_many_descriptors",
         "EMFILE or ENFILE: raise `ulimit -n` (hard limit) or fs.file-max, or use fewer "
         "connections"},
    [BENCH_ERROR_NO_MEMORY] = {"no_memory",
                               "the kernel had no memory for a socket: see net.ipv4.tcp_mem"},
    [BENCH_ERROR_RESET] = {"reset", "the server reset the connection: its log has the reason"},
    [BENCH_ERROR_CLOSED_BY_SERVER] =
        {"closed_by_server",
         "the server closed first: idle timeout, a limit, or a refused frame; its log has the "
         "reason"},
    [BENCH_ERROR_SOCKET] = {"socket_failed", "another socket error on an established connection"},
    [BENCH_ERROR_HELLO_REFUSED] =
        {"hello_refused", "the hello was not acknowledged: check --token and the listener's mode"},
    [BENCH_ERROR_NOT_READY] =
        {"not_ready", "connected but not answered during set-up: is --mode the listener's mode?"},
    [BENCH_ERROR_UNANSWERED] =
        {"unanswered",
         "no reply before the drain or timeout ended; such messages are in the latency figures "
         "with the time they had waited"},
    [BENCH_ERROR_CONNECTION_GONE] =
        {"connection_gone", "messages due on a connection that had already ended, not sent"},
    [BENCH_ERROR_LOST] = {"lost", "a later reply arrived, this one never did"},
    [BENCH_ERROR_DUPLICATED] = {"duplicated", "a reply arrived twice"},
    [BENCH_ERROR_REORDERED] = {"reordered", "replies of one connection arrived in another order"},
    [BENCH_ERROR_CORRUPTED] = {"corrupted", "the content of a reply differs from what was sent"},
    [BENCH_ERROR_UNEXPECTED_FRAME] =
        {"unexpected_frame",
         "a reply of a form that --mode does not have: is it the listener's mode?"},
    [BENCH_ERROR_HEARTBEAT_LATE] =
        {"heartbeat_late",
         "the next heartbeat was due before the last was answered; it was not sent"},
    [BENCH_ERROR_OUTSTANDING_LIMIT] =
        {"outstanding_limit",
         "one connection had 65,536 messages without reply; the next was not sent"},
    [BENCH_ERROR_OPEN_LIMIT] =
        {"open_limit",
         "all short-connection slots were waiting for replies; the next was not started"},
    [BENCH_ERROR_REFUSED] = {"refused",
                             "the broker's CONNACK or SUBACK said no: user, password, access "
                             "rights, or a limit of it"},
    [BENCH_ERROR_MALFORMED] = {"malformed", "the broker sent bytes that are no valid MQTT packet"},
    [BENCH_ERROR_PUBLISH_REFUSED] =
        {"publish_refused", "a PUBACK or PUBREC carried a refusal: a quota or a right of the broker"},
    [BENCH_ERROR_TLS] = {"tls_failed", "the TLS handshake or a record failed: is --cafile the broker's authority?"},
};
_Static_assert(ARRAY_LEN(rows) == BENCH_ERROR_COUNT, "a row for each error");

const char *bench_error_name(bench_error error) {
    ASSERT((u32)error < BENCH_ERROR_COUNT);
    return rows[error].name;
}

const char *bench_error_advice(bench_error error) {
    ASSERT((u32)error < BENCH_ERROR_COUNT);
    return rows[error].advice;
}

bench_error bench_error_of_connect(int err) {
    switch (err < 0 ? -err : err) {
    case ECONNREFUSED: return BENCH_ERROR_CONNECT_REFUSED;
    case ETIMEDOUT: return BENCH_ERROR_CONNECT_TIMEOUT;
    case EADDRNOTAVAIL:
    case EADDRINUSE: return BENCH_ERROR_ADDR_NOT_AVAIL;
    case EMFILE:
    case ENFILE: return BENCH_ERROR_DESCRIPTORS;
    case ENOMEM:
    case ENOBUFS: return BENCH_ERROR_NO_MEMORY;
    case ECONNRESET:
    case EPIPE: return BENCH_ERROR_RESET;
    default: return BENCH_ERROR_CONNECT_FAILED;
    }
}

bench_error bench_error_of_socket(int err) {
    switch (err < 0 ? -err : err) {
    case 0: return BENCH_ERROR_CLOSED_BY_SERVER;
    case ECONNRESET:
    case EPIPE: return BENCH_ERROR_RESET;
    case ECONNREFUSED: return BENCH_ERROR_CONNECT_REFUSED;
    case ETIMEDOUT: return BENCH_ERROR_CONNECT_TIMEOUT;
    case ENOMEM:
    case ENOBUFS: return BENCH_ERROR_NO_MEMORY;
    default: return BENCH_ERROR_SOCKET;
    }
}

u64 bench_errors_total(const bench_errors *e) {
    u64 total = 0;
    for (u32 i = 0; i < BENCH_ERROR_COUNT; i++) total += e->count[i];
    return total;
}

void bench_errors_merge(bench_errors *into, const bench_errors *from) {
    for (u32 i = 0; i < BENCH_ERROR_COUNT; i++) into->count[i] += from->count[i];
}
