// SPDX-License-Identifier: Apache-2.0
// fuzz_acl.c: any bytes as an ACL file, judged for subjects of several kinds. Whoever may read a topic may also ask for
// it as a filter.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "auth/acl.h"

#define CHECK(ok) \
    do { \
        if (!(ok)) abort(); \
    } while (0)

int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
    static const char *const names[] = {NULL, "u", "a b", "a/b", "+"};
    static const char *const topics[] = {"a", "a/b", "u/c", "$SYS/x", "/", "a/b/c/d"};
    char error[256] = "";
    acl a;
    int result = acl_parse("f", (const char *)data, size, &a, error, sizeof(error));
    CHECK(result == 0 || (result == -EINVAL && strncmp(error, "f:", 2) == 0));
    if (result != 0) return 0;
    for (u32 i = 0; i < ARRAY_LEN(names); i++) {
        u32 len = names[i] == NULL ? 0 : (u32)strlen(names[i]);
        acl_subject who = {names[i], len, "c", 1, acl_rules_of(&a, names[i], len), false};
        for (u32 k = 0; k < ARRAY_LEN(topics); k++) {
            u32 bytes = (u32)strlen(topics[k]);
            bool reads = acl_allows(&a, &who, ACL_READ, topics[k], bytes);
            (void)acl_allows(&a, &who, ACL_WRITE, topics[k], bytes);
            CHECK(!reads || acl_allows_filter(&a, &who, topics[k], bytes));
        }
        (void)acl_allows_filter(&a, &who, "#", 1);
        (void)acl_allows_filter(&a, &who, "+/b/#", 5);
    }
    acl_free(&a);
    return 0;
}
