// SPDX-License-Identifier: Apache-2.0
// config_merge.c: a tree of sections and values; each source is put over what is there; the tree is then
// written out. Values are kept as text and written in quotes, so that nothing is read differently the
// second time. What is wrong within one source (a key twice) is kept twice, for the checker to find.
#include "init/config_merge.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/schema.h"
#include "conf/source.h"

#define NO_NODE UINT32_MAX
#define ROOT 0u

typedef struct config_node {
    char *key, *value; // value: as written out; NULL = a section
    u32 parent, first, last, next;
    u32 line;
    u8 source;
} config_node;

typedef struct merge {
    config_merged *out;
    config_error *error;
    const config_text *sources;
    u32 capacity, source;
    size_t text_room;
    u32 origin_room;
} merge;

static int fail(merge *m, u32 line, const char *format, ...) PRINTF_LIKE(3, 4);

static int fail(merge *m, u32 line, const char *format, ...) {
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    if (line > 0) {
        snprintf(m->error->text, sizeof(m->error->text), "%s:%u: %s", m->sources[m->source].name, line,
                 what);
    } else {
        snprintf(m->error->text, sizeof(m->error->text), "%s: %s", m->sources[m->source].name, what);
    }
    return -EINVAL;
}

static config_node *node_at(const config_merged *m, u32 i) {
    return &m->nodes[i];
}

// Returns the node's index, or NO_NODE when memory or the bound is short.
static u32 node_add(merge *m, u32 parent, const char *key, size_t key_len, u32 line) {
    config_merged *out = m->out;
    if (out->node_count == m->capacity) {
        u32 capacity = m->capacity == 0 ? 128 : m->capacity * 2;
        config_node *grown = realloc(out->nodes, capacity * sizeof(*grown));
        if (grown == NULL) return NO_NODE;
        out->nodes = grown;
        m->capacity = capacity;
    }
    char *copy = strndup(key, key_len);
    if (copy == NULL || out->node_count == CONFIG_NODES_MAX) {
        free(copy);
        return NO_NODE;
    }
    u32 i = out->node_count++;
    out->nodes[i] = (config_node){.key = copy, .parent = parent, .first = NO_NODE, .last = NO_NODE,
                                  .next = NO_NODE, .line = line, .source = (u8)m->source};
    if (parent == NO_NODE) return i;
    config_node *p = node_at(out, parent);
    if (p->first == NO_NODE) p->first = i;
    else node_at(out, p->last)->next = i;
    p->last = i;
    return i;
}

static u32 node_find(const config_merged *m, u32 parent, const char *key, size_t key_len) {
    for (u32 i = node_at(m, parent)->first; i != NO_NODE; i = node_at(m, i)->next) {
        const char *have = node_at(m, i)->key;
        if (strlen(have) == key_len && memcmp(have, key, key_len) == 0) return i;
    }
    return NO_NODE;
}

static bool is_named_kind(const char *key, size_t len) {
    for (u32 k = SECTION_TOP + 1; k < SECTIONS; k++) {
        const section_info *s = &schema_sections[k];
        if (s->named && strlen(s->name) == len && memcmp(s->name, key, len) == 0) return true;
    }
    return false;
}

// What is written out again must read as it did: keys of odd characters (in quotes) are no keys of ours.
static bool is_plain(const char *key, size_t len) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    for (size_t i = 0; i < len; i++) {
        if (key[i] == '\0' || strchr(plain, key[i]) == NULL) return false;
    }
    return len > 0;
}

// --- values ---

typedef struct value_text {
    char *text;
    size_t len, room;
    bool failed;
} value_text;

static void value_put(value_text *v, const char *bytes, size_t len) {
    if (v->failed) return;
    if (v->len + len + 1 > v->room) {
        size_t room = MAX(v->room * 2, v->len + len + 64);
        char *grown = realloc(v->text, room);
        if (grown == NULL) {
            v->failed = true;
            return;
        }
        v->text = grown;
        v->room = room;
    }
    memcpy(v->text + v->len, bytes, len);
    v->len += len;
    v->text[v->len] = '\0';
}

