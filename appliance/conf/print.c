// SPDX-License-Identifier: Apache-2.0
// print.c: the schema read the other way: the effective configuration in the file's own syntax, and
// the reference of all keys as Markdown.
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "conf/setting.h"

typedef struct printer {
    char *out;
    size_t room, used;
} printer;

static void put(printer *p, const char *format, ...) PRINTF_LIKE(2, 3);

static void put(printer *p, const char *format, ...) {
    va_list args;
    if (p->used >= p->room) return;
    va_start(args, format);
    int n = vsnprintf(p->out + p->used, p->room - p->used, format, args);
    va_end(args);
    p->used += (size_t)MAX(n, 0); // at or above room: it did not fit, and stays so
}

static void put_setting(printer *p, const setting *s, const void *base, const char *indent) {
    char value[SETTING_TEXT_BYTES];
    const char *text = setting_print(s, base, value);
    if ((s->flags & SETTING_SECRET) != 0) {
        if (strcmp(text, "\"\"") != 0) put(p, "%s# %s is set and not shown\n", indent, s->key);
        return;
    }
    put(p, "%s%s = %s;\n", indent, s->key, text);
}

static void put_settings(printer *p, section_kind section, const void *base, u32 without_flags) {
    const char *indent = section == SECTION_TOP ? "" : section == SECTION_TLS ? "        " : "    ";
    for (u32 i = 0; i < schema_setting_count; i++) {
        const setting *s = &schema_settings[i];
        if (s->section == section && (s->flags & without_flags) == 0)
            put_setting(p, s, base, indent);
    }
}

ssize_t config_print(const config *c, char *out, size_t out_bytes) {
    printer p = {.out = out, .room = out_bytes};
    put_settings(&p, SECTION_TOP, c, 0);
    for (section_kind k = SECTION_ADMIN; k < SECTION_LISTENER; k++) {
        put(&p, "%s {\n", schema_sections[k].name);
        put_settings(&p, k, c, 0);
        put(&p, "}\n");
    }
    for (u32 i = 0; i < c->listener_count; i++) {
        const listener_config *l = &c->listeners[i];
        put(&p, "listener %s {\n", l->name);
        u32 without = l->protocol == PROTOCOL_MQTT ? SETTING_FRAME_ONLY : SETTING_MQTT_ONLY;
        if (l->protocol != PROTOCOL_MQTT && l->mode != FRAME_PUBLISH) without |= SETTING_PUBLISH_ONLY;
        if (l->transport != TRANSPORT_WEBSOCKET) without |= SETTING_WS_ONLY;
        put_settings(&p, SECTION_LISTENER, l, without);
        if (l->tls.cert[0] != '\0') {
            put(&p, "    tls {\n");
            put_settings(&p, SECTION_TLS, l, 0);
            put(&p, "    }\n");
        }
        put(&p, "}\n");
    }
    for (u32 i = 0; i < c->uplink_count; i++) {
        put(&p, "uplink %s {\n", c->uplinks[i].name);
        put_settings(&p, SECTION_UPLINK, &c->uplinks[i], c->uplinks[i].kind == UPLINK_NATS ? SETTING_MQTT_ONLY : 0);
        put(&p, "}\n");
    }
    for (u32 i = 0; i < c->network_count; i++) {
        put(&p, "network %s {\n", c->networks[i].name);
        put_settings(&p, SECTION_NETWORK, &c->networks[i], 0);
        put(&p, "}\n");
    }
    for (u32 i = 0; i < c->stream_count; i++) {
        put(&p, "stream %s {\n", c->streams[i].name);
        put_settings(&p, SECTION_STREAM, &c->streams[i], 0);
        put(&p, "}\n");
    }
    if (p.used >= out_bytes) return -ENOSPC;
    return (ssize_t)p.used;
}

static void print_row(const setting *s) {
    char allowed[SETTING_TEXT_BYTES];
    printf("### `%s`\n\n%s\n\n", s->key, s->text);
    if ((s->flags & SETTING_REQUIRED) != 0) printf("- Default: none, it must be given\n");
    else if (s->def == NULL) printf("- Default: %s\n", s->def_note);
    else if (s->def[0] == '\0') printf("- Default: empty\n");
    else printf("- Default: `%s`\n", s->def);
    printf("- Allowed: %s\n- Since: %s\n\n", setting_describe(s, allowed), s->since);
}

static const char reference_head[] =
    "# Configuration\n\n"
    "This page is printed by the program itself: `sluice check --reference`.\n\n"
    "`sluice run -c FILE` and `sluice check -c FILE` read one file. `sluice check -c FILE` reports "
    "every mistake with\n"
    "its line, what is wrong and what is allowed, and ends with status 2; nothing starts "
    "half-configured.\n"
    "`sluice check -c FILE --print` shows all settings in force. With no `-c`, the gateway starts "
    "on its defaults: an\n"
    "mqtt listener on `127.0.0.1:1883`, a frame listener on `127.0.0.1:7000`, the admin listener on\n"
    "`127.0.0.1:9600`, and data in `./sluice-data`.\n\n"
    "## The file\n\n"
    "```\n"
    "workers = auto;                 # a setting of the process\n"
    "log { level = info; }           # a section\n"
    "listener devices {              # a section with a name\n"
    "    protocol = frame;\n"
    "    bind     = \"0.0.0.0:7000\";\n"
    "    mode     = ack;\n"
    "}\n"
    "```\n\n"
    "- `KEY = VALUE`, ended by `;` or the end of the line. A section's `{` stands on the line of "
    "its name.\n"
    "- A value may stand without quotes when it has no blanks, braces, quotes, `=`, `;`, `,`, `#` "
    "or backslashes. In\n"
    "  double quotes `\\\"` `\\\\` `\\n` `\\t` `\\uXXXX` are escapes; in single quotes nothing "
    "is.\n"
    "- Sizes: bytes, or with `k`, `m`, `g` for 1024, 1024^2, 1024^3: `64k`. Times have a unit, "
    "`us`, `ms`, `s`, `m`, `h`\n"
    "  or `d`: `250ms`, `7d`; only 0 stands alone. Whole numbers only. Switches: `yes`, `no`, "
    "`true`, `false`, `on`, `off`.\n"
    "- Comments: `#` to the end of the line, and `/* ... */`.\n"
    "- The file is UTF-8, at most 1 MiB. There are no includes, macros or variables, and no "
    "environment is read: what\n"
    "  the file says is all there is.\n"
    "- A key or a section that is given twice, or is not known, is a mistake.\n\n"
    "Complete files stand in `docs/examples/`.\n\n";

void config_print_reference(void) {
    fputs(reference_head, stdout);
    for (section_kind k = SECTION_TOP; k < SECTIONS; k++) {
        printf("## %s\n\n%s\n\n", schema_sections[k].title, schema_sections[k].text);
        for (u32 i = 0; i < schema_setting_count; i++) {
            if (schema_settings[i].section == k) print_row(&schema_settings[i]);
        }
    }
}
