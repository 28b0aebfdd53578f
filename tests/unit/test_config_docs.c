// SPDX-License-Identifier: Apache-2.0
// test_config_docs.c: what the documentation shows is true: the reference is the one that the
// program prints, and every example is a good configuration. Needs the source tree, named by REPO;
// without it the tests are skipped.
#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "conf/config.h"

static const char *repo_path(const char *name) {
    static char path[4096];
    const char *repo = getenv("REPO");
    if (repo == NULL) skip();
    snprintf(path, sizeof(path), "%s/%s", repo, name);
    return path;
}

static char *read_text(int fd, size_t *bytes) {
    size_t room = 1 << 20;
    char *text = malloc(room);
    ssize_t n;
    assert_non_null(text);
    *bytes = 0;
    while ((n = read(fd, text + *bytes, room - *bytes)) > 0) *bytes += (size_t)n;
    assert_true(n == 0);
    return text;
}

// Standard output goes to a file while the reference is printed.
static int print_reference_to_file(void) {
    char name[] = "reference-XXXXXX";
    int fd = mkstemp(name), out = dup(STDOUT_FILENO);
    assert_true(fd >= 0 && out >= 0);
    unlink(name);
    fflush(stdout);
    assert_true(dup2(fd, STDOUT_FILENO) >= 0);
    config_print_reference();
    fflush(stdout);
    assert_true(dup2(out, STDOUT_FILENO) >= 0);
    close(out);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static void test_reference_is_current(void **state) {
    (void)state;
    size_t kept_bytes, printed_bytes;
    int kept_fd = open(repo_path("docs/configuration.md"), O_RDONLY | O_CLOEXEC);
    if (kept_fd < 0) fail_msg("docs/configuration.md is missing");
    int printed_fd = print_reference_to_file();
    char *kept = read_text(kept_fd, &kept_bytes), *printed = read_text(printed_fd, &printed_bytes);
    bool same = kept_bytes == printed_bytes && memcmp(kept, printed, kept_bytes) == 0;
    if (!same) fail_msg("write it anew: sluice check --reference > docs/configuration.md");
    free(kept);
    free(printed);
    close(kept_fd);
    close(printed_fd);
}

static void test_examples_are_good(void **state) {
    (void)state;
    glob_t found;
    config *c = malloc(sizeof(*c));
    config_error error;
    assert_non_null(c);
    assert_int_equal(glob(repo_path("docs/examples/*.conf"), 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        if (config_load(found.gl_pathv[i], c, &error) != 0) fail_msg("%s", error.text);
    }
    globfree(&found);
    free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_is_current),
        cmocka_unit_test(test_examples_are_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
