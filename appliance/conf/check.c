// SPDX-License-Identifier: Apache-2.0
// check.c: rules between settings. Each is one function that either completes a default or adds one
// mistake with the way out. Nothing here may make a file mean more than it says: a setting that was
// written is never changed, only refused.
#include "conf/check.h"

#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "conf/bind.h"
#include "conf/network.h"
#include "conf/units.h"
#include "proto/frame.h"
#include "proto/ws_frame.h"

#define OUT_BYTES_DEFAULT (256u << 10)
#define OUT_HIGH_DEFAULT (64u << 10)
#define OUT_ROUND_BYTES 4096u

typedef struct check {
    config *c;
    const conf_lines *lines;
    conf_errors *errors;
    u32 index; // of the listener looked at
    char where[LIMIT_NAME_BYTES + 64];
} check;

static listener_config *current(const check *k) {
    return &k->c->listeners[k->index];
}

// The line of a listener's setting, or of the listener when the setting has its default.
static u32 line_of(const check *k, const char *key) {
    u32 line = k->lines->listener[k->index][schema_index(SECTION_LISTENER, key)];
    return line != 0 ? line : k->lines->listener_begin[k->index];
}

static bool is_given(const check *k, const char *key) {
    return k->lines->listener[k->index][schema_index(SECTION_LISTENER, key)] != 0;
}

static const char *where(check *k, const char *key) {
    snprintf(k->where, sizeof(k->where), "listener %s: %s", current(k)->name, key);
    return k->where;
}

// The largest thing sent to a client at once in this mode, header included.
static u32 largest_reply_bytes(const listener_config *l) {
    u32 frame = l->transport == TRANSPORT_WEBSOCKET ? WS_OUT_HEAD_BYTES_MAX : 0;
    if (l->protocol == PROTOCOL_MQTT) return l->max_packet + frame;
    return l->mode == FRAME_ACK ? FRAME_ACK_BYTES : l->max_frame + FRAME_HEADER_BYTES;
}

// One reply of the largest size must fit above the mark at which reading pauses: otherwise a client
// that does nothing wrong would be closed as a slow consumer. Defaults grow to fit; what is written
// is refused if it does not.
static void check_output_budget(check *k) {
    listener_config *l = current(k);
    u32 reply = largest_reply_bytes(l);
    char max[UNITS_TEXT_BYTES], high[UNITS_TEXT_BYTES], frame[UNITS_TEXT_BYTES];
    bool max_auto = l->out_bytes_max == 0, high_auto = l->out_bytes_high == 0;
    if (max_auto) {
        u64 need = (u64)(high_auto ? OUT_HIGH_DEFAULT : l->out_bytes_high) + reply;
        l->out_bytes_max = (u32)MAX(OUT_BYTES_DEFAULT, align_up_u64(need, OUT_ROUND_BYTES));
    }
    if (high_auto && l->out_bytes_max > reply)
        l->out_bytes_high = MIN(OUT_HIGH_DEFAULT, l->out_bytes_max - reply);
    if (l->out_bytes_high != 0 && (u64)l->out_bytes_high + reply <= l->out_bytes_max) return;
    units_print_bytes(l->out_bytes_max, max);
    units_print_bytes(l->out_bytes_high, high);
    bool mqtt = l->protocol == PROTOCOL_MQTT;
    units_print_bytes(mqtt ? l->max_packet : l->max_frame, frame);
    if (high_auto) {
        conf_errors_add(k->errors, line_of(k, "out_max"), where(k, "out_max"),
                        "%s has no room for a %s (%s)%s; allowed: auto, or more than %u", max,
                        mqtt ? "packet of max_packet" : "frame of max_frame", frame,
                        mqtt ? "" : " and its header", reply);
    } else if (mqtt) {
        conf_errors_add(k->errors, line_of(k, "out_high"), where(k, "out_high"),
                        "%s leaves no room for a packet of max_packet (%s) below out_max (%s); "
                        "lower out_high or raise out_max",
                        high, frame, max);
    } else if (l->mode == FRAME_ACK) {
        conf_errors_add(k->errors, line_of(k, "out_high"), where(k, "out_high"),
                        "%s leaves no room for an acknowledgement (%u bytes) below out_max (%s)",
                        high, reply, max);
    } else {
        conf_errors_add(
            k->errors, line_of(k, "out_high"), where(k, "out_high"),
            "%s leaves no room for a frame of max_frame (%s) and its header below out_max (%s); "
            "lower out_high or raise out_max",
            high, frame, max);
    }
}

