// SPDX-License-Identifier: Apache-2.0
// test_layout.c: which CPU does what, from descriptions of machines; and the kernel settings, from their
// memory.
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "init/layout.h"
#include "init/sysctl_table.h"

static layout_cpus cpus_of(const char *text) {
    layout_cpus c;
    assert_true(layout_parse_cpus(text, &c));
    return c;
}

// A virtio device with so many queue pairs, as its driver names its interrupts.
static layout_nic virtio(u32 queues) {
    layout_nic n = {.name = "eth0", .rx_queues = queues, .tx_queues = queues};
    snprintf(n.irqs[n.irq_count++].name, 48, "virtio2-config");
    for (u32 q = 0; q < queues; q++) {
        snprintf(n.irqs[n.irq_count++].name, 48, "virtio2-input.%u", q);
        snprintf(n.irqs[n.irq_count++].name, 48, "virtio2-output.%u", q);
    }
    for (u32 i = 0; i < n.irq_count; i++) {
        n.irqs[i].irq = 30 + i;
        n.irqs[i].role = layout_irq_role(n.irqs[i].name, &n.irqs[i].queue);
    }
    return n;
}

static void test_one_queue_each(void **state) {
    layout_cpus cpus = cpus_of("0-1\n");
    layout_nic nic = virtio(2);
    layout_plan p;
    (void)state;
    layout_make(&cpus, &nic, &p);
    assert_int_equal(p.irq_cpu[0], -1); // the device's own interrupt
    assert_int_equal(p.irq_cpu[1], 0);
    assert_int_equal(p.irq_cpu[2], 0);
    assert_int_equal(p.irq_cpu[3], 1);
    assert_int_equal(p.irq_cpu[4], 1);
    assert_int_equal(p.xps[0], 1);
    assert_int_equal(p.xps[1], 2);
    assert_int_equal(p.rps[0], 0);
    assert_int_equal(p.rps_flows, 0);
}

static void test_one_queue(void **state) {
    layout_cpus cpus = cpus_of("0-1"), one = cpus_of("0");
    layout_nic nic = virtio(1);
    layout_plan p;
    (void)state;
    layout_make(&cpus, &nic, &p);
    assert_int_equal(p.irq_cpu[1], 0);
    assert_int_equal(p.rps[0], 3);
    assert_int_equal(p.rps_flows, LAYOUT_RFS_ENTRIES);
    assert_int_equal(p.xps[0], 0);
    layout_make(&one, &nic, &p);
    assert_int_equal(p.rps[0], 0);
    assert_int_equal(p.rps_flows, 0);
}

static void test_shares(void **state) {
    layout_cpus cpus = cpus_of("0-7");
    layout_nic nic = virtio(4);
    layout_plan p;
    u64 all = 0;
    (void)state;
    layout_make(&cpus, &nic, &p);
    for (u32 q = 0; q < 4; q++) {
        assert_int_equal(p.rps[q], 3ull << (2 * q));
        assert_int_equal(p.xps[q], p.rps[q]);
        assert_int_equal(all & p.rps[q], 0);
        all |= p.rps[q];
        assert_int_equal(p.irq_cpu[1 + 2 * q], 2 * (int)q);
    }
    assert_int_equal(all, 0xff);
    assert_int_equal(p.rps_flows, LAYOUT_RFS_ENTRIES / 4);
    // CPUs with holes: ids, not positions.
    cpus = cpus_of("1,3,5");
    nic = virtio(3);
    layout_make(&cpus, &nic, &p);
    assert_int_equal(p.irq_cpu[5], 5);
    assert_int_equal(p.xps[1], 1u << 3);
}

static void test_more_queues_than_cpus(void **state) {
    layout_cpus cpus = cpus_of("0-1");
    layout_nic nic = virtio(5);
    layout_plan p;
    (void)state;
    layout_make(&cpus, &nic, &p);
    for (u32 q = 0; q < 5; q++) {
        assert_int_equal(p.irq_cpu[1 + 2 * q], (int)(q % 2));
        assert_int_equal(p.rps[q], 0);
        assert_int_equal(p.xps[q], 1u << (q % 2));
    }
}

static void test_channels(void **state) {
    layout_cpus cpus = cpus_of("0-3");
    layout_nic nic = {.channels = 1, .channels_max = 8};
    (void)state;
    assert_int_equal(layout_channels(&cpus, &nic), 4);
    nic.channels_max = 2;
    assert_int_equal(layout_channels(&cpus, &nic), 2);
    nic.channels = 2;
    assert_int_equal(layout_channels(&cpus, &nic), 0); // again changes nothing
    nic.channels_wanted = 1;
    assert_int_equal(layout_channels(&cpus, &nic), 1);
    nic.channels_max = 0;
    assert_int_equal(layout_channels(&cpus, &nic), 0);
}

static void test_every_shape(void **state) {
    (void)state;
    for (u32 n = 1; n <= LAYOUT_CPUS_MAX; n++) {
        layout_cpus cpus = {.count = n};
        for (u32 i = 0; i < n; i++) cpus.ids[i] = (u8)i;
        for (u32 q = 1; q <= LAYOUT_QUEUES_MAX; q++) {
            layout_nic nic = virtio(q);
            layout_plan p;
            layout_make(&cpus, &nic, &p);
            for (u32 i = 1; i < nic.irq_count; i++) assert_true(p.irq_cpu[i] >= 0 && p.irq_cpu[i] < (int)n);
            u64 online = n == 64 ? ~0ull : (1ull << n) - 1;
            for (u32 k = 0; k < q; k++) {
                assert_int_equal(p.rps[k] & ~online, 0);
                assert_int_equal(p.xps[k] & ~online, 0);
                assert_true(q == 1 || p.xps[k] != 0);
            }
        }
    }
}

