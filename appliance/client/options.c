// SPDX-License-Identifier: Apache-2.0
// options.c: command lines of `sluice pub` and `sluice sub`: one table gives every option its
// letter, name, number of values and commands; what it does is in option_take.
#include "client/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/topic.h"
#include "client/help.h"
#include "client/url.h"

#define IN_PUB 1u
#define IN_SUB 2u
#define IN_BOTH 3u

typedef enum option_key {
    OPT_HOST, OPT_PORT, OPT_URL, OPT_TOPIC, OPT_QOS, OPT_ID, OPT_ID_PREFIX, OPT_KEEPALIVE, OPT_USER,
    OPT_PASSWORD, OPT_VERSION, OPT_KEEP_SESSION, OPT_SESSION_EXPIRY, OPT_DEBUG, OPT_QUIET,
    OPT_PROPERTY, OPT_WILL_TOPIC, OPT_WILL_PAYLOAD, OPT_WILL_QOS, OPT_WILL_RETAIN, OPT_WILL_DELAY,
    OPT_CONNECT_TIMEOUT, OPT_RETAIN, OPT_MESSAGE, OPT_LINES, OPT_STDIN, OPT_FILE, OPT_EMPTY,
    OPT_REPEAT, OPT_REPEAT_DELAY, OPT_SKIP, OPT_COUNT, OPT_WAIT, OPT_FORMAT, OPT_VERBOSE, OPT_JSON,
    OPT_NO_NEWLINE, OPT_NO_RETAINED, OPT_RETAINED_ONLY, OPT_NO_LOCAL, OPT_RETAIN_AS_PUBLISHED,
    OPT_RETAIN_HANDLING, OPT_EXIT, OPT_RECONNECT, OPT_TLS,
    OPT_CA_FILE, OPT_CERT_FILE, OPT_KEY_FILE, OPT_ANY_NAME,
} option_key;

static const struct option_row {
    char letter;
    const char *name;
    u8 commands, values;
    u8 key;
} rows[] = {
    {'h', "host", IN_BOTH, 1, OPT_HOST},
    {'p', "port", IN_BOTH, 1, OPT_PORT},
    {'L', "url", IN_BOTH, 1, OPT_URL},
    {'t', "topic", IN_BOTH, 1, OPT_TOPIC},
    {'q', "qos", IN_BOTH, 1, OPT_QOS},
    {'i', "id", IN_BOTH, 1, OPT_ID},
    {'I', "id-prefix", IN_BOTH, 1, OPT_ID_PREFIX},
    {'k', "keepalive", IN_BOTH, 1, OPT_KEEPALIVE},
    {'u', "username", IN_BOTH, 1, OPT_USER},
    {'P', "pw", IN_BOTH, 1, OPT_PASSWORD},
    {'V', "protocol-version", IN_BOTH, 1, OPT_VERSION},
    {'c', "disable-clean-session", IN_BOTH, 0, OPT_KEEP_SESSION},
    {'x', "session-expiry-interval", IN_BOTH, 1, OPT_SESSION_EXPIRY},
    {'d', "debug", IN_BOTH, 0, OPT_DEBUG},
    {0, "quiet", IN_BOTH, 0, OPT_QUIET},
    {'D', "property", IN_BOTH, 3, OPT_PROPERTY},
    {0, "will-topic", IN_BOTH, 1, OPT_WILL_TOPIC},
    {0, "will-payload", IN_BOTH, 1, OPT_WILL_PAYLOAD},
    {0, "will-qos", IN_BOTH, 1, OPT_WILL_QOS},
    {0, "will-retain", IN_BOTH, 0, OPT_WILL_RETAIN},
    {0, "will-delay", IN_BOTH, 1, OPT_WILL_DELAY},
    {0, "connect-timeout", IN_BOTH, 1, OPT_CONNECT_TIMEOUT},
    {0, "cafile", IN_BOTH, 1, OPT_CA_FILE},
    {0, "capath", IN_BOTH, 1, OPT_TLS},
    {0, "cert", IN_BOTH, 1, OPT_CERT_FILE},
    {0, "key", IN_BOTH, 1, OPT_KEY_FILE},
    {0, "insecure", IN_BOTH, 0, OPT_ANY_NAME},
    {'r', "retain", IN_PUB, 0, OPT_RETAIN},
    {'m', "message", IN_PUB, 1, OPT_MESSAGE},
    {'l', "stdin-line", IN_PUB, 0, OPT_LINES},
    {'s', "stdin-file", IN_PUB, 0, OPT_STDIN},
    {'f', "file", IN_PUB, 1, OPT_FILE},
    {'n', "null-message", IN_PUB, 0, OPT_EMPTY},
    {0, "repeat", IN_PUB, 1, OPT_REPEAT},
    {0, "repeat-delay", IN_PUB, 1, OPT_REPEAT_DELAY},
    {'T', "filter-out", IN_SUB, 1, OPT_SKIP},
    {'C', "count", IN_SUB, 1, OPT_COUNT},
    {'W', "timeout", IN_SUB, 1, OPT_WAIT},
    {'F', "format", IN_SUB, 1, OPT_FORMAT},
    {'v', "verbose", IN_SUB, 0, OPT_VERBOSE},
    {'j', "json", IN_SUB, 0, OPT_JSON},
    {'N', "no-newline", IN_SUB, 0, OPT_NO_NEWLINE},
    {'R', "no-retained", IN_SUB, 0, OPT_NO_RETAINED},
    {0, "retained-only", IN_SUB, 0, OPT_RETAINED_ONLY},
    {0, "no-local", IN_SUB, 0, OPT_NO_LOCAL},
    {0, "retain-as-published", IN_SUB, 0, OPT_RETAIN_AS_PUBLISHED},
    {0, "retain-handling", IN_SUB, 1, OPT_RETAIN_HANDLING},
    {'E', "exit-subscribed", IN_SUB, 0, OPT_EXIT},
    {0, "reconnect", IN_SUB, 0, OPT_RECONNECT},
};

