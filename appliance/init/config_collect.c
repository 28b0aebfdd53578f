// SPDX-License-Identifier: Apache-2.0
// config_collect.c: see config_collect.h. Sources are read into source_state, then attempted: merged,
// checked, written, put into force. What can not be put into force leaves what is in force alone; at boot,
// when nothing is, the last good configuration, then fewer and fewer sources, then a built-in one take its
// place, so that the box can always be reached and says what is wrong.
#include "init/config_collect.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/cmdline.h"
#include "init/config_good.h"
#include "init/config_state.h"
#include "init/config_user_data.h"
#include "init/config_volume.h"
#include "init/control.h"
#include "init/gateway_user.h"
#include "init/init_log.h"
#include "init/net_start.h"

#define WAIT_MS 10000u      // for a disk that the boot loader was read from
#define WAIT_MS_DIRECT 5000u // for reading disks that are there
#define CMDLINE_PREFIX "sluice.conf."

config_state collected = {.metadata = "off"};
static const char *run_path = CONFIG_RUN_PATH, *baked_path = CONFIG_BAKED_PATH;

const char *config_use_name(config_use use) {
    static const char *const names[] = {"none", "sources", "last good", "reduced", "built in"};
    return names[use];
}

// --- sources ---

static void set_source(config_source which, char *text, size_t len) {
    source_state *s = &collected.sources[which];
    free(s->text);
    s->text = text;
    s->len = len;
    s->present = text != NULL;
    s->problem[0] = '\0';
}

static void set_problem(config_source which, const char *what) {
    source_state *s = &collected.sources[which];
    snprintf(s->problem, sizeof(s->problem), "%s", what);
    init_error("configuration: %s: %s", s->name, what);
}

static void read_baked(void) {
    source_state *s = &collected.sources[SOURCE_BAKED];
    snprintf(s->name, sizeof(s->name), "default %.50s", baked_path);
    int fd = open(baked_path, O_RDONLY | O_CLOEXEC);
    char *text = fd >= 0 ? malloc(CONFIG_SOURCE_BYTES_MAX) : NULL;
    ssize_t n = text != NULL ? read(fd, text, CONFIG_SOURCE_BYTES_MAX) : -1;
    if (fd >= 0) close(fd);
    if (n < 0) {
        free(text);
        text = NULL;
        set_problem(SOURCE_BAKED, "can not be read");
    }
    set_source(SOURCE_BAKED, text, (size_t)MAX(n, 0));
}

// User data is accepted or told apart; an empty one is no source.
static void take_user_data(config_source which, char *text, size_t len) {
    const char *start, *why;
    size_t start_len;
    int rc = config_user_data(text, len, &start, &start_len, &why);
    if (rc == 0) {
        set_source(which, text, len);
        return;
    }
    free(text);
    set_source(which, NULL, 0);
    if (rc == -EINVAL) set_problem(which, why);
}

static void read_volumes(void) {
    volume_file esp, cidata;
    bool wait = init_cmdline_get("sluice.slot") != NULL;
    source_state *e = &collected.sources[SOURCE_ESP], *c = &collected.sources[SOURCE_CIDATA];
    volume_read(wait, wait ? WAIT_MS : WAIT_MS_DIRECT, &esp, &cidata);
    snprintf(e->name, sizeof(e->name), "esp /sluice.conf");
    snprintf(c->name, sizeof(c->name), "cidata user-data");
    set_source(SOURCE_ESP, esp.text, esp.len);
    if (esp.problem[0] != '\0') set_problem(SOURCE_ESP, esp.problem);
    if (cidata.present) take_user_data(SOURCE_CIDATA, cidata.text, cidata.len);
    else free(cidata.text);
    if (cidata.problem[0] != '\0') set_problem(SOURCE_CIDATA, cidata.problem);
    e->unreadable = esp.unreadable;
    c->unreadable = cidata.unreadable;
}

typedef struct words {
    char *text;
    size_t len, room;
} words;

static void add_word(void *context, const char *key, const char *value) {
    words *w = context;
    size_t prefix = strlen(CMDLINE_PREFIX);
    if (strncmp(key, CMDLINE_PREFIX, prefix) != 0) return;
    size_t need = strlen(key) - prefix + strlen(value) + 2;
    if (w->len + need + 1 > w->room) {
        size_t room = MAX(w->room * 2, w->len + need + 256);
        char *grown = realloc(w->text, room);
        if (grown == NULL) return;
        w->text = grown;
        w->room = room;
    }
    w->len += (size_t)snprintf(w->text + w->len, w->room - w->len, "%s=%s\n", key + prefix, value);
}

