// SPDX-License-Identifier: Apache-2.0
// fuzz_nkey.c: any bytes as base32, as a seed and as a credentials file: what is taken comes back the same.
#include <stdlib.h>
#include <string.h>

#include "uplink/nkey.h"

#define CHECK(ok) \
    do { \
        if (!(ok)) abort(); \
    } while (0)

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
    static u8 raw[4096];
    static char text[sizeof(raw) * 8 / 5 + 2];
    const char *in = (const char *)data;
    nkey key;
    nats_creds creds;
    if (size > 4096) return 0;
    int len = base32_decode(in, size, raw, sizeof(raw));
    if (len >= 0) {
        base32_encode(raw, (size_t)len, text);
        CHECK(strlen(text) == size && memcmp(text, in, size) == 0);
    }
    if (nkey_from_seed(in, size, &key) == NULL) CHECK(strlen(key.public_key) == NKEY_PUBLIC_CHARS);
    for (int jwt = 0; jwt < 2; jwt++) {
        if (nats_creds_parse(in, size, jwt != 0, &creds) != NULL) continue;
        CHECK(creds.key.public_key[0] == 'U');
        CHECK(creds.jwt == NULL || (creds.jwt >= in && creds.jwt + creds.jwt_len <= in + size));
        CHECK(jwt == 0 || creds.jwt != NULL);
    }
    return 0;
}
