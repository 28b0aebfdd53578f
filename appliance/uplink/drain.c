// SPDX-License-Identifier: Apache-2.0
// drain.c: from the log to the remote, and what is acknowledged out of the account. Two readers at most: one of
// the open range, which is new messages, and with order = newest one of the backlog, read while the other has
// nothing.
//
// Memory does not depend on the backlog: a message is read, queued for the socket and forgotten; what limits
// how many are on their way is the window, the remote's own limit and the bytes that wait for the socket.
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "uplink/uplink_internal.h"

#define SAVE_NS (200 * NS_PER_MS)  // the offset is written at most so often: what a crash may send twice
#define PASS_BYTES (1u << 20)      // of other records read before the offset is written for them alone
#define RETRY_NS (20 * NS_PER_MS)
#define PUMP_RECORDS 512u          // looked at before the loop gets its turn

static void save_due(timer_node *node, void *context) {
    (void)context;
    uplink *u = CONTAINER_OF(node, uplink, save_timer);
    keeper_save(u);
    if (u->dirty) timer_arm(u->owner->wheel, node, u->owner->now_ns + NS_PER_S);
}

static void pump_due(timer_node *node, void *context) {
    (void)context;
    drain_pump(CONTAINER_OF(node, uplink, pump_timer));
}

static void pump_later(uplink *u, u64 ns) {
    timer_arm(u->owner->wheel, &u->pump_timer, u->owner->now_ns + ns);
}

static void changed(uplink *u) {
    u->dirty = true;
    u->save_timer.callback = save_due;
    if (!timer_is_armed(&u->save_timer)) timer_arm(u->owner->wheel, &u->save_timer, u->owner->now_ns + SAVE_NS);
}

static void ready(void *context) {
    uplink *u = context;
    if (uplink_is_up(u)) pump_later(u, 0);
}

// --- the account ---

// A record of the uplink's own has been met, so all before it were read. With nothing on its way they are all
// done: what the streams had counted by then and has not come is gone by their retention, or damaged.
static void account_mark(uplink *u) {
    if (u->window.count == 0 && u->ranges.count == 1 && u->accounted < u->mark_count) {
        uplink_dropped(u, UPLINK_DROP_RETENTION, u->mark_count - u->accounted, NULL, 0);
        u->accounted = u->mark_count;
        changed(u);
    }
    u->mark = 0;
}

void drain_lag(uplink *u) {
    if (!u->ranges_known || u->owner->store == NULL) return;
    u64 count = source_count(u, false), low = ranges_low(&u->ranges), end = store_end(u->owner->store);
    u->accounted = MIN(u->accounted, count); // the list of streams has changed
    // In one row: what is given up and was not sent waits no more. It is counted when it is come to.
    u64 done = u->ranges.count == 1 ? MAX(u->accounted, MIN(source_count(u, true), count)) : u->accounted;
    const window_entry *oldest = window_oldest(&u->window);
    if (oldest != NULL) counter_set(&u->metrics.oldest_ms, oldest->time_ms);
    else if (done == count) counter_set(&u->metrics.oldest_ms, 0);
    // Not read yet: what it says is of what was sent before, or it is from before the start.
    else if (counter_get(&u->metrics.oldest_ms) == 0) {
        u64 now_ms = clock_real_ns() / NS_PER_MS, found_ms = source_time_behind(u, low);
        counter_set(&u->metrics.oldest_ms, found_ms == 0 ? now_ms : MIN(found_ms, now_ms));
    }
    counter_set(&u->metrics.lag_messages, count - done);
    counter_set(&u->metrics.lag_bytes, done == count || end <= low ? 0 : end - low - 1);
    counter_set(&u->metrics.in_flight, u->window.count);
}

// Nothing is in flight: what was read and is not for us is behind us too.
static void pass(uplink *u) {
    if (u->window.count > 0 || u->passed == 0) return;
    uplink_range *range = ranges_find(&u->ranges, u->passed);
    if (range == NULL) return;
    range->after = u->passed;
    // Not for each: the record of the offset is one more that passes.
    if (u->passed > u->saved_low + PASS_BYTES) changed(u);
}

