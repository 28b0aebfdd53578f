// SPDX-License-Identifier: Apache-2.0
// log_command.c: the offline tools. They read with the same code as a start (files.c, scan.c), so that what
// they call damage is what a start would skip.
#include "store/log_command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/data_dir.h"
#include "store/files.h"
#include "store/internal.h"
#include "store/scan.h"

enum { LOG_GOOD = 0, LOG_DAMAGED = 1, LOG_USAGE = 2, LOG_UNREADABLE = 3 };
typedef enum log_task { LOG_VERIFY, LOG_DUMP, LOG_REPAIR } log_task;

static const char usage[] =
    "usage: sluice log verify DIR   reads every record of the logs in the data_dir DIR and reports damage\n"
    "       sluice log dump DIR     prints a line for each record\n"
    "       sluice log repair DIR   makes damaged heads of segments anew, sets aside what can not be read\n"
    "No gateway may run on DIR. verify and dump change nothing, and need no right to write. A start does by itself\n"
    "all that is needed to start; repair is for looking first.\n"
    "Exit status: 0 nothing is wrong; 1 damage was found or repaired; 2 usage; 3 DIR is in use or can not be read.\n";

static disk *disk_for(log_task task) {
    return task == LOG_REPAIR ? disk_real() : disk_real_reading();
}

static const char *const kind_names[STORE_KINDS] = {"?",      "message", "session", "retained",
                                                    "stream", "uplink",  "meta"};
static const char *const meta_names[META_TYPES] = {"",       " batch",    " checkpoint", " segments",
                                                   " moved", " complete", " index",      " end",
                                                   " lasts"};

typedef struct totals {
    u64 segments, records, bytes, damaged, damaged_bytes, torn, repaired;
    u64 kinds[STORE_KINDS];
} totals;

static void print_record(const record_view *v) {
    const store_record *r = &v->record;
    char text[40];
    time_t seconds = (time_t)(r->time_ms / 1000);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    printf("%016llx %s.%03lluZ %s%s %u", (unsigned long long)r->pos, text, (unsigned long long)(r->time_ms % 1000),
           kind_names[r->kind], meta_names[v->type], r->len);
    if ((r->flags & STORE_KEEP) != 0) printf(" keep");
    if (v->from != 0)
        printf(" origin %016llx from %016llx", (unsigned long long)r->origin, (unsigned long long)v->from);
    printf("\n");
}

static void read_segment(const segment_file *f, bool is_last, log_task task, totals *t) {
    scan sc;
    record_view view;
    scan_what what;
    u64 records = 0, damaged = 0;
    if (scan_begin(&sc, disk_for(task), f->file, f->base, f->bytes, f->base + SEGMENT_HEAD_BYTES, f->end) < 0) return;
    while ((what = scan_next(&sc, &view)) != SCANNED_END) {
        if (what == SCANNED_RECORD) {
            records++;
            t->kinds[view.record.kind]++;
            if (task == LOG_DUMP) print_record(&view);
            continue;
        }
        damaged++;
        t->damaged_bytes += sc.to - sc.from;
        printf("%08u.seg: damaged: %llu bytes at offset %llu\n", f->number, (unsigned long long)(sc.to - sc.from),
               (unsigned long long)(sc.from - f->base));
    }
    bool torn = !sc.end_known && sc.to > sc.from;
    if (torn) {
        t->torn++;
        printf("%08u.seg: a commit was not finished at offset %llu; a start cuts it off\n", f->number,
               (unsigned long long)(sc.from - f->base));
    }
    if (task == LOG_VERIFY) {
        printf("%08u.seg: base %016llx, %llu records, %llu of %llu bytes%s\n", f->number, (unsigned long long)f->base,
               (unsigned long long)records, (unsigned long long)(sc.from - f->base), (unsigned long long)f->bytes,
               is_last ? ", the last one" : "");
    }
    t->bytes += sc.from - f->base;
    t->records += records;
    t->damaged += damaged;
    scan_end(&sc);
}

// A head made from what the records say; the chain to the segment before is not known any more.
static void head_repair(const char *dir, const segment_file *f, u32 log_number, totals *t) {
    segment_head h = {.state = SEGMENT_LIVE, .log_number = log_number, .base = f->base,
                      .bytes = align_up_u64(f->bytes, SEGMENT_UNIT_BYTES)};
    segment_head_seal(&h);
    disk *d = disk_real();
    int result = d->ops->write(d, f->file, &h, sizeof(h), 0);
    if (result == 0) result = d->ops->sync(d, f->file);
    printf("%s/%08u.seg: head made anew: %s\n", dir, f->number, result == 0 ? "done" : errno_name(result));
    t->repaired++;
}

static void odd_file(const char *dir, const segment_file *f, log_task task, totals *t) {
    if (f->state == HEAD_FREE || f->state == HEAD_EMPTY) return;
    t->damaged++;
    if (f->base != 0) {
        printf("%s/%08u.seg: its head is damaged; its records say base %016llx\n", dir, f->number,
               (unsigned long long)f->base);
        if (task == LOG_REPAIR) head_repair(dir, f, (u32)(f->base >> LOG_NUMBER_SHIFT), t);
        return;
    }
    printf("%s/%08u.seg: neither a head nor a record can be read%s%s\n", dir, f->number, f->error != 0 ? ": " : "",
           f->error != 0 ? errno_name(f->error) : "");
    if (task != LOG_REPAIR) return;
    int result = quarantine_file(disk_real(), dir, f->number);
    printf("%s/%08u.seg: %s\n", dir, f->number, result == 0 ? "moved to quarantine" : errno_name(result));
    t->repaired++;
}

