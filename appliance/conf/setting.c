// SPDX-License-Identifier: Apache-2.0
// setting.c: the only place that writes a field from text. A value is taken whole or refused with a
// reason; nothing is clamped, rounded or guessed.
#include "conf/setting.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "broker/topic.h"
#include "conf/units.h"

#define VALUE_BYTES_MAX 512 // longer than any text a setting may have
#define SHOWN_BYTES 48      // of a wrong value, in its message

static int refuse(char *problem, size_t problem_bytes, const char *format, ...) PRINTF_LIKE(3, 4);

static int refuse(char *problem, size_t problem_bytes, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(problem, problem_bytes, format, args);
    va_end(args);
    return -EINVAL;
}

static int store_bool(const char *text, bool *out) {
    static const struct {
        const char *name;
        bool value;
    } words[] = {{"yes", true},    {"no", false}, {"true", true},
                 {"false", false}, {"on", true},  {"off", false}};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcmp(text, words[i].name) != 0) continue;
        *out = words[i].value;
        return 0;
    }
    return -EINVAL;
}

// In the unit of the field: bytes, ms, s, us or a plain count.
static int parse_number(const setting *s, const char *text, u64 *value) {
    int rc;
    switch (s->type) {
    case SETTING_BYTES32:
    case SETTING_BYTES64: return config_parse_bytes(text, value);
    case SETTING_MS32:
    case SETTING_MS64: return config_parse_duration_ms(text, value);
    case SETTING_US32: return units_parse_us(text, value);
    case SETTING_S32:
        rc = config_parse_duration_ms(text, value);
        if (rc == 0 && *value % 1000 != 0) return -EDOM;
        *value /= 1000;
        return rc;
    default: return units_parse_count(text, value);
    }
}

static const char *print_number(const setting *s, u64 value, char out[UNITS_TEXT_BYTES]) {
    switch (s->type) {
    case SETTING_BYTES32:
    case SETTING_BYTES64: return units_print_bytes(value, out);
    case SETTING_MS32:
    case SETTING_MS64: return units_print_ms(value, out);
    case SETTING_US32: return units_print_us(value, out);
    case SETTING_S32: return units_print_ms(value * 1000, out);
    default: snprintf(out, UNITS_TEXT_BYTES, "%llu", (unsigned long long)value); return out;
    }
}

static bool is_u64(const setting *s) {
    return s->type == SETTING_BYTES64 || s->type == SETTING_MS64;
}

static const char *kind_of_number(setting_type type) {
    switch (type) {
    case SETTING_BYTES32:
    case SETTING_BYTES64: return "a size (bytes, or with k, m, g)";
    case SETTING_MS32:
    case SETTING_MS64: return "a time with its unit (ms, s, m, h, d)";
    case SETTING_S32: return "a time in whole seconds with its unit (s, m, h, d)";
    case SETTING_US32: return "a time with its unit (us, ms)";
    default: return "a whole number";
    }
}

static int apply_number(const setting *s, u8 *field, const char *text, char *problem,
                        size_t problem_bytes) {
    char bound[UNITS_TEXT_BYTES];
    u64 value = 0;
    bool zero_word = s->zero != NULL && strcmp(text, s->zero) == 0;
    int rc = zero_word ? 0 : parse_number(s, text, &value);
    if (rc == -ERANGE)
        return refuse(problem, problem_bytes, "'%.*s' is too large", SHOWN_BYTES, text);
    if (rc == -EDOM)
        return refuse(problem, problem_bytes, "'%.*s' is not whole seconds", SHOWN_BYTES, text);
    if (rc != 0)
        return refuse(problem, problem_bytes, "'%.*s' is not %s", SHOWN_BYTES, text,
                      kind_of_number(s->type));
    bool is_zero = value == 0 && s->zero != NULL;
    if (!is_zero && value < s->min) {
        return refuse(problem, problem_bytes, "'%.*s' is below %s", SHOWN_BYTES, text,
                      print_number(s, s->min, bound));
    }
    if (value > s->max) {
        return refuse(problem, problem_bytes, "'%.*s' is above %s", SHOWN_BYTES, text,
                      print_number(s, s->max, bound));
    }
    if (!is_zero && (s->flags & SETTING_POWER_OF_TWO) != 0 && !IS_POWER_OF_TWO(value)) {
        return refuse(problem, problem_bytes, "'%.*s' is not a power of two", SHOWN_BYTES, text);
    }
    if (is_u64(s)) {
        memcpy(field, &value, sizeof(value));
    } else {
        u32 narrow = (u32)value;
        ASSERT(narrow == value);
        memcpy(field, &narrow, sizeof(narrow));
    }
    return 0;
}

static const setting_word *find_word(const setting *s, const char *text) {
    for (const setting_word *w = s->words; w->name != NULL; w++) {
        if (strcmp(w->name, text) == 0) return w;
    }
    return NULL;
}

