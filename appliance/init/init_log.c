// SPDX-License-Identifier: Apache-2.0
// init_log.c: see init_log.h. Each console has a small backlog of its own, so that a slow one loses its
// own lines and no other's. What waits is tried again by a timer; a line goes in whole or not at all.
#include "init/init_log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log_text.h"
#include "init/loop.h"
#include "limits.h"

#define RETRY_MS 50u

typedef struct console {
    int fd;
    char name[32];
    char wait[LIMIT_INIT_CONSOLE_BACKLOG];
    u32 wait_len;
    u32 lost;       // lines, since the last that was told
} console;

static void retry_fired(init_timer *t);

static init_timer retry = {.name = "console retry", .on_fire = retry_fired};
static struct {
    console consoles[LIMIT_INIT_CONSOLES];
    int count;      // 0: stderr
    u64 lost;
    char ring[LIMIT_INIT_LOG_BYTES];
    u64 ring_end;   // bytes ever written
} out;

// --- consoles ---

static bool console_open(const char *name) {
    if (out.count == (int)LIMIT_INIT_CONSOLES) return false;
    console *c = &out.consoles[out.count];
    char path[64];
    snprintf(path, sizeof(path), "/dev/%s", name);
    // Non-blocking from the start: opening a serial port may wait for carrier otherwise.
    int fd = open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return false;
    c->fd = fd;
    c->wait_len = c->lost = 0;
    snprintf(c->name, sizeof(c->name), "%s", name);
    out.count++;
    return true;
}

int init_log_open(bool consoles) {
    out.count = 0;
    if (!consoles) return 0;
    FILE *list = fopen("/proc/consoles", "re");
    char line[128], name[32];
    while (list != NULL && fgets(line, sizeof(line), list) != NULL) {
        if (sscanf(line, "%31s", name) == 1) console_open(name);
    }
    if (list != NULL) fclose(list);
    if (out.count == 0) console_open("console");
    return out.count;
}

int init_log_console_count(void) {
    return out.count;
}

u64 init_log_lost(void) {
    return out.lost;
}

// Writes what waits. False when the console does not take more now.
static bool console_push(console *c) {
    while (c->wait_len > 0) {
        ssize_t n = write(c->fd, c->wait, c->wait_len);
        if (n <= 0) return false;
        c->wait_len -= (u32)n;
        memmove(c->wait, c->wait + n, c->wait_len);
    }
    return true;
}

static bool console_fits(const console *c, size_t len) {
    return c->wait_len + len <= sizeof(c->wait);
}

static void console_put(console *c, const char *line, size_t len) {
    console_push(c);
    if (c->lost > 0 && console_fits(c, len + 64)) {
        c->wait_len += (u32)snprintf(c->wait + c->wait_len, 64, "[%u lines lost on this console]\n", c->lost);
        c->lost = 0;
    }
    if (!console_fits(c, len)) {
        c->lost++;
        out.lost++;
        return;
    }
    memcpy(c->wait + c->wait_len, line, len);
    c->wait_len += (u32)len;
    if (!console_push(c) && !retry.armed) init_timer_set(&retry, RETRY_MS);
}

static bool consoles_push(void) {
    bool all = true;
    for (int i = 0; i < out.count; i++) all &= console_push(&out.consoles[i]);
    return all;
}

static void retry_fired(init_timer *t) {
    if (!consoles_push()) init_timer_set(t, RETRY_MS);
}

void init_log_drain(u32 ms) {
    u64 end_ns = clock_mono_ns() + ms * NS_PER_MS;
    while (!consoles_push() && clock_mono_ns() < end_ns) {
        poll(NULL, 0, 10);
    }
}

// --- the ring ---

static void ring_put(const char *line, size_t len) {
    for (size_t i = 0; i < len; i++) out.ring[out.ring_end++ % sizeof(out.ring)] = line[i];
}

size_t init_log_tail(char *to, size_t size) {
    u64 have = MIN(out.ring_end, (u64)sizeof(out.ring));
    u64 take = MIN(have, (u64)size);
    u64 from = out.ring_end - take;
    // Not at the ring's very start: the first line may be cut; begin behind its end.
    bool cut = from > 0 && out.ring[(from - 1) % sizeof(out.ring)] != '\n';
    if (from > 0 && take == have) cut = true;
    size_t len = 0;
    for (u64 i = from; i < out.ring_end; i++) {
        char c = out.ring[i % sizeof(out.ring)];
        if (!cut) to[len++] = c;
        else if (c == '\n') cut = false;
    }
    return len;
}

// --- lines ---

static void line_put(const char *line, size_t len) {
    ring_put(line, len);
    for (int i = 0; i < out.count; i++) console_put(&out.consoles[i], line, len);
    if (out.count > 0) return;
    while (len > 0) {
        ssize_t n = write(STDERR_FILENO, line, len);
        if (n <= 0) break;
        line += n;
        len -= (size_t)n;
    }
}

void init_log(log_level level, const char *format, ...) {
    int saved = errno;
    static char text[LIMIT_LOG_LINE_BYTES + 1];
    static log_line line;
    static const char tag[] = "init: ";
    va_list args;
    memcpy(text, tag, sizeof(tag));
    char body[LIMIT_LOG_LINE_BYTES + 1];
    va_start(args, format);
    u32 len = log_text_format(body, format, args);
    va_end(args);
    len = MIN(len, (u32)(LIMIT_LOG_LINE_BYTES - (sizeof(tag) - 1)));
    memcpy(text + sizeof(tag) - 1, body, len);
    log_line_make(&line, level, clock_real_ns(), text, len + (u32)sizeof(tag) - 1);
    line_put(line.data, line.len);
    errno = saved;
}

// The gateway's lines are already complete and escaped; another program's are made to be.
void init_log_child_text(const char *name, const char *bytes, size_t len) {
    static char line[LOG_ESCAPED_BYTES_MAX + 64];
    len = MIN(len, (size_t)LIMIT_LOG_LINE_BYTES);
    if (name != NULL) {
        init_log(LOG_INFO, "%s: %.*s", name, (int)len, bytes);
        return;
    }
    u32 n = log_text_escape(bytes, (u32)len, line);
    line[n++] = '\n';
    line_put(line, n);
}
