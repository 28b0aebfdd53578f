// SPDX-License-Identifier: Apache-2.0
// guard.c: the language of the file as one small machine over its characters: statement -> words ->
// '=' -> value -> after, with a stack of open blocks and lists. One function a state; each looks at
// one character.
//
// Invariants: at most LIMIT_CONFIG_DEPTH blocks are open, a block has one or two words before its
// brace (so the library's tree is at most twice as deep), every quoted text ends on its line, each
// value follows an '='.
#include "conf/guard.h"

#include <errno.h>
#include <string.h>

typedef enum guard_state {
    GUARD_STATEMENT, // before a key, or before an element of a list
    GUARD_WORDS,     // key or section words; '=' or '{' must come
    GUARD_VALUE_START,
    GUARD_VALUE, // unquoted
    GUARD_AFTER, // a quoted value is complete; an end must come
    GUARD_STATES
} guard_state;

typedef struct guard {
    char *text;
    size_t len, pos;
    u32 line;
    guard_state state;
    u32 words;   // since the statement began
    bool gap;    // a blank since the last character of a word or value
    size_t word; // offset of the statement's first word
    size_t word_end;
    u32 depth;
    struct {
        char kind; // '{' or '['
        u32 line;
    } open[LIMIT_CONFIG_DEPTH];
    conf_errors *errors;
} guard;

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == '/';
}

