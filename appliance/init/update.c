// SPDX-License-Identifier: Apache-2.0
// update.c: see update.h. Holds the one state (update_table.h) and answers the requests. The update's bytes go
// through a socket to the writer, which reads them at its own pace: a part is acknowledged when the socket has
// taken all of it, so that at most one part is held here.
#include "init/update.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base64.h"
#include "init/control.h"
#include "init/init_log.h"
#include "init/state.h"
#include "init/update_env.h"
#include "init/update_fetch.h"
#include "init/update_internal.h"
#include "version.h"

#define UPDATE_FILE_CHARS 64u // a SHA-256 in hexadecimal

static struct {
    boot_slot boot;
    update_state state;
    update_order order;
    update_helper writer, looker;
    bool restart;
    u64 id;
    u64 received;              // bytes of the update that the writer's socket has taken
    char file[UPDATE_FILE_CHARS + 1]; // what its sender calls the file, "" = no name
    u64 done_bytes, total_bytes;
    char version[80], error[UPDATE_HELPER_LINE_BYTES], last[200];
    char target;
    // The part on its way to the writer.
    init_watch pipe;           // fd -1 = closed
    u8 *part;
    size_t part_len, part_sent;
    init_request *part_request;
    init_timer restart_timer;
} self = {.pipe = {.fd = -1}};

const boot_slot *update_boot(void) {
    return &self.boot;
}

update_state update_state_now(void) {
    return self.state;
}

void update_record(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(self.last, sizeof(self.last), format, args);
    va_end(args);
    init_info("update: %s", self.last);
    state_put("update.last", self.last, strlen(self.last));
}

// --- the writer ---

static void part_drop(const char *why) {
    free(self.part);
    self.part = NULL;
    if (self.part_request != NULL) init_request_answer_error(self.part_request, "%s", why);
    self.part_request = NULL;
}

static void pipe_close(void) {
    if (self.pipe.fd < 0) return;
    init_loop_unwatch(&self.pipe);
    close(self.pipe.fd);
    self.pipe.fd = -1;
}

static void writer_line(update_helper *h, const char *line) {
    (void)h;
    unsigned long long done, total;
    if (sscanf(line, "progress %llu %llu", &done, &total) == 2) {
        self.done_bytes = done;
        self.total_bytes = total;
    } else if (strncmp(line, "version ", 8) == 0) {
        snprintf(self.version, sizeof(self.version), "%s", line + 8);
    } else if (strncmp(line, "slot ", 5) == 0) {
        self.target = line[5];
    } else if (strncmp(line, "error ", 6) == 0) {
        snprintf(self.error, sizeof(self.error), "%s", line + 6);
    }
}

static void writer_end(update_helper *h, int status) {
    (void)h;
    pipe_close();
    bool good = status == 0 && self.target != 0;
    if (!good && self.error[0] == '\0') snprintf(self.error, sizeof(self.error), "the writer ended unexpectedly");
    update_feed(good ? UPDATE_DONE : UPDATE_FAILED);
    part_drop(good ? "the update is already whole" : self.error);
}

static int writer_run(update_helper *h) {
    // The writing end is the parent's; while this process held it too, the end of the stream would not be seen.
    if (self.pipe.fd >= 0) close(self.pipe.fd);
    return update_work_write(h, &self.order);
}

// Takes what the socket holds of the part; acknowledges it when all is there.
static void part_push(void) {
    while (self.part_sent < self.part_len) {
        ssize_t n = send(self.pipe.fd, self.part + self.part_sent, self.part_len - self.part_sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) {
            init_loop_watch_events(&self.pipe, EPOLLOUT);
            return;
        }
        if (n < 0) { // the writer is gone; its end says why
            init_loop_watch_events(&self.pipe, 0);
            return;
        }
        self.part_sent += (size_t)n;
        self.received += (u64)n;
    }
    char json[64];
    int len = snprintf(json, sizeof(json), "{\"received\":%llu}", (unsigned long long)self.received);
    free(self.part);
    self.part = NULL;
    init_loop_watch_events(&self.pipe, 0);
    init_request_answer(self.part_request, json, (size_t)len);
    self.part_request = NULL;
}

