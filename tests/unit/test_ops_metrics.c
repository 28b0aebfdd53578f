// SPDX-License-Identifier: Apache-2.0
// test_ops_metrics.c: /metrics against a strict reading of the text format, version 0.0.4, and against what was
// counted; docs/metrics.md against the table of metrics, and other pages against the names that they explain.
#include "test_ops_fake.h"

#include "auth/result.h"
#include "base/recorder.h"
#include "broker/sessions.h"
#include "net/reason.h"
#include "net/tls_error.h"
#include "ops/metrics.h"
#include "uplink/error.h"
#include "uplink/uplink.h"

typedef struct sample {
    char *series;  // name and labels as they stand
    char name[128];
    double value;
} sample;

typedef struct page {
    sample samples[4096];
    u32 count;
} page;

static char *get_metrics(void) {
    bool complete;
    fake_conn *f = fake_open(AF_INET);
    assert_true(fake_say(f, "GET /metrics HTTP/1.1\r\nHost: prometheus.lan\r\n\r\n"));
    assert_int_equal(fake_status(f), 200);
    assert_non_null(strstr(f->out, "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    char *body = fake_unchunk(f, &complete);
    assert_true(complete);
    fake_free(f);
    return body;
}

static bool name_is_valid(const char *s, size_t len) {
    if (len == 0 || !(s[0] == '_' || s[0] == ':' || (s[0] | 0x20) >= 'a')) return false;
    return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:") >= len;
}

// Reads {name="value",...}; returns what follows.
static const char *read_labels(const char *s) {
    if (*s != '{') return s;
    s++;
    while (*s != '}') {
        size_t len = strcspn(s, "=");
        assert_true(name_is_valid(s, len));
        s += len + 1;
        assert_true(*s++ == '"');
        for (; *s != '"'; s++) {
            assert_true(*s != '\0' && *s != '\n');
            if (*s == '\\') assert_true(strchr("\\\"n", *++s) != NULL);
        }
        s++;
        if (*s == ',') s++;
        else assert_true(*s == '}');
    }
    return s + 1;
}

static bool belongs(const char *name, size_t len, const char *family, const char *type) {
    size_t family_len = strlen(family);
    if (len < family_len || strncmp(name, family, family_len) != 0) return false;
    const char *rest = name + family_len;
    size_t rest_len = len - family_len;
    if (strcmp(type, "histogram") != 0) return rest_len == 0;
    return (rest_len == 7 && strncmp(rest, "_bucket", 7) == 0) || (rest_len == 4 && strncmp(rest, "_sum", 4) == 0) ||
           (rest_len == 6 && strncmp(rest, "_count", 6) == 0);
}

static void read_sample(page *p, char *line, const char *family, const char *type) {
    size_t len = strcspn(line, "{ ");
    assert_true(name_is_valid(line, len) && belongs(line, len, family, type));
    const char *after = read_labels(line + len);
    assert_true(*after == ' ');
    char *end;
    double value = strtod(after + 1, &end);
    assert_true(*end == '\0' && end > after + 1);
    if (strcmp(type, "gauge") != 0) assert_true(value >= 0);
    sample *s = &p->samples[p->count++];
    assert_true(p->count < ARRAY_LEN(p->samples));
    s->series = line;
    line[after - line] = '\0';
    snprintf(s->name, sizeof(s->name), "%.*s", (int)len, line);
    s->value = value;
    for (u32 i = 0; i + 1 < p->count; i++) {
        if (strcmp(p->samples[i].series, line) == 0) fail_msg("series twice: %s", line);
    }
}

// The whole page; body is cut into its lines.
static page *read_page(char *body) {
    page *p = calloc(1, sizeof(*p));
    char family[128] = "", type[16] = "", helped[128] = "";
    size_t len = strlen(body);
    assert_non_null(p);
    assert_true(len > 0 && body[len - 1] == '\n');
    char *save = NULL, seen[200][128];
    u32 families = 0;
    for (char *line = strtok_r(body, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, "# HELP ", 7) == 0) {
            assert_int_equal(sscanf(line, "# HELP %127s", helped), 1);
            assert_true(strlen(line) > 8 + strlen(helped));
        } else if (strncmp(line, "# TYPE ", 7) == 0) {
            assert_int_equal(sscanf(line, "# TYPE %127s %15s", family, type), 2);
            assert_string_equal(family, helped);
            assert_memory_equal(family, "sluice_", 7);
            bool total = strlen(family) > 6 && strcmp(family + strlen(family) - 6, "_total") == 0;
            assert_int_equal(strcmp(type, "counter") == 0, total);
            for (u32 i = 0; i < families; i++) assert_string_not_equal(seen[i], family);
            strcpy(seen[families++], family);
        } else {
            assert_true(line[0] != '#' && line[0] != '\0');
            read_sample(p, line, family, type);
        }
    }
    assert_int_equal(families, metric_family_count);
    return p;
}

static double value_of(const page *p, const char *series) {
    for (u32 i = 0; i < p->count; i++) {
        if (strcmp(p->samples[i].series, series) == 0) return p->samples[i].value;
    }
    fail_msg("no series %s", series);
    return 0;
}

static void test_format(void **state) {
    (void)state;
    char *body = get_metrics();
    page *p = read_page(body);
    assert_true(p->count > 400);
    assert_true(value_of(p, "sluice_engine_info{engine=\"poll\",why=\"a \\\"why\\\" with \\\\ and\\nnewline\"}") == 1);
    assert_true(value_of(p, "sluice_ready") == 1);
    assert_true(value_of(p, "sluice_listener_conns_open{listener=\"devices\"}") == 0);
    assert_true(value_of(p, "sluice_process_resident_memory_bytes") > 1e6);
    assert_true(value_of(p, "sluice_process_open_fds") >= 3);
    free(p);
    free(body);
}

static void test_values(void **state) {
    (void)state;
    worker_metrics *m = &fake_workers[1].metrics;
    counter_set(&m->bytes_in, 12345678901ull);
    counter_set(&m->closes[CLOSE_KICKED], 7);
    counter_set(&m->loop_busy_ns, 1500000000);
    counter_set(&fake_workers[FAKE_DEVICES].metrics.conns_open, 3);
    char *body = get_metrics();
    page *p = read_page(body);
    assert_true(value_of(p, "sluice_received_bytes_total{worker=\"1\"}") == 12345678901.0);
    assert_true(value_of(p, "sluice_received_bytes_total{worker=\"0\"}") == 0);
    assert_true(value_of(p, "sluice_closes_total{worker=\"1\",reason=\"kicked\"}") == 7);
    assert_true(value_of(p, "sluice_loop_busy_seconds_total{worker=\"1\"}") == 1.5);
    assert_true(value_of(p, "sluice_loops_total{worker=\"ops\"}") == 0);
    assert_true(value_of(p, "sluice_admin_conns_open") == 3); // not among the devices
    for (u32 i = 0; i < p->count; i++) {
        assert_string_not_equal(p->samples[i].series, "sluice_conns_open{worker=\"ops\"}");
    }
    free(p);
    free(body);
}

// Buckets rise, the last one is +Inf and equals the count; values are below the bound that counts them.
static void test_histograms(void **state) {
    (void)state;
    hist *h = &fake_workers[0].metrics.loop_lag;
    hist_record(h, 9000);           // 9 us
    hist_record(h, 400 * 1000);     // 400 us
    hist_record(h, 20 * NS_PER_S);  // above all bounds
    char *body = get_metrics();
    page *p = read_page(body);
    assert_true(value_of(p, "sluice_loop_lag_seconds_bucket{worker=\"0\",le=\"0.00001\"}") == 1);
    assert_true(value_of(p, "sluice_loop_lag_seconds_bucket{worker=\"0\",le=\"0.00025\"}") == 1);
    assert_true(value_of(p, "sluice_loop_lag_seconds_bucket{worker=\"0\",le=\"0.0005\"}") == 2);
    assert_true(value_of(p, "sluice_loop_lag_seconds_bucket{worker=\"0\",le=\"10\"}") == 2);
    assert_true(value_of(p, "sluice_loop_lag_seconds_bucket{worker=\"0\",le=\"+Inf\"}") == 3);
    assert_true(value_of(p, "sluice_loop_lag_seconds_count{worker=\"0\"}") == 3);
    double sum = value_of(p, "sluice_loop_lag_seconds_sum{worker=\"0\"}");
    assert_true(sum > 20.0004 && sum < 20.0005);
    u32 groups = 0;
    for (u32 i = 0; i < p->count; i++) {
        const char *le = strstr(p->samples[i].series, "le=\"");
        if (le == NULL) continue;
        bool last = strncmp(le, "le=\"+Inf", 8) == 0;
        if (last) {
            groups++;
            assert_true(p->samples[i].value == p->samples[i + 2].value); // sum, then count
        } else {
            assert_true(p->samples[i].value <= p->samples[i + 1].value);
            assert_true(strtod(le + 4, NULL) < strtod(strstr(p->samples[i + 1].series, "le=\"") + 4, NULL));
        }
    }
    assert_int_equal(groups, 3 + 2 + 3); // loop lag and batch of all workers, reply of the device workers
    free(p);
    free(body);
}

// A file of the tree as a string, which the caller frees.
static char *repo_text(const char *name) {
    const char *repo = getenv("REPO");
    if (repo == NULL) skip();
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", repo, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *text = calloc(1, 1 << 18);
    assert_true(fread(text, 1, (1 << 18) - 1, file) > 0);
    fclose(file);
    return text;
}

// The alerting rules speak of metrics that there are.
static void test_alerts_know_their_metrics(void **state) {
    (void)state;
    char *text = repo_text("docs/examples/alerts.yml");
    u32 named = 0;
    for (const char *at = text; (at = strstr(at, "sluice_")) != NULL; named++) {
        size_t len = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
        bool known = false;
        for (u32 i = 0; i < metric_family_count && !known; i++) {
            const char *name = metric_families[i].name;
            known = strlen(name) == len && memcmp(name, at, len) == 0;
        }
        if (!known) fail_msg("no such metric: %.*s", (int)len, at);
        at += len;
    }
    assert_true(named > 10);
    free(text);
}

static void test_documentation_names_all(void **state) {
    (void)state;
    char *text = repo_text("docs/metrics.md");
    u32 documented = 0;
    for (const char *at = text; (at = strstr(at, "\n| `sluice_")) != NULL; at++) documented++;
    for (u32 i = 0; i < metric_family_count; i++) {
        char row[256];
        static const char *const types[] = {"counter", "gauge", "histogram"};
        snprintf(row, sizeof(row), "\n| `%s` | %s |", metric_families[i].name, types[metric_families[i].type]);
        if (strstr(text, row) == NULL) fail_msg("docs/metrics.md lacks the row%s", row);
    }
    assert_int_equal(documented, metric_family_count);
    free(text);
}

// Names that a log, a metric or an answer can show: each is explained, as `name`.
static void test_names_are_explained(void **state) {
    (void)state;
    const struct {
        const char *page, *(*name)(u32);
        u32 first, end;
    } lists[] = {
        {"docs/operations.md", close_reason_name, CLOSE_NONE + 1, CLOSE_REASONS},
        {"docs/metrics.md", mqtt_drop_name, 0, MQTT_DROP_REASONS},
        {"docs/tls.md", tls_failure_name, TLS_OK + 1, TLS_FAILURES},
        {"docs/uplinks.md", uplink_error_name, 0, UPLINK_ERROR_COUNT},
        {"docs/uplinks.md", uplink_drop_name, 0, UPLINK_DROP_COUNT},
        {"docs/authentication.md", auth_result_name, 0, AUTH_RESULTS},
        {"docs/http-api.md", recorder_event_name, REC_NONE + 1, REC_EVENTS},
    };
    for (u32 i = 0; i < ARRAY_LEN(lists); i++) {
        char *text = repo_text(lists[i].page), quoted[64];
        for (u32 k = lists[i].first; k < lists[i].end; k++) {
            snprintf(quoted, sizeof(quoted), "`%s`", lists[i].name(k));
            if (strstr(text, quoted) == NULL) fail_msg("%s does not explain %s", lists[i].page, quoted);
        }
        free(text);
    }
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)
    const struct CMUnitTest tests[] = {
        T(test_format),
        T(test_values),
        T(test_histograms),
        T(test_documentation_names_all),
        T(test_alerts_know_their_metrics),
        T(test_names_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
