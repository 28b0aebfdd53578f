// SPDX-License-Identifier: Apache-2.0
// mosquitto_read.c: lines into options, and the model's memory. An option is a word, blanks, and
// the rest of the line without blanks at its end; a line that starts with # is a comment. No file
// is opened here.
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "import/mosquitto.h"

static void *must(void *memory, size_t bytes) {
    if (memory == NULL) base_out_of_memory("the import", bytes);
    return memory;
}

static char *copy(const char *text) {
    return must(strdup(text), strlen(text));
}

void import_model_prepare(import_model *m) {
    *m = (import_model){.anonymous = -1, .listener_count = 1};
    m->listeners = must(calloc(IMPORT_LISTENERS_MAX, sizeof(*m->listeners)), IMPORT_LISTENERS_MAX);
    m->bridges = must(calloc(IMPORT_BRIDGES_MAX, sizeof(*m->bridges)), IMPORT_BRIDGES_MAX);
    m->notes = must(calloc(IMPORT_NOTES_MAX, sizeof(*m->notes)), IMPORT_NOTES_MAX);
    m->errors = must(calloc(IMPORT_ERRORS_MAX, sizeof(*m->errors)), IMPORT_ERRORS_MAX);
    m->listeners[0].anonymous = -1;
}

static void block_free(import_block *b) {
    for (u32 i = 0; i < b->count; i++) free(b->settings[i].value);
}

static void notes_free(import_note *notes, u32 count) {
    for (u32 i = 0; i < count; i++) free(notes[i].text);
    free(notes);
}

void import_model_free(import_model *m) {
    block_free(&m->top);
    block_free(&m->log);
    block_free(&m->every_listener);
    for (u32 i = 0; i < m->listener_count; i++) {
        import_listener *l = &m->listeners[i];
        block_free(&l->block);
        free(l->bind);
        free(l->tls.cert);
        free(l->tls.key);
        free(l->tls.ca);
        free(l->tls.crl);
    }
    for (u32 i = 0; i < m->bridge_count; i++) {
        import_bridge *b = &m->bridges[i];
        for (u32 t = 0; t < b->topic_count; t++) {
            free(b->topics[t].local);
            free(b->topics[t].remote);
        }
        for (u32 h = 0; h < b->host_count; h++) free(b->hosts[h]);
        char *texts[] = {b->name, b->user, b->password, b->ca, b->cert, b->key};
        for (u32 t = 0; t < ARRAY_LEN(texts); t++) free(texts[t]);
    }
    free(m->listeners);
    free(m->bridges);
    notes_free(m->notes, m->note_count);
    notes_free(m->errors, m->error_count);
    for (u32 i = 0; i < m->file_count; i++) free(m->files[i]);
}

const char *import_file_name(import_model *m, const char *name) {
    if (m->file_count == IMPORT_FILES_MAX) return m->files[IMPORT_FILES_MAX - 1];
    return m->files[m->file_count++] = copy(name);
}

PRINTF_LIKE(5, 0) static void add(import_note *notes, u32 *count, u32 max, import_place at, const char *format,
                va_list args) {
    char text[512];
    if (*count == max) return;
    vsnprintf(text, sizeof(text), format, args);
    // A line of the file may be quoted in it: nothing but text may reach a comment of the result.
    for (char *p = text; *p != 0; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f) *p = '?';
    }
    for (u32 i = 0; i < *count; i++) { // once, however many listeners it concerns
        bool same = notes[i].place.file == at.file && notes[i].place.line == at.line;
        if (same && strcmp(notes[i].text, text) == 0) return;
    }
    if (*count == max - 1) snprintf(text, sizeof(text), "more follow that are not listed");
    notes[(*count)++] = (import_note){.place = at, .text = copy(text)};
}

void import_note_add(import_model *m, import_place at, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add(m->notes, &m->note_count, IMPORT_NOTES_MAX, at, format, args);
    va_end(args);
}

void import_error_add(import_model *m, import_place at, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add(m->errors, &m->error_count, IMPORT_ERRORS_MAX, at, format, args);
    va_end(args);
}

void import_set(import_model *m, import_block *b, import_place at, const char *key,
                const char *value) {
    u32 i = 0;
    while (i < b->count && strcmp(b->settings[i].key, key) != 0) i++;
    if (i == IMPORT_SETTINGS_MAX) {
        import_error_add(m, at, "%s: more than %u settings in one block", key, IMPORT_SETTINGS_MAX);
        return;
    }
    import_setting *s = &b->settings[i];
    if (i == b->count) b->count++;
    else free(s->value);
    snprintf(s->key, sizeof(s->key), "%s", key);
    s->value = copy(value);
    s->place = at;
}

void import_set_text(import_model *m, import_block *b, import_place at, const char *key,
                     const char *text) {
    size_t used = 0, bytes = 2 * strlen(text) + 3;
    char *quoted = must(malloc(bytes), bytes);
    quoted[used++] = '"';
    for (const char *p = text; *p != 0; p++) {
        if (*p == '"' || *p == '\\') quoted[used++] = '\\';
        quoted[used++] = *p;
    }
    quoted[used++] = '"';
    quoted[used] = 0;
    import_set(m, b, at, key, quoted);
    free(quoted);
}

static bool line_is_text(const char *line, size_t len) {
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)line[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) return false;
    }
    return true;
}

static void line_take(import_model *m, import_place at, const char *line, size_t len,
                      import_on_option option, void *ctx) {
    while (len > 0 && isspace((unsigned char)line[len - 1])) len--;
    while (len > 0 && (*line == ' ' || *line == '\t')) line++, len--;
    if (len == 0 || *line == '#') return;
    if (len > IMPORT_LINE_BYTES_MAX) {
        import_error_add(m, at, "a line of more than %u bytes", IMPORT_LINE_BYTES_MAX);
        return;
    }
    if (!line_is_text(line, len)) {
        import_error_add(m, at, "a control character; allowed: text");
        return;
    }
    char *key = must(strndup(line, len), len);
    char *value = key + strcspn(key, " \t");
    if (*value != 0) *value++ = 0;
    value += strspn(value, " \t");
    option(m, at, key, value, ctx);
    free(key);
}

void import_text_read(import_model *m, const char *file, const char *text, size_t bytes,
                      import_on_option option, void *ctx) {
    import_place at = {.file = file, .line = 1};
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) text += 3, bytes -= 3; // byte order mark
    while (bytes > 0) {
        const char *end = memchr(text, '\n', bytes);
        size_t len = end == NULL ? bytes : (size_t)(end - text);
        line_take(m, at, text, len, option, ctx);
        size_t used = end == NULL ? len : len + 1;
        text += used;
        bytes -= used;
        at.line++;
    }
}
