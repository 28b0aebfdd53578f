// SPDX-License-Identifier: Apache-2.0
// update_fetch.c: see update_fetch.h. llhttp takes the answer apart; its body callback fills a buffer that the
// source hands out.
#include "init/update_fetch.h"

#include <errno.h>
#include <llhttp.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define SCHEME "http://"
#define URL_BYTES 1024u
#define PIECE_BYTES 16384u
#define HEAD_BYTES_MAX 65536u

struct update_fetch {
    int fd;
    update_source *source;
    llhttp_t parser;
    llhttp_settings_t settings;
    bool head_done, body_done, ended;
    char host[256], port[8];
    char location[URL_BYTES];
    size_t location_len, head_bytes;
    u8 input[PIECE_BYTES];      // what was received
    u8 body[PIECE_BYTES];       // of it, what is body
    size_t body_len, body_at;
    char field[16];             // the field's name that is being read
    size_t field_len;
};

static int complain(update_source *s, int err, const char *format, ...) PRINTF_LIKE(3, 4);
static int complain(update_source *s, int err, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(s->error, sizeof(s->error), format, args);
    va_end(args);
    return err;
}

const char *update_fetch_check(const char *url) {
    if (strncmp(url, "https://", 8) == 0) return "https is not supported yet; http is, and the signature protects";
    if (strncmp(url, SCHEME, strlen(SCHEME)) != 0) return "a URL that begins with http:// is expected";
    if (strlen(url) >= URL_BYTES) return "the URL is too long";
    for (const char *p = url; *p != '\0'; p++) {
        if (*p <= ' ' || *p > '~') return "the URL holds characters that have to be encoded";
    }
    const char *host = url + strlen(SCHEME);
    size_t len = strcspn(host, "/?#");
    if (len == 0 || len > 255 || memchr(host, '@', len) != NULL) return "the URL has no host name";
    return NULL;
}

// --- connection ---

static int wait_for(int fd, short events) {
    struct pollfd p = {.fd = fd, .events = events};
    int n;
    do n = poll(&p, 1, (int)LIMIT_UPDATE_IDLE_MS);
    while (n < 0 && errno == EINTR);
    if (n < 0) return -errno;
    return n == 0 ? -ETIMEDOUT : 0;
}

static ssize_t fd_read(int fd, update_source *s, void *out, size_t len) {
    for (;;) {
        int err = wait_for(fd, POLLIN);
        if (err == -ETIMEDOUT) return complain(s, err, "the update's bytes stopped coming");
        if (err < 0) return err;
        ssize_t n = read(fd, out, len);
        if (n >= 0) return n;
        if (errno != EAGAIN && errno != EINTR) return -errno;
    }
}

static void split_host(update_fetch *f, const char *url) {
    const char *host = url + strlen(SCHEME);
    size_t len = strcspn(host, "/?#"), host_len = len;
    const char *colon = memchr(host, ']', len);
    colon = memchr(colon == NULL ? host : colon, ':', len - (colon == NULL ? 0 : (size_t)(colon - host)));
    snprintf(f->port, sizeof(f->port), "80");
    if (colon != NULL) {
        host_len = (size_t)(colon - host);
        snprintf(f->port, sizeof(f->port), "%.*s", (int)MIN(len - host_len - 1, 7u), colon + 1);
    }
    if (host[0] == '[' && host_len > 2) {
        host++;
        host_len -= 2;
    }
    snprintf(f->host, sizeof(f->host), "%.*s", (int)host_len, host);
}

static int connect_one(const struct addrinfo *at) {
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    int err = connect(fd, at->ai_addr, at->ai_addrlen) == 0 ? 0 : -errno;
    if (err == -EINPROGRESS) {
        socklen_t size = sizeof(err);
        err = wait_for(fd, POLLOUT);
        if (err == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size) == 0) err = -err;
    }
    if (err == 0) return fd;
    close(fd);
    return err;
}

static int connect_host(update_fetch *f, const char *url) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    split_host(f, url);
    if (getaddrinfo(f->host, f->port, &hints, &list) != 0) {
        return complain(f->source, -EHOSTUNREACH, "%s: the host name is not known", f->host);
    }
    int fd = -ENETUNREACH;
    for (const struct addrinfo *at = list; at != NULL && fd < 0; at = at->ai_next) fd = connect_one(at);
    freeaddrinfo(list);
    if (fd < 0) return complain(f->source, fd, "%s port %s: %s", f->host, f->port, errno_name(fd));
    f->fd = fd;
    return 0;
}

static int send_request(update_fetch *f, const char *url) {
    char request[2 * URL_BYTES + 256];
    const char *authority = url + strlen(SCHEME), *rest = authority + strcspn(authority, "/?#");
    int path_len = (int)strcspn(rest, "#");
    int len = snprintf(request, sizeof(request),
                       "GET %s%.*s HTTP/1.1\r\nHost: %.*s\r\nUser-Agent: sluice\r\nAccept: */*\r\n"
                       "Connection: close\r\n\r\n",
                       rest[0] == '/' ? "" : "/", path_len, rest, (int)(rest - authority), authority);
    for (int done = 0; done < len;) {
        int err = wait_for(f->fd, POLLOUT);
        if (err < 0) return err;
        ssize_t n = send(f->fd, request + done, (size_t)(len - done), MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR) return -errno;
        if (n > 0) done += (int)n;
    }
    return 0;
}

// --- the answer ---

