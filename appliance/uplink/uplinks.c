// SPDX-License-Identifier: Apache-2.0
// uplinks.c: the table of a worker's uplinks: made from the configuration, changed by a reload, stopped at the
// end.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/siphash.h"
#include "store/streams.h"
#include "uplink/uplink_internal.h"

#define RESTART_NS (20 * NS_PER_MS)

const char *uplink_drop_name(u32 drop) {
    static const char *const names[] = {
#define UPLINK_DROP_ROW(symbol, name, text) name,
        UPLINK_DROPS(UPLINK_DROP_ROW)
#undef UPLINK_DROP_ROW
    };
    return drop < ARRAY_LEN(names) ? names[drop] : "unknown";
}

const char *uplink_drop_text(u32 drop) {
    static const char *const texts[] = {
#define UPLINK_DROP_ROW(symbol, name, text) text,
        UPLINK_DROPS(UPLINK_DROP_ROW)
#undef UPLINK_DROP_ROW
    };
    return drop < ARRAY_LEN(texts) ? texts[drop] : "unknown";
}

// --- settings ---

// client_id with %h (host name) and %n (name of the uplink) filled in.
static void id_fill(const uplink *u, char out[UPLINK_ID_BYTES]) {
    char host[65] = "localhost";
    (void)gethostname(host, sizeof(host) - 1);
    size_t used = 0;
    for (const char *p = u->conf.client_id; *p != '\0' && used + 1 < UPLINK_ID_BYTES; p++) {
        const char *text = p[0] == '%' && p[1] == 'h' ? host : p[0] == '%' && p[1] == 'n' ? u->conf.name : NULL;
        if (text != NULL) {
            p++;
            used += (size_t)snprintf(out + used, UPLINK_ID_BYTES - used, "%s", text);
            used = MIN(used, (size_t)UPLINK_ID_BYTES - 1);
        } else {
            out[used++] = *p;
        }
    }
    out[used] = '\0';
}

static void urls_fill(uplink *u) {
    u->url_count = u->url_index = 0;
    for (const char *p = u->conf.url; *p != '\0' && u->url_count < UPLINK_URLS_MAX;) {
        const char *end = strchr(p, '\n');
        if (endpoint_parse(p, (size_t)(end - p), &u->urls[u->url_count]) == NULL) u->url_count++;
        p = end + 1;
    }
}

// A conn asks its listener for limits and a name.
static void origin_fill(uplink *u) {
    // Once: others read it.
    if (u->shared.name[0] == '\0') memcpy(u->shared.name, u->conf.name, sizeof(u->shared.name));
    u->origin.owner = u->owner;
    u->origin.shared = &u->shared;
    u->origin.proto = u->remote->proto;
    u->origin.conf = (listener_config){
        .protocol = PROTOCOL_MQTT,
        .packet_timeout_ms = u->conf.ack_timeout_ms,
        .send_timeout_ms = u->conf.ack_timeout_ms,
        // What waits is bounded where it is queued (UPLINK_OUT_BYTES and one message); reading never stops for
        // it.
        .out_bytes_max = INT32_MAX,
        .out_bytes_high = INT32_MAX,
    };
    memcpy(u->origin.conf.name, u->shared.name, sizeof(u->origin.conf.name));
}

static int settings_apply(uplink *u, const uplink_config *conf) {
    u->conf = *conf;
    u->remote = conf->kind == UPLINK_MQTT ? &uplink_remote_mqtt : &uplink_remote_nats;
    u->first = u->owner->index == 0;
    urls_fill(u);
    uplink_files_load(u);
    origin_fill(u);
    id_fill(u, u->via);
    snprintf(u->id, sizeof(u->id), "%.*s-%u", (int)sizeof(u->id) - 12, u->via, u->owner->index);
    ASSERT(map_make(&u->up_map, u->conf.remap) == 0 && map_make(&u->down_map, u->conf.down) == 0);
    // In step with nobody: neither with other gateways nor with the workers of this one.
    u->backoff.random = clock_real_ns() ^ (u64)getpid() << 32 ^ (u64)u->owner->index << 24 ^ (u64)(uintptr_t)u;
    u->backoff.failures = 0;
    window_free(&u->window);
    return window_init(&u->window, u->conf.inflight);
}

