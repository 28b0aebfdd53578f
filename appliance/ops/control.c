// SPDX-License-Identifier: Apache-2.0
// control.c: /api/config, /api/reload, /api/publish and /api/log: what an operator does to the gateway, and what it
// says meanwhile.
//
// A reload is the main thread's work: it is asked for by a flag and a wake-up, and its end is seen by the
// generation moving on. A publish runs on a device worker, the same for the same topic, so that messages
// published here one after another arrive in that order.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/siphash.h"
#include "broker/topic.h"
#include "ops/json.h"
#include "ops/request.h"
#include "ops/routes.h"

#define CONFIG_TEXT_BYTES_MAX (160u << 10) // 64 listeners with every key take under 100 KiB
#define RELOAD_WAIT_MS 30000u              // name of a file, its checks, and sockets to open
#define LOG_READ_BYTES 16384u

// --- /api/config ---

void config_handle(http_exchange *x, const char *rest) {
    (void)rest;
    static const char *const known[] = {"format", NULL};
    const char *format = http_param_get(http_req(x), "format");
    bool as_text = format == NULL || strcmp(format, "text") == 0;
    if (http_param_unknown(http_req(x), known) != NULL || (!as_text && strcmp(format, "json") != 0)) {
        http_answer_error(x, 400, "parameters: format=text or format=json");
        return;
    }
    char *conf = malloc(CONFIG_TEXT_BYTES_MAX);
    ssize_t len = conf == NULL ? -ENOMEM : config_print(x->worker->conf, conf, CONFIG_TEXT_BYTES_MAX);
    if (len < 0) {
        http_answer_error(x, 503, "the configuration can not be printed: %s", errno_name((int)len));
    } else if (as_text) {
        http_answer(x, 200, HTTP_TEXT, conf, (size_t)len);
    } else {
        json j;
        json_begin(&j);
        json_str(&j, j.root, "source", x->worker->conf->source);
        json_str(&j, j.root, "config", conf);
        json_answer(&j, x, 200);
    }
    free(conf);
}

// --- /api/reload ---

typedef struct reload_state {
    u32 generation; // before
    u64 until_ns;
} reload_state;

static void reload_look(http_exchange *x) {
    reload_state *s = x->state;
    const gateway *gw = x->worker->gw;
    u32 generation = __atomic_load_n(&gw->reload_generation, __ATOMIC_ACQUIRE);
    if (generation == s->generation) {
        if (x->worker->now_ns < s->until_ns) http_wait(x, LIMIT_OPS_POLL_MS, reload_look);
        else http_answer_error(x, 503, "not done after %u s; the log may say why", RELOAD_WAIT_MS / 1000);
        return;
    }
    if (gw->reload_result[0] != '\0') {
        http_answer_error(x, 409, "%s", gw->reload_result);
        return;
    }
    json j;
    json_begin(&j);
    json_bool(&j, j.root, "reloaded", true);
    json_u64(&j, j.root, "reloads", __atomic_load_n(&gw->reloads_applied, __ATOMIC_ACQUIRE));
    json_answer(&j, x, 200);
}

void reload_handle(http_exchange *x, const char *rest) {
    (void)rest;
    gateway *gw = x->worker->gw;
    if (__atomic_load_n(&gw->draining, __ATOMIC_ACQUIRE) != 0) {
        http_answer_error(x, 503, "the gateway is stopping");
        return;
    }
    reload_state *s = malloc(sizeof(*s));
    if (s == NULL) {
        http_answer_error(x, 503, "no memory");
        return;
    }
    http_set_state(x, s, free);
    *s = (reload_state){.generation = __atomic_load_n(&gw->reload_generation, __ATOMIC_ACQUIRE)};
    s->until_ns = x->worker->now_ns + RELOAD_WAIT_MS * NS_PER_MS;
    u64 one = 1;
    __atomic_store_n(&gw->reload_request, 1, __ATOMIC_RELEASE);
    // An event counter that is full wakes the reader as well.
    if (write(gw->control_fd, &one, sizeof(one)) < 0 && errno != EAGAIN) {
        http_answer_error(x, 500, "the control thread can not be woken: %s", errno_name(errno));
        return;
    }
    log_info("admin: a reload was asked for");
    http_wait(x, LIMIT_OPS_POLL_MS, reload_look);
}

// --- /api/publish ---

typedef struct publish_state {
    ops_request *request;
} publish_state;

static void publish_free(void *state) {
    publish_state *s = state;
    if (s->request != NULL) ops_request_abandon(s->request);
    free(s);
}

static void publish_timeout(http_exchange *x) {
    const publish_state *s = x->state;
    http_answer_error(x, 503, "worker %u did not answer in %u ms; the message may have been published or not",
                      s->request->target, LIMIT_OPS_REPLY_MS);
}

