// SPDX-License-Identifier: Apache-2.0
// sntp.c: see sntp.h. A round: every server gets one request on a socket of its own (a new port and nonce each
// time); when all have answered or LIMIT_NTP_ANSWER_MS is over, the samples are judged together. The next
// round comes after the poll interval, which grows while the clock is good.
#include "init/sntp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "init/clock.h"
#include "init/control.h"
#include "init/init_log.h"
#include "init/loop.h"
#include "init/sntp_packet.h"
#include "init/sntp_resolve.h"

typedef struct server {
    init_watch watch;       // fd -1: not being asked
    sntp_address address;
    char text[64];
    u64 nonce;
    u64 sent_mono_ns;
    i64 sent_real_ns;
    u64 hold_until_ns;      // not asked before
    sntp_verdict verdict;   // of the last round
    sntp_sample sample;
    bool denied;
} server;

static void round_due(init_timer *t);
static void round_over(init_timer *t);

static struct {
    char configured[LIMIT_NTP_SERVERS][LIMIT_NTP_NAME_BYTES];
    char offered[LIMIT_NTP_SERVERS][LIMIT_NTP_NAME_BYTES]; // by DHCP
    char names[LIMIT_NTP_SERVERS][LIMIT_NTP_NAME_BYTES];   // those in use
    server servers[LIMIT_NTP_ADDRESSES];
} list;

static struct {
    u32 configured_count, offered_count, name_count;
    u32 server_count, waiting;
    u32 poll_s, failed_rounds, single_rounds;
    i64 single_offset_ns;
    bool begun, look_up;
    bool renewed;           // the list changed or the network came back: do not wait for the next poll
    init_timer due, over;
} ntp = {
    .look_up = true,
    .poll_s = LIMIT_NTP_POLL_MIN_S,
    .due = {.name = "time servers", .on_fire = round_due},
    .over = {.name = "time servers", .on_fire = round_over},
};

static const char *const fallback[LIMIT_NTP_FALLBACK] = {
    "0.pool.ntp.org", "1.pool.ntp.org", "2.pool.ntp.org", "3.pool.ntp.org"};

// --- names ---

bool sntp_server_split(const char *text, char *host, size_t host_size, char *port, size_t port_size) {
    const char *end = text + strlen(text), *port_at = NULL;
    if (*text == '[') {
        const char *close_at = strchr(text, ']');
        if (close_at == NULL) return false;
        if (close_at[1] == ':') port_at = close_at + 2;
        else if (close_at[1] != '\0') return false;
        text++;
        end = close_at;
    } else if (strchr(text, ':') != NULL && strchr(text, ':') == strrchr(text, ':')) {
        end = strchr(text, ':');
        port_at = end + 1;
    }
    size_t len = (size_t)(end - text);
    if (len == 0 || len >= host_size) return false;
    if (port_at != NULL && (*port_at == '\0' || strlen(port_at) >= port_size)) return false;
    memcpy(host, text, len);
    host[len] = '\0';
    snprintf(port, port_size, "%s", port_at != NULL ? port_at : "123");
    return true;
}

static void name_add(const char *name) {
    for (u32 i = 0; i < ntp.name_count; i++) {
        if (strcmp(list.names[i], name) == 0) return;
    }
    if (ntp.name_count == LIMIT_NTP_SERVERS) return;
    snprintf(list.names[ntp.name_count++], LIMIT_NTP_NAME_BYTES, "%s", name);
}

static void names_choose(void) {
    ntp.name_count = 0;
    for (u32 i = 0; i < ntp.configured_count; i++) name_add(list.configured[i]);
    if (ntp.configured_count > 0) return; // the operator's list is the list
    for (u32 i = 0; i < ntp.offered_count; i++) name_add(list.offered[i]);
    for (u32 i = 0; i < LIMIT_NTP_FALLBACK && ntp.offered_count < 3; i++) name_add(fallback[i]);
}

void init_clock_servers(const char *const *servers, u32 count, bool from_config) {
    char (*names)[LIMIT_NTP_NAME_BYTES] = from_config ? list.configured : list.offered;
    u32 *list_count = from_config ? &ntp.configured_count : &ntp.offered_count;
    char before[LIMIT_NTP_SERVERS][LIMIT_NTP_NAME_BYTES];
    u32 before_count = *list_count;
    memcpy(before, names, sizeof(before));
    memset(names, 0, sizeof(before));
    *list_count = 0;
    for (u32 i = 0; i < count && *list_count < LIMIT_NTP_SERVERS; i++) {
        if (strlen(servers[i]) >= LIMIT_NTP_NAME_BYTES) init_warn("time server: name too long: %.40s...", servers[i]);
        else snprintf(names[(*list_count)++], LIMIT_NTP_NAME_BYTES, "%s", servers[i]);
    }
    bool same = before_count == *list_count && memcmp(before, names, sizeof(before)) == 0;
    if (!same && ntp.begun) sntp_begin();
}

// --- one server ---

static void server_close(server *s) {
    if (s->watch.fd < 0) return;
    init_loop_unwatch(&s->watch);
    close(s->watch.fd);
    s->watch.fd = -1;
}