static const char *command_name(const client_options *o) {
    return o->subscribes ? "sub" : "pub";
}

static int complain(const client_options *o, const char *option, const char *text,
                    const char *allowed) {
    fprintf(stderr, "sluice %s: %s: \"%s\" is not allowed; allowed: %s\n", command_name(o), option,
            text, allowed);
    return -EINVAL;
}

static int fail(const client_options *o, const char *text) {
    fprintf(stderr, "sluice %s: %s\n", command_name(o), text);
    return -EINVAL;
}

static int number_take(const client_options *o, const char *option, const char *text, u64 min,
                       u64 max, u64 *out) {
    char *end, allowed[64];
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno == 0 && *text >= '0' && *text <= '9' && *end == 0 && number >= min && number <= max) {
        *out = number;
        return 0;
    }
    snprintf(allowed, sizeof(allowed), "%llu to %llu", (unsigned long long)min,
             (unsigned long long)max);
    return complain(o, option, text, allowed);
}

static int seconds_take(const client_options *o, const char *option, const char *text,
                        u64 *out_ms) {
    char *end;
    errno = 0;
    double seconds = strtod(text, &end);
    if (errno != 0 || end == text || *end != 0 || !(seconds >= 0 && seconds <= 31536000)) {
        return complain(o, option, text, "seconds, 0 to 31,536,000");
    }
    *out_ms = (u64)(seconds * 1000 + 0.5);
    return 0;
}

static int version_take(client_options *o, const char *option, const char *text) {
    static const struct {
        const char *word;
        mqtt_version version;
    } words[] = {{"5", MQTT_5},         {"5.0", MQTT_5},         {"mqttv5", MQTT_5},
                 {"311", MQTT_3_1_1},   {"3.1.1", MQTT_3_1_1},   {"mqttv311", MQTT_3_1_1},
                 {"31", MQTT_3_1},      {"3.1", MQTT_3_1},       {"mqttv31", MQTT_3_1}};
    for (u32 i = 0; i < ARRAY_LEN(words); i++) {
        if (strcmp(text, words[i].word) != 0) continue;
        o->version = words[i].version;
        return 0;
    }
    return complain(o, option, text, "5, 311, 31 (also mqttv5, mqttv311, mqttv31)");
}

