// SPDX-License-Identifier: Apache-2.0
// config_user_data.c: see config_user_data.h. Told by their first bytes, as cloud-init does (its formats:
// cloud-config, scripts, MIME archives, gzip), so that the message says what was found, not just that it
// is no configuration.
#include "init/config_user_data.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

typedef struct known {
    const char *start, *why;
} known;

static bool starts(const char *data, size_t len, const char *with) {
    size_t n = strlen(with);
    return len >= n && strncasecmp(data, with, n) == 0;
}

int config_user_data(const char *data, size_t len, const char **text, size_t *text_len, const char **why) {
    static const known others[] = {
        {"#cloud-config", "it is cloud-init's YAML (#cloud-config), which is not read here; write a sluice.conf, "
                          "with #sluice-config as its first line"},
        {"#cloud-boothook", "it is a script for cloud-init; there is no shell here; write a sluice.conf"},
        {"#include", "it is a list of URLs for cloud-init; write the sluice.conf itself"},
        {"#part-handler", "it is a program for cloud-init; write a sluice.conf"},
        {"#upstart-job", "it is a job for cloud-init; write a sluice.conf"},
        {"## template: jinja", "it is a template for cloud-init; write a sluice.conf"},
        {"#!", "it is a script; there is no shell here; write a sluice.conf"},
        {"Content-Type: multipart", "it is a MIME archive for cloud-init; write one sluice.conf"},
        {"MIME-Version:", "it is a MIME archive for cloud-init; write one sluice.conf"},
        {"---", "it is YAML; write a sluice.conf"},
        {"{", "it is JSON; write a sluice.conf"},
        {"<", "it is a page or XML, not a sluice.conf"},
    };
    const char *p = data;
    size_t left = len;
    *why = NULL;
    if (left >= 2 && (u8)p[0] == 0x1f && (u8)p[1] == 0x8b) {
        *why = "it is compressed (gzip); give the sluice.conf as it is";
        return -EINVAL;
    }
    if (left >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) p += 3, left -= 3;
    while (left > 0 && (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n')) p++, left--;
    if (left == 0) return -ENODATA;
    for (u32 i = 0; i < ARRAY_LEN(others); i++) {
        if (!starts(p, left, others[i].start)) continue;
        *why = others[i].why;
        return -EINVAL;
    }
    *text = data;
    *text_len = len;
    return 0;
}