static void server_done(server *s, sntp_verdict verdict) {
    server_close(s);
    s->verdict = verdict;
    if (verdict == SNTP_KISS_DENY) s->denied = true;
    if (verdict == SNTP_KISS_RATE) s->hold_until_ns = clock_mono_ns() + LIMIT_NTP_HOLD_MS * NS_PER_MS;
    ASSERT(ntp.waiting > 0);
    if (--ntp.waiting == 0) init_timer_set(&ntp.over, 0);
}

static void server_ready(init_watch *w, u32 events) {
    server *s = CONTAINER_OF(w, server, watch);
    u8 data[512];
    (void)events;
    ssize_t n = recv(w->fd, data, sizeof(data), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n < 0) { // the network says that nobody is there
        server_done(s, SNTP_NO_ANSWER);
        return;
    }
    sntp_times times = {.sent_ns = s->sent_real_ns};
    times.received_ns = s->sent_real_ns + (i64)(clock_mono_ns() - s->sent_mono_ns);
    sntp_verdict v = sntp_answer_read(data, (size_t)n, s->nonce, clock_build_s(), &times, &s->sample);
    // Not an answer to this request: whoever sent it, the real answer may still come.
    if (v == SNTP_SHORT || v == SNTP_NOT_SERVER || v == SNTP_NOT_OURS) return;
    server_done(s, v);
}

static bool server_send(server *s) {
    u8 request[SNTP_BYTES];
    if (getrandom(&s->nonce, sizeof(s->nonce), GRND_NONBLOCK) != (ssize_t)sizeof(s->nonce)) return false;
    sntp_request_write(request, s->nonce);
    s->sent_real_ns = (i64)clock_real_ns();
    s->sent_mono_ns = clock_mono_ns();
    return send(s->watch.fd, request, sizeof(request), MSG_DONTWAIT) == (ssize_t)sizeof(request);
}

