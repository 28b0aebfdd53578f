// SPDX-License-Identifier: Apache-2.0
// mqtt_will.c: the will of a client (5.0 section 3.1.2.5): kept from its CONNECT, published when the
// client is gone without having said goodbye, at once or after its delay, or dropped.
//
// A will outlives its session for as long as the rings between workers are congested: it then waits
// in a list of the worker and is tried again.
//
// One of a durable session is on disk from the CONNECT on, and until the message is there with all who have to have
// it: if that is not at once, the change that takes it from its session comes with one that keeps it for itself (due).
// A start publishes what is due: after a power cut a will may come twice, it is not lost.
#include "proto/mqtt_durable.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"

#define RETRY_NS (20 * NS_PER_MS)

struct mqtt_will {
    mqtt_session *session; // NULL: being published, in one of the worker's lists
    worker *owner;
    mqtt_will *next;       // in that list
    timer_node timer;      // its delay
    u64 publisher, props_present;
    u64 kept_for;          // while being published: the number of its durable session, 0 = it was none
    u64 due;               // its number in the log, 0 = it is not there
    u64 due_ms;            // UNIX time since when
    u32 topic_len, props_len, payload_len;
    u32 delay_s, expiry_s; // expiry 0xffffffff: never
    u8 qos;
    bool retain;
    u8 bytes[];            // topic, properties, payload
};

static size_t will_bytes(const mqtt_will *w) {
    return sizeof(*w) + w->topic_len + w->props_len + w->payload_len;
}

static void will_release(mqtt_will *will) {
    timer_cancel(will->owner->wheel, &will->timer);
    pool_free(broker_pool(will->owner->broker), will, will_bytes(will));
}

static u64 publisher_of(const mqtt_will *will) {
    const mqtt_durable *d = will->owner->sessions->durable;
    const mqtt_keep *k = will->publisher != 0 || d == NULL ? NULL : mqtt_keep_find(d, will->kept_for);
    return k == NULL ? will->publisher : k->session->subscriber.number;
}

static void count_refused(worker *w, int result) {
    mqtt_drop drop = result == -EDQUOT || result == -ENOSPC ? MQTT_DROP_LOG_FULL
                     : result == -EXFULL                    ? MQTT_DROP_STREAM_FULL
                     : result == -EIO                       ? MQTT_DROP_LOG_FAILED
                                                            : MQTT_DROP_NO_MEMORY;
    counter_add(&w->metrics.mqtt_drops[drop], 1);
}

// 0, or -EAGAIN: not now. *owed: as in broker_publish_owed, NULL for a will that is in no log.
static int publish_now(mqtt_will *will, pledge **owed) {
    worker *w = will->owner;
    *owed = NULL;
    publication p = {
        .topic = (const char *)will->bytes,
        .topic_len = will->topic_len,
        .props = will->bytes + will->topic_len,
        .props_len = will->props_len,
        .props_present = will->props_present,
        .payload = will->bytes + will->topic_len + will->props_len,
        .payload_len = will->payload_len,
        .publisher = publisher_of(will),
        .qos = will->qos,
        .retain = will->retain,
    };
    if (will->expiry_s != MQTT_EXPIRY_NEVER) p.expires_ns = w->now_ns + will->expiry_s * NS_PER_S + 1;
    int result = broker_publish_owed(w->broker, &p, NULL, will->kept_for != 0 ? owed : NULL);
    if (result == -EAGAIN) return result;
    if (result == 0) counter_add(&w->metrics.mqtt_wills, 1);
    else count_refused(w, result);
    return 0;
}

// --- being published ---

static void append(mqtt_will **list, mqtt_will *will) {
    while (*list != NULL) list = &(*list)->next;
    *list = will;
    will->next = NULL;
}

static void due_write(const mqtt_will *will) {
    mqtt_change c = {.kind = MQTT_CHANGE_WILL_DUE, .session = will->kept_for, .origin = will->due,
                     .time_ms = will->due_ms};
    mqtt_will_view(will, &c.will);
    mqtt_durable_write(will->owner->sessions->durable, &c);
}

// It is in the log by itself from here on; before it is not its session's any more.
static void due_begin(mqtt_will *will) {
    mqtt_sessions *all = will->owner->sessions;
    if (will->kept_for == 0 || will->due != 0) return;
    will->due = ++all->will_number;
    will->due_ms = clock_real_ns() / NS_PER_MS;
    due_write(will);
}

