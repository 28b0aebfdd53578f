// SPDX-License-Identifier: Apache-2.0
// layout_run.c: the machine read from sysfs, procfs and ethtool, and a plan written back to them. Each
// write's result is kept: a driver that manages its interrupts itself refuses, and that is no fault.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/limits.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/ethtool.h> // wants INT_MAX of <limits.h>

#include "init/init_log.h"
#include "init/layout.h"
#include "init/net_iface.h"

#define LINE_BYTES 512u // of the logged table

typedef struct laid_nic {
    layout_nic nic;
    layout_plan plan;
    int irq_result[LAYOUT_IRQS_MAX]; // 0 or errno
    int queue_result;                // of the first write of RPS or XPS that failed
    int channels_result;
} laid_nic;

static struct {
    bool done;
    layout_cpus cpus;
    u32 count;
    laid_nic nics[LIMIT_NET_IFACES];
    char table[4096]; // as logged last
} laid;

static int read_text(const char *path, char *out, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    ssize_t n = read(fd, out, size - 1);
    int rc = n < 0 ? -errno : 0;
    out[MAX(n, 0)] = '\0';
    close(fd);
    return rc;
}

static int write_text(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    int rc = write(fd, text, strlen(text)) < 0 ? errno : 0;
    close(fd);
    return rc;
}

static void read_cpus(layout_cpus *out) {
    char text[256];
    if (read_text("/sys/devices/system/cpu/online", text, sizeof(text)) == 0 && layout_parse_cpus(text, out))
        return;
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    *out = (layout_cpus){.count = (u32)MIN(MAX(n, 1), (long)LAYOUT_CPUS_MAX)};
    for (u32 i = 0; i < out->count; i++) out->ids[i] = (u8)i;
}

static u32 count_queues(const char *nic, const char *kind) {
    char path[96];
    u32 n = 0;
    for (; n < LAYOUT_QUEUES_MAX; n++) {
        snprintf(path, sizeof(path), "/sys/class/net/%s/queues/%s-%u", nic, kind, n);
        if (access(path, F_OK) != 0) break;
    }
    return n;
}

static int channels_ioctl(const char *nic, struct ethtool_channels *channels) {
    struct ifreq request = {0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;
    if (fd < 0) return errno;
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", nic);
    request.ifr_data = (char *)channels;
    rc = ioctl(fd, SIOCETHTOOL, &request) != 0 ? errno : 0;
    close(fd);
    return rc;
}

static void read_channels(layout_nic *nic) {
    struct ethtool_channels c = {.cmd = ETHTOOL_GCHANNELS};
    if (channels_ioctl(nic->name, &c) != 0) return;
    nic->channels = c.combined_count;
    nic->channels_max = c.max_combined; // drivers with separate receive and transmit channels: left alone
}

static int set_channels(const layout_nic *nic, u32 count) {
    struct ethtool_channels c = {.cmd = ETHTOOL_GCHANNELS};
    int rc = channels_ioctl(nic->name, &c);
    if (rc != 0) return rc;
    c.cmd = ETHTOOL_SCHANNELS;
    c.combined_count = count;
    return channels_ioctl(nic->name, &c);
}

// The name of an interrupt: the last word of its line in /proc/interrupts.
static bool irq_name(const char *interrupts, u32 irq, char *out, size_t size) {
    char head[16];
    int head_len = snprintf(head, sizeof(head), "%u:", irq);
    for (const char *line = interrupts; line != NULL; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        const char *p = line + strspn(line, " ");
        if (strncmp(p, head, (size_t)head_len) != 0) continue;
        size_t len = strcspn(p, "\n");
        while (len > 0 && p[len - 1] == ' ') len--;
        size_t start = len;
        while (start > 0 && p[start - 1] != ' ') start--;
        snprintf(out, size, "%.*s", (int)(len - start), p + start);
        return true;
    }
    return false;
}

static void add_irq(layout_nic *nic, u32 irq, const char *interrupts) {
    layout_irq *out = &nic->irqs[nic->irq_count];
    if (nic->irq_count == LAYOUT_IRQS_MAX) return;
    if (!irq_name(interrupts, irq, out->name, sizeof(out->name))) return; // allocated, not in use
    out->irq = irq;
    out->role = layout_irq_role(out->name, &out->queue);
    nic->irq_count++;
}

static int by_irq(const void *a, const void *b) {
    u32 x = ((const layout_irq *)a)->irq, y = ((const layout_irq *)b)->irq;
    return x < y ? -1 : x > y;
}

// MSI-X vectors of the device or of a bus device above it (a virtio device's belong to its PCI device);
// without any, the one line that carries the interface's name.
static void read_irqs(layout_nic *nic, const char *interrupts) {
    char path[128], real[PATH_MAX], dir[PATH_MAX + 16];
    snprintf(path, sizeof(path), "/sys/class/net/%s/device", nic->name);
    if (realpath(path, real) == NULL) return;
    for (int up = 0; up < 3; up++) {
        snprintf(dir, sizeof(dir), "%s/msi_irqs", real);
        DIR *d = opendir(dir);
        for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d)) {
            if (e->d_name[0] != '.') add_irq(nic, (u32)strtoul(e->d_name, NULL, 10), interrupts);
        }
        if (d != NULL) closedir(d);
        if (nic->irq_count > 0) break;
        char *slash = strrchr(real, '/');
        if (slash == NULL || slash == real) break;
        *slash = '\0';
    }
    qsort(nic->irqs, nic->irq_count, sizeof(nic->irqs[0]), by_irq);
}

