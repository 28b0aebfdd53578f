// SPDX-License-Identifier: Apache-2.0
// config.c: from a file to a complete configuration: read, flatten (source.c), apply each entry by
// the schema (setting.c), then the rules between settings (check.c). Mistakes are collected on the
// way; only when there is none is the result handed out.
#include "conf/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/check.h"
#include "conf/network.h"
#include "conf/setting.h"
#include "conf/source.h"

typedef struct parse {
    config *out;
    conf_errors errors;
    conf_source source;
    conf_lines lines;
    u32 section_lines[SECTIONS];
    bool too_many;
} parse;

static void apply_defaults(section_kind section, void *base) {
    char problem[SETTING_TEXT_BYTES];
    for (u32 i = 0; i < schema_setting_count; i++) {
        const setting *s = &schema_settings[i];
        if (s->section != section || s->def == NULL) continue;
        int rc = setting_apply(s, base, s->def, strlen(s->def), problem, sizeof(problem));
        ASSERT(rc == 0);
    }
}

// " KEY, KEY, ..." of a section.
static void list_keys(section_kind section, char *out, size_t bytes) {
    size_t used = 0;
    out[0] = '\0';
    for (u32 i = 0; i < schema_setting_count && used < bytes; i++) {
        if (schema_settings[i].section != section) continue;
        int n = snprintf(out + used, bytes - used, "%s%s", used > 0 ? ", " : "",
                         schema_settings[i].key);
        used += (size_t)MAX(n, 0);
    }
}

#define SHOWN_KEY_BYTES 64

static void unknown_key(parse *p, section_kind section, const conf_node *n, const char *where) {
    char allowed[1536], hint[128] = "";
    if (conf_errors_is_full(&p->errors)) {
        conf_errors_add(&p->errors, n->line, where, "unknown key");
        return;
    }
    int len = (int)MIN(n->key_len, (u32)SHOWN_KEY_BYTES);
    const char *near = schema_suggest_key(section, n->key, n->key_len);
    for (section_kind k = SECTION_TOP; k < SECTIONS && hint[0] == '\0'; k++) {
        if (k == section || schema_find(k, n->key, n->key_len) == NULL) continue;
        if (k == SECTION_TOP)
            snprintf(hint, sizeof(hint), " (it stands at the top level, outside of sections)");
        else snprintf(hint, sizeof(hint), " (it belongs in %s { ... })", schema_sections[k].title);
    }
    if (near != NULL) snprintf(hint, sizeof(hint), "; did you mean '%s'?", near);
    list_keys(section, allowed, sizeof(allowed));
    conf_errors_add(&p->errors, n->line, where, "unknown key '%.*s'%s; allowed: %s", len, n->key,
                    hint, allowed);
}

static void unknown_section(parse *p, const conf_node *n) {
    const char *near = schema_suggest_section(n->key, n->key_len);
    conf_errors_add(
        &p->errors, n->line, NULL,
        "unknown section '%.*s'%s%s%s; allowed in this version: admin, log, listener NAME, "
        "uplink NAME, network NAME, stream NAME",
        (int)MIN(n->key_len, (u32)SHOWN_KEY_BYTES), n->key, near != NULL ? "; did you mean '" : "",
        near != NULL ? near : "", near != NULL ? "'?" : "");
}

static void apply_list(parse *p, const setting *s, void *base, const conf_node *list,
                       const char *place) {
    char problem[SETTING_TEXT_BYTES], allowed[SETTING_TEXT_BYTES];
    const conf_node *end = p->source.nodes + p->source.count;
    for (const conf_node *n = list + 1; n < end && n->depth > list->depth; n++) {
        bool is_text = n->kind == NODE_VALUE && n->depth == list->depth + 1;
        if (!is_text) snprintf(problem, sizeof(problem), "an element is not a quoted text");
        if (is_text &&
            setting_append(s, base, n->text, n->text_len, problem, sizeof(problem)) == 0) {
            continue;
        }
        conf_errors_add(&p->errors, list->line, place, "%s; allowed: %s", problem,
                        setting_describe(s, allowed));
        return;
    }
}

