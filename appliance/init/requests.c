// SPDX-License-Identifier: Apache-2.0
// requests.c: see requests.h. A client's lines are taken one at a time: the next is read when the answer to
// the last has been written, so that answers come in order and memory is bounded by one line and one
// answer for each client. A client beyond LIMIT_INIT_CLIENTS is closed at once.
#include "init/requests.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "init/control.h"
#include "init/gateway_user.h"
#include "init/init_log.h"
#include "init/loop.h"
#include "limits.h"

#define LINE_START_BYTES 4096u

typedef struct client {
    init_watch watch;
    char *in;               // LIMIT_INIT_LINE_BYTES at most
    size_t in_len, in_size;
    char *out;
    size_t out_len, out_sent;
    init_request *request;  // being answered
    bool ended;             // the client sends no more
} client;

struct init_request {
    client *asker;          // NULL: gone
    bool in_handler;
};

typedef struct registered {
    const char *name;
    init_request_handler handler;
} registered;

static registered known[LIMIT_INIT_REQUESTS];
static u32 known_count;
static init_watch listener = {.fd = -1};
static client *clients[LIMIT_INIT_CLIENTS];
static char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];

static void client_serve(client *c);

// --- registry ---

static registered *find(const char *name) {
    for (u32 i = 0; i < known_count; i++) {
        if (strcmp(known[i].name, name) == 0) return &known[i];
    }
    return NULL;
}

void init_request_register(const char *name, init_request_handler handler) {
    ASSERT(known_count < LIMIT_INIT_REQUESTS && find(name) == NULL);
    known[known_count++] = (registered){name, handler};
}

const char *init_request_name(u32 index) {
    return index < known_count ? known[index].name : NULL;
}

// --- clients ---

static void client_free(client *c) {
    init_loop_unwatch(&c->watch);
    close(c->watch.fd);
    if (c->request != NULL) c->request->asker = NULL;
    for (u32 i = 0; i < LIMIT_INIT_CLIENTS; i++) {
        if (clients[i] == c) clients[i] = NULL;
    }
    free(c->in);
    free(c->out);
    free(c);
}

static void events_set(client *c) {
    bool writing = c->out_sent < c->out_len;
    bool reading = !writing && c->request == NULL && !c->ended;
    init_loop_watch_events(&c->watch, (writing ? (u32)EPOLLOUT : 0) | (reading ? (u32)EPOLLIN : 0));
}

