// SPDX-License-Identifier: Apache-2.0
// ctl_client.c: see ctl_client.h. The answer is parsed by llhttp like requests are on the other side; the body of an
// error is kept (bounded) until its end, then its "error" member is what the user reads.
#include "ops/ctl_client.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <llhttp.h>
#include <yyjson.h>

#include "conf/config.h"
#include "limits.h"
#include "ops/ctl.h"
#include "ops/text.h"

#define READ_BYTES 65536u
#define ERROR_BYTES_MAX 65536u
#define REPLY_TIMEOUT_S 45 // a reload may take 30
// What PID 1 answers may wait for a slow card; the gateway itself says so when it takes too long.
#define APPLIANCE_PATH "/api/appliance/"
#define APPLIANCE_TIMEOUT_S (LIMIT_OPS_APPLIANCE_MS / 1000 + 10)

typedef struct receiver {
    const ctl_call *call;
    text error;     // body of an answer that is not 200
    int status;
    bool complete;
    bool stopped;   // body_part wants no more
} receiver;

// --- where to ---

bool ctl_target_unix(ctl_target *out, const char *path) {
    struct sockaddr_un *un = (struct sockaddr_un *)(void *)&out->addr;
    memset(out, 0, sizeof(*out));
    if (strlen(path) >= sizeof(un->sun_path)) return false;
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, path, strlen(path) + 1);
    out->addr_len = sizeof(*un);
    snprintf(out->text, sizeof(out->text), "%s", path);
    snprintf(out->host, sizeof(out->host), "localhost");
    return true;
}

// The gateway takes only addresses as Host, so the name that was looked up is not sent.
static void host_of(ctl_target *t) {
    char host[64] = "localhost", port[16] = "";
    getnameinfo((const struct sockaddr *)&t->addr, t->addr_len, host, sizeof(host), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
    bool v6 = t->addr.ss_family == AF_INET6;
    snprintf(t->host, sizeof(t->host), "%s%.60s%s:%.8s", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

bool ctl_target_tcp(ctl_target *out, const char *address) {
    memset(out, 0, sizeof(*out));
    snprintf(out->text, sizeof(out->text), "%.150s", address);
    bind_address parsed;
    if (config_parse_bind(address, &parsed) == 0 && parsed.addr.ss_family != AF_UNIX) {
        out->addr = parsed.addr;
        out->addr_len = parsed.addr_len;
        host_of(out);
        return true;
    }
    char name[256];
    const char *colon = strrchr(address, ':');
    size_t len = colon == NULL ? 0 : (size_t)(colon - address);
    if (len == 0 || len >= sizeof(name) || colon[1] == '\0') {
        fprintf(stderr, "sluice ctl: --addr %s: HOST:PORT is wanted, for example 127.0.0.1:9600\n", address);
        return false;
    }
    memcpy(name, address, len);
    name[len] = '\0';
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int err = getaddrinfo(name, colon + 1, &hints, &found);
    if (err != 0) {
        fprintf(stderr, "sluice ctl: --addr %s: %s\n", address, gai_strerror(err));
        return false;
    }
    memcpy(&out->addr, found->ai_addr, found->ai_addrlen);
    out->addr_len = found->ai_addrlen;
    freeaddrinfo(found);
    host_of(out);
    return true;
}

static int connect_to(const ctl_target *t, bool silent) {
    bool local = t->addr.ss_family == AF_UNIX;
    int fd = socket(t->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        if (!silent) fprintf(stderr, "sluice ctl: socket: %s\n", strerror(errno));
        return -1;
    }
    struct timeval limit = {.tv_sec = 5};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (connect(fd, (const struct sockaddr *)&t->addr, t->addr_len) == 0) return fd;
    int err = errno;
    close(fd);
    if (silent) return -1;
    fprintf(stderr, "sluice ctl: no gateway at %s: %s\n", t->text, strerror(err));
    if (err == EACCES) {
        fprintf(stderr, "  Its socket is for root, the gateway's own user and those in ctl_allow.\n");
    } else if (local) {
        fprintf(stderr, "  Is it running? Its socket is ctl_socket of its configuration (DATA_DIR/ctl.sock\n"
                        "  unless set): name it with --socket PATH, or the configuration with -c FILE.\n");
    } else {
        fprintf(stderr, "  Is it running? Its admin port is `bind` in `admin` of its configuration\n"
                        "  (127.0.0.1:9600 unless set).\n");
    }
    return -1;
}

// --- the exchange ---

static int on_headers_complete(llhttp_t *l) {
    receiver *r = l->data;
    r->status = l->status_code;
    return 0;
}

static int on_body(llhttp_t *l, const char *at, size_t len) {
    receiver *r = l->data;
    if (r->status != 200) {
        if (r->error.len + len <= ERROR_BYTES_MAX) text_append(&r->error, at, len);
        return 0;
    }
    if (r->call->body_part(r->call->context, at, len)) return 0;
    r->stopped = true;
    return HPE_USER;
}

static int on_message_complete(llhttp_t *l) {
    receiver *r = l->data;
    if (r->status / 100 != 1) r->complete = true;
    return 0;
}

static bool send_all(int fd, const void *data, size_t len) {
    const char *from = data;
    while (len > 0) {
        ssize_t n = send(fd, from, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        from += n;
        len -= (size_t)n;
    }
    return true;
}

static bool send_request(int fd, const ctl_target *t, const ctl_call *call) {
    text head = text_make(LIMIT_HTTP_URL_BYTES + 1024);
    text_printf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\nX-Sluice-Admin: 1\r\nConnection: close\r\n", call->method,
                call->path, t->host);
    if (call->body_len > 0 || strcmp(call->method, "POST") == 0) {
        text_printf(&head, "Content-Length: %zu\r\n", call->body_len);
    }
    if (t->token[0] != '\0') text_printf(&head, "Authorization: Bearer %s\r\n", t->token);
    text_puts(&head, "\r\n");
    // A refusal may come, and the connection close, before all of the body was taken: then the answer counts. A peer
    // that takes nothing more and says nothing is another matter.
    bool ok = !head.failed && send_all(fd, head.data, head.len);
    if (ok && call->body_len > 0 && !send_all(fd, call->body, call->body_len)) ok = errno != EAGAIN;
    text_free(&head);
    return ok;
}

// Reads the answer. Returns NULL, or what went wrong.
static const char *receive(int fd, llhttp_t *parser, receiver *r) {
    static char buf[READ_BYTES];
    while (!r->complete) {
        ssize_t n = recv(fd, buf, sizeof(buf), 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return "it did not answer in time";
        if (n < 0) return strerror(errno);
        if (n == 0) {
            llhttp_finish(parser);
            return r->complete ? NULL : "the connection ended before the answer did";
        }
        llhttp_errno_t err = llhttp_execute(parser, buf, (size_t)n);
        if (r->stopped) return NULL;
        if (err != HPE_OK && !r->complete) return "the answer is not HTTP";
    }
    return NULL;
}

static void print_error(const ctl_target *t, receiver *r) {
    yyjson_doc *doc = yyjson_read(r->error.data == NULL ? "" : r->error.data, r->error.len, 0);
    const char *message = yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(doc), "error"));
    if (message == NULL) message = yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(doc), "status"));
    fprintf(stderr, "sluice ctl: %s\n", message != NULL ? message : "the gateway refused");
    if (message == NULL) fprintf(stderr, "  %s answered with status %d\n", t->text, r->status);
    yyjson_doc_free(doc);
}

