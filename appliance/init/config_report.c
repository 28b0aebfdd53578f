// SPDX-License-Identifier: Apache-2.0
// config_report.c: the request "config": each setting in force with where it was written, the sources and
// what is wrong with them. What `sluice ctl config` prints on an appliance. Secrets are named, not shown.
#include <stdio.h>
#include <string.h>

#include "conf/setting.h"
#include "init/config_state.h"
#include "init/requests.h"

static void add_row(yyjson_mut_doc *doc, yyjson_mut_val *list, const char *section, const char *prefix,
                    const setting *s, const void *base) {
    char value[SETTING_TEXT_BYTES], key[LIMIT_NAME_BYTES + 64];
    config_origin origin;
    bool written = config_merged_origin(&collected.merged, section, s->key, &origin);
    bool special = (s->flags & ~(u32)(SETTING_POWER_OF_TWO | SETTING_REQUIRED | SETTING_SECRET)) != 0;
    if (special && !written && collected.merged.node_count > 0) return; // of another kind of listener
    yyjson_mut_val *row = yyjson_mut_arr_add_obj(doc, list);
    snprintf(key, sizeof(key), "%s%s", prefix, s->key);
    yyjson_mut_obj_add_strcpy(doc, row, "key", key);
    const char *text = setting_print(s, base, value);
    bool hidden = (s->flags & SETTING_SECRET) != 0 && strcmp(text, "\"\"") != 0;
    yyjson_mut_obj_add_strcpy(doc, row, "value", hidden ? "(set, not shown)" : text);
    if (written) {
        yyjson_mut_obj_add_strcpy(doc, row, "source", collected.merged.names[origin.source]);
        if (origin.line > 0) yyjson_mut_obj_add_uint(doc, row, "line", origin.line);
    } else if (collected.merged.node_count > 0) {
        yyjson_mut_obj_add_str(doc, row, "source", "built in");
    } else {
        yyjson_mut_obj_add_str(doc, row, "source", config_use_name(collected.use));
    }
}

static void add_section(yyjson_mut_doc *doc, yyjson_mut_val *list, section_kind kind, const char *name,
                        const void *base) {
    char section[LIMIT_NAME_BYTES + 16], prefix[LIMIT_NAME_BYTES + 16];
    const section_info *info = &schema_sections[kind];
    snprintf(section, sizeof(section), "%s%s%s", info->name, name != NULL ? "/" : "", name != NULL ? name : "");
    snprintf(prefix, sizeof(prefix), "%s%s%s%s", info->name, name != NULL ? "." : "",
             name != NULL ? name : "", kind == SECTION_TOP ? "" : ".");
    for (u32 i = 0; i < schema_setting_count; i++) {
        if (schema_settings[i].section == kind)
            add_row(doc, list, section, prefix, &schema_settings[i], base);
    }
}

static void add_settings(yyjson_mut_doc *doc, yyjson_mut_val *root) {
    const config *c = collected.effective;
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, root, "settings");
    if (c == NULL) return;
    for (section_kind k = SECTION_TOP; k < SECTIONS; k++) {
        if (!schema_sections[k].named) add_section(doc, list, k, NULL, c);
    }
    for (u32 i = 0; i < c->listener_count; i++)
        add_section(doc, list, SECTION_LISTENER, c->listeners[i].name, &c->listeners[i]);
    for (u32 i = 0; i < c->uplink_count; i++)
        add_section(doc, list, SECTION_UPLINK, c->uplinks[i].name, &c->uplinks[i]);
    for (u32 i = 0; i < c->network_count; i++)
        add_section(doc, list, SECTION_NETWORK, c->networks[i].name, &c->networks[i]);
    for (u32 i = 0; i < c->stream_count; i++)
        add_section(doc, list, SECTION_STREAM, c->streams[i].name, &c->streams[i]);
}

static void add_sources(yyjson_mut_doc *doc, yyjson_mut_val *root) {
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, root, "sources");
    for (u32 k = 0; k < SOURCES; k++) {
        const source_state *s = &collected.sources[k];
        yyjson_mut_val *row = yyjson_mut_arr_add_obj(doc, list);
        yyjson_mut_obj_add_strcpy(doc, row, "name", s->name);
        const char *state = s->present ? s->left_out ? "left out" : "used" : "absent";
        if (s->present && collected.use != CONFIG_USE_SOURCES && collected.use != CONFIG_USE_REDUCED)
            state = "not used";
        if (k == SOURCE_METADATA && !s->present) state = collected.metadata;
        yyjson_mut_obj_add_strcpy(doc, row, "state", state);
        if (s->present) yyjson_mut_obj_add_uint(doc, row, "bytes", s->len);
        if (s->problem[0] != '\0') yyjson_mut_obj_add_strcpy(doc, row, "problem", s->problem);
    }
}

static void add_problems(yyjson_mut_doc *doc, yyjson_mut_val *root) {
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, root, "problems");
    for (const char *line = collected.problem.text; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        yyjson_mut_arr_add_strncpy(doc, list, line, len);
        line += len + (line[len] == '\n');
    }
    if (collected.rejected[0] != '\0') yyjson_mut_arr_add_strcpy(doc, list, collected.rejected);
}

static void on_request(init_request *r, yyjson_val *args) {
    (void)args;
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    if (doc != NULL) {
        yyjson_mut_val *root = yyjson_mut_obj(doc);
        yyjson_mut_doc_set_root(doc, root);
        yyjson_mut_obj_add_str(doc, root, "in_force", config_use_name(collected.use));
        yyjson_mut_obj_add_uint(doc, root, "generation", collected.generation);
        yyjson_mut_obj_add_bool(doc, root, "accepted", !collected.pending);
        add_problems(doc, root);
        add_sources(doc, root);
        add_settings(doc, root);
    }
    init_request_answer_doc(r, doc);
}

void config_report_register(void) {
    init_request_register("config", on_request);
}
