// SPDX-License-Identifier: Apache-2.0
// sysctl_table.c: see sysctl_table.h. Three sizes of machine: below 256 MiB, below 1 GiB, and above. The
// gateway sets SO_RCVBUF on device sockets itself, so the tcp_rmem here is for the others (uplinks, admin,
// listeners with rcvbuf = auto); what all of them together may take is tcp_mem.
#include "init/sysctl_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "init/cmdline.h"
#include "init/control.h"
#include "init/init_log.h"

#define MIB (1ull << 20)
#define PAGE_BYTES 4096u // tcp_mem counts in pages; both architectures run with 4 KiB

typedef struct fixed_row {
    const char *name, *small, *middle, *large, *why; // middle, large NULL = as the one before
} fixed_row;

static const fixed_row fixed[] = {
    {"net/core/somaxconn", "4096", "16384", "65535",
     "connections that wait to be accepted: a reconnect storm waits here instead of timing out"},
    {"net/ipv4/tcp_max_syn_backlog", "2048", "16384", "65535",
     "half-open connections before SYN cookies (which drop TCP options) take over"},
    {"net/ipv4/tcp_syncookies", "1", NULL, NULL, "a SYN flood does not keep devices out"},
    {"net/core/netdev_max_backlog", "1000", "4096", "8192",
     "packets between the interrupt and RPS's other CPU; the default drops in a burst"},
    {"net/ipv4/tcp_rmem", "4096 32768 524288", "4096 65536 2097152", "4096 131072 6291456",
     "receive buffer where the kernel sizes it; the largest is bounded against collapse latency"},
    {"net/ipv4/tcp_wmem", "4096 16384 262144", "4096 16384 1048576", "4096 16384 4194304",
     "send buffer of one connection; a slow client may not take more than this"},
    {"net/core/rmem_max", "262144", "1048576", "4194304", "bound of SO_RCVBUF"},
    {"net/core/wmem_max", "262144", "1048576", "4194304", "bound of SO_SNDBUF"},
    {"net/ipv4/tcp_notsent_lowat", "131072", NULL, NULL,
     "no more than this waits unsent in the kernel: what is queued stays under the gateway's budget"},
    {"net/ipv4/tcp_slow_start_after_idle", "0", NULL, NULL,
     "a device that was idle between two heartbeats does not begin with a small window again"},
    {"net/ipv4/tcp_migrate_req", "1", NULL, NULL,
     "connections that wait on a listener that is closed move to another worker's"},
    {"net/ipv4/tcp_fin_timeout", "15", NULL, NULL, "half-closed connections of vanished devices end sooner"},
    {"net/ipv4/tcp_tw_reuse", "1", NULL, NULL, "an uplink that reconnects often does not run out of ports"},
    {"net/ipv4/ip_local_port_range", "1024 65535", NULL, NULL, "ports for outgoing connections"},
    {"net/ipv4/ip_local_reserved_ports", "1883,7000,8083,8883,9600", NULL, NULL,
     "the gateway's own usual ports are not taken by an outgoing connection"},
    {"net/ipv4/conf/all/arp_ignore", "1", NULL, NULL,
     "two interfaces in one network: each answers for its own address only"},
    {"net/ipv4/conf/all/arp_announce", "2", NULL, NULL, "as above, for what is asked"},
    {"net/ipv4/conf/all/rp_filter", "2", NULL, NULL,
     "packets from addresses that no route leads to are dropped; loose, since several uplinks are allowed"},
    {"net/ipv4/conf/all/accept_redirects", "0", NULL, NULL, "routes come from DHCP and configuration only"},
    {"net/ipv4/conf/default/accept_redirects", "0", NULL, NULL, "as above"},
    {"net/ipv4/conf/all/send_redirects", "0", NULL, NULL, "this is no router"},
    {"net/ipv4/conf/all/accept_source_route", "0", NULL, NULL, "no packet chooses its own way"},
    {"net/ipv4/conf/all/promote_secondaries", "1", NULL, NULL,
     "an address that goes does not take the others of its network with it"},
    {"net/ipv6/conf/all/accept_redirects", "0", NULL, NULL, "as for IPv4"},
    {"net/ipv6/conf/default/accept_redirects", "0", NULL, NULL, "as above"},
    {"net/ipv6/conf/default/accept_ra", "0", NULL, NULL,
     "an interface listens to router advertisements only when its block says so"},
    {"net/ipv6/conf/all/forwarding", "0", NULL, NULL, "this is no router"},
    {"net/ipv4/ip_forward", "0", NULL, NULL, "this is no router"},
    {"net/ipv4/tcp_rfc1337", "1", NULL, NULL, "a late RST does not end a connection's TIME-WAIT"},
    {"vm/overcommit_memory", "1", NULL, NULL,
     "the gateway maps its budgets whole and touches what it needs; a strict count would refuse it"},
    {"kernel/io_uring_disabled", "0", NULL, NULL, "the gateway's engine; nothing else runs here"},
};

static void add(sysctl_row *row, const char *name, const char *why) {
    row->name = name;
    row->why = why;
}

