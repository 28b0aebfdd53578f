// SPDX-License-Identifier: Apache-2.0
// fuzz_hello.c: any bytes as the first frame of publish mode. What is accepted keeps the promises
// of frame_hello: an id that is one topic level, terminated strings, zeroes behind them.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/topic.h"
#include "proto/frame.h"

#define CHECK(ok) \
    do { \
        if (!(ok)) abort(); \
    } while (0)

int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
    static frame_hello hello;
    memset(&hello, 0xaa, sizeof(hello));
    int result = frame_hello_parse(data, (u32)size, &hello);
    CHECK(result == 0 || result == -EINVAL);
    if (result != 0) return 0;
    CHECK(hello.id_len >= 1 && hello.id_len <= LIMIT_CLIENT_ID_BYTES);
    CHECK(strlen(hello.id) == hello.id_len);
    CHECK(topic_name_is_valid(hello.id, hello.id_len));
    CHECK(strchr(hello.id, '/') == NULL);
    CHECK(hello.token_len <= LIMIT_TOKEN_BYTES && strlen(hello.token) == hello.token_len);
    for (size_t i = hello.id_len; i < sizeof(hello.id); i++) CHECK(hello.id[i] == 0);
    for (size_t i = hello.token_len; i < sizeof(hello.token); i++) CHECK(hello.token[i] == 0);
    return 0;
}