static void take_done(uplink *u) {
    window_entry e;
    while (window_pop(&u->window, &e)) {
        ranges_done(&u->ranges, e.pos);
        u->accounted += e.streams;
        changed(u);
    }
    pass(u);
}

bool drain_acked(uplink *u, u32 place) {
    if (place >= u->window.size) return false;
    u64 sent_ns = u->window.entries[place].sent_ns;
    if (!window_ack(&u->window, place)) return false;
    counter_add(&u->metrics.acked, 1);
    counter_set(&u->metrics.ack_ns, u->owner->now_ns - sent_ns);
    u->progress_ns = u->acked_ns = u->owner->now_ns;
    counter_set(&u->metrics.error, UPLINK_ERROR_NONE);
    take_done(u);
    // Enough is on its way: the next ones go together, so that neither end wakes up for each of them.
    if (u->window.count <= u->window.size / 4 * 3) drain_pump(u);
    return true;
}

bool drain_refused(uplink *u, u32 place, uplink_drop reason, const char *what, u32 what_len) {
    if (place >= u->window.size || !window_ack(&u->window, place)) return false;
    uplink_dropped(u, reason, 1, what, what_len);
    take_done(u);
    drain_pump(u);
    return true;
}

bool drain_is_overdue(const uplink *u) {
    const window_entry *oldest = window_oldest(&u->window);
    if (oldest == NULL) return false;
    u64 arrived_ns = oldest->pos == u->taken_pos ? u->taken_ns : u->progress_ns;
    return u->owner->now_ns > MAX(MAX(oldest->sent_ns, u->acked_ns), arrived_ns) + u->conf.ack_timeout_ms * NS_PER_MS;
}

// --- reading ---

// Cuts the backlog off and into slices by age. The cuts are positions a reader finds records from.
static void slice(uplink *u) {
    static const u64 ages_s[] = {86400, 6 * 3600, 3600, 600, 60, 0};
    store *s = u->owner->store;
    u64 now_ms = clock_real_ns() / NS_PER_MS;
    for (u32 i = 0; i < ARRAY_LEN(ages_s); i++) {
        u64 at = ages_s[i] == 0 ? store_end(s) : store_find_time(s, now_ms - ages_s[i] * 1000);
        if (at != 0 && ranges_open(&u->ranges)->after < at && ranges_cut(&u->ranges, at)) changed(u);
    }
}

static void backlog_open(uplink *u) {
    uplink_range *range = ranges_backlog(&u->ranges);
    if (u->backlog != NULL || range == NULL) return;
    u->backlog = store_reader_open(u->owner->store, range->after + 1, ready, u);
    u->backlog_to = range->to;
}

static void backlog_done(uplink *u) {
    store_reader_close(u->backlog);
    u->backlog = NULL;
    for (u32 i = 0; i + 1 < u->ranges.count; i++) {
        if (u->ranges.at[i].to != u->backlog_to) continue;
        ranges_read(&u->ranges, &u->ranges.at[i]);
        changed(u);
        break;
    }
    backlog_open(u);
}

// Why a message is not to be sent; UPLINK_DROP_COUNT: it is.
static uplink_drop unwanted(const uplink *u, const uplink_message *m) {
    if (m->given_up) return UPLINK_DROP_RETENTION;
    if (m->expires_ms != 0 && m->expires_ms <= clock_real_ns() / NS_PER_MS) return UPLINK_DROP_EXPIRED;
    if (down_is_marked(u, m->props, m->props_len, m->props_present)) return UPLINK_DROP_LOOP;
    if (m->qos == 0 && !u->conf.qos0_buffer && m->pos < u->up_pos) return UPLINK_DROP_QOS0_BACKLOG;
    return UPLINK_DROP_COUNT;
}

// --- sending ---