static bool is_hex(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static char peek(const guard *g, size_t ahead) {
    return g->pos + ahead < g->len ? g->text[g->pos + ahead] : '\0';
}

static int fail(guard *g, u32 line, const char *message) {
    conf_errors_add(g->errors, line, NULL, "%s", message);
    return -EINVAL;
}

// A mistake in the statement whose first word is known.
static int fail_at_word(guard *g, const char *message) {
    int len = (int)MIN(g->word_end - g->word, 64);
    conf_errors_add(g->errors, g->line, NULL, "%.*s: %s", len, g->text + g->word, message);
    return -EINVAL;
}

static int open_push(guard *g, char kind) {
    if (g->depth == LIMIT_CONFIG_DEPTH) return fail(g, g->line, "blocks are nested too deep");
    g->open[g->depth].kind = kind;
    g->open[g->depth].line = g->line;
    g->depth++;
    g->state = GUARD_STATEMENT;
    return 0;
}

static int open_pop(guard *g, char closing) {
    char kind = closing == '}' ? '{' : '[';
    if (g->depth == 0) {
        conf_errors_add(g->errors, g->line, NULL, "a %c that closes nothing", closing);
        return -EINVAL;
    }
    g->depth--;
    if (g->open[g->depth].kind != kind) {
        conf_errors_add(g->errors, g->line, NULL, "a %c where the %c of line %u is still open",
                        closing, g->open[g->depth].kind, g->open[g->depth].line);
        return -EINVAL;
    }
    g->state = GUARD_STATEMENT;
    return 0;
}

static int check_escape(guard *g) {
    char c = peek(g, 1);
    if (c == 'u') {
        for (size_t i = 2; i < 6; i++) {
            if (!is_hex(peek(g, i))) return fail(g, g->line, "\\u needs four hexadecimal digits");
        }
    } else if (c == '\0' || strchr("\"\\/bfnrt", c) == NULL) {
        return fail(
            g, g->line,
            "unknown escape in a quoted text; allowed: \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX");
    }
    return 0;
}

// At the opening quote; leaves pos on the closing one.
static int skip_quoted(guard *g) {
    char quote = g->text[g->pos++];
    for (; g->pos < g->len; g->pos++) {
        char c = g->text[g->pos];
        if (c == quote) return 0;
        if (c == '\n') break;
        if ((unsigned char)c < 0x20) return fail(g, g->line, "control character in a quoted text");
        if (c != '\\') continue;
        if (quote == '\'') return fail(g, g->line, "backslash in '...': use \"...\" and \\\\");
        if (check_escape(g) != 0) return -EINVAL;
        g->pos++;
    }
    return fail(g, g->line, "a quoted text must end on the line it began on");
}

static int at_list_element(guard *g, char c) {
    switch (c) {
    case ',': return 0;
    case '}':
    case ']': return open_pop(g, c);
    case '{':
    case '[': return open_push(g, c);
    case '"':
    case '\'': g->state = GUARD_AFTER; return skip_quoted(g);
    case ';':
    case '=': return fail(g, g->line, "unexpected character in a list");
    default:
        g->state = GUARD_VALUE;
        g->gap = false;
        return 0;
    }
}

static int at_statement(guard *g, char c) {
    if (is_blank(c) || c == '\n') return 0;
    if (g->depth > 0 && g->open[g->depth - 1].kind == '[') return at_list_element(g, c);
    if (c == ';' || c == ',') return 0;
    if (c == '}' || c == ']') return open_pop(g, c);
    if (c == ':' && g->pos > 0 && g->text[g->pos - 1] == ']') {
        return fail(g, g->line, "an IPv6 address needs quotes: \"[::]:7000\"");
    }
    if (c == '{')
        return fail(g, g->line, "a { needs the section's name before it, on the same line");
    if (c == '.')
        return fail(g, g->line, "macros such as .include are not supported: one file holds all");
    if (!is_word(c) && c != '"')
        return fail(g, g->line, "a key or a section name is expected here");
    g->state = GUARD_WORDS;
    g->words = 1;
    g->gap = false;
    g->word = g->pos;
    if (c == '"') {
        g->word++;
        if (skip_quoted(g) != 0) return -EINVAL;
        g->word_end = g->pos;
        g->gap = true;
        return 0;
    }
    g->word_end = g->pos + 1;
    return 0;
}

static int at_words(guard *g, char c) {
    if (is_blank(c)) {
        g->gap = true;
        return 0;
    }
    if (is_word(c)) {
        if (g->gap) g->words++;
        else if (g->words == 1) g->word_end = g->pos + 1;
        g->gap = false;
        return 0;
    }
    if (c == '=' || c == ':') {
        if (g->words > 1)
            return fail_at_word(g, "more than one word before the =; is a ; missing?");
        g->state = GUARD_VALUE_START;
        return 0;
    }
    if (c == '{') {
        if (!g->gap) return fail_at_word(g, "put a space before the {");
        if (g->words > 2)
            return fail_at_word(g, "more than two words before the {; is a ; missing?");
        return open_push(g, c);
    }
    return fail_at_word(
        g, "= VALUE is expected after a key, and NAME { or { after a section, on the same line");
}

static int at_value_start(guard *g, char c) {
    if (is_blank(c)) return 0;
    switch (c) {
    case '\n':
    case ';':
    case ',':
    case '}':
    case ']':
    case '=': return fail_at_word(g, "the value after the = is missing");
    case '{':
    case '[': return open_push(g, c);
    case '"':
    case '\'': g->state = GUARD_AFTER; return skip_quoted(g);
    case '<':
        if (peek(g, 1) == '<')
            return fail_at_word(g, "texts of several lines (<<EOD) are not supported");
        break;
    default: break;
    }
    g->state = GUARD_VALUE;
    g->gap = false;
    return 0;
}

static int at_value(guard *g, char c) {
    switch (c) {
    case '\n':
    case ';':
    case ',': g->state = GUARD_STATEMENT; return 0;
    case '}':
    case ']': return open_pop(g, c);
    case '=':
        return fail(
            g, g->line,
            "= inside an unquoted value: is a ; missing before it? If not, quote the value");
    case '{':
    case '[':
    case '"':
    case '\'':
    case '\\':
        return fail(g, g->line,
                    "braces, quotes and backslashes need the whole value in double quotes");
    default: g->gap = is_blank(c); return 0;
    }
}

static int at_after(guard *g, char c) {
    if (is_blank(c)) return 0;
    if (c == '}' || c == ']') return open_pop(g, c);
    if (c != '\n' && c != ';' && c != ',')
        return fail(g, g->line, "a ; is missing after the quoted text");
    g->state = GUARD_STATEMENT;
    return 0;
}

static int (*const guard_states[GUARD_STATES])(guard *, char) = {
    [GUARD_STATEMENT] = at_statement,
    [GUARD_WORDS] = at_words,
    [GUARD_VALUE_START] = at_value_start,
    [GUARD_VALUE] = at_value,
    [GUARD_AFTER] = at_after,
};

// At the start of a comment; blanks it and leaves pos on its last character. "/*" comments nest.
static int blank_comment(guard *g) {
    u32 line = g->line, nested = 0;
    if (g->text[g->pos] == '#') {
        while (g->pos < g->len && g->text[g->pos] != '\n') g->text[g->pos++] = ' ';
        g->pos--;
        return 0;
    }
    while (g->pos < g->len) {
        char c = g->text[g->pos], next = peek(g, 1);
        bool opens = c == '/' && next == '*', closes = c == '*' && next == '/';
        if (opens) nested++;
        if (closes) nested--;
        for (int i = 0; i < (opens || closes ? 2 : 1); i++, g->pos++) {
            if (g->text[g->pos] == '\n') g->line++;
            else g->text[g->pos] = ' ';
        }
        if (nested == 0) {
            g->pos--;
            return 0;
        }
    }
    return fail(g, line, "the /* comment that begins here is never closed");
}

// Length of the UTF-8 sequence at p (RFC 3629: shortest form, no surrogates), 0 when it is not one.
static size_t utf8_length(const unsigned char *p, size_t left) {
    size_t len = p[0] < 0x80   ? 1
                 : p[0] < 0xc2 ? 0
                 : p[0] < 0xe0 ? 2
                 : p[0] < 0xf0 ? 3
                 : p[0] < 0xf5 ? 4
                               : 0;
    if (len == 0 || len > left) return 0;
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
    }
    if (p[0] == 0xe0 && p[1] < 0xa0) return 0;
    if (p[0] == 0xed && p[1] >= 0xa0) return 0;
    if (p[0] == 0xf0 && p[1] < 0x90) return 0;
    if (p[0] == 0xf4 && p[1] >= 0x90) return 0;
    return len;
}