static void pipe_ready(init_watch *w, u32 events) {
    if ((events & (EPOLLERR | EPOLLHUP)) != 0) init_loop_unwatch(w); // the writer's end follows
    else if (self.part != NULL) part_push();
}

static int writer_open_pipe(void) {
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0) return -errno;
    self.pipe = (init_watch){.name = "update", .on_ready = pipe_ready, .fd = fds[1]};
    self.order.fd = fds[0];
    int err = init_loop_watch(&self.pipe, 0);
    if (err == 0) return 0;
    close(fds[0]);
    close(fds[1]);
    self.pipe.fd = -1;
    return err;
}

static void writer_start(void) {
    self.done_bytes = self.total_bytes = self.received = 0;
    self.version[0] = self.error[0] = '\0';
    self.target = 0;
    self.id++;
    self.order.running = self.boot.slot;
    self.writer = (update_helper){.name = "update", .run = writer_run, .on_line = writer_line, .on_end = writer_end};
    bool parts = self.order.url[0] == '\0';
    self.order.fd = -1;
    int err = parts ? writer_open_pipe() : 0;
    if (err == 0) err = update_helper_start(&self.writer);
    if (self.order.fd >= 0) close(self.order.fd);
    if (err == 0) return;
    pipe_close();
    snprintf(self.error, sizeof(self.error), "the writer could not be started: %s", errno_name(err));
    update_feed(UPDATE_FAILED);
}

// --- the table's actions ---

static void restart_fire(init_timer *t) {
    (void)t;
    init_shutdown(INIT_REBOOT, "update");
}

static void act(update_action action) {
    switch (action) {
    case UPDATE_NOTHING:
    case UPDATE_REFUSE: break;
    case UPDATE_WRITE: writer_start(); break;
    case UPDATE_RESTART:
        update_record("version %s is in slot %c and will be tried at the next start", self.version, self.target);
        if (self.restart) init_timer_set(&self.restart_timer, LIMIT_UPDATE_REBOOT_MS);
        break;
    case UPDATE_BLESS: update_trial_bless(); break;
    case UPDATE_RECORD:
        if (self.error[0] != '\0') update_record("failed: %s", self.error);
        break;
    case UPDATE_ROLL_BACK:
        update_record("slot %c was not confirmed in time: %s", self.boot.slot, update_trial_complaint());
        init_shutdown(INIT_REBOOT, "the new system was not confirmed in time");
        break;
    }
}

update_action update_feed(update_event event) {
    update_step step = update_table(self.state, event);
    if (step.next != self.state) {
        init_info("update: %s -> %s", update_state_name(self.state), update_state_name(step.next));
        self.state = step.next;
    }
    act(step.action);
    return step.action;
}

// --- requests ---

// The name that a sender gives the file, so that it can go on after it was away: the SHA-256 of the header.
static const char *file_of(yyjson_val *args) {
    yyjson_val *file = yyjson_obj_get(args, "file");
    return yyjson_is_str(file) && yyjson_get_len(file) <= UPDATE_FILE_CHARS ? yyjson_get_str(file) : "";
}

static void answer_begun(init_request *r, bool started) {
    char json[128];
    int len = snprintf(json, sizeof(json), "{\"id\":%llu,\"part_bytes\":%u,\"started\":%s,\"received\":%llu}",
                       (unsigned long long)self.id, LIMIT_UPDATE_PART_BYTES, started ? "true" : "false",
                       (unsigned long long)self.received);
    init_request_answer(r, json, (size_t)len);
}

static void request_begin(init_request *r, yyjson_val *args, const char *url) {
    yyjson_val *restart = yyjson_obj_get(args, "restart");
    const char *file = url[0] == '\0' ? file_of(args) : "";
    bool known = self.state == UPDATE_WRITING && self.pipe.fd >= 0 && file[0] != '\0' && strcmp(file, self.file) == 0;
    if (known && self.part_request == NULL) {
        self.restart = restart == NULL || yyjson_get_bool(restart);
        answer_begun(r, false);
        return;
    }
    if (self.state != UPDATE_IDLE) {
        init_request_answer_error(r, "%s", update_refusal(self.state));
        return;
    }
    self.order = (update_order){.fd = -1, .allow_downgrade = yyjson_get_bool(yyjson_obj_get(args, "allow_downgrade"))};
    snprintf(self.order.url, sizeof(self.order.url), "%s", url);
    snprintf(self.file, sizeof(self.file), "%s", file);
    self.restart = restart == NULL || yyjson_get_bool(restart);
    update_feed(UPDATE_BEGIN);
    if (self.state != UPDATE_WRITING) {
        init_request_answer_error(r, "%s", self.error);
        return;
    }
    answer_begun(r, true);
}