static bool server_ask(server *s) {
    if (s->denied || s->hold_until_ns > clock_mono_ns()) return false;
    s->verdict = SNTP_NO_ANSWER;
    int fd = socket(s->address.addr.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return false;
    s->watch = (init_watch){.name = "time server", .on_ready = server_ready, .fd = fd};
    // Connected: only this address is heard, and the network's refusals are.
    bool ok = connect(fd, &s->address.addr.any, s->address.len) == 0 && server_send(s) &&
              init_loop_watch(&s->watch, EPOLLIN) == 0;
    if (ok) return true;
    close(fd);
    s->watch.fd = -1;
    return false;
}

// --- rounds ---

static void next_round(u64 ms) {
    init_timer_set(&ntp.due, ntp.renewed ? LIMIT_NTP_FIRST_MS : ms);
}

static void poll_grow(i64 offset_ns) {
    bool good = offset_ns < LIMIT_NTP_GOOD_NS && offset_ns > -LIMIT_NTP_GOOD_NS;
    ntp.poll_s = good ? MIN(ntp.poll_s * 2, LIMIT_NTP_POLL_MAX_S) : LIMIT_NTP_POLL_MIN_S;
}

// Only one server there is: the same answer several times in a row.
static bool single_is_steady(const sntp_sample *sample) {
    i64 change = sample->offset_ns - ntp.single_offset_ns;
    bool same = ntp.single_rounds > 0 && change < LIMIT_NTP_STEP_NS && change > -LIMIT_NTP_STEP_NS;
    ntp.single_rounds = same ? ntp.single_rounds + 1 : 1;
    ntp.single_offset_ns = sample->offset_ns;
    return ntp.single_rounds >= LIMIT_NTP_SINGLE_ROUNDS || clock_is_synced();
}

static void round_failed(u32 answers) {
    ntp.failed_rounds++;
    bool tell = IS_POWER_OF_TWO(ntp.failed_rounds) || ntp.failed_rounds % 64 == 0;
    if (tell && ntp.server_count == 0) {
        init_warn("clock: no time server's address is known yet");
    } else if (tell) {
        init_warn("clock: %u of %u time servers answered, and no majority agrees; asked again", answers,
                  ntp.server_count);
    }
    ntp.look_up = true; // addresses may have changed, or the resolver was not there yet
    u64 doublings = MIN(ntp.failed_rounds, 6u);
    next_round(MIN((u64)LIMIT_NTP_RETRY_MS << doublings, (u64)LIMIT_NTP_POLL_MIN_S * 1000 * 4));
}

static void round_judge(void) {
    sntp_sample samples[LIMIT_NTP_ADDRESSES] = {0};
    u32 from[LIMIT_NTP_ADDRESSES], count = 0;
    for (u32 i = 0; i < ntp.server_count; i++) {
        if (list.servers[i].verdict != SNTP_GOOD) continue;
        from[count] = i;
        samples[count++] = list.servers[i].sample;
    }
    int chosen = sntp_agree(samples, count);
    bool single = count == 1 && ntp.server_count == 1;
    if (single) {
        if (!single_is_steady(&samples[0])) {
            next_round(LIMIT_NTP_RETRY_MS);
            return;
        }
        if (!clock_is_synced()) init_warn("clock: there is one time server only; it is believed, no other confirms it");
        chosen = 0;
    }
    if (chosen < 0) {
        round_failed(count);
        return;
    }
    ntp.failed_rounds = 0;
    const sntp_sample *s = &samples[chosen];
    poll_grow(s->offset_ns);
    clock_correct(s->offset_ns, s->distance_ns, ntp.poll_s, list.servers[from[chosen]].text);
    next_round(ntp.poll_s * 1000ull);
}

static void round_over(init_timer *t) {
    (void)t;
    for (u32 i = 0; i < ntp.server_count; i++) server_close(&list.servers[i]);
    ntp.waiting = 0;
    round_judge();
}

static void round_ask(void) {
    ntp.waiting = 0;
    for (u32 i = 0; i < ntp.server_count; i++) {
        server *s = &list.servers[i];
        s->verdict = s->denied ? SNTP_KISS_DENY : s->hold_until_ns > clock_mono_ns() ? SNTP_KISS_RATE : SNTP_NO_ANSWER;
        if (server_ask(s)) ntp.waiting++;
    }
    init_timer_set(&ntp.over, ntp.waiting > 0 ? LIMIT_NTP_ANSWER_MS : 0);
}

static bool address_equal(const sntp_address *a, const sntp_address *b) {
    return a->len == b->len && memcmp(&a->addr, &b->addr, a->len) == 0;
}

static void server_add(const sntp_address *address) {
    for (u32 i = 0; i < ntp.server_count; i++) {
        if (address_equal(&list.servers[i].address, address)) return;
    }
    server *s = &list.servers[ntp.server_count++];
    *s = (server){.watch.fd = -1, .address = *address, .verdict = SNTP_NO_ANSWER};
    bool v4 = address->addr.any.sa_family == AF_INET;
    const void *bytes = v4 ? (const void *)&address->addr.v4.sin_addr : (const void *)&address->addr.v6.sin6_addr;
    if (inet_ntop(address->addr.any.sa_family, bytes, s->text, sizeof(s->text)) == NULL) s->text[0] = '\0';
}

static void names_resolved(const sntp_address *found, u32 n) {
    if (n > 0) {
        // Who asked not to be asked stays unasked also when the names are looked up again.
        static server before[LIMIT_NTP_ADDRESSES];
        u32 before_count = ntp.server_count;
        memcpy(before, list.servers, sizeof(before));
        ntp.server_count = 0;
        for (u32 i = 0; i < n; i++) server_add(&found[i]);
        for (u32 i = 0; i < ntp.server_count; i++) {
            for (u32 k = 0; k < before_count; k++) {
                if (!address_equal(&list.servers[i].address, &before[k].address)) continue;
                list.servers[i].denied = before[k].denied;
                list.servers[i].hold_until_ns = before[k].hold_until_ns;
            }
        }
    } else {
        ntp.look_up = true;
    }
    round_ask();
}

static void round_due(init_timer *t) {
    (void)t;
    ntp.renewed = false;
    if (!ntp.look_up) {
        round_ask();
        return;
    }
    ntp.look_up = false;
    names_choose();
    int result = sntp_resolve(list.names, ntp.name_count, names_resolved);
    if (result == 0) return;
    ntp.look_up = true;
    next_round(LIMIT_NTP_RETRY_MS);
}

void sntp_begin(void) {
    ntp.begun = ntp.look_up = ntp.renewed = true;
    ntp.failed_rounds = 0;
    // A round under way ends first, and the next follows at once.
    if (ntp.over.armed || sntp_resolve_is_running()) return;
    next_round(LIMIT_NTP_FIRST_MS);
}

void sntp_end(void) {
    init_timer_clear(&ntp.due);
    init_timer_clear(&ntp.over);
    for (u32 i = 0; i < ntp.server_count; i++) server_close(&list.servers[i]);
    ntp.begun = false;
}

void sntp_describe(yyjson_mut_doc *doc, yyjson_mut_val *to) {
    yyjson_mut_obj_add_uint(doc, to, "poll_s", ntp.poll_s);
    yyjson_mut_obj_add_uint(doc, to, "failed_rounds", ntp.failed_rounds);
    yyjson_mut_val *array = yyjson_mut_obj_add_arr(doc, to, "servers");
    for (u32 i = 0; i < ntp.server_count; i++) {
        const server *s = &list.servers[i];
        yyjson_mut_val *item = yyjson_mut_arr_add_obj(doc, array);
        yyjson_mut_obj_add_str(doc, item, "address", s->text);
        const char *name = s->address.server < ntp.name_count ? list.names[s->address.server] : "";
        yyjson_mut_obj_add_str(doc, item, "name", name);
        yyjson_mut_obj_add_str(doc, item, "last", sntp_verdict_name(s->verdict));
        if (s->verdict != SNTP_GOOD) continue;
        yyjson_mut_obj_add_uint(doc, item, "stratum", s->sample.stratum);
        yyjson_mut_obj_add_real(doc, item, "offset_ms", (double)s->sample.offset_ns / 1e6);
        yyjson_mut_obj_add_real(doc, item, "delay_ms", (double)s->sample.delay_ns / 1e6);
    }
}
