// SPDX-License-Identifier: Apache-2.0
// The parts of init that look at the machine, on directories and descriptors made here: command line, partitions by
// name, identity, the kernel's crash records; and its loop: timers, descriptors, children.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/input-event-codes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/buttons.h"
#include "init/cmdline.h"
#include "init/control.h"
#include "init/identity.h"
#include "init/init_log.h"
#include "init/loop.h"
#include "init/partition.h"
#include "init/pstore.h"
#include "init/state.h"

static char dir[64];

static int make_dir(void **state) {
    (void)state;
    strcpy(dir, "/tmp/sluice-parts-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static int remove_dir(void **state) {
    char command[96];
    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command);
}

static void put_file(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void make_sub(const char *name) {
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

static bool exists(const char *name) {
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

// --- command line ---

static u32 words;

static void count_word(void *context, const char *key, const char *value) {
    (void)context;
    (void)key;
    (void)value;
    words++;
}

static void test_cmdline(void **state) {
    (void)state;
    init_cmdline_set("  quiet panic=5 a=1 sluice.conf.x=\"two words\" \"k e=v\" a=2 empty= =odd url=http://h/?q=1\n");
    assert_string_equal(init_cmdline_get("quiet"), "");
    assert_string_equal(init_cmdline_get("panic"), "5");
    assert_string_equal(init_cmdline_get("a"), "2"); // the last one
    assert_string_equal(init_cmdline_get("sluice.conf.x"), "two words");
    assert_string_equal(init_cmdline_get("k e"), "v");
    assert_string_equal(init_cmdline_get("empty"), "");
    assert_string_equal(init_cmdline_get("url"), "http://h/?q=1");
    assert_null(init_cmdline_get("nothing"));
    words = 0;
    init_cmdline_each(count_word, NULL);
    assert_int_equal(words, 9);
    init_cmdline_set("");
    assert_null(init_cmdline_get("quiet"));
    init_cmdline_set("\"unfinished quote");
    assert_string_equal(init_cmdline_get("unfinished quote"), "");
}

// --- partitions ---

static void test_partition(void **state) {
    char path[32];
    (void)state;
    make_sub("sda");
    make_sub("sda1");
    make_sub("nvme0n1p3");
    put_file("sda/uevent", "MAJOR=8\nDEVNAME=sda\nDEVTYPE=disk\n");
    put_file("sda1/uevent", "DEVNAME=sda1\nPARTN=1\nPARTNAME=sluice-stat\n");
    put_file("nvme0n1p3/uevent", "MAJOR=259\nDEVNAME=nvme0n1p3\nDEVTYPE=partition\nPARTN=3\nPARTNAME=sluice-state");
    assert_int_equal(init_partition_find_in(dir, "sluice-state", path, sizeof(path)), 0);
    assert_string_equal(path, "/dev/nvme0n1p3");
    assert_int_equal(init_partition_find_in(dir, "sluice-data", path, sizeof(path)), -ENOENT);
    assert_int_equal(init_partition_find_in(dir, "sluice-state", path, 8), -ENAMETOOLONG);
    assert_int_equal(init_partition_find_in("/nowhere/at/all", "x", path, sizeof(path)), -ENOENT);
}

// --- identity ---

static void test_uuid(void **state) {
    static const char *const wrong[] = {
        "", "x", "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "03000200-0400-0500-0006-000700080009", "12345678-1234-1234-1234-12345678901", "Not Settable",
        "12345678-1234-1234-1234-1234567890123",
    };
    u8 uuid[MACHINE_ID_BYTES];
    (void)state;
    for (u32 i = 0; i < ARRAY_LEN(wrong); i++) assert_false(identity_uuid_parse(wrong[i], uuid));
    assert_true(identity_uuid_parse("4C4C4544-0042-3110-8035-b4c04f565431\n", uuid));
    assert_int_equal(uuid[0], 0x4c);
    assert_int_equal(uuid[15], 0x31);
}

static void test_identity(void **state) {
    static const u8 here[MACHINE_ID_BYTES] = {1, 2, 3}, there[MACHINE_ID_BYTES] = {9, 8, 7};
    char path[128], id[40];
    const char *why;
    (void)state;
    put_file("record", "");
    snprintf(path, sizeof(path), "%s/record", dir);
    assert_int_equal(truncate(path, STATE_SLOT_STRIDE + STATE_SLOT_BYTES), 0);
    state_open(path, &why);
    assert_int_equal(identity_decide(here, false), IDENTITY_NEW);
    snprintf(id, sizeof(id), "%s", init_machine_id());
    assert_int_equal(strlen(id), 32);
    assert_memory_equal(init_hostname(), "sluice-", 7);
    assert_memory_equal(init_hostname() + 7, id, 8);
    state_open(path, &why); // the next boot: it was on disk already
    assert_int_equal(identity_decide(here, false), IDENTITY_KEPT);
    assert_string_equal(init_machine_id(), id);
    assert_int_equal(identity_decide(NULL, false), IDENTITY_KEPT); // firmware that has forgotten its UUID
    assert_string_equal(init_machine_id(), id);
    assert_int_equal(identity_decide(there, false), IDENTITY_CLONE); // the disk in another machine
    assert_string_not_equal(init_machine_id(), id);
    snprintf(id, sizeof(id), "%s", init_machine_id());
    assert_int_equal(identity_decide(there, false), IDENTITY_KEPT);
    assert_string_equal(init_machine_id(), id);
    state_open(NULL, &why);
    assert_int_equal(identity_decide(here, false), IDENTITY_HARDWARE);
    assert_memory_equal(init_machine_id(), "010203", 6);
    state_open(NULL, &why);
    assert_int_equal(identity_decide(NULL, false), IDENTITY_RAM);
}

// --- keys ---

static void test_keys(void **state) {
    button_held held = {false, false};
    (void)state;
    assert_int_equal(buttons_key(&held, KEY_POWER, 1), BUTTON_POWER);
    assert_int_equal(buttons_key(&held, KEY_POWER, 2), BUTTON_NOTHING); // held down
    assert_int_equal(buttons_key(&held, KEY_POWER, 0), BUTTON_NOTHING);
    assert_int_equal(buttons_key(&held, KEY_DELETE, 1), BUTTON_NOTHING);
    buttons_key(&held, KEY_RIGHTCTRL, 1);
    assert_int_equal(buttons_key(&held, KEY_DELETE, 1), BUTTON_NOTHING);
    buttons_key(&held, KEY_LEFTALT, 1);
    buttons_key(&held, KEY_LEFTALT, 2);
    assert_int_equal(buttons_key(&held, KEY_DELETE, 1), BUTTON_RESTART);
    assert_int_equal(buttons_key(&held, KEY_DELETE, 2), BUTTON_NOTHING);
    buttons_key(&held, KEY_RIGHTCTRL, 0);
    assert_int_equal(buttons_key(&held, KEY_DELETE, 1), BUTTON_NOTHING);
    assert_int_equal(buttons_key(&held, KEY_A, 1), BUTTON_NOTHING);
}

// --- crash records ---

static void test_pstore(void **state) {
    char store[96], keep[96], name[64];
    (void)state;
    make_sub("store");
    make_sub("data");
    snprintf(store, sizeof(store), "%s/store", dir);
    snprintf(keep, sizeof(keep), "%s/data", dir);
    pstore_collect_from(store);
    assert_int_equal(pstore_count(), 0);
    pstore_keep_in(keep, 1);
    assert_false(exists("data/crash"));
    for (u64 boot = 1; boot <= LIMIT_PSTORE_KEEP + 3; boot++) {
        put_file("store/dmesg-ramoops-0", "Oops\n");
        pstore_collect_from(store);
        assert_int_equal(pstore_count(), 1);
        assert_true(pstore_has_panic());
        pstore_keep_in(keep, boot);
        assert_false(exists("store/dmesg-ramoops-0")); // room for the next crash
    }
    assert_false(exists("data/crash/pstore-00000003-dmesg-ramoops-0"));
    assert_true(exists("data/crash/pstore-00000004-dmesg-ramoops-0"));
    snprintf(name, sizeof(name), "data/crash/pstore-%08u-dmesg-ramoops-0", LIMIT_PSTORE_KEEP + 3);
    assert_true(exists(name));
    put_file("store/console-efi-1", "more\xff\n");
    pstore_collect_from(store);
    assert_false(pstore_has_panic()); // the console's log is left by every warm restart
    pstore_keep_in(NULL, 1); // no data partition: in memory only
    assert_int_equal(pstore_count(), 1);
    assert_false(exists("store/console-efi-1"));
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    pstore_describe(doc, root);
    char *json = yyjson_mut_write(doc, 0, NULL);
    assert_non_null(strstr(json, "more?\\n"));
    free(json);
    yyjson_mut_doc_free(doc);
}

// --- loop ---

static char order[16];

static void note_timer(init_timer *t) {
    strcat(order, t->name);
}

static void set_again(init_timer *t) {
    strcat(order, t->name);
    if (strlen(order) < 8) init_timer_set(t, 0);
}

static void test_timers(void **state) {
    init_timer a = {.name = "a", .on_fire = note_timer}, b = {.name = "b", .on_fire = note_timer};
    init_timer c = {.name = "c", .on_fire = note_timer}, again = {.name = "x", .on_fire = set_again};
    (void)state;
    order[0] = 0;
    assert_int_equal(init_loop_open(), 0);
    init_timer_set(&b, 20);
    init_timer_set(&a, 1);
    init_timer_set(&c, 5);
    init_timer_set(&c, 40); // moved
    for (int i = 0; i < 50 && strlen(order) < 3; i++) init_loop_turn(-1);
    assert_string_equal(order, "abc");
    order[0] = 0;
    init_timer_set(&again, 0);
    init_timer_set(&a, 10);
    init_timer_clear(&a);
    init_timer_clear(&a);
    for (int i = 0; i < 50 && strlen(order) < 8; i++) init_loop_turn(10);
    assert_string_equal(order, "xxxxxxxx"); // once a turn, others get theirs
    init_loop_close();
}

static int fds[2][2];
static init_watch watch_a, watch_b;
static u32 ready_calls;

static void remove_both(init_watch *w, u32 events) {
    (void)w;
    assert_true((events & (u32)EPOLLIN) != 0);
    ready_calls++;
    init_loop_unwatch(&watch_a);
    init_loop_unwatch(&watch_b);
}

// Both are ready in one turn; the first callback removes both: the second must not run.
static void test_removed_watch_is_not_called(void **state) {
    (void)state;
    assert_int_equal(init_loop_open(), 0);
    for (u32 i = 0; i < 2; i++) {
        assert_int_equal(pipe(fds[i]), 0);
        assert_int_equal(write(fds[i][1], "x", 1), 1);
    }
    watch_a = (init_watch){.name = "a", .on_ready = remove_both, .fd = fds[0][0]};
    watch_b = (init_watch){.name = "b", .on_ready = remove_both, .fd = fds[1][0]};
    ready_calls = 0;
    assert_int_equal(init_loop_watch(&watch_a, EPOLLIN), 0);
    assert_int_equal(init_loop_watch(&watch_b, EPOLLIN), 0);
    init_loop_turn(0);
    init_loop_turn(0);
    assert_int_equal(ready_calls, 1);
    init_loop_unwatch(&watch_a);
    for (u32 i = 0; i < 2; i++) {
        close(fds[i][0]);
        close(fds[i][1]);
    }
    init_loop_close();
}

static int last_status;
static u32 exits;

static void note_exit(init_child *c, int status) {
    assert_int_equal(c->pid, 0);
    last_status = status;
    exits++;
}

static int helper(void *context) {
    init_info("a line of the helper");
    return *(int *)context;
}

static void wait_exits(u32 count) {
    for (int i = 0; i < 500 && exits < count; i++) {
        init_loop_turn(10);
        init_child_reap();
    }
    for (int i = 0; i < 5; i++) init_loop_turn(10); // the rest of the output
    assert_int_equal(exits, count);
}

static void test_children(void **state) {
    char text[4096];
    int value = 42;
    char program[] = "/bin/sh", option[] = "-c", script[] = "echo to stdout; echo to stderr >&2; exit 3";
    char *argv[] = {program, option, script, NULL};
    char missing[] = "/nowhere/at/all";
    char *absent[] = {missing, NULL};
    init_child c = {.name = "child", .on_exit = note_exit};
    (void)state;
    assert_int_equal(init_loop_open(), 0);
    exits = 0;
    assert_int_equal(init_child_fork(&c, helper, &value), 0);
    wait_exits(1);
    assert_int_equal(WEXITSTATUS(last_status), 42);
    c.plain_log = false;
    assert_int_equal(init_child_exec(&c, argv, NULL, -1, -1, -1), 0);
    wait_exits(2);
    assert_int_equal(WEXITSTATUS(last_status), 3);
    assert_int_equal(init_child_exec(&c, absent, NULL, -1, -1, -1), 0);
    wait_exits(3);
    assert_int_equal(WEXITSTATUS(last_status), 127);
    char long_sleep[] = "sleep 60";
    argv[2] = long_sleep;
    assert_int_equal(init_child_exec(&c, argv, NULL, -1, -1, -1), 0);
    init_child_signal(&c, SIGKILL);
    wait_exits(4);
    assert_true(WIFSIGNALED(last_status));
    size_t len = init_log_tail(text, sizeof(text) - 1);
    text[len] = 0;
    assert_non_null(strstr(text, "a line of the helper\n"));
    assert_non_null(strstr(text, "child: to stdout\n"));
    assert_non_null(strstr(text, "child: to stderr\n"));
    assert_non_null(strstr(text, "/nowhere/at/all could not be started: ENOENT"));
    init_loop_close();
}

static void test_log_tail(void **state) {
    static char text[LIMIT_INIT_LOG_BYTES];
    char small[100];
    (void)state;
    for (u32 i = 0; i < 1500; i++)
        init_log(LOG_INFO, "line %u of many, long enough to go round the ring once or twice", i);
    size_t len = init_log_tail(text, sizeof(text));
    assert_in_range(len, sizeof(text) - 200, sizeof(text));
    assert_int_equal(text[len - 1], '\n');
    assert_memory_equal(text, "20", 2); // a whole line: it begins with its time
    len = init_log_tail(small, sizeof(small));
    assert_true(len == 0 || (small[len - 1] == '\n' && memcmp(small, "20", 2) == 0));
}

// What a program says can not forge a line or drive the console.
static void test_log_escapes(void **state) {
    char text[512];
    (void)state;
    init_log_child_text(NULL, "evil\x1b[2J\rline", 13);
    size_t len = init_log_tail(text, sizeof(text) - 1);
    text[len] = 0;
    assert_null(strchr(text, '\x1b'));
    assert_non_null(strstr(text, "evil\\x1b[2J\\rline\n"));
}

#define DIR_TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cmdline),
        DIR_TEST(test_partition),
        cmocka_unit_test(test_uuid),
        DIR_TEST(test_identity),
        cmocka_unit_test(test_keys),
        DIR_TEST(test_pstore),
        cmocka_unit_test(test_timers),
        cmocka_unit_test(test_removed_watch_is_not_called),
        cmocka_unit_test(test_children),
        cmocka_unit_test(test_log_tail),
        cmocka_unit_test(test_log_escapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