static void request_fetch(init_request *r, yyjson_val *args) {
    const char *url = yyjson_get_str(yyjson_obj_get(args, "url"));
    const char *wrong = url == NULL ? "a url is missing" : update_fetch_check(url);
    if (wrong != NULL) init_request_answer_error(r, "%s", wrong);
    else request_begin(r, args, url);
}

// Whether a request belongs to the update that is being taken in parts.
static bool is_current(init_request *r, yyjson_val *args) {
    bool same = yyjson_get_uint(yyjson_obj_get(args, "id")) == self.id && self.order.url[0] == '\0' && self.id != 0;
    if (same && self.state == UPDATE_WRITING && self.pipe.fd >= 0) return true;
    if (same && self.error[0] != '\0') init_request_answer_error(r, "%s", self.error);
    else init_request_answer_error(r, "no such update is being received");
    return false;
}

static void request_data(init_request *r, yyjson_val *args) {
    yyjson_val *data = yyjson_obj_get(args, "data");
    size_t len = yyjson_get_len(data);
    if (!is_current(r, args)) return;
    if (self.part_request != NULL) {
        init_request_answer_error(r, "the part before this one is still on its way");
    } else if (!yyjson_is_str(data) || len > BASE64_CHARS(LIMIT_UPDATE_PART_BYTES)) {
        init_request_answer_error(r, "data is missing or longer than %u bytes", LIMIT_UPDATE_PART_BYTES);
    } else if (yyjson_get_uint(yyjson_obj_get(args, "offset")) != self.received) {
        init_request_answer_error(r, "the next part begins at %llu", (unsigned long long)self.received);
    } else if ((self.part = malloc(len / 4 * 3 + 1)) == NULL) {
        init_request_answer_error(r, "not enough memory");
    } else {
        ssize_t bytes = base64_decode(yyjson_get_str(data), len, self.part);
        self.part_request = r;
        self.part_len = (size_t)MAX(bytes, 0);
        self.part_sent = 0;
        if (bytes < 0) part_drop("data is not base64");
        else part_push();
    }
}

static void request_finish(init_request *r, yyjson_val *args) {
    if (!is_current(r, args)) return;
    if (self.part_request != NULL) {
        init_request_answer_error(r, "the part before this one is still on its way");
        return;
    }
    shutdown(self.pipe.fd, SHUT_WR);
    init_request_answer(r, "{\"finishing\":true}", 18);
}

static void request_abort(init_request *r) {
    if (self.state != UPDATE_WRITING) {
        init_request_answer_error(r, "no update is being written");
        return;
    }
    snprintf(self.error, sizeof(self.error), "aborted");
    update_helper_kill(&self.writer);
    init_request_answer(r, "{\"aborted\":true}", 16);
}

static void request_confirm(init_request *r) {
    if (self.state == UPDATE_TRIAL && update_feed(UPDATE_HEALTHY) == UPDATE_BLESS) {
        init_request_answer(r, "{\"confirmed\":true}", 18);
    } else {
        init_request_answer_error(r, "%s", update_refusal(self.state));
    }
}

