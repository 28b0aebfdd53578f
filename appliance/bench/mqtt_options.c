// SPDX-License-Identifier: Apache-2.0
// mqtt_options.c: command line of `sluice bench mqtt`: one table, its parser and its help. A row
// says which scenarios know the option, so that one of another scenario is refused by name.
#include "bench/mqtt_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/options.h"

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

#define IN(kind) (1u << (kind))
#define IN_ALL (IN(MQ_KINDS) - 1)
#define IN_LOAD (IN(MQ_FAN_IN) | IN(MQ_FAN_OUT) | IN(MQ_PAIRS) | IN(MQ_SHARED))
#define IN_MESSAGES (IN_LOAD | IN(MQ_RETAINED))
#define IN_PUBLISH (IN_MESSAGES | IN(MQ_INGEST))

typedef struct option_row {
    const char *name, *argument;
    option_type type;
    u32 kinds;
    size_t offset;
    double min, max;
    const char *choices; // "a|b|c": the index is stored
    const char *help;
} option_row;

#define AT(field) offsetof(mq_options, field)

static const option_row rows[] = {
    {"to", "ADDR:PORT", OPTION_TEXT, IN_ALL, AT(to), 0, 0, NULL, "default 127.0.0.1:1883"},
    {"version", "V", OPTION_CHOICE, IN_ALL, AT(version), 0, 0, "3.1.1|5.0", "default 3.1.1"},
    {"pubs", "N", OPTION_U32, IN_PUBLISH & ~IN(MQ_PAIRS), AT(pubs), 1, BENCH_CONNS_MAX, NULL,
     "publishers; default 100 (fan-out 5, retained 10)"},
    {"subs", "N", OPTION_U32, IN_MESSAGES & ~IN(MQ_PAIRS), AT(subs), 1, BENCH_CONNS_MAX, NULL,
     "subscribers; default 1 (fan-out 500, shared 10, retained 1)"},
    {"pairs", "N", OPTION_U32, IN(MQ_PAIRS), AT(pubs), 1, BENCH_CONNS_MAX, NULL,
     "pairs of one publisher and one subscriber; default 1000"},
    {"groups", "N", OPTION_U32, IN(MQ_SHARED), AT(groups), 1, MQ_GROUPS_MAX, NULL,
     "shared subscriptions, the subscribers being dealt out among them; default 1"},
    {"stalled", "N", OPTION_U32, IN_LOAD, AT(stalled), 0, MQ_STALLED_MAX, NULL,
     "further subscribers of everything that stop reading once they are subscribed; default 0"},
    {"conns", "N", OPTION_U32, IN(MQ_IDLE) | IN(MQ_STORM), AT(conns), 0, BENCH_CONNS_MAX, NULL,
     "connections (storm 0: for --duration; default 1000, storm 0)"},
    {"filters", "N", OPTION_U32, IN(MQ_IDLE), AT(filters), 0, 1000, NULL,
     "subscriptions of each idle connection; default 0"},
    {"at-once", "N", OPTION_U32, IN(MQ_STORM), AT(at_once), 1, MQ_AT_ONCE_MAX, NULL,
     "handshakes in progress at most; default 100"},
    {"hold", NULL, OPTION_FLAG, IN(MQ_STORM), AT(hold), 0, 0, NULL,
     "connections stay open until all are served; memory afterwards is reported"},
    {"messages", "N", OPTION_U32, IN(MQ_RETAINED), AT(messages), 1, MQ_RETAINED_MAX, NULL,
     "retained messages, one topic each; default 10000"},
    {"keep", NULL, OPTION_FLAG, IN(MQ_RETAINED), AT(keep), 0, 0, NULL,
     "leave them in the broker"},
    {"rate", "N", OPTION_RATE, IN_LOAD | IN(MQ_STORM) | IN(MQ_INGEST), AT(rate), 0, BENCH_RATE_MAX, NULL,
     "messages published per second, all publishers (storm: connections, 0 = without pause; ingest: "
     "0 = the next one when one is acknowledged)"},
    {"burst", "N", OPTION_U32, IN_LOAD, AT(burst), 1, MQ_BURST_MAX, NULL,
     "messages of one publisher due at once; --rate stays the rate of messages; default 1"},
    {"size", "BYTES", OPTION_U32, IN_PUBLISH, AT(size), MQ_PAYLOAD_BYTES_MIN,
     MQ_PAYLOAD_BYTES_MAX, NULL, "payload; default 64"},
    {"qos", "Q", OPTION_CHOICE, IN_PUBLISH, AT(qos), 0, 0, "0|1|2", "of publications; default 0 (ingest 1)"},
    {"sub-qos", "Q", OPTION_CHOICE, IN_MESSAGES | IN(MQ_IDLE), AT(sub_qos), 0, 0, "0|1|2",
     "of subscriptions; default --qos"},
    {"inflight", "N", OPTION_U32, IN_PUBLISH, AT(inflight), 1, MQ_INFLIGHT_MAX, NULL,
     "QoS 1 and 2: unacknowledged messages of a publisher, or the broker's receive maximum if "
     "that is less; what is due beyond waits, and its latency counts on; default 1000 (ingest 1)"},
    {"arrival", "KIND", OPTION_CHOICE, IN_LOAD | IN(MQ_STORM) | IN(MQ_INGEST), AT(arrival), 0, 0,
     "poisson|uniform",
     "default poisson (exponential gaps, random publisher); uniform: equal gaps, in turn"},
    {"duration", "TIME", OPTION_TIME, IN_ALL, AT(duration_ns), 1e6, (double)BENCH_DURATION_NS_MAX,
     NULL, "length of the measured window; default 10s"},
    {"warmup", "TIME", OPTION_TIME, IN_LOAD | IN(MQ_INGEST), AT(warmup_ns), 0, (double)BENCH_DURATION_NS_MAX, NULL,
     "load before the window, verified but not measured; default 2s"},
    {"drain", "TIME", OPTION_TIME, IN_ALL, AT(drain_ns), 0, (double)BENCH_DURATION_NS_MAX, NULL,
     "wait for missing messages at the end; default 5s"},
    {"timeout", "TIME", OPTION_TIME, IN_ALL, AT(timeout_ns), 1e6, (double)BENCH_DURATION_NS_MAX,
     NULL, "a handshake, or a retained flood, fails after TIME without progress; default 10s"},
    {"connect-rate", "N", OPTION_RATE, IN_ALL & ~IN(MQ_STORM), AT(connect_rate), 1, BENCH_RATE_MAX,
     NULL, "connections opened per second during set-up; default 5000"},
    {"keepalive", "TIME", OPTION_TIME, IN_ALL & ~IN(MQ_STORM), AT(keepalive_ns), 0, 65535e9, NULL,
     "in CONNECT; every connection then sends PINGREQ at two thirds of it; default 0: none"},
    {"prefix", "TOPIC", OPTION_TEXT, IN_ALL, AT(prefix), 0, 0, NULL,
     "topics are TOPIC/...; default bench/PID/RUN, so that runs never mix"},
    {"id-prefix", "TEXT", OPTION_TEXT, IN_ALL, AT(id_prefix), 0, 0, NULL,
     "client ids are TEXTPID-RUN-0, TEXTPID-RUN-1, ...; default bench-"},
    {"cafile", "FILE", OPTION_TEXT, IN_ALL, AT(tls_ca), 0, 0, NULL,
     "over TLS; the broker's certificate must come from an authority in FILE (PEM), its name is not looked at"},
    {"cert", "FILE", OPTION_TEXT, IN_ALL, AT(tls_cert), 0, 0, NULL, "certificate of all clients (PEM)"},
    {"key", "FILE", OPTION_TEXT, IN_ALL, AT(tls_key), 0, 0, NULL, "its key; default: in --cert"},
    {"resume", NULL, OPTION_FLAG, IN(MQ_STORM), AT(tls_resume), 0, 0, NULL,
     "a client that connects again resumes its TLS session, by session id"},
    {"user", "NAME", OPTION_TEXT, IN_ALL, AT(user), 0, 0, NULL, "user name"},
    {"password", "TEXT", OPTION_TEXT, IN_ALL, AT(password), 0, 0, NULL, "password"},
    {"src-addrs", "N", OPTION_U32, IN_ALL, AT(src_addrs), 1, BENCH_SOURCES_MAX, NULL,
     "source addresses (127.64.0.1 and up), loopback targets only; default: as many as needed"},
    {"seed", "N", OPTION_U64, IN_ALL, AT(seed), 0, 1e18, NULL, "of the schedule; default 1"},
    {"engine", "E", OPTION_CHOICE, IN_ALL, AT(engine), 0, 0, "auto|uring|epoll",
     "the generator's own; default auto"},
    {"wait", "HOW", OPTION_CHOICE, IN_ALL, AT(wait), 0, 0, "auto|spin|sleep",
     "spin uses a whole CPU and is never late; auto: spin with 2 CPUs or more, else sleep"},
    {"pin", "CPU", OPTION_I32, IN_ALL, AT(pin_cpu), 0, 4095, NULL, "run the generator on that CPU"},
    {"pid", "PID", OPTION_PID, IN_ALL, AT(pids), 0, 0, NULL,
     "broker process to observe, repeatable; auto (default): who listens there; none"},
    {"find-max", NULL, OPTION_FLAG, IN_LOAD, AT(find_max), 0, 0, NULL,
     "search the highest rate with p99 under --p99 and nothing lost, starting at --rate"},
    {"p99", "TIME", OPTION_TIME, IN_LOAD, AT(p99_limit_ns), 1e3, 6e10, NULL,
     "that limit; default 50ms"},
    {"lag-limit", "TIME", OPTION_TIME, IN_LOAD | IN(MQ_INGEST), AT(lag_limit_ns), 1e3, 6e10, NULL,
     "the run is invalid when the generator's own p99 lag is above; default: the larger of 250us "
     "and a quarter of the latency's p99"},
    {"json", NULL, OPTION_FLAG, IN_ALL, AT(json), 0, 0, NULL,
     "the result as JSON on stdout, progress on stderr"},
    {"out", "FILE", OPTION_TEXT, IN_ALL, AT(out), 0, 0, NULL, "the JSON into FILE as well"},
    {"verbose", NULL, OPTION_FLAG, IN_ALL, AT(verbose), 0, 0, NULL,
     "a table of the broker's threads"},
};

