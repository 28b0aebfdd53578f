// SPDX-License-Identifier: Apache-2.0
// files.c: what an uplink reads from files: the authorities and the own certificate of mqtts:// and tls://, and
// the nkey or credentials of NATS. A few kilobytes, read when settings change and after a reload.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "uplink/uplink_internal.h"

#define FILE_BYTES_MAX (4u * NATS_JWT_BYTES_MAX)

static void tls_load(uplink *u) {
    char why[256];
    bool wanted = false;
    for (u32 i = 0; i < u->url_count; i++) wanted = wanted || u->urls[i].tls;
    if (!wanted) return;
    tls_client_files files = {
        .ca = u->conf.tls_ca,
        .cert = u->conf.tls_cert[0] != '\0' ? u->conf.tls_cert : NULL,
        .key = u->conf.tls_key[0] != '\0' ? u->conf.tls_key : NULL,
        .alpn = u->conf.kind == UPLINK_MQTT ? "mqtt" : NULL,
    };
    if (tls_client_load(&files, &u->tls, why, sizeof(why)) == 0) return;
    u->tls = NULL;
    uplink_detail(u, "%s", why);
    log_error("worker %u: uplink %s: %s", u->owner->index, u->conf.name, why);
}

// Returns the bytes read, -EFBIG or -errno.
static ssize_t file_read(const char *path, char *out, size_t room) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t got = 1;
    if (fd < 0) return -errno;
    while (used < room && (got = read(fd, out + used, room - used)) > 0) used += (size_t)got;
    int error = errno;
    close(fd);
    if (got < 0) return -error;
    return used == room ? -EFBIG : (ssize_t)used;
}

static const char *login_take(uplink *u, const char *text, size_t len, bool jwt) {
    nats_creds creds;
    const char *why = nats_creds_parse(text, len, jwt, &creds);
    if (why == NULL && jwt && (u->login.jwt = strndup(creds.jwt, creds.jwt_len)) == NULL) why = "out of memory";
    if (why == NULL) u->login.key = creds.key;
    nkey_wipe(&creds.key);
    return why;
}

static void login_load(uplink *u) {
    bool jwt = u->conf.credentials[0] != '\0';
    const char *path = jwt ? u->conf.credentials : u->conf.nkey, *why;
    if (path[0] == '\0') return;
    char *text = malloc(FILE_BYTES_MAX);
    ssize_t len = text == NULL ? -ENOMEM : file_read(path, text, FILE_BYTES_MAX);
    why = len < 0 ? errno_name((int)len) : login_take(u, text, (size_t)len, jwt);
    if (text != NULL) explicit_bzero(text, FILE_BYTES_MAX);
    free(text);
    if (why == NULL) return;
    uplink_detail(u, "%s: %s", path, why);
    log_error("worker %u: uplink %s: %s: %s", u->owner->index, u->conf.name, path, why);
}

void uplink_files_load(uplink *u) {
    uplink_files_free(u);
    u->files_old = false;
    tls_load(u);
    login_load(u);
}

void uplink_files_free(uplink *u) {
    tls_client_free(u->tls);
    u->tls = NULL;
    if (u->login.jwt != NULL) explicit_bzero(u->login.jwt, strlen(u->login.jwt));
    free(u->login.jwt);
    u->login.jwt = NULL;
    nkey_wipe(&u->login.key);
}

void uplink_files_renew(uplink *u) {
    if (u->files_old && u->origin.conns == 0) uplink_files_load(u);
}
