// SPDX-License-Identifier: Apache-2.0
// import.c: `sluice import FILE`: opens the file and what include_dir names, in the order of the
// names, prints the result to stdout and every note to stderr.
#include "import/import.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "import/mosquitto.h"

#define STATUS_OK 0
#define STATUS_PARTLY 1 // printed, and something has no equivalent
#define STATUS_BAD 2    // mistakes in the file, or in the command line

static const char help[] =
    "usage: sluice import FILE\n"
    "\n"
    "Reads a mosquitto.conf and prints the equivalent configuration. What has no equivalent, or has "
    "to be\n"
    "decided by you, stands in it as comments with the line it came from, and goes to stderr too. The\n"
    "result is never more open than the original: look at it, and give it to `sluice check -c`.\n"
    "\n"
    "  FILE   mosquitto.conf; - reads stdin. Files of include_dir are read too.\n"
    "\n"
    "Exit status: 0 everything was carried over; 1 printed, but something was not; 2 the file has\n"
    "mistakes or can not be read, or the command line is wrong.\n";

static void file_read(import_model *m, const char *path, import_place from, u32 depth);

static int name_compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_conf(const char *name) {
    size_t n = strlen(name);
    return name[0] != '.' && n > 5 && strcmp(name + n - 5, ".conf") == 0;
}

static void dir_read(import_model *m, const char *path, import_place at, u32 depth) {
    char *names[IMPORT_FILES_MAX], full[4096];
    u32 count = 0;
    DIR *dir = opendir(path);
    if (dir == NULL) {
        import_error_add(m, at, "include_dir %.256s: %s", path, errno_name(errno));
        return;
    }
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        if (!is_conf(entry->d_name)) continue;
        if (count == IMPORT_FILES_MAX) {
            import_error_add(m, at, "include_dir %.256s: more than %u files", path, IMPORT_FILES_MAX);
            break;
        }
        names[count] = strdup(entry->d_name);
        if (names[count++] == NULL) base_out_of_memory("the import", 256);
    }
    closedir(dir);
    qsort(names, count, sizeof(names[0]), name_compare);
    for (u32 i = 0; i < count; i++) {
        snprintf(full, sizeof(full), "%s/%s", path, names[i]);
        file_read(m, full, at, depth + 1);
        free(names[i]);
    }
}

static void option_take(import_model *m, import_place at, char *key, char *value, void *ctx) {
    u32 depth = *(u32 *)ctx;
    if (strcmp(key, "include_dir") != 0) {
        import_option_apply(m, at, key, value);
    } else if (*value == 0) {
        import_error_add(m, at, "include_dir: a directory is missing");
    } else if (depth == IMPORT_DEPTH_MAX) {
        import_error_add(m, at, "include_dir: files that include files more than %u deep",
                         IMPORT_DEPTH_MAX);
    } else {
        dir_read(m, value, at, depth);
    }
}

static void file_read(import_model *m, const char *path, import_place from, u32 depth) {
    bool is_stdin = strcmp(path, "-") == 0;
    const char *name = import_file_name(m, is_stdin ? "(stdin)" : path);
    import_place at = from.file != NULL ? from : (import_place){.file = name};
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        import_error_add(m, at, "%.256s: %s", path, errno_name(errno));
        return;
    }
    char *text = malloc(IMPORT_FILE_BYTES_MAX + 1);
    if (text == NULL) base_out_of_memory("a file", IMPORT_FILE_BYTES_MAX);
    size_t used = 0;
    ssize_t n = 1;
    while (n > 0 && used <= IMPORT_FILE_BYTES_MAX) {
        n = read(fd, text + used, IMPORT_FILE_BYTES_MAX + 1 - used);
        if (n < 0 && errno == EINTR) n = 1;
        else if (n > 0) used += (size_t)n;
    }
    if (n < 0) import_error_add(m, at, "%.256s: %s", path, errno_name(errno));
    else if (used > IMPORT_FILE_BYTES_MAX) {
        import_error_add(m, at, "%.256s: larger than %u bytes", path, IMPORT_FILE_BYTES_MAX);
    } else {
        import_text_read(m, name, text, used, option_take, &depth);
    }
    free(text);
    if (fd != STDIN_FILENO) close(fd);
}

static void notes_print(const import_note *notes, u32 count, const char *kind) {
    for (u32 i = 0; i < count; i++) {
        const import_place *at = &notes[i].place;
        if (at->file != NULL && at->line > 0) fprintf(stderr, "%s:%u: ", at->file, at->line);
        fprintf(stderr, "%s%s\n", kind, notes[i].text);
    }
}

static int model_print(import_model *m, const char *source) {
    if (m->error_count > 0) {
        notes_print(m->errors, m->error_count, "");
        return STATUS_BAD;
    }
    import_model_finish(m);
    import_model_write(m, source, stdout);
    if (m->error_count > 0) {
        notes_print(m->errors, m->error_count, "");
        return STATUS_BAD;
    }
    notes_print(m->notes, m->note_count, "note: ");
    return m->note_count > 0 ? STATUS_PARTLY : STATUS_OK;
}

int import_main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(help, stdout);
        return STATUS_OK;
    }
    if (argc != 2 || (argv[1][0] == '-' && argv[1][1] != 0)) {
        fprintf(stderr, "sluice import: one file is wanted\n%s", help);
        return STATUS_BAD;
    }
    import_model m;
    import_model_prepare(&m);
    file_read(&m, argv[1], (import_place){0}, 0);
    int status = model_print(&m, argv[1]);
    import_model_free(&m);
    return status;
}