static void value_put_quoted(value_text *v, const char *text, size_t len) {
    value_put(v, "\"", 1);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        char escaped[8];
        if (c == '"' || c == '\\') snprintf(escaped, sizeof(escaped), "\\%c", c);
        else if (c < 0x20 || c == 0x7f) snprintf(escaped, sizeof(escaped), "\\u%04x", c);
        else snprintf(escaped, sizeof(escaped), "%c", c);
        value_put(v, escaped, strlen(escaped));
    }
    value_put(v, "\"", 1);
}

// Takes value, which may be NULL after a failed allocation.
static int set_value(merge *m, u32 parent, const char *key, size_t key_len, char *value, u32 line) {
    u32 at = node_find(m->out, parent, key, key_len);
    if (value == NULL) return -ENOMEM;
    bool twice = at != NO_NODE && node_at(m->out, at)->source == m->source &&
                 node_at(m->out, at)->value != NULL;
    if (at == NO_NODE || twice) at = node_add(m, parent, key, key_len, line);
    if (at == NO_NODE) {
        free(value);
        return m->out->node_count >= CONFIG_NODES_MAX ? fail(m, line, "too many settings") : -ENOMEM;
    }
    config_node *n = node_at(m->out, at);
    if (n->value == NULL && n->first != NO_NODE) {
        free(value);
        return fail(m, line, "%.*s is a section in %s", (int)MIN(key_len, 64u), key,
                    m->sources[n->source].name);
    }
    free(n->value);
    n->value = value;
    n->line = line;
    n->source = (u8)m->source;
    return 0;
}

// --- files ---

static u32 block_end(const conf_source *s, u32 i) {
    u32 depth = s->nodes[i].depth, end = i + 1;
    while (end < s->count && s->nodes[end].depth > depth) end++;
    return end;
}

static int put_list(merge *m, u32 parent, const conf_source *s, u32 at) {
    const conf_node *list = &s->nodes[at];
    value_text v = {0};
    u32 end = block_end(s, at);
    value_put(&v, "[", 1);
    for (u32 i = at + 1; i < end; i++) {
        const conf_node *n = &s->nodes[i];
        if (n->kind != NODE_VALUE || n->depth != list->depth + 1) {
            free(v.text);
            return fail(m, list->line, "%.*s: a list of quoted texts is expected",
                        (int)MIN(list->key_len, 64u), list->key);
        }
        if (i > at + 1) value_put(&v, ", ", 2);
        value_put_quoted(&v, n->text, n->text_len);
    }
    value_put(&v, "]", 1);
    if (v.failed) {
        free(v.text);
        v.text = NULL;
    }
    return set_value(m, parent, list->key, list->key_len, v.text, list->line);
}

static int put_block(merge *m, u32 parent, const conf_source *s, u32 at, bool may_repeat);

static int put_entries(merge *m, u32 parent, const conf_source *s, u32 begin, u32 end, bool top) {
    int rc = 0;
    for (u32 i = begin; i < end && rc == 0; i = block_end(s, i)) {
        const conf_node *n = &s->nodes[i];
        bool named = top && n->kind == NODE_BLOCK && is_named_kind(n->key, n->key_len);
        if (!is_plain(n->key, n->key_len))
            return fail(m, n->line, "'%.*s' is not a key", (int)MIN(n->key_len, 64u), n->key);
        if (n->kind == NODE_BLOCK) rc = put_block(m, parent, s, i, named);
        else if (n->kind == NODE_LIST) rc = put_list(m, parent, s, i);
        else {
            value_text v = {0};
            value_put_quoted(&v, n->text, n->text_len);
            if (v.failed) {
                free(v.text);
                v.text = NULL;
            }
            rc = set_value(m, parent, n->key, n->key_len, v.text, n->line);
        }
    }
    return rc;
}