// --- applying ---

static void write_queue(laid_nic *l, const char *kind, u32 queue, const char *file, const char *value) {
    char path[128];
    snprintf(path, sizeof(path), "/sys/class/net/%s/queues/%s-%u/%s", l->nic.name, kind, queue, file);
    int rc = write_text(path, value);
    if (rc != 0 && rc != ENOENT && l->queue_result == 0) l->queue_result = rc;
}

static void apply(laid_nic *l) {
    char path[64], text[LAYOUT_MASK_BYTES];
    for (u32 i = 0; i < l->nic.irq_count; i++) {
        if (l->plan.irq_cpu[i] < 0) continue;
        snprintf(path, sizeof(path), "/proc/irq/%u/smp_affinity_list", l->nic.irqs[i].irq);
        snprintf(text, sizeof(text), "%d", l->plan.irq_cpu[i]);
        l->irq_result[i] = write_text(path, text);
    }
    for (u32 q = 0; q < MIN(l->nic.rx_queues, LAYOUT_QUEUES_MAX); q++) {
        write_queue(l, "rx", q, "rps_cpus", layout_mask(l->plan.rps[q], text));
        snprintf(text, sizeof(text), "%u", l->plan.rps[q] != 0 ? l->plan.rps_flows : 0);
        write_queue(l, "rx", q, "rps_flow_cnt", text);
    }
    for (u32 q = 0; q < MIN(l->nic.tx_queues, LAYOUT_QUEUES_MAX); q++) {
        if (l->plan.xps[q] != 0) write_queue(l, "tx", q, "xps_cpus", layout_mask(l->plan.xps[q], text));
    }
}

static void lay_out(laid_nic *l, const net_iface *i, const char *interrupts) {
    *l = (laid_nic){0};
    snprintf(l->nic.name, sizeof(l->nic.name), "%s", i->link.name);
    snprintf(l->nic.driver, sizeof(l->nic.driver), "%s", i->driver);
    l->nic.channels_wanted = i->block.queues;
    read_channels(&l->nic);
    u32 channels = layout_channels(&laid.cpus, &l->nic);
    if (channels != 0) {
        l->channels_result = set_channels(&l->nic, channels);
        if (l->channels_result == 0) l->nic.channels = channels;
    }
    l->nic.rx_queues = count_queues(l->nic.name, "rx");
    l->nic.tx_queues = count_queues(l->nic.name, "tx");
    // A virtio device shows all the queues it could have; in use are those of its channels.
    if (l->nic.channels != 0) {
        l->nic.rx_queues = MIN(l->nic.rx_queues, l->nic.channels);
        l->nic.tx_queues = MIN(l->nic.tx_queues, l->nic.channels);
    }
    read_irqs(&l->nic, interrupts);
    layout_make(&laid.cpus, &l->nic, &l->plan);
    l->plan.channels = channels;
    apply(l);
}

// --- the table in the log ---

static void log_table(void) {
    char table[sizeof(laid.table)] = "";
    size_t used = 0;
    for (u32 n = 0; n < laid.count && used < sizeof(table) - LINE_BYTES; n++) {
        const laid_nic *l = &laid.nics[n];
        char rps[LAYOUT_MASK_BYTES];
        used += (size_t)snprintf(table + used, LINE_BYTES, "%s %s queues %u/%u of %u, rps %s:",
                                 l->nic.name, l->nic.driver[0] != '\0' ? l->nic.driver : "-",
                                 l->nic.rx_queues, l->nic.tx_queues, MAX(l->nic.channels_max, 1u),
                                 layout_mask(l->plan.rps[0], rps));
        for (u32 i = 0; i < l->nic.irq_count && used < sizeof(table) - LINE_BYTES; i++) {
            if (l->plan.irq_cpu[i] < 0) continue;
            used += (size_t)snprintf(table + used, LINE_BYTES, " irq %u %s -> cpu %d%s", l->nic.irqs[i].irq,
                                     l->nic.irqs[i].name, l->plan.irq_cpu[i],
                                     l->irq_result[i] != 0 ? " (refused)" : "");
        }
        used += (size_t)snprintf(table + used, LINE_BYTES, " (%s)\n", l->plan.why);
    }
    if (strcmp(table, laid.table) == 0) return;
    memcpy(laid.table, table, sizeof(table));
    init_info("layout: %u CPUs, worker N on the Nth of them", laid.cpus.count);
    for (const char *line = table; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        init_info("layout: %.*s", (int)len, line);
        line += len + (line[len] == '\n');
    }
}

