// SPDX-License-Identifier: Apache-2.0
// dial.h: the generator's way to the server: address, source addresses, sockets. Connections to a
// loopback address may be spread over source addresses in 127.0.0.0/8, because one source address
// has only about 28,000 ports and a closed connection keeps its port for a minute (TIME_WAIT).
#ifndef SLUICE_BENCH_DIAL_H
#define SLUICE_BENCH_DIAL_H

#include <sys/socket.h>

#include "base/base.h"

typedef struct dial {
    struct sockaddr_storage to;
    socklen_t to_len;
    u16 port;
    bool loopback; // inside 127.0.0.0/8: sources can be spread
    u32 sources;   // 0 or 1: the kernel chooses the source address
    u32 rcvbuf;    // SO_RCVBUF bytes; 0 = leave
    u32 sndbuf;    // SO_SNDBUF bytes; 0 = leave
    bool one_frame; // one send each way: TCP_NODELAY would be a system call for nothing
    bool reset;    // close with RST: SO_LINGER of 0 seconds
    char text[96]; // "127.0.0.1:7000"
} dial;

// Resolves "HOST:PORT" or "[V6]:PORT". Returns 0, or -EINVAL with a sentence in why.
int dial_resolve(dial *d, const char *text, char *why, size_t why_bytes);
// Starts a non-blocking connect of connection number index; *fd is set when 0 is returned (the
// connect may still be in progress), else a negative errno and nothing is left open.
int dial_start(const dial *d, u32 index, int *fd);
// Waits until the connect of fd is done. 0, or a negative errno (-ETIMEDOUT after timeout_ms).
int dial_finish(int fd, int timeout_ms);

#endif