static int put_block(merge *m, u32 parent, const conf_source *s, u32 at, bool may_repeat) {
    const conf_node *n = &s->nodes[at];
    u32 node = node_find(m->out, parent, n->key, n->key_len);
    if (node == NO_NODE) {
        node = node_add(m, parent, n->key, n->key_len, n->line);
        if (node == NO_NODE)
            return m->out->node_count >= CONFIG_NODES_MAX ? fail(m, n->line, "too many settings") : -ENOMEM;
    } else {
        config_node *have = node_at(m->out, node);
        if (have->value != NULL)
            return fail(m, n->line, "%s is a setting in %s", have->key, m->sources[have->source].name);
        if (have->source == m->source && !may_repeat)
            return fail(m, n->line, "%s { } is given twice; the first stands in line %u", have->key,
                        have->line);
        have->source = (u8)m->source;
        have->line = n->line;
    }
    return put_entries(m, node, s, at + 1, block_end(s, at), false);
}

// Whether a file above the default has named sections of this kind.
static bool is_replaced(const merge *m, u32 count, const conf_source *parsed, const char *key, size_t len) {
    for (u32 k = 0; k < count; k++) {
        if (m->sources[k].is_default || m->sources[k].is_words) continue;
        for (u32 i = 0; i < parsed[k].count; i++) {
            const conf_node *n = &parsed[k].nodes[i];
            if (n->depth == 0 && n->kind == NODE_BLOCK && n->key_len == len && memcmp(n->key, key, len) == 0)
                return true;
        }
    }
    return false;
}

static int put_file(merge *m, u32 count, const conf_source *parsed) {
    const conf_source *s = &parsed[m->source];
    int rc = 0;
    for (u32 i = 0; i < s->count && rc == 0; i = block_end(s, i)) {
        const conf_node *n = &s->nodes[i];
        bool gives_way = m->sources[m->source].is_default && n->kind == NODE_BLOCK &&
                         is_named_kind(n->key, n->key_len) &&
                         is_replaced(m, count, parsed, n->key, n->key_len);
        if (!gives_way) rc = put_entries(m, ROOT, s, i, block_end(s, i), true);
    }
    return rc;
}

// --- words: one a line, "listener.devices.bind=0.0.0.0:7001" ---

static u32 descend(merge *m, u32 parent, const char *key, size_t len) {
    u32 node = node_find(m->out, parent, key, len);
    if (node == NO_NODE) return node_add(m, parent, key, len, 0);
    return node_at(m->out, node)->value != NULL ? NO_NODE : node;
}

static int put_word(merge *m, const char *word, size_t len) {
    const char *equals = memchr(word, '=', len);
    if (equals == NULL || equals == word)
        return fail(m, 0, "'%.*s' is not KEY=VALUE", (int)MIN(len, 64u), word);
    const char *key_end = equals, *part = word;
    if (!is_plain(word, (size_t)(key_end - word)))
        return fail(m, 0, "'%.*s' is not a key", (int)MIN((size_t)(key_end - word), 64u), word);
    u32 parent = ROOT;
    u32 depth = 0;
    for (;;) {
        const char *dot = memchr(part, '.', (size_t)(key_end - part));
        if (dot == NULL) break;
        if (dot == part || ++depth >= LIMIT_CONFIG_DEPTH)
            return fail(m, 0, "'%.*s' is not a key", (int)MIN((size_t)(key_end - word), 64u), word);
        parent = descend(m, parent, part, (size_t)(dot - part));
        if (parent == NO_NODE)
            return fail(m, 0, "'%.*s': there is no such section", (int)(key_end - word), word);
        part = dot + 1;
    }
    if (part == key_end)
        return fail(m, 0, "'%.*s' is not a key", (int)MIN((size_t)(key_end - word), 64u), word);
    value_text v = {0};
    value_put_quoted(&v, equals + 1, len - (size_t)(equals + 1 - word));
    if (v.failed) {
        free(v.text);
        v.text = NULL;
    }
    // Of two equal words the later one stands, as the kernel has it.
    u32 at = node_find(m->out, parent, part, (size_t)(key_end - part));
    if (at != NO_NODE && node_at(m->out, at)->source == m->source && node_at(m->out, at)->value != NULL &&
        v.text != NULL) {
        free(node_at(m->out, at)->value);
        node_at(m->out, at)->value = v.text;
        return 0;
    }
    return set_value(m, parent, part, (size_t)(key_end - part), v.text, 0);
}