// Who may publish on a listener must be decided by the operator, unless only this machine can reach
// it.
static void check_identity(check *k) {
    listener_config *l = current(k);
    bool has_token = l->token[0] != '\0';
    bool has_file = l->password_file[0] != '\0' || l->jwt_key_file[0] != '\0';
    if (l->mode != FRAME_PUBLISH && l->protocol != PROTOCOL_MQTT) {
        l->anonymous = !is_given(k, "anonymous") || l->anonymous;
        return;
    }
    // Who shows a certificate of client_ca is known.
    bool certified = l->tls.cert[0] != '\0' && l->tls.client_auth == TLS_CLIENT_REQUIRED;
    if (!is_given(k, "anonymous")) l->anonymous = (bind_is_local(&l->bind) || certified) && !has_token && !has_file;
    bool has_any = has_token || has_file || certified;
    if (has_token && l->anonymous) {
        conf_errors_add(k->errors, line_of(k, "anonymous"), where(k, "anonymous"),
                        "yes lets devices in without the token that this listener asks for; remove "
                        "one of the two");
    } else if (!has_any && !l->anonymous && is_given(k, "anonymous")) {
        conf_errors_add(k->errors, line_of(k, "anonymous"), where(k, "anonymous"),
                        "no, and nothing that proves who a client is: nobody could publish; set password_file, "
                        "jwt_key_file or token, or anonymous = yes");
    } else if (!has_any && !l->anonymous) {
        conf_errors_add(k->errors, line_of(k, "bind"), where(k, "bind"),
                        "%s can be reached from other machines and anybody could publish; set password_file, "
                        "jwt_key_file or token, or anonymous = yes if that is what you want",
                        l->bind.text);
    }
    bool jwt_text = l->jwt_issuer[0] != '\0' || l->jwt_audience[0] != '\0';
    if (jwt_text && l->jwt_key_file[0] == '\0') {
        const char *key = l->jwt_issuer[0] != '\0' ? "jwt_issuer" : "jwt_audience";
        conf_errors_add(k->errors, line_of(k, key), where(k, key), "is of no use without jwt_key_file");
    }
}

// Who can reach the admin listener can read everything and close connections.
static void check_admin(const check *k) {
    const config *c = k->c;
    bool reachable = c->admin_enabled && !bind_is_local(&c->admin_bind);
    if (!reachable || c->admin_token_file[0] != '\0' || c->admin_anonymous) return;
    conf_errors_add(k->errors, k->lines->top[schema_index(SECTION_ADMIN, "bind")], "admin: bind",
                    "%s can be reached from other machines and anybody could steer the gateway; set token_file, or "
                    "anonymous = yes if that is what you want",
                    c->admin_bind.text);
}

// A setting that only one mode uses was written for another: what its writer counts on does not
// happen.
static void check_mode_settings(check *k) {
    const listener_config *l = current(k);
    bool mqtt = l->protocol == PROTOCOL_MQTT;
    u32 foreign = mqtt ? SETTING_FRAME_ONLY : SETTING_MQTT_ONLY;
    for (u32 i = 0; i < schema_setting_count; i++) {
        const setting *s = &schema_settings[i];
        u32 line = s->section == SECTION_LISTENER ? k->lines->listener[k->index][i] : 0;
        if (line != 0 && (s->flags & foreign) != 0) {
            conf_errors_add(k->errors, line, where(k, s->key), "is of no use with protocol = %s",
                            mqtt ? "mqtt" : "frame");
            continue;
        }
        if (mqtt || l->mode == FRAME_PUBLISH) continue;
        if (line == 0 || (s->flags & SETTING_PUBLISH_ONLY) == 0) continue;
        bool harmless = strcmp(s->key, "anonymous") == 0 && l->anonymous;
        if (harmless) continue;
        conf_errors_add(k->errors, line, where(k, s->key),
                        "is used in mode = publish only; this listener's mode is %s, which asks "
                        "for no identity",
                        l->mode == FRAME_ECHO ? "echo" : "ack");
    }
}

