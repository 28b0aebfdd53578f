// SPDX-License-Identifier: Apache-2.0
// stream_messages.c: GET /api/streams/NAME/messages: messages as lines of JSON, oldest first, from all partitions
// merged by their time. Each partition is read through an ask of its own (store/stream_ask.h), so that a client
// that reads slowly keeps one page of each. The last line tells where to go on: {"next":"0:124,1:88","end":true}.
//
// Before a message is written every partition must have told its next one, or that it has none: else a later one
// could overtake. With `follow`, or while waiting for the first message, a partition that had none is not waited
// for any more.
#include "ops/stream_messages.h"

#include <stdlib.h>
#include <string.h>

#include "ops/json.h"
#include "ops/stream_line.h"
#include "store/stream_ask.h"

#define LINE_BYTES_MAX (64u << 20) // a message of a few megabytes, escaped

typedef enum part_state {
    PART_ASKED, // its next page is not there yet
    PART_HEAD,  // its next message is
    PART_ENDED, // it had no more
    PART_IDLE,  // it had no more, and will answer when it has
} part_state;

typedef struct part {
    struct messages *of;
    stream_ask *ask;
    u32 partition;
    part_state state;
    stream_message head;
    u32 at;
    u64 next;     // offset to go on from
    u64 missed;
} part;

typedef struct messages {
    http_exchange *x;
    stream_query query;
    u64 wait_until_ns;  // 0: does not wait
    u64 late_ns;        // a partition that has not answered by then ends the answer
    u32 left;           // messages still to be given
    bool finishing;     // the last line is in `line`
    text line;          // being sent
    size_t line_at;
    u32 part_count;
    part parts[];
} messages;

static void state_free(void *state) {
    messages *s = state;
    for (u32 i = 0; i < s->part_count; i++) stream_ask_close(s->parts[i].ask);
    text_free(&s->line);
    free(s);
}

// --- partitions ---

// The next message of the page at hand, or asks for the next page.
static void part_step(part *p) {
    if (stream_page_next(p->ask, &p->at, &p->head)) {
        p->state = PART_HEAD;
        p->next = p->head.entry.offset;
        return;
    }
    p->next = p->ask->next;
    p->missed = p->ask->missed;
    p->state = PART_ENDED;
    if (p->ask->end || p->ask->result != 0) return;
    p->state = PART_ASKED;
    stream_ask_next(p->ask);
}

static void page_arrived(stream_ask *a) {
    part *p = a->context;
    http_exchange *x = p->of->x;
    p->at = 0;
    http_enter(x);
    part_step(p);
    http_leave(x); // makes pages of it; everything may be gone now
}

// Those that had no more are asked to tell when they have.
static void parts_wait(messages *s) {
    for (u32 i = 0; i < s->part_count; i++) {
        part *p = &s->parts[i];
        if (p->state != PART_ENDED || p->ask->result != 0) continue;
        p->state = PART_IDLE;
        p->ask->wait = true;
        stream_ask_next(p->ask);
    }
}

// The partition whose message comes next; NULL: none has one, or one is not known yet (*unknown).
static part *part_oldest(messages *s, bool *unknown) {
    part *oldest = NULL;
    *unknown = false;
    for (u32 i = 0; i < s->part_count; i++) {
        part *p = &s->parts[i];
        if (p->state == PART_ASKED) *unknown = true;
        if (p->state != PART_HEAD) continue;
        if (oldest == NULL || p->head.entry.time_ms < oldest->head.entry.time_ms) oldest = p;
    }
    return *unknown ? NULL : oldest;
}

// --- lines ---

// Where to go on, and whether there was more.
static void last_line(messages *s) {
    text next = text_make(LIMIT_STREAM_FROM_BYTES);
    bool end = true;
    u64 missed = 0;
    for (u32 i = 0; i < s->part_count; i++) {
        const part *p = &s->parts[i];
        text_printf(&next, "%s%u:%llu", i > 0 ? "," : "", p->partition, (unsigned long long)p->next);
        end = end && p->state != PART_HEAD && p->state != PART_ASKED;
        missed += p->missed;
    }
    json j;
    json_begin(&j);
    json_str(&j, j.root, "next", next.data);
    json_bool(&j, j.root, "end", end);
    json_u64(&j, j.root, "missed", missed);
    json_append(&j, &s->line);
    text_free(&next);
    s->finishing = true;
}

