// SPDX-License-Identifier: Apache-2.0
// ctl_update.c: see ctl_update.h. The appliance judges the update; here only the file's first bytes are looked
// at, so that a wrong file is told before it is sent.
#include "ops/ctl_update.h"

#include <bearssl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <yyjson.h>

#include "base/base64.h"
#include "init/update_header.h"
#include "limits.h"
#include "ops/ctl.h"
#include "ops/text.h"

#define PATH "/api/appliance/update"
#define ANSWER_BYTES 65536u
#define POLL_MS 250
#define PART_BYTES_FIRST 2048u
#define PART_BYTES_MIN 1024u
#define PART_QUICK_MS 1000u
#define PART_SLOW_MS 4000u
#define FOLLOW_MS 120000u // the appliance may be away so long when nothing is left to be sent

typedef struct session {
    const ctl_target *target;
    text answer;
    yyjson_doc *doc;
    yyjson_val *result; // of the last answer
    bool silent;        // failures are not told
} session;

static bool collect(void *context, const char *bytes, size_t len) {
    text_append(context, bytes, len);
    return !((text *)context)->failed;
}

// One request; body NULL asks for the state. Afterwards s->result is the answer's object.
static int ask(session *s, const char *body, size_t len) {
    yyjson_doc_free(s->doc);
    s->doc = NULL;
    text_reset(&s->answer);
    ctl_call c = {.method = body == NULL ? "GET" : "POST", .path = PATH, .body = body, .body_len = len,
                  .body_part = collect, .context = &s->answer, .silent = s->silent};
    int status = ctl_call_run(s->target, &c);
    if (status != CTL_OK) return status;
    s->doc = yyjson_read(s->answer.data, s->answer.len, 0);
    s->result = yyjson_doc_get_root(s->doc);
    if (yyjson_is_obj(yyjson_obj_get(s->result, "result"))) s->result = yyjson_obj_get(s->result, "result");
    if (yyjson_is_obj(s->result)) return CTL_OK;
    fprintf(stderr, "sluice ctl: the answer is not JSON\n");
    return CTL_BROKEN;
}

static int ask_op(session *s, const char *op) {
    char body[64];
    int len = snprintf(body, sizeof(body), "{\"op\":\"%s\"}", op);
    return ask(s, body, (size_t)len);
}

static const char *field(const session *s, const char *name) {
    const char *value = yyjson_get_str(yyjson_obj_get(s->result, name));
    return value != NULL ? value : "";
}

static void print_state(const session *s) {
    printf("version   %s, built %s\n", field(s, "version"), field(s, "built"));
    if (field(s, "slot")[0] != '\0') printf("slot      %s\n", field(s, "slot"));
    printf("state     %s\n", field(s, "state"));
    yyjson_val *left = yyjson_obj_get(s->result, "trial_left_ms");
    if (left != NULL) {
        printf("trial     %llu s left%s%s\n", (unsigned long long)(yyjson_get_uint(left) / 1000),
               field(s, "complaint")[0] != '\0' ? "; " : "", field(s, "complaint"));
    }
    if (yyjson_get_bool(yyjson_obj_get(s->result, "fallback"))) {
        printf("fallback  the other slot could not be loaded\n");
    }
    if (field(s, "error")[0] != '\0') printf("error     %s\n", field(s, "error"));
    if (field(s, "last")[0] != '\0') printf("last      %s\n", field(s, "last"));
}

static void print_result(const session *s, const ctl_update *u) {
    if (u->json) fwrite(s->answer.data, 1, s->answer.len, stdout);
    else if (u->what == NULL) print_state(s);
    else if (strcmp(u->what, "confirm") == 0) printf("the running system is being confirmed\n");
    else if (strcmp(u->what, "abort") == 0) printf("the update has been aborted\n");
}

// A pause that grows with the failures in a row.
static void rest(u32 failures) {
    u64 ms = MIN((u64)POLL_MS << MIN(failures, 10u), (u64)LIMIT_UPDATE_RETRY_MS);
    const struct timespec pause = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&pause, NULL);
}

// Waits until the writer is done; tells what came of it. Each poll has a connection of its own; one that fails is tried
// again, and while the link was away the appliance may have restarted into its trial.
static int follow(session *s, const ctl_update *u) {
    u64 heard_ns = clock_mono_ns();
    u32 failures = 0;
    for (;;) {
        s->silent = clock_mono_ns() - heard_ns < FOLLOW_MS * NS_PER_MS;
        int status = ask(s, NULL, 0);
        if (status != CTL_OK && (!s->silent || status == CTL_REFUSED)) return status;
        if (status == CTL_OK) heard_ns = clock_mono_ns();
        if (status == CTL_OK && strcmp(field(s, "state"), "writing") != 0) break;
        rest(status == CTL_OK ? 0 : ++failures);
    }
    const char *state = field(s, "state");
    bool restarted = failures > 0 && (strcmp(state, "trial") == 0 || strcmp(state, "blessing") == 0);
    if (strcmp(state, "written") != 0 && !restarted) {
        const char *why = field(s, "error")[0] != '\0' ? field(s, "error") : field(s, "last");
        fprintf(stderr, "sluice ctl: the update was not taken: %s\n", why);
        return CTL_REFUSED;
    }
    if (u->json) print_result(s, u);
    else if (restarted) printf("version %s runs, on trial\n", field(s, "version"));
    else {
        printf("version %s is in slot %s and verified; %s\n", field(s, "target_version"), field(s, "target"),
               u->no_restart ? "it will be tried at the next restart" : "the appliance restarts into its trial");
    }
    return CTL_OK;
}