const char *mq_kind_name(mq_kind kind) {
    static const char *const names[] = {"idle",  "storm",  "fan-in",  "fan-out",
                                        "pairs", "shared", "retained", "ingest"};
    _Static_assert(ARRAY_LEN(names) == MQ_KINDS, "a name for each scenario");
    return names[kind];
}

void mq_options_default(mq_options *o, mq_kind kind) {
    static const struct {
        u32 pubs, subs;
        double rate;
    } by_kind[MQ_KINDS] = {
        [MQ_FAN_IN] = {100, 1, 20000},
        [MQ_FAN_OUT] = {5, 500, 100},
        [MQ_PAIRS] = {1000, 0, 10000},
        [MQ_SHARED] = {100, 10, 20000},
        [MQ_RETAINED] = {10, 1, 0},
        [MQ_INGEST] = {100, 0, 0},
    };
    *o = (mq_options){
        .kind = kind,
        .to = "127.0.0.1:1883",
        .qos = kind == MQ_INGEST ? 1 : 0,
        .sub_qos = UINT32_MAX,
        .pubs = by_kind[kind].pubs,
        .subs = by_kind[kind].subs,
        .rate = by_kind[kind].rate,
        .groups = 1,
        .conns = kind == MQ_IDLE ? 1000 : 0,
        .at_once = 100,
        .messages = 10000,
        .burst = 1,
        .size = 64,
        .inflight = kind == MQ_INGEST ? 1 : 1000,
        .duration_ns = 10 * NS_PER_S,
        .warmup_ns = 2 * NS_PER_S,
        .drain_ns = 5 * NS_PER_S,
        .timeout_ns = 10 * NS_PER_S,
        .p99_limit_ns = 50 * NS_PER_MS,
        .connect_rate = 5000,
        .id_prefix = "bench-",
        .seed = 1,
        .pin_cpu = -1,
    };
}

