// SPDX-License-Identifier: Apache-2.0
// log_bench.c: command line and table of `sluice bench log`. Rounds go through all points in turn, so that a drift
// of the disk meets every way alike.
#include "bench/log_bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/json_out.h"
#include "bench/log_path.h"
#include "bench/options.h"
#include "conf/config.h"

#define SIZES_MAX 8u
#define POINTS_MAX (LOG_PATHS * LOG_FILES * SIZES_MAX)
#define SECTOR_PAGE 4096u

typedef struct log_options {
    const char *dir;
    u32 sizes[SIZES_MAX], size_count;
    u32 paths, files; // bits
    u32 rounds;
    u64 file_bytes, time_ns;
    bool json;
} log_options;

static const char usage[] =
    "usage: sluice bench log --dir DIR [options]\n"
    "\n"
    "Writes batches to files in DIR, one at a time, each on disk before the next, by every way there is:\n"
    "  call           pwrite + fdatasync by the caller: the disk's own figure\n"
    "  thread         the same on a thread of its own, which wakes the caller: what the gateway does\n"
    "  thread-direct  one O_DIRECT | O_DSYNC write on that thread\n"
    "  ring           io_uring: a write and a linked fdatasync\n"
    "  ring-direct    io_uring: one O_DIRECT | O_DSYNC write\n"
    "to files that are written (size and blocks are there), reserved (fallocate) or growing.\n"
    "\n"
    "  --sizes LIST   bytes of a batch, multiples of 4k; default 4k,64k,512k\n"
    "  --paths LIST   default all\n"
    "  --files LIST   default all\n"
    "  --time TIME    of each point in each round; default 500ms\n"
    "  --rounds N     default 1\n"
    "  --file-size N  of a file; default 64m\n"
    "  --json         the result as JSON\n"
    "\n"
    "held: how long handing over held the caller up. cpu: of the process, for each commit, in us.\n"
    "The files are removed. Exit status: 0 measured; 1 something could not be measured; 2 usage.\n";

static int wrong(const char *option, const char *text, const char *allowed) {
    fprintf(stderr, "sluice bench log: %s \"%s\": allowed: %s\n", option, text, allowed);
    return -EINVAL;
}

static int parse_sizes(log_options *o, const char *text) {
    static const char allowed[] = "1 to 8 sizes, multiples of 4k up to 64m";
    char copy[128], *rest = copy, *word;
    if (strlen(text) >= sizeof(copy)) return wrong("--sizes", text, allowed);
    strcpy(copy, text);
    o->size_count = 0;
    while ((word = strsep(&rest, ",")) != NULL) {
        u64 bytes;
        bool good = o->size_count < SIZES_MAX && config_parse_bytes(word, &bytes) == 0 && bytes > 0 &&
                    bytes % SECTOR_PAGE == 0 && bytes <= 64u << 20;
        if (!good) return wrong("--sizes", text, allowed);
        o->sizes[o->size_count++] = (u32)bytes;
    }
    return 0;
}

static int parse_set(const char *option, const char *text, const char *(*name)(u32), u32 count, u32 *bits) {
    char copy[128], *rest = copy, *word;
    if (strlen(text) >= sizeof(copy)) return wrong(option, text, "a list of names, see --help");
    strcpy(copy, text);
    *bits = 0;
    while ((word = strsep(&rest, ",")) != NULL) {
        u32 i = 0;
        while (i < count && strcmp(word, name(i)) != 0) i++;
        if (i == count) return wrong(option, text, "a list of names, see --help");
        *bits |= 1u << i;
    }
    return 0;
}

static const char *path_name(u32 i) {
    return log_path_name((log_path)i);
}

static const char *file_name(u32 i) {
    return log_file_name((log_file)i);
}

static int parse_one(log_options *o, const char *name, const char *value) {
    double number;
    if (strcmp(name, "--dir") == 0) {
        o->dir = value;
        return strlen(value) <= 400 ? 0 : wrong(name, value, "at most 400 characters");
    }
    if (strcmp(name, "--sizes") == 0) return parse_sizes(o, value);
    if (strcmp(name, "--paths") == 0) return parse_set(name, value, path_name, LOG_PATHS, &o->paths);
    if (strcmp(name, "--files") == 0) return parse_set(name, value, file_name, LOG_FILES, &o->files);
    if (strcmp(name, "--time") == 0) {
        if (bench_parse_time_ns(value, &o->time_ns) < 0 || o->time_ns == 0 || o->time_ns > 600 * NS_PER_S)
            return wrong(name, value, "1us to 10m");
        return 0;
    }
    if (strcmp(name, "--rounds") == 0) {
        bool good = bench_parse_number(value, &number) == 0 && number >= 1 && number <= 1000;
        if (!good) return wrong(name, value, "1 to 1000");
        o->rounds = (u32)number;
        return 0;
    }
    if (strcmp(name, "--file-size") == 0) {
        bool good = config_parse_bytes(value, &o->file_bytes) == 0 && o->file_bytes % SECTOR_PAGE == 0 &&
                    o->file_bytes > 0 && o->file_bytes <= 16ull << 30;
        return good ? 0 : wrong(name, value, "a multiple of 4k up to 16g");
    }
    fprintf(stderr, "sluice bench log: unknown option %s; --help lists them\n", name);
    return -EINVAL;
}

