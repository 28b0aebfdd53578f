// SPDX-License-Identifier: Apache-2.0
// mosquitto_write.c: the model as a configuration file. A key or block that this version does not
// know (asked of the schema itself) stands there as a comment that says so, so that the result is
// always a file that `sluice check` can judge, and a later version only needs the # taken away.
//
// Never more open than the original: a listener that asked for accounts says anonymous = no, and
// the check then insists on a token.
#include <string.h>

#include "conf/schema.h"
#include "import/mosquitto.h"

#define GONE "not available in this version"

static bool section_known(const char *name) {
    for (u32 i = 0; i < SECTIONS; i++) {
        if (strcmp(schema_sections[i].name, name) == 0) return true;
    }
    return false;
}

static bool word_known(section_kind section, const char *key, const char *word) {
    const setting *s = schema_find(section, key, strlen(key));
    for (u32 i = 0; s != NULL && s->words != NULL && s->words[i].name != NULL; i++) {
        if (strcmp(s->words[i].name, word) == 0) return true;
    }
    return false;
}

// Inside of double quotes.
static void escaped_write(FILE *out, const char *text) {
    for (; *text != 0; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', out);
        fputc(*text, out);
    }
}

static void quoted_write(FILE *out, const char *text) {
    fputc('"', out);
    escaped_write(out, text);
    fputc('"', out);
}

static void missing_note(import_model *m, import_place at, const char *what) {
    import_note_add(m, at, "%s: " GONE, what);
}

// Within a block that is a comment as a whole, lines need no mark of their own.
static void line_write(import_model *m, FILE *out, const char *indent, section_kind section,
                       const import_setting *s) {
    if (indent[0] == '#' || schema_find(section, s->key, strlen(s->key)) != NULL) {
        fprintf(out, "%s%s = %s;\n", indent, s->key, s->value);
        return;
    }
    fprintf(out, "%s# %s = %s;   # " GONE "\n", indent, s->key, s->value);
    missing_note(m, s->place, s->key);
}

void import_model_finish(import_model *m) {
    import_listener *first = &m->listeners[0];
    bool any = m->listener_count > 1 || m->default_used;
    if (!any) { // local only mode
        first->port = 1883;
        first->bind = strdup("127.0.0.1");
        if (first->bind == NULL) base_out_of_memory("the import", 16);
        if (m->anonymous < 0 && first->anonymous < 0) first->anonymous = 1;
        m->default_used = true;
    }
    if (m->default_used && first->port == 0) first->port = 1883;
    for (u32 i = 0; i < m->listener_count; i++) {
        import_listener *l = &m->listeners[i];
        if (l->anonymous < 0) l->anonymous = m->anonymous;
        if (l->anonymous < 0) l->anonymous = 0;
        if (m->has_accounts) l->has_accounts = true;
        if (m->has_passwords) l->has_passwords = true;
    }
    if (m->log_levels > 0) {
        static const char *const words[] = {"error", "warn", "info", "debug"};
        import_set(m, &m->log, (import_place){0}, "level", words[m->log_levels - 1]);
    }
    if (m->log_dest_given && !m->log_stderr) {
        import_set(m, &m->log, (import_place){0}, "stderr", "no");
    }
}

static void bind_write(import_model *m, const import_listener *l, FILE *out, const char *lead) {
    char text[512];
    bind_address parsed;
    if (l->is_unix) {
        snprintf(text, sizeof(text), "unix:%s", l->bind);
    } else if (l->bind == NULL) {
        snprintf(text, sizeof(text), "%s:%u", l->ipv4_only ? "0.0.0.0" : "[::]", l->port);
    } else {
        bool v6 = strchr(l->bind, ':') != NULL;
        snprintf(text, sizeof(text), v6 ? "[%s]:%u" : "%s:%u", l->bind, l->port);
        if (strcmp(l->bind, "localhost") == 0) snprintf(text, sizeof(text), "127.0.0.1:%u", l->port);
    }
    if (config_parse_bind(text, &parsed) == 0 && strpbrk(text, "\"\\\n") == NULL) {
        fprintf(out, "%s    bind = \"%s\";\n", lead, text);
        return;
    }
    import_note_add(m, l->place, "listener %u %.128s: only IP addresses can be bound; `bind` is "
                                 "left to you", l->port, l->bind != NULL ? l->bind : "");
    fprintf(out, "%s    # bind = \"ADDRESS:%u\";   # to be set\n", lead, l->port);
}

