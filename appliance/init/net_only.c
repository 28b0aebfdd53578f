// SPDX-License-Identifier: Apache-2.0
// net_only.c: see net_only.h. The same calls in the same order as init.c makes, with the paths of a
// directory in place of the machine's.
#include "init/net_only.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "init/cmdline.h"
#include "init/config_collect.h"
#include "init/config_state.h"
#include "init/init_log.h"
#include "init/loop.h"
#include "init/net_iface.h"
#include "init/net_start.h"
#include "init/requests.h"
#include "init/state.h"

#define STATUS_FAILED 1
#define STATUS_USAGE 2

typedef struct only_options {
    const char *dir, *file, *cloud, *metadata, *words;
} only_options;

static int parse_options(int argc, char **argv, only_options *o) {
    for (int i = 2; i < argc; i += 2) {
        const struct {
            const char *name, **value;
        } known[] = {{"--dir", &o->dir}, {"-c", &o->file}, {"--cloud", &o->cloud},
                     {"--metadata", &o->metadata}, {"--words", &o->words}};
        u32 k = 0;
        while (k < ARRAY_LEN(known) && strcmp(argv[i], known[k].name) != 0) k++;
        if (k == ARRAY_LEN(known) || i + 1 == argc) return -EINVAL;
        *known[k].value = argv[i + 1];
    }
    return o->dir != NULL ? 0 : -EINVAL;
}

static int set_metadata(const char *text) {
    struct in_addr address;
    char host[32];
    const char *colon = strchr(text, ':');
    if (colon == NULL || (size_t)(colon - text) >= sizeof(host)) return -EINVAL;
    snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
    if (inet_pton(AF_INET, host, &address) != 1) return -EINVAL;
    metadata_set_address((const u8 *)&address, (u16)strtoul(colon + 1, NULL, 10));
    return 0;
}

static void on_signal(init_watch *w, u32 events) {
    struct signalfd_siginfo info;
    (void)events;
    while (read(w->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) init_loop_stop();
}

static int watch_signals(init_watch *w) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    *w = (init_watch){.name = "signals", .on_ready = on_signal,
                      .fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC)};
    return w->fd < 0 ? -errno : init_loop_watch(w, EPOLLIN);
}

static void state_changed(void) {
    state_flush(); // at once: a test ends this process as a power cut would
}

int net_only_main(int argc, char **argv) {
    static char resolv[256], run[256], state[256], socket_path[108];
    only_options o = {0};
    init_watch signals;
    const char *why;
    if (parse_options(argc, argv, &o) != 0 || (o.metadata != NULL && set_metadata(o.metadata) != 0)) {
        fprintf(stderr, "usage: sluice init --network-only --dir DIR [-c FILE] [--cloud NAME] "
                        "[--metadata ADDRESS:PORT] [--words WORDS]\n");
        return STATUS_USAGE;
    }
    snprintf(resolv, sizeof(resolv), "%s/resolv.conf", o.dir);
    snprintf(run, sizeof(run), "%s/sluice.conf", o.dir);
    snprintf(state, sizeof(state), "%s/state", o.dir);
    snprintf(socket_path, sizeof(socket_path), "%s/init.sock", o.dir);
    net_resolv_path = resolv;
    init_cmdline_set(o.words != NULL ? o.words : "");
    if (init_loop_open() != 0 || watch_signals(&signals) != 0) return STATUS_FAILED;
    state_open(access(state, F_OK) == 0 ? state : NULL, &why);
    state_on_dirty(state_changed);
    int rc = init_requests_open(socket_path);
    if (rc != 0) init_error("%s: %s", socket_path, errno_name(rc));
    init_net_start();
    rc = init_config_collect_in(o.file, run, o.cloud);
    if (rc != 0) init_error("configuration: %s", errno_name(rc));
    rc = init_loop_run();
    init_net_stop();
    init_requests_close();
    state_close();
    return rc == 0 ? 0 : STATUS_FAILED;
}
