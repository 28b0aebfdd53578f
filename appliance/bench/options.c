// SPDX-License-Identifier: Apache-2.0
// options.c: command line of the load generator: one table, its parser and its help.
//
// Every row says which modes know the option, so that an option of another mode is refused by name
// instead of being ignored.
#include "bench/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum option_type {
    OPTION_U32,
    OPTION_I32,
    OPTION_U64,
    OPTION_RATE,
    OPTION_TIME,
    OPTION_TEXT,
    OPTION_FLAG,
    OPTION_CHOICE,
    OPTION_PID,
} option_type;

#define IN_FRAME (1u << BENCH_FRAME)
#define IN_CONN (1u << BENCH_CONN)
#define IN_STORM (1u << BENCH_STORM)
#define IN_SLOW (1u << BENCH_SLOW)
#define IN_IDLE (1u << BENCH_IDLE)
#define IN_ALL (IN_FRAME | IN_CONN | IN_STORM | IN_SLOW | IN_IDLE)
#define IN_LONG (IN_FRAME | IN_SLOW | IN_IDLE | IN_STORM)

typedef struct option_row {
    const char *name, *argument;
    option_type type;
    u32 kinds;
    size_t offset;
    double min, max;
    const char *choices; // "a|b|c", in the order of the enum
    const char *help;
} option_row;

#define AT(field) offsetof(bench_options, field)