static void key_write(FILE *out, const char *key, const char *text) {
    fprintf(out, " %s = ", key);
    quoted_write(out, text);
    fputc(';', out);
}

static void tls_write(import_model *m, const import_listener *l, FILE *out, const char *lead) {
    const import_tls *t = &l->tls;
    if (t->cert == NULL && t->key == NULL) return;
    bool known = section_known("tls") || schema_find(SECTION_LISTENER, "cert", 4) != NULL;
    if (!known && t->cert == NULL) missing_note(m, l->place, "TLS");
    fprintf(out, "%s    %stls {", lead, known || lead[0] != 0 ? "" : "# ");
    if (t->cert != NULL) key_write(out, "cert", t->cert);
    if (t->key != NULL) key_write(out, "key", t->key);
    bool clients = t->ca != NULL && t->require_certificate;
    if (clients) key_write(out, "client_ca", t->ca);
    if (clients && t->crl != NULL) key_write(out, "deny", t->crl);
    fprintf(out, " }\n");
}

static const char *listener_prefix(const import_listener *l) {
    return l->is_unix ? "local" : l->websocket ? "ws" : l->tls.cert != NULL ? "mqtts" : "mqtt";
}

static void listener_write(import_model *m, const import_listener *l, u32 index, FILE *out) {
    bool ws = !l->websocket || schema_find(SECTION_LISTENER, "transport", 9) != NULL;
    bool tls = l->tls.cert == NULL || section_known("tls") ||
               schema_find(SECTION_LISTENER, "cert", 4) != NULL;
    bool usable = word_known(SECTION_LISTENER, "protocol", "mqtt") && ws && tls;
    // What would be spoken in clear instead of over TLS, or as bare MQTT, is not opened at all.
    const char *lead = usable ? "" : "# ";
    fprintf(out, "\n");
    if (!usable) {
        const char *what = !tls ? "TLS" : !ws ? "WebSocket" : "MQTT";
        fprintf(out, "# %s listeners are " GONE "\n", what);
        import_note_add(m, l->place, "listener %u: %s listeners are " GONE, l->port, what);
    }
    fprintf(out, "%slistener %s-%u {\n", lead, listener_prefix(l), l->is_unix ? index : l->port);
    fprintf(out, "%s    protocol = mqtt;\n", lead);
    bind_write(m, l, out, lead);
    // Mosquitto takes every path, and every page unless websockets_origin is set.
    if (l->websocket) {
        fprintf(out, "%s    transport = websocket;\n", lead);
        fprintf(out, "%s    ws_path = \"*\";\n", lead);
        fprintf(out, "%s    ws_origins = [\"*\"];\n", lead);
    }
    char indent[16];
    snprintf(indent, sizeof(indent), "%s    ", lead);
    for (u32 i = 0; i < m->every_listener.count; i++) {
        line_write(m, out, indent, SECTION_LISTENER, &m->every_listener.settings[i]);
    }
    for (u32 i = 0; i < l->block.count; i++) {
        line_write(m, out, indent, SECTION_LISTENER, &l->block.settings[i]);
    }
    fprintf(out, "%s    anonymous = %s;\n", lead, l->anonymous > 0 ? "yes" : "no");
    if (l->anonymous <= 0 && !l->has_passwords) {
        fprintf(out, "%s    # token = \"...\";   # to be set: the password of every client\n", lead);
        import_note_add(m, l->place, "listener %u: clients need a password there; set `token`", l->port);
    }
    tls_write(m, l, out, lead);
    fprintf(out, "%s}\n", lead);
}

