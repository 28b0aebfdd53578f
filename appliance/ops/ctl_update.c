// SPDX-License-Identifier: Apache-2.0
// ctl_update.c: see ctl_update.h. The appliance judges the update; here only the file's first bytes are looked
// at, so that a wrong file is told before it is sent.
#include "ops/ctl_update.h"

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

typedef struct session {
    const ctl_target *target;
    text answer;
    yyjson_doc *doc;
    yyjson_val *result; // of the last answer
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
                  .body_part = collect, .context = &s->answer};
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

// Waits until the writer is done; tells what came of it.
static int follow(session *s, const ctl_update *u) {
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000l};
    for (;;) {
        int status = ask(s, NULL, 0);
        if (status != CTL_OK) return status;
        if (strcmp(field(s, "state"), "writing") != 0) break;
        nanosleep(&pause, NULL);
    }
    if (strcmp(field(s, "state"), "written") != 0) {
        fprintf(stderr, "sluice ctl: the update was not taken: %s\n", field(s, "error"));
        return CTL_REFUSED;
    }
    if (u->json) {
        print_result(s, u);
        return CTL_OK;
    }
    printf("version %s is in slot %s and verified; %s\n", field(s, "target_version"), field(s, "target"),
           u->no_restart ? "it will be tried at the next restart" : "the appliance restarts into its trial");
    return CTL_OK;
}

static int begin(session *s, const ctl_update *u, const char *op, const char *url) {
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    size_t len = 0;
    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_str(doc, root, "op", op);
    if (url != NULL) yyjson_mut_obj_add_str(doc, root, "url", url);
    yyjson_mut_obj_add_bool(doc, root, "allow_downgrade", u->allow_downgrade);
    yyjson_mut_obj_add_bool(doc, root, "restart", !u->no_restart);
    char *body = yyjson_mut_write(doc, 0, &len);
    if (body == NULL) base_out_of_memory("request", 256);
    int status = ask(s, body, len);
    free(body);
    yyjson_mut_doc_free(doc);
    return status;
}

// One part, from the file. 0 bytes = the end. Returns the bytes sent, or -1 with *status set.
static ssize_t send_part(session *s, int fd, u64 id, u64 offset, u8 *data, char *body, size_t part, int *status) {
    ssize_t n = read(fd, data, part);
    if (n < 0) {
        fprintf(stderr, "sluice ctl: the file could not be read: %s\n", strerror(errno));
        *status = CTL_USAGE;
        return -1;
    }
    if (n == 0) return 0;
    int head = snprintf(body, 128, "{\"op\":\"data\",\"id\":%llu,\"offset\":%llu,\"data\":\"", (unsigned long long)id,
                        (unsigned long long)offset);
    base64_encode(data, (size_t)n, body + head);
    size_t len = (size_t)head + BASE64_CHARS((size_t)n);
    memcpy(body + len, "\"}", 2);
    *status = ask(s, body, len + 2);
    return *status == CTL_OK ? n : -1;
}

static int send_parts(session *s, int fd, u64 bytes) {
    u64 id = yyjson_get_uint(yyjson_obj_get(s->result, "id")), offset = 0;
    size_t part = (size_t)yyjson_get_uint(yyjson_obj_get(s->result, "part_bytes"));
    int status = CTL_OK;
    part = part == 0 ? LIMIT_UPDATE_PART_BYTES : MIN(part, (size_t)LIMIT_UPDATE_PART_BYTES);
    u8 *data = malloc(part);
    char *body = malloc(BASE64_CHARS(part) + 256);
    if (data == NULL || body == NULL) base_out_of_memory("part of the update", part);
    for (;;) {
        ssize_t n = send_part(s, fd, id, offset, data, body, part, &status);
        if (n <= 0) break;
        offset += (u64)n;
        if (isatty(STDERR_FILENO)) {
            fprintf(stderr, "\r%llu of %llu KiB", (unsigned long long)(offset >> 10),
                    (unsigned long long)(bytes >> 10));
        }
    }
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%40s\r", "");
    if (status == CTL_OK) {
        int len = snprintf(body, 128, "{\"op\":\"finish\",\"id\":%llu}", (unsigned long long)id);
        status = ask(s, body, (size_t)len);
    }
    free(data);
    free(body);
    return status;
}

static int send_file(session *s, const ctl_update *u) {
    struct stat st;
    char magic[8] = "";
    int fd = open(u->what, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        fprintf(stderr, "sluice ctl: %s: %s\n", u->what, strerror(errno));
        if (fd >= 0) close(fd);
        return CTL_USAGE;
    }
    int status = CTL_USAGE;
    if (pread(fd, magic, sizeof(magic), 0) != (ssize_t)sizeof(magic) || memcmp(magic, "SLUICEUP", 8) != 0) {
        fprintf(stderr, "sluice ctl: %s: %s\n", u->what, update_verdict_text(UPDATE_NOT_ONE));
    } else {
        status = begin(s, u, "begin", NULL);
        if (status == CTL_OK) status = send_parts(s, fd, (u64)st.st_size);
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
    int status = begin(s, u, "fetch", u->what);
    return status == CTL_OK ? follow(s, u) : status;
}

int ctl_update_run(const ctl_target *target, const ctl_update *u) {
    session s = {.target = target, .answer = text_make(ANSWER_BYTES)};
    int status = run(&s, u);
    yyjson_doc_free(s.doc);
    text_free(&s.answer);
    return status;
}