static void published(ops_request *r, http_exchange *x) {
    publish_state *s = x->state;
    s->request = NULL;
    json j;
    switch (r->result) {
    case 0:
        json_begin(&j);
        json_str(&j, j.root, "published", r->topic);
        json_u64(&j, j.root, "bytes", r->payload_len);
        json_answer(&j, x, 200);
        return;
    case -EINVAL:
        http_answer_error(x, 400, "topic: not a topic name");
        return;
    case -EAGAIN:
        http_answer_error(x, 503, "the way to other workers is congested; publish again");
        return;
    case -ENOMEM:
        http_answer_error(x, 503, "the message is over the memory budget of the broker");
        return;
    default:
        http_answer_error(x, 500, "not published: %s", errno_name(r->result));
        return;
    }
}

// Fills in topic and payload; false when memory is short.
static bool publish_fill(ops_request *r, const http_request *req, const char *topic) {
    r->topic = strdup(topic);
    r->payload_len = req->body_len;
    if (req->body_len > 0) {
        r->payload = malloc(req->body_len);
        if (r->payload != NULL) memcpy(r->payload, req->body, req->body_len);
    }
    return r->topic != NULL && (req->body_len == 0 || r->payload != NULL);
}

void publish_handle(http_exchange *x, const char *rest) {
    (void)rest;
    static const char *const known[] = {"topic", NULL};
    const http_request *req = http_req(x);
    const char *topic = http_param_get(req, "topic");
    if (topic == NULL || http_param_unknown(req, known) != NULL) {
        http_answer_error(x, 400, "parameter: topic; the body is the payload");
        return;
    }
    if (strncmp(topic, "$stream/", 8) == 0) {
        http_answer_error(x, 400, "topic: $stream/ is for reading; a stream takes what is published on its topics");
        return;
    }
    if (!topic_name_is_valid(topic, strlen(topic))) {
        http_answer_error(x, 400, "topic: 1 to %u bytes of UTF-8 without wildcards", LIMIT_TOPIC_BYTES);
        return;
    }
    publish_state *s = calloc(1, sizeof(*s));
    ops_request *r = ops_request_new(OPS_PUBLISH, x, published);
    if (s == NULL || r == NULL || !publish_fill(r, req, topic)) {
        free(s);
        ops_request_free(r);
        http_answer_error(x, 503, "no memory");
        return;
    }
    http_set_state(x, s, publish_free);
    r->target = worker_of_client(x->worker->gw, topic, strlen(topic));
    s->request = r;
    http_wait(x, LIMIT_OPS_REPLY_MS, publish_timeout);
    if (ops_request_send(x->worker, r) == 0) return;
    s->request = NULL;
    http_answer_error(x, 503, "a worker can not be asked: too much is outstanding");
}

// --- /api/log ---

typedef struct log_state {
    u64 after;
    bool follow;
    log_level level; // lines of this level and above
    char buf[LOG_READ_BYTES];
} log_state;

// The level of a printed line: the second word, after the time. Lines without one are shown.
static bool line_is_wanted(const char *line, size_t len, log_level level) {
    const char *space = memchr(line, ' ', len);
    if (space == NULL) return true;
    char word[16];
    size_t left = len - (size_t)(space + 1 - line), n = 0;
    while (n < left && n < sizeof(word) - 1 && space[1 + n] != ' ') n++;
    for (size_t i = 0; i < n; i++) word[i] = (char)(space[1 + i] | 0x20); // levels are letters
    word[n] = '\0';
    log_level found;
    return !log_level_parse(word, &found) || found <= level;
}

static http_page log_page(http_exchange *x, text *out) {
    log_state *s = x->state;
    for (;;) {
        if (out->len >= LIMIT_HTTP_PAGE_BYTES) return HTTP_PAGE_MORE;
        size_t len = log_tail_read(&s->after, s->buf, sizeof(s->buf));
        if (len == 0) return s->follow ? HTTP_PAGE_WAIT : HTTP_PAGE_END;
        for (size_t at = 0; at < len;) {
            const char *line = s->buf + at, *end = memchr(line, '\n', len - at);
            size_t line_len = end == NULL ? len - at : (size_t)(end - line) + 1;
            if (line_is_wanted(line, line_len, s->level)) {
                text_append(out, line, line_len);
                if (end == NULL) text_puts(out, "\n");
            }
            at += line_len;
        }
    }
}

void log_handle(http_exchange *x, const char *rest) {
    (void)rest;
    static const char *const known[] = {"follow", "level", NULL};
    const http_request *r = http_req(x);
    const char *level = http_param_get(r, "level");
    log_state *s = malloc(sizeof(*s));
    if (s == NULL) {
        http_answer_error(x, 503, "no memory");
        return;
    }
    *s = (log_state){.level = LOG_DEBUG};
    http_set_state(x, s, free);
    if (http_param_unknown(r, known) != NULL) {
        http_answer_error(x, 400, "parameters: follow, level");
    } else if (level != NULL && !log_level_parse(level, &s->level)) {
        http_answer_error(x, 400, "level: error, warn, info or debug");
    } else if (!http_param_bool(r, "follow", &s->follow)) {
        http_answer_error(x, 400, "follow: 0 or 1");
    } else {
        http_answer_pages(x, HTTP_TEXT, log_page, s->follow);
    }
}