static void read_cmdline(void) {
    words w = {0};
    source_state *s = &collected.sources[SOURCE_CMDLINE];
    snprintf(s->name, sizeof(s->name), "kernel command line");
    init_cmdline_each(add_word, &w);
    set_source(SOURCE_CMDLINE, w.text, w.len);
}

// --- attempts ---

static int write_run_file(const char *text, size_t len) {
    char temporary[128];
    snprintf(temporary, sizeof(temporary), "%s.new", run_path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return -errno;
    ssize_t n = write(fd, text, len);
    int rc = n == (ssize_t)len ? 0 : n < 0 ? -errno : -ENOSPC;
    if (rc == 0 && init_is_real()) rc = gateway_user_give_file(fd, 0640);
    close(fd);
    if (rc == 0 && rename(temporary, run_path) != 0) rc = -errno;
    if (rc != 0) unlink(temporary);
    return rc;
}

// Puts text into force. effective and text become the state's; merged too, which may be empty.
static int put_in_force(config_use use, config *effective, char *text, size_t len, config_merged *merged) {
    int rc = write_run_file(text, len);
    if (rc != 0) {
        init_error("configuration: can not write %s: %s (%s)", run_path, strerror(-rc), errno_name(rc));
        free(text);
        free(effective);
        config_merged_free(merged);
        return rc;
    }
    free(collected.text);
    free(collected.effective);
    config_merged_free(&collected.merged);
    collected.text = text;
    collected.len = len;
    collected.effective = effective;
    collected.merged = *merged;
    collected.use = use;
    collected.pending = true;
    collected.generation++;
    init_net_configure(effective);
    return 0;
}

static u32 present_sources(config_text list[SOURCES], config_source map[SOURCES]) {
    u32 n = 0;
    for (config_source k = 0; k < SOURCES; k++) {
        const source_state *s = &collected.sources[k];
        if (!s->present || s->left_out) continue;
        map[n] = k;
        list[n++] = (config_text){.name = s->name, .text = s->text, .len = s->len,
                                  .is_default = k == SOURCE_BAKED, .is_words = k == SOURCE_CMDLINE};
    }
    return n;
}

// Merges and checks what is present. Returns 0 (in force), -EINVAL with error and the source at fault
// (SOURCES when it is none in particular), or -errno.
static int attempt(config_use use, config_error *error, config_source *at_fault, bool *changed) {
    config_text list[SOURCES];
    config_source map[SOURCES];
    config_merged merged;
    u32 bad = CONFIG_SOURCES_MAX, count = present_sources(list, map);
    *at_fault = SOURCES;
    *changed = false;
    int rc = config_merge(list, count, &merged, error, &bad);
    config *effective = rc == 0 ? malloc(sizeof(*effective)) : NULL;
    if (rc == 0 && effective == NULL) rc = -ENOMEM;
    if (effective != NULL) rc = config_merged_check(&merged, effective, error, &bad);
    if (rc == -EINVAL && bad < count) *at_fault = map[bad];
    if (rc != 0) {
        free(effective);
        config_merged_free(&merged);
        return rc;
    }
    bool same = collected.text != NULL && strcmp(collected.text, merged.text) == 0;
    char *text = strdup(merged.text);
    if (text == NULL || (same && collected.use == use)) {
        free(text);
        free(effective);
        config_merged_free(&merged);
        return same ? 0 : -ENOMEM;
    }
    size_t len = merged.len;
    *changed = !same;
    return put_in_force(use, effective, text, len, &merged);
}

static void log_problem(const config_error *error) {
    for (const char *line = error->text; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        init_error("configuration: %.*s", (int)len, line);
        line += len + (line[len] == '\n');
    }
}

static int use_text(config_use use, char *text, size_t len) {
    config_error *error = calloc(1, sizeof(*error));
    config *effective = malloc(sizeof(*effective));
    config_merged none = {0};
    int rc = error != NULL && effective != NULL ? 0 : -ENOMEM;
    if (rc == 0) rc = config_parse(config_use_name(use), text, len, effective, error);
    if (rc != 0) {
        if (rc == -EINVAL) log_problem(error);
        free(effective);
        free(text);
    } else {
        rc = put_in_force(use, effective, text, len, &none);
    }
    free(error);
    return rc;
}

static const char *good_dir(void) {
    return init_data_is_mounted() ? INIT_DATA_DIR : NULL;
}

static int use_last_good(void) {
    size_t len = 0;
    char *text = config_good_load(good_dir(), &len);
    if (text == NULL) return -ENOENT;
    int rc = use_text(CONFIG_USE_LAST_GOOD, text, len);
    if (rc == 0) init_warn("configuration: the last good one stays in force until the mistake is mended");
    return rc;
}

// Leaves out one source after the other: the one at fault, or else the highest.
static int use_reduced(config_source at_fault) {
    config_error *error = calloc(1, sizeof(*error));
    bool changed;
    int rc = -EINVAL;
    if (error == NULL) return -ENOMEM;
    while (rc == -EINVAL) {
        config_source leave = at_fault;
        for (config_source k = SOURCES; leave == SOURCES && k-- > 0;) {
            if (collected.sources[k].present && !collected.sources[k].left_out) leave = k;
        }
        if (leave == SOURCES) break;
        collected.sources[leave].left_out = true;
        init_warn("configuration: %s is left out", collected.sources[leave].name);
        rc = attempt(CONFIG_USE_REDUCED, error, &at_fault, &changed);
    }
    free(error);
    return rc;
}

static int use_built_in(void) {
    static const char text[] = "data_dir = \"" INIT_DATA_DIR "\"; admin { bind = \"127.0.0.1:9600\"; }\n"
                               "listener devices { protocol = frame; bind = \"127.0.0.1:7000\"; }\n";
    char *copy = strdup(text);
    if (copy == NULL) return -ENOMEM;
    init_error("configuration: nothing can be used; a built-in one on loopback is in force");
    return use_text(CONFIG_USE_BUILT_IN, copy, sizeof(text) - 1);
}

// Everything that is there, or what stands in for it. Returns whether what is in force has changed.
static bool collect_again(void) {
    config_source at_fault;
    bool changed = false;
    for (u32 k = 0; k < SOURCES; k++) collected.sources[k].left_out = false;
    collected.problem.text[0] = '\0';
    bool unreadable = collected.sources[SOURCE_ESP].unreadable || collected.sources[SOURCE_CIDATA].unreadable;
    // A damaged medium must not turn a configured box into one with the default's open listeners.
    if (unreadable && collected.use == CONFIG_USE_NONE && use_last_good() == 0) return true;
    int rc = attempt(CONFIG_USE_SOURCES, &collected.problem, &at_fault, &changed);
    if (rc == 0) return changed;
    log_problem(&collected.problem);
    if (collected.use != CONFIG_USE_NONE) {
        init_warn("configuration: the new one is not used; the one in force stays (%s)",
                  config_use_name(collected.use));
        return false;
    }
    if (use_last_good() != 0 && use_reduced(at_fault) != 0) use_built_in();
    return collected.use != CONFIG_USE_NONE;
}

static void log_sources(void) {
    char list[256] = "";
    size_t used = 0;
    for (u32 k = 0; k < SOURCES && used < sizeof(list); k++) {
        const source_state *s = &collected.sources[k];
        if (!s->present) continue;
        int n = snprintf(list + used, sizeof(list) - used, "%s%s%s", used > 0 ? ", " : "", s->name,
                         s->left_out ? " (left out)" : "");
        used += (size_t)MAX(n, 0);
    }
    init_info("configuration: %s in force (%s)", config_use_name(collected.use), list);
}

// --- metadata ---

static void on_metadata(const char *text, size_t len, const char *problem) {
    source_state *s = &collected.sources[SOURCE_METADATA];
    char *copy = text != NULL ? malloc(len + 1) : NULL;
    collected.metadata = problem[0] != '\0' ? "failed" : text == NULL ? "none" : "done";
    if (problem[0] != '\0') {
        set_problem(SOURCE_METADATA, problem);
        return;
    }
    if (copy == NULL) {
        init_info("configuration: %s: there is no user data", s->name);
        return;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    take_user_data(SOURCE_METADATA, copy, len);
    if (!s->present) return;
    bool changed = collect_again();
    log_sources();
    if (changed) init_config_ready(true);
}

static void on_metadata_retry(const char *problem) {
    source_state *s = &collected.sources[SOURCE_METADATA];
    if (strcmp(s->problem, problem) == 0) return;
    snprintf(s->problem, sizeof(s->problem), "%s", problem);
    init_warn("configuration: %s: %s; it is asked again", s->name, problem);
}

void init_config_network_up(void) {
    if (strcmp(collected.metadata, "waiting") != 0) return;
    collected.metadata = "asking";
    metadata_start(collected.cloud, on_metadata, on_metadata_retry);
}

static void find_cloud(cloud_kind kind) {
    source_state *s = &collected.sources[SOURCE_METADATA];
    collected.cloud = kind;
    snprintf(s->name, sizeof(s->name), "%s metadata", cloud_name(collected.cloud));
    if (collected.cloud == CLOUD_NONE) return;
    if (collected.cloud == CLOUD_AZURE) {
        collected.metadata = "failed";
        set_problem(SOURCE_METADATA, "Azure's metadata is not read; put sluice.conf on the ESP or attach a "
                                     "cidata disk");
        return;
    }
    collected.metadata = "waiting";
    if (init_net_is_up()) init_config_network_up();
}

// --- what others tell ---

static int collect(cloud_kind cloud) {
    read_cmdline();
    config_report_register();
    collect_again();
    find_cloud(cloud);
    if (collected.use == CONFIG_USE_NONE) return -EIO;
    log_sources();
    init_config_ready(false);
    return 0;
}

int init_config_collect(void) {
    cloud_dmi dmi;
    if (mkdir("/run/sluice", 0755) != 0 && errno != EEXIST)
        init_error("configuration: no /run/sluice: %s", errno_name(errno));
    read_baked();
    read_volumes();
    cloud_read_dmi(&dmi);
    return collect(cloud_detect(&dmi));
}

int init_config_collect_in(const char *baked, const char *run, const char *cloud) {
    cloud_kind kind = CLOUD_NONE;
    for (cloud_kind k = CLOUD_EC2; cloud != NULL && k <= CLOUD_AZURE; k++) {
        if (strcmp(cloud, cloud_name(k)) == 0) kind = k;
    }
    run_path = run;
    if (baked != NULL) {
        baked_path = baked;
        read_baked();
    }
    return collect(kind);
}

// A longer last good one could not be read before.
void init_config_data_mounted(void) {
    if (collected.use != CONFIG_USE_REDUCED && collected.use != CONFIG_USE_BUILT_IN) return;
    if (use_last_good() != 0) return;
    for (u32 k = 0; k < SOURCES; k++) collected.sources[k].left_out = false;
    log_sources();
    init_config_ready(true);
}

void init_config_rejected(const char *why) {
    if (!collected.pending) return;
    collected.pending = false;
    snprintf(collected.rejected, sizeof(collected.rejected), "%s", why);
    init_error("configuration: the gateway does not take it: %s", why);
    if (collected.use == CONFIG_USE_LAST_GOOD) return; // there is nothing older to go back to
    size_t len = 0;
    char *text = config_good_load(good_dir(), &len);
    bool differs = text != NULL && (len != collected.len || memcmp(text, collected.text, len) != 0);
    if (!differs) {
        free(text);
        return;
    }
    if (use_text(CONFIG_USE_LAST_GOOD, text, len) == 0) {
        init_warn("configuration: back to the last good one");
        init_config_ready(true);
    }
}

void init_config_accepted(void) {
    if (!collected.pending) return;
    collected.pending = false;
    collected.rejected[0] = '\0';
    // What stands in for a configuration with a mistake, or that is not all there, is no good one to go back to.
    bool unreadable = collected.sources[SOURCE_ESP].unreadable || collected.sources[SOURCE_CIDATA].unreadable;
    if (collected.use != CONFIG_USE_SOURCES || unreadable) return;
    int rc = config_good_keep(collected.text, collected.len, good_dir());
    if (rc == -ENOENT) init_warn("configuration: too long to be kept as the last good one without a data partition");
    else if (rc != 0) init_warn("configuration: could not be kept as the last good one: %s", errno_name(rc));
}
