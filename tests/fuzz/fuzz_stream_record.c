// SPDX-License-Identifier: Apache-2.0
// fuzz_stream_record.c: any bytes as STORE_STREAM records, one after the other: what another version or a
// damaged log may bring to a start. The state that comes of them keeps its promises and can be looked up.
#include <stdlib.h>
#include <string.h>

#include "gateway.h"
#include "store/streams_state.h"
#include "worker.h"

#define CHECK(ok) \
    do { \
        if (!(ok)) abort(); \
    } while (0)

static void part_check(stream_part *p) {
    const stream_index *x = &p->index;
    CHECK(p->first >= 1 && p->first <= p->next);
    CHECK(p->name[0] != '\0' && strlen(p->name) < LIMIT_NAME_BYTES);
    CHECK(x->count <= LIMIT_STREAM_MARKS && x->sparse <= STREAM_SPARSE_MAX);
    CHECK(p->consumer_count <= LIMIT_STREAM_CONSUMERS);
    const stream_mark *m = stream_index_find(x, p->next);
    CHECK(m == NULL || (m >= x->marks && m < x->marks + x->count));
    (void)stream_index_find_time(x, 1);
    (void)stream_index_retain(x, 1, 1, UINT64_MAX / 2);
}

static void state_free(streams *s) {
    for (u32 i = 0; i < s->count; i++) {
        stream_part *p = s->parts[i];
        part_check(p);
        stream_consumers_free(p);
        stream_index_free(&p->index);
        free(p);
    }
    for (const stream_part *p = s->heard; p != NULL; p = p->heard_next) {
        CHECK(stream_is_heard(s, p->number) && p->name[0] != '\0' && strlen(p->name) < LIMIT_NAME_BYTES);
        CHECK(p->consumer_count <= LIMIT_STREAM_CONSUMERS);
    }
    stream_heard_forget(s);
}

// Records of 1 to 65,536 bytes: two bytes of length in front of each.
int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
    static gateway gw = {.worker_count = 2};
    static worker owner = {.gw = &gw};
    static streams s;
    memset(&s, 0, sizeof(s));
    s.owner = &owner;
    while (size > 2) {
        u32 len = MIN((u32)(data[0] << 8 | data[1]) + 1, (u32)size - 2);
        (void)stream_record_replay(&s, data + 2, len);
        data += 2 + len;
        size -= 2 + len;
    }
    for (u32 i = 0; i < s.count; i++) stream_consumers_take(&s, s.parts[i]);
    state_free(&s);
    return 0;
}