static int one_log(const char *dir, log_task task, totals *t) {
    segment_files files;
    int result = segment_files_read(disk_for(task), dir, &files);
    if (result < 0) {
        fprintf(stderr, "sluice log: %s: %s\n", dir, errno_name(result));
        return result;
    }
    printf("%s: %u segments, %u spare\n", dir, files.with_base, files.count - files.with_base);
    for (u32 i = 0; i < files.count; i++) {
        segment_file *f = &files.list[i];
        if (f->state != HEAD_LIVE) odd_file(dir, f, task, t);
        if (i < files.with_base && f->abandoned) {
            printf("%08u.seg: given up after a failed write; a start removes it\n", f->number);
        } else if (i < files.with_base && f->file >= 0) {
            t->segments++;
            read_segment(f, i + 1 == files.with_base, task, t);
        }
        if (f->file >= 0) disk_real()->ops->close(disk_real(), f->file);
    }
    segment_files_free(&files);
    return 0;
}

typedef struct log_list {
    u32 numbers[LOG_NUMBER_MAX + 1], count;
} log_list;

static bool visit_number(void *context, const char *name) {
    log_list *l = context;
    unsigned number;
    char rest;
    if (strlen(name) == 4 && sscanf(name, "%4u%c", &number, &rest) == 1 && l->count < ARRAY_LEN(l->numbers)) {
        l->numbers[l->count++] = number;
    }
    return true;
}

static int by_number(const void *a, const void *b) {
    u32 x = *(const u32 *)a, y = *(const u32 *)b;
    return x < y ? -1 : x > y;
}

static int all_logs(const char *path, log_task task, totals *t) {
    static log_list logs;
    char dir[PATH_BYTES];
    snprintf(dir, sizeof(dir), "%s/log", path);
    disk *from = disk_for(task);
    int result = from->ops->list(from, dir, visit_number, &logs);
    if (result < 0) {
        fprintf(stderr, "sluice log: %s: %s: not a data_dir with logs\n", dir, errno_name(result));
        return result;
    }
    data_dir d;
    bool known = data_dir_look(&d, path, disk_for(task));
    if (known) {
        printf("layout: %u workers, logs %04u to %04u, generation %llu\n", d.workers, d.first_log,
               d.first_log + d.workers - 1, (unsigned long long)d.generation);
    } else {
        t->damaged++;
        printf("layout: can not be read; a start takes all the logs that are there\n");
    }
    qsort(logs.numbers, logs.count, sizeof(logs.numbers[0]), by_number);
    for (u32 i = 0; i < logs.count && result == 0; i++) {
        snprintf(dir, sizeof(dir), "%s/log/%04u", path, logs.numbers[i]);
        bool used = !known || (logs.numbers[i] >= d.first_log && logs.numbers[i] < d.first_log + d.workers);
        if (!used) printf("%s: not in the layout; a start removes it\n", dir);
        else result = one_log(dir, task, t);
    }
    return result;
}

static void print_totals(const totals *t) {
    printf("%llu segments, %llu records, %llu bytes:", (unsigned long long)t->segments,
           (unsigned long long)t->records, (unsigned long long)t->bytes);
    for (u32 k = STORE_NONE + 1; k < STORE_KINDS; k++)
        printf(" %s %llu", kind_names[k], (unsigned long long)t->kinds[k]);
    printf("\n%llu damaged places (%llu bytes), %llu unfinished commits\n", (unsigned long long)t->damaged,
           (unsigned long long)t->damaged_bytes, (unsigned long long)t->torn);
}

int log_command_main(int argc, char **argv) {
    static const char *const names[] = {"verify", "dump", "repair"};
    char why[512];
    log_task task = LOG_VERIFY;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") != 0 && strcmp(argv[i], "-h") != 0) continue;
        fputs(usage, stdout);
        return LOG_GOOD;
    }
    bool known = false;
    for (u32 i = 0; argc == 3 && i < ARRAY_LEN(names); i++) {
        if (strcmp(argv[1], names[i]) != 0) continue;
        task = (log_task)i;
        known = true;
    }
    if (!known || strlen(argv[2]) > 255) {
        fputs(usage, stderr);
        return LOG_USAGE;
    }
    int locked = task == LOG_REPAIR ? data_dir_lock(argv[2], why, sizeof(why))
                                    : data_dir_lock_reading(argv[2], why, sizeof(why));
    if (locked < 0) {
        fprintf(stderr, "sluice log: %s\n", why);
        return LOG_UNREADABLE;
    }
    totals t = {0};
    if (all_logs(argv[2], task, &t) < 0) return LOG_UNREADABLE;
    print_totals(&t);
    if (task == LOG_REPAIR) printf("%llu repaired\n", (unsigned long long)t.repaired);
    return t.damaged > 0 ? LOG_DAMAGED : LOG_GOOD;
}