// --- the table ---

static uplink *find(const uplinks *all, const char *name) {
    for (u32 i = 0; i < all->count; i++) {
        if (strcmp(all->at[i]->conf.name, name) == 0) return all->at[i];
    }
    return NULL;
}

static uplink *add(uplinks *all, const uplink_config *conf) {
    if (all->count == UPLINK_TABLE_MAX) {
        log_error("worker %u: uplink %s: more than %u names since the start: restart the gateway", all->owner->index,
                  conf->name, UPLINK_TABLE_MAX);
        return NULL;
    }
    uplink *u = calloc(1, sizeof(*u));
    if (u == NULL || (all->topic == NULL && (all->topic = malloc(2u * LIMIT_TOPIC_BYTES)) == NULL)) {
        free(u);
        return NULL;
    }
    u->all = all;
    u->owner = all->owner;
    u->dial.slot = UINT32_MAX;
    u->timer.callback = uplink_on_timer;
    if (settings_apply(u, conf) != 0) {
        free(u);
        return NULL;
    }
    all->at[all->count] = u;
    __atomic_store_n(&all->count, all->count + 1, __ATOMIC_RELEASE);
    return u;
}

// One whose settings have changed may read it as soon as it has begun anew.
static bool reads(const uplink *u, u16 number) {
    if (u->again) return true;
    for (u32 i = 0; i < u->stream_count; i++) {
        if (u->streams[i] == number) return true;
    }
    return false;
}

// For the streams: the place up to which all uplinks of a partition are through.
static u64 sent_to(worker *w, u16 number) {
    const uplinks *all = w->uplinks;
    u64 to = UINT64_MAX;
    if (all == NULL || all->count == 0) return to;
    // A start: what the log holds is looked through yet, and none has begun.
    if (!all->configured) return 0;
    for (u32 i = 0; i < all->count; i++) {
        const uplink *u = all->at[i];
        if (u->wanted && reads(u, number)) to = MIN(to, u->ranges_known ? ranges_low(&u->ranges) : 0);
    }
    return to;
}

// For the same: something before that place is about to go. The log has to know before that it was sent, or a crash in
// between would have it counted as lost.
static void save_sent(worker *w, u16 number) {
    for (u32 i = 0; w->uplinks != NULL && i < w->uplinks->count; i++) {
        if (reads(w->uplinks->at[i], number)) keeper_save(w->uplinks->at[i]);
    }
}

int uplinks_create(worker *w, uplinks **out) {
    uplinks *all = calloc(1, sizeof(*all));
    if (all == NULL) return -ENOMEM;
    all->owner = w;
    keeper_init(all);
    if (w->streams != NULL) streams_on_sent(w->streams, sent_to, save_sent);
    // Before the log is replayed: its records are for those that are here.
    for (u32 i = 0; i < w->conf->uplink_count; i++) {
        if (add(all, &w->conf->uplinks[i]) != NULL) continue;
        uplinks_destroy(all);
        return -ENOMEM;
    }
    *out = all;
    return 0;
}

void uplinks_destroy(uplinks *all) {
    if (all == NULL) return;
    for (u32 i = 0; i < all->count; i++) {
        uplink *u = all->at[i];
        uplink_resolve_drop(u);
        uplink_files_free(u);
        window_free(&u->window);
        free(u);
    }
    free(all->topic);
    free(all);
}

// --- starting and stopping ---

static void lag_due(timer_node *node, void *context) {
    (void)context;
    uplinks *all = CONTAINER_OF(node, uplinks, lag_timer);
    for (u32 i = 0; i < all->count; i++) {
        if (all->at[i]->wanted) drain_lag(all->at[i]);
    }
    timer_arm(all->owner->wheel, node, all->owner->now_ns + NS_PER_S);
}

static void start(uplink *u) {
    store *s = u->owner->store;
    if (s == NULL) {
        log_error("worker %u: uplink %s: nothing is durable here (SLUICE_DATA_VOLATILE): nothing is sent",
                  u->owner->index, u->conf.name);
    } else {
        source_bind(u);
    }
    if (s != NULL && !u->ranges_known) {
        bool all_there_is = u->conf.from == UPLINK_FROM_EARLIEST;
        ranges_init(&u->ranges, all_there_is ? 0 : store_end(s) - 1);
        u->accounted = source_count(u, all_there_is);
        u->ranges_known = u->dirty = true;
        keeper_save(u);
    }
    if (u->imported) keeper_save(u);
    uplink_event_run(u, UPLINK_EV_START);
}

