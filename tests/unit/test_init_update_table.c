// SPDX-License-Identifier: Apache-2.0
// test_init_update_table.c: the update's states and events, how the loader says it started us, and base64.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/base64.h"
#include "init/boot_slot.h"
#include "init/cmdline.h"
#include "init/update_fetch.h"
#include "init/update_table.h"

static update_state after(update_state state, update_event event, update_action action) {
    update_step step = update_table(state, event);
    assert_int_equal(step.action, action);
    return step.next;
}

static void test_good_update(void **state) {
    (void)state;
    update_state s = after(UPDATE_IDLE, UPDATE_BEGIN, UPDATE_WRITE);
    s = after(s, UPDATE_DONE, UPDATE_RESTART);
    assert_int_equal(s, UPDATE_WRITTEN);
    s = after(UPDATE_TRIAL, UPDATE_HEALTHY, UPDATE_BLESS);
    s = after(s, UPDATE_FAILED, UPDATE_NOTHING); // the environment could not be written: tried again
    assert_int_equal(s, UPDATE_TRIAL);
    s = after(s, UPDATE_HEALTHY, UPDATE_BLESS);
    assert_int_equal(after(s, UPDATE_BLESSED, UPDATE_RECORD), UPDATE_IDLE);
}

static void test_everything_else(void **state) {
    (void)state;
    // Only an idle system takes an update, only one on trial goes back or is confirmed.
    for (update_state s = UPDATE_OFF; s < UPDATE_STATES; s++) {
        for (update_event e = UPDATE_BEGIN; e < UPDATE_EVENTS; e++) {
            update_step step = update_table(s, e);
            assert_true(step.next < UPDATE_STATES);
            assert_int_equal(step.action == UPDATE_WRITE, s == UPDATE_IDLE && e == UPDATE_BEGIN);
            assert_int_equal(step.action == UPDATE_BLESS, s == UPDATE_TRIAL && e == UPDATE_HEALTHY);
            assert_int_equal(step.action == UPDATE_ROLL_BACK, s == UPDATE_TRIAL && e == UPDATE_DEADLINE);
            if (s == UPDATE_OFF) assert_int_equal(step.next, UPDATE_OFF);
            if (step.action == UPDATE_REFUSE) assert_int_equal(step.next, s);
        }
        assert_true(strlen(update_state_name(s)) > 1 && strlen(update_refusal(s)) > 10);
    }
}

static void expect_slot(const char *line, char slot, bool can_fall_back, bool trial, bool fallback) {
    boot_slot b;
    init_cmdline_set(line);
    boot_slot_read(&b);
    assert_int_equal(b.slot, slot);
    assert_int_equal(b.can_fall_back, can_fall_back);
    assert_int_equal(b.trial, trial);
    assert_int_equal(b.fallback, fallback);
}

static void test_boot_slot(void **state) {
    (void)state;
    expect_slot("sluice.slot=a sluice.loader=grub", 'a', true, false, false);
    expect_slot("quiet sluice.slot=b sluice.loader=grub sluice.try=1", 'b', true, true, false);
    expect_slot("sluice.slot=b sluice.loader=grub sluice.fallback=1", 'b', true, false, true);
    expect_slot("sluice.slot=a sluice.loader=extlinux sluice.try=1", 'a', false, false, false);
    expect_slot("sluice.slot=c sluice.loader=grub", 0, false, false, false);
    expect_slot("console=ttyS0", 0, false, false, false);
}

static void test_base64(void **state) {
    (void)state;
    // RFC 4648 section 10.
    static const char *const vectors[][2] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"},
                                             {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}};
    static const char *const bad[] = {"Z", "Zg=", "Zg==Zg==", "Zh==", "Zm9=", "Zm 9", "====", "Z===", "Zg=a", "Zm9\n"};
    char text[64];
    u8 data[64];
    for (u32 i = 0; i < ARRAY_LEN(vectors); i++) {
        size_t len = strlen(vectors[i][0]);
        base64_encode((const u8 *)vectors[i][0], len, text);
        assert_int_equal(BASE64_CHARS(len), strlen(vectors[i][1]));
        assert_memory_equal(text, vectors[i][1], BASE64_CHARS(len));
        assert_int_equal(base64_decode(text, BASE64_CHARS(len), data), len);
        assert_memory_equal(data, vectors[i][0], len);
    }
    for (u32 i = 0; i < ARRAY_LEN(bad); i++) assert_int_equal(base64_decode(bad[i], strlen(bad[i]), data), -EINVAL);
}

static void test_urls(void **state) {
    (void)state;
    char longest[2000];
    memset(longest, 'a', sizeof(longest));
    memcpy(longest, "http://", 7);
    longest[sizeof(longest) - 1] = '\0';
    assert_null(update_fetch_check("http://host/path?x=1"));
    assert_null(update_fetch_check("http://[::1]:8080"));
    assert_non_null(update_fetch_check("https://host/"));
    assert_non_null(update_fetch_check("ftp://host/"));
    assert_non_null(update_fetch_check("http:///x"));
    assert_non_null(update_fetch_check("http://user@host/"));
    assert_non_null(update_fetch_check("http://host/a b"));
    assert_non_null(update_fetch_check("http://host/\r\nX: y"));
    assert_non_null(update_fetch_check(longest));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_update), cmocka_unit_test(test_everything_else), cmocka_unit_test(test_boot_slot),
        cmocka_unit_test(test_base64),      cmocka_unit_test(test_urls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
