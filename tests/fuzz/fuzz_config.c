// SPDX-License-Identifier: Apache-2.0
// fuzz_config.c: any bytes as a configuration file. What is refused has a message; what is accepted
// prints, reads back from its own print as the same configuration, and keeps the promises that the
// workers rely on.
#include <stdlib.h>
#include <string.h>

#include "conf/bind.h"
#include "conf/config.h"
#include "proto/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_promises(const config *c) {
    ASSERT(c->listener_count >= 1 && c->listener_count <= LIMIT_LISTENERS_MAX);
    ASSERT(c->workers <= LIMIT_WORKERS_MAX);
    ASSERT(c->ctl_socket[0] != '\0' && c->data_dir[0] != '\0');
    ASSERT(IS_POWER_OF_TWO(c->log.ring_bytes));
    ASSERT(c->recv_bufs == 0 || IS_POWER_OF_TWO(c->recv_bufs));
    for (u32 i = 0; i < c->listener_count; i++) {
        const listener_config *l = &c->listeners[i];
        u64 reply = l->mode == FRAME_ACK ? FRAME_ACK_BYTES : (u64)l->max_frame + FRAME_HEADER_BYTES;
        ASSERT(l->name[0] != '\0' && l->bind.addr_len > 0);
        ASSERT(l->max_frame >= 1 && l->max_frame <= LIMIT_PACKET_BYTES_MAX);
        ASSERT(l->out_bytes_high >= 1 && l->out_bytes_high + reply <= l->out_bytes_max);
        if (l->mode == FRAME_PUBLISH) ASSERT(l->anonymous == (l->token[0] == '\0'));
    }
}

static bool has_token(const config *c) {
    for (u32 i = 0; i < c->listener_count; i++) {
        if (c->listeners[i].token[0] != '\0') return true;
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char printed[CONFIG_PRINT_BYTES];
    static config first, second;
    static config_error error;
    int rc = config_parse("fuzz", (const char *)data, size, &first, &error);
    if (rc != 0) {
        ASSERT(error.text[0] != '\0' && strlen(error.text) < sizeof(error.text));
        return 0;
    }
    check_promises(&first);
    ssize_t bytes = config_print(&first, printed, sizeof(printed));
    ASSERT(bytes > 0);
    if (has_token(&first)) return 0;
    rc = config_parse("fuzz", printed, (size_t)bytes, &second, &error);
    ASSERT(rc == 0);
    ASSERT(memcmp(&first, &second, sizeof(first)) == 0);
    return 0;
}