static int put_words(merge *m, const char *text, size_t len) {
    int rc = 0;
    while (len > 0 && rc == 0) {
        const char *end = memchr(text, '\n', len);
        size_t word = end != NULL ? (size_t)(end - text) : len, step = word + (end != NULL);
        if (word > 0) rc = put_word(m, text, word);
        text += step;
        len -= step;
    }
    return rc;
}

// --- writing ---

static int emit(merge *m, u32 node, u32 indent, const char *a, const char *b, const char *c,
                const char *d) {
    config_merged *out = m->out;
    size_t need = indent * 4u + strlen(a) + strlen(b) + strlen(c) + strlen(d) + 1;
    if (out->len + need + 1 > m->text_room) {
        size_t room = MAX(m->text_room * 2, out->len + need + 4096);
        char *grown = realloc(out->text, room);
        if (grown == NULL) return -ENOMEM;
        out->text = grown;
        m->text_room = room;
    }
    if (out->lines == m->origin_room) {
        u32 room = m->origin_room == 0 ? 128 : m->origin_room * 2;
        config_origin *grown = realloc(out->origins, room * sizeof(*grown));
        if (grown == NULL) return -ENOMEM;
        out->origins = grown;
        m->origin_room = room;
    }
    const config_node *n = node_at(out, node);
    out->origins[out->lines++] = (config_origin){.source = n->source, .line = n->line};
    out->len += (size_t)snprintf(out->text + out->len, m->text_room - out->len, "%*s%s%s%s%s\n",
                                 (int)(indent * 4), "", a, b, c, d);
    return 0;
}

static int write_children(merge *m, u32 parent, u32 indent);

static int write_section(merge *m, u32 node, u32 indent, const char *kind) {
    const char *key = node_at(m->out, node)->key;
    int rc = emit(m, node, indent, kind, kind[0] != '\0' ? " " : "", key, " {");
    if (rc == 0) rc = write_children(m, node, indent + 1);
    return rc != 0 ? rc : emit(m, node, indent, "}", "", "", "");
}

static int write_child(merge *m, u32 i, u32 indent) {
    const config_node *n = node_at(m->out, i);
    if (n->value != NULL) return emit(m, i, indent, n->key, " = ", n->value, ";");
    bool named = indent == 0 && is_named_kind(n->key, strlen(n->key));
    if (!named) return write_section(m, i, indent, "");
    int rc = 0;
    for (u32 k = n->first; k != NO_NODE && rc == 0; k = node_at(m->out, k)->next) {
        const config_node *child = node_at(m->out, k);
        // `listener { bind = ... }` without a name: written as it was, for the checker to refuse.
        if (child->value != NULL) return write_section(m, i, indent, "");
        rc = write_section(m, k, indent, node_at(m->out, i)->key);
    }
    return rc;
}

static int write_children(merge *m, u32 parent, u32 indent) {
    int rc = 0;
    for (u32 pass = 0; pass < 2; pass++) { // settings in front of sections
        for (u32 i = node_at(m->out, parent)->first; i != NO_NODE && rc == 0;
             i = node_at(m->out, i)->next) {
            if ((node_at(m->out, i)->value != NULL) == (pass == 0)) rc = write_child(m, i, indent);
        }
    }
    return rc;
}

// --- all of it ---

static int parse_one(const config_text *t, conf_source *s, config_error *error) {
    conf_errors errors;
    conf_errors_init(&errors, error, t->name);
    if (t->is_words) return 0;
    if (t->len > CONFIG_SOURCE_BYTES_MAX) {
        conf_errors_add(&errors, 0, NULL, "longer than %u bytes", CONFIG_SOURCE_BYTES_MAX);
        return -EINVAL;
    }
    return conf_source_read(s, t->text, t->len, &errors);
}