static int filter_is_valid(const client_options *o, const char *text) {
    size_t len = strlen(text);
    return o->subscribes ? topic_filter_is_valid(text, len) : topic_name_is_valid(text, len);
}

static int topic_add(client_options *o, const char *option, const char *text, bool skip) {
    bool good = skip ? topic_filter_is_valid(text, strlen(text)) : filter_is_valid(o, text);
    if (!good) {
        return complain(o, option, text,
                        o->subscribes ? "a topic filter: + a whole level, # the last, valid UTF-8"
                                      : "a topic name: no + or #, valid UTF-8, not empty");
    }
    u32 *count = skip ? &o->skip_count : &o->topic_count;
    if (*count == CLIENT_TOPICS_MAX) return fail(o, "at most 256 topics");
    (skip ? o->skip : o->topics)[(*count)++] = text;
    return 0;
}

static int source_set(client_options *o, client_source source, const char *text) {
    if (o->source != SOURCE_NONE) return fail(o, "only one of -m -f -l -s -n can be given");
    o->source = source;
    if (source == SOURCE_MESSAGE) o->message = text;
    if (source == SOURCE_FILE) o->file = text;
    return 0;
}

static int qos_take(const client_options *o, const char *option, const char *text, u8 *out) {
    u64 number;
    if (number_take(o, option, text, 0, 2, &number) != 0) return -EINVAL;
    *out = (u8)number;
    return 0;
}

static int handling_take(client_options *o, const char *option, const char *text) {
    static const char *const words[] = {"always", "new", "never"};
    for (u8 i = 0; i < ARRAY_LEN(words); i++) {
        if (strcmp(text, words[i]) != 0) continue;
        o->retain_handling = i;
        return 0;
    }
    return complain(o, option, text, "always, new, never");
}

static int url_take(client_options *o, const char *option, const char *text) {
    client_url url;
    const char *wrong = client_url_parse(text, &url);
    if (wrong != NULL) return complain(o, option, text, wrong);
    free(o->url);
    o->url = url.memory;
    o->host = url.host;
    o->port = url.port;
    if (url.tls) o->tls = true;
    if (url.user != NULL) o->user = url.user;
    if (url.password != NULL) o->password = url.password;
    return url.topic == NULL ? 0 : topic_add(o, option, url.topic, false);
}

static int number_option(client_options *o, u8 key, const char *option, const char *text) {
    u64 n = 0;
    int rc = -EINVAL;
    switch (key) {
    case OPT_PORT:
        rc = number_take(o, option, text, 1, 65535, &n);
        o->port = (u16)n;
        return rc;
    case OPT_KEEPALIVE:
        rc = number_take(o, option, text, 0, 65535, &n);
        o->keep_alive_s = (u16)n;
        return rc;
    case OPT_CONNECT_TIMEOUT:
        rc = number_take(o, option, text, 1, 3600, &n);
        o->connect_timeout_s = (u32)n;
        return rc;
    case OPT_REPEAT:
        rc = number_take(o, option, text, 1, UINT32_MAX, &n);
        o->repeat = (u32)n;
        return rc;
    case OPT_COUNT:
        rc = number_take(o, option, text, 1, UINT32_MAX, &n);
        o->count = (u32)n;
        return rc;
    case OPT_REPEAT_DELAY: return seconds_take(o, option, text, &o->repeat_delay_ms);
    case OPT_WAIT: return seconds_take(o, option, text, &o->wait_ms);
    case OPT_QOS: return qos_take(o, option, text, &o->qos);
    case OPT_WILL_QOS: return qos_take(o, option, text, &o->will_qos);
    case OPT_SESSION_EXPIRY:
        if (o->version != MQTT_5) o->version = MQTT_5;
        return client_property_add(o, "connect", "session-expiry-interval", text, "");
    default: // OPT_WILL_DELAY
        o->version = MQTT_5;
        return client_property_add(o, "will", "will-delay-interval", text, "");
    }
}

static int tls_file(client_options *o, const char **file, const char *text) {
    *file = text;
    o->tls = true;
    return 0;
}