static void apply_key(parse *p, section_kind section, void *base, u32 *lines, const conf_node *n,
                      const char *where) {
    char problem[SETTING_TEXT_BYTES], allowed[SETTING_TEXT_BYTES], place[LIMIT_NAME_BYTES + 64];
    const setting *s = schema_find(section, n->key, n->key_len);
    if (s == NULL) {
        unknown_key(p, section, n, where);
        return;
    }
    snprintf(place, sizeof(place), "%s%s%s", where != NULL ? where : "", where != NULL ? ": " : "",
             s->key);
    u32 *line = &lines[s - schema_settings];
    if (*line != 0) {
        conf_errors_add(&p->errors, n->line, place, "given twice; the first stands in line %u",
                        *line);
        return;
    }
    *line = n->line;
    if ((s->type == SETTING_FILTERS || s->type == SETTING_LIST) && n->kind == NODE_LIST) {
        apply_list(p, s, base, n, place);
    } else if (n->kind != NODE_VALUE) {
        const char *hint = s->type == SETTING_BIND && n->kind == NODE_LIST
                               ? " (an IPv6 address needs quotes)"
                               : "";
        conf_errors_add(
            &p->errors, n->line, place, "one value is expected, not a %s%s; allowed: %s",
            n->kind == NODE_LIST ? "list" : "block", hint, setting_describe(s, allowed));
    } else if (setting_apply(s, base, n->text, n->text_len, problem, sizeof(problem)) != 0) {
        conf_errors_add(&p->errors, n->line, place, "%s; allowed: %s", problem,
                        setting_describe(s, allowed));
    }
}

// The index behind everything that stands in the block at i.
static u32 block_end(const conf_source *s, u32 i) {
    u32 depth = s->nodes[i].depth, end = i + 1;
    while (end < s->count && s->nodes[end].depth > depth) end++;
    return end;
}

static void apply_block(parse *p, section_kind section, void *base, u32 *lines, u32 at,
                        const char *where);

static bool is_tls(const conf_node *n) {
    return n->key_len == 3 && memcmp(n->key, "tls", 3) == 0;
}

// The one block that stands in another: listener NAME { tls { ... } }.
static void apply_tls(parse *p, void *base, u32 *lines, u32 at, const char *listener) {
    const conf_node *n = &p->source.nodes[at];
    char where[LIMIT_NAME_BYTES + 32], allowed[SETTING_TEXT_BYTES];
    u32 cert = schema_index(SECTION_TLS, "cert");
    snprintf(where, sizeof(where), "%s: tls", listener);
    if (n->kind != NODE_BLOCK) {
        conf_errors_add(&p->errors, n->line, where, "is a block: tls { cert = \"...\"; key = \"...\"; }");
        return;
    }
    u32 before = p->errors.count;
    apply_block(p, SECTION_TLS, base, lines, at, where);
    if (lines[cert] != 0 || p->errors.count != before) return;
    conf_errors_add(&p->errors, n->line, where, "cert is missing; allowed: %s",
                    setting_describe(&schema_settings[cert], allowed));
}

static void apply_block(parse *p, section_kind section, void *base, u32 *lines, u32 at,
                        const char *where) {
    const conf_node *nodes = p->source.nodes;
    u32 end = block_end(&p->source, at);
    for (u32 i = at + 1; i < end; i = block_end(&p->source, i)) {
        if (section == SECTION_LISTENER && is_tls(&nodes[i])) apply_tls(p, base, lines, i, where);
        else apply_key(p, section, base, lines, &nodes[i], where);
    }
}