// A proxy's word is taken from addresses that the operator names, never from anybody.
static void check_proxy(check *k) {
    const listener_config *l = current(k);
    bool named = l->proxy_from[0] != '\0';
    if (l->proxy_protocol && !named && l->bind.addr.ss_family != AF_UNIX) {
        conf_errors_add(k->errors, line_of(k, "proxy_protocol"), where(k, "proxy_protocol"),
                        "needs proxy_from: the addresses of the proxies");
    } else if (!l->proxy_protocol && named) {
        conf_errors_add(k->errors, line_of(k, "proxy_from"), where(k, "proxy_from"),
                        "is of no use without proxy_protocol = yes");
    }
}

static void check_transport(check *k) {
    if (current(k)->transport == TRANSPORT_WEBSOCKET) return;
    for (u32 i = 0; i < schema_setting_count; i++) {
        const setting *s = &schema_settings[i];
        bool given = s->section == SECTION_LISTENER && k->lines->listener[k->index][i] != 0;
        if (!given || (s->flags & SETTING_WS_ONLY) == 0) continue;
        conf_errors_add(k->errors, line_of(k, s->key), where(k, s->key),
                        "is of no use without transport = websocket");
    }
}

static void check_memory(check *k) {
    const listener_config *l = current(k);
    u64 worker_share = k->c->memory_max / MAX(k->c->workers, 1u);
    bool mqtt = l->protocol == PROTOCOL_MQTT;
    u32 largest = mqtt ? l->max_packet : l->max_frame;
    const char *key = mqtt ? "max_packet" : "max_frame";
    if (k->c->memory_max == 0 || largest <= worker_share) return;
    char frame[UNITS_TEXT_BYTES], share[UNITS_TEXT_BYTES];
    conf_errors_add(k->errors, line_of(k, key), where(k, key),
                    "a %s of %s does not fit a worker's share of memory_max (%s)",
                    mqtt ? "packet" : "frame", units_print_bytes(largest, frame),
                    units_print_bytes(worker_share, share));
}

// Against the listeners before this one; the first of each kind is enough to say.
static void check_pairs(check *k) {
    const config *c = k->c;
    const listener_config *l = current(k);
    bool name_found = false, bind_found = false;
    for (u32 i = 0; i < k->index; i++) {
        const listener_config *other = &c->listeners[i];
        if (!name_found && strcmp(l->name, other->name) == 0) {
            name_found = true;
            conf_errors_add(k->errors, k->lines->listener_begin[k->index], where(k, "name"),
                            "used twice; the first stands in line %u", k->lines->listener_begin[i]);
        }
        if (!bind_found && bind_is_same(&l->bind, &other->bind)) {
            bind_found = true;
            conf_errors_add(k->errors, line_of(k, "bind"), where(k, "bind"),
                            "listener %s (line %u) has the same address, %s", other->name,
                            k->lines->listener_begin[i], l->bind.text);
        }
    }
    if (c->admin_enabled && bind_is_same(&l->bind, &c->admin_bind)) {
        conf_errors_add(k->errors, line_of(k, "bind"), where(k, "bind"),
                        "admin has the same address, %s", l->bind.text);
    }
    if (l->bind.addr.ss_family == AF_UNIX &&
        strcmp(l->bind.text + strlen("unix:"), c->ctl_socket) == 0) {
        conf_errors_add(k->errors, line_of(k, "bind"), where(k, "bind"),
                        "is the socket of sluice ctl (ctl_socket)");
    }
}

static u32 list_count(const char *list) {
    u32 count = 0;
    for (; *list != '\0'; list++) count += *list == '\n';
    return count;
}

static u32 tls_line(const check *k, const char *key) {
    u32 line = k->lines->listener[k->index][schema_index(SECTION_TLS, key)];
    return line != 0 ? line : k->lines->listener_begin[k->index];
}