// First pass: bytes that no state has to think about any more.
static int check_bytes(guard *g) {
    u32 line = 1;
    for (size_t i = 0; i < g->len;) {
        unsigned char c = (unsigned char)g->text[i];
        size_t len = utf8_length((const unsigned char *)g->text + i, g->len - i);
        if (len == 0) return fail(g, line, "not UTF-8 text");
        if (c == '\r' && i + 1 < g->len && g->text[i + 1] == '\n') g->text[i] = ' ';
        else if (c == '\0')
            return fail(g, line, "a zero byte: the file must be UTF-8 text (not UTF-16)");
        else if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
            return fail(g, line, "a control character");
        if (c == '\n') line++;
        i += len;
    }
    if (g->len >= 3 && memcmp(g->text, "\xef\xbb\xbf", 3) == 0) memset(g->text, ' ', 3);
    return 0;
}

int guard_check(char *text, size_t len, conf_errors *errors) {
    guard g = {.text = text, .len = len, .line = 1, .errors = errors};
    if (check_bytes(&g) != 0) return -EINVAL;
    for (; g.pos < len; g.pos++) {
        char c = text[g.pos];
        if (c == '#' || (c == '/' && peek(&g, 1) == '*')) {
            bool inside = (g.state == GUARD_VALUE || g.state == GUARD_WORDS) && !g.gap;
            if (inside)
                return fail(&g, g.line,
                            "a comment needs a blank before it; a value with # or /* needs quotes");
            if (blank_comment(&g) != 0) return -EINVAL;
            g.gap = true;
            continue;
        }
        if (guard_states[g.state](&g, c) != 0) return -EINVAL;
        if (c == '\n') g.line++;
    }
    if (g.state == GUARD_WORDS) return at_words(&g, '\n');
    if (g.state == GUARD_VALUE_START) return at_value_start(&g, '\n');
    if (g.depth > 0) {
        conf_errors_add(errors, g.open[g.depth - 1].line, NULL,
                        "the %c opened here is never closed", g.open[g.depth - 1].kind);
        return -EINVAL;
    }
    return 0;
}