static bool name_is_valid(const char *name, size_t len) {
    if (len == 0 || len >= LIMIT_NAME_BYTES) return false;
    for (size_t i = 0; i < len; i++) {
        char c = name[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && c != '-' && c != '_' && c != '.') return false;
    }
    return true;
}

static bool take_name(parse *p, const conf_node *n, const char *section) {
    if (name_is_valid(n->key, n->key_len)) return true;
    conf_errors_add(&p->errors, n->line, section,
                    "'%.*s' is not a name; allowed: 1 to %u of a-z A-Z 0-9 - _ .",
                    (int)MIN(n->key_len, (u32)SHOWN_KEY_BYTES), n->key, LIMIT_NAME_BYTES - 1);
    return false;
}

// What has no default must be given.
static void require_settings(parse *p, section_kind section, const u32 *lines, u32 line, const char *where) {
    char allowed[SETTING_TEXT_BYTES];
    for (u32 i = 0; i < schema_setting_count; i++) {
        const setting *s = &schema_settings[i];
        if (s->section != section || (s->flags & SETTING_REQUIRED) == 0 || lines[i] != 0) continue;
        conf_errors_add(&p->errors, line, where, "%s is missing; allowed: %s", s->key,
                        setting_describe(s, allowed));
    }
}

static void apply_uplink(parse *p, u32 at) {
    const conf_node *n = &p->source.nodes[at];
    config *c = p->out;
    char where[LIMIT_NAME_BYTES + 16];
    if (!take_name(p, n, "uplink")) return;
    if (c->uplink_count == LIMIT_UPLINKS_MAX) {
        conf_errors_add(&p->errors, n->line, "uplink", "more than %u blocks", LIMIT_UPLINKS_MAX);
        return;
    }
    u32 index = c->uplink_count++, before = p->errors.count;
    uplink_config *u = &c->uplinks[index];
    memcpy(u->name, n->key, n->key_len);
    p->lines.uplink_begin[index] = n->line;
    snprintf(where, sizeof(where), "uplink %s", u->name);
    apply_defaults(SECTION_UPLINK, u);
    apply_block(p, SECTION_UPLINK, u, p->lines.uplink[index], at, where);
    require_settings(p, SECTION_UPLINK, p->lines.uplink[index], n->line, where);
    p->lines.uplink_wrong[index] = p->errors.count != before;
}

static void apply_network(parse *p, u32 at) {
    const conf_node *n = &p->source.nodes[at];
    config *c = p->out;
    char where[LIMIT_NAME_BYTES + 16];
    net_addr addresses[NETWORK_LIST_MAX];
    if (!take_name(p, n, "network")) return;
    if (c->network_count == LIMIT_NETWORKS_MAX) {
        conf_errors_add(&p->errors, n->line, "network", "more than %d blocks", LIMIT_NETWORKS_MAX);
        return;
    }
    u32 index = c->network_count++, before = p->errors.count;
    network_config *net = &c->networks[index];
    memcpy(net->name, n->key, n->key_len);
    p->lines.network_begin[index] = n->line;
    snprintf(where, sizeof(where), "network %s", net->name);
    apply_defaults(SECTION_NETWORK, net);
    apply_block(p, SECTION_NETWORK, net, p->lines.network[index], at, where);
    p->lines.network_wrong[index] = p->errors.count != before;
    if (p->lines.network[index][schema_index(SECTION_NETWORK, "dhcp4")] != 0) return;
    net->dhcp4 = true;
    int count = network_parse_prefixes(net->address, addresses);
    for (int i = 0; i < count; i++) {
        if (addresses[i].family == AF_INET) net->dhcp4 = false;
    }
}

