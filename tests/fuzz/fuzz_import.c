// SPDX-License-Identifier: Apache-2.0
// fuzz_import.c: any bytes as a mosquitto.conf. What has no mistakes gives a configuration that the
// gateway's own parser can read: it may be refused for what it means (a token that is to be set),
// never for its syntax; and nothing of the original reaches it but as a quoted text or a comment.
#include <stdlib.h>
#include <string.h>

#include "conf/config.h"
#include "import/mosquitto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void option_take(import_model *m, import_place at, char *key, char *value, void *ctx) {
    (void)ctx;
    if (strcmp(key, "include_dir") != 0) import_option_apply(m, at, key, value);
}

// Every line is empty, a comment, a brace, or KEY = VALUE; of the importer's own keys.
static void check_lines(const char *text) {
    while (*text != 0) {
        const char *line = text + strspn(text, " ");
        size_t len = strcspn(line, "\n");
        bool comment = *line == '#', brace = len == 1 && *line == '}';
        bool opens = len > 1 && line[len - 1] == '{';
        bool setting = memchr(line, '=', len) != NULL && line[len - 1] == ';';
        // "stream NAME { ... }" and "tls { ... }" stand on one line.
        bool block = len > 1 && line[len - 1] == '}';
        ASSERT(len == 0 || comment || brace || opens || setting || block);
        text = line + len + (line[len] == '\n' ? 1 : 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static config parsed;
    static config_error error;
    import_model m;
    if (size > 65536) return 0;
    import_model_prepare(&m);
    import_text_read(&m, "fuzz", (const char *)data, size, option_take, NULL);
    if (m.error_count == 0) {
        char *text = NULL;
        size_t bytes = 0;
        FILE *out = open_memstream(&text, &bytes);
        ASSERT(out != NULL);
        import_model_finish(&m);
        import_model_write(&m, "fuzz", out);
        fclose(out);
        check_lines(text);
        int rc = config_parse("made", text, bytes, &parsed, &error);
        ASSERT(rc == 0 || error.text[0] != '\0');
        ASSERT(rc == 0 || strstr(error.text, "syntax") == NULL);
        free(text);
    }
    import_model_free(&m);
    return 0;
}