static void request_status(init_request *r, yyjson_val *args) {
    (void)args;
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *o = yyjson_mut_obj(doc);
    char slot[2] = {self.boot.slot, '\0'}, target[2] = {self.target, '\0'};
    yyjson_mut_doc_set_root(doc, o);
    yyjson_mut_obj_add_str(doc, o, "state", update_state_name(self.state));
    yyjson_mut_obj_add_strcpy(doc, o, "version", SLUICE_VERSION);
    yyjson_mut_obj_add_strcpy(doc, o, "built", SLUICE_BUILD_DATE);
    yyjson_mut_obj_add_strcpy(doc, o, "slot", slot);
    yyjson_mut_obj_add_bool(doc, o, "trial", self.boot.trial);
    yyjson_mut_obj_add_bool(doc, o, "fallback", self.boot.fallback);
    yyjson_mut_obj_add_strcpy(doc, o, "last", self.last);
    if (self.state == UPDATE_TRIAL) {
        yyjson_mut_obj_add_uint(doc, o, "trial_left_ms", update_trial_left_ms());
        yyjson_mut_obj_add_strcpy(doc, o, "complaint", update_trial_complaint());
    }
    if (self.id > 0) {
        yyjson_mut_obj_add_uint(doc, o, "id", self.id);
        yyjson_mut_obj_add_uint(doc, o, "received", self.received);
        yyjson_mut_obj_add_bool(doc, o, "part_pending", self.part_request != NULL);
        yyjson_mut_obj_add_uint(doc, o, "done_bytes", self.done_bytes);
        yyjson_mut_obj_add_uint(doc, o, "total_bytes", self.total_bytes);
        yyjson_mut_obj_add_strcpy(doc, o, "target", target);
        yyjson_mut_obj_add_strcpy(doc, o, "target_version", self.version);
        yyjson_mut_obj_add_strcpy(doc, o, "error", self.error);
    }
    init_request_answer_doc(r, doc);
}

static void request_update(init_request *r, yyjson_val *args) {
    const char *op = yyjson_get_str(yyjson_obj_get(args, "op"));
    if (args == NULL) request_status(r, NULL);
    else if (op == NULL) init_request_answer_error(r, "op is missing: begin, data, finish, fetch, abort or confirm");
    else if (strcmp(op, "begin") == 0) request_begin(r, args, "");
    else if (strcmp(op, "data") == 0) request_data(r, args);
    else if (strcmp(op, "finish") == 0) request_finish(r, args);
    else if (strcmp(op, "fetch") == 0) request_fetch(r, args);
    else if (strcmp(op, "abort") == 0) request_abort(r);
    else if (strcmp(op, "confirm") == 0) request_confirm(r);
    else init_request_answer_error(r, "op is one of begin, data, finish, fetch, abort and confirm");
}

// --- start ---

static void look_line(update_helper *h, const char *line) {
    (void)h;
    char slot, try_slot;
    int tried;
    if (sscanf(line, "env %c %c %d", &slot, &try_slot, &tried) != 3) {
        init_warn("update: %s", strncmp(line, "error ", 6) == 0 ? line + 6 : line);
    } else if (tried == 1 && try_slot != '-' && try_slot != self.boot.slot) {
        update_record("slot %c did not prove itself, slot %c was started again", try_slot, self.boot.slot);
    }
}

static void look_end(update_helper *h, int status) {
    (void)h;
    (void)status;
}

static int look_run(update_helper *h) {
    return update_work_look(h);
}

// What became of the last update is in the loader's environment; reading it may take a slow disk a while.
static void look_start(void) {
    self.looker = (update_helper){.name = "update look", .run = look_run, .on_line = look_line, .on_end = look_end};
    int err = update_helper_start(&self.looker);
    if (err < 0) init_warn("update: the loader's environment is not read: %s", errno_name(err));
}

void init_update_start(void) {
    boot_slot_read(&self.boot);
    init_request_register("update", request_update);
    init_request_register("update-status", request_status);
    self.restart_timer = (init_timer){.name = "update restart", .on_fire = restart_fire};
    int len = state_get("update.last", self.last, sizeof(self.last) - 1);
    self.last[MAX(0, MIN(len, (int)sizeof(self.last) - 1))] = '\0';
    self.state = !self.boot.can_fall_back ? UPDATE_OFF : self.boot.trial ? UPDATE_TRIAL : UPDATE_IDLE;
    if (self.boot.fallback) {
        init_warn("update: slot %c could not be loaded, slot %c was started", update_slot_other(self.boot.slot),
                  self.boot.slot);
    }
    if (self.state == UPDATE_TRIAL) update_trial_start();
    else if (self.state == UPDATE_IDLE) look_start();
}