// Whether rate and rate_bytes let one more go. Time is used up ahead, at most a tenth of a second of it.
static bool rate_allows(uplink *u) {
    u64 now = u->owner->now_ns;
    if (u->conf.rate == 0 && u->conf.rate_bytes == 0) return true;
    u->rate_ns = MAX(u->rate_ns, now > NS_PER_S / 10 ? now - NS_PER_S / 10 : 0);
    if (u->rate_ns <= now) return true;
    pump_later(u, u->rate_ns - now);
    return false;
}

static void rate_use(uplink *u, u32 bytes) {
    u64 cost = u->conf.rate > 0 ? NS_PER_S / u->conf.rate : 0;
    if (u->conf.rate_bytes > 0) cost = MAX(cost, (u64)bytes * NS_PER_S / u->conf.rate_bytes);
    u->rate_ns += cost;
}

static int topic_for_remote(uplink *u, const uplink_message *m, const char **topic) {
    char *out = u->all->topic;
    u32 prefix = (u32)strlen(u->conf.prefix);
    memcpy(out, u->conf.prefix, prefix);
    int len = map_apply(&u->up_map, m->topic, m->topic_len, out + prefix, LIMIT_TOPIC_BYTES - prefix);
    if (len == 0 && m->topic_len <= LIMIT_TOPIC_BYTES - prefix) {
        memcpy(out + prefix, m->topic, m->topic_len);
        len = (int)m->topic_len;
    }
    if (len <= 0) return -EINVAL;
    *topic = out;
    return (int)prefix + len;
}

// A message that is done without the remote: it takes its place in the row, so that the order of the account is
// kept.
static void settle(uplink *u, const uplink_message *m, uplink_drop reason) {
    uplink_dropped(u, reason, 1, m->topic, m->topic_len);
    u32 place = window_next_place(&u->window);
    window_push(&u->window, &(window_entry){.pos = m->pos, .time_ms = m->time_ms, .sent_ns = u->owner->now_ns,
                                            .streams = m->streams});
    ranges_sent(&u->ranges, m->pos);
    window_ack(&u->window, place);
}

// 0: queued or settled; -EAGAIN: it stays the next one; -ENOMEM.
static int send_one(uplink *u, uplink_message *m) {
    const char *topic;
    uplink_drop reason = unwanted(u, m);
    if (reason != UPLINK_DROP_COUNT) {
        settle(u, m, reason);
        return 0;
    }
    int len = topic_for_remote(u, m, &topic);
    m->again = m->pos <= u->sent_high;
    int result = len < 0 ? len : u->remote->publish(u, m, topic, (u32)len, window_next_place(&u->window));
    if (result == -EMSGSIZE || result == -EINVAL) {
        settle(u, m, result == -EMSGSIZE ? UPLINK_DROP_TOO_LARGE : UPLINK_DROP_TOPIC);
        return 0;
    }
    if (result != 0) return result;
    window_push(&u->window, &(window_entry){.pos = m->pos, .time_ms = m->time_ms, .sent_ns = u->owner->now_ns,
                                            .subject = u->nats.subject, .streams = m->streams});
    ranges_sent(&u->ranges, m->pos);
    u->sent_high = MAX(u->sent_high, m->pos);
    counter_add(&u->metrics.sent, 1);
    counter_add(&u->metrics.sent_bytes, m->payload_len);
    if (m->again) counter_add(&u->metrics.resent, 1);
    rate_use(u, m->payload_len);
    return 0;
}

// The next record. 1: *m; 0: nothing now (the disk is being read, perhaps); 2: one that is not for us; 3: the
// range ends; -errno.
static int message_next(uplink *u, bool from_backlog, uplink_message *m) {
    store_record r;
    int result = store_reader_next(from_backlog ? u->backlog : u->live, &r);
    if (result <= 0) return result;
    if (from_backlog && r.origin >= u->backlog_to) return 3;
    const uplink_range *range = ranges_find(&u->ranges, r.origin);
    if (range != NULL && source_message(u, &r, m)) return 1;
    if (from_backlog) return 2;
    u->passed = r.origin;
    if (u->mark != 0 && r.origin >= u->mark) {
        take_done(u);
        account_mark(u);
    }
    return 2;
}

