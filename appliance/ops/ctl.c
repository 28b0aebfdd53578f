// SPDX-License-Identifier: Apache-2.0
// ctl.c: see ctl.h. The command line, made into one request of the admin API; what comes back is printed as tables
// (ctl_print.c) or given out as it is.
//
// Invariant: with --json stdout carries the API's answer and nothing else; messages go to stderr.
#include "ops/ctl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auth/policy.h"
#include "conf/config.h"
#include "ops/ctl_appliance.h"
#include "ops/ctl_client.h"
#include "ops/ctl_net.h"
#include "ops/ctl_print.h"
#include "ops/ctl_streams.h"
#include "ops/ctl_update.h"
#include "ops/text.h"

#define ANSWER_BYTES_MAX (16u << 20) // 10,000 connections take 4 MiB
#define LINE_BYTES_MAX 4096u

static const char usage[] =
    "usage: sluice ctl [-c FILE | --socket PATH | --addr HOST:PORT] COMMAND [options]\n"
    "\n"
    "  status                       what runs, workers, listeners, memory\n"
    "  conns [filters]              device connections: --listener NAME, --client ID, --peer ADDR[/BITS],\n"
    "                               --state NAME, --slow any|REASON, --sort KEY, --order asc|desc, --limit N,\n"
    "                               --offset N, --admin\n"
    "  sessions [filters]           MQTT sessions: --client ID, --state online|away, --limit N, --offset N\n"
    "  subs [filters]               subscriptions: --filter TEXT, --client ID, --limit N, --offset N\n"
    "  retained [filters]           retained messages: --topic TEXT, --limit N, --offset N\n"
    "  streams [NAME]               streams, or one with its partitions and consumers\n"
    "  streams read NAME            its messages: --from WHERE, --limit N, --wait TIME, --follow, --partition N\n"
    "  streams forget NAME CONSUMER a named consumer's place\n"
    "  uplinks                      remote brokers: state, backlog, drops, last error, on each worker\n"
    "  tls                          certificates of the listeners, and when they end\n"
    "  conn ID                      one connection: state, queues, timers, last events\n"
    "  kick ID                      end a connection\n"
    "  trace [--follow]             what the engines do, like strace: --conn ID, --peer ADDR[/BITS], --worker N\n"
    "  log [--follow]               the last lines of the log: --level error|warn|info|debug\n"
    "  publish TOPIC [PAYLOAD|-]    a message to devices; - reads it from standard input\n"
    "  reload                       read the configuration again\n"
    "  config                       the configuration in force; of an appliance with the source of each key\n"
    "  update [FILE|URL|confirm|abort]  of an appliance: its state, a new system (--allow-downgrade, --no-restart)\n"
    "  appliance [clock|log|pstore] of an appliance: machine, clock, watchdog, disks; restart, poweroff\n"
    "  net                          of an appliance: interfaces, addresses, queues and interrupts\n"
    "  metrics                      all counters\n"
    "\n"
    "  --json                       the API's own answer instead of a table\n"
    "  --socket PATH                the gateway's control socket; without it ctl_socket of -c FILE, or\n"
    "                               ./sluice-data/ctl.sock\n"
    "  --addr HOST:PORT             its admin port instead\n"
    "  --token-file FILE            with the admin port's token\n"
    "\n"
    "Exit status: 0 done; 1 the gateway can or will not; 2 wrong command line; 3 no gateway there;\n"
    "4 no complete answer.\n";

// Options that become query parameters of the same name.
typedef enum option_id {
    OPT_LISTENER,
    OPT_CLIENT,
    OPT_PEER,
    OPT_STATE,
    OPT_SLOW,
    OPT_SORT,
    OPT_ORDER,
    OPT_LIMIT,
    OPT_OFFSET,
    OPT_ADMIN,
    OPT_CONN,
    OPT_WORKER,
    OPT_FOLLOW,
    OPT_LEVEL,
    OPT_FILTER,
    OPT_TOPIC,
    OPT_ALLOW_DOWNGRADE,
    OPT_NO_RESTART,
    OPT_FROM,
    OPT_WAIT,
    OPT_PARTITION,
    OPTIONS
} option_id;

