// SPDX-License-Identifier: Apache-2.0
// disk_sim.c: files as arrays of pages, each in two states: in the cache, and on the disk. Only pages that were
// written take memory. The generator is splitmix64, so that a seed gives the same faults on every machine.
#include "store/disk_sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MAX 512u
#define PAGE_BYTES 4096u
#define SECTORS 8u // of 512 bytes, in a page
#define NAME_BYTES 320u

typedef struct sim_page {
    u8 cache[PAGE_BYTES], disk[PAGE_BYTES];
    u8 dirty; // a bit a sector
} sim_page;

typedef struct sim_file {
    bool used;
    char name[NAME_BYTES];    // "" = removed (the file lives while it is open)
    char on_disk[NAME_BYTES]; // name after a power cut, unless `name` made it
    u64 size, size_on_disk;
    u32 open;
    sim_page **pages;
    u32 page_room;
} sim_file;

struct disk_sim {
    disk base;
    disk_sim_config config;
    u64 random;
    u64 operations, cut_at;
    bool is_cut;
    u64 bytes;
    sim_file files[FILES_MAX];
    char dirs[64][NAME_BYTES];
    u32 dir_count;
};

u64 disk_sim_random(disk_sim *d) {
    u64 z = d->random += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static bool chance(disk_sim *d, u32 per_mille) {
    return per_mille > 0 && disk_sim_random(d) % 1000 < per_mille;
}

static disk_sim *of(disk *d) {
    return CONTAINER_OF(d, disk_sim, base);
}

// A change begins. False: the power is gone; *last: it goes now, with this one half done.
static bool change(disk_sim *d, bool *last) {
    *last = false;
    if (d->is_cut) return false;
    d->operations++;
    if (d->cut_at != 0 && d->operations >= d->cut_at) {
        d->is_cut = true;
        *last = true;
    }
    return true;
}

static sim_page *page_at(disk_sim *d, sim_file *f, u64 index, bool make) {
    if (index >= f->page_room) {
        if (!make) return NULL;
        u32 room = (u32)MAX(index + 1, (u64)f->page_room * 2);
        f->pages = realloc(f->pages, sizeof(*f->pages) * room);
        memset(f->pages + f->page_room, 0, sizeof(*f->pages) * (room - f->page_room));
        f->page_room = room;
    }
    if (f->pages[index] == NULL && make) f->pages[index] = calloc(1, sizeof(sim_page));
    (void)d;
    return f->pages[index];
}

static void file_clear(disk_sim *d, sim_file *f) {
    for (u32 i = 0; i < f->page_room; i++) free(f->pages[i]);
    free(f->pages);
    d->bytes -= f->size;
    *f = (sim_file){0};
}

static void file_forget(disk_sim *d, sim_file *f) {
    if (f->used && f->open == 0 && f->name[0] == 0 && f->on_disk[0] == 0) file_clear(d, f);
}

static sim_file *file_named(disk_sim *d, const char *path) {
    for (u32 i = 0; i < FILES_MAX; i++) {
        if (d->files[i].used && strcmp(d->files[i].name, path) == 0) return &d->files[i];
    }
    return NULL;
}

static bool in_dir(const char *path, const char *dir) {
    size_t n = strlen(dir);
    return strncmp(path, dir, n) == 0 && path[n] == '/' && strchr(path + n + 1, '/') == NULL;
}

// --- operations ---

static int sim_list(disk *base, const char *dir, bool (*visit)(void *context, const char *name), void *context) {
    disk_sim *d = of(base);
    if (d->is_cut) return -EIO;
    for (u32 i = 0; i < FILES_MAX; i++) {
        sim_file *f = &d->files[i];
        if (f->used && in_dir(f->name, dir) && !visit(context, f->name + strlen(dir) + 1)) return 0;
    }
    for (u32 i = 0; i < d->dir_count; i++) {
        if (in_dir(d->dirs[i], dir) && !visit(context, d->dirs[i] + strlen(dir) + 1)) return 0;
    }
    return 0;
}

static int sim_make_dir(disk *base, const char *dir) {
    disk_sim *d = of(base);
    if (d->is_cut) return -EIO;
    for (u32 i = 0; i < d->dir_count; i++) {
        if (strcmp(d->dirs[i], dir) == 0) return -EEXIST;
    }
    ASSERT(d->dir_count < ARRAY_LEN(d->dirs));
    snprintf(d->dirs[d->dir_count++], NAME_BYTES, "%s", dir);
    return 0;
}

static int sim_sync_dir(disk *base, const char *dir) {
    disk_sim *d = of(base);
    bool last;
    if (!change(d, &last)) return -EIO;
    if (last) return -EIO;
    if (chance(d, d->config.sync_error_per_mille)) return -EIO;
    for (u32 i = 0; i < FILES_MAX; i++) {
        sim_file *f = &d->files[i];
        if (!f->used || (!in_dir(f->name, dir) && !in_dir(f->on_disk, dir))) continue;
        memcpy(f->on_disk, f->name, NAME_BYTES);
        file_forget(d, f);
    }
    return 0;
}

static int sim_open(disk *base, const char *path, bool create) {
    disk_sim *d = of(base);
    bool last;
    if (d->is_cut) return -EIO;
    sim_file *f = file_named(d, path);
    if (f == NULL && !create) return -ENOENT;
    if (f != NULL && d->config.open_error != 0) return d->config.open_error;
    if (f == NULL) {
        if (!change(d, &last) || chance(d, d->config.make_error_per_mille)) return -EIO;
        for (u32 i = 0; i < FILES_MAX && f == NULL; i++) {
            if (!d->files[i].used) f = &d->files[i];
        }
        if (f == NULL) return -ENFILE;
        *f = (sim_file){.used = true};
        snprintf(f->name, NAME_BYTES, "%s", path);
        if (last) return -EIO;
    }
    f->open++;
    return (int)(f - d->files);
}

static int sim_close(disk *base, int file) {
    disk_sim *d = of(base);
    sim_file *f = &d->files[file];
    if (f->open > 0) f->open--;
    file_forget(d, f);
    return 0;
}

static i64 sim_size(disk *base, int file) {
    return (i64)of(base)->files[file].size;
}

static int grow(disk_sim *d, sim_file *f, u64 bytes) {
    if (bytes <= f->size) return 0;
    if (d->config.bytes_max != 0 && d->bytes + (bytes - f->size) > d->config.bytes_max) return -ENOSPC;
    d->bytes += bytes - f->size;
    f->size = bytes;
    return 0;
}

static int sim_reserve(disk *base, int file, u64 bytes) {
    disk_sim *d = of(base);
    bool last;
    if (!change(d, &last) || last) return -EIO;
    if (chance(d, d->config.make_error_per_mille)) return -ENOSPC;
    return grow(d, &d->files[file], bytes);
}

static int sim_truncate(disk *base, int file, u64 bytes) {
    disk_sim *d = of(base);
    bool last;
    if (!change(d, &last) || last) return -EIO;
    sim_file *f = &d->files[file];
    if (bytes > f->size) return grow(d, f, bytes);
    d->bytes -= f->size - bytes;
    f->size = bytes;
    return 0;
}

static int sim_write(disk *base, int file, const void *data, size_t bytes, u64 offset) {
    disk_sim *d = of(base);
    bool last;
    sim_file *f = &d->files[file];
    if (!change(d, &last)) return -EIO;
    int result = grow(d, f, offset + bytes);
    if (result < 0) return result;
    if (last || chance(d, d->config.write_error_per_mille)) { // a part of it gets as far as the cache
        bytes = (size_t)(disk_sim_random(d) % (bytes + 1));
        result = -EIO;
    }
    const u8 *from = data;
    while (bytes > 0) {
        sim_page *p = page_at(d, f, offset / PAGE_BYTES, true);
        u32 at = (u32)(offset % PAGE_BYTES);
        u32 n = (u32)MIN(bytes, (size_t)(PAGE_BYTES - at));
        memcpy(p->cache + at, from, n);
        for (u32 s = at / 512; s <= (at + n - 1) / 512; s++) p->dirty |= (u8)(1u << s);
        from += n;
        offset += n;
        bytes -= n;
    }
    return result;
}

static i64 sim_read(disk *base, int file, void *data, size_t bytes, u64 offset) {
    disk_sim *d = of(base);
    sim_file *f = &d->files[file];
    if (d->is_cut || chance(d, d->config.read_error_per_mille)) return -EIO;
    if (offset >= f->size) return 0;
    bytes = (size_t)MIN((u64)bytes, f->size - offset);
    u8 *to = data;
    for (size_t got = 0; got < bytes;) {
        sim_page *p = page_at(d, f, (offset + got) / PAGE_BYTES, false);
        u32 at = (u32)((offset + got) % PAGE_BYTES);
        u32 n = (u32)MIN(bytes - got, (size_t)(PAGE_BYTES - at));
        if (p == NULL) memset(to + got, 0, n);
        else memcpy(to + got, p->cache + at, n);
        got += n;
    }
    return (i64)bytes;
}

static int sim_sync(disk *base, int file) {
    disk_sim *d = of(base);
    bool last;
    sim_file *f = &d->files[file];
    if (!change(d, &last)) return -EIO;
    if (last) return -EIO;
    bool fails = chance(d, d->config.sync_error_per_mille);
    for (u32 i = 0; i < f->page_room; i++) {
        sim_page *p = f->pages[i];
        if (p == NULL || p->dirty == 0) continue;
        for (u32 s = 0; s < SECTORS; s++) {
            bool reaches = !fails || disk_sim_random(d) % 2 == 0;
            if ((p->dirty & (1u << s)) != 0 && reaches) memcpy(p->disk + s * 512, p->cache + s * 512, 512);
        }
        p->dirty = 0;
    }
    f->size_on_disk = f->size;
    return fails ? -EIO : 0;
}

static int sim_rename(disk *base, const char *from, const char *to) {
    disk_sim *d = of(base);
    bool last;
    if (!change(d, &last)) return -EIO;
    sim_file *f = file_named(d, from), *old = file_named(d, to);
    if (f == NULL) return -ENOENT;
    if (last && disk_sim_random(d) % 2 == 0) return -EIO;
    if (old != NULL) {
        old->name[0] = 0;
        file_forget(d, old);
    }
    snprintf(f->name, NAME_BYTES, "%s", to);
    return last ? -EIO : 0;
}

static int sim_unlink(disk *base, const char *path) {
    disk_sim *d = of(base);
    bool last;
    if (!change(d, &last)) return -EIO;
    sim_file *f = file_named(d, path);
    if (f == NULL) return -ENOENT;
    if (last && disk_sim_random(d) % 2 == 0) return -EIO;
    f->name[0] = 0;
    file_forget(d, f);
    return last ? -EIO : 0;
}

static i64 sim_free_bytes(disk *base, const char *dir) {
    disk_sim *d = of(base);
    (void)dir;
    return d->config.bytes_max == 0 ? INT64_MAX / 2 : (i64)(d->config.bytes_max - MIN(d->bytes, d->config.bytes_max));
}

// --- control ---

disk_sim *disk_sim_create(const disk_sim_config *config) {
    static const disk_operations operations = {
        .list = sim_list,
        .make_dir = sim_make_dir,
        .sync_dir = sim_sync_dir,
        .open = sim_open,
        .close = sim_close,
        .size = sim_size,
        .reserve = sim_reserve,
        .truncate = sim_truncate,
        .write = sim_write,
        .read = sim_read,
        .sync = sim_sync,
        .rename = sim_rename,
        .unlink = sim_unlink,
        .free_bytes = sim_free_bytes,
    };
    disk_sim *d = calloc(1, sizeof(*d));
    if (d == NULL) return NULL;
    d->base.ops = &operations;
    d->config = *config;
    d->random = config->seed;
    return d;
}

void disk_sim_destroy(disk_sim *d) {
    for (u32 i = 0; i < FILES_MAX; i++) {
        if (d->files[i].used) file_clear(d, &d->files[i]);
    }
    free(d);
}

disk *disk_sim_disk(disk_sim *d) {
    return &d->base;
}

void disk_sim_configure(disk_sim *d, const disk_sim_config *config) {
    d->config = *config;
}

void disk_sim_cut_after(disk_sim *d, u64 operations) {
    d->cut_at = d->operations + MAX(operations, 1u);
}

bool disk_sim_is_cut(const disk_sim *d) {
    return d->is_cut;
}

u64 disk_sim_operations(const disk_sim *d) {
    return d->operations;
}

static void sector_after_cut(disk_sim *d, sim_page *p, u32 s) {
    u8 *on_disk = p->disk + s * 512;
    const u8 *cached = p->cache + s * 512;
    if (chance(d, d->config.torn_per_mille)) {
        u32 half = (u32)(disk_sim_random(d) % 512);
        memcpy(on_disk, cached, half);
        if (disk_sim_random(d) % 2 == 0) on_disk[disk_sim_random(d) % 512] ^= 0x5a;
    } else if (disk_sim_random(d) % 2 == 0) {
        memcpy(on_disk, cached, 512);
    }
}

void disk_sim_restart(disk_sim *d) {
    for (u32 i = 0; i < FILES_MAX; i++) {
        sim_file *f = &d->files[i];
        if (!f->used) continue;
        f->open = 0;
        if (strcmp(f->name, f->on_disk) != 0) { // a name that was not synced: the one or the other
            if (disk_sim_random(d) % 2 == 0) memcpy(f->name, f->on_disk, NAME_BYTES);
            else memcpy(f->on_disk, f->name, NAME_BYTES);
        }
        for (u32 k = 0; k < f->page_room; k++) {
            sim_page *p = f->pages[k];
            if (p == NULL) continue;
            for (u32 s = 0; s < SECTORS; s++) {
                if ((p->dirty & (1u << s)) != 0) sector_after_cut(d, p, s);
            }
            memcpy(p->cache, p->disk, PAGE_BYTES);
            p->dirty = 0;
        }
        if (f->size_on_disk < f->size && disk_sim_random(d) % 2 == 0) {
            d->bytes -= f->size - f->size_on_disk;
            f->size = f->size_on_disk;
        }
        f->size_on_disk = f->size;
        file_forget(d, f);
    }
    // Two files may not have one name: a replaced one is gone.
    for (u32 i = 0; i < FILES_MAX; i++) {
        for (u32 k = 0; k < i; k++) {
            sim_file *a = &d->files[i], *b = &d->files[k];
            if (a->used && b->used && strcmp(a->name, b->name) == 0) file_clear(d, a);
        }
    }
    d->is_cut = false;
    d->cut_at = 0;
}

bool disk_sim_flip(disk_sim *d, const char *suffix, char *path, size_t path_bytes, u64 *offset) {
    for (u32 tries = 0; tries < 200; tries++) {
        sim_file *f = &d->files[disk_sim_random(d) % FILES_MAX];
        size_t n = strlen(f->name), m = strlen(suffix);
        if (!f->used || n < m || strcmp(f->name + n - m, suffix) != 0 || f->page_room == 0) continue;
        u64 index = disk_sim_random(d) % f->page_room;
        sim_page *p = f->pages[index];
        if (p == NULL) continue;
        u32 at = (u32)(disk_sim_random(d) % PAGE_BYTES);
        p->cache[at] ^= (u8)(1u << (disk_sim_random(d) % 8));
        p->disk[at] = p->cache[at];
        snprintf(path, path_bytes, "%s", f->name);
        *offset = index * PAGE_BYTES + at;
        return true;
    }
    return false;
}
