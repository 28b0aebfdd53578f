// SPDX-License-Identifier: Apache-2.0
// ctl_net.c: see ctl_net.h.
#include "ops/ctl_net.h"

#include <stdio.h>
#include <string.h>

#include "ops/ctl_table.h"

static const char *str(yyjson_val *obj, const char *key) {
    const char *s = yyjson_get_str(yyjson_obj_get(obj, key));
    return s != NULL && s[0] != '\0' ? s : "-";
}

static unsigned long long num(yyjson_val *obj, const char *key) {
    return (unsigned long long)yyjson_get_uint(yyjson_obj_get(obj, key));
}

static void print_line(const char *name, const char *value) {
    char copy[640];
    snprintf(copy, sizeof(copy), "%s", value);
    ctl_clean(copy);
    printf("%-10s %s\n", name, copy);
}

// --- net ---

// "bound, renews in 5m0s, from 10.0.2.2"
static void dhcp4_text(yyjson_val *i, char *out, size_t size) {
    yyjson_val *d = yyjson_obj_get(i, "dhcp4"), *renews = yyjson_obj_get(d, "renews_in_seconds");
    char when[CTL_UNIT_BYTES];
    if (d == NULL) snprintf(out, size, "-");
    else if (yyjson_is_uint(renews))
        snprintf(out, size, "%s, renews in %s, from %s", str(d, "state"),
                 ctl_duration((double)yyjson_get_uint(renews), when), str(d, "server"));
    else snprintf(out, size, "%s, %llu sent", str(d, "state"), num(d, "sent"));
}

static void address_text(yyjson_val *i, char *out, size_t size) {
    yyjson_val *row;
    size_t k, max, used = 0;
    snprintf(out, size, "-");
    yyjson_arr_foreach(yyjson_obj_get(i, "addresses"), k, max, row) {
        const char *state = str(row, "state");
        bool fine = strcmp(state, "ok") == 0;
        int n = snprintf(out + used, size - used, "%s%s%s%s", used > 0 ? " " : "", str(row, "address"),
                         fine ? "" : "!", fine ? "" : state);
        used += (size_t)MAX(n, 0);
        if (used >= size) return;
    }
}

static void print_interfaces(yyjson_val *root) {
    static const char *const heads[] = {"INTERFACE", "STATE",     "BLOCK",   "DRIVER",
                                        ">MTU",      "ADDRESSES", "GATEWAY", "DHCP"};
    char text[400];
    ctl_table t;
    yyjson_val *i;
    size_t k, max;
    ctl_table_begin(&t, heads, ARRAY_LEN(heads));
    yyjson_arr_foreach(yyjson_obj_get(root, "interfaces"), k, max, i) {
        ctl_table_cell(&t, "%s", str(i, "name"));
        ctl_table_cell(&t, "%s", str(i, "state"));
        ctl_table_cell(&t, "%s", str(i, "block"));
        ctl_table_cell(&t, "%s", str(i, "driver"));
        ctl_table_cell(&t, "%llu", num(i, "mtu"));
        address_text(i, text, sizeof(text));
        ctl_table_cell(&t, "%s", text);
        ctl_table_cell(&t, "%s", yyjson_obj_get(i, "gateway") != NULL ? str(i, "gateway") : str(i, "gateway6"));
        dhcp4_text(i, text, sizeof(text));
        ctl_table_cell(&t, "%s", text);
    }
    ctl_table_end(&t, 0);
}

static void add_queue_row(ctl_table *t, yyjson_val *nic, yyjson_val *irq) {
    yyjson_val *q = yyjson_arr_get(yyjson_obj_get(nic, "queues"), (size_t)num(irq, "queue"));
    ctl_table_cell(t, "%s", str(nic, "name"));
    ctl_table_cell(t, "%llu", num(irq, "queue"));
    ctl_table_cell(t, "%llu", num(irq, "irq"));
    ctl_table_cell(t, "%s", str(irq, "name"));
    ctl_table_cell(t, "%lld", (long long)yyjson_get_sint(yyjson_obj_get(irq, "cpu")));
    ctl_table_cell(t, "%s", str(q, "rps"));
    ctl_table_cell(t, "%s", str(q, "xps"));
    ctl_table_cell(t, "%s", str(irq, "result"));
}