static const struct {
    const char *name;
    bool flag; // takes no value
} options[OPTIONS] = {
    [OPT_LISTENER] = {"listener", false}, [OPT_PEER] = {"peer", false},     [OPT_STATE] = {"state", false},
    [OPT_SLOW] = {"slow", false},         [OPT_SORT] = {"sort", false},     [OPT_ORDER] = {"order", false},
    [OPT_LIMIT] = {"limit", false},       [OPT_OFFSET] = {"offset", false}, [OPT_ADMIN] = {"admin", true},
    [OPT_CONN] = {"conn", false},         [OPT_WORKER] = {"worker", false}, [OPT_FOLLOW] = {"follow", true},
    [OPT_FILTER] = {"filter", false},     [OPT_TOPIC] = {"topic", false},
    [OPT_LEVEL] = {"level", false},       [OPT_CLIENT] = {"client", false},
    [OPT_FROM] = {"from", false},         [OPT_WAIT] = {"wait", false},     [OPT_PARTITION] = {"partition", false},
    [OPT_ALLOW_DOWNGRADE] = {"allow-downgrade", true}, [OPT_NO_RESTART] = {"no-restart", true},
};
#define BIT(option) (1u << (option))

typedef struct ctl_args {
    const struct command *command;
    const char *words[4]; // what is no option: command and its operands
    int word_count;
    const char *values[OPTIONS];
    const char *config_file, *socket, *addr, *token_file;
    bool json;
} ctl_args;

typedef struct command {
    const char *name;
    int operands_min, operands_max;
    u32 options;
    int (*run)(const ctl_target *target, const ctl_args *args);
} command;

// --- requests ---

static int wrong(const char *format, ...) PRINTF_LIKE(1, 2);

// Appends value with everything encoded that has a meaning in a query.
static void put_encoded(text *out, const char *value) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/:";
    for (; *value != '\0'; value++) {
        if (strchr(plain, *value) != NULL) text_append(out, value, 1);
        else text_printf(out, "%%%02X", (u8)*value);
    }
}

static text path_make(const char *path, const ctl_args *args) {
    text out = text_make(LIMIT_HTTP_URL_BYTES);
    const char *separator = "?";
    text_puts(&out, path);
    for (u32 i = 0; i < OPTIONS; i++) {
        if (args->values[i] == NULL) continue;
        text_printf(&out, "%s%s=", separator, options[i].name);
        put_encoded(&out, args->values[i]);
        separator = "&";
    }
    return out;
}

static int call(const ctl_target *target, ctl_call *c, const text *path) {
    if (path->failed) {
        fprintf(stderr, "sluice ctl: the arguments are too long\n");
        return CTL_USAGE;
    }
    c->path = path->data;
    return ctl_call_run(target, c);
}

static bool part_collect(void *context, const char *bytes, size_t len) {
    text_append(context, bytes, len);
    return !((text *)context)->failed;
}

static bool part_print(void *context, const char *bytes, size_t len) {
    (void)context;
    return fwrite(bytes, 1, len, stdout) == len && fflush(stdout) == 0;
}

static int print_answer(const text *answer, bool json, void (*print)(yyjson_val *root)) {
    if (answer->failed) {
        fprintf(stderr, "sluice ctl: the answer is too large\n");
        return CTL_BROKEN;
    }
    if (json || print == NULL) {
        fwrite(answer->data, 1, answer->len, stdout);
        return CTL_OK;
    }
    yyjson_doc *doc = yyjson_read(answer->data, answer->len, 0);
    if (doc != NULL) print(yyjson_doc_get_root(doc));
    else fprintf(stderr, "sluice ctl: the answer is not JSON\n");
    yyjson_doc_free(doc);
    return doc != NULL ? CTL_OK : CTL_BROKEN;
}

// Asks and prints: the answer as it is, or what print makes of its JSON.
static int ask(const ctl_target *target, const ctl_args *args, const char *method, const char *path_text,
               void (*print)(yyjson_val *root)) {
    text answer = text_make(ANSWER_BYTES_MAX), path = path_make(path_text, args);
    ctl_call c = {.method = method, .body_part = part_collect, .context = &answer};
    int status = call(target, &c, &path);
    if (status == CTL_OK) status = print_answer(&answer, args->json, print);
    text_free(&answer);
    text_free(&path);
    return status;
}

// --- commands ---

static int run_status(const ctl_target *target, const ctl_args *args) {
    return ask(target, args, "GET", "/api/status", ctl_print_status);
}

static int run_conns(const ctl_target *target, const ctl_args *args) {
    return ask(target, args, "GET", "/api/conns", ctl_print_conns);
}