// The files themselves are read when the gateway starts, and by `sluice check`.
static void check_tls(check *k) {
    listener_config *l = current(k);
    bool given = k->lines->listener[k->index][schema_index(SECTION_TLS, "client_auth")] != 0;
    bool has_ca = l->tls.client_ca[0] != '\0';
    if (!given) l->tls.client_auth = has_ca ? TLS_CLIENT_REQUIRED : TLS_CLIENT_NONE;
    if (l->tls.cert[0] == '\0') return;
    u32 certs = list_count(l->tls.cert), keys = list_count(l->tls.key);
    if (certs > LIMIT_TLS_CERTS) {
        conf_errors_add(k->errors, tls_line(k, "cert"), where(k, "tls: cert"), "%u files; allowed: at most %u", certs,
                        LIMIT_TLS_CERTS);
    }
    if (keys > certs) {
        conf_errors_add(k->errors, tls_line(k, "key"), where(k, "tls: key"), "%u keys for %u certificates", keys,
                        certs);
    }
    if (l->tls.client_auth != TLS_CLIENT_NONE && !has_ca) {
        conf_errors_add(k->errors, tls_line(k, "client_auth"), where(k, "tls: client_auth"),
                        "certificates of clients can not be checked without client_ca");
    }
    if (l->tls.deny[0] != '\0' && l->tls.client_auth == TLS_CLIENT_NONE) {
        conf_errors_add(k->errors, tls_line(k, "deny"), where(k, "tls: deny"),
                        "is of no use when no client shows a certificate; set client_ca");
    }
}

static void check_listener(check *k) {
    listener_config *l = current(k);
    check_pairs(k);
    if (k->lines->listener_wrong[k->index]) return;
    check_mode_settings(k);
    check_tls(k);
    check_identity(k);
    check_output_budget(k);
    check_memory(k);
    check_proxy(k);
    check_transport(k);
    if (l->max_conns != 0 && k->c->max_conns != 0 && l->max_conns > k->c->max_conns) {
        conf_errors_add(k->errors, line_of(k, "max_conns"), where(k, "max_conns"),
                        "%u is above the process's max_conns, %u", l->max_conns, k->c->max_conns);
    }
}

static void check_ctl_socket(const check *k) {
    config *c = k->c;
    size_t room = MIN(sizeof(c->ctl_socket), sizeof(((struct sockaddr_un *)0)->sun_path));
    u32 line = k->lines->top[schema_index(SECTION_TOP, "data_dir")];
    if (c->ctl_socket[0] == '\0') {
        char path[sizeof(c->data_dir) + 16];
        int n = snprintf(path, sizeof(path), "%s/ctl.sock", c->data_dir);
        if ((size_t)n >= room) {
            conf_errors_add(k->errors, line, "data_dir",
                            "too long for the control socket in it (%zu bytes with /ctl.sock, at "
                            "most %zu); set ctl_socket",
                            (size_t)n, room - 1);
            return;
        }
        memcpy(c->ctl_socket, path, (size_t)n + 1);
    }
    bool admin_is_unix = c->admin_enabled && c->admin_bind.addr.ss_family == AF_UNIX;
    if (admin_is_unix && strcmp(c->admin_bind.text + strlen("unix:"), c->ctl_socket) == 0) {
        conf_errors_add(k->errors, k->lines->top[schema_index(SECTION_ADMIN, "bind")],
                        "admin: bind", "is the socket of sluice ctl (ctl_socket)");
    }
}

// Names of streams are told apart by them in every log.
static void check_streams(const check *k) {
    const config *c = k->c;
    char place[LIMIT_NAME_BYTES + 64];
    for (u32 i = 0; i < c->stream_count; i++) {
        for (u32 other = 0; other < i; other++) {
            if (strcmp(c->streams[i].name, c->streams[other].name) != 0) continue;
            snprintf(place, sizeof(place), "stream %s: name", c->streams[i].name);
            conf_errors_add(k->errors, k->lines->stream_begin[i], place,
                            "used twice; the first stands in line %u", k->lines->stream_begin[other]);
            break;
        }
    }
}

void conf_check(config *c, const conf_lines *lines, conf_errors *errors) {
    check k = {.c = c, .lines = lines, .errors = errors};
    check_ctl_socket(&k);
    check_admin(&k);
    for (k.index = 0; k.index < c->listener_count; k.index++) check_listener(&k);
    check_streams(&k);
    conf_check_uplinks(c, lines, errors);
    conf_check_networks(c, lines, errors);
}
