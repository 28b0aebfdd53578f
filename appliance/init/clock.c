// SPDX-License-Identifier: Apache-2.0
// clock.c: see clock.h.
#include "init/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/rtc.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include "init/control.h"
#include "init/init_log.h"
#include "init/loop.h"
#include "init/sntp.h"
#include "init/state.h"
#include "limits.h"
#include "version.h"

#define KEY_SAVED "saved_time"
#define RTC_PATH "/dev/rtc0"

static void save_fired(init_timer *t);

static struct {
    bool synced, rtc_present, stepped;
    clock_source floor_source;
    u64 synced_ns;           // monotonic, of the last correction
    i64 last_offset_ns;
    u64 last_error_ns;
    u32 corrections, steps, large_in_a_row;
    i64 large_offset_ns;
    u64 rtc_written_ns;
    char server[64];
    init_timer save;
} clk = {.save = {.name = "clock save", .on_fire = save_fired}};

static const char *const source_names[] = {
    [CLOCK_KERNEL] = "kernel", [CLOCK_RTC] = "hardware clock", [CLOCK_BUILD] = "build", [CLOCK_SAVED] = "saved time"};

// --- the floor ---

i64 clock_parse(const char *text) {
    struct tm tm = {0};
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    if (end == NULL || *end != '\0') return 0;
    return (i64)timegm(&tm);
}

i64 clock_build_s(void) {
    return clock_parse(SLUICE_BUILD_DATE);
}

static bool is_sane(i64 s, i64 build_s) {
    return s > 0 && s < build_s + (i64)LIMIT_CLOCK_AHEAD_S;
}

i64 clock_floor(i64 kernel_s, i64 rtc_s, i64 build_s, i64 saved_s, clock_source *source) {
    i64 best = kernel_s;
    *source = CLOCK_KERNEL;
    // The kernel's own time comes from the same hardware clock, or from nowhere.
    if (!is_sane(kernel_s, build_s)) best = 0;
    if (is_sane(rtc_s, build_s) && rtc_s > best) {
        best = rtc_s;
        *source = CLOCK_RTC;
    }
    if (build_s > best) {
        best = build_s;
        *source = CLOCK_BUILD;
    }
    if (is_sane(saved_s, build_s) && saved_s > best) {
        best = saved_s;
        *source = CLOCK_SAVED;
    }
    return best;
}

u64 clock_to_save_s(u64 now_ns) {
    return now_ns / NS_PER_S + (now_ns % NS_PER_S != 0);
}

// --- the hardware clock, in UTC ---