static int complain(const option_row *row, const char *text, const char *allowed) {
    fprintf(stderr, "sluice bench mqtt: --%s: \"%s\" is not allowed; allowed: %s\n", row->name,
            text, allowed);
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

static int pid_add(mq_options *o, const option_row *row, const char *text) {
    if (strcmp(text, "auto") == 0) return 0;
    if (strcmp(text, "none") == 0) {
        o->pid_none = true;
        return 0;
    }
    char *end;
    unsigned long pid = strtoul(text, &end, 10);
    if (*end != 0 || pid == 0 || pid > INT32_MAX) {
        return complain(row, text, "a process id, auto, none");
    }
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

static int option_store(mq_options *o, const option_row *row, const char *text) {
    void *at = (char *)o + row->offset;
    switch (row->type) {
    case OPTION_FLAG: *(bool *)at = true; return 0;
    case OPTION_TEXT:
        if (strlen(text) > MQ_TEXT_BYTES_MAX) return complain(row, text, "at most 1024 bytes");
        *(const char **)at = text;
        return 0;
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

static int fail(const char *text) {
    fprintf(stderr, "sluice bench mqtt: %s\n", text);
    return -EINVAL;
}

static int relations_check(mq_options *o) {
    if (o->sub_qos == UINT32_MAX) o->sub_qos = o->qos;
    if (o->kind == MQ_PAIRS) o->subs = o->pubs;
    if (o->groups > o->subs && o->kind == MQ_SHARED) return fail("--groups is more than --subs");
    u64 tracks = (u64)o->pubs * (o->kind == MQ_PAIRS ? 1 : o->subs);
    if (tracks > MQ_TRACKS_MAX) return fail("--pubs times --subs is more than 67,108,864");
    bool load = (IN_LOAD & IN(o->kind)) != 0;
    if (load && o->rate <= 0) return fail("a --rate above 0 is needed");
    if (o->kind == MQ_STORM && o->hold && o->conns == 0) return fail("--hold needs --conns");
    if (o->kind == MQ_INGEST && o->qos == 0) return fail("ingest waits for acknowledgements: --qos 1 or 2");
    if (o->tls_ca == NULL && (o->tls_cert != NULL || o->tls_resume)) return fail("--cert and --resume need --cafile");
    if (o->tls_ca != NULL && o->stalled > 0) return fail("--stalled has no TLS");
    if (o->kind == MQ_IDLE && o->conns == 0) return fail("--conns 0 measures nothing");
    if (o->password != NULL && o->user == NULL && o->version == 0) {
        return fail("--password without --user exists in 5.0 only");
    }
    if (o->prefix != NULL) {
        size_t n = strlen(o->prefix);
        if (n == 0 || n > MQ_PREFIX_BYTES_MAX || strpbrk(o->prefix, "+#") != NULL) {
            return fail("--prefix: allowed: 1 to 200 bytes without + and #");
        }
    }
    return 0;
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

static void help_print(mq_kind kind) {
    static const char *const what[MQ_KINDS] = {
        "idle connections: the broker's memory for each",
        "a connection storm: connect, CONNACK, disconnect, --at-once at a time",
        "many publishers, few subscribers, each of which gets everything",
        "few publishers, many subscribers, each of which gets everything",
        "pairs of one publisher and one subscriber with a topic of their own",
        "publishers, and subscribers that share a subscription: each message to one of a group",
        "a flood of retained messages: stored first, then delivered to each new subscriber",
        "publishers alone, each with --inflight messages on their way: how fast and when they are acknowledged",
    };
    printf("usage: sluice bench mqtt %s [options]\n\n%s\n\n", mq_kind_name(kind), what[kind]);
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        const option_row *row = &rows[i];
        if ((row->kinds & IN(kind)) == 0) continue;
        char head[64];
        snprintf(head, sizeof(head), "--%s %s", row->name, row->argument ? row->argument : "");
        printf("  %-22s ", head);
        if (row->choices != NULL) printf("%s\n%25s", row->choices, "");
        print_wrapped(row->help, 25);
    }
    printf("\nNumbers take k and m (1,000 and 1,000,000); times ns, us, ms, s, m, h.\n");
}

static const option_row *row_find(const char *name, size_t len) {
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        if (strlen(rows[i].name) == len && memcmp(rows[i].name, name, len) == 0) return &rows[i];
    }
    return NULL;
}

int mq_options_parse(mq_options *o, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            help_print(o->kind);
            return 1;
        }
        if (strncmp(arg, "--", 2) != 0) {
            fprintf(stderr, "sluice bench mqtt: \"%s\" is not an option; see --help\n", arg);
            return -EINVAL;
        }
        size_t len = strcspn(arg + 2, "=");
        const option_row *row = row_find(arg + 2, len);
        if (row == NULL || (row->kinds & IN(o->kind)) == 0) {
            fprintf(stderr,
                    "sluice bench mqtt %s: %s option %s; see `sluice bench mqtt %s --help`\n",
                    mq_kind_name(o->kind), row == NULL ? "unknown" : "does not have the", arg,
                    mq_kind_name(o->kind));
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