static int run_uplinks(const ctl_target *target, const ctl_args *args) {
    return ask(target, args, "GET", "/api/uplinks", ctl_print_uplinks);
}

static int run_tls(const ctl_target *target, const ctl_args *args) {
    return ask(target, args, "GET", "/api/tls", ctl_print_tls);
}

static int run_sessions(const ctl_target *target, const ctl_args *args) {
    return ask(target, args, "GET", "/api/sessions", ctl_print_sessions);
}

static int run_subs(const ctl_target *target, const ctl_args *args) {
    return ask(target, args, "GET", "/api/subs", ctl_print_subs);
}

static int run_retained(const ctl_target *target, const ctl_args *args) {
    return ask(target, args, "GET", "/api/retained", ctl_print_retained);
}

static int ask_conn(const ctl_target *target, const ctl_args *args, const char *method,
                    void (*print)(yyjson_val *root)) {
    text path = text_make(LIMIT_HTTP_URL_BYTES);
    text_puts(&path, "/api/conns/");
    put_encoded(&path, args->words[1]);
    int status = path.failed ? CTL_USAGE : ask(target, args, method, path.data, print);
    if (path.failed) fprintf(stderr, "sluice ctl: the id is too long\n");
    text_free(&path);
    return status;
}

static int run_conn(const ctl_target *target, const ctl_args *args) {
    return ask_conn(target, args, "GET", ctl_print_conn);
}

static void print_kicked(yyjson_val *root) {
    const char *id = yyjson_get_str(yyjson_obj_get(root, "kicked"));
    printf("connection %s has been ended\n", id != NULL ? id : "?");
}

static int run_kick(const ctl_target *target, const ctl_args *args) {
    return ask_conn(target, args, "DELETE", print_kicked);
}

static void print_reloaded(yyjson_val *root) {
    (void)root;
    printf("the configuration has been applied\n");
}

static int run_reload(const ctl_target *target, const ctl_args *args) {
    return ask(target, args, "POST", "/api/reload", print_reloaded);
}

// Of an appliance: the sources and where each key was written, from its init; else the gateway's own file.
static int run_config(const ctl_target *target, const ctl_args *args) {
    text answer = text_make(ANSWER_BYTES_MAX);
    ctl_call c = {.method = "GET", .path = "/api/appliance/config", .body_part = part_collect,
                  .context = &answer, .quiet = true};
    int status = ctl_call_run(target, &c);
    if (status == CTL_OK) status = print_answer(&answer, args->json, ctl_print_appliance_config);
    text_free(&answer);
    if (status != CTL_REFUSED) return status;
    return ask(target, args, "GET", args->json ? "/api/config?format=json" : "/api/config", NULL);
}

// A trace comes in pieces that do not end with lines.
typedef struct line_splitter {
    char line[LINE_BYTES_MAX];
    size_t len;
} line_splitter;

static bool part_trace(void *context, const char *bytes, size_t len) {
    line_splitter *s = context;
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != '\n') {
            if (s->len < sizeof(s->line)) s->line[s->len++] = bytes[i];
            continue;
        }
        yyjson_doc *doc = yyjson_read(s->line, s->len, 0);
        if (doc != NULL) ctl_print_event(yyjson_doc_get_root(doc));
        yyjson_doc_free(doc);
        s->len = 0;
    }
    return fflush(stdout) == 0;
}

static int run_stream(const ctl_target *target, const ctl_args *args, const char *path_text, ctl_call *c) {
    text path = path_make(path_text, args);
    c->method = "GET";
    c->endless = c->endless || args->values[OPT_FOLLOW] != NULL;
    int status = call(target, c, &path);
    text_free(&path);
    return status;
}

static int run_trace(const ctl_target *target, const ctl_args *args) {
    line_splitter splitter = {.len = 0};
    ctl_call c = {.body_part = args->json ? part_print : part_trace, .context = &splitter};
    return run_stream(target, args, "/api/trace", &c);
}

static int run_streams_read(const ctl_target *target, const ctl_args *args) {
    ctl_stream_lines lines;
    text path = text_make(LIMIT_HTTP_URL_BYTES);
    ctl_stream_lines_begin(&lines, args->json);
    text_puts(&path, "/api/streams/");
    put_encoded(&path, args->words[2]);
    text_puts(&path, "/messages");
    ctl_call c = {.body_part = ctl_stream_lines_part, .context = &lines};
    // A wait is longer than an answer may take otherwise.
    if (args->values[OPT_WAIT] != NULL) c.endless = true;
    int status = path.failed ? CTL_USAGE : run_stream(target, args, path.data, &c);
    ctl_stream_lines_end(&lines);
    text_free(&path);
    return status;
}