static void apply_listener(parse *p, u32 at) {
    const conf_node *n = &p->source.nodes[at];
    config *c = p->out;
    char where[LIMIT_NAME_BYTES + 16];
    if (!take_name(p, n, "listener")) return;
    if (c->listener_count == LIMIT_LISTENERS_MAX) {
        if (!p->too_many) {
            conf_errors_add(&p->errors, n->line, "listener", "more than %d listeners",
                            LIMIT_LISTENERS_MAX);
        }
        p->too_many = true;
        return;
    }
    u32 index = c->listener_count++, before = p->errors.count;
    listener_config *l = &c->listeners[index];
    memcpy(l->name, n->key, n->key_len);
    p->lines.listener_begin[index] = n->line;
    snprintf(where, sizeof(where), "listener %s", l->name);
    apply_defaults(SECTION_LISTENER, l);
    apply_defaults(SECTION_TLS, l);
    apply_block(p, SECTION_LISTENER, l, p->lines.listener[index], at, where);
    require_settings(p, SECTION_LISTENER, p->lines.listener[index], n->line, where);
    p->lines.listener_wrong[index] = p->errors.count != before;
}

static void apply_stream(parse *p, u32 at) {
    const conf_node *n = &p->source.nodes[at];
    config *c = p->out;
    char where[LIMIT_NAME_BYTES + 16];
    if (!take_name(p, n, "stream")) return;
    if (c->stream_count == LIMIT_STREAMS_MAX) {
        conf_errors_add(&p->errors, n->line, "stream", "more than %d streams", LIMIT_STREAMS_MAX);
        return;
    }
    u32 index = c->stream_count++, before = p->errors.count;
    stream_config *s = &c->streams[index];
    memcpy(s->name, n->key, n->key_len);
    p->lines.stream_begin[index] = n->line;
    snprintf(where, sizeof(where), "stream %s", s->name);
    apply_defaults(SECTION_STREAM, s);
    apply_block(p, SECTION_STREAM, s, p->lines.stream[index], at, where);
    require_settings(p, SECTION_STREAM, p->lines.stream[index], n->line, where);
    if (p->errors.count == before && s->topics[0] == '\0') {
        conf_errors_add(&p->errors, n->line, where, "topics is empty: the stream would hold nothing");
    }
}

// `listener a { }` and `listener b { }` are blocks named a and b, each in a block named listener.
static void apply_named(parse *p, section_kind kind, u32 at) {
    const conf_node *nodes = p->source.nodes;
    u32 end = block_end(&p->source, at);
    bool named = end > at + 1;
    for (u32 i = at + 1; i < end; i++) {
        if (nodes[i].depth == nodes[at].depth + 1 && nodes[i].kind != NODE_BLOCK) named = false;
    }
    if (!named) {
        conf_errors_add(&p->errors, nodes[at].line, schema_sections[kind].name,
                        "a name is expected: %s { ... }", schema_sections[kind].title);
        return;
    }
    for (u32 i = at + 1; i < end; i = block_end(&p->source, i)) {
        if (kind == SECTION_NETWORK) apply_network(p, i);
        else if (kind == SECTION_STREAM) apply_stream(p, i);
        else if (kind == SECTION_UPLINK) apply_uplink(p, i);
        else apply_listener(p, i);
    }
}

static section_kind find_section(const conf_node *n) {
    for (section_kind k = SECTION_TOP + 1; k < SECTIONS; k++) {
        if (k == SECTION_TLS) continue; // stands in a listener
        const char *name = schema_sections[k].name;
        if (strlen(name) == n->key_len && memcmp(name, n->key, n->key_len) == 0) return k;
    }
    return SECTION_TOP;
}