static const option_row rows[] = {
    {"to", "ADDR:PORT", OPTION_TEXT, IN_ALL, AT(to), 0, 0, NULL,
     "framed listener; default 127.0.0.1:7000"},
    {"mode", "MODE", OPTION_CHOICE, IN_ALL, AT(mode), 0, 0, "echo|ack|publish",
     "the listener's mode; default echo"},
    {"size", "BYTES", OPTION_U32, IN_ALL, AT(size), BENCH_FRAME_BYTES_MIN, BENCH_FRAME_BYTES_MAX,
     NULL, "whole frame with its 4-byte header; default 64 (conn and storm: 32)"},
    {"conns", "N", OPTION_U32, IN_LONG, AT(conns), 1, BENCH_CONNS_MAX, NULL,
     "long connections (storm: connections of the storm)"},
    {"active", "N", OPTION_U32, IN_FRAME, AT(active), 1, BENCH_CONNS_MAX, NULL,
     "how many of them send, the rest is idle; default all"},
    {"rate", "N", OPTION_RATE, IN_FRAME | IN_CONN | IN_STORM | IN_SLOW, AT(rate), 0, BENCH_RATE_MAX,
     NULL, "messages/s over all connections (conn, storm: connections/s; storm 0: without pause)"},
    {"short", "N", OPTION_RATE, IN_FRAME, AT(short_rate), 0, BENCH_RATE_MAX, NULL,
     "short connections/s beside the long ones; default 0"},
    {"slow", "N", OPTION_U32, IN_SLOW, AT(slow), 1, BENCH_SLOW_MAX, NULL,
     "slow readers; default 10"},
    {"read-rate", "BYTES", OPTION_U64, IN_SLOW, AT(read_rate), 0, 1e12, NULL,
     "bytes/s that each slow reader reads; default 0: it never reads"},
    {"steady-conns", "N", OPTION_U32, IN_STORM, AT(steady_conns), 0, BENCH_CONNS_MAX, NULL,
     "long connections with a steady load beside the storm; default 0"},
    {"steady-rate", "N", OPTION_RATE, IN_STORM, AT(steady_rate), 0, BENCH_RATE_MAX, NULL,
     "messages/s of that steady load"},
    {"arrival", "KIND", OPTION_CHOICE, IN_FRAME | IN_CONN | IN_STORM | IN_SLOW, AT(arrival), 0, 0,
     "poisson|uniform",
     "default poisson (exponential gaps, random connection); uniform: equal gaps in turn"},
    {"close", "HOW", OPTION_CHOICE, IN_CONN | IN_STORM | IN_FRAME, AT(close), 0, 0, "fin|rst",
     "how a short connection ends: FIN (leaves TIME_WAIT here) or RST; default fin"},
    {"duration", "TIME", OPTION_TIME, IN_ALL, AT(duration_ns), 1e6, (double)BENCH_DURATION_NS_MAX,
     NULL, "length of the measured window; default 10s"},
    {"warmup", "TIME", OPTION_TIME, IN_ALL, AT(warmup_ns), 0, (double)BENCH_DURATION_NS_MAX, NULL,
     "load before the window, not measured; default 2s"},
    {"heartbeat", "TIME", OPTION_TIME, IN_LONG, AT(heartbeat_ns), 0, (double)BENCH_DURATION_NS_MAX,
     NULL, "a heartbeat of every long connection each TIME, spread evenly; default off"},
    {"drain", "TIME", OPTION_TIME, IN_ALL, AT(drain_ns), 0, (double)BENCH_DURATION_NS_MAX, NULL,
     "wait for missing replies at the end; default 2s"},
    {"timeout", "TIME", OPTION_TIME, IN_ALL, AT(timeout_ns), 1e6, (double)BENCH_DURATION_NS_MAX,
     NULL, "a short connection, or the set-up of a long one, fails after TIME; default 5s"},
    {"connect-rate", "N", OPTION_RATE, IN_LONG, AT(connect_rate), 1, BENCH_RATE_MAX, NULL,
     "long connections opened per second during set-up; default 5000"},
    {"src-addrs", "N", OPTION_U32, IN_ALL, AT(src_addrs), 1, BENCH_SOURCES_MAX, NULL,
     "source addresses (127.64.0.1 and up), loopback targets only; default: as many as needed"},
    {"rcvbuf", "BYTES", OPTION_U32, IN_ALL, AT(rcvbuf), 0, 1e9, NULL,
     "SO_RCVBUF of the generator's sockets (slow: of the slow readers'; default 16k); default "
     "kernel's"},
    {"id-prefix", "TEXT", OPTION_TEXT, IN_ALL, AT(id_prefix), 0, 0, NULL,
     "publish: device ids are TEXT0, TEXT1, ...; default bench-"},
    {"token", "TEXT", OPTION_TEXT, IN_ALL, AT(token), 0, 0, NULL,
     "publish: token of the hello; default empty"},
    {"seed", "N", OPTION_U64, IN_ALL, AT(seed), 0, 1e18, NULL, "of the schedule; default 1"},
    {"engine", "E", OPTION_CHOICE, IN_ALL, AT(engine), 0, 0, "auto|uring|epoll",
     "the generator's own; default auto"},
    {"wait", "HOW", OPTION_CHOICE, IN_ALL, AT(wait), 0, 0, "auto|spin|sleep",
     "spin uses a whole CPU, sends exactly on time and is never asleep when a reply comes, so that "
     "the server does not pay for waking it; auto: spin with 2 CPUs or more, else sleep"},
    {"tick", "TIME", OPTION_TIME, IN_FRAME | IN_CONN | IN_SLOW | IN_STORM, AT(tick_ns), 0, 1e7,
     NULL,
     "due times are rounded up to multiples of it, and what is due together is sent in one system "
     "call. Default 0 when spinning: each message at its own time, measured to cost neither side "
     "more than ticks of 20 to 100us, which arrive as small bursts; 100us when sleeping, since "
     "timers are dear"},
    {"pin", "CPU", OPTION_I32, IN_ALL, AT(pin_cpu), 0, 4095, NULL, "run the generator on that CPU"},
    {"pid", "PID", OPTION_PID, IN_ALL, AT(pids), 0, 0, NULL,
     "server process to observe, repeatable; auto (default): who listens there; none"},
    {"syscalls", "TIME", OPTION_TIME, IN_FRAME | IN_CONN | IN_SLOW, AT(syscalls_ns), 0, 6e10, NULL,
     "extra window after the measured one in which the server's system calls are counted; default "
     "1s, 0: no"},
    {"find-max", NULL, OPTION_FLAG, IN_FRAME | IN_CONN, AT(find_max), 0, 0, NULL,
     "search the highest rate with p99 under --p99, starting at --rate"},
    {"p99", "TIME", OPTION_TIME, IN_FRAME | IN_CONN, AT(p99_limit_ns), 1e3, 6e10, NULL,
     "that limit; default 5ms"},
    {"lag-limit", "TIME", OPTION_TIME, IN_ALL, AT(lag_limit_ns), 1e3, 6e10, NULL,
     "the run is invalid when the generator's own p99 lag is above; default: the larger of 250us "
     "and a quarter of the latency's p99"},
    {"json", NULL, OPTION_FLAG, IN_ALL, AT(json), 0, 0, NULL,
     "the result as JSON on stdout, progress on stderr"},
    {"out", "FILE", OPTION_TEXT, IN_ALL, AT(out), 0, 0, NULL, "the JSON into FILE as well"},
    {"verbose", NULL, OPTION_FLAG, IN_ALL, AT(verbose), 0, 0, NULL,
     "a table of the server's threads"},
};

const char *bench_kind_name(bench_kind kind) {
    static const char *const names[] = {"frame", "conn", "storm", "slow", "idle"};
    _Static_assert(ARRAY_LEN(names) == BENCH_KINDS, "a name for each mode");
    return names[kind];
}

