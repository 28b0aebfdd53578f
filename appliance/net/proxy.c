// SPDX-License-Identifier: Apache-2.0
// proxy.c: a connection that a proxy has made: the header that comes before everything else tells whose it is
// (proto/proxy_header.c). Until then the connection has the proxy's address and no place in the table of addresses.
//
// The header usually comes in one piece and is read on the stack; one that comes in part waits in the
// connection's tail, which is free before the first packet.
#include <string.h>

#include "base/log.h"
#include "conf/cidr.h"
#include "net/conn_internal.h"
#include "net/listener.h"
#include "proto/proxy_header.h"

close_reason proxy_admit(const listener_config *conf, const conn *who) {
    // Who may connect to a unix socket is the file's permissions' to say.
    if (who->peer_family != AF_INET && who->peer_family != AF_INET6) return CLOSE_NONE;
    return cidr_list_has(conf->proxy_from, who->peer_addr) ? CLOSE_NONE : CLOSE_PROXY_SOURCE;
}

static int parser_keep(conn *c, const proxy_parser *p) {
    if (c->tail == NULL) {
        c->tail = worker_buf_alloc(c->owner, sizeof(*p), &c->tail_size);
        if (c->tail == NULL) return CLOSE_NO_MEMORY;
        c->tail_used = 0;
        c->tail_want = UINT32_MAX; // no packet
    }
    memcpy(c->tail, p, sizeof(*p));
    return 0;
}

static void parser_drop(conn *c) {
    if (c->tail == NULL) return;
    worker_buf_free(c->owner, c->tail, c->tail_size);
    c->tail = NULL;
    c->tail_size = c->tail_want = 0;
}

static int refused(const conn *c, proxy_fault fault) {
    char text[CONN_PEER_TEXT];
    log_info("conn %llx: %s on listener %s: %s", (unsigned long long)c->id, conn_peer_text(c, text),
             c->origin->conf.name, proxy_fault_text(fault));
    return CLOSE_PROXY_HEADER;
}

static int named(conn *c, const proxy_parser *p) {
    char through[CONN_PEER_TEXT];
    conn_peer_text(c, through);
    if (p->family != 0) {
        memcpy(c->peer_addr, p->addr, sizeof(c->peer_addr));
        c->peer_family = p->family;
        c->peer_port = p->port;
    }
    c->flags &= (u16)~CONN_PROXY_HEADER;
    parser_drop(c);
    conn_log_open(c, through);
    return conn_address_take(c);
}

int proxy_take(conn *c, const u8 *data, u32 len, u32 *used) {
    proxy_parser p = {0};
    proxy_fault fault;
    if (c->tail != NULL) memcpy(&p, c->tail, sizeof(p));
    switch (proxy_header_feed(&p, data, len, used, &fault)) {
    case PROXY_READY: return named(c, &p);
    case PROXY_REFUSED: return refused(c, fault);
    case PROXY_NEED_MORE: break;
    }
    return parser_keep(c, &p);
}
