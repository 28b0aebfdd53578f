// SPDX-License-Identifier: Apache-2.0
// fuzz_password_file.c: any bytes as a password file. What is accepted holds only entries that can be found and
// checked; what is not says which line.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "auth/password_file.h"

#define CHECK(ok) \
    do { \
        if (!(ok)) abort(); \
    } while (0)

int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
    char error[256] = "";
    password_file f;
    int result = password_file_parse("f", (const char *)data, size, &f, error, sizeof(error));
    CHECK(result == 0 || (result == -EINVAL && strncmp(error, "f:", 2) == 0));
    if (result != 0) return 0;
    for (u32 i = 0; i < f.count; i++) {
        const password_entry *e = &f.entries[i];
        CHECK(e->user_len > 0 && e->iterations >= 1 && e->salt_len >= 1 && e->salt_len <= PBKDF2_SALT_BYTES_MAX);
        CHECK(password_file_find(&f, e->user, e->user_len, false) != NULL);
        CHECK(password_file_find(&f, e->user, e->user_len, true) != NULL || e->kind != PASSWORD_SCRAM);
    }
    password_check c;
    password_check_begin(&c, &f, "u", 1, "p", 1);
    (void)password_check_run(&c, 16);
    (void)password_check_end(&c);
    password_file_free(&f);
    return 0;
}