static void apply_entry(parse *p, u32 at) {
    const conf_node *n = &p->source.nodes[at];
    section_kind kind = find_section(n);
    if (kind == SECTION_TOP) {
        bool is_key = n->kind != NODE_BLOCK || schema_find(SECTION_TOP, n->key, n->key_len) != NULL;
        if (is_key) apply_key(p, SECTION_TOP, p->out, p->lines.top, n, NULL);
        else unknown_section(p, n);
        return;
    }
    const section_info *info = &schema_sections[kind];
    if (n->kind != NODE_BLOCK) {
        conf_errors_add(&p->errors, n->line, info->name, "is a section: %s { ... }", info->title);
    } else if (info->named) {
        apply_named(p, kind, at);
    } else if (p->section_lines[kind] != 0) {
        conf_errors_add(&p->errors, n->line, info->name, "given twice; the first stands in line %u",
                        p->section_lines[kind]);
    } else {
        p->section_lines[kind] = n->line;
        apply_block(p, kind, p->out, p->lines.top, at, info->name);
    }
}

static int parse_run(parse *p, const char *text, size_t bytes) {
    config *c = p->out;
    int rc = conf_source_read(&p->source, text, bytes, &p->errors);
    if (rc != 0) return rc;
    for (section_kind k = SECTION_TOP; k < SECTION_LISTENER; k++) apply_defaults(k, c);
    for (u32 i = 0; i < p->source.count; i = block_end(&p->source, i)) apply_entry(p, i);
    if (c->listener_count == 0 && p->errors.count == 0) {
        conf_errors_add(&p->errors, 0, NULL,
                        "no listener; at least one is needed: "
                        "listener NAME { protocol = frame; bind = \"127.0.0.1:7000\"; }");
    }
    conf_check(c, &p->lines, &p->errors);
    return p->errors.count == 0 ? 0 : -EINVAL;
}

int config_parse(const char *name, const char *text, size_t bytes, config *out,
                 config_error *error) {
    memset(out, 0, sizeof(*out));
    parse *p = calloc(1, sizeof(*p));
    if (p == NULL) {
        snprintf(error->text, sizeof(error->text), "%s: out of memory", name);
        return -ENOMEM;
    }
    p->out = out;
    conf_errors_init(&p->errors, error, name);
    snprintf(out->source, sizeof(out->source), "%s", name);
    int rc = parse_run(p, text, bytes);
    if (rc == -ENOMEM) snprintf(error->text, sizeof(error->text), "%s: out of memory", name);
    conf_source_free(&p->source);
    free(p);
    return rc;
}

// Reads at most one byte more than allowed, so that the parser sees that it is too long.
static int read_all(int fd, char *buf, size_t room, size_t *bytes) {
    *bytes = 0;
    while (*bytes < room) {
        ssize_t n = read(fd, buf + *bytes, room - *bytes);
        if (n == 0) return 0;
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -errno;
        *bytes += (size_t)n;
    }
    return 0;
}

static int fail_load(config_error *error, const char *path, const char *what, int err) {
    snprintf(error->text, sizeof(error->text), "%s: can not %s: %s (%s)", path, what, strerror(err),
             errno_name(err));
    return -err;
}

int config_load(const char *path, config *out, config_error *error) {
    size_t bytes, room = LIMIT_CONFIG_BYTES + 1;
    if (strlen(path) >= sizeof(out->source))
        return fail_load(error, path, "use this name", ENAMETOOLONG);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) return fail_load(error, path, "open", errno);
    char *buf = malloc(room);
    if (buf == NULL) {
        close(fd);
        return fail_load(error, path, "read", ENOMEM);
    }
    int rc = read_all(fd, buf, room, &bytes);
    close(fd);
    rc = rc == 0 ? config_parse(path, buf, bytes, out, error) : fail_load(error, path, "read", -rc);
    free(buf);
    return rc;
}

void config_defaults(config *out) {
    static const char text[] = "data_dir = \"./sluice-data\";"
                               "listener mqtt { protocol = mqtt; bind = \"127.0.0.1:1883\"; }"
                               "listener frame { protocol = frame; bind = \"127.0.0.1:7000\"; }";
    config_error error;
    int rc = config_parse("(defaults)", text, sizeof(text) - 1, out, &error);
    if (rc == -ENOMEM) base_out_of_memory("the default configuration", sizeof(parse));
    ASSERT(rc == 0);
}