u32 sysctl_plan(u64 ram_bytes, sysctl_row out[SYSCTL_ROWS_MAX]) {
    u32 n = 0;
    u64 pages = ram_bytes / PAGE_BYTES;
    _Static_assert(ARRAY_LEN(fixed) + 4 <= SYSCTL_ROWS_MAX, "room for all rows");
    for (; n < ARRAY_LEN(fixed); n++) {
        const fixed_row *f = &fixed[n];
        const char *value = f->small;
        if (ram_bytes >= 256 * MIB && f->middle != NULL) value = f->middle;
        if (ram_bytes >= 1024 * MIB && f->large != NULL) value = f->large;
        add(&out[n], f->name, f->why);
        snprintf(out[n].value, SYSCTL_VALUE_BYTES, "%s", value);
    }
    // The kernel's own default stops at 9 % of memory: a gateway is there to hold connections.
    add(&out[n], "net/ipv4/tcp_mem", "TCP may take 25, 33 and at most 40 % of memory");
    snprintf(out[n++].value, SYSCTL_VALUE_BYTES, "%llu %llu %llu", (unsigned long long)(pages / 4),
             (unsigned long long)(pages / 3), (unsigned long long)(pages * 2 / 5));
    add(&out[n], "net/ipv4/tcp_max_orphans", "connections without an owner: one for each 64 KiB of memory");
    snprintf(out[n++].value, SYSCTL_VALUE_BYTES, "%llu",
             (unsigned long long)MIN(MAX(ram_bytes >> 16, 1024ull), 262144ull));
    add(&out[n], "net/ipv4/tcp_max_tw_buckets", "TIME-WAIT: one for each 16 KiB of memory, 256 bytes each");
    snprintf(out[n++].value, SYSCTL_VALUE_BYTES, "%llu",
             (unsigned long long)MIN(MAX(ram_bytes >> 14, 4096ull), 262144ull));
    // Packets are received in interrupts, which can not wait for memory.
    add(&out[n], "vm/min_free_kbytes", "a reserve of 1/64 of memory, 1 to 64 MiB, for bursts of packets");
    snprintf(out[n++].value, SYSCTL_VALUE_BYTES, "%llu",
             (unsigned long long)MIN(MAX(ram_bytes / 64, MIB), 64 * MIB) / 1024);
    return n;
}

static sysctl_row applied[SYSCTL_ROWS_MAX];
static sysctl_result results[SYSCTL_ROWS_MAX];
static u32 applied_count;

bool sysctl_word_names(const char *word, const char *name) {
    static const char prefix[] = "sysctl";
    if (strncmp(word, prefix, sizeof(prefix) - 1) != 0) return false;
    word += sizeof(prefix) - 1;
    if (*word != '.' && *word != '/') return false;
    for (word++; *word != '\0' && *name != '\0'; word++, name++) {
        if (*word != *name && !(*word == '.' && *name == '/')) return false;
    }
    return *word == *name;
}

static void look_for_row(void *context, const char *key, const char *value) {
    const sysctl_row **row = context;
    (void)value;
    if (*row != NULL && sysctl_word_names(key, (*row)->name)) *row = NULL;
}

static bool on_command_line(const sysctl_row *row) {
    init_cmdline_each(look_for_row, &row);
    return row == NULL;
}

static sysctl_result apply_row(const sysctl_row *row) {
    char path[128];
    if (init_is_real() && on_command_line(row)) return SYSCTL_COMMAND_LINE;
    // In a test's network namespace: nothing of the machine around it.
    if (!init_is_real() && strncmp(row->name, "net/", 4) != 0) return SYSCTL_ABSENT;
    snprintf(path, sizeof(path), "/proc/sys/%s", row->name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return SYSCTL_ABSENT;
    ssize_t n = fd < 0 ? -1 : write(fd, row->value, strlen(row->value));
    int err = errno;
    if (fd >= 0) close(fd);
    if (n >= 0) return SYSCTL_SET;
    init_warn("sysctl: %s = %s: %s (%s)", row->name, row->value, strerror(err), errno_name(err));
    return SYSCTL_FAILED;
}

void sysctl_apply(void) {
    struct sysinfo info;
    u32 count_of[SYSCTL_COMMAND_LINE + 1] = {0};
    u64 ram = sysinfo(&info) == 0 ? (u64)info.totalram * info.mem_unit : 256 * MIB;
    applied_count = sysctl_plan(ram, applied);
    for (u32 i = 0; i < applied_count; i++) {
        results[i] = apply_row(&applied[i]);
        count_of[results[i]]++;
    }
    init_info("sysctl: %u kernel settings for %llu MiB of memory, %u left to the command line, %u not in this kernel, "
              "%u refused", count_of[SYSCTL_SET], (unsigned long long)(ram / MIB), count_of[SYSCTL_COMMAND_LINE],
              count_of[SYSCTL_ABSENT], count_of[SYSCTL_FAILED]);
}

u32 sysctl_applied(const sysctl_row **rows, const sysctl_result **out) {
    *rows = applied;
    *out = results;
    return applied_count;
}