static int apply_word(const setting *s, u8 *base, const char *text, char *problem,
                      size_t problem_bytes) {
    const setting_word *w = find_word(s, text);
    bool is_auto = s->type == SETTING_ENGINE && strcmp(text, s->zero) == 0;
    if (w == NULL && !is_auto) {
        return refuse(problem, problem_bytes, "'%.*s' is not known in this version", SHOWN_BYTES,
                      text);
    }
    if (s->type == SETTING_ENGINE) ((config *)(void *)base)->engine_auto = is_auto;
    if (w != NULL) memcpy(base + s->offset, &w->value, sizeof(w->value));
    return 0;
}

static int apply_text(const setting *s, char *field, const char *text, char *problem,
                      size_t problem_bytes) {
    size_t len = strlen(text);
    if (len >= s->capacity) {
        return refuse(problem, problem_bytes, "longer than %zu bytes", s->capacity - 1);
    }
    const char *wrong = s->check != NULL ? s->check(text) : NULL;
    if (wrong != NULL)
        return refuse(problem, problem_bytes, "'%.*s': %s", SHOWN_BYTES, text, wrong);
    memset(field, 0, s->capacity); // equal settings are equal bytes
    memcpy(field, text, len);
    return 0;
}

static int apply_bind(void *field, const char *text, char *problem, size_t problem_bytes) {
    bind_address parsed;
    int rc = config_parse_bind(text, &parsed);
    if (rc == -ERANGE) {
        return refuse(problem, problem_bytes,
                      "'%.*s': the port is above 65535 or the path is above 107 bytes", SHOWN_BYTES,
                      text);
    }
    if (rc != 0)
        return refuse(problem, problem_bytes, "'%.*s' is not an address to bind to", SHOWN_BYTES,
                      text);
    memcpy(field, &parsed, sizeof(parsed));
    return 0;
}

// Escapes such as \u0000 and \n can put anything into a value; none of it belongs into a setting.
static int copy_value(char *out, const char *text, size_t len, char *problem,
                      size_t problem_bytes) {
    if (len >= VALUE_BYTES_MAX)
        return refuse(problem, problem_bytes, "a value of %zu bytes is too long", len);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == 0x7f)
            return refuse(problem, problem_bytes, "a control character in the value");
    }
    memcpy(out, text, len);
    out[len] = '\0';
    return 0;
}

int setting_append(const setting *s, void *base, const char *text, size_t len, char *problem,
                   size_t problem_bytes) {
    char value[VALUE_BYTES_MAX], *field = (char *)base + s->offset;
    ASSERT(s->type == SETTING_FILTERS || s->type == SETTING_LIST);
    if (copy_value(value, text, len, problem, problem_bytes) != 0) return -EINVAL;
    const char *wrong = s->type == SETTING_LIST && s->check != NULL ? s->check(value) : NULL;
    if (wrong != NULL) return refuse(problem, problem_bytes, "'%.*s': %s", SHOWN_BYTES, value, wrong);
    if (s->type == SETTING_FILTERS && !topic_filter_is_valid(value, len)) {
        return refuse(problem, problem_bytes, "'%.*s' is not a topic filter", SHOWN_BYTES, value);
    }
    size_t used = strlen(field);
    if (used + len + 2 > s->capacity) {
        return refuse(problem, problem_bytes, "the list is longer than %zu bytes", s->capacity - 1);
    }
    memcpy(field + used, value, len);
    field[used + len] = '\n';
    field[used + len + 1] = '\0';
    return 0;
}

int setting_apply(const setting *s, void *base, const char *text, size_t len, char *problem,
                  size_t problem_bytes) {
    char value[VALUE_BYTES_MAX];
    u8 *field = (u8 *)base + s->offset;
    if (copy_value(value, text, len, problem, problem_bytes) != 0) return -EINVAL;
    switch (s->type) {
    case SETTING_BOOL:
        if (store_bool(value, (bool *)field) == 0) return 0;
        return refuse(problem, problem_bytes, "'%.*s' is neither yes nor no", SHOWN_BYTES, value);
    case SETTING_WORD:
    case SETTING_ENGINE: return apply_word(s, base, value, problem, problem_bytes);
    case SETTING_TEXT: return apply_text(s, (char *)field, value, problem, problem_bytes);
    case SETTING_BIND: return apply_bind(field, value, problem, problem_bytes);
    case SETTING_FILTERS:
    case SETTING_LIST:
        memset(field, 0, s->capacity);
        return len == 0 ? 0 : setting_append(s, base, text, len, problem, problem_bytes);
    default: return apply_number(s, field, value, problem, problem_bytes);
    }
}