typedef enum pumped { PUMPED_ALL, PUMPED_END, PUMPED_MORE, PUMPED_FULL, PUMPED_FAILED } pumped;

static pumped pump_reader(uplink *u, bool from_backlog, u32 *budget) {
    store_reader *rd = from_backlog ? u->backlog : u->live;
    while (rd != NULL) {
        uplink_message m;
        if (*budget == 0) return PUMPED_MORE;
        if (window_is_full(&u->window)) take_done(u); // what was settled
        if (window_is_full(&u->window) || u->conn->out_bytes >= UPLINK_OUT_BYTES || !rate_allows(u)) return PUMPED_FULL;
        int result = message_next(u, from_backlog, &m);
        (*budget)--;
        if (result == 2) continue;
        if (result == -EIO) continue; // a damaged place: counted by the log, and by the account when all is read
        if (result < 0) {
            uplink_fail(u, UPLINK_ERROR_LOG_FAILED, errno_name(result));
            return PUMPED_FAILED;
        }
        if (result == 0 || result == 3) return result == 0 ? PUMPED_ALL : PUMPED_END;
        result = send_one(u, &m);
        if (result == 0) continue;
        // The record was read: from it on again.
        store_reader_seek(rd, m.pos);
        if (result == -EAGAIN) return PUMPED_FULL;
        uplink_fail(u, UPLINK_ERROR_NO_MEMORY, NULL);
        return PUMPED_FAILED;
    }
    return PUMPED_ALL;
}

void drain_pump(uplink *u) {
    if (u->pumping || !uplink_is_up(u) || u->live == NULL) return;
    u32 budget = PUMP_RECORDS;
    u->pumping = true;
    pumped state = pump_reader(u, false, &budget);
    while (state == PUMPED_ALL && u->backlog != NULL) {
        state = pump_reader(u, true, &budget);
        if (state != PUMPED_END) break;
        backlog_done(u);
        state = PUMPED_ALL;
    }
    u->pumping = false;
    if (state == PUMPED_FAILED) return;
    take_done(u);
    if (state == PUMPED_MORE) pump_later(u, 0);
    // A socket that is full without anything in flight: no acknowledgement will come to go on with.
    if (state == PUMPED_FULL && u->window.count == 0) pump_later(u, RETRY_NS);
    if (u->window.count == 0) drain_lag(u);
}

// --- life ---

void drain_open(uplink *u) {
    worker *w = u->owner;
    u->pump_timer.callback = pump_due;
    if (w->store == NULL) return; // nothing is kept: nothing to send
    u->up_pos = store_end(w->store);
    if (u->conf.order == UPLINK_NEWEST && u->ranges.count < RANGES_MAX / 2) slice(u);
    u->live = store_reader_open(w->store, ranges_open(&u->ranges)->after + 1, ready, u);
    if (u->live == NULL) {
        uplink_fail(u, UPLINK_ERROR_NO_MEMORY, NULL);
        return;
    }
    backlog_open(u);
    pump_later(u, 0);
}

void drain_close(uplink *u) {
    timer_cancel(u->owner->wheel, &u->pump_timer);
    if (u->live != NULL) store_reader_close(u->live);
    if (u->backlog != NULL) store_reader_close(u->backlog);
    u->live = u->backlog = NULL;
    const window_entry *oldest = window_oldest(&u->window);
    if (oldest != NULL) counter_set(&u->metrics.oldest_ms, oldest->time_ms);
    window_clear(&u->window);
    ranges_rewind(&u->ranges);
    u->passed = 0;
    drain_lag(u);
}

void drain_stop(uplink *u) {
    timer_cancel(u->owner->wheel, &u->save_timer);
    if (u->owner->store != NULL) keeper_save(u);
}
