// SPDX-License-Identifier: Apache-2.0
// metadata_http.c: see metadata_http.h. Interim answers (1xx) are skipped; redirects are not followed: a
// metadata service has no reason to send one, and what answers in its place has no right to.
#include "init/metadata_http.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static http_answer *answer_of(llhttp_t *l) {
    return l->data;
}

static int refuse(http_answer *a, const char *why) {
    if (a->why == NULL) a->why = why;
    return HPE_USER;
}

static int count_header(http_answer *a, size_t len) {
    if (len > METADATA_HEADER_BYTES_MAX - a->header_bytes) return refuse(a, "its header is too large");
    a->header_bytes += (u32)len;
    return 0;
}

static int on_status(llhttp_t *l, const char *at, size_t len) {
    (void)at;
    return count_header(answer_of(l), len);
}

static int on_field(llhttp_t *l, const char *at, size_t len) {
    http_answer *a = answer_of(l);
    size_t take = MIN(len, sizeof(a->field) - a->field_len);
    memcpy(a->field + a->field_len, at, take);
    a->field_len += (u32)take;
    return count_header(a, len);
}

static int on_value(llhttp_t *l, const char *at, size_t len) {
    http_answer *a = answer_of(l);
    size_t take = MIN(len, sizeof(a->value) - a->value_len);
    memcpy(a->value + a->value_len, at, take);
    a->value_len += (u32)take;
    return count_header(a, len);
}

static int on_value_complete(llhttp_t *l) {
    static const char field[] = "metadata-flavor", value[] = "google";
    http_answer *a = answer_of(l);
    if (a->field_len == sizeof(field) - 1 && strncasecmp(a->field, field, a->field_len) == 0 &&
        a->value_len == sizeof(value) - 1 && strncasecmp(a->value, value, a->value_len) == 0)
        a->flavor_google = true;
    a->field_len = a->value_len = 0;
    return 0;
}

static int on_headers_complete(llhttp_t *l) {
    http_answer *a = answer_of(l);
    a->status = l->status_code;
    if ((l->flags & F_CONTENT_LENGTH) != 0 && l->content_length > METADATA_BODY_BYTES_MAX)
        return refuse(a, "its body is too large");
    l->upgrade = 0;
    return 0;
}

static int on_body(llhttp_t *l, const char *at, size_t len) {
    http_answer *a = answer_of(l);
    if (len > METADATA_BODY_BYTES_MAX - a->body_len) return refuse(a, "its body is too large");
    if (a->body_len + len + 1 > a->body_room) {
        size_t room = MAX(a->body_room * 2, a->body_len + len + 1024);
        char *grown = realloc(a->body, room);
        if (grown == NULL) return refuse(a, "no memory for its body");
        a->body = grown;
        a->body_room = room;
    }
    memcpy(a->body + a->body_len, at, len);
    a->body_len += len;
    a->body[a->body_len] = '\0';
    return 0;
}

static int on_complete(llhttp_t *l) {
    http_answer *a = answer_of(l);
    if (a->status >= 100 && a->status < 200) {
        a->body_len = 0;
        return 0;
    }
    a->complete = true;
    return HPE_PAUSED;
}

void http_answer_init(http_answer *a) {
    memset(a, 0, sizeof(*a));
    llhttp_settings_init(&a->settings);
    a->settings.on_status = on_status;
    a->settings.on_header_field = on_field;
    a->settings.on_header_value = on_value;
    a->settings.on_header_value_complete = on_value_complete;
    a->settings.on_headers_complete = on_headers_complete;
    a->settings.on_body = on_body;
    a->settings.on_message_complete = on_complete;
    llhttp_init(&a->llhttp, HTTP_RESPONSE, &a->settings);
    a->llhttp.data = a;
}

void http_answer_free(http_answer *a) {
    free(a->body);
    a->body = NULL;
}

answer_progress http_answer_feed(http_answer *a, const char *data, size_t len) {
    if (a->complete) return ANSWER_COMPLETE;
    if (a->why != NULL) return ANSWER_BAD;
    llhttp_errno_t rc = llhttp_execute(&a->llhttp, data, len);
    if (a->complete) return ANSWER_COMPLETE;
    if (rc == HPE_OK) return ANSWER_MORE;
    refuse(a, "it is not HTTP");
    return ANSWER_BAD;
}

answer_progress http_answer_end(http_answer *a) {
    if (!a->complete && a->why == NULL && llhttp_finish(&a->llhttp) != HPE_OK && !a->complete)
        refuse(a, "the connection ended in the middle of it");
    if (a->complete) return ANSWER_COMPLETE;
    refuse(a, "the connection ended without an answer");
    return ANSWER_BAD;
}