static int options_parse(log_options *o, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(usage, stdout);
            return 1;
        }
        if (strcmp(argv[i], "--json") == 0) {
            o->json = true;
            continue;
        }
        if (i + 1 == argc) {
            fprintf(stderr, "sluice bench log: %s: unknown, or without its value; --help lists the options\n",
                    argv[i]);
            return -EINVAL;
        }
        int result = parse_one(o, argv[i], argv[i + 1]);
        if (result < 0) return result;
        i++;
    }
    if (o->dir == NULL) {
        fputs("sluice bench log: --dir DIR is missing: the directory whose disk is measured\n", stderr);
        return -EINVAL;
    }
    for (u32 i = 0; i < o->size_count; i++) {
        if (o->sizes[i] <= o->file_bytes) continue;
        fputs("sluice bench log: a batch of --sizes is larger than --file-size\n", stderr);
        return -EINVAL;
    }
    return 0;
}

static u32 points_make(const log_options *o, log_point *out) {
    u32 count = 0;
    for (u32 s = 0; s < o->size_count; s++) {
        for (u32 file = 0; file < LOG_FILES; file++) {
            for (u32 path = 0; path < LOG_PATHS; path++) {
                if ((o->paths >> path & 1) == 0 || (o->files >> file & 1) == 0) continue;
                out[count++] = (log_point){.path = (log_path)path, .file = (log_file)file, .batch_bytes = o->sizes[s]};
            }
        }
    }
    return count;
}

static double us(const hist *h, double percent) {
    return (double)hist_percentile(h, percent) / 1e3;
}

static void print_row(const log_point *p, const log_figures *f) {
    printf("%8u  %-8s  %-13s", p->batch_bytes, log_file_name(p->file), log_path_name(p->path));
    if (f->error < 0) printf("  %s: %s", f->step, errno_name(f->error));
    if (f->commits > 0) {
        double s = (double)f->ns / 1e9;
        printf("  %8.0f %8.0f %8.0f %8.0f  %8.0f %8.1f  %8.1f %7.1f", us(&f->commit, 50), us(&f->commit, 99),
               us(&f->commit, 99.9), (double)hist_max(&f->commit) / 1e3, (double)f->commits / s,
               (double)f->bytes / s / 1e6, us(&f->held, 99), (double)f->cpu_ns / (double)f->commits / 1e3);
    }
    putchar('\n');
}

static void print_table(const log_point *points, const log_figures *figures, u32 count) {
    printf("%8s  %-8s  %-13s  %8s %8s %8s %8s  %8s %8s  %8s %7s\n", "bytes", "file", "path", "p50 us", "p99 us",
           "p99.9", "max us", "commits/s", "MB/s", "held p99", "cpu us");
    for (u32 i = 0; i < count; i++) print_row(&points[i], &figures[i]);
}

static void print_json(const log_options *o, const log_point *points, const log_figures *figures, u32 count) {
    json_out j = {.file = stdout};
    json_out_object_begin(&j, NULL);
    json_out_text(&j, "kind", "log");
    json_out_text(&j, "dir", o->dir);
    json_out_u64(&j, "rounds", o->rounds);
    json_out_array_begin(&j, "points");
    for (u32 i = 0; i < count; i++) {
        const log_figures *f = &figures[i];
        json_out_object_begin(&j, NULL);
        json_out_text(&j, "path", log_path_name(points[i].path));
        json_out_text(&j, "file", log_file_name(points[i].file));
        json_out_u64(&j, "batch_bytes", points[i].batch_bytes);
        json_out_u64(&j, "commits", f->commits);
        if (f->error < 0) {
            json_out_text(&j, "step", f->step);
            json_out_text(&j, "error", errno_name(f->error));
        }
        if (f->commits > 0) {
            json_out_double(&j, "p50_us", us(&f->commit, 50));
            json_out_double(&j, "p99_us", us(&f->commit, 99));
            json_out_double(&j, "p99.9_us", us(&f->commit, 99.9));
            json_out_double(&j, "max_us", (double)hist_max(&f->commit) / 1e3);
            json_out_double(&j, "commits_per_s", (double)f->commits * 1e9 / (double)f->ns);
            json_out_double(&j, "bytes_per_s", (double)f->bytes * 1e9 / (double)f->ns);
            json_out_double(&j, "held_p99_us", us(&f->held, 99));
            json_out_double(&j, "cpu_us", (double)f->cpu_ns / (double)f->commits / 1e3);
        }
        json_out_object_end(&j);
    }
    json_out_array_end(&j);
    json_out_object_end(&j);
    putchar('\n');
}

int log_bench_main(int argc, char **argv) {
    log_options o = {.sizes = {4u << 10, 64u << 10, 512u << 10}, .size_count = 3, .paths = (1u << LOG_PATHS) - 1,
                     .files = (1u << LOG_FILES) - 1, .rounds = 1, .file_bytes = 64u << 20, .time_ns = 500 * NS_PER_MS};
    int result = options_parse(&o, argc, argv);
    if (result != 0) return result > 0 ? 0 : 2;
    static log_point points[POINTS_MAX];
    u32 count = points_make(&o, points);
    log_figures *figures = calloc(count, sizeof(*figures));
    if (figures == NULL) base_out_of_memory("the figures", count * sizeof(*figures));
    for (u32 i = 0; i < count; i++) {
        hist_reset(&figures[i].commit);
        hist_reset(&figures[i].held);
    }
    for (u32 round = 0; round < o.rounds; round++) {
        for (u32 i = 0; i < count; i++) {
            if (figures[i].error == 0) log_path_measure(&points[i], o.dir, o.file_bytes, o.time_ns, &figures[i]);
        }
    }
    log_path_clean(o.dir);
    bool failed = false;
    for (u32 i = 0; i < count; i++) failed |= figures[i].error < 0;
    if (o.json) print_json(&o, points, figures, count);
    else print_table(points, figures, count);
    free(figures);
    return failed ? 1 : 0;
}