void uplink_restart_if_wanted(uplink *u) {
    uplinks *all = u->all;
    if (!u->again || !u->wanted || all->stopping) return;
    // A connection that is still closing uses the old settings.
    if (u->origin.conns > 0) {
        timer_arm(u->owner->wheel, &u->timer, u->owner->now_ns + RESTART_NS);
        return;
    }
    u->again = false;
    for (u32 i = 0; i < u->owner->conf->uplink_count; i++) {
        const uplink_config *conf = &u->owner->conf->uplinks[i];
        if (strcmp(conf->name, u->conf.name) != 0) continue;
        if (settings_apply(u, conf) == 0) start(u);
        else log_error("worker %u: uplink %s: no memory: it stays stopped", u->owner->index, u->conf.name);
        return;
    }
}

static bool in_configuration(const config *c, const char *name) {
    for (u32 i = 0; i < c->uplink_count; i++) {
        if (strcmp(c->uplinks[i].name, name) == 0) return true;
    }
    return false;
}

void uplinks_configure(worker *w) {
    uplinks *all = w->uplinks;
    const config *c = w->conf;
    if (all == NULL || all->stopping) return;
    all->configured = true;
    for (u32 i = 0; i < all->count; i++) {
        uplink *u = all->at[i];
        if (!u->wanted || in_configuration(c, u->conf.name)) continue;
        u->wanted = u->again = false;
        counter_set(&u->metrics.configured, 0);
        uplink_event_run(u, UPLINK_EV_STOP);
    }
    all->lag_timer.callback = lag_due;
    if (c->uplink_count > 0 && !timer_is_armed(&all->lag_timer)) lag_due(&all->lag_timer, NULL);
    for (u32 i = 0; i < c->uplink_count; i++) {
        uplink *u = find(all, c->uplinks[i].name);
        if (u == NULL) u = add(all, &c->uplinks[i]);
        if (u == NULL) continue;
        bool same = memcmp(&u->conf, &c->uplinks[i], sizeof(u->conf)) == 0;
        bool running = u->wanted && same;
        u->wanted = true;
        counter_set(&u->metrics.configured, 1);
        if (running && w->store != NULL) source_bind(u); // a stream may be new
        u->files_old = running;
        if (running) continue;
        u->again = true;
        if (u->state == UPLINK_STOPPED) uplink_restart_if_wanted(u);
        else uplink_event_run(u, UPLINK_EV_STOP);
    }
}

void uplinks_stop(worker *w) {
    uplinks *all = w->uplinks;
    if (all == NULL || all->stopping) return;
    all->stopping = true;
    timer_cancel(w->wheel, &all->lag_timer);
    for (u32 i = 0; i < all->count; i++) {
        uplink *u = all->at[i];
        u->again = false;
        uplink_event_run(u, UPLINK_EV_STOP);
    }
}

bool uplinks_are_quiet(const worker *w) {
    const uplinks *all = w->uplinks;
    for (u32 i = 0; all != NULL && i < all->count; i++) {
        if (all->at[i]->state != UPLINK_STOPPED) return false;
    }
    return true;
}

// --- for others ---

u32 uplinks_count(const worker *w) {
    return w->uplinks == NULL ? 0 : __atomic_load_n(&w->uplinks->count, __ATOMIC_ACQUIRE);
}

const uplink *uplinks_at(const worker *w, u32 index) {
    return w->uplinks->at[index];
}

const char *uplink_name(const uplink *u) {
    return u->shared.name;
}

const uplink_metrics *uplink_metrics_get(const uplink *u) {
    return &u->metrics;
}

static void text_get(const char *from, char to[UPLINK_TEXT_BYTES]) {
    for (u32 i = 0; i < UPLINK_TEXT_BYTES; i++) to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    to[UPLINK_TEXT_BYTES - 1] = '\0';
}

void uplink_texts_get(const uplink *u, uplink_texts *out) {
    text_get(u->texts.remote, out->remote);
    text_get(u->texts.detail, out->detail);
}