// False: the client is gone.
static bool client_write(client *c) {
    while (c->out_sent < c->out_len) {
        ssize_t n = send(c->watch.fd, c->out + c->out_sent, c->out_len - c->out_sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return true;
        if (n < 0) return false;
        c->out_sent += (size_t)n;
    }
    free(c->out);
    c->out = NULL;
    c->out_len = c->out_sent = 0;
    return true;
}

// False: the line is longer than what is taken, or memory is short.
static bool room_make(client *c) {
    if (c->in_len < c->in_size) return true;
    size_t size = c->in_size == 0 ? LINE_START_BYTES : c->in_size * 2;
    size = MIN(size, (size_t)LIMIT_INIT_LINE_BYTES);
    if (size == c->in_size) return false;
    char *grown = realloc(c->in, size);
    if (grown == NULL) return false;
    c->in = grown;
    c->in_size = size;
    return true;
}

// False: the client is gone or is to go.
static bool client_read(client *c) {
    if (!room_make(c)) return false;
    ssize_t n = recv(c->watch.fd, c->in + c->in_len, c->in_size - c->in_len, 0);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    if (n == 0) c->ended = true;
    c->in_len += (size_t)n;
    return true;
}

static void client_ready(init_watch *w, u32 events) {
    client *c = CONTAINER_OF(w, client, watch);
    bool alive = (events & (u32)EPOLLERR) == 0;
    if (alive && c->out_sent < c->out_len) alive = client_write(c);
    else if (alive && c->request == NULL && (events & (u32)(EPOLLIN | EPOLLHUP)) != 0) alive = client_read(c);
    else if ((events & (u32)EPOLLHUP) != 0) alive = false;
    if (!alive) client_free(c);
    else client_serve(c);
}

// --- requests ---

static init_request *request_begin(client *c) {
    init_request *r = calloc(1, sizeof(*r));
    if (r == NULL) return NULL;
    r->asker = c;
    c->request = r;
    return r;
}

static void request_run(client *c, const char *line, size_t len) {
    init_request *r = request_begin(c);
    if (r == NULL) {
        init_warn("a request is not answered: out of memory");
        c->ended = true;
        return;
    }
    yyjson_doc *doc = yyjson_read(line, len, 0);
    yyjson_val *root = yyjson_doc_get_root(doc);
    const char *name = yyjson_get_str(yyjson_obj_get(root, "request"));
    yyjson_val *args = yyjson_obj_get(root, "args");
    registered *k = name == NULL ? NULL : find(name);
    r->in_handler = true;
    if (!yyjson_is_obj(root) || name == NULL) init_request_answer_error(r, "not a request");
    else if (k == NULL) init_request_answer_error(r, "no request '%.32s'", name);
    else if (args != NULL && !yyjson_is_obj(args)) init_request_answer_error(r, "args is not an object");
    else k->handler(r, args);
    // Not answered yet: the answer comes from outside. (An answered request is gone by now.)
    if (c->request != NULL) c->request->in_handler = false;
    yyjson_doc_free(doc);
}

// Takes lines that are complete while none is being answered.
static void client_serve(client *c) {
    while (c->request == NULL && c->out_len == 0) {
        char *end = c->in_len == 0 ? NULL : memchr(c->in, '\n', c->in_len);
        if (end == NULL) break;
        size_t len = (size_t)(end - c->in);
        char *line = malloc(len + 1);
        if (line == NULL) break;
        memcpy(line, c->in, len);
        c->in_len -= len + 1;
        memmove(c->in, end + 1, c->in_len);
        request_run(c, line, len);
        free(line);
        if (c->out_len > 0 && !client_write(c)) {
            client_free(c);
            return;
        }
    }
    if (c->ended && c->request == NULL && c->out_len == 0) client_free(c);
    else events_set(c);
}

// ok: json is the result, else the error's text as a JSON string.
static void answer_put(init_request *r, bool ok, const char *json, size_t len) {
    client *c = r->asker;
    bool in_handler = r->in_handler;
    free(r);
    if (c == NULL) return;
    c->request = NULL;
    const char *head = ok ? "{\"ok\":true,\"result\":" : "{\"ok\":false,\"error\":";
    if (len > LIMIT_INIT_ANSWER_BYTES) {
        head = "{\"ok\":false,\"error\":";
        json = "\"the answer is too large\"";
        len = strlen(json);
    }
    size_t size = strlen(head) + len + 2;
    c->out = malloc(size + 1);
    c->out_sent = 0;
    c->out_len = c->out == NULL ? 0 : size;
    if (c->out != NULL) snprintf(c->out, size + 1, "%s%.*s}\n", head, (int)len, json);
    else c->ended = true;
    // Within the handler client_serve goes on by itself.
    if (in_handler) return;
    if (!client_write(c)) client_free(c);
    else client_serve(c);
}

void init_request_answer(init_request *r, const char *json, size_t len) {
    answer_put(r, true, json, len);
}

void init_request_answer_doc(init_request *r, yyjson_mut_doc *doc) {
    size_t len = 0;
    char *json = doc == NULL ? NULL : yyjson_mut_write(doc, 0, &len);
    yyjson_mut_doc_free(doc);
    if (json != NULL) init_request_answer(r, json, len);
    else init_request_answer_error(r, "out of memory");
    free(json);
}

void init_request_answer_error(init_request *r, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    if (doc != NULL) yyjson_mut_doc_set_root(doc, yyjson_mut_str(doc, text));
    size_t len = 0;
    char *json = doc == NULL ? NULL : yyjson_mut_write(doc, YYJSON_WRITE_ALLOW_INVALID_UNICODE, &len);
    yyjson_mut_doc_free(doc);
    static const char plain[] = "\"failed\"";
    answer_put(r, false, json != NULL ? json : plain, json != NULL ? len : sizeof(plain) - 1);
    free(json);
}

// --- the socket ---

static client **place_find(void) {
    for (u32 i = 0; i < LIMIT_INIT_CLIENTS; i++) {
        if (clients[i] == NULL) return &clients[i];
    }
    return NULL;
}

static void listener_ready(init_watch *w, u32 events) {
    (void)events;
    int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    client **place = place_find();
    client *c = place == NULL ? NULL : calloc(1, sizeof(*c));
    if (c == NULL) {
        init_warn("a connection to the request socket is refused: %s", place == NULL ? "too many" : "out of memory");
        close(fd);
        return;
    }
    c->watch = (init_watch){.name = "request", .on_ready = client_ready, .fd = fd};
    if (init_loop_watch(&c->watch, EPOLLIN) < 0) {
        close(fd);
        free(c);
        return;
    }
    *place = c;
}

int init_requests_open(const char *path) {
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(addr.sun_path)) return -ENAMETOOLONG;
    strcpy(addr.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -errno;
    unlink(path);
    mode_t before = umask(0177);
    int result = bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno : 0;
    umask(before);
    // The gateway is the one who asks, and not root on the appliance.
    if (result == 0 && init_is_real()) result = gateway_user_give_path(path, 0660);
    if (result == 0 && listen(fd, 16) < 0) result = -errno;
    listener = (init_watch){.name = "request socket", .on_ready = listener_ready, .fd = fd};
    if (result == 0) result = init_loop_watch(&listener, EPOLLIN);
    if (result == 0) {
        strcpy(socket_path, path);
        return 0;
    }
    close(fd);
    listener.fd = -1;
    return result;
}

void init_requests_close(void) {
    for (u32 i = 0; i < LIMIT_INIT_CLIENTS; i++) {
        if (clients[i] != NULL) client_free(clients[i]);
    }
    if (listener.fd < 0) return;
    init_loop_unwatch(&listener);
    close(listener.fd);
    listener.fd = -1;
    unlink(socket_path);
}