static int text_option(client_options *o, u8 key, const char *option, char **values) {
    const char *text = values[0];
    switch (key) {
    case OPT_HOST: o->host = text; return 0;
    case OPT_URL: return url_take(o, option, text);
    case OPT_TOPIC: return topic_add(o, option, text, false);
    case OPT_SKIP: return topic_add(o, option, text, true);
    case OPT_ID: o->id = text; return 0;
    case OPT_ID_PREFIX: o->id_prefix = text; return 0;
    case OPT_USER: o->user = text; return 0;
    case OPT_PASSWORD: o->password = text; return 0;
    case OPT_VERSION: return version_take(o, option, text);
    case OPT_PROPERTY: {
        bool pair = client_property_is_pair(values[1]);
        o->version = MQTT_5;
        return client_property_add(o, values[0], values[1], values[2], pair ? values[3] : "");
    }
    case OPT_WILL_TOPIC: o->will_topic = text; return 0;
    case OPT_WILL_PAYLOAD: o->will_payload = text; return 0;
    case OPT_MESSAGE: return source_set(o, SOURCE_MESSAGE, text);
    case OPT_FILE: return source_set(o, SOURCE_FILE, text);
    case OPT_FORMAT: o->format = text; return 0;
    case OPT_RETAIN_HANDLING: return handling_take(o, option, text);
    case OPT_CA_FILE: return tls_file(o, &o->ca_file, text);
    case OPT_CERT_FILE: return tls_file(o, &o->cert_file, text);
    case OPT_KEY_FILE: return tls_file(o, &o->key_file, text);
    case OPT_TLS:
        fprintf(stderr, "sluice %s: %s: directories are not read; give the certificates as one --cafile\n",
                command_name(o), option);
        return -EINVAL;
    default: return number_option(o, key, option, text);
    }
}

static int flag_option(client_options *o, u8 key, const char *option) {
    switch (key) {
    case OPT_KEEP_SESSION: o->clean_start = false; return 0;
    case OPT_ANY_NAME: o->tls_any_name = true; return 0;
    case OPT_DEBUG: o->debug = true; return 0;
    case OPT_QUIET: o->quiet = true; return 0;
    case OPT_WILL_RETAIN: o->will_retain = true; return 0;
    case OPT_RETAIN: o->retain = true; return 0;
    case OPT_LINES: return source_set(o, SOURCE_LINES, NULL);
    case OPT_STDIN: return source_set(o, SOURCE_STDIN, NULL);
    case OPT_EMPTY: return source_set(o, SOURCE_EMPTY, NULL);
    case OPT_VERBOSE: o->verbose = true; return 0;
    case OPT_JSON: o->json = true; return 0;
    case OPT_NO_NEWLINE: o->no_newline = true; return 0;
    case OPT_NO_RETAINED: o->no_retained = true; return 0;
    case OPT_RETAINED_ONLY: o->retained_only = true; return 0;
    case OPT_NO_LOCAL: o->no_local = true; return 0;
    case OPT_RETAIN_AS_PUBLISHED: o->retain_as_published = true; return 0;
    case OPT_EXIT: o->exit_subscribed = true; return 0;
    case OPT_RECONNECT: o->reconnect = true; return 0;
    default: return text_option(o, key, option, (char *[]){(char[]){""}});
    }
}

static const struct option_row *row_find(const client_options *o, const char *arg) {
    u8 command = o->subscribes ? IN_SUB : IN_PUB;
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        bool named = strncmp(arg, "--", 2) == 0 && strcmp(arg + 2, rows[i].name) == 0;
        bool letter = arg[0] == '-' && arg[1] == rows[i].letter && arg[1] != 0 && arg[2] == 0;
        if ((named || letter) && (rows[i].commands & command) != 0) return &rows[i];
    }
    return NULL;
}

static int will_check(client_options *o) {
    bool part = o->will_payload != NULL || o->will_qos > 0 || o->will_retain ||
                o->props[PLACE_WILL].len > 0;
    if (o->will_topic == NULL) {
        return part ? fail(o, "a will needs --will-topic") : 0;
    }
    if (topic_name_is_valid(o->will_topic, strlen(o->will_topic))) return 0;
    return complain(o, "--will-topic", o->will_topic, "a topic name");
}