void layout_run(void) {
    static char interrupts[65536];
    char text[16];
    bool rfs = false;
    if (read_text("/proc/interrupts", interrupts, sizeof(interrupts)) != 0) interrupts[0] = '\0';
    read_cpus(&laid.cpus);
    laid.count = 0;
    for (u32 n = 0; n < LIMIT_NET_IFACES; n++) {
        const net_iface *i = &net.ifaces[n];
        if (i->index == 0 || !i->enabled || i->link.vlan != 0) continue; // a VLAN has no queues of its own
        laid_nic *l = &laid.nics[laid.count++];
        lay_out(l, i, interrupts);
        rfs = rfs || l->plan.rps_flows != 0;
    }
    snprintf(text, sizeof(text), "%u", rfs ? LAYOUT_RFS_ENTRIES : 0);
    write_text("/proc/sys/net/core/rps_sock_flow_entries", text);
    laid.done = true;
    if (laid.count > 0) log_table();
}

// --- the request ---

static void add_irq_json(yyjson_mut_doc *doc, yyjson_mut_val *list, const laid_nic *l, u32 i) {
    static const char *const roles[] = {"other", "rx", "tx", "rx+tx"};
    const layout_irq *irq = &l->nic.irqs[i];
    yyjson_mut_val *row = yyjson_mut_arr_add_obj(doc, list);
    yyjson_mut_obj_add_uint(doc, row, "irq", irq->irq);
    yyjson_mut_obj_add_strcpy(doc, row, "name", irq->name);
    yyjson_mut_obj_add_str(doc, row, "role", roles[irq->role]);
    if (irq->role == LAYOUT_OTHER) return;
    yyjson_mut_obj_add_uint(doc, row, "queue", irq->queue);
    yyjson_mut_obj_add_int(doc, row, "cpu", l->plan.irq_cpu[i]);
    yyjson_mut_obj_add_str(doc, row, "result",
                           l->irq_result[i] == 0 ? "set"
                           : l->irq_result[i] == EIO || l->irq_result[i] == EPERM
                               ? "managed by the driver"
                               : errno_name(l->irq_result[i]));
}

static void add_nic_json(yyjson_mut_doc *doc, yyjson_mut_val *list, const laid_nic *l) {
    char text[LAYOUT_MASK_BYTES];
    yyjson_mut_val *nic = yyjson_mut_arr_add_obj(doc, list);
    yyjson_mut_obj_add_strcpy(doc, nic, "name", l->nic.name);
    yyjson_mut_obj_add_strcpy(doc, nic, "driver", l->nic.driver);
    yyjson_mut_obj_add_uint(doc, nic, "rx_queues", l->nic.rx_queues);
    yyjson_mut_obj_add_uint(doc, nic, "tx_queues", l->nic.tx_queues);
    yyjson_mut_obj_add_uint(doc, nic, "queues_max", l->nic.channels_max);
    yyjson_mut_obj_add_str(doc, nic, "why", l->plan.why);
    yyjson_mut_obj_add_uint(doc, nic, "rfs", l->plan.rps_flows);
    if (l->queue_result != 0) yyjson_mut_obj_add_str(doc, nic, "refused", errno_name(l->queue_result));
    if (l->channels_result != 0)
        yyjson_mut_obj_add_str(doc, nic, "queues_refused", errno_name(l->channels_result));
    yyjson_mut_val *irqs = yyjson_mut_obj_add_arr(doc, nic, "irqs");
    for (u32 i = 0; i < l->nic.irq_count; i++) add_irq_json(doc, irqs, l, i);
    yyjson_mut_val *queues = yyjson_mut_obj_add_arr(doc, nic, "queues");
    for (u32 q = 0; q < MIN(MAX(l->nic.rx_queues, l->nic.tx_queues), LAYOUT_QUEUES_MAX); q++) {
        yyjson_mut_val *row = yyjson_mut_arr_add_obj(doc, queues);
        yyjson_mut_obj_add_uint(doc, row, "queue", q);
        yyjson_mut_obj_add_strcpy(doc, row, "rps", layout_mask(l->plan.rps[q], text));
        yyjson_mut_obj_add_strcpy(doc, row, "xps", layout_mask(l->plan.xps[q], text));
    }
}

yyjson_mut_val *layout_json(yyjson_mut_doc *doc) {
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_val *workers = yyjson_mut_obj_add_arr(doc, root, "cpus");
    for (u32 i = 0; i < laid.cpus.count; i++) yyjson_mut_arr_add_uint(doc, workers, laid.cpus.ids[i]);
    yyjson_mut_val *nics = yyjson_mut_obj_add_arr(doc, root, "nics");
    for (u32 n = 0; n < laid.count; n++) add_nic_json(doc, nics, &laid.nics[n]);
    return root;
}
