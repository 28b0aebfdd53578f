// SPDX-License-Identifier: Apache-2.0
// pub.c: `sluice pub`: where messages come from, and the window of those that are not acknowledged
// yet. It ends when everything is acknowledged as its QoS asks; QoS 0 ends when the kernel has it.
//
// Lines of stdin are sent when they come; while the window is full, or much output waits, stdin is
// not read, so memory stays bounded whatever feeds it.
#include "client/pub.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/client.h"
#include "proto/mqtt_property.h"

#define OUT_HIGH_BYTES (1u << 20) // no more is taken in while so much waits
#define READ_BYTES 65536u
#define LEAVE_MS 5000u

typedef struct publisher {
    client_options options;
    client_conn conn;
    u8 waits_for[CLIENT_INFLIGHT_MAX]; // by packet identifier - 1: an mqtt_type, 0 = free
    u32 window, open, next_id;
    u64 sent;
    bool alias_known; // the broker knows the topic by its alias
    int refused;      // publications that the broker refused
} publisher;

static int packet_handle(void *ctx, const mqtt_packet *packet) {
    publisher *p = ctx;
    if (packet->type == MQTT_DISCONNECT) {
        return client_fail(&p->conn, CLIENT_STATUS_REFUSED, "the broker disconnected: %s (0x%02x)",
                           mqtt_reason_name(packet->goodbye.reason), packet->goodbye.reason);
    }
    bool ack = packet->type == MQTT_PUBACK || packet->type == MQTT_PUBREC ||
               packet->type == MQTT_PUBCOMP;
    u32 index = packet->ack.packet_id - 1u;
    if (!ack || index >= p->window || p->waits_for[index] != packet->type) {
        return client_fail(&p->conn, CLIENT_STATUS_FAILED, "the broker sent an unexpected %s",
                           mqtt_type_name(packet->type));
    }
    u8 reason = packet->ack.reason;
    if (p->options.debug) {
        fprintf(stderr, "%s %u: %s\n", mqtt_type_name(packet->type), packet->ack.packet_id,
                mqtt_reason_name(reason));
    }
    if (reason >= 0x80) {
        p->refused++;
        if (!p->options.quiet) {
            fprintf(stderr, "sluice pub: publication refused by the broker: %s (0x%02x)\n",
                    mqtt_reason_name(reason), reason);
        }
    } else if (packet->type == MQTT_PUBREC) {
        mqtt_packet release = {.type = MQTT_PUBREL, .version = packet->version};
        release.ack.packet_id = packet->ack.packet_id;
        p->waits_for[index] = MQTT_PUBCOMP;
        return client_put(&p->conn, &release) == 0 ? 0 : -EIO;
    }
    p->waits_for[index] = 0;
    p->open--;
    return 0;
}

static u16 id_take(publisher *p) {
    while (p->waits_for[p->next_id] != 0) p->next_id = (p->next_id + 1) % p->window;
    u32 index = p->next_id;
    p->next_id = (p->next_id + 1) % p->window;
    p->waits_for[index] = p->options.qos == 1 ? MQTT_PUBACK : MQTT_PUBREC;
    p->open++;
    return (u16)(index + 1);
}

static bool is_full(const publisher *p) {
    return (p->options.qos > 0 && p->open == p->window) || client_unsent(&p->conn) > OUT_HIGH_BYTES;
}

// Waits until something can be sent. 0 or -EIO.
static int room_wait(publisher *p) {
    while (is_full(p)) {
        if (client_turn(&p->conn, UINT64_MAX, -1, packet_handle, p) == CLIENT_TURN_CLOSED) {
            return -EIO;
        }
    }
    return 0;
}