static i64 rtc_read(void) {
    struct rtc_time rt = {0};
    int fd = open(RTC_PATH, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    clk.rtc_present = true;
    int result = ioctl(fd, RTC_RD_TIME, &rt);
    close(fd);
    if (result < 0) return 0; // its battery is empty: the driver knows that its time is not valid
    struct tm tm = {.tm_sec = rt.tm_sec, .tm_min = rt.tm_min, .tm_hour = rt.tm_hour, .tm_mday = rt.tm_mday,
                    .tm_mon = rt.tm_mon, .tm_year = rt.tm_year};
    return (i64)timegm(&tm);
}

static void rtc_write(void) {
    time_t now = time(NULL);
    struct tm tm;
    if (!clk.rtc_present || gmtime_r(&now, &tm) == NULL) return;
    int fd = open(RTC_PATH, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    struct rtc_time rt = {.tm_sec = tm.tm_sec, .tm_min = tm.tm_min, .tm_hour = tm.tm_hour, .tm_mday = tm.tm_mday,
                          .tm_mon = tm.tm_mon, .tm_year = tm.tm_year};
    if (ioctl(fd, RTC_SET_TIME, &rt) < 0) init_warn("hardware clock: could not be set: %s", errno_name(errno));
    else clk.rtc_written_ns = clock_mono_ns();
    close(fd);
}

// --- boot, saving ---

static const char *time_text(char out[32]) {
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return out;
}

void clock_floor_apply(void) {
    i64 kernel_s = (i64)time(NULL);
    i64 rtc_s = rtc_read();
    i64 saved_s = (i64)MIN(state_get_u64(KEY_SAVED, 0), (u64)INT64_MAX);
    i64 floor_s = clock_floor(kernel_s, rtc_s, clock_build_s(), saved_s, &clk.floor_source);
    char text[32];
    if (floor_s != kernel_s) {
        struct timespec ts = {.tv_sec = (time_t)floor_s};
        if (clock_settime(CLOCK_REALTIME, &ts) < 0) init_error("clock: %s", errno_name(errno));
    }
    init_info("clock %s from: %s%s", time_text(text), source_names[clk.floor_source], rtc_s != 0 ? "" : clk.rtc_present
              ? " (the hardware clock has no valid time)" : " (no hardware clock)");
}

void clock_save_now(void) {
    u64 now_s = clock_to_save_s(clock_real_ns());
    // Ahead only: a clock that was put back by servers is saved as it is.
    if (clk.synced || now_s > state_get_u64(KEY_SAVED, 0)) state_put_u64(KEY_SAVED, now_s);
    if (clk.synced) rtc_write();
}

static void save_fired(init_timer *t) {
    clock_save_now();
    init_timer_set(t, LIMIT_CLOCK_SAVE_MS);
}

void clock_start(void) {
    // The first time soon, so that a machine that is switched off after minutes moves on at all.
    init_timer_set(&clk.save, LIMIT_CLOCK_FIRST_SAVE_MS);
}

void clock_network_up(void) {
    sntp_begin();
}

// --- corrections ---

bool clock_is_synced(void) {
    return clk.synced;
}

static bool step(i64 offset_ns, const char *server) {
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    i64 target_ns = (i64)ts.tv_sec * (i64)NS_PER_S + ts.tv_nsec + offset_ns;
    ts.tv_sec = (time_t)(target_ns / (i64)NS_PER_S);
    ts.tv_nsec = (long)(target_ns % (i64)NS_PER_S);
    if (clock_settime(CLOCK_REALTIME, &ts) < 0) {
        init_error("clock: could not be set: %s", errno_name(errno));
        return false;
    }
    clk.steps++;
    char text[32];
    init_info("clock stepped by %.3f s to %s (%s)", (double)offset_ns / 1e9, time_text(text), server);
    return true;
}

// The kernel's loop does the slewing, at most 500 ppm; it is told how wrong the time may be, so that
// programs can ask (adjtimex), and that the clock is synchronised.
static bool slew(i64 offset_ns, u64 error_ns, u32 poll_s) {
    u32 poll_log2 = 0;
    while (poll_s >> (poll_log2 + 1) != 0) poll_log2++;
    struct timex tx = {
        .modes = ADJ_OFFSET | ADJ_STATUS | ADJ_NANO | ADJ_TIMECONST | ADJ_MAXERROR | ADJ_ESTERROR,
        .offset = (long)offset_ns,
        .status = STA_PLL,
        .constant = MIN((long)poll_log2, 10l),
        .maxerror = (long)(error_ns / 1000),
        .esterror = (long)(error_ns / 1000),
    };
    if (adjtimex(&tx) >= 0) return true;
    init_error("clock: could not be adjusted: %s", errno_name(errno));
    return false;
}

// A large difference after the first step: a machine that was paused, or servers that are wrong together.
// It is believed when it has been the same for several rounds.
static bool large_is_confirmed(i64 offset_ns) {
    i64 change = offset_ns - clk.large_offset_ns;
    bool same = clk.large_in_a_row > 0 && change < LIMIT_NTP_STEP_NS && change > -LIMIT_NTP_STEP_NS;
    clk.large_in_a_row = same ? clk.large_in_a_row + 1 : 1;
    clk.large_offset_ns = offset_ns;
    return clk.large_in_a_row >= LIMIT_NTP_STEP_ROUNDS;
}

bool clock_correct(i64 offset_ns, u64 error_ns, u32 poll_s, const char *server) {
    bool large = offset_ns > LIMIT_NTP_STEP_NS || offset_ns < -LIMIT_NTP_STEP_NS;
    if (large && clk.stepped && !large_is_confirmed(offset_ns)) {
        init_warn("clock: %.3f s off by %s; stepped only if that stays so", (double)offset_ns / 1e9, server);
        return false;
    }
    clk.large_in_a_row = large ? clk.large_in_a_row : 0;
    // After a step there is nothing left to slew, but the kernel is told that the clock is right.
    bool done = large ? step(offset_ns, server) && slew(0, error_ns, poll_s) : slew(offset_ns, error_ns, poll_s);
    if (!done) return false;
    bool first = !clk.synced;
    clk.stepped = clk.synced = true;
    clk.synced_ns = clock_mono_ns();
    clk.last_offset_ns = offset_ns;
    clk.last_error_ns = error_ns;
    clk.corrections++;
    snprintf(clk.server, sizeof(clk.server), "%s", server);
    if (first) init_info("clock synchronised by %s, %.3f ms off", server, (double)offset_ns / 1e6);
    bool rtc_due = clk.rtc_written_ns == 0 || clk.synced_ns - clk.rtc_written_ns > LIMIT_RTC_WRITE_MS * NS_PER_MS;
    if (first || large || rtc_due) clock_save_now();
    return true;
}

void clock_describe(yyjson_mut_doc *doc, yyjson_mut_val *to) {
    char text[32];
    yyjson_mut_obj_add_strcpy(doc, to, "time", time_text(text));
    yyjson_mut_obj_add_bool(doc, to, "synced", clk.synced);
    yyjson_mut_obj_add_str(doc, to, "started_from", source_names[clk.floor_source]);
    yyjson_mut_obj_add_bool(doc, to, "hardware_clock", clk.rtc_present);
    if (clk.synced) {
        yyjson_mut_obj_add_str(doc, to, "server", clk.server);
        yyjson_mut_obj_add_real(doc, to, "offset_ms", (double)clk.last_offset_ns / 1e6);
        yyjson_mut_obj_add_real(doc, to, "error_ms", (double)clk.last_error_ns / 1e6);
        yyjson_mut_obj_add_uint(doc, to, "synced_s_ago", (clock_mono_ns() - clk.synced_ns) / NS_PER_S);
    }
    yyjson_mut_obj_add_uint(doc, to, "corrections", clk.corrections);
    yyjson_mut_obj_add_uint(doc, to, "steps", clk.steps);
    sntp_describe(doc, to);
}
