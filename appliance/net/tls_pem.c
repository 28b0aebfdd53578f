// SPDX-License-Identifier: Apache-2.0
// tls_pem.c: PEM by BearSSL's decoder, fed a line at a time so that a mistake has a line number. Everything read
// here may be a private key: buffers are wiped before they are freed.
#include "net/tls_pem.h"

#include <bearssl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "limits.h"

typedef struct collector {
    pem_object *object; // being decoded, NULL between objects
    u32 room;
    bool failed;        // out of memory
} collector;

static void collect(void *context, const void *data, size_t len) {
    collector *to = context;
    pem_object *o = to->object;
    if (o == NULL || to->failed) return;
    if (o->len + len > to->room) {
        // A larger block and a wiped old one: realloc could leave a copy of a key behind.
        u32 room = MAX(to->room * 2, (u32)(o->len + len));
        u8 *grown = malloc(room);
        if (grown == NULL) {
            to->failed = true;
            return;
        }
        if (o->len > 0) memcpy(grown, o->data, o->len);
        if (o->data != NULL) explicit_bzero(o->data, to->room);
        free(o->data);
        o->data = grown;
        to->room = room;
    }
    memcpy(o->data + o->len, data, len);
    o->len += (u32)len;
}

// An object begins. Returns 0 or the error.
static int object_begin(br_pem_decoder_context *pc, pem_file *out, collector *to, u32 line) {
    if (out->count == LIMIT_TLS_PEM_OBJECTS) return -E2BIG;
    pem_object *o = &out->objects[out->count++];
    *o = (pem_object){.line = line};
    snprintf(o->name, sizeof(o->name), "%.47s", br_pem_decoder_name(pc)); // longer ones are none of ours
    to->object = o;
    to->room = 0;
    br_pem_decoder_setdest(pc, collect, to);
    return 0;
}

static int feed_line(br_pem_decoder_context *pc, const char *text, u32 len, u32 line, pem_file *out,
                     collector *to) {
    while (len > 0) {
        size_t taken = br_pem_decoder_push(pc, text, len);
        text += taken;
        len -= (u32)taken;
        int result = 0;
        switch (br_pem_decoder_event(pc)) {
        case BR_PEM_BEGIN_OBJ:
            result = object_begin(pc, out, to, line);
            break;
        case BR_PEM_END_OBJ:
            to->object = NULL;
            break;
        case BR_PEM_ERROR:
            return -EINVAL;
        default:
            break;
        }
        if (result != 0) return result;
        if (to->failed) return -ENOMEM;
    }
    return 0;
}

int pem_parse(const char *text, u32 len, pem_file *out, u32 *line) {
    *out = (pem_file){.objects = calloc(LIMIT_TLS_PEM_OBJECTS, sizeof(*out->objects))};
    *line = 1;
    if (out->objects == NULL) return -ENOMEM;
    br_pem_decoder_context pc;
    br_pem_decoder_init(&pc);
    collector to = {0};
    int result = 0;
    for (u32 at = 0; at < len && result == 0; (*line)++) {
        const char *newline = memchr(text + at, '\n', len - at);
        u32 bytes = newline != NULL ? (u32)(newline - (text + at)) + 1 : len - at;
        result = feed_line(&pc, text + at, bytes, *line, out, &to);
        // A last line without its end is complete for people.
        if (result == 0 && newline == NULL) result = feed_line(&pc, "\n", 1, *line, out, &to);
        at += bytes;
        if (result != 0) break;
    }
    if (result == 0 && to.object != NULL) result = -EINVAL; // no END line
    explicit_bzero(&pc, sizeof(pc));
    return result;
}

int tls_file_read(const char *path, char **text, u32 *len) {
    *text = NULL;
    *len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) return -errno;
    struct stat st;
    int result = fstat(fd, &st) < 0 ? -errno : 0;
    if (result == 0 && S_ISDIR(st.st_mode)) result = -EISDIR;
    if (result == 0 && st.st_size > (off_t)LIMIT_TLS_FILE_BYTES) result = -EFBIG;
    char *buf = result == 0 ? calloc(1, LIMIT_TLS_FILE_BYTES + 1) : NULL;
    if (result == 0 && buf == NULL) result = -ENOMEM;
    while (result == 0) {
        ssize_t n = read(fd, buf + *len, LIMIT_TLS_FILE_BYTES + 1 - *len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) result = -errno;
        if (n <= 0) break;
        *len += (u32)n;
        if (*len > LIMIT_TLS_FILE_BYTES) result = -EFBIG;
    }
    close(fd);
    if (result < 0 && buf != NULL) tls_file_free(buf, MIN(*len, LIMIT_TLS_FILE_BYTES + 1));
    else *text = buf;
    return result;
}

void tls_file_free(char *text, u32 len) {
    if (text != NULL) explicit_bzero(text, len);
    free(text);
}

void pem_free(pem_file *file) {
    for (u32 i = 0; i < file->count; i++) {
        if (file->objects[i].data != NULL) explicit_bzero(file->objects[i].data, file->objects[i].len);
        free(file->objects[i].data);
    }
    free(file->objects);
    *file = (pem_file){0};
}