static int message_send(publisher *p, const u8 *payload, u32 len) {
    const client_options *o = &p->options;
    if (room_wait(p) != 0) return -EIO;
    mqtt_packet packet = {.type = MQTT_PUBLISH, .version = (u8)o->version};
    packet.publish = (mqtt_publish){
        .retain = o->retain,
        .qos = o->qos,
        .packet_id = o->qos > 0 ? id_take(p) : 0,
        .topic = client_text(p->alias_known ? "" : o->topics[0]),
        .props = mqtt_property_list_end(&o->props[PLACE_PUBLISH]),
        .payload = {payload, len},
    };
    if (mqtt_property_present(&packet.publish.props, MQTT_TOPIC_ALIAS)) p->alias_known = true;
    if (client_put(&p->conn, &packet) != 0) return -EIO;
    p->sent++;
    if (o->debug) fprintf(stderr, "PUBLISH %u, %u bytes\n", packet.publish.packet_id, len);
    return client_turn(&p->conn, 0, -1, packet_handle, p) == CLIENT_TURN_CLOSED ? -EIO : 0;
}

// --- sources ---

static int whole_read(publisher *p, int fd, const char *name, u8 **data, u32 *len) {
    u32 capacity = READ_BYTES, used = 0;
    u8 *bytes = malloc(capacity);
    for (;;) {
        if (bytes == NULL) base_out_of_memory("a message", capacity);
        ssize_t n = read(fd, bytes + used, capacity - used);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            free(bytes);
            return client_fail(&p->conn, CLIENT_STATUS_FAILED, "%s: %s", name, errno_name(errno));
        }
        if (n == 0) break;
        used += (u32)n;
        if (used > CLIENT_FILE_BYTES_MAX) {
            free(bytes);
            return client_fail(&p->conn, CLIENT_STATUS_FAILED, "%s: larger than %u bytes", name,
                               CLIENT_FILE_BYTES_MAX);
        }
        if (used < capacity) continue;
        capacity *= 2;
        bytes = realloc(bytes, capacity);
    }
    *data = bytes;
    *len = used;
    return 0;
}

static int repeat_wait(publisher *p) {
    u64 until_ns = clock_mono_ns() + p->options.repeat_delay_ms * NS_PER_MS;
    while (clock_mono_ns() < until_ns) {
        if (client_turn(&p->conn, until_ns, -1, packet_handle, p) == CLIENT_TURN_CLOSED) {
            return -EIO;
        }
    }
    return 0;
}

static int message_repeat(publisher *p, const u8 *payload, u32 len) {
    for (u32 i = 0; i < p->options.repeat; i++) {
        if (i > 0 && p->options.repeat_delay_ms > 0 && repeat_wait(p) != 0) return -EIO;
        if (message_send(p, payload, len) != 0) return -EIO;
    }
    return 0;
}

static int lines_send(publisher *p, u8 *data, u32 *used, bool end) {
    u32 at = 0;
    while (at < *used) {
        u8 *newline = memchr(data + at, '\n', *used - at);
        if (newline == NULL && !end) break;
        u32 len = newline != NULL ? (u32)(newline - (data + at)) : *used - at;
        if (message_send(p, data + at, len) != 0) return -EIO;
        at += len + (newline != NULL ? 1 : 0);
    }
    memmove(data, data + at, *used - at);
    *used -= at;
    return 0;
}

static int lines_run(publisher *p) {
    u32 capacity = READ_BYTES, used = 0;
    u8 *data = malloc(capacity);
    int rc = 0;
    while (rc == 0) {
        if (data == NULL) base_out_of_memory("a line", capacity);
        client_turn_result turn = client_turn(&p->conn, UINT64_MAX, STDIN_FILENO, packet_handle, p);
        if (turn == CLIENT_TURN_CLOSED) rc = -EIO;
        if (turn != CLIENT_TURN_READABLE) continue;
        ssize_t n = read(STDIN_FILENO, data + used, capacity - used);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n < 0) rc = client_fail(&p->conn, CLIENT_STATUS_FAILED, "stdin: %s", errno_name(errno));
        if (n <= 0) break;
        used += (u32)n;
        rc = lines_send(p, data, &used, false);
        if (rc == 0 && used == capacity) {
            if (capacity >= CLIENT_LINE_BYTES_MAX) {
                rc = client_fail(&p->conn, CLIENT_STATUS_FAILED, "a line of more than %u bytes",
                                 CLIENT_LINE_BYTES_MAX);
            } else {
                capacity *= 2;
                data = realloc(data, capacity);
            }
        }
    }
    if (rc == 0) rc = lines_send(p, data, &used, true);
    free(data);
    return rc;
}