static int ask_stream(const ctl_target *target, const ctl_args *args, const char *method, const char *name,
                      const char *consumer, void (*print)(yyjson_val *root)) {
    text path = text_make(LIMIT_HTTP_URL_BYTES);
    text_puts(&path, "/api/streams/");
    put_encoded(&path, name);
    if (consumer != NULL) text_puts(&path, "/consumers/");
    if (consumer != NULL) put_encoded(&path, consumer);
    int status = path.failed ? CTL_USAGE : ask(target, args, method, path.data, print);
    text_free(&path);
    return status;
}

static int run_streams(const ctl_target *target, const ctl_args *args) {
    const char *what = args->words[1];
    bool reads = args->word_count == 3 && strcmp(what, "read") == 0;
    bool forgets = args->word_count == 4 && strcmp(what, "forget") == 0;
    if (reads) return run_streams_read(target, args);
    for (u32 i = 0; i < OPTIONS; i++) {
        if (args->values[i] != NULL) return wrong("--%s is for streams read NAME", options[i].name);
    }
    if (forgets) return ask_stream(target, args, "DELETE", args->words[2], args->words[3], ctl_print_forgotten);
    if (args->word_count == 2) return ask_stream(target, args, "GET", what, NULL, ctl_print_stream);
    if (args->word_count > 2) return wrong("streams: NAME, read NAME or forget NAME CONSUMER");
    return ask(target, args, "GET", "/api/streams", ctl_print_streams);
}

static int run_log(const ctl_target *target, const ctl_args *args) {
    ctl_call c = {.body_part = part_print};
    return run_stream(target, args, "/api/log", &c);
}

