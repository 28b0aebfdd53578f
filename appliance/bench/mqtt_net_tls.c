// SPDX-License-Identifier: Apache-2.0
// mqtt_net_tls.c: the seam between the generator's connections and tls_stream.
#include "bench/mqtt_net_tls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "bench/mqtt_net_read.h"

int mq_tls_load(mq_net *net, char *why, size_t why_bytes) {
    const mq_options *o = net->o;
    if (o->tls_ca == NULL) return 0;
    const tls_client_files files = {.ca = o->tls_ca, .cert = o->tls_cert, .key = o->tls_key};
    return tls_client_load(&files, &net->tls, why, why_bytes);
}

void mq_tls_unload(mq_net *net) {
    tls_client_free(net->tls);
    net->tls = NULL;
}

bool mq_tls_open(mq_client *c) {
    mq_tls_free(c);
    if (!c->net->o->tls_resume) c->session = (br_ssl_session_parameters){0};
    c->tls = tls_stream_open(c->net->tls, NULL, &c->session);
    c->tls_counted = false;
    return c->tls != NULL;
}

void mq_tls_free(mq_client *c) {
    tls_stream_free(c->tls);
    c->tls = NULL;
}

bool mq_tls_has_output(const mq_client *c) {
    u32 len;
    (void)tls_stream_output(c->tls, &len);
    return len > 0;
}

static void fail(mq_client *c, int result, u64 now_ns) {
    char why[TLS_STREAM_WHY_BYTES];
    if (result == -ENOMEM) {
        mq_client_fail(c, BENCH_ERROR_NO_MEMORY, now_ns);
        return;
    }
    if (c->net->first_refusal[0] == 0) {
        snprintf(c->net->first_refusal, sizeof(c->net->first_refusal), "TLS %s", tls_stream_why(c->tls, why));
    }
    mq_client_fail(c, BENCH_ERROR_TLS, now_ns);
}

bool mq_tls_seal(mq_client *c) {
    u32 len;
    int result = c->fill.used > 0 ? tls_stream_send(c->tls, c->fill.data, c->fill.used) : 0;
    c->fill.used = 0;
    const u8 *output = tls_stream_output(c->tls, &len);
    mq_buf *to = &c->flight;
    if (result == 0 && len > to->capacity) {
        u8 *data = realloc(to->data, len);
        if (data == NULL) {
            result = -ENOMEM;
        } else {
            to->data = data;
            to->capacity = len;
        }
    }
    if (result != 0) {
        fail(c, result, clock_mono_ns());
        return false;
    }
    if (len > 0) memcpy(to->data, output, len); // a send needs bytes that stay where they are
    to->used = len;
    tls_stream_output_taken(c->tls, len);
    return true;
}

typedef struct reading {
    mq_client *c;
    u64 now_ns;
} reading;

static int plain_read(void *to, u8 *data, u32 len) {
    const reading *r = to;
    mq_client_read(r->c, data, len, r->now_ns);
    return r->c->state == MQ_ENDED || r->c->state == MQ_CLOSED;
}

void mq_tls_read(mq_client *c, u8 *bytes, u32 len, u64 now_ns) {
    reading r = {c, now_ns};
    int result = tls_stream_receive(c->tls, bytes, len, plain_read, &r);
    if (result > 0) return;
    if (result == 0 && tls_stream_is_open(c->tls) && !c->tls_counted) {
        c->tls_counted = true;
        if (tls_stream_is_resumed(c->tls)) c->net->tls_resumed++;
        else c->net->tls_full++;
    }
    if (result < 0) fail(c, result, now_ns);
    else if (tls_stream_peer_ended(c->tls)) mq_client_fail(c, BENCH_ERROR_CLOSED_BY_SERVER, now_ns);
}

void mq_tls_leave(mq_client *c, const u8 *bytes, u32 len) {
    u32 sealed;
    if (tls_stream_send(c->tls, bytes, len) != 0) return;
    tls_stream_close(c->tls);
    const u8 *output = tls_stream_output(c->tls, &sealed);
    c->net->bytes_out += sealed;
    (void)!send(c->io.fd, output, sealed, MSG_NOSIGNAL | MSG_DONTWAIT);
    tls_stream_output_taken(c->tls, sealed);
}