static void print_layout(yyjson_val *layout) {
    static const char *const heads[] = {"INTERFACE", ">QUEUE", ">IRQ", "NAME", ">CPU", ">RPS", ">XPS", "RESULT"};
    char line[320];
    ctl_table t;
    yyjson_val *nic, *irq;
    size_t k, max, n, irqs;
    printf("\n");
    snprintf(line, sizeof(line), "%zu, worker N on the Nth of them", yyjson_arr_size(yyjson_obj_get(layout, "cpus")));
    print_line("cpus", line);
    yyjson_arr_foreach(yyjson_obj_get(layout, "nics"), k, max, nic) {
        snprintf(line, sizeof(line), "%llu of at most %llu queues; %s", num(nic, "rx_queues"),
                 MAX(num(nic, "queues_max"), num(nic, "rx_queues")), str(nic, "why"));
        print_line(str(nic, "name"), line);
    }
    printf("\n");
    ctl_table_begin(&t, heads, ARRAY_LEN(heads));
    yyjson_arr_foreach(yyjson_obj_get(layout, "nics"), k, max, nic) {
        yyjson_arr_foreach(yyjson_obj_get(nic, "irqs"), n, irqs, irq) {
            if (yyjson_obj_get(irq, "queue") != NULL) add_queue_row(&t, nic, irq);
        }
    }
    ctl_table_end(&t, 0);
}

void ctl_print_net(yyjson_val *root) {
    char line[320];
    yyjson_val *row;
    size_t k, max, set = 0, absent = 0, failed = 0, told = 0;
    print_line("network", yyjson_get_bool(yyjson_obj_get(root, "up")) ? "up" : "not up");
    print_interfaces(root);
    print_layout(yyjson_obj_get(root, "layout"));
    yyjson_arr_foreach(yyjson_obj_get(root, "sysctls"), k, max, row) {
        const char *result = str(row, "result");
        set += strcmp(result, "set") == 0;
        absent += strcmp(result, "absent") == 0;
        failed += strcmp(result, "failed") == 0;
        told += strcmp(result, "command line") == 0;
    }
    snprintf(line, sizeof(line), "%zu set, %zu left to the command line, %zu not in this kernel, %zu refused "
             "(--json lists them)", set, told, absent, failed);
    printf("\n");
    print_line("sysctls", line);
}

// --- config ---

static void print_sources(yyjson_val *root) {
    static const char *const heads[] = {"SOURCE", "STATE", ">BYTES", "PROBLEM"};
    ctl_table t;
    yyjson_val *s;
    size_t k, max;
    ctl_table_begin(&t, heads, ARRAY_LEN(heads));
    yyjson_arr_foreach(yyjson_obj_get(root, "sources"), k, max, s) {
        ctl_table_cell(&t, "%s", str(s, "name"));
        ctl_table_cell(&t, "%s", str(s, "state"));
        ctl_table_cell(&t, "%llu", num(s, "bytes"));
        ctl_table_cell(&t, "%s", yyjson_obj_get(s, "problem") != NULL ? str(s, "problem") : "");
    }
    ctl_table_end(&t, 0);
    printf("\n");
}

void ctl_print_appliance_config(yyjson_val *root) {
    static const char *const heads[] = {"KEY", "VALUE", "SOURCE"};
    char line[320];
    ctl_table t;
    yyjson_val *v;
    size_t k, max;
    snprintf(line, sizeof(line), "%s%s", str(root, "in_force"),
             yyjson_get_bool(yyjson_obj_get(root, "accepted")) ? "" : " (the gateway has not confirmed it)");
    print_line("in force", line);
    yyjson_arr_foreach(yyjson_obj_get(root, "problems"), k, max, v) {
        const char *problem = yyjson_get_str(v);
        print_line("problem", problem != NULL ? problem : "-");
    }
    print_sources(root);
    ctl_table_begin(&t, heads, ARRAY_LEN(heads));
    yyjson_arr_foreach(yyjson_obj_get(root, "settings"), k, max, v) {
        ctl_table_cell(&t, "%s", str(v, "key"));
        ctl_table_cell(&t, "%s", str(v, "value"));
        if (yyjson_obj_get(v, "line") != NULL) ctl_table_cell(&t, "%s:%llu", str(v, "source"), num(v, "line"));
        else ctl_table_cell(&t, "%s", str(v, "source"));
    }
    ctl_table_end(&t, 0);
}
