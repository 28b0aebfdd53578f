// SPDX-License-Identifier: Apache-2.0
// mqtt_durable_clock.c: the wall clock, and the sessions whose clients are away. While the gateway runs their ends are
// timers of the monotonic clock; how long the machine was off the wall clock alone can tell. It may be wrong by decades
// (store/stream_clock.h), and then it would end all sessions at once, or none for decades. So when it is set, the times
// at which clients went are set with it, also in the log; and a start that finds it further from the last record than
// anybody can vouch for counts the time before that record and the time from now on, not the time between. The age of
// messages goes by the same steps (broker/clock_steps.h).
#include "base/log.h"
#include "broker/clock_steps.h"
#include "broker/durable.h"
#include "proto/mqtt_durable.h"

#define LOOK_NS NS_PER_S

static u64 wall_ms(void) {
    return clock_real_ns() / NS_PER_MS;
}

static i64 look(mqtt_durable *d, u64 last_ms) {
    i64 step_ms;
    (void)stream_clock_look(&d->clock, d->all->owner->now_ns / NS_PER_MS, wall_ms(), last_ms, &step_ms);
    return step_ms;
}

static u64 moved(u64 time_ms, i64 step_ms) {
    u64 to = time_ms + (u64)step_ms;
    return step_ms < 0 && to > time_ms ? 1 : MAX(to, 1u); // 0 would say that it is connected
}

static void step_write(mqtt_durable *d, const clock_step *s) {
    u64 seconds = (u64)(s->step_ms < 0 ? -s->step_ms : s->step_ms) / 1000;
    mqtt_change c = {.kind = MQTT_CHANGE_CLOCK, .origin = s->pos, .id = (u16)(s->worker + 1), .time_ms = s->until_ms,
                     .number = (u32)MIN(seconds, (u64)UINT32_MAX), .flag = s->step_ms < 0};
    mqtt_durable_write(d, &c);
}

void mqtt_durable_clock_write(mqtt_durable *d) {
    const clock_steps *steps = durable_steps(d->all->owner->broker);
    for (u32 i = 0; i < steps->count; i++) step_write(d, &steps->at[i]);
}

void mqtt_durable_clock_replay(mqtt_durable *d, const mqtt_change *c) {
    i64 step_ms = c->number * 1000ll;
    clock_step s = {.pos = c->origin, .worker = c->id - 1u, .until_ms = c->time_ms,
                    .step_ms = c->flag ? -step_ms : step_ms};
    clock_steps_add(durable_steps(d->all->owner->broker), s);
}

// The log as it is now is from before.
static void stepped(mqtt_durable *d, u64 until_ms, i64 step_ms) {
    worker *w = d->all->owner;
    if (step_ms / 1000 == 0) return;
    if (step_ms < 0) step_ms -= 999; // whole seconds, so that no record seems to be younger than the step
    const clock_step s = {.pos = store_end(w->store), .worker = w->index, .until_ms = until_ms,
                          .step_ms = step_ms / 1000 * 1000};
    clock_steps_add(durable_steps(w->broker), s);
    step_write(d, &s);
}

u64 mqtt_durable_clock_now(mqtt_durable *d) {
    i64 step_ms = look(d, 0);
    stepped(d, wall_ms() - (u64)step_ms, step_ms);
    for (mqtt_keep *k = d->first; step_ms != 0 && k != NULL; k = k->next) {
        if (k->left_ms != 0) mqtt_durable_left_at(k->session, moved(k->left_ms, step_ms));
    }
    return wall_ms();
}

static void look_now(void *context) {
    (void)mqtt_durable_clock_now(context);
}

static void tick(timer_node *node, void *context) {
    (void)context;
    mqtt_durable *d = CONTAINER_OF(node, mqtt_durable, clock_timer);
    worker *w = d->all->owner;
    (void)mqtt_durable_clock_now(d);
    timer_arm(w->wheel, node, w->now_ns + LOOK_NS);
}

void mqtt_durable_clock_start(mqtt_durable *d) {
    worker *w = d->all->owner;
    u64 last_ms = store_replayed_ms(w->store);
    d->off_step_ms = look(d, last_ms);
    stepped(d, last_ms, d->off_step_ms);
    durable_retained_replayed(w->broker);
    durable_on_clock(w->broker, look_now, d);
    if (d->off_step_ms != 0 && d->first != NULL) {
        log_warn("worker %u: the clock is %lld s from the last record of the log: the time between counts as none for "
                 "sessions that end", w->index, (long long)(d->off_step_ms / 1000));
    }
    d->clock_timer.callback = tick;
    timer_arm(w->wheel, &d->clock_timer, w->now_ns + LOOK_NS);
}

u64 mqtt_durable_clock_since(const mqtt_durable *d, u64 time_ms, u64 *away_ms) {
    u64 now_ms = MAX(wall_ms(), 1u), since_ms = MIN(moved(time_ms, d->off_step_ms), now_ms);
    *away_ms = now_ms - since_ms;
    return since_ms;
}
