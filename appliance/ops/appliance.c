// SPDX-License-Identifier: Apache-2.0
// appliance.c: /api/appliance/NAME: what may be asked of `sluice init` (init/requests.h), passed on to its socket and
// back. GET asks without arguments, POST with the body as arguments. The connection to init is a handle of
// the operations worker's engine: one for each exchange, nothing waits.
//
// Invariant: a proxy lives until its handle is closed; the exchange may be gone before (x is NULL then).
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <yyjson.h>

#include "init/requests.h"
#include "ops/routes.h"

typedef struct proxy {
    io_handle handle;
    worker *ops;
    http_exchange *x;
    text request, answer;
    struct iovec iov;
    size_t sent;
    bool closing;
} proxy;

static void proxy_close(proxy *p) {
    if (p->closing) return;
    p->closing = true;
    io_close(p->ops->engine, &p->handle, false);
}

// The exchange is over, answered or not.
static void proxy_state_free(void *state) {
    proxy *p = state;
    p->x = NULL;
    proxy_close(p);
}

static void proxy_on_closed(io_handle *h) {
    proxy *p = CONTAINER_OF(h, proxy, handle);
    text_free(&p->request);
    text_free(&p->answer);
    free(p);
}

static void proxy_fail(proxy *p, const char *what, int result) {
    http_exchange *x = p->x;
    if (x == NULL) return;
    http_enter(x);
    http_answer_error(x, 503, "init: %s: %s", what, errno_name(result));
    http_leave(x);
}

// --- answer ---

static void answer_pass(http_exchange *x, yyjson_val *root) {
    const char *error = yyjson_get_str(yyjson_obj_get(root, "error"));
    yyjson_val *result = yyjson_obj_get(root, "result");
    if (error != NULL) {
        bool unknown = strncmp(error, "no request ", 11) == 0;
        http_answer_error(x, unknown ? 404 : 409, "%s", error);
        return;
    }
    size_t len = 0;
    char *json = result == NULL ? NULL : yyjson_val_write(result, YYJSON_WRITE_NEWLINE_AT_END, &len);
    if (json != NULL) http_answer(x, 200, HTTP_JSON, json, len);
    else http_answer_error(x, 503, "init: not an answer");
    free(json);
}

static void proxy_answered(proxy *p, size_t len) {
    http_exchange *x = p->x;
    if (x == NULL) return;
    yyjson_doc *doc = yyjson_read(p->answer.data, len, 0);
    http_enter(x);
    answer_pass(x, yyjson_doc_get_root(doc));
    http_leave(x);
    yyjson_doc_free(doc);
}

static void proxy_on_recv(io_handle *h, int result, u8 *data) {
    proxy *p = CONTAINER_OF(h, proxy, handle);
    if (p->closing) return;
    if (result <= 0) {
        proxy_fail(p, "its answer ended", result == 0 ? ECONNRESET : result);
        proxy_close(p);
        return;
    }
    size_t before = p->answer.len;
    text_append(&p->answer, data, (size_t)result);
    if (p->answer.failed) {
        proxy_fail(p, "its answer", ENOMEM);
        proxy_close(p);
        return;
    }
    const char *end = memchr(p->answer.data + before, '\n', (size_t)result);
    if (end == NULL) return;
    proxy_answered(p, (size_t)(end - p->answer.data));
    proxy_close(p);
}

// --- request ---

static void proxy_push(proxy *p) {
    while (p->sent < p->request.len) {
        p->iov = (struct iovec){p->request.data + p->sent, p->request.len - p->sent};
        int result = io_send(p->ops->engine, &p->handle, &p->iov, 1);
        if (result == IO_PENDING) return;
        if (result < 0) {
            proxy_fail(p, "request", result);
            proxy_close(p);
            return;
        }
        p->sent += (size_t)result;
    }
}

static void proxy_on_send(io_handle *h, int result) {
    proxy *p = CONTAINER_OF(h, proxy, handle);
    if (p->closing) return;
    if (result < 0) {
        proxy_fail(p, "request", result);
        proxy_close(p);
        return;
    }
    p->sent += (size_t)result;
    proxy_push(p);
}

static void proxy_timeout(http_exchange *x) {
    http_answer_error(x, 503, "init did not answer in %u s", LIMIT_OPS_APPLIANCE_MS / 1000);
}

static const io_callbacks proxy_callbacks = {
    .on_recv = proxy_on_recv, .on_send = proxy_on_send, .on_closed = proxy_on_closed};

// Connects; a local socket answers at once. Returns the descriptor or -errno.
static int init_connect(void) {
    const char *path = getenv(INIT_SOCKET_ENV);
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    if (path == NULL || *path == 0) path = INIT_SOCKET_PATH;
    if (strlen(path) >= sizeof(addr.sun_path)) return -ENAMETOOLONG;
    strcpy(addr.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -errno;
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0) return fd;
    int failed = -errno;
    close(fd);
    return failed;
}

// {"request":NAME,"args":BODY}; the body is written again, so that it is one line. False: it is no JSON object.
static bool request_write(text *out, const char *name, const u8 *body, size_t len) {
    text_printf(out, "{\"request\":\"%s\"", name);
    if (len > 0) {
        yyjson_doc *doc = yyjson_read((const char *)body, len, 0);
        size_t args_len = 0;
        bool is_object = yyjson_is_obj(yyjson_doc_get_root(doc));
        char *args = is_object ? yyjson_write(doc, 0, &args_len) : NULL;
        yyjson_doc_free(doc);
        if (args == NULL) return false;
        text_puts(out, ",\"args\":");
        text_append(out, args, args_len);
        free(args);
    }
    text_puts(out, "}\n");
    return !out->failed;
}

static bool name_is_good(const char *name) {
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");
    return len > 0 && len <= LIMIT_NAME_BYTES && name[len] == '\0';
}

void appliance_handle(http_exchange *x, const char *rest) {
    const http_request *r = http_req(x);
    if (!name_is_good(rest)) {
        http_answer_error(x, 404, "no such request");
        return;
    }
    int fd = init_connect();
    if (fd == -ENOENT || fd == -ECONNREFUSED) {
        http_answer_error(x, 404, "this gateway does not run on the appliance");
        return;
    }
    proxy *p = fd < 0 ? NULL : calloc(1, sizeof(*p));
    if (p == NULL) {
        http_answer_error(x, 503, "init: %s", errno_name(fd < 0 ? fd : ENOMEM));
        if (fd >= 0) close(fd);
        return;
    }
    p->ops = x->worker;
    p->request = text_make(LIMIT_INIT_LINE_BYTES);
    p->answer = text_make(LIMIT_INIT_ANSWER_BYTES + 256);
    int attached = -EINVAL;
    if (request_write(&p->request, rest, r->body, r->body_len)) {
        attached = io_attach(p->ops->engine, &p->handle, fd, &proxy_callbacks);
        if (attached < 0) http_answer_error(x, 503, "init: %s", errno_name(attached));
    } else {
        http_answer_error(x, 400, "the body is not a JSON object");
    }
    if (attached < 0) {
        close(fd);
        proxy_on_closed(&p->handle);
        return;
    }
    p->x = x;
    http_set_state(x, p, proxy_state_free);
    http_wait(x, LIMIT_OPS_APPLIANCE_MS, proxy_timeout);
    io_recv_start(p->ops->engine, &p->handle, true);
    proxy_push(p);
}