static void name_write(FILE *out, const char *name) {
    for (u32 i = 0; name[i] != 0 && i < LIMIT_NAME_BYTES - 1; i++) {
        bool plain = strchr("-_.", name[i]) != NULL || (name[i] >= '0' && name[i] <= '9') ||
                     (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z');
        fputc(plain ? name[i] : '-', out);
    }
}

// `key = ["...", "..."];` of the topics that go one way; renames: only those that have another name at the remote.
static void topics_write(const import_bridge *b, FILE *out, const char *key, bool in, bool renames) {
    u32 written = 0;
    for (u32 i = 0; i < b->topic_count; i++) {
        const import_topic *t = &b->topics[i];
        const char *from = in ? t->remote : t->local, *to = in ? t->local : t->remote;
        bool renamed = strcmp(from, to) != 0;
        if (!(in ? t->in : t->out) || (renames && !in && !renamed)) continue;
        if (written++ == 0) fprintf(out, " %s = [\"", key);
        else fputs(", \"", out);
        escaped_write(out, from);
        if (renames && renamed) fputs(" -> ", out);
        if (renames && renamed) escaped_write(out, to);
        fputc('"', out);
    }
    if (written > 0) fprintf(out, "];");
}

static void path_write(FILE *out, const char *key, const char *path) {
    if (path == NULL) return;
    fprintf(out, " %s = ", key);
    quoted_write(out, path);
    fputc(';', out);
}

static void bridge_note(import_model *m, const import_bridge *b) {
    bool sends = false;
    for (u32 i = 0; i < b->topic_count; i++) sends = sends || b->topics[i].out;
    if (!sends) {
        import_note_add(m, b->place,
                        "connection %.64s: it sends nothing, and an uplink needs a stream: set its `topics`", b->name);
    }
    if (b->tls && b->ca == NULL) {
        import_note_add(m, b->place, "connection %.64s: the remote's authorities are not named: set `tls_ca`", b->name);
    }
    if (b->user != NULL || b->password != NULL) {
        import_note_add(m, b->place, "connection %.64s: user and password are to be set in the uplink", b->name);
    }
}

static void bridge_write(import_model *m, const import_bridge *b, FILE *out) {
    if (b->host_count == 0) {
        import_note_add(m, b->place, "connection %.64s: it has no address, and is left out", b->name);
        return;
    }
    fprintf(out, "\n# from the bridge at %s:%u\nstream ", b->place.file, b->place.line);
    name_write(out, b->name);
    fprintf(out, " {");
    topics_write(b, out, "topics", false, false);
    fprintf(out, " }\nuplink ");
    name_write(out, b->name);
    fprintf(out, " { kind = mqtt; url = [");
    for (u32 i = 0; i < b->host_count; i++) {
        char url[600];
        snprintf(url, sizeof(url), "mqtt%s://%s", b->tls ? "s" : "", b->hosts[i]);
        if (i > 0) fprintf(out, ", ");
        quoted_write(out, url);
    }
    fprintf(out, "]; streams = [\"");
    name_write(out, b->name);
    fprintf(out, "\"];");
    topics_write(b, out, "remap", false, true);
    topics_write(b, out, "down", true, true);
    path_write(out, "tls_ca", b->ca);
    path_write(out, "tls_cert", b->cert);
    path_write(out, "tls_key", b->key);
    fprintf(out, " }\n");
    bridge_note(m, b);
}

static void notes_write(const import_model *m, FILE *out) {
    if (m->note_count == 0) return;
    fprintf(out, "\n# Not carried over, or different:\n");
    for (u32 i = 0; i < m->note_count; i++) {
        const import_note *n = &m->notes[i];
        if (n->place.file == NULL) fprintf(out, "#   %s\n", n->text);
        else fprintf(out, "#   %s:%u: %s\n", n->place.file, n->place.line, n->text);
    }
}

void import_model_write(import_model *m, const char *source, FILE *out) {
    fprintf(out, "# made from %s by `sluice import`\n", source);
    for (u32 i = 0; i < m->top.count; i++) {
        line_write(m, out, "", SECTION_TOP, &m->top.settings[i]);
    }
    if (m->log.count > 0) {
        fprintf(out, "log {\n");
        for (u32 i = 0; i < m->log.count; i++) {
            line_write(m, out, "    ", SECTION_LOG, &m->log.settings[i]);
        }
        fprintf(out, "}\n");
    }
    for (u32 i = 0; i < m->listener_count; i++) {
        if ((i == 0 && !m->default_used) || m->listeners[i].http) continue;
        listener_write(m, &m->listeners[i], i, out);
    }
    for (u32 i = 0; i < m->bridge_count; i++) bridge_write(m, &m->bridges[i], out);
    notes_write(m, out);
}