static int on_field(llhttp_t *p, const char *at, size_t len) {
    update_fetch *f = CONTAINER_OF(p, update_fetch, parser);
    size_t n = MIN(len, sizeof(f->field) - 1 - f->field_len);
    memcpy(f->field + f->field_len, at, n);
    f->field_len += n;
    f->field[f->field_len] = '\0';
    return 0;
}

static int on_value(llhttp_t *p, const char *at, size_t len) {
    update_fetch *f = CONTAINER_OF(p, update_fetch, parser);
    if (strcasecmp(f->field, "Location") != 0) return 0;
    if (len > sizeof(f->location) - 1 - f->location_len) return -1;
    memcpy(f->location + f->location_len, at, len);
    f->location_len += len;
    return 0;
}

static int on_value_end(llhttp_t *p) {
    CONTAINER_OF(p, update_fetch, parser)->field_len = 0;
    return 0;
}

static int on_head(llhttp_t *p) {
    CONTAINER_OF(p, update_fetch, parser)->head_done = true;
    return 0;
}

static int on_body(llhttp_t *p, const char *at, size_t len) {
    update_fetch *f = CONTAINER_OF(p, update_fetch, parser);
    ASSERT(len <= sizeof(f->body) - f->body_len); // never more than one input's
    memcpy(f->body + f->body_len, at, len);
    f->body_len += len;
    return 0;
}

static int on_end(llhttp_t *p) {
    CONTAINER_OF(p, update_fetch, parser)->body_done = true;
    return HPE_PAUSED;
}

// Receives and parses one piece. 0 or -errno.
static int pull(update_fetch *f) {
    f->body_len = f->body_at = 0;
    ssize_t n = fd_read(f->fd, f->source, f->input, sizeof(f->input));
    if (n < 0) return (int)n;
    if (!f->head_done && (f->head_bytes += (size_t)n) > HEAD_BYTES_MAX) {
        return complain(f->source, -EPROTO, "%s: the answer's head is too long", f->host);
    }
    llhttp_errno_t e = n == 0 ? llhttp_finish(&f->parser)
                              : llhttp_execute(&f->parser, (const char *)f->input, (size_t)n);
    if (n == 0) f->ended = true;
    if (e != HPE_OK && e != HPE_PAUSED) {
        return complain(f->source, -EPROTO, "%s: the answer is no HTTP, or was cut off", f->host);
    }
    if (n == 0 && !f->head_done) return complain(f->source, -EPROTO, "%s: no answer came", f->host);
    return 0;
}

static ssize_t body_read(void *context, void *out, size_t len) {
    update_fetch *f = context;
    while (f->body_at == f->body_len) {
        if (f->body_done || f->ended) return 0;
        int err = pull(f);
        if (err < 0) return err;
    }
    size_t n = MIN(len, f->body_len - f->body_at);
    memcpy(out, f->body + f->body_at, n);
    f->body_at += n;
    return (ssize_t)n;
}

static void reset(update_fetch *f) {
    if (f->fd >= 0) close(f->fd);
    update_source *source = f->source;
    memset(f, 0, sizeof(*f));
    f->fd = -1;
    f->source = source;
    llhttp_settings_init(&f->settings);
    f->settings.on_header_field = on_field;
    f->settings.on_header_value = on_value;
    f->settings.on_header_value_complete = on_value_end;
    f->settings.on_headers_complete = on_head;
    f->settings.on_body = on_body;
    f->settings.on_message_complete = on_end;
    llhttp_init(&f->parser, HTTP_RESPONSE, &f->settings);
}

static int exchange(update_fetch *f, const char *url) {
    reset(f);
    int err = connect_host(f, url);
    if (err == 0) err = send_request(f, url);
    while (err == 0 && !f->head_done) err = pull(f);
    if (err < 0 && f->source->error[0] == '\0') complain(f->source, err, "%s: %s", f->host, errno_name(err));
    return err;
}

// Follows redirects until there is a body. 0 or -errno.
static int open_url(update_fetch *f, const char *first) {
    char url[URL_BYTES];
    snprintf(url, sizeof(url), "%s", first);
    for (u32 redirects = 0;; redirects++) {
        const char *wrong = update_fetch_check(url);
        if (wrong != NULL) return complain(f->source, -EINVAL, "%.100s: %s", url, wrong);
        int err = exchange(f, url);
        if (err < 0) return err;
        u32 status = f->parser.status_code;
        if (status == 200) return 0;
        bool redirect = status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
        if (!redirect || f->location_len == 0) {
            return complain(f->source, -ENOENT, "%s: the server answers %u", f->host, status);
        }
        if (redirects == LIMIT_UPDATE_REDIRECTS) return complain(f->source, -ELOOP, "%s: too many redirects", f->host);
        snprintf(url, sizeof(url), "%.*s", (int)f->location_len, f->location);
    }
}

update_fetch *update_fetch_open(const char *url, update_source *source) {
    update_fetch *f = calloc(1, sizeof(*f));
    source->error[0] = '\0';
    if (f == NULL) {
        complain(source, -ENOMEM, "not enough memory");
        return NULL;
    }
    f->fd = -1;
    f->source = source;
    if (open_url(f, url) < 0) {
        update_fetch_close(f);
        return NULL;
    }
    source->read = body_read;
    source->context = f;
    return f;
}

void update_fetch_close(update_fetch *f) {
    if (f == NULL) return;
    if (f->fd >= 0) close(f->fd);
    free(f);
}

// --- a descriptor ---

static ssize_t descriptor_read(void *context, void *out, size_t len) {
    update_source *s = context;
    return fd_read(s->number, s, out, len);
}

void update_source_fd(int fd, update_source *source) {
    *source = (update_source){.read = descriptor_read, .context = source, .number = fd};
}
