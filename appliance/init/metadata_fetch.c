// SPDX-License-Identifier: Apache-2.0
// metadata_fetch.c: the requests of metadata_step.c over TCP on init's loop: connect, send, read to the
// end, each attempt on a connection of its own and under one deadline.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "init/init_log.h"
#include "init/loop.h"
#include "init/metadata_http.h"

static struct {
    bool running;
    struct sockaddr_in address;
    metadata_step step;
    metadata_done done;
    metadata_retry retry;
    http_answer answer;
    init_watch watch;
    init_timer timer; // the attempt's deadline, or the pause
    bool pausing;
    size_t sent;
    int fd;
} fetch = {.address = {.sin_family = AF_INET}, .fd = -1};

static void act(metadata_verdict v);

void cloud_read_dmi(cloud_dmi *out) {
    const struct {
        const char *name;
        char *text;
    } files[] = {
        {"sys_vendor", out->sys_vendor},     {"product_name", out->product_name},
        {"product_uuid", out->product_uuid}, {"bios_vendor", out->bios_vendor},
        {"bios_version", out->bios_version}, {"chassis_asset_tag", out->chassis_asset_tag},
    };
    memset(out, 0, sizeof(*out));
    for (u32 i = 0; i < ARRAY_LEN(files); i++) {
        char path[64];
        snprintf(path, sizeof(path), "/sys/class/dmi/id/%s", files[i].name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) continue;
        ssize_t n = read(fd, files[i].text, DMI_TEXT_BYTES - 1);
        close(fd);
        while (n > 0 && (files[i].text[n - 1] == '\n' || files[i].text[n - 1] == ' ')) n--;
        files[i].text[MAX(n, 0)] = '\0';
    }
}

static void close_attempt(void) {
    if (fetch.fd >= 0) {
        init_loop_unwatch(&fetch.watch);
        close(fetch.fd);
        fetch.fd = -1;
    }
    init_timer_clear(&fetch.timer);
}

static void finish(const char *text, size_t len, const char *problem) {
    close_attempt();
    fetch.running = false;
    fetch.done(text, len, problem);
    http_answer_free(&fetch.answer);
}

// One attempt has ended: with an answer, or for a reason.
static void ended(const char *why) {
    http_answer *a = &fetch.answer;
    metadata_answer what = {.why = why};
    if (why == NULL) {
        what = (metadata_answer){.status = a->status, .body = a->body, .body_len = a->body_len,
                                 .flavor_google = a->flavor_google};
    }
    close_attempt();
    metadata_verdict v = metadata_step_answer(&fetch.step, &what);
    if (v == METADATA_DONE) {
        finish(a->body, a->body_len, "");
        return;
    }
    http_answer_free(a);
    act(v);
}

static bool send_more(void) {
    size_t len = strlen(fetch.step.request);
    while (fetch.sent < len) {
        ssize_t n = send(fetch.fd, fetch.step.request + fetch.sent, len - fetch.sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno == EAGAIN;
        fetch.sent += (size_t)n;
    }
    init_loop_watch_events(&fetch.watch, EPOLLIN);
    return true;
}

static void read_more(void) {
    char buf[4096];
    for (int i = 0; i < 64; i++) {
        ssize_t n = recv(fetch.fd, buf, sizeof(buf), 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) {
            ended("the connection was reset");
            return;
        }
        answer_progress p = n == 0 ? http_answer_end(&fetch.answer)
                                   : http_answer_feed(&fetch.answer, buf, (size_t)n);
        if (p == ANSWER_MORE) continue;
        ended(p == ANSWER_COMPLETE ? NULL : fetch.answer.why);
        return;
    }
}

static void on_ready(init_watch *w, u32 events) {
    int err = 0;
    socklen_t len = sizeof(err);
    (void)w;
    if (fetch.sent == 0 && getsockopt(fetch.fd, SOL_SOCKET, SO_ERROR, &err, &len) == 0 && err != 0) {
        ended(err == ECONNREFUSED ? "nobody listens there (connection refused)" : "the service can not be reached");
        return;
    }
    if ((events & EPOLLOUT) != 0 && !send_more()) {
        ended("the request could not be sent");
        return;
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read_more();
}

static void begin_attempt(void) {
    http_answer_init(&fetch.answer);
    fetch.sent = 0;
    fetch.pausing = false;
    fetch.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fetch.fd < 0) {
        ended("no socket");
        return;
    }
    fetch.watch = (init_watch){.name = "metadata", .on_ready = on_ready, .fd = fetch.fd};
    int rc = connect(fetch.fd, (struct sockaddr *)&fetch.address, sizeof(fetch.address));
    if ((rc != 0 && errno != EINPROGRESS) || init_loop_watch(&fetch.watch, EPOLLOUT) != 0) {
        ended("there is no route to the service");
        return;
    }
    init_timer_set(&fetch.timer, METADATA_ANSWER_MS);
}

static void on_timer(init_timer *t) {
    (void)t;
    if (fetch.pausing) act(metadata_step_again(&fetch.step));
    else ended("no answer within 2 s");
}

static void act(metadata_verdict v) {
    switch (v) {
    case METADATA_ASK: begin_attempt(); break;
    case METADATA_WAIT:
        fetch.retry(fetch.step.problem);
        fetch.pausing = true;
        init_timer_set(&fetch.timer, fetch.step.wait_ms);
        break;
    case METADATA_EMPTY: finish(NULL, 0, ""); break;
    default: finish(NULL, 0, fetch.step.problem); break;
    }
}

void metadata_set_address(const u8 address[4], u16 port) {
    memcpy(&fetch.address.sin_addr, address, 4);
    fetch.address.sin_port = htons(port);
}

void metadata_start(cloud_kind kind, metadata_done done, metadata_retry retry) {
    static const u8 usual[4] = {169, 254, 169, 254};
    if (fetch.running) return;
    if (fetch.address.sin_port == 0) metadata_set_address(usual, 80);
    fetch.running = true;
    fetch.done = done;
    fetch.retry = retry;
    fetch.timer = (init_timer){.name = "metadata", .on_fire = on_timer};
    http_answer_init(&fetch.answer);
    act(metadata_step_begin(&fetch.step, kind));
}

void metadata_stop(void) {
    if (!fetch.running) return;
    close_attempt();
    http_answer_free(&fetch.answer);
    fetch.running = false;
}