const char *bench_mode_name(u32 mode) {
    static const char *const names[] = {"echo", "ack", "publish"};
    return names[mode];
}

void bench_options_default(bench_options *o, bench_kind kind) {
    *o = (bench_options){
        .kind = kind,
        .to = "127.0.0.1:7000",
        .size = kind == BENCH_CONN || kind == BENCH_STORM ? 32 : 64,
        .conns = 1000,
        .rate = kind == BENCH_CONN    ? 1000
                : kind == BENCH_STORM ? 0
                                      : 10000,
        .slow = 10,
        .duration_ns = 10 * NS_PER_S,
        .warmup_ns = 2 * NS_PER_S,
        .drain_ns = 2 * NS_PER_S,
        .timeout_ns = 5 * NS_PER_S,
        .tick_ns = BENCH_TICK_AUTO,
        .connect_rate = 5000,
        .rcvbuf = kind == BENCH_SLOW ? 16384 : 0,
        .id_prefix = "bench-",
        .token = "",
        .seed = 1,
        .pin_cpu = -1,
        .syscalls_ns = NS_PER_S,
        .p99_limit_ns = 5 * NS_PER_MS,
    };
}

static int number_with_unit(const char *text, double *value, const char **unit) {
    char *end;
    errno = 0;
    *value = strtod(text, &end);
    if (end == text || errno != 0 || !(*value >= 0) || *value > 1e18) return -EINVAL;
    *unit = end;
    return 0;
}

int bench_parse_number(const char *text, double *out) {
    const char *unit;
    if (number_with_unit(text, out, &unit) != 0) return -EINVAL;
    if (unit[0] == 0) return 0;
    if (unit[1] != 0) return -EINVAL;
    switch (unit[0]) {
    case 'k': *out *= 1e3; return 0;
    case 'm': *out *= 1e6; return 0;
    default: return -EINVAL;
    }
}

int bench_parse_time_ns(const char *text, u64 *out) {
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6},  {"s", 1e9},
                 {"", 1e9}, {"m", 60e9}, {"h", 3600e9}};
    double value;
    const char *unit;
    if (number_with_unit(text, &value, &unit) != 0) return -EINVAL;
    for (u32 i = 0; i < ARRAY_LEN(units); i++) {
        if (strcmp(unit, units[i].unit) != 0) continue;
        value *= units[i].ns;
        if (value > 1e18) return -EINVAL;
        *out = (u64)(value + 0.5);
        return 0;
    }
    return -EINVAL;
}

// Index of text in "a|b|c", or -EINVAL.
static int choice_index(const char *choices, const char *text) {
    size_t n = strlen(text);
    const char *p = choices;
    for (int i = 0;; i++) {
        size_t len = strcspn(p, "|");
        if (n == len && n > 0 && memcmp(p, text, n) == 0) return i;
        if (p[len] == 0) return -EINVAL;
        p += len + 1;
    }
}

static int complain(const option_row *row, const char *text, const char *allowed) {
    fprintf(stderr, "sluice bench: --%s: \"%s\" is not allowed; allowed: %s\n", row->name, text,
            allowed);
    return -EINVAL;
}

static int pid_add(bench_options *o, const option_row *row, const char *text) {
    if (strcmp(text, "auto") == 0) return 0;
    if (strcmp(text, "none") == 0) {
        o->pid_none = true;
        return 0;
    }
    char *end;
    unsigned long pid = strtoul(text, &end, 10);
    if (*end != 0 || pid == 0 || pid > INT32_MAX)
        return complain(row, text, "a process id, auto, none");
    if (o->pid_count == BENCH_PIDS_MAX) return complain(row, text, "at most 16 processes");
    o->pids[o->pid_count++] = (u32)pid;
    return 0;
}

static int number_store(void *at, const option_row *row, const char *text) {
    double value = 0;
    u64 ns = 0;
    bool time = row->type == OPTION_TIME;
    int rc = time ? bench_parse_time_ns(text, &ns) : bench_parse_number(text, &value);
    if (time) value = (double)ns;
    bool whole = time || row->type == OPTION_RATE || value == (double)(u64)value;
    if (rc != 0 || !whole || value < row->min || value > row->max) {
        char allowed[96];
        if (time) {
            snprintf(allowed, sizeof(allowed), "%g us to %g s (units ns, us, ms, s, m, h)",
                     row->min / 1e3, row->max / 1e9);
        } else {
            snprintf(allowed, sizeof(allowed), "%.0f to %.0f (k = 1,000, m = 1,000,000)", row->min,
                     row->max);
        }
        return complain(row, text, allowed);
    }
    switch (row->type) {
    case OPTION_U32: *(u32 *)at = (u32)value; return 0;
    case OPTION_I32: *(i32 *)at = (i32)value; return 0;
    case OPTION_RATE: *(double *)at = value; return 0;
    default: *(u64 *)at = time ? ns : (u64)value; return 0;
    }
}

