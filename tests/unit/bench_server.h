// SPDX-License-Identifier: Apache-2.0
// bench_server.h: a framed server on a thread, for tests of the load generator: correct in each
// mode, or wrong in one named way. poll, one thread, up to 256 connections.
#ifndef SLUICE_TESTS_BENCH_SERVER_H
#define SLUICE_TESTS_BENCH_SERVER_H

#include <arpa/inet.h>
#include <assert.h>
#include <endian.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/wire.h"

#define SERVER_CONNS 256
#define SERVER_BAD_FRAME 5u // the frame of each connection at which a wrong server does its wrong

typedef enum server_fault {
    FAULT_NONE,
    FAULT_DUPLICATE, // answers the 5th frame twice
    FAULT_CORRUPT,   // flips a bit of the 5th answer
    FAULT_SWALLOW,   // never answers the 5th
    FAULT_SWAP,      // answers the 6th before the 5th
    FAULT_CLOSE,     // FIN at the 5th
    FAULT_RESET,     // RST at the 5th
    FAULT_SILENT,    // accepts and never answers
    FAULT_REFUSE,    // closes at the first frame
    FAULT_STOP_READING,
} server_fault;

typedef struct server_conn {
    int fd;
    u64 frames;
    size_t have;
    u8 held[4096]; // an answer kept back by FAULT_SWAP
    size_t held_len;
    u8 data[70000];
} server_conn;

typedef struct bench_server {
    wire_mode mode;
    server_fault fault;
    u16 port;
    int listener, stop_pipe[2];
    pthread_t thread;
    server_conn *conns;
    char to[32];
} bench_server;

static void server_write(int fd, const u8 *data, size_t len) {
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n <= 0) return;
        data += n;
        len -= (size_t)n;
    }
}

static void server_reset(server_conn *c) {
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

// Answers one frame. False: close the connection.
static bool server_frame(bench_server *s, server_conn *c, u8 *frame, size_t len) {
    u8 ack[WIRE_ACK_BYTES] = {0, 0, 0, 8};
    if (s->fault == FAULT_SILENT) return true;
    if (s->fault == FAULT_REFUSE) return false;
    if (len == WIRE_LENGTH_BYTES) {
        server_write(c->fd, frame, len);
        return true;
    }
    u64 n = s->mode == WIRE_PUBLISH ? c->frames++ : ++c->frames; // the hello is number 0
    bool bad = n == SERVER_BAD_FRAME;
    if (bad && s->fault == FAULT_RESET) server_reset(c);
    if (bad && (s->fault == FAULT_CLOSE || s->fault == FAULT_RESET)) return false;
    if (bad && s->fault == FAULT_SWALLOW) return true;
    u64 big = htobe64(n);
    memcpy(ack + 4, &big, sizeof(big));
    u8 *out = s->mode == WIRE_ECHO ? frame : ack;
    size_t out_len = s->mode == WIRE_ECHO ? len : sizeof(ack);
    if (bad && s->fault == FAULT_CORRUPT) out[out_len - 1] ^= 0x80;
    if (bad && s->fault == FAULT_SWAP) {
        memcpy(c->held, out, out_len);
        c->held_len = out_len;
        return true;
    }
    server_write(c->fd, out, out_len);
    if (bad && s->fault == FAULT_DUPLICATE) server_write(c->fd, out, out_len);
    if (c->held_len > 0) server_write(c->fd, c->held, c->held_len);
    c->held_len = 0;
    return true;
}

static bool server_read(bench_server *s, server_conn *c) {
    ssize_t n = recv(c->fd, c->data + c->have, sizeof(c->data) - c->have, 0);
    if (n <= 0) return false;
    c->have += (size_t)n;
    size_t at = 0;
    while (c->have - at >= WIRE_LENGTH_BYTES) {
        u32 length;
        memcpy(&length, c->data + at, sizeof(length));
        size_t whole = WIRE_LENGTH_BYTES + be32toh(length);
        if (c->have - at < whole) break;
        if (!server_frame(s, c, c->data + at, whole)) return false;
        at += whole;
    }
    memmove(c->data, c->data + at, c->have - at);
    c->have -= at;
    return true;
}

static void *server_main(void *arg) {
    bench_server *s = arg;
    struct pollfd polls[SERVER_CONNS + 2];
    for (;;) {
        polls[0] = (struct pollfd){.fd = s->stop_pipe[0], .events = POLLIN};
        polls[1] = (struct pollfd){.fd = s->listener, .events = POLLIN};
        for (u32 i = 0; i < SERVER_CONNS; i++) {
            bool reads = s->fault != FAULT_STOP_READING || s->conns[i].frames < 20;
            polls[i + 2] = (struct pollfd){.fd = reads ? s->conns[i].fd : -1, .events = POLLIN};
        }
        poll(polls, SERVER_CONNS + 2, -1);
        if (polls[0].revents != 0) return NULL;
        for (u32 i = 0; i < SERVER_CONNS; i++) {
            server_conn *c = &s->conns[i];
            if (c->fd >= 0 && polls[i + 2].revents != 0 && !server_read(s, c)) {
                close(c->fd);
                c->fd = -1;
            }
        }
        if (polls[1].revents == 0) continue;
        u32 i = 0;
        while (i < SERVER_CONNS && s->conns[i].fd >= 0) i++;
        if (i == SERVER_CONNS) continue;
        s->conns[i].frames = s->conns[i].have = s->conns[i].held_len = 0;
        s->conns[i].fd = accept(s->listener, NULL, NULL);
    }
}

static void server_start(bench_server *s, wire_mode mode, server_fault fault) {
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(in);
    *s = (bench_server){.mode = mode, .fault = fault};
    s->conns = calloc(SERVER_CONNS, sizeof(*s->conns));
    for (u32 i = 0; i < SERVER_CONNS; i++) s->conns[i].fd = -1;
    s->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert(s->conns != NULL && s->listener >= 0);
    int small =
        32768; // as the gateway's device listeners: a peer that is not read from is held back soon
    int rc = setsockopt(s->listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    rc |= bind(s->listener, (struct sockaddr *)&in, sizeof(in));
    rc |= listen(s->listener, 1024);
    rc |= getsockname(s->listener, (struct sockaddr *)&in, &len);
    rc |= pipe(s->stop_pipe);
    assert(rc == 0);
    s->port = ntohs(in.sin_port);
    snprintf(s->to, sizeof(s->to), "127.0.0.1:%u", s->port);
    rc = pthread_create(&s->thread, NULL, server_main, s);
    assert(rc == 0);
}

static void server_stop(bench_server *s) {
    ssize_t n = write(s->stop_pipe[1], "x", 1);
    assert(n == 1);
    pthread_join(s->thread, NULL);
    for (u32 i = 0; i < SERVER_CONNS; i++) {
        if (s->conns[i].fd >= 0) close(s->conns[i].fd);
    }
    close(s->listener);
    close(s->stop_pipe[0]);
    close(s->stop_pipe[1]);
    free(s->conns);
}

#endif