static int file_run(publisher *p) {
    const char *name = p->options.source == SOURCE_STDIN ? "stdin" : p->options.file;
    int fd = p->options.source == SOURCE_STDIN ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return client_fail(&p->conn, CLIENT_STATUS_FAILED, "%s: %s", name, errno_name(errno));
    }
    u8 *data = NULL;
    u32 len = 0;
    int rc = whole_read(p, fd, name, &data, &len);
    if (fd != STDIN_FILENO) close(fd);
    if (rc != 0) return rc;
    rc = message_repeat(p, data, len);
    free(data);
    return rc;
}

static int source_run(publisher *p) {
    switch (p->options.source) {
    case SOURCE_MESSAGE: {
        mqtt_bytes text = client_text(p->options.message);
        return message_repeat(p, text.data, text.len);
    }
    case SOURCE_LINES: return lines_run(p);
    case SOURCE_EMPTY: return message_repeat(p, (const u8 *)"", 0);
    default: return file_run(p);
    }
}

static int granted_check(publisher *p) {
    const client_options *o = &p->options;
    client_conn *c = &p->conn;
    mqtt_properties props = mqtt_property_list_end(&o->props[PLACE_PUBLISH]);
    u32 alias = mqtt_property_number(&props, MQTT_TOPIC_ALIAS, 0);
    if (o->qos > c->qos_max) {
        return client_fail(c, CLIENT_STATUS_REFUSED, "the broker takes QoS %u at most", c->qos_max);
    }
    if (o->retain && !c->retain_available) {
        return client_fail(c, CLIENT_STATUS_REFUSED, "the broker does not take retained messages");
    }
    if (alias > c->topic_alias_max) {
        return client_fail(c, CLIENT_STATUS_REFUSED,
                           "topic alias %u: the broker's topic alias maximum is %u", alias,
                           c->topic_alias_max);
    }
    p->window = MIN(CLIENT_INFLIGHT_MAX, c->receive_max);
    return 0;
}

static int publisher_run(publisher *p) {
    if (client_dial(&p->conn, &p->options) != 0 || granted_check(p) != 0) return -EIO;
    if (source_run(p) != 0) return -EIO;
    while (p->open > 0 || client_unsent(&p->conn) > 0) {
        if (client_turn(&p->conn, UINT64_MAX, -1, packet_handle, p) == CLIENT_TURN_CLOSED) {
            return -EIO;
        }
    }
    mqtt_properties props = mqtt_property_list_end(&p->options.props[PLACE_DISCONNECT]);
    client_leave(&p->conn, 0, &props, LEAVE_MS);
    return 0;
}

int client_pub_main(int argc, char **argv) {
    publisher *p = calloc(1, sizeof(*p));
    if (p == NULL) base_out_of_memory("a publisher", sizeof(*p));
    signal(SIGPIPE, SIG_IGN);
    p->conn.fd = -1;
    int rc = client_options_parse(&p->options, false, argc, argv);
    int status = rc == 0 ? CLIENT_STATUS_OK : rc > 0 ? CLIENT_STATUS_OK : CLIENT_STATUS_USAGE;
    if (rc == 0 && publisher_run(p) != 0) {
        status = p->conn.status;
        if (!p->options.quiet) fprintf(stderr, "sluice pub: %s\n", p->conn.why);
        if (!p->options.quiet && p->open > 0) {
            fprintf(stderr, "sluice pub: %u messages were sent and not acknowledged\n", p->open);
        }
    } else if (p->refused > 0) {
        status = CLIENT_STATUS_REFUSED;
    }
    client_options_free(&p->options);
    free(p);
    return status;
}