static int begin(session *s, const ctl_update *u, const char *op, const char *key, const char *value) {
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    size_t len = 0;
    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_str(doc, root, "op", op);
    yyjson_mut_obj_add_str(doc, root, key, value);
    yyjson_mut_obj_add_bool(doc, root, "allow_downgrade", u->allow_downgrade);
    yyjson_mut_obj_add_bool(doc, root, "restart", !u->no_restart);
    char *body = yyjson_mut_write(doc, 0, &len);
    if (body == NULL) base_out_of_memory("request", 256);
    int status = ask(s, body, len);
    free(body);
    yyjson_mut_doc_free(doc);
    return status;
}

// --- a file, in parts ---

// A part is a request of its own. It is small at first, grows while the link takes it quickly, and shrinks where
// it does not, so that on a slow link (9.6 kbit/s) a cut costs seconds and not minutes.
typedef struct sender {
    session *s;
    int fd;
    u64 id, offset, bytes;
    u64 moved_ns;         // when the appliance last had more than before
    u32 failures;         // since then
    size_t part, part_max;
    u8 *data;
    char *body;
} sender;

static void show(const sender *o) {
    if (!isatty(STDERR_FILENO)) return;
    fprintf(stderr, "\r%llu of %llu KiB", (unsigned long long)(o->offset >> 10), (unsigned long long)(o->bytes >> 10));
}

// The part at offset, n bytes of the file; 0: the end.
static int send_part(sender *o, size_t n) {
    int head = snprintf(o->body, 128, n > 0 ? "{\"op\":\"data\",\"id\":%llu,\"offset\":%llu,\"data\":\""
                                            : "{\"op\":\"finish\",\"id\":%llu}",
                        (unsigned long long)o->id, (unsigned long long)o->offset);
    size_t len = (size_t)head;
    if (n > 0) {
        base64_encode(o->data, n, o->body + len);
        len += BASE64_CHARS(n);
        memcpy(o->body + len, "\"}", 2);
        len += 2;
    }
    return ask(o->s, o->body, len);
}

static void part_taken(sender *o, size_t n, u64 took_ns) {
    o->offset += n;
    o->moved_ns = clock_mono_ns();
    o->failures = 0;
    if (took_ns < PART_QUICK_MS * NS_PER_MS) o->part = MIN(2 * o->part, o->part_max);
    else if (took_ns > PART_SLOW_MS * NS_PER_MS) o->part = MAX(o->part / 2, MIN((size_t)PART_BYTES_MIN, o->part_max));
    show(o);
}

// Where the appliance is with our update, as it just said. False: it does not take it any more, or never said so.
static bool still_wanted(sender *o, bool *pending) {
    yyjson_val *received = yyjson_obj_get(o->s->result, "received");
    *pending = yyjson_get_bool(yyjson_obj_get(o->s->result, "part_pending"));
    if (strcmp(field(o->s, "state"), "writing") != 0 || received == NULL) return false;
    if (yyjson_get_uint(yyjson_obj_get(o->s->result, "id")) != o->id) return false;
    if (yyjson_get_uint(received) > o->offset) o->moved_ns = clock_mono_ns();
    o->offset = yyjson_get_uint(received);
    return true;
}

// After a part that was not acknowledged (refused, or lost with its connection): asks how far the appliance is
// until it answers, so that the next part begins there. CTL_OK: go on, or *ended when nothing more is wanted; else it
// has been told.
static int find_place(sender *o, bool lost, bool *ended) {
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%40s\r", "");
    if (lost && o->failures == 0) {
        fprintf(stderr, "sluice ctl: the connection was lost at %llu KiB; going on from there\n",
                (unsigned long long)(o->offset >> 10));
    }
    for (;;) {
        bool pending = false;
        if (o->failures++ > 0) rest(o->failures);
        o->s->silent = clock_mono_ns() - o->moved_ns < LIMIT_UPDATE_IDLE_MS * NS_PER_MS;
        int status = ask(o->s, NULL, 0);
        if (status == CTL_OK) *ended = !still_wanted(o, &pending);
        if (status == CTL_OK && !pending && o->s->silent) break;
        if (status == CTL_REFUSED) { // again, and this time it says why
            o->s->silent = false;
            return ask(o->s, NULL, 0) == CTL_OK ? CTL_BROKEN : status;
        }
        if (!o->s->silent) {
            fprintf(stderr, "sluice ctl: no part of the update was taken for %u s\n", LIMIT_UPDATE_IDLE_MS / 1000);
            return status == CTL_OK ? CTL_BROKEN : status;
        }
    }
    o->part = MIN((size_t)PART_BYTES_FIRST, o->part_max);
    return CTL_OK;
}

