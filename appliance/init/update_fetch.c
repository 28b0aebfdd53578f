// SPDX-License-Identifier: Apache-2.0
// update_fetch.c: see update_fetch.h. llhttp takes the answer apart; its body callback fills a buffer that the
// source hands out. When the body breaks off, the rest of it is asked for (a range, RFC 9110 section 14.2). A server
// that knows no ranges sends all of it again; what is there already is skipped.
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
#include <time.h>
#include <unistd.h>

#define SCHEME "http://"
#define URL_BYTES 1024u
#define PIECE_BYTES 16384u
#define HEAD_BYTES_MAX 65536u
#define TAG_BYTES 128u
#define RETRY_FIRST_MS 250u

// What outlives a connection.
typedef struct fetch_progress {
    char url[URL_BYTES];        // as it was given: redirects may be for one use
    char etag[TAG_BYTES];       // a strong one, of the first answer; "" = none
    u64 at;                     // bytes of the body so far
    u64 moved_ns;               // when the last of them came
} fetch_progress;

struct update_fetch {
    int fd;
    update_source *source;
    fetch_progress progress;
    u64 skip;                   // bytes of this answer's body that were there before
    char range[TAG_BYTES], tag[TAG_BYTES];
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

static int wait_for(int fd, short events, u32 ms) {
    struct pollfd p = {.fd = fd, .events = events};
    int n;
    do n = poll(&p, 1, (int)ms);
    while (n < 0 && errno == EINTR);
    if (n < 0) return -errno;
    return n == 0 ? -ETIMEDOUT : 0;
}

static ssize_t fd_read(int fd, update_source *s, void *out, size_t len, u32 ms) {
    for (;;) {
        int err = wait_for(fd, POLLIN, ms);
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
        err = wait_for(fd, POLLOUT, LIMIT_UPDATE_CONNECT_MS);
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
    char request[2 * URL_BYTES + 512], range[TAG_BYTES + 64] = "";
    const char *authority = url + strlen(SCHEME), *rest = authority + strcspn(authority, "/?#");
    int path_len = (int)strcspn(rest, "#");
    const fetch_progress *g = &f->progress;
    if (g->at > 0) {
        snprintf(range, sizeof(range), "Range: bytes=%llu-\r\n%s%s%s", (unsigned long long)g->at,
                 g->etag[0] != '\0' ? "If-Range: " : "", g->etag, g->etag[0] != '\0' ? "\r\n" : "");
    }
    int len = snprintf(request, sizeof(request),
                       "GET %s%.*s HTTP/1.1\r\nHost: %.*s\r\nUser-Agent: sluice\r\nAccept: */*\r\n"
                       "%sConnection: close\r\n\r\n",
                       rest[0] == '/' ? "" : "/", path_len, rest, (int)(rest - authority), authority, range);
    for (int done = 0; done < len;) {
        int err = wait_for(f->fd, POLLOUT, LIMIT_UPDATE_CONNECT_MS);
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

// Adds to the value of a field, as far as there is room.
static void add_value(char value[TAG_BYTES], const char *at, size_t len) {
    size_t have = strlen(value), n = MIN(len, TAG_BYTES - 1 - have);
    memcpy(value + have, at, n);
    value[have + n] = '\0';
}

static int on_value(llhttp_t *p, const char *at, size_t len) {
    update_fetch *f = CONTAINER_OF(p, update_fetch, parser);
    if (strcasecmp(f->field, "Location") == 0) {
        if (len > sizeof(f->location) - 1 - f->location_len) return -1;
        memcpy(f->location + f->location_len, at, len);
        f->location_len += len;
    }
    if (strcasecmp(f->field, "Content-Range") == 0) add_value(f->range, at, len);
    if (strcasecmp(f->field, "ETag") == 0) add_value(f->tag, at, len);
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
    size_t old = (size_t)MIN((u64)len, f->skip);
    f->skip -= old;
    ASSERT(len - old <= sizeof(f->body) - f->body_len); // never more than one input's
    memcpy(f->body + f->body_len, at + old, len - old);
    f->body_len += len - old;
    return 0;
}

static int on_end(llhttp_t *p) {
    CONTAINER_OF(p, update_fetch, parser)->body_done = true;
    return HPE_PAUSED;
}

// Receives and parses one piece. 0 or -errno.
static int pull(update_fetch *f) {
    f->body_len = f->body_at = 0;
    ssize_t n = fd_read(f->fd, f->source, f->input, sizeof(f->input), LIMIT_UPDATE_STALL_MS);
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

static void reset(update_fetch *f) {
    if (f->fd >= 0) close(f->fd);
    update_source *source = f->source;
    fetch_progress progress = f->progress;
    memset(f, 0, sizeof(*f));
    f->fd = -1;
    f->source = source;
    f->progress = progress;
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

// An answer with a body that we asked for. -EBADMSG: not that one.
static int take_answer(update_fetch *f) {
    fetch_progress *g = &f->progress;
    unsigned long long begin = 0;
    bool strong = f->tag[0] == '"' && strlen(f->tag) < TAG_BYTES - 1;
    if (g->at == 0) snprintf(g->etag, sizeof(g->etag), "%s", strong ? f->tag : "");
    else if (g->etag[0] != '\0' && strcmp(g->etag, f->tag) != 0) {
        return complain(f->source, -EBADMSG, "%s: the file was changed there meanwhile", f->host);
    }
    if (f->parser.status_code == 200) f->skip = g->at;
    else if (sscanf(f->range, "bytes %llu-", &begin) != 1 || begin != g->at) {
        return complain(f->source, -EBADMSG, "%s: the server sends another part than was asked for", f->host);
    }
    // What came with the head went through on_body before this was known.
    size_t old = (size_t)MIN((u64)f->body_len, f->skip);
    f->body_at = old;
    f->skip -= old;
    return 0;
}

// Follows redirects until there is a body. 0 or -errno; -EAGAIN: the server can not now.
static int open_url(update_fetch *f) {
    char url[URL_BYTES];
    snprintf(url, sizeof(url), "%s", f->progress.url);
    for (u32 redirects = 0;; redirects++) {
        const char *wrong = update_fetch_check(url);
        if (wrong != NULL) return complain(f->source, -EINVAL, "%.100s: %s", url, wrong);
        int err = exchange(f, url);
        if (err < 0) return err;
        u32 status = f->parser.status_code;
        if (status == 200 || (status == 206 && f->progress.at > 0)) return take_answer(f);
        bool later = status == 408 || status == 429 || status >= 500;
        if (later) return complain(f->source, -EAGAIN, "%s: the server answers %u", f->host, status);
        bool redirect = status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
        if (!redirect || f->location_len == 0) {
            return complain(f->source, -ENOENT, "%s: the server answers %u", f->host, status);
        }
        if (redirects == LIMIT_UPDATE_REDIRECTS) return complain(f->source, -ELOOP, "%s: too many redirects", f->host);
        snprintf(url, sizeof(url), "%.*s", (int)f->location_len, f->location);
    }
}

static bool lasts(int err) {
    return err == -EBADMSG || err == -ENOENT || err == -EINVAL || err == -ELOOP || err == -ENOMEM;
}

// The body broke off: asks for the rest until it comes, at growing intervals. err: how it broke off.
static int go_on(update_fetch *f, int err) {
    fetch_progress *g = &f->progress;
    char why[sizeof(f->source->error)];
    snprintf(why, sizeof(why), "%s", f->source->error);
    for (u32 pause_ms = RETRY_FIRST_MS; clock_mono_ns() - g->moved_ns < LIMIT_UPDATE_IDLE_MS * NS_PER_MS;
         pause_ms = MIN(2 * pause_ms, LIMIT_UPDATE_RETRY_MS)) {
        const struct timespec pause = {.tv_sec = pause_ms / 1000, .tv_nsec = (long)(pause_ms % 1000) * 1000000};
        nanosleep(&pause, NULL);
        f->source->error[0] = '\0';
        err = open_url(f);
        if (err == 0 || lasts(err)) return err;
        snprintf(why, sizeof(why), "%s", f->source->error);
    }
    return complain(f->source, err, "no byte came for %u s: %s", LIMIT_UPDATE_IDLE_MS / 1000, why);
}

static ssize_t body_read(void *context, void *out, size_t len) {
    update_fetch *f = context;
    while (f->body_at == f->body_len) {
        if (f->body_done || f->ended) return 0;
        int err = pull(f);
        if (err < 0) err = go_on(f, err);
        if (err < 0) return err;
    }
    size_t n = MIN(len, f->body_len - f->body_at);
    memcpy(out, f->body + f->body_at, n);
    f->body_at += n;
    f->progress.at += n;
    f->progress.moved_ns = clock_mono_ns();
    return (ssize_t)n;
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
    snprintf(f->progress.url, sizeof(f->progress.url), "%s", url);
    f->progress.moved_ns = clock_mono_ns();
    if (open_url(f) < 0) {
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
    return fd_read(s->number, s, out, len, LIMIT_UPDATE_IDLE_MS);
}

void update_source_fd(int fd, update_source *source) {
    *source = (update_source){.read = descriptor_read, .context = source, .number = fd};
}
