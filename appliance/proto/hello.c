// SPDX-License-Identifier: Apache-2.0
// hello.c: the first frame of publish mode: a JSON object that names the device.
//
// It is read before anything is known of the peer, so it is bounded (LIMIT_HELLO_BYTES), uses no
// heap (yyjson reads into a pool on the stack that holds its worst case) and accepts one reading
// only: no trailing bytes, no member twice, strings of the right kind.
#include <errno.h>
#include <string.h>

#include <yyjson.h>

#include "broker/topic.h"
#include "proto/frame.h"

_Static_assert(FRAME_HELLO_STACK_BYTES <= 64u << 10, "half of the smallest thread stack");

// Copies a string member. text_max: without the terminator.
static bool member_read(yyjson_val *value, char *text, size_t text_max, u32 *len) {
    if (!yyjson_is_str(value)) return false;
    size_t bytes = yyjson_get_len(value);
    const char *from = yyjson_get_str(value);
    if (bytes > text_max || memchr(from, 0, bytes) != NULL) return false;
    memcpy(text, from, bytes);
    *len = (u32)bytes;
    return true;
}

static bool id_is_valid(const char *id, u32 len) {
    if (len == 0 || !utf8_is_valid(id, len)) return false;
    for (u32 i = 0; i < len; i++) {
        if (id[i] == '/' || id[i] == '+' || id[i] == '#') return false;
    }
    return true;
}

static int hello_read(yyjson_val *root, frame_hello *out) {
    if (!yyjson_is_obj(root)) return -EINVAL;
    bool have_id = false, have_token = false;
    yyjson_obj_iter members = yyjson_obj_iter_with(root);
    for (yyjson_val *key = yyjson_obj_iter_next(&members); key != NULL;
         key = yyjson_obj_iter_next(&members)) {
        yyjson_val *value = yyjson_obj_iter_get_val(key);
        if (yyjson_equals_str(key, "id")) {
            if (have_id || !member_read(value, out->id, LIMIT_CLIENT_ID_BYTES, &out->id_len)) {
                return -EINVAL;
            }
            have_id = true;
        } else if (yyjson_equals_str(key, "token")) {
            if (have_token || !member_read(value, out->token, LIMIT_TOKEN_BYTES, &out->token_len)) {
                return -EINVAL;
            }
            have_token = true;
        }
    }
    return have_id && id_is_valid(out->id, out->id_len) ? 0 : -EINVAL;
}

int frame_hello_parse(const u8 *data, u32 len, frame_hello *out) {
    _Alignas(16) char memory[FRAME_HELLO_STACK_BYTES];
    ASSERT(yyjson_read_max_memory_usage(LIMIT_HELLO_BYTES, YYJSON_READ_NOFLAG) <= sizeof(memory));
    memset(out, 0, sizeof(*out));
    if (len == 0 || len > LIMIT_HELLO_BYTES) return -EINVAL;
    yyjson_alc pool;
    if (!yyjson_alc_pool_init(&pool, memory, sizeof(memory))) return -EINVAL;
    // The flag keeps yyjson from changing the text; the cast is its interface.
    char *text = (char *)(uintptr_t)data;
    yyjson_doc *doc = yyjson_read_opts(text, len, YYJSON_READ_NOFLAG, &pool, NULL);
    return doc == NULL ? -EINVAL : hello_read(yyjson_doc_get_root(doc), out);
}
