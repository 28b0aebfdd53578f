// SPDX-License-Identifier: Apache-2.0
// policy.c: see policy.h.
#include "auth/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/clock.h"

// --- files ---

static int read_all(int fd, char *text, size_t len) {
    size_t got = 0;
    while (got < len) {
        ssize_t n = read(fd, text + got, len - got);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -errno;
        if (n == 0) return -EIO; // cut while it was read
        got += (size_t)n;
    }
    return 0;
}

static int fail(char *error, size_t error_bytes, const char *path, int result, const char *what) {
    snprintf(error, error_bytes, "%s: %s", path, what);
    return result;
}

int auth_file_read(const char *path, char **text, size_t *len, char *error, size_t error_bytes) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return fail(error, error_bytes, path, -errno, errno_name(errno));
    int result = 0;
    const char *wrong = NULL;
    *text = NULL;
    if (fstat(fd, &st) < 0) {
        result = -errno;
        wrong = errno_name(errno);
    } else if (!S_ISREG(st.st_mode)) {
        result = -EINVAL;
        wrong = "not a regular file";
    } else if ((u64)st.st_size > LIMIT_AUTH_FILE_BYTES) {
        result = -EFBIG;
        wrong = "longer than 64 MiB";
    } else if ((*text = malloc((size_t)st.st_size + 1)) == NULL) {
        result = -ENOMEM;
        wrong = "out of memory";
    } else if ((result = read_all(fd, *text, (size_t)st.st_size)) < 0) {
        wrong = errno_name(result);
        auth_file_free(*text, (size_t)st.st_size);
    }
    close(fd);
    if (wrong != NULL) return fail(error, error_bytes, path, result, wrong);
    *len = (size_t)st.st_size;
    (*text)[*len] = '\0';
    return 0;
}

void auth_file_free(char *text, size_t len) {
    if (text != NULL) secret_wipe(text, len);
    free(text);
}

// --- policies ---

static void policy_free(auth_policy *p) {
    password_file_free(&p->passwords);
    acl_free(&p->acl);
    secret_wipe(p, sizeof(*p));
    free(p);
}

static int jwt_load(auth_policy *p, const listener_config *l, const char *text, size_t len, config_error *error) {
    const char *wrong = jwt_keys_parse(text, len, &p->jwt.keys);
    if (wrong != NULL) return fail(error->text, sizeof(error->text), l->jwt_key_file, -EINVAL, wrong);
    p->has_jwt = true;
    p->jwt.leeway_s = l->jwt_leeway_s;
    u64 built_s = (u64)MAX(clock_build_s(), (i64)0); // a machine without a clock of its own starts in 1970
    p->jwt.clock_min_s = built_s > LIMIT_CLOCK_BEHIND_S ? built_s - LIMIT_CLOCK_BEHIND_S : 0;
    snprintf(p->jwt.issuer, sizeof(p->jwt.issuer), "%s", l->jwt_issuer);
    snprintf(p->jwt.audience, sizeof(p->jwt.audience), "%s", l->jwt_audience);
    return 0;
}

// Loads one of a listener's files; which: 0 passwords, 1 ACL, 2 keys.
static int part_load(auth_policy *p, const listener_config *l, u32 which, config_error *error) {
    const char *path = which == 0 ? l->password_file : which == 1 ? l->acl_file : l->jwt_key_file;
    char *text;
    size_t len;
    if (path[0] == '\0') return 0;
    int result = auth_file_read(path, &text, &len, error->text, sizeof(error->text));
    if (result < 0) return result;
    if (which == 0) {
        result = password_file_parse(path, text, len, &p->passwords, error->text, sizeof(error->text));
        p->has_passwords = result == 0;
    } else if (which == 1) {
        result = acl_parse(path, text, len, &p->acl, error->text, sizeof(error->text));
        p->has_acl = result == 0;
    } else {
        result = jwt_load(p, l, text, len, error);
    }
    auth_file_free(text, len);
    return result;
}

static int policy_load(listener_config *l, config_error *error) {
    bool none = l->password_file[0] == '\0' && l->acl_file[0] == '\0' && l->jwt_key_file[0] == '\0';
    if (none) return 0;
    auth_policy *p = calloc(1, sizeof(*p));
    if (p == NULL) return fail(error->text, sizeof(error->text), l->name, -ENOMEM, "out of memory");
    p->refs = 1;
    for (u32 which = 0; which < 3; which++) {
        int result = part_load(p, l, which, error);
        if (result == 0) continue;
        policy_free(p);
        return result;
    }
    l->auth = p;
    return 0;
}

// One line of printable characters: it is a header field's value.
static int admin_token_load(config *conf, config_error *error) {
    char *text;
    size_t len;
    if (conf->admin_token_file[0] == '\0') return 0;
    int result = auth_file_read(conf->admin_token_file, &text, &len, error->text, sizeof(error->text));
    if (result < 0) return result;
    size_t used = len;
    while (used > 0 && (text[used - 1] == '\n' || text[used - 1] == '\r')) used--;
    const char *wrong = used < 16 ? "the token has fewer than 16 characters"
                        : used > LIMIT_ADMIN_TOKEN_BYTES ? "the token has more than 200 characters" : NULL;
    for (size_t i = 0; i < used; i++) {
        if (text[i] <= ' ' || text[i] > '~') wrong = "the token is not one line of printable ASCII without blanks";
    }
    if (wrong == NULL) {
        memcpy(conf->admin_token, text, used);
        conf->admin_token[used] = '\0';
    }
    auth_file_free(text, len);
    return wrong == NULL ? 0 : fail(error->text, sizeof(error->text), conf->admin_token_file, -EINVAL, wrong);
}

int auth_policies_load(config *conf, config_error *error) {
    int admin = admin_token_load(conf, error);
    if (admin < 0) return admin;
    for (u32 i = 0; i < conf->listener_count; i++) {
        int result = policy_load(&conf->listeners[i], error);
        if (result == 0) continue;
        auth_policies_release(conf);
        return result;
    }
    return 0;
}

void auth_policies_release(config *conf) {
    for (u32 i = 0; i < conf->listener_count; i++) {
        auth_policy_unref(conf->listeners[i].auth);
        conf->listeners[i].auth = NULL;
    }
    secret_wipe(conf->admin_token, sizeof(conf->admin_token));
}

auth_policy *auth_policy_ref(auth_policy *p) {
    if (p != NULL) __atomic_fetch_add(&p->refs, 1, __ATOMIC_RELAXED);
    return p;
}

void auth_policy_unref(auth_policy *p) {
    if (p == NULL || __atomic_fetch_sub(&p->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
    policy_free(p);
}