// "name{labels} value" lines as one JSON object.
static int print_metrics_json(const text *answer) {
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    char *save = NULL;
    for (char *line = strtok_r(answer->data, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        char *space = strrchr(line, ' ');
        if (line[0] == '#' || space == NULL) continue;
        *space = '\0';
        yyjson_mut_obj_add_real(doc, root, line, strtod(space + 1, NULL));
    }
    char *json = yyjson_mut_write(doc, YYJSON_WRITE_NEWLINE_AT_END | YYJSON_WRITE_INF_AND_NAN_AS_NULL, NULL);
    if (json != NULL) fputs(json, stdout);
    else fprintf(stderr, "sluice ctl: the metrics do not become JSON\n");
    free(json);
    yyjson_mut_doc_free(doc);
    return json != NULL ? CTL_OK : CTL_BROKEN;
}

static int run_metrics(const ctl_target *target, const ctl_args *args) {
    text answer = text_make(ANSWER_BYTES_MAX), path = path_make("/metrics", args);
    ctl_call c = {.method = "GET", .body_part = args->json ? part_collect : part_print, .context = &answer};
    int status = call(target, &c, &path);
    if (status == CTL_OK && args->json) status = answer.len > 0 ? print_metrics_json(&answer) : CTL_BROKEN;
    text_free(&answer);
    text_free(&path);
    return status;
}

// Reads standard input up to what the gateway takes.
static bool read_payload(text *out) {
    char buf[16384];
    size_t n;
    while ((n = fread(buf, 1, sizeof(buf), stdin)) > 0) text_append(out, buf, n);
    if (!out->failed && !ferror(stdin)) return true;
    fprintf(stderr, out->failed ? "sluice ctl: the payload is over %u bytes\n" : "sluice ctl: standard input: error\n",
            LIMIT_HTTP_BODY_BYTES);
    return false;
}

static void print_published(yyjson_val *root) {
    printf("published %llu bytes\n", (unsigned long long)yyjson_get_uint(yyjson_obj_get(root, "bytes")));
}

static int run_publish(const ctl_target *target, const ctl_args *args) {
    const char *payload = args->word_count > 2 ? args->words[2] : "";
    text body = text_make(LIMIT_HTTP_BODY_BYTES), path = text_make(LIMIT_HTTP_URL_BYTES);
    text answer = text_make(ANSWER_BYTES_MAX);
    int status = CTL_USAGE;
    if (strcmp(payload, "-") != 0) text_puts(&body, payload);
    if (strcmp(payload, "-") != 0 || read_payload(&body)) {
        text_puts(&path, "/api/publish?topic=");
        put_encoded(&path, args->words[1]);
        ctl_call c = {.method = "POST", .body = body.data, .body_len = body.len, .body_part = part_collect,
                      .context = &answer};
        status = call(target, &c, &path);
        yyjson_doc *doc = status == CTL_OK ? yyjson_read(answer.data, answer.len, 0) : NULL;
        if (status == CTL_OK && args->json) fwrite(answer.data, 1, answer.len, stdout);
        else if (status == CTL_OK) print_published(yyjson_doc_get_root(doc));
        yyjson_doc_free(doc);
    }
    text_free(&body);
    text_free(&path);
    text_free(&answer);
    return status;
}

static int run_update(const ctl_target *target, const ctl_args *args) {
    ctl_update u = {.what = args->word_count > 1 ? args->words[1] : NULL, .json = args->json,
                    .allow_downgrade = args->values[OPT_ALLOW_DOWNGRADE] != NULL,
                    .no_restart = args->values[OPT_NO_RESTART] != NULL};
    return ctl_update_run(target, &u);
}

static int run_appliance(const ctl_target *target, const ctl_args *args) {
    return ctl_appliance_run(target, args->word_count > 1 ? args->words[1] : NULL, args->json);
}

static int run_net(const ctl_target *target, const ctl_args *args) {
    return ask(target, args, "GET", "/api/appliance/net", ctl_print_net);
}

static const command commands[] = {
    {"status", 0, 0, 0, run_status},
    {"conns", 0, 0,
     BIT(OPT_LISTENER) | BIT(OPT_CLIENT) | BIT(OPT_PEER) | BIT(OPT_STATE) | BIT(OPT_SLOW) | BIT(OPT_SORT) |
         BIT(OPT_ORDER) | BIT(OPT_LIMIT) | BIT(OPT_OFFSET) | BIT(OPT_ADMIN),
     run_conns},
    {"sessions", 0, 0, BIT(OPT_CLIENT) | BIT(OPT_STATE) | BIT(OPT_LIMIT) | BIT(OPT_OFFSET), run_sessions},
    {"subs", 0, 0, BIT(OPT_FILTER) | BIT(OPT_CLIENT) | BIT(OPT_LIMIT) | BIT(OPT_OFFSET), run_subs},
    {"retained", 0, 0, BIT(OPT_TOPIC) | BIT(OPT_LIMIT) | BIT(OPT_OFFSET), run_retained},
    {"conn", 1, 1, 0, run_conn},
    {"kick", 1, 1, 0, run_kick},
    {"uplinks", 0, 0, 0, run_uplinks},
    {"tls", 0, 0, 0, run_tls},
    {"trace", 0, 0, BIT(OPT_CONN) | BIT(OPT_PEER) | BIT(OPT_WORKER) | BIT(OPT_FOLLOW), run_trace},
    {"streams", 0, 3, BIT(OPT_FROM) | BIT(OPT_LIMIT) | BIT(OPT_WAIT) | BIT(OPT_FOLLOW) | BIT(OPT_PARTITION),
     run_streams},
    {"log", 0, 0, BIT(OPT_LEVEL) | BIT(OPT_FOLLOW), run_log},
    {"publish", 1, 2, 0, run_publish},
    {"reload", 0, 0, 0, run_reload},
    {"config", 0, 0, 0, run_config},
    {"appliance", 0, 1, 0, run_appliance},
    {"net", 0, 0, 0, run_net},
    {"metrics", 0, 0, 0, run_metrics},
    {"update", 0, 1, BIT(OPT_ALLOW_DOWNGRADE) | BIT(OPT_NO_RESTART), run_update},
};

// --- command line ---

static int wrong(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "sluice ctl: ");
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n`sluice ctl --help` shows the commands and their options\n");
    return CTL_USAGE;
}