static int relations_check(client_options *o) {
    if (o->topic_count == 0) return fail(o, "a topic is missing: -t TOPIC");
    if (!o->subscribes && o->topic_count > 1) return fail(o, "pub takes one -t");
    if (!o->subscribes && o->source == SOURCE_NONE) {
        return fail(o, "what to publish is missing: one of -m -f -l -s -n");
    }
    if (o->repeat > 1 && (o->source == SOURCE_LINES || o->source == SOURCE_STDIN)) {
        return fail(o, "--repeat goes with -m, -f and -n");
    }
    if (o->id != NULL && o->id_prefix != NULL) return fail(o, "only one of -i and -I can be given");
    if (!o->clean_start && o->id == NULL && o->version != MQTT_5) {
        return fail(o, "-c needs an id: -i ID");
    }
    if (o->version != MQTT_5) {
        for (u32 i = 0; i < PLACES; i++) {
            if (o->props[i].len > 0) return fail(o, "properties exist in 5.0 only: -V 5");
        }
        if (o->no_local || o->retain_as_published || o->retain_handling != 0) {
            return fail(o, "--no-local, --retain-as-published and --retain-handling exist in 5.0 "
                           "only: -V 5");
        }
        if (o->password != NULL && o->user == NULL) {
            return fail(o, "-P without -u exists in 5.0 only");
        }
    }
    if (o->verbose + o->json + (o->format != NULL) > 1) {
        return fail(o, "only one of -v, -j and -F can be given");
    }
    if (o->no_retained && o->retained_only) return fail(o, "-R and --retained-only leave nothing");
    if (o->key_file != NULL && o->cert_file == NULL) return fail(o, "--key without --cert");
    if (o->tls_any_name && !o->tls) return fail(o, "--insecure without TLS: give --cafile, or an mqtts:// address");
    return will_check(o);
}

static int arguments_parse(client_options *o, int argc, char **argv) {
    bool version_given = false;
    mqtt_version version = o->version;
    for (int i = 1; i < argc; i++) {
        const struct option_row *row = row_find(o, argv[i]);
        if (strcmp(argv[i], "--help") == 0) {
            fputs(o->subscribes ? client_help_sub : client_help_pub, stdout);
            return 1;
        }
        if (row == NULL) {
            fprintf(stderr, "sluice %s: unknown option %s; see `sluice %s --help`\n",
                    command_name(o), argv[i], command_name(o));
            return -EINVAL;
        }
        int values = row->values;
        if (row->key == OPT_PROPERTY && i + 2 < argc) values += client_property_is_pair(argv[i + 2]);
        if (i + values >= argc) return complain(o, argv[i], "", "a value behind it");
        int rc = values == 0 ? flag_option(o, row->key, argv[i])
                             : text_option(o, row->key, argv[i], argv + i + 1);
        if (rc != 0) return rc;
        if (row->key == OPT_VERSION) {
            version_given = true;
            version = o->version;
        }
        i += values;
    }
    // An option of 5.0 asks for 5.0, unless another version was asked for by name.
    if (version_given) o->version = version;
    if (o->port == 0) o->port = o->tls ? 8883 : 1883;
    return relations_check(o);
}

int client_options_parse(client_options *o, bool subscribes, int argc, char **argv) {
    *o = (client_options){
        .subscribes = subscribes,
        .host = "127.0.0.1",
        .version = MQTT_3_1_1,
        .keep_alive_s = 60,
        .clean_start = true,
        .connect_timeout_s = CLIENT_CONNECT_TIMEOUT_S,
        .repeat = 1,
    };
    return arguments_parse(o, argc, argv);
}

void client_options_free(client_options *o) {
    free(o->url);
    for (u32 i = 0; i < PLACES; i++) free(o->props[i].data);
}

void client_id_make(const client_options *o, char *id, size_t id_bytes) {
    if (o->id != NULL) {
        snprintf(id, id_bytes, "%s", o->id);
    } else if (o->id_prefix != NULL) {
        snprintf(id, id_bytes, "%s%u", o->id_prefix, (unsigned)getpid());
    } else if (o->version == MQTT_3_1) {
        snprintf(id, id_bytes, "sluice-%u", (unsigned)getpid()); // 3.1 knows no empty id
    } else {
        id[0] = 0;
    }
}