// What of the line fits the page. True: all of it is out.
static bool line_send(messages *s, text *out) {
    size_t room = out->len < LIMIT_HTTP_PAGE_BYTES ? LIMIT_HTTP_PAGE_BYTES - out->len : 0;
    size_t len = MIN(s->line.len - s->line_at, room);
    if (s->line.len == 0) return true;
    text_append(out, s->line.data + s->line_at, len);
    s->line_at += len;
    if (s->line_at < s->line.len) return false;
    text_reset(&s->line);
    s->line_at = 0;
    return true;
}

// What to do when no partition has a message at hand: wait, or end.
static http_page nothing_now(messages *s, bool unknown) {
    u64 now_ns = s->x->worker->now_ns;
    if (!unknown) s->late_ns = now_ns + LIMIT_OPS_REPLY_MS * NS_PER_MS;
    if (now_ns < s->late_ns && unknown) return HTTP_PAGE_WAIT;
    bool waits = s->query.follow || (s->left == s->query.limit && now_ns < s->wait_until_ns);
    if (waits && !unknown) {
        parts_wait(s);
        return HTTP_PAGE_WAIT;
    }
    last_line(s);
    return HTTP_PAGE_MORE;
}

static http_page source(http_exchange *x, text *out) {
    messages *s = x->state;
    while (out->len < LIMIT_HTTP_PAGE_BYTES) {
        if (s->line.failed || out->failed) {
            out->failed = true;
            return HTTP_PAGE_END;
        }
        if (!line_send(s, out)) return HTTP_PAGE_MORE;
        if (s->finishing) return HTTP_PAGE_END;
        if (s->left == 0) {
            last_line(s);
            continue;
        }
        bool unknown;
        part *p = part_oldest(s, &unknown);
        if (p == NULL) {
            http_page result = nothing_now(s, unknown);
            if (result == HTTP_PAGE_WAIT) return result;
            continue;
        }
        stream_line_append(&s->line, p->partition, &p->head);
        if (!s->query.follow) s->left--;
        s->late_ns = x->worker->now_ns + LIMIT_OPS_REPLY_MS * NS_PER_MS;
        part_step(p);
    }
    return HTTP_PAGE_MORE;
}

// --- the request ---

static bool parts_open(messages *s, const stream_partition *found, u32 count) {
    for (u32 i = 0; i < count; i++) {
        u32 partition = found[i].number >> STREAM_NUMBER_BITS;
        if (s->query.partition >= 0 && partition != (u32)s->query.partition) continue;
        part *p = &s->parts[s->part_count];
        const stream_ask settings = {.arrived = page_arrived, .context = p, .messages_max = s->query.limit};
        *p = (part){.of = s, .partition = partition, .next = found[i].first};
        stream_from from = stream_from_of(&s->query.from, partition);
        p->ask = stream_ask_open(s->x->worker, &found[i], &settings, from, NULL, 0);
        if (p->ask == NULL) return false;
        s->part_count++;
    }
    return true;
}

void stream_messages_answer(http_exchange *x, const char *name) {
    stream_partition found[LIMIT_WORKERS_MAX];
    stream_query query;
    const char *error = stream_query_parse(http_req(x), clock_real_ns() / NS_PER_MS, &query);
    if (error != NULL) {
        http_answer_error(x, 400, "%s", error);
        return;
    }
    u32 count = stream_partitions(x->worker, name, (u32)strlen(name), found, ARRAY_LEN(found));
    messages *s = count == 0 ? NULL : calloc(1, sizeof(*s) + count * sizeof(part));
    if (s == NULL) {
        http_answer_error(x, count == 0 ? 404 : 503, count == 0 ? "no such stream" : "no memory");
        return;
    }
    s->x = x;
    s->query = query;
    s->left = query.limit;
    s->line = text_make(LINE_BYTES_MAX);
    s->late_ns = x->worker->now_ns + LIMIT_OPS_REPLY_MS * NS_PER_MS;
    if (query.wait_ms > 0) s->wait_until_ns = x->worker->now_ns + query.wait_ms * NS_PER_MS;
    http_set_state(x, s, state_free);
    if (!parts_open(s, found, count)) http_answer_error(x, 503, "too many readings of streams are under way");
    else if (s->part_count == 0) http_answer_error(x, 404, "the stream has no such partition");
    else http_answer_pages(x, HTTP_NDJSON, source, query.follow);
}
