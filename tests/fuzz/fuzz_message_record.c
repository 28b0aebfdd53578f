// SPDX-License-Identifier: Apache-2.0
// fuzz_message_record.c: the input is a message record as it might lie on a damaged disk. What is accepted is
// written again and must give the same bytes.
#include <stdlib.h>
#include <string.h>

#include "store/message_record.h"

#define CHECK(ok) \
    do { \
        if (!(ok)) abort(); \
    } while (0)

static void write_again(const message_record *r, const u8 *data, size_t size) {
    message_stream *streams = calloc(r->stream_count + 1, sizeof(*streams));
    message_waiting *waiting = calloc(r->waiting_count + 1, sizeof(*waiting));
    u32 *ids = calloc((size_t)r->id_count + 1, sizeof(*ids));
    CHECK(streams != NULL && waiting != NULL && ids != NULL);
    for (u32 i = 0; i < r->stream_count; i++) streams[i] = message_record_stream(r, i);
    for (u32 i = 0; i < r->waiting_count; i++) {
        message_waiting found;
        waiting[i] = message_record_waiting(r, i);
        CHECK(message_record_find(r, waiting[i].session, &found) && found.ids_at == waiting[i].ids_at);
        message_record_ids(r, &waiting[i], ids + waiting[i].ids_at);
        waiting[i].ids = ids + waiting[i].ids_at;
    }
    u32 head_bytes = message_record_head_bytes(r);
    u8 *head = malloc(head_bytes);
    CHECK(head_bytes > 0 && head_bytes <= size && head != NULL);
    struct iovec parts[4];
    message_record_write(r, streams, waiting, head, parts);
    size_t at = 0;
    for (u32 i = 0; i < 4; i++) {
        CHECK(parts[i].iov_len <= size - at);
        CHECK(parts[i].iov_len == 0 || memcmp(data + at, parts[i].iov_base, parts[i].iov_len) == 0);
        at += parts[i].iov_len;
    }
    CHECK(at == size);
    free(head);
    free(ids);
    free(waiting);
    free(streams);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
    message_record r;
    if (message_record_parse(data, (u32)size, &r)) write_again(&r, data, size);
    return 0;
}