// How long an answer may take; 0: without end.
static struct timeval reply_timeout(const ctl_call *call) {
    bool appliance = strncmp(call->path, APPLIANCE_PATH, sizeof(APPLIANCE_PATH) - 1) == 0;
    if (call->endless) return (struct timeval){0};
    return (struct timeval){.tv_sec = appliance ? APPLIANCE_TIMEOUT_S : REPLY_TIMEOUT_S};
}

int ctl_call_run(const ctl_target *target, const ctl_call *call) {
    int fd = connect_to(target, call->silent);
    if (fd < 0) return CTL_NO_GATEWAY;
    struct timeval limit = reply_timeout(call);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)); // so far it was the limit of the connect
    receiver r = {.call = call, .error = text_make(ERROR_BYTES_MAX)};
    llhttp_settings_t settings;
    llhttp_t parser;
    llhttp_settings_init(&settings);
    settings.on_headers_complete = on_headers_complete;
    settings.on_body = on_body;
    settings.on_message_complete = on_message_complete;
    llhttp_init(&parser, HTTP_RESPONSE, &settings);
    parser.data = &r;
    const char *problem = "the request could not be sent";
    if (send_request(fd, target, call)) problem = receive(fd, &parser, &r);
    close(fd);
    int status = CTL_OK;
    if (problem != NULL) {
        if (!call->silent) fprintf(stderr, "sluice ctl: %s: %s\n", target->text, problem);
        status = CTL_BROKEN;
    } else if (r.status != 200) {
        if (!call->quiet && !call->silent) print_error(target, &r);
        status = CTL_REFUSED;
    }
    text_free(&r.error);
    return status;
}