static void test_names(void **state) {
    static const struct {
        const char *name;
        layout_role role;
        u32 queue;
    } rows[] = {
        {"virtio2-input.1", LAYOUT_RX, 1},     {"virtio2-output.0", LAYOUT_TX, 0},
        {"virtio0-config", LAYOUT_OTHER, 0},   {"virtio1-req.0", LAYOUT_OTHER, 0},
        {"eth0-Tx-Rx-3", LAYOUT_BOTH, 3},      {"eth0-TxRx-12", LAYOUT_BOTH, 12},
        {"ena-mgmnt@pci:0000:00:05.0", LAYOUT_OTHER, 0}, {"eth0", LAYOUT_OTHER, 0},
        {"mlx5_comp1@pci:0000:00:02.0", LAYOUT_BOTH, 1}, {"eth0-rx-2", LAYOUT_RX, 2},
        {"gve-ntfy-blk4@pci:0000:00:04.0", LAYOUT_BOTH, 4}, {"i40e-eth0-TxRx-0", LAYOUT_BOTH, 0},
        {"", LAYOUT_OTHER, 0},                 {"7", LAYOUT_OTHER, 0},
    };
    (void)state;
    for (u32 i = 0; i < ARRAY_LEN(rows); i++) {
        u32 queue = 99;
        assert_int_equal(layout_irq_role(rows[i].name, &queue), rows[i].role);
        if (rows[i].role != LAYOUT_OTHER) assert_int_equal(queue, rows[i].queue);
    }
}

static void test_texts(void **state) {
    static const char *const wrong[] = {"", "a", "0-", "1-0", "0,,1", "0-64", "99999999999999999999", "1,0", "0 1"};
    char mask[LAYOUT_MASK_BYTES];
    layout_cpus c;
    (void)state;
    for (u32 i = 0; i < ARRAY_LEN(wrong); i++) assert_false(layout_parse_cpus(wrong[i], &c));
    assert_int_equal(cpus_of("0-2,8").count, 4);
    assert_string_equal(layout_mask(3, mask), "3");
    assert_string_equal(layout_mask(1ull << 33, mask), "2,00000000");
}

static const char *value_of(const sysctl_row *rows, u32 count, const char *name) {
    for (u32 i = 0; i < count; i++) {
        if (strcmp(rows[i].name, name) == 0) return rows[i].value;
    }
    fail_msg("%s is not in the table", name);
    return NULL;
}

static void test_sysctls(void **state) {
    static const u64 sizes_mib[] = {32, 64, 255, 256, 1024, 4096, 1 << 20};
    sysctl_row rows[SYSCTL_ROWS_MAX];
    (void)state;
    for (u32 s = 0; s < ARRAY_LEN(sizes_mib); s++) {
        u64 ram = sizes_mib[s] << 20;
        u32 count = sysctl_plan(ram, rows);
        assert_true(count <= SYSCTL_ROWS_MAX);
        for (u32 i = 0; i < count; i++) {
            assert_true(rows[i].value[0] != '\0' && rows[i].why[0] != '\0');
            for (u32 k = 0; k < i; k++) assert_string_not_equal(rows[i].name, rows[k].name);
        }
        unsigned long long low, high, most;
        assert_int_equal(sscanf(value_of(rows, count, "net/ipv4/tcp_mem"), "%llu %llu %llu", &low, &high, &most), 3);
        assert_true(low < high && high < most && most * 4096 <= ram * 2 / 5);
        u64 reserve = strtoull(value_of(rows, count, "vm/min_free_kbytes"), NULL, 10) * 1024;
        assert_true(reserve >= 1 << 20 && reserve <= 64 << 20 && reserve <= ram / 16);
    }
    u32 count = sysctl_plan(64 << 20, rows);
    assert_string_equal(value_of(rows, count, "net/core/somaxconn"), "4096");
    count = sysctl_plan(4ull << 30, rows);
    assert_string_equal(value_of(rows, count, "net/core/somaxconn"), "65535");
    assert_string_equal(value_of(rows, count, "net/ipv4/tcp_fin_timeout"), "15");
}

static void test_sysctl_words(void **state) {
    (void)state;
    assert_true(sysctl_word_names("sysctl.kernel.io_uring_disabled", "kernel/io_uring_disabled"));
    assert_true(sysctl_word_names("sysctl.kernel/io_uring_disabled", "kernel/io_uring_disabled"));
    assert_true(sysctl_word_names("sysctl/net/ipv4/tcp_rmem", "net/ipv4/tcp_rmem"));
    assert_false(sysctl_word_names("sysctl.net.ipv4.tcp_rme", "net/ipv4/tcp_rmem"));
    assert_false(sysctl_word_names("sysctl.net.ipv4.tcp_rmem2", "net/ipv4/tcp_rmem"));
    assert_false(sysctl_word_names("sysctl", "net/ipv4/tcp_rmem"));
    assert_false(sysctl_word_names("sysctlx.net.ipv4.tcp_rmem", "net/ipv4/tcp_rmem"));
    assert_false(sysctl_word_names("net.ipv4.tcp_rmem", "net/ipv4/tcp_rmem"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_queue_each), cmocka_unit_test(test_one_queue),
        cmocka_unit_test(test_shares),         cmocka_unit_test(test_more_queues_than_cpus),
        cmocka_unit_test(test_channels),       cmocka_unit_test(test_every_shape),
        cmocka_unit_test(test_names),          cmocka_unit_test(test_texts),
        cmocka_unit_test(test_sysctls),        cmocka_unit_test(test_sysctl_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