static int option_store(bench_options *o, const option_row *row, const char *text) {
    void *at = (char *)o + row->offset;
    switch (row->type) {
    case OPTION_FLAG: *(bool *)at = true; return 0;
    case OPTION_TEXT: *(const char **)at = text; return 0;
    case OPTION_PID: return pid_add(o, row, text);
    case OPTION_CHOICE: {
        int index = choice_index(row->choices, text);
        if (index < 0) return complain(row, text, row->choices);
        *(u32 *)at = (u32)index;
        return 0;
    }
    default: return number_store(at, row, text);
    }
}

static const option_row *row_find(const char *name, size_t len) {
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        if (strlen(rows[i].name) == len && memcmp(rows[i].name, name, len) == 0) return &rows[i];
    }
    return NULL;
}

static int relations_check(bench_options *o) {
    if (o->active == 0 || o->active > o->conns) {
        if (o->active > o->conns) {
            fprintf(stderr, "sluice bench: --active %u is more than --conns %u\n", o->active,
                    o->conns);
            return -EINVAL;
        }
        o->active = o->conns;
    }
    if (o->steady_rate > 0 && o->steady_conns == 0) {
        fprintf(stderr, "sluice bench: --steady-rate needs --steady-conns\n");
        return -EINVAL;
    }
    if (o->find_max && o->rate <= 0) {
        fprintf(stderr, "sluice bench: --find-max needs a --rate above 0 to start at\n");
        return -EINVAL;
    }
    if (o->kind == BENCH_CONN && o->rate <= 0) {
        fprintf(stderr, "sluice bench: conn needs a --rate above 0\n");
        return -EINVAL;
    }
    return 0;
}

int bench_options_parse(bench_options *o, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            bench_options_help(o->kind);
            return 1;
        }
        if (strncmp(arg, "--", 2) != 0) {
            fprintf(stderr, "sluice bench: \"%s\" is not an option; see --help\n", arg);
            return -EINVAL;
        }
        size_t len = strcspn(arg + 2, "=");
        const option_row *row = row_find(arg + 2, len);
        if (row == NULL || (row->kinds & (1u << o->kind)) == 0) {
            fprintf(stderr, "sluice bench %s: %s option %s; see `sluice bench %s --help`\n",
                    bench_kind_name(o->kind), row == NULL ? "unknown" : "does not have the", arg,
                    bench_kind_name(o->kind));
            return -EINVAL;
        }
        const char *text = arg[2 + len] == '=' ? arg + 3 + len : NULL;
        if (row->type == OPTION_FLAG && text != NULL) return complain(row, text, "no value");
        if (row->type != OPTION_FLAG && text == NULL) {
            if (i + 1 == argc) return complain(row, "", row->argument);
            text = argv[++i];
        }
        if (option_store(o, row, text) != 0) return -EINVAL;
    }
    return relations_check(o);
}

// Prints text in lines of at most 100 columns, continued at the given indentation.
static void print_wrapped(const char *text, int indent) {
    int at = indent;
    while (*text != 0) {
        int word = (int)strcspn(text, " ");
        if (at + word > 98 && at > indent) {
            printf("\n%*s", indent, "");
            at = indent;
        }
        printf("%.*s ", word, text);
        at += word + 1;
        text += word;
        while (*text == ' ') text++;
    }
    printf("\n");
}

void bench_options_help(bench_kind kind) {
    static const char *const what[] = {
        "long connections that send frames on a fixed schedule and wait for the replies",
        "short connections: connect, one frame, its reply, close",
        "a connection storm: time until all are served, and the delay of each first reply",
        "readers that do not read, beside normal connections: what the server does about them",
        "idle connections: the server's memory for each",
    };
    printf("usage: sluice bench %s [options]\n\n%s\n\n", bench_kind_name(kind), what[kind]);
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        const option_row *row = &rows[i];
        if ((row->kinds & (1u << kind)) == 0) continue;
        char head[64];
        snprintf(head, sizeof(head), "--%s %s", row->name, row->argument ? row->argument : "");
        printf("  %-22s ", head);
        if (row->choices != NULL) {
            printf("%s\n%25s", row->choices, "");
        }
        print_wrapped(row->help, 25);
    }
    printf("\nNumbers take k and m (1,000 and 1,000,000); times ns, us, ms, s, m, h.\n"
           "Exit status: 0 measured without errors; 1 errors were counted or the run is invalid; 2 "
           "usage.\n");
}
