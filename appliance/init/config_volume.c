// SPDX-License-Identifier: Apache-2.0
// config_volume.c: see config_volume.h. The helper process writes what it found to a pipe as records
// (which, status, device, problem, length, bytes); the parent reads until the end or its deadline, kills
// the helper then, and takes what is whole. A mount the helper could not undo is detached by the parent.
#include "init/config_volume.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/control.h"
#include "init/init_log.h"

#define MOUNT_POINT "/run/sluice/volume"
#define DEVICES_MAX 64
#define POLL_MS 10u
#define SECTOR 512u

enum { WHICH_ESP, WHICH_CIDATA };

typedef struct record {
    u32 which, present, len, unreadable;
    char device[32], problem[160];
} record;

// --- labels ---

static u32 le16(const u8 *p) {
    return (u32)p[0] | (u32)p[1] << 8;
}

static void copy_label(const u8 *from, size_t len, char out[VOLUME_LABEL_BYTES]) {
    ASSERT(len < VOLUME_LABEL_BYTES);
    memcpy(out, from, len);
    out[len] = '\0';
    while (len > 0 && (out[len - 1] == ' ' || out[len - 1] == '\0')) out[--len] = '\0';
}

// The label of a FAT volume is an entry of its root directory; the one in the boot sector is a copy that
// some tools do not write ("NO NAME").
static void fat_label(const u8 *head, size_t len, char out[VOLUME_LABEL_BYTES]) {
    bool fat32 = le16(head + 22) == 0;
    u32 reserved = le16(head + 14), fats = head[16], entries = le16(head + 17);
    copy_label(head + (fat32 ? 71 : 43), 11, out);
    if (strcmp(out, "NO NAME") == 0) out[0] = '\0';
    if (fat32) return; // its root directory lies anywhere
    size_t root = ((size_t)reserved + (size_t)fats * le16(head + 22)) * SECTOR;
    for (u32 i = 0; i < entries && root + 32 <= len; i++, root += 32) {
        const u8 *e = head + root;
        if (e[0] == 0) return;
        bool is_label = e[0] != 0xe5 && (e[11] & 0x3f) == 0x08;
        if (!is_label) continue;
        copy_label(e, 11, out);
        return;
    }
}

volume_kind volume_recognise(const u8 *head, size_t len, char label[VOLUME_LABEL_BYTES]) {
    label[0] = '\0';
    if (len >= 32768 + 2048 && memcmp(head + 32768, "\001CD001", 6) == 0) {
        copy_label(head + 32768 + 40, 32, label);
        return VOLUME_ISO9660;
    }
    bool fat = len >= 512 && head[510] == 0x55 && head[511] == 0xaa && le16(head + 11) == SECTOR &&
               (memcmp(head + 54, "FAT", 3) == 0 || memcmp(head + 82, "FAT32", 5) == 0);
    if (!fat) return VOLUME_NONE;
    fat_label(head, len, label);
    return VOLUME_FAT;
}

bool volume_is_cidata(const char *label) {
    return strcasecmp(label, "cidata") == 0;
}

// --- in the helper ---

static void set_problem(record *r, const char *format, ...) PRINTF_LIKE(2, 3);

static void set_problem(record *r, const char *format, ...) {
    va_list args;
    r->unreadable = true;
    va_start(args, format);
    vsnprintf(r->problem, sizeof(r->problem), format, args);
    va_end(args);
}

static void write_all(int fd, const void *data, size_t len) {
    const u8 *p = data;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) _exit(1);
        p += n;
        len -= (size_t)n;
    }
}

static void send_record(int fd, record *r, const char *text, size_t len) {
    r->len = (u32)len;
    write_all(fd, r, sizeof(*r));
    if (len > 0) write_all(fd, text, len);
}

