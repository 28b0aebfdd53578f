// SPDX-License-Identifier: Apache-2.0
// describe.c: see describe.h.
#include "init/describe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "init/buttons.h"
#include "init/clock.h"
#include "init/control.h"
#include "init/data.h"
#include "init/init_log.h"
#include "init/loop.h"
#include "init/pstore.h"
#include "init/requests.h"
#include "init/shutdown.h"
#include "init/state.h"
#include "init/supervise.h"
#include "init/watchdog.h"
#include "version.h"

static char last_end[128];

void describe_last_end(const char *text, u32 len) {
    snprintf(last_end, sizeof(last_end), "%.*s", (int)len, text);
}

typedef void (*describer)(yyjson_mut_doc *doc, yyjson_mut_val *to);

static void describe_state(yyjson_mut_doc *doc, yyjson_mut_val *to) {
    yyjson_mut_obj_add_str(doc, to, "health", state_health_name(state_health_get()));
    yyjson_mut_obj_add_uint(doc, to, "generation", state_generation());
    yyjson_mut_obj_add_uint(doc, to, "writes", state_writes());
}

static void describe_log(yyjson_mut_doc *doc, yyjson_mut_val *to) {
    yyjson_mut_obj_add_int(doc, to, "consoles", init_log_console_count());
    yyjson_mut_obj_add_uint(doc, to, "lines_lost", init_log_lost());
}

static void part_add(yyjson_mut_doc *doc, yyjson_mut_val *root, const char *name, describer describe) {
    yyjson_mut_val *part = yyjson_mut_obj_add_obj(doc, root, name);
    if (part != NULL) describe(doc, part);
}

static void appliance_asked(init_request *r, yyjson_val *args) {
    (void)args;
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_str(doc, root, "version", SLUICE_VERSION);
    yyjson_mut_obj_add_str(doc, root, "commit", SLUICE_COMMIT);
    yyjson_mut_obj_add_str(doc, root, "machine_id", init_machine_id());
    yyjson_mut_obj_add_str(doc, root, "hostname", init_hostname());
    yyjson_mut_obj_add_uint(doc, root, "uptime_s", clock_mono_ns() / NS_PER_S);
    yyjson_mut_obj_add_uint(doc, root, "boots", state_get_u64("boot.count", 0));
    yyjson_mut_obj_add_str(doc, root, "last_end", last_end[0] != 0 ? last_end : "unknown");
    const char *slot = init_cmdline_get("sluice.slot");
    if (slot != NULL) yyjson_mut_obj_add_str(doc, root, "slot", slot);
    yyjson_mut_obj_add_uint(doc, root, "power_buttons", buttons_count());
    part_add(doc, root, "gateway", supervise_describe);
    part_add(doc, root, "watchdog", watchdog_describe);
    part_add(doc, root, "clock", clock_describe);
    part_add(doc, root, "state", describe_state);
    part_add(doc, root, "data", data_describe);
    part_add(doc, root, "log", describe_log);
    yyjson_mut_obj_add_uint(doc, root, "crash_records", pstore_count());
    init_request_answer_doc(r, doc);
}

static void answer_part(init_request *r, describer describe) {
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    if (root != NULL) describe(doc, root);
    init_request_answer_doc(r, doc);
}

static void clock_asked(init_request *r, yyjson_val *args) {
    (void)args;
    answer_part(r, clock_describe);
}

static void pstore_asked(init_request *r, yyjson_val *args) {
    (void)args;
    answer_part(r, pstore_describe);
}

static void names_describe(yyjson_mut_doc *doc, yyjson_mut_val *to) {
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, to, "requests");
    const char *name;
    for (u32 i = 0; (name = init_request_name(i)) != NULL; i++) yyjson_mut_arr_add_str(doc, list, name);
}

static void names_asked(init_request *r, yyjson_val *args) {
    (void)args;
    answer_part(r, names_describe);
}

static void log_asked(init_request *r, yyjson_val *args) {
    (void)args;
    char *text = malloc(LIMIT_INIT_LOG_BYTES);
    if (text == NULL) {
        init_request_answer_error(r, "out of memory");
        return;
    }
    size_t len = init_log_tail(text, LIMIT_INIT_LOG_BYTES);
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_strncpy(doc, root, "text", text, len);
    free(text);
    init_request_answer_doc(r, doc);
}

// A moment after the answer, which passes through the gateway that is about to end.
#define ANSWER_MS 300u
static struct {
    init_end end;
    const char *why;
} asked;

static void end_fired(init_timer *t) {
    (void)t;
    init_shutdown(asked.end, asked.why);
}

static init_timer end_timer = {.name = "asked shutdown", .on_fire = end_fired};

// What acts wants {"confirm": true}: a GET, which carries no arguments, can not switch the machine off.
static void end_asked(init_request *r, yyjson_val *args, init_end end, const char *why) {
    if (!yyjson_get_bool(yyjson_obj_get(args, "confirm"))) {
        init_request_answer_error(r, "ask by POST with {\"confirm\": true}");
        return;
    }
    static const char answer[] = "{\"shutting_down\":true}";
    init_request_answer(r, answer, sizeof(answer) - 1);
    asked.end = end;
    asked.why = why;
    init_timer_set(&end_timer, ANSWER_MS);
}

static void restart_asked(init_request *r, yyjson_val *args) {
    end_asked(r, args, INIT_REBOOT, "restart asked for by the admin");
}

static void poweroff_asked(init_request *r, yyjson_val *args) {
    end_asked(r, args, INIT_POWEROFF, "power off asked for by the admin");
}

void describe_register(void) {
    init_request_register("appliance", appliance_asked);
    init_request_register("clock", clock_asked);
    init_request_register("log", log_asked);
    init_request_register("pstore", pstore_asked);
    init_request_register("requests", names_asked);
    init_request_register("restart", restart_asked);
    init_request_register("poweroff", poweroff_asked);
}