static void finish(mqtt_will *will) {
    mqtt_change c = {.kind = MQTT_CHANGE_WILL_DONE, .session = will->kept_for, .origin = will->due};
    if (will->due != 0) mqtt_durable_write(will->owner->sessions->durable, &c);
    will_release(will);
}

static void owed_settled(pledge_line *line) {
    mqtt_sessions *all = CONTAINER_OF(line, mqtt_sessions, will_line);
    u32 word;
    int result;
    while (pledge_line_take(line, &word, &result)) {
        mqtt_will *will = all->wills_owed;
        all->wills_owed = will->next;
        if (result != 0) count_refused(all->owner, result);
        // A log that fails may be the end of the machine: a start then finds what is due.
        if (result == -EIO) will_release(will);
        else finish(will);
    }
}

// It has been published.
static void wait_for_disk(mqtt_will *will, pledge *owed) {
    mqtt_sessions *all = will->owner->sessions;
    if (owed == NULL) {
        finish(will);
        return;
    }
    due_begin(will);
    append(&all->wills_owed, will);
    all->will_line.settled = owed_settled;
    pledge_line_add(&all->will_line, owed, 0);
}

static void retry(timer_node *node, void *context) {
    (void)context;
    mqtt_sessions *all = CONTAINER_OF(node, mqtt_sessions, will_timer);
    worker *w = all->owner;
    while (all->wills != NULL) {
        mqtt_will *will = all->wills;
        pledge *owed;
        // After a start: sessions of other workers may be for it, whose subscriptions are not known here yet.
        if (!mqtt_sessions_all_restored(w->gw) || publish_now(will, &owed) == -EAGAIN) {
            timer_arm(w->wheel, node, w->now_ns + RETRY_NS);
            return;
        }
        all->wills = will->next;
        wait_for_disk(will, owed);
    }
}

static void retry_later(mqtt_sessions *all) {
    all->will_timer.callback = retry;
    timer_arm(all->owner->wheel, &all->will_timer, all->owner->now_ns + RETRY_NS);
}

void mqtt_wills_write(mqtt_sessions *all) {
    for (const mqtt_will *will = all->wills; will != NULL; will = will->next) {
        if (will->due != 0) due_write(will);
    }
    for (const mqtt_will *will = all->wills_owed; will != NULL; will = will->next) due_write(will);
}

static void delay_over(timer_node *node, void *context) {
    (void)context;
    mqtt_will *will = CONTAINER_OF(node, mqtt_will, timer);
    worker *w = will->owner;
    if (mqtt_sessions_all_restored(w->gw)) mqtt_will_publish(will->session);
    else timer_arm(w->wheel, node, w->now_ns + RETRY_NS);
}

mqtt_will *mqtt_will_create(mqtt_session *s, const mqtt_connect *connect) {
    const mqtt_properties *in = &connect->will_props;
    mqtt_forward forward;
    if (!mqtt_forward_make(s->owner, in, &forward)) return NULL;
    const mqtt_properties *props = &forward.props;
    size_t bytes = (size_t)connect->will_topic.len + props->len + connect->will_payload.len;
    mqtt_will *will = pool_alloc(mqtt_pool(s), sizeof(*will) + bytes);
    if (will == NULL) goto out;
    *will = (mqtt_will){
        .session = s,
        .owner = s->owner,
        .timer.callback = delay_over,
        .publisher = s->subscriber.number,
        .props_present = props->present,
        .topic_len = connect->will_topic.len,
        .props_len = props->len,
        .payload_len = connect->will_payload.len,
        .delay_s = mqtt_property_number(in, MQTT_WILL_DELAY, 0),
        .expiry_s = mqtt_property_number(in, MQTT_MESSAGE_EXPIRY, MQTT_EXPIRY_NEVER),
        .qos = connect->will_qos,
        .retain = connect->will_retain,
    };
    u8 *at = will->bytes;
    if (will->topic_len > 0) memcpy(at, connect->will_topic.data, will->topic_len);
    at += will->topic_len;
    if (props->len > 0) memcpy(at, props->data, props->len);
    at += props->len;
    if (will->payload_len > 0) memcpy(at, connect->will_payload.data, will->payload_len);
out:
    mqtt_forward_free(s->owner, &forward);
    return will;
}