static const char *print_quoted(const char *text, char out[SETTING_TEXT_BYTES]) {
    size_t at = 0;
    out[at++] = '"';
    for (; *text != '\0' && at + 4 < SETTING_TEXT_BYTES; text++) {
        if (*text == '"' || *text == '\\') out[at++] = '\\';
        out[at++] = *text;
    }
    out[at++] = '"';
    out[at] = '\0';
    return out;
}

// ["a/#", "b"]; what does not fit the sentence is cut, which its length makes impossible.
static const char *print_filters(const char *text, char out[SETTING_TEXT_BYTES]) {
    size_t at = 0;
    out[at++] = '[';
    for (const char *p = text; *p != '\0' && at + 8 < SETTING_TEXT_BYTES; p++) {
        if (p == text || p[-1] == '\n') out[at++] = '"';
        if (*p == '"' || *p == '\\') out[at++] = '\\';
        if (*p != '\n') {
            out[at++] = *p;
            continue;
        }
        out[at++] = '"';
        if (p[1] != '\0') {
            out[at++] = ',';
            out[at++] = ' ';
        }
    }
    out[at++] = ']';
    out[at] = '\0';
    return out;
}
_Static_assert(2 * MAX(CONFIG_FILTERS_BYTES, CONFIG_LIST_BYTES) + 16 < SETTING_TEXT_BYTES, "a list can be printed");

static u64 read_number(const setting *s, const u8 *field) {
    u64 wide;
    u32 narrow;
    if (is_u64(s)) {
        memcpy(&wide, field, sizeof(wide));
        return wide;
    }
    memcpy(&narrow, field, sizeof(narrow));
    return narrow;
}

static const char *print_word(const setting *s, const u8 *base) {
    int value;
    if (s->type == SETTING_ENGINE && ((const config *)(const void *)base)->engine_auto)
        return s->zero;
    memcpy(&value, base + s->offset, sizeof(value));
    for (const setting_word *w = s->words; w->name != NULL; w++) {
        if (w->value == value) return w->name;
    }
    return "?"; // the admin listener's protocol, which no file can set
}

const char *setting_print(const setting *s, const void *base, char out[SETTING_TEXT_BYTES]) {
    char number[UNITS_TEXT_BYTES];
    const u8 *field = (const u8 *)base + s->offset;
    switch (s->type) {
    case SETTING_BOOL: return *(const bool *)field ? "yes" : "no";
    case SETTING_WORD:
    case SETTING_ENGINE: return print_word(s, base);
    case SETTING_TEXT: return print_quoted((const char *)field, out);
    case SETTING_FILTERS:
    case SETTING_LIST: return print_filters((const char *)field, out);
    case SETTING_BIND: return print_quoted(((const bind_address *)(const void *)field)->text, out);
    default: break;
    }
    u64 value = read_number(s, field);
    if (value == 0 && s->zero != NULL) return s->zero;
    snprintf(out, SETTING_TEXT_BYTES, "%s", print_number(s, value, number));
    return out;
}

static void describe_words(const setting *s, char *out, size_t bytes) {
    size_t used = 0;
    for (const setting_word *w = s->words; w->name != NULL && used < bytes; w++) {
        int n = snprintf(out + used, bytes - used, "%s%s", used > 0 ? ", " : "", w->name);
        used += (size_t)MAX(n, 0);
    }
}

const char *setting_describe(const setting *s, char out[SETTING_TEXT_BYTES]) {
    char low[UNITS_TEXT_BYTES], high[UNITS_TEXT_BYTES], words[128] = "";
    const char *comma = s->zero != NULL ? ", " : "", *zero = s->zero != NULL ? s->zero : "";
    switch (s->type) {
    case SETTING_BOOL: return "yes, no (or true, false, on, off)";
    case SETTING_BIND:
        return "\"ADDRESS:PORT\", \"[IPV6]:PORT\" or \"unix:/path\"; an IP address, not a name";
    case SETTING_WORD:
    case SETTING_ENGINE:
        describe_words(s, words, sizeof(words));
        snprintf(out, SETTING_TEXT_BYTES, "%s%s%s", zero, comma, words);
        return out;
    case SETTING_TEXT:
        snprintf(out, SETTING_TEXT_BYTES, "a text of at most %zu bytes", s->capacity - 1);
        return out;
    case SETTING_FILTERS: return "a list of topic filters, [\"a/#\", \"b/+/c\"]";
    case SETTING_LIST:
        return s->list_note != NULL ? s->list_note : "a quoted text or a list of them, [\"a\", \"b\"]";
    default: break;
    }
    snprintf(out, SETTING_TEXT_BYTES, "%s%s%s%s, %s to %s", zero, comma, kind_of_number(s->type),
             (s->flags & SETTING_POWER_OF_TWO) != 0 ? ", a power of two" : "",
             print_number(s, s->min, low), print_number(s, s->max, high));
    return out;
}
