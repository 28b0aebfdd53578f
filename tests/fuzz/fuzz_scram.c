// SPDX-License-Identifier: Apache-2.0
// fuzz_scram.c: a client's two messages, split at a newline. Nobody is let in: no input knows the password.
#include <stdlib.h>
#include <string.h>

#include "auth/scram.h"

#define CHECK(ok) \
    do { \
        if (!(ok)) abort(); \
    } while (0)

int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
    static const char account[] = "user:SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$W"
        "G5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwc"
        "E6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=\n";
    static password_file f;
    char error[256];
    if (f.count == 0) CHECK(password_file_parse("f", account, sizeof(account) - 1, &f, error, sizeof(error)) == 0);
    const u8 *end = memchr(data, '\n', size);
    size_t first = end != NULL ? (size_t)(end - data) : size;
    scram s;
    if (scram_begin(&s, &f, data, (u32)first, "abcdefghijklmnopqrstuvwx") != NULL) return 0;
    u32 len;
    const char *challenge = scram_challenge(&s, &len);
    CHECK(len > 0 && memcmp(challenge, "r=", 2) == 0 && s.user_len > 0 && s.user_len <= LIMIT_USER_BYTES);
    if (end == NULL) return 0;
    char final[SCRAM_FINAL_BYTES];
    CHECK(scram_finish(&s, end + 1, (u32)(size - first - 1), final, &len) != NULL);
    return 0;
}