static int send_parts(sender *o) {
    bool ended = false;
    while (!ended) {
        u64 begin_ns = clock_mono_ns();
        ssize_t n = pread(o->fd, o->data, o->part, (off_t)o->offset);
        if (n < 0) {
            fprintf(stderr, "sluice ctl: the file could not be read: %s\n", strerror(errno));
            return CTL_USAGE;
        }
        o->s->silent = true;
        int status = send_part(o, (size_t)n);
        if (status == CTL_OK && n == 0) break;
        if (status == CTL_OK) part_taken(o, (size_t)n, clock_mono_ns() - begin_ns);
        else status = find_place(o, status != CTL_REFUSED, &ended);
        if (status != CTL_OK) return status;
    }
    return CTL_OK;
}

static int send_all_parts(session *s, int fd, u64 bytes) {
    size_t part = (size_t)yyjson_get_uint(yyjson_obj_get(s->result, "part_bytes"));
    sender o = {.s = s, .fd = fd, .bytes = bytes, .id = yyjson_get_uint(yyjson_obj_get(s->result, "id")),
                .offset = yyjson_get_uint(yyjson_obj_get(s->result, "received")), .moved_ns = clock_mono_ns()};
    o.part_max = part == 0 ? LIMIT_UPDATE_PART_BYTES : MIN(part, (size_t)LIMIT_UPDATE_PART_BYTES);
    o.part = MIN((size_t)PART_BYTES_FIRST, o.part_max);
    o.data = malloc(o.part_max);
    o.body = malloc(BASE64_CHARS(o.part_max) + 256);
    if (o.data == NULL || o.body == NULL) base_out_of_memory("part of the update", o.part_max);
    if (o.offset > 0) fprintf(stderr, "sluice ctl: going on at %llu KiB\n", (unsigned long long)(o.offset >> 10));
    int status = send_parts(&o);
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%40s\r", "");
    free(o.data);
    free(o.body);
    return status;
}

// A name by which the appliance knows the file again: the SHA-256 of its header.
static void file_name(const u8 *header, char out[2 * UPDATE_HASH_BYTES + 1]) {
    u8 sum[UPDATE_HASH_BYTES];
    br_sha256_context hash;
    br_sha256_init(&hash);
    br_sha256_update(&hash, header, UPDATE_HEADER_BYTES);
    br_sha256_out(&hash, sum);
    for (u32 i = 0; i < UPDATE_HASH_BYTES; i++) snprintf(out + 2 * i, 3, "%02x", sum[i]);
}

static int send_file(session *s, const ctl_update *u) {
    struct stat st;
    u8 header[UPDATE_HEADER_BYTES] = "";
    char name[2 * UPDATE_HASH_BYTES + 1];
    int fd = open(u->what, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        fprintf(stderr, "sluice ctl: %s: %s\n", u->what, strerror(errno));
        if (fd >= 0) close(fd);
        return CTL_USAGE;
    }
    int status = CTL_USAGE;
    if (pread(fd, header, sizeof(header), 0) < 8 || memcmp(header, "SLUICEUP", 8) != 0) {
        fprintf(stderr, "sluice ctl: %s: %s\n", u->what, update_verdict_text(UPDATE_NOT_ONE));
    } else {
        file_name(header, name);
        status = begin(s, u, "begin", "file", name);
        if (status == CTL_OK) status = send_all_parts(s, fd, (u64)st.st_size);
        if (status == CTL_OK) status = follow(s, u);
    }
    close(fd);
    return status;
}

static int run(session *s, const ctl_update *u) {
    bool plain = u->what == NULL || strcmp(u->what, "confirm") == 0 || strcmp(u->what, "abort") == 0;
    if (plain) {
        int status = u->what == NULL ? ask(s, NULL, 0) : ask_op(s, u->what);
        if (status == CTL_OK) print_result(s, u);
        return status;
    }
    if (strstr(u->what, "://") == NULL) return send_file(s, u);
    int status = begin(s, u, "fetch", "url", u->what);
    return status == CTL_OK ? follow(s, u) : status;
}

int ctl_update_run(const ctl_target *target, const ctl_update *u) {
    session s = {.target = target, .answer = text_make(ANSWER_BYTES)};
    int status = run(&s, u);
    yyjson_doc_free(s.doc);
    text_free(&s.answer);
    return status;
}
