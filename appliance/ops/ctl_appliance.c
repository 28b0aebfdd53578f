// SPDX-License-Identifier: Apache-2.0
// ctl_appliance.c: see ctl_appliance.h. The answers are trees of names and values; they are printed as such, so
// that what init tells in a later version shows too. A member "text" is printed as it is.
#include "ops/ctl_appliance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "limits.h"
#include "ops/ctl.h"
#include "ops/text.h"

#define DEPTH_MAX 6

static bool collect(void *context, const char *bytes, size_t len) {
    text_append(context, bytes, len);
    return !((text *)context)->failed;
}

// What comes from a device's firmware or a crash must not drive the terminal.
static void put_text(const char *value) {
    for (; *value != '\0'; value++) {
        unsigned char c = (unsigned char)*value;
        if (c == '\n' || c == '\t' || (c >= 0x20 && c != 0x7f)) putchar(c);
        else printf("\\x%02x", c);
    }
}

static void print_scalar(yyjson_val *value) {
    if (yyjson_is_str(value)) put_text(yyjson_get_str(value));
    else if (yyjson_is_bool(value)) fputs(yyjson_get_bool(value) ? "yes" : "no", stdout);
    else if (yyjson_is_uint(value)) printf("%llu", (unsigned long long)yyjson_get_uint(value));
    else if (yyjson_is_int(value)) printf("%lld", (long long)yyjson_get_sint(value));
    else if (yyjson_is_real(value)) printf("%.3f", yyjson_get_real(value));
    else putchar('-');
}

static void print_object(yyjson_val *object, int depth);

static void print_array(const char *key, yyjson_val *array, int depth) {
    size_t i, count;
    yyjson_val *item;
    printf("%*s%s:%s\n", depth * 2, "", key, yyjson_arr_size(array) == 0 ? " none" : "");
    yyjson_arr_foreach(array, i, count, item) {
        if (yyjson_is_obj(item)) {
            printf("%*s-\n", depth * 2 + 2, "");
            print_object(item, depth + 2);
        } else {
            printf("%*s- ", depth * 2 + 2, "");
            print_scalar(item);
            putchar('\n');
        }
    }
}

static void print_object(yyjson_val *object, int depth) {
    size_t i, count;
    yyjson_val *key, *value;
    if (depth > DEPTH_MAX) return;
    yyjson_obj_foreach(object, i, count, key, value) {
        const char *name = yyjson_get_str(key);
        if (yyjson_is_obj(value)) {
            printf("%*s%s:\n", depth * 2, "", name);
            print_object(value, depth + 1);
        } else if (yyjson_is_arr(value)) {
            print_array(name, value, depth);
        } else if (strcmp(name, "text") == 0 && yyjson_is_str(value)) {
            put_text(yyjson_get_str(value));
        } else {
            printf("%*s%-*s ", depth * 2, "", MAX(16 - depth * 2, 1), name);
            print_scalar(value);
            putchar('\n');
        }
    }
}

static int print(const text *answer) {
    yyjson_doc *doc = yyjson_read(answer->data, answer->len, 0);
    bool good = yyjson_is_obj(yyjson_doc_get_root(doc));
    if (good) print_object(yyjson_doc_get_root(doc), 0);
    else fprintf(stderr, "sluice ctl: the answer is not JSON\n");
    yyjson_doc_free(doc);
    return good ? CTL_OK : CTL_BROKEN;
}

int ctl_appliance_run(const ctl_target *target, const char *what, bool json) {
    static const char confirm[] = "{\"confirm\":true}";
    char path[64 + LIMIT_NAME_BYTES];
    const char *name = what != NULL ? what : "appliance";
    bool acts = strcmp(name, "restart") == 0 || strcmp(name, "poweroff") == 0;
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");
    if (len == 0 || name[len] != '\0' || len > LIMIT_NAME_BYTES) {
        fprintf(stderr, "sluice ctl: there is no '%s' of the appliance\n", name);
        return CTL_USAGE;
    }
    snprintf(path, sizeof(path), "/api/appliance/%s", name);
    text answer = text_make(LIMIT_INIT_ANSWER_BYTES);
    ctl_call c = {.method = acts ? "POST" : "GET", .path = path, .body = acts ? confirm : NULL,
                  .body_len = acts ? sizeof(confirm) - 1 : 0, .body_part = collect, .context = &answer};
    int status = ctl_call_run(target, &c);
    if (status == CTL_OK && json) fwrite(answer.data, 1, answer.len, stdout);
    else if (status == CTL_OK) status = print(&answer);
    text_free(&answer);
    return status;
}