// Returns the text (malloc'd) or NULL with the record's problem set; a file that is not there is none.
static char *read_file(const char *name, record *r, size_t *len, bool *missing) {
    char path[64];
    struct stat st;
    *missing = false;
    snprintf(path, sizeof(path), MOUNT_POINT "/%s", name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        *missing = errno == ENOENT;
        if (!*missing) set_problem(r, "%s: %s (%s)", name, strerror(errno), errno_name(errno));
        return NULL;
    }
    char *text = NULL;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        set_problem(r, "%s is not a file", name);
    } else if (st.st_size > (off_t)VOLUME_FILE_BYTES_MAX) {
        set_problem(r, "%s is longer than %u bytes", name, VOLUME_FILE_BYTES_MAX);
    } else {
        text = malloc((size_t)st.st_size + 1);
        ssize_t n = text != NULL ? read(fd, text, (size_t)st.st_size) : -1;
        if (n < 0) {
            set_problem(r, "%s: can not be read: %s", name, errno_name(errno));
            free(text);
            text = NULL;
        }
        *len = (size_t)MAX(n, 0);
    }
    close(fd);
    return text;
}

static bool mount_volume(const char *device, volume_kind kind, record *r) {
    static const char *const types[] = {"", "vfat", "iso9660"};
    char source[48];
    snprintf(source, sizeof(source), "/dev/%s", device);
    snprintf(r->device, sizeof(r->device), "%s", device);
    mkdir(MOUNT_POINT, 0700);
    if (mount(source, MOUNT_POINT, types[kind], MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0)
        return true;
    set_problem(r, "%s (%s) can not be mounted: %s (%s)", device, types[kind], strerror(errno),
                errno_name(errno));
    return false;
}

static volume_kind recognise_device(const char *device, char label[VOLUME_LABEL_BYTES]) {
    static u8 head[VOLUME_HEAD_BYTES];
    char path[48];
    snprintf(path, sizeof(path), "/dev/%s", device);
    label[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return VOLUME_NONE;
    ssize_t n = pread(fd, head, sizeof(head), 0);
    close(fd);
    return n > 0 ? volume_recognise(head, (size_t)n, label) : VOLUME_NONE;
}

static void take_esp(int fd, bool wait, u64 deadline_ns) {
    char path[64], label[VOLUME_LABEL_BYTES];
    record r = {.which = WHICH_ESP};
    size_t len = 0;
    bool missing;
    int rc = init_partition_find("sluice-esp", path, sizeof(path));
    while (rc != 0 && wait && clock_mono_ns() < deadline_ns) {
        usleep(POLL_MS * 1000);
        rc = init_partition_find("sluice-esp", path, sizeof(path));
    }
    if (rc != 0) {
        if (wait) set_problem(&r, "partition sluice-esp did not appear");
        send_record(fd, &r, NULL, 0);
        return;
    }
    const char *device = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    snprintf(r.device, sizeof(r.device), "%.31s", device);
    char *text = NULL;
    if (recognise_device(device, label) != VOLUME_FAT) {
        set_problem(&r, "%.31s is damaged: no FAT file system on it", device);
    } else if (mount_volume(device, VOLUME_FAT, &r)) {
        text = read_file("sluice.conf", &r, &len, &missing);
        umount2(MOUNT_POINT, MNT_DETACH);
    }
    r.present = text != NULL;
    send_record(fd, &r, text, len);
}

// Both files must be there: meta-data alone is some other tool's volume.
static char *read_seed(record *r, size_t *len) {
    size_t meta_len;
    bool missing;
    char *meta = read_file("meta-data", r, &meta_len, &missing);
    if (meta == NULL) {
        if (missing) {
            set_problem(r, "there is no meta-data beside user-data: not a NoCloud volume");
            r->unreadable = false;
        }
        return NULL;
    }
    free(meta);
    char *text = read_file("user-data", r, len, &missing);
    if (missing) {
        set_problem(r, "there is no user-data on it");
        r->unreadable = false;
    }
    return text;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool is_disk(const char *name) {
    return name[0] != '.' && strncmp(name, "ram", 3) != 0 && strncmp(name, "loop", 4) != 0;
}

// The first device with the label; partitions and whole disks alike.
static void take_cidata(int fd) {
    struct dirent **list = NULL;
    record r = {.which = WHICH_CIDATA};
    size_t len = 0;
    char *text = NULL, label[VOLUME_LABEL_BYTES];
    int count = scandir("/sys/class/block", &list, NULL, by_name);
    for (int i = 0; i < count && i < DEVICES_MAX && r.device[0] == '\0'; i++) {
        const char *name = list[i]->d_name;
        if (!is_disk(name) || strlen(name) >= sizeof(r.device)) continue;
        volume_kind kind = recognise_device(name, label);
        if (kind == VOLUME_NONE || !volume_is_cidata(label)) continue;
        if (!mount_volume(name, kind, &r)) break;
        text = read_seed(&r, &len);
        umount2(MOUNT_POINT, MNT_DETACH);
    }
    r.present = text != NULL;
    send_record(fd, &r, text, len);
}

static int helper_main(int fd, bool wait_esp, u64 deadline_ns) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    take_esp(fd, wait_esp, deadline_ns);
    take_cidata(fd);
    return 0;
}

// --- in init ---

// Reads exactly len bytes before the deadline.
static bool read_part(int fd, void *data, size_t len, u64 deadline_ns) {
    u8 *p = data;
    while (len > 0) {
        u64 now = clock_mono_ns();
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (now >= deadline_ns) return false;
        int rc = poll(&wait, 1, (int)((deadline_ns - now) / NS_PER_MS + 1));
        if (rc < 0 && errno == EINTR) continue;
        if (rc <= 0) continue;
        ssize_t n = read(fd, p, len);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n <= 0) return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

static bool take_record(int fd, u64 deadline_ns, volume_file *esp, volume_file *cidata) {
    record r;
    if (!read_part(fd, &r, sizeof(r), deadline_ns) || r.len > VOLUME_FILE_BYTES_MAX) return false;
    volume_file *out = r.which == WHICH_ESP ? esp : cidata;
    memcpy(out->device, r.device, sizeof(out->device));
    memcpy(out->problem, r.problem, sizeof(out->problem));
    out->unreadable = r.unreadable;
    if (!r.present) return true;
    char *text = malloc(r.len + 1u);
    if (text == NULL || !read_part(fd, text, r.len, deadline_ns)) {
        free(text);
        snprintf(out->problem, sizeof(out->problem), "it could not be read to its end");
        return false;
    }
    text[r.len] = '\0';
    out->text = text;
    out->len = r.len;
    out->present = true;
    return true;
}

static bool any_device(void) {
    DIR *d = opendir("/sys/class/block");
    bool found = false;
    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL && !found; e = readdir(d)) {
        found = is_disk(e->d_name);
    }
    if (d != NULL) closedir(d);
    return found;
}

void volume_read(bool wait_esp, u32 wait_ms, volume_file *esp, volume_file *cidata) {
    int pipe_fds[2];
    u64 deadline_ns = clock_mono_ns() + wait_ms * NS_PER_MS;
    *esp = *cidata = (volume_file){0};
    if (!wait_esp && !any_device()) return; // started without a disk: nothing to wait for, no process to start
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
        init_warn("configuration: no pipe for reading disks: %s", errno_name(errno));
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(pipe_fds[0]);
        _exit(helper_main(pipe_fds[1], wait_esp, deadline_ns - MIN(500ull, wait_ms / 2) * NS_PER_MS));
    }
    close(pipe_fds[1]);
    bool complete = pid > 0;
    for (int i = 0; i < 2 && complete; i++) complete = take_record(pipe_fds[0], deadline_ns, esp, cidata);
    close(pipe_fds[0]);
    if (pid > 0 && !complete) kill(pid, SIGKILL);
    if (!complete) {
        volume_file *late = esp->present || esp->problem[0] != '\0' ? cidata : esp;
        if (late->problem[0] == '\0')
            snprintf(late->problem, sizeof(late->problem), "disks could not be read within %u ms", wait_ms);
        late->unreadable = true;
        umount2(MOUNT_POINT, MNT_DETACH);
    }
    // A helper that hangs in the kernel is reaped by init's loop when it ends.
    if (pid > 0) waitpid(pid, NULL, complete ? 0 : WNOHANG);
    rmdir(MOUNT_POINT);
}
