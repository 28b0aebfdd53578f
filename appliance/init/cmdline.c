// SPDX-License-Identifier: Apache-2.0
// cmdline.c: see cmdline.h.
#include "init/cmdline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "init/control.h"
#include "limits.h"

#define WORDS_MAX 128u

static char line_buf[LIMIT_CMDLINE_BYTES];
static struct {
    const char *key, *value;
} words[WORDS_MAX];
static u32 word_count;

// Cuts the next word out of *at in place: quotes are dropped, the first '=' outside of them parts it.
static char *word_cut(char **at, char **value) {
    char *from = *at, *to, *start;
    while (*from == ' ' || *from == '\t' || *from == '\n') from++;
    if (*from == '\0') return NULL;
    start = to = from;
    *value = NULL;
    bool quoted = false;
    for (; *from != '\0' && (quoted || (*from != ' ' && *from != '\t' && *from != '\n')); from++) {
        if (*from == '"') {
            quoted = !quoted;
        } else if (*from == '=' && *value == NULL) {
            *to++ = '\0';
            *value = to;
        } else {
            *to++ = *from;
        }
    }
    *at = *from == '\0' ? from : from + 1;
    *to = '\0';
    if (*value == NULL) *value = to;
    return start;
}

static void line_split(void) {
    char *at = line_buf, *value, *key;
    word_count = 0;
    while (word_count < WORDS_MAX && (key = word_cut(&at, &value)) != NULL) {
        words[word_count].key = key;
        words[word_count++].value = value;
    }
}

void init_cmdline_set(const char *line) {
    snprintf(line_buf, sizeof(line_buf), "%s", line);
    line_split();
}

int init_cmdline_read(void) {
    int fd = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    ssize_t n = read(fd, line_buf, sizeof(line_buf) - 1);
    int failed = errno;
    close(fd);
    if (n < 0) return -failed;
    line_buf[n] = '\0';
    line_split();
    return 0;
}

const char *init_cmdline_get(const char *key) {
    for (u32 i = word_count; i > 0; i--) {
        if (strcmp(words[i - 1].key, key) == 0) return words[i - 1].value;
    }
    return NULL;
}

void init_cmdline_each(void (*f)(void *context, const char *key, const char *value), void *context) {
    for (u32 i = 0; i < word_count; i++) f(context, words[i].key, words[i].value);
}
