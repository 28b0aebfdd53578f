// SPDX-License-Identifier: Apache-2.0
// mqtt_will.c: the will of a client (5.0 section 3.1.2.5): kept from its CONNECT, published when the
// client is gone without having said goodbye, at once or after its delay, or dropped.
//
// A will outlives its session for as long as the rings between workers are congested: it then waits
// in a list of the worker and is tried again. No will is lost but at the end of the process.
#include "proto/mqtt_durable.h"

#include <errno.h>
#include <string.h>

#define RETRY_NS (20 * NS_PER_MS)

struct mqtt_will {
    mqtt_session *session; // NULL: to be published, in the worker's list
    worker *owner;
    mqtt_will *next;       // in that list
    timer_node timer;      // its delay
    u64 publisher, props_present;
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

// 0, or -EAGAIN: not now.
static int publish_now(mqtt_will *will) {
    worker *w = will->owner;
    publication p = {
        .topic = (const char *)will->bytes,
        .topic_len = will->topic_len,
        .props = will->bytes + will->topic_len,
        .props_len = will->props_len,
        .props_present = will->props_present,
        .payload = will->bytes + will->topic_len + will->props_len,
        .payload_len = will->payload_len,
        .publisher = will->publisher,
        .qos = will->qos,
        .retain = will->retain,
    };
    if (will->expiry_s != MQTT_EXPIRY_NEVER) p.expires_ns = w->now_ns + will->expiry_s * NS_PER_S + 1;
    int result = broker_publish(w->broker, &p, NULL);
    if (result == -EAGAIN) return result;
    mqtt_drop drop = result == -EDQUOT   ? MQTT_DROP_LOG_FULL
                     : result == -EXFULL ? MQTT_DROP_STREAM_FULL
                     : result == -EIO    ? MQTT_DROP_LOG_FAILED
                                         : MQTT_DROP_NO_MEMORY;
    counter_add(result == 0 ? &w->metrics.mqtt_wills : &w->metrics.mqtt_drops[drop], 1);
    return 0;
}

static void retry(timer_node *node, void *context) {
    (void)context;
    mqtt_sessions *all = CONTAINER_OF(node, mqtt_sessions, will_timer);
    while (all->wills != NULL) {
        mqtt_will *will = all->wills;
        if (publish_now(will) == -EAGAIN) {
            timer_arm(all->owner->wheel, node, all->owner->now_ns + RETRY_NS);
            return;
        }
        all->wills = will->next;
        will_release(will);
    }
}

static void delay_over(timer_node *node, void *context) {
    (void)context;
    mqtt_will *will = CONTAINER_OF(node, mqtt_will, timer);
    worker *w = will->owner;
    // After a start: sessions of other workers may be for it, whose subscriptions are not known here yet.
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

mqtt_will *mqtt_will_restore(mqtt_session *s, const mqtt_will_record *r) {
    size_t bytes = (size_t)r->topic_len + r->props_len + r->payload_len;
    mqtt_will *will = pool_alloc(mqtt_pool(s), sizeof(*will) + bytes);
    if (will == NULL) return NULL;
    *will = (mqtt_will){
        .session = s, .owner = s->owner, .timer.callback = delay_over, .publisher = s->subscriber.number,
        .props_present = r->props_present, .topic_len = r->topic_len, .props_len = r->props_len,
        .payload_len = r->payload_len, .delay_s = r->delay_s, .expiry_s = r->expiry_s, .qos = r->qos,
        .retain = r->retain};
    memcpy(will->bytes, r->bytes, bytes);
    return will;
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
    s->will = NULL;
    will->session = NULL;
    if (s->conn == NULL && s->keep != NULL && s->keep->left_ms != 0) mqtt_durable_left_at(s, s->keep->left_ms);
    timer_cancel(s->owner->wheel, &will->timer);
    // Its topic was allowed at the CONNECT; a reload may have changed that.
    if (!mqtt_may(s, ACL_WRITE, (const char *)will->bytes, will->topic_len)) {
        counter_add(&mqtt_metrics(s)->publish_denied, 1);
        mqtt_dropped(s, MQTT_DROP_DENIED);
        will_release(will);
        return;
    }
    if (all->wills == NULL && publish_now(will) == 0) {
        will_release(will);
        return;
    }
    mqtt_will **at = &all->wills; // in order: behind those that wait
    while (*at != NULL) at = &(*at)->next;
    *at = will;
    all->will_timer.callback = retry;
    timer_arm(s->owner->wheel, &all->will_timer, s->owner->now_ns + RETRY_NS);
}

void mqtt_will_wait(mqtt_session *s, u32 seconds) {
    timer_arm(s->owner->wheel, &s->will->timer, s->owner->now_ns + seconds * NS_PER_S);
}