void mqtt_will_view(const mqtt_will *will, mqtt_will_record *out) {
    *out = (mqtt_will_record){
        .bytes = will->bytes, .props_present = will->props_present, .topic_len = will->topic_len,
        .props_len = will->props_len, .payload_len = will->payload_len, .delay_s = will->delay_s,
        .expiry_s = will->expiry_s, .qos = will->qos, .retain = will->retain};
}

static mqtt_will *restore(worker *w, const mqtt_will_record *r) {
    size_t bytes = (size_t)r->topic_len + r->props_len + r->payload_len;
    mqtt_will *will = pool_alloc(broker_pool(w->broker), sizeof(*will) + bytes);
    if (will == NULL) return NULL;
    *will = (mqtt_will){
        .owner = w, .timer.callback = delay_over,
        .props_present = r->props_present, .topic_len = r->topic_len, .props_len = r->props_len,
        .payload_len = r->payload_len, .delay_s = r->delay_s, .expiry_s = r->expiry_s, .qos = r->qos,
        .retain = r->retain};
    memcpy(will->bytes, r->bytes, bytes);
    return will;
}

mqtt_will *mqtt_will_restore(mqtt_session *s, const mqtt_will_record *r) {
    mqtt_will *will = restore(s->owner, r);
    if (will == NULL) return NULL;
    will->session = s;
    will->publisher = s->subscriber.number;
    return will;
}

static mqtt_will **due_find(mqtt_sessions *all, u64 session, u64 number) {
    mqtt_will **at = &all->wills;
    while (*at != NULL && ((*at)->kept_for != session || (*at)->due != number)) at = &(*at)->next;
    return at;
}

void mqtt_will_due_restore(mqtt_sessions *all, const mqtt_change *c) {
    worker *w = all->owner;
    // After a change of the number of workers other workers' changes are in the same record.
    if (c->session % w->gw->worker_count != w->index || *due_find(all, c->session, c->origin) != NULL) return;
    mqtt_will *will = restore(w, &c->will);
    if (will == NULL) {
        log_error("a will that was being published could not be restored: no memory");
        return;
    }
    u64 now_ms = clock_real_ns() / NS_PER_MS, late_s = now_ms > c->time_ms ? (now_ms - c->time_ms) / 1000 : 0;
    if (will->expiry_s != MQTT_EXPIRY_NEVER) will->expiry_s -= (u32)MIN(late_s, (u64)will->expiry_s);
    will->kept_for = c->session;
    will->due = c->origin;
    will->due_ms = c->time_ms;
    all->will_number = MAX(all->will_number, c->origin);
    append(&all->wills, will);
    retry_later(all);
}

void mqtt_will_due_forget(mqtt_sessions *all, u64 session, u64 number) {
    mqtt_will **at = due_find(all, session, number), *will = *at;
    if (will == NULL) return;
    *at = will->next;
    will_release(will);
}

u32 mqtt_will_delay_s(const mqtt_will *will) {
    return will->delay_s;
}

void mqtt_will_free(mqtt_session *s) {
    if (s->will == NULL) return;
    will_release(s->will);
    s->will = NULL;
}

void mqtt_will_publish(mqtt_session *s) {
    mqtt_will *will = s->will;
    if (will == NULL) return;
    mqtt_sessions *all = mqtt_sessions_of(s);
    pledge *owed = NULL;
    s->will = NULL;
    will->session = NULL;
    will->kept_for = s->keep != NULL ? s->keep->by_number.hash : 0;
    timer_cancel(s->owner->wheel, &will->timer);
    // Its topic was allowed at the CONNECT; a reload may have changed that.
    if (!mqtt_may(s, ACL_WRITE, (const char *)will->bytes, will->topic_len)) {
        counter_add(&mqtt_metrics(s)->publish_denied, 1);
        mqtt_dropped(s, MQTT_DROP_DENIED);
        will_release(will);
    } else if (all->wills == NULL && publish_now(will, &owed) == 0) {
        wait_for_disk(will, owed);
    } else {
        due_begin(will);
        append(&all->wills, will); // in order: behind those that wait
        retry_later(all);
    }
    if (s->conn == NULL && s->keep != NULL && s->keep->left_ms != 0) mqtt_durable_left_at(s, s->keep->left_ms);
}

void mqtt_will_wait(mqtt_session *s, u32 seconds) {
    timer_arm(s->owner->wheel, &s->will->timer, s->owner->now_ns + seconds * NS_PER_S);
}
