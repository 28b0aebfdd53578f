// SPDX-License-Identifier: Apache-2.0
// resolve.c: see resolve.h. One atomic state decides who frees a job: whoever comes second.
#include "uplink/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STACK_BYTES (128u << 10) // musl's resolver keeps its answers on the stack

enum { JOB_RUNNING, JOB_DONE, JOB_DROPPED };

struct resolve_job {
    u32 state; // atomic
    int error; // of getaddrinfo
    u32 count;
    resolve_address addresses[RESOLVE_ADDRESSES_MAX];
    char port[8];
    char host[];
};

static u32 threads; // atomic: running now

bool resolve_literal(const char *host, u16 port, resolve_address *out) {
    memset(out, 0, sizeof(*out));
    struct sockaddr_in *v4 = (struct sockaddr_in *)&out->addr;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&out->addr;
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        out->len = sizeof(*v4);
        return true;
    }
    if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        out->len = sizeof(*v6);
        return true;
    }
    return false;
}

static void look_up(resolve_job *job) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *found = NULL;
    job->error = getaddrinfo(job->host, job->port, &hints, &found);
    if (job->error != 0) return;
    for (const struct addrinfo *a = found; a != NULL && job->count < RESOLVE_ADDRESSES_MAX; a = a->ai_next) {
        resolve_address *to = &job->addresses[job->count];
        if (a->ai_addrlen > sizeof(to->addr)) continue;
        memcpy(&to->addr, a->ai_addr, a->ai_addrlen);
        to->len = a->ai_addrlen;
        job->count++;
    }
    freeaddrinfo(found);
}

static void *run(void *argument) {
    resolve_job *job = argument;
    look_up(job);
    u32 running = JOB_RUNNING;
    // Dropped meanwhile: nobody else knows of it.
    if (!__atomic_compare_exchange_n(&job->state, &running, JOB_DONE, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        free(job);
    }
    __atomic_fetch_sub(&threads, 1, __ATOMIC_ACQ_REL);
    return NULL;
}

static int thread_start(resolve_job *job) {
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // signals are for the threads that expect them
    int result = pthread_create(&thread, &attr, run, job);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return -result;
}

int resolve_start(const char *host, u16 port, resolve_job **out) {
    size_t len = strlen(host) + 1;
    if (__atomic_add_fetch(&threads, 1, __ATOMIC_ACQ_REL) > RESOLVE_THREADS_MAX) {
        __atomic_fetch_sub(&threads, 1, __ATOMIC_ACQ_REL);
        return -EAGAIN;
    }
    resolve_job *job = calloc(1, sizeof(*job) + len);
    int result = job == NULL ? -ENOMEM : 0;
    if (job != NULL) {
        memcpy(job->host, host, len);
        snprintf(job->port, sizeof(job->port), "%u", port);
        result = thread_start(job);
    }
    if (result < 0) {
        free(job);
        __atomic_fetch_sub(&threads, 1, __ATOMIC_ACQ_REL);
        return result;
    }
    *out = job;
    return 0;
}

bool resolve_is_of(const resolve_job *job, const char *host, u16 port) {
    return strcmp(job->host, host) == 0 && strtoul(job->port, NULL, 10) == port;
}

bool resolve_is_done(const resolve_job *job) {
    return __atomic_load_n(&job->state, __ATOMIC_ACQUIRE) == JOB_DONE;
}

int resolve_result(const resolve_job *job, const resolve_address **addresses, const char **why) {
    *addresses = job->addresses;
    *why = job->error != 0 ? gai_strerror(job->error) : "no address";
    if (job->count > 0) return (int)job->count;
    return job->error == EAI_AGAIN ? -ETIMEDOUT : -ENOENT;
}

void resolve_drop(resolve_job *job) {
    if (job == NULL) return;
    u32 running = JOB_RUNNING;
    if (!__atomic_compare_exchange_n(&job->state, &running, JOB_DROPPED, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        free(job);
    }
}