// One option at argv[*i], with its value where it takes one. Returns 0 or CTL_USAGE.
static int parse_option(int argc, char **argv, int *i, ctl_args *out) {
    const char *name = argv[*i];
    const char **value = NULL;
    if (strcmp(name, "--json") == 0) {
        out->json = true;
        return 0;
    }
    if (strcmp(name, "-c") == 0) value = &out->config_file;
    if (strcmp(name, "--socket") == 0) value = &out->socket;
    if (strcmp(name, "--addr") == 0) value = &out->addr;
    if (strcmp(name, "--token-file") == 0) value = &out->token_file;
    if (strcmp(name, "-f") == 0) name = "--follow";
    for (u32 k = 0; k < OPTIONS && value == NULL; k++) {
        if (strncmp(name, "--", 2) != 0 || strcmp(name + 2, options[k].name) != 0) continue;
        value = &out->values[k];
        if (options[k].flag) {
            *value = "1";
            return 0;
        }
    }
    if (value == NULL) return wrong("unknown option %s", name);
    if (*i + 1 >= argc) return wrong("%s needs a value", name);
    *value = argv[++*i];
    return 0;
}

static int parse(int argc, char **argv, ctl_args *out) {
    bool only_words = false;
    memset(out, 0, sizeof(*out));
    for (int i = 1; i < argc; i++) {
        if (!only_words && strcmp(argv[i], "--") == 0) {
            only_words = true;
        } else if (!only_words && argv[i][0] == '-' && argv[i][1] != '\0') {
            int status = parse_option(argc, argv, &i, out);
            if (status != 0) return status;
        } else if (out->word_count == (int)ARRAY_LEN(out->words)) {
            return wrong("unexpected argument %s", argv[i]);
        } else {
            out->words[out->word_count++] = argv[i];
        }
    }
    if (out->word_count == 0) return wrong("a command is missing");
    for (u32 i = 0; i < ARRAY_LEN(commands); i++) {
        if (strcmp(commands[i].name, out->words[0]) == 0) out->command = &commands[i];
    }
    if (out->command == NULL) return wrong("unknown command %s", out->words[0]);
    if (out->word_count - 1 < out->command->operands_min) return wrong("%s needs an argument", out->words[0]);
    if (out->word_count - 1 > out->command->operands_max) {
        return wrong("unexpected argument %s", out->words[out->word_count - 1]);
    }
    for (u32 i = 0; i < OPTIONS; i++) {
        if (out->values[i] == NULL || (out->command->options & BIT(i)) != 0) continue;
        return wrong("--%s is not for this command", options[i].name);
    }
    if ((out->socket != NULL) + (out->addr != NULL) + (out->config_file != NULL) > 1) {
        return wrong("only one of -c, --socket and --addr");
    }
    return 0;
}

// False with a message on stderr.
static bool read_token(const char *path, ctl_target *out) {
    char *token, why[512];
    size_t len;
    if (auth_file_read(path, &token, &len, why, sizeof(why)) < 0) {
        fprintf(stderr, "sluice ctl: %s\n", why);
        return false;
    }
    size_t used = strcspn(token, "\r\n");
    bool fits = used < sizeof(out->token);
    if (fits) memcpy(out->token, token, used);
    else fprintf(stderr, "sluice ctl: %s: longer than an admin token\n", path);
    auth_file_free(token, len);
    return fits;
}

// False with a message on stderr.
static bool find_target(const ctl_args *args, ctl_target *out) {
    if (args->addr != NULL) {
        return ctl_target_tcp(out, args->addr) && (args->token_file == NULL || read_token(args->token_file, out));
    }
    const char *path = args->socket;
    config *conf = calloc(1, sizeof(*conf));
    config_error error = {{0}};
    if (conf == NULL) base_out_of_memory("configuration", sizeof(*conf));
    bool ok = true;
    if (path == NULL && args->config_file != NULL) {
        ok = config_load(args->config_file, conf, &error) == 0;
        if (!ok) fprintf(stderr, "%s\n", error.text);
        path = conf->ctl_socket;
    } else if (path == NULL) {
        config_defaults(conf);
        path = conf->ctl_socket;
    }
    if (ok && !ctl_target_unix(out, path)) {
        fprintf(stderr, "sluice ctl: %s: too long for a socket's path\n", path);
        ok = false;
    }
    free(conf);
    return ok;
}

int ctl_main(int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") != 0 && strcmp(argv[i], "-h") != 0) continue;
        fputs(usage, stdout);
        return CTL_OK;
    }
    if (argc < 2) {
        fputs(usage, stderr);
        return CTL_USAGE;
    }
    ctl_args args;
    ctl_target target;
    int status = parse(argc, argv, &args);
    if (status != 0) return status;
    if (!find_target(&args, &target)) return CTL_USAGE;
    return args.command->run(&target, &args);
}