int config_merge(const config_text *sources, u32 count, config_merged *out, config_error *error,
                 u32 *bad_source) {
    conf_source parsed[CONFIG_SOURCES_MAX] = {0};
    merge m = {.out = out, .error = error, .sources = sources};
    int rc = 0;
    ASSERT(count <= CONFIG_SOURCES_MAX);
    *out = (config_merged){0};
    if (node_add(&m, NO_NODE, "", 0, 0) == NO_NODE) return -ENOMEM;
    for (u32 i = 0; i < count && rc == 0; i++) {
        m.source = i;
        out->names[i] = sources[i].name;
        rc = parse_one(&sources[i], &parsed[i], error);
    }
    for (u32 i = 0; i < count && rc == 0; i++) {
        m.source = i;
        rc = sources[i].is_words ? put_words(&m, sources[i].text, sources[i].len)
                                 : put_file(&m, count, parsed);
    }
    if (bad_source != NULL) *bad_source = rc == -EINVAL ? m.source : CONFIG_SOURCES_MAX;
    if (rc == 0) rc = write_children(&m, ROOT, 0);
    if (rc == 0 && out->text == NULL) out->text = calloc(1, 1);
    if (rc == 0 && out->text == NULL) rc = -ENOMEM;
    for (u32 i = 0; i < count; i++) conf_source_free(&parsed[i]);
    if (rc == -ENOMEM) snprintf(error->text, sizeof(error->text), "out of memory");
    if (rc != 0) config_merged_free(out);
    return rc;
}

void config_merged_free(config_merged *m) {
    for (u32 i = 0; i < m->node_count; i++) {
        free(m->nodes[i].key);
        free(m->nodes[i].value);
    }
    free(m->nodes);
    free(m->origins);
    free(m->text);
    *m = (config_merged){0};
}

// "merged:12: rest" becomes "esp /sluice.conf:3: rest".
static void translate(const config_merged *m, const char *from, config_error *to, u32 *bad_source) {
    size_t used = 0;
    to->text[0] = '\0';
    while (*from != '\0' && used < sizeof(to->text)) {
        size_t len = strcspn(from, "\n");
        char *rest;
        unsigned long line = strncmp(from, "merged:", 7) == 0 ? strtoul(from + 7, &rest, 10) : 0;
        const char *space = used > 0 ? "\n" : "";
        int n;
        if (line > 0 && line <= m->lines && *rest == ':') {
            config_origin o = m->origins[line - 1];
            char at[16] = "";
            if (o.line > 0) snprintf(at, sizeof(at), ":%u", o.line);
            if (*bad_source == CONFIG_SOURCES_MAX || o.source > *bad_source) *bad_source = o.source;
            n = snprintf(to->text + used, sizeof(to->text) - used, "%s%s%s%.*s", space,
                         m->names[o.source], at, (int)(len - (size_t)(rest - from)), rest);
        } else {
            n = snprintf(to->text + used, sizeof(to->text) - used, "%s%.*s", space, (int)len, from);
        }
        used += (size_t)MAX(n, 0);
        from += len + (from[len] == '\n');
    }
}

int config_merged_check(const config_merged *m, config *out, config_error *error, u32 *bad_source) {
    *bad_source = CONFIG_SOURCES_MAX;
    config_error *raw = calloc(1, sizeof(*raw));
    if (raw == NULL) return -ENOMEM;
    int rc = config_parse("merged", m->text, m->len, out, raw);
    if (rc != 0) translate(m, raw->text, error, bad_source);
    free(raw);
    return rc;
}

bool config_merged_origin(const config_merged *m, const char *section, const char *key,
                          config_origin *out) {
    u32 at = ROOT;
    if (m->node_count == 0) return false;
    while (*section != '\0' && at != NO_NODE) {
        size_t len = strcspn(section, "/");
        at = node_find(m, at, section, len);
        section += len + (section[len] == '/');
    }
    if (at != NO_NODE) at = node_find(m, at, key, strlen(key));
    if (at == NO_NODE || node_at(m, at)->value == NULL) return false;
    *out = (config_origin){.source = node_at(m, at)->source, .line = node_at(m, at)->line};
    return true;
}
