// SPDX-License-Identifier: Apache-2.0
// schema.c: the table. To add a setting: a field in config.h, a row here, a line in the tests of
// the table; nothing else. Order within a section is the order of the reference and of the printed
// configuration.
#include "conf/schema.h"

#include "conf/network.h"
#include "conf/schema_text.h"
#include "uplink/endpoint.h"
#include "uplink/map.h"

#define GIB (1ull << 30)
#define MIB (1ull << 20)
#define KIB (1ull << 10)
#define MS_S 1000ull
#define MS_H 3600000ull
#define MS_D 86400000ull

#define TOP(member) .section = SECTION_TOP, .offset = offsetof(config, member), .since = "0.1"
#define ADMIN(member) .section = SECTION_ADMIN, .offset = offsetof(config, member), .since = "0.1"
#define LOG(member) .section = SECTION_LOG, .offset = offsetof(config, log.member), .since = "0.1"
#define UPDATE(member) .section = SECTION_UPDATE, .offset = offsetof(config, update.member), .since = "0.1"
#define LISTENER(member) \
    .section = SECTION_LISTENER, .offset = offsetof(listener_config, member), .since = "0.1"
#define UPLINK(member) \
    .section = SECTION_UPLINK, .offset = offsetof(uplink_config, member), .since = "0.1"
#define LIST_OF(type_, member) .type = SETTING_LIST, CAPACITY_OF(type_, member)
#define TLS(member) .section = SECTION_TLS, .offset = offsetof(listener_config, tls.member), .since = "0.1"
#define PATHS(member) .type = SETTING_LIST, .capacity = CONFIG_LIST_BYTES, .check = text_check_path, TLS(member)
#define NETWORK(member) \
    .section = SECTION_NETWORK, .offset = offsetof(network_config, member), .since = "0.1"
#define STREAM(member) \
    .section = SECTION_STREAM, .offset = offsetof(stream_config, member), .since = "0.1"
#define TEXT_OF(type_, member) .type = SETTING_TEXT, CAPACITY_OF(type_, member)
#define CAPACITY_OF(type_, member) .capacity = sizeof(((type_ *)0)->member)
#define MQTT_ROW(member) LISTENER(member), .flags = SETTING_MQTT_ONLY
#define WS_ROW(member) LISTENER(member), .flags = SETTING_MQTT_ONLY | SETTING_WS_ONLY

static const setting_word engine_words[] = {
    {"uring", IO_URING}, {"epoll-et", IO_EPOLL_ET}, {"epoll-lt", IO_EPOLL_LT},
    {"poll", IO_POLL},   {"select", IO_SELECT},     {NULL, 0},
};
static const setting_word level_words[] = {
    {"error", LOG_ERROR}, {"warn", LOG_WARN}, {"info", LOG_INFO}, {"debug", LOG_DEBUG}, {NULL, 0}};
static const setting_word protocol_words[] = {{"frame", PROTOCOL_FRAME}, {"mqtt", PROTOCOL_MQTT}, {NULL, 0}};
static const setting_word mode_words[] = {
    {"echo", FRAME_ECHO}, {"ack", FRAME_ACK}, {"publish", FRAME_PUBLISH}, {NULL, 0}};
static const setting_word policy_words[] = {
    {"newest", QUEUE_NEWEST}, {"oldest", QUEUE_OLDEST}, {"disconnect", QUEUE_DISCONNECT},
    {"reject", QUEUE_REJECT}, {NULL, 0}};
static const setting_word shared_words[] = {
    {"round_robin", SHARED_ROUND_ROBIN},
    {"sticky", SHARED_STICKY},
    {"least_in_flight", SHARED_LEAST_IN_FLIGHT},
    {NULL, 0},
};
static const setting_word transport_words[] = {
    {"tcp", TRANSPORT_TCP}, {"websocket", TRANSPORT_WEBSOCKET}, {NULL, 0}};
static const setting_word sandbox_words[] = {
    {"on", SANDBOX_ON}, {"off", SANDBOX_OFF}, {"debug", SANDBOX_DEBUG}, {NULL, 0}};
static const setting_word client_auth_words[] = {
    {"none", TLS_CLIENT_NONE}, {"optional", TLS_CLIENT_OPTIONAL}, {"required", TLS_CLIENT_REQUIRED}, {NULL, 0}};
static const setting_word identity_words[] = {
    {"cn", TLS_ID_CN}, {"san_dns", TLS_ID_DNS}, {"san_email", TLS_ID_EMAIL}, {"san_uri", TLS_ID_URI}, {NULL, 0}};
static const setting_word rate_words[] = {{"pause", RATE_PAUSE}, {"disconnect", RATE_DISCONNECT}, {NULL, 0}};
static const setting_word steer_words[] = {{"hash", STEER_HASH}, {"cpu", STEER_CPU}, {NULL, 0}};

static const setting_word confirm_words[] = {
    {"auto", UPDATE_CONFIRM_AUTO}, {"operator", UPDATE_CONFIRM_OPERATOR}, {NULL, 0}};
static const setting_word uplink_kind_words[] = {{"mqtt", UPLINK_MQTT}, {"nats", UPLINK_NATS}, {NULL, 0}};
static const setting_word uplink_version_words[] = {{"5", UPLINK_MQTT_5}, {"3.1.1", UPLINK_MQTT_3_1_1}, {NULL, 0}};
static const setting_word uplink_order_words[] = {{"oldest", UPLINK_OLDEST}, {"newest", UPLINK_NEWEST}, {NULL, 0}};
static const setting_word uplink_from_words[] = {
    {"new", UPLINK_FROM_NEW}, {"earliest", UPLINK_FROM_EARLIEST}, {NULL, 0}};
static const setting_word dhcp6_words[] = {
    {"auto", NETWORK_DHCP6_AUTO}, {"yes", NETWORK_DHCP6_ON}, {"no", NETWORK_DHCP6_OFF}, {NULL, 0}};

static const setting_word sync_words[] = {
    {"commit", STREAM_SYNC_COMMIT}, {"interval", STREAM_SYNC_INTERVAL}, {NULL, 0}};
static const setting_word discard_words[] = {{"old", STREAM_DISCARD_OLD}, {"new", STREAM_DISCARD_NEW}, {NULL, 0}};

// The sizes of int and of the enums written through a SETTING_WORD are the same.
_Static_assert(sizeof(listener_protocol) == sizeof(int) && sizeof(frame_mode) == sizeof(int),
               "enum size");
_Static_assert(sizeof(steer_mode) == sizeof(int) && sizeof(log_level) == sizeof(int), "enum size");
_Static_assert(sizeof(io_kind) == sizeof(int) && sizeof(queue_policy) == sizeof(int), "enum size");
_Static_assert(sizeof(stream_sync) == sizeof(int), "enum size");

const section_info schema_sections[SECTIONS] = {
    [SECTION_TOP] = {"", false, "Top level",
                     "Settings of the whole process; they stand in no section."},
    [SECTION_ADMIN] = {"admin", false, "admin",
                       "`admin { ... }`: the HTTP listener for metrics, health and the API."},
    [SECTION_LOG] =
        {"log", false, "log",
         "`log { ... }`: what is logged and where to. Several sinks may be on at once."},
    [SECTION_UPDATE] = {"update", false, "update",
                        "`update { ... }`: when a new system of the appliance counts as good (docs/updates.md). "
                        "`sluice init` reads it; `sluice run` only checks it."},
    [SECTION_LISTENER] = {"listener", true, "listener NAME",
                          "`listener NAME { ... }`: an address that devices connect to. NAME shows "
                          "in logs, metrics and `sluice ctl`: 1 to 63 letters, digits, `-`, `_` "
                          "and `.`. At least one listener is needed."},
    [SECTION_UPLINK] = {"uplink", true, "uplink NAME",
                        "`uplink NAME { ... }`: a remote MQTT broker or NATS JetStream that gets what streams "
                        "hold, and keeps nobody waiting while it is away (docs/uplinks.md). A message counts as sent "
                        "when the remote has acknowledged it. NAME is also the identity of the offset in the log."},
    [SECTION_TLS] = {"tls", false, "listener NAME: tls",
                     "`listener NAME { tls { ... } }`: the listener speaks TLS 1.2. docs/tls.md has examples. A reload "
                     "reads the files again; open connections go on, new handshakes use what is new."},
    [SECTION_NETWORK] = {"network", true, "network NAME",
                         "`network NAME { ... }`: an interface of the appliance. `sluice init` reads it; "
                         "`sluice run` on another system only checks it, and leaves the network to that "
                         "system. Without any block, every Ethernet interface gets DHCPv4 and IPv6 "
                         "autoconfiguration. docs/network.md has examples."},
    [SECTION_STREAM] = {"stream", true, "stream NAME",
                        "`stream NAME { ... }`: messages that are kept on disk to be read again, by offset or "
                        "by time (docs/streams.md). A reload adds and changes streams. One that is no longer "
                        "in the file takes no more messages; what it holds can still be read and goes as its "
                        "last settings say."},
};

const setting schema_settings[] = {
    {TOP(workers), .type = SETTING_COUNT, .key = "workers", .max = LIMIT_WORKERS_MAX, .zero = "auto", .def = "auto",
     .text = "Worker threads. `auto` starts one for each CPU the process may run on. Set it to "
             "leave CPUs to other programs."},
    {TOP(engine), .type = SETTING_ENGINE, .key = "engine", .words = engine_words, .zero = "auto", .def = "auto",
     .text = "The I/O engine. `auto` tests io_uring once at start and falls back to `epoll-et` "
             "with the reason in the log; an engine given by name is used or the start fails. "
             "`sluice probe` shows what `auto` would choose, `sluice tune` measures which one is best for a load."},
    {TOP(pin), .type = SETTING_BOOL, .key = "pin", .def = "yes",
     .text = "Pins each worker to its CPU. Turn it off where another program pins or limits the process."},
    {TOP(data_dir), TEXT_OF(config, data_dir), .key = "data_dir", .check = text_check_path,
     .def = "/var/lib/sluice",
     .text = "The directory for everything that must survive a restart. It is created if it is "
             "missing. Without a configuration file it is `./sluice-data`."},
    {TOP(durable), .type = SETTING_BOOL, .key = "durable", .def = "yes",
     .text = "Keeps a log in `data_dir` for what must survive a kill and a power cut. `no`: nothing survives, and "
             "nothing is promised. On the appliance without a data partition it is off whatever stands here."},
    {TOP(log_max_bytes), .type = SETTING_BYTES64, .key = "log_max", .min = 16 * MIB, .max = 64 * 1024 * GIB,
     .zero = "auto", .def = "auto",
     .text = "Disk space of the durable logs, all workers together. `auto` is half of what is free at the start, at "
             "most 16g. When it is used up, or the disk is, messages that would have to be kept are refused by name, "
             "the others go on, and it resumes by itself when space is free again."},
    {TOP(commit_delay_us), .type = SETTING_US32, .key = "commit_delay", .max = 100000, .def = "0",
     .text = "A commit may wait so long for more to come. 0: the next one starts when the last has ended, which under "
             "load gathers by itself. Longer saves syncs, and so flash, where messages come singly; every "
             "acknowledgement is later by as much."},
    {TOP(ctl_socket), TEXT_OF(config, ctl_socket), .key = "ctl_socket", .check = text_check_path,
     .def_note = "`DATA_DIR/ctl.sock`",
     .text = "The unix socket that `sluice ctl` connects to. Set it when the path under `data_dir` "
             "is longer than the 107 bytes a socket's path may have."},
    {TOP(ctl_allow), CAPACITY_OF(config, ctl_allow), .type = SETTING_LIST, .key = "ctl_allow",
     .check = text_check_peer, .list_note = "a list of users and groups by number, [\"uid:1000\", \"gid:100\"]",
     .def = "",
     .text = "Who may use the unix sockets of the admin API besides root and the gateway's own user. With a list, "
             "everybody can connect to `ctl_socket`, and the kernel says who it is; the directory it lies in must "
             "let them reach it. Others are refused by name."},
    {TOP(user), TEXT_OF(config, user), .key = "user", .def = "",
     .text = "Started as root, the gateway becomes this user before it serves anybody: a name, a UID, or "
             "UID:GID. Files that it makes belong to that user from the beginning. Empty: it stays who it is. "
             "Takes effect at start."},
    {TOP(sandbox), .type = SETTING_WORD, .key = "sandbox", .words = sandbox_words, .def = "on",
     .text = "What the process gives up before it serves anybody: capabilities, all files but its own "
             "(Landlock), all system calls but the ones it makes (seccomp). What the kernel does not offer is "
             "named in the log and left out. `debug` refuses the same and logs each refused system call by "
             "name. docs/sandbox.md has the list. Takes effect at start."},
    {TOP(max_conns), .type = SETTING_COUNT, .key = "max_conns", .max = 1u << 24, .zero = "auto", .def = "auto",
     .text =
         "Connections of the whole process. `auto` takes what the limit of open files "
         "(RLIMIT_NOFILE) allows. Beyond it a connection is refused with the reason `conn_limit`."},
    {TOP(memory_max), .type = SETTING_BYTES64, .key = "memory_max", .min = 16 * MIB,
     .max = 1024 * GIB, .zero = "auto", .def = "auto",
     .text =
         "Memory for buffers, all workers together. `auto` is a quarter of the machine's memory. "
         "Beyond it connections are refused or closed with a reason; the process does not grow."},
    {TOP(drain_timeout_ms), .type = SETTING_MS64, .key = "drain_timeout", .max = 1 * MS_H, .def = "10s",
     .text = "After SIGTERM nothing more is accepted, and what is queued for connected clients is "
             "still sent for at most this time. 0 closes at once."},
    {TOP(max_sessions), .type = SETTING_COUNT, .key = "max_sessions", .max = 1u << 24,
     .zero = "unlimited", .def = "unlimited",
     .text = "MQTT sessions of the whole process, those of absent clients included. A client that would be "
             "one more is refused with quota exceeded. Without it memory is the limit."},
    {TOP(sys_interval_s), .type = SETTING_S32, .key = "sys_interval", .min = 1, .max = 86400,
     .zero = "off", .def = "10s",
     .text = "How often the `$SYS` topics are published (retained, QoS 0)."},
    {TOP(events), .type = SETTING_BOOL, .key = "events", .def = "no",
     .text = "Publishes `$events/connect`, `$events/disconnect`, `$events/subscribe` and "
             "`$events/unsubscribe` as JSON. Each costs a publish: off unless somebody listens."},
    {TOP(shared_strategy), .type = SETTING_WORD, .key = "shared_strategy", .words = shared_words,
     .def = "round_robin",
     .text = "Which connected member of a shared subscription gets a message: each in turn "
             "(`round_robin`), the same one as long as it can take (`sticky`), or the one with the "
             "fewest messages in flight (`least_in_flight`)."},
    {TOP(retained_messages_max), .type = SETTING_COUNT, .key = "retained_messages_max",
     .max = 1u << 30, .zero = "none", .def = "1000000",
     .text = "Retained messages of the whole process. A message that would be one more is refused with reason code "
             "0x97."},
    {TOP(retained_bytes_max), .type = SETTING_BYTES64, .key = "retained_bytes_max",
     .max = 1024 * GIB, .zero = "none", .def = "256m",
     .text = "Memory of the retained messages of the whole process, topics included. It comes out "
             "of `memory_max`; the same rule as for `retained_messages_max` applies."},
    {TOP(recv_bufs), .type = SETTING_COUNT, .key = "recv_bufs", .min = 16,
     .max = LIMIT_RECV_BUFS_MAX, .zero = "auto", .def = "auto", .flags = SETTING_POWER_OF_TWO,
     .text =
         "uring: receive buffers of one worker, 4 KiB each, shared by its connections; a power of "
         "two; auto is 256. Raise it when the metric of receives that ended without a buffer (ENOBUFS) grows."},
    {TOP(min_wait_us), .type = SETTING_US32, .key = "min_wait", .max = 10000, .def = "0",
     .text = "uring: under load a worker may wait this long to gather a batch instead of waking "
             "for each message. Active only while at least two messages arrive in that time; the median "
             "latency then rises to about this value. It trades latency for CPU (figures: "
             "tests/bench/RESULTS.md). 200us is the largest sensible value for most loads. 0 never waits."},
    {TOP(sqpoll), .type = SETTING_BOOL, .key = "sqpoll", .def = "no",
     .text = "uring: a kernel thread polls for submissions. It burns a CPU for each worker; for measurements."},

    {ADMIN(admin_enabled), .type = SETTING_BOOL, .key = "enabled", .def = "yes",
     .text = "Opens the admin listener. `sluice ctl` works without it, over `ctl_socket`."},
    {ADMIN(admin_bind), .type = SETTING_BIND, .key = "bind", .def = "127.0.0.1:9600",
     .text = "Its address. Who can connect to it and has the token can read everything and close connections. "
             "One that other machines can reach needs `token_file`, or `anonymous = yes`."},
    {ADMIN(admin_token_file), TEXT_OF(config, admin_token_file), .key = "token_file",
     .check = text_check_optional_path, .def = "",
     .text = "A file with one line, a secret of at least 16 characters. Requests over TCP must carry it: "
             "`Authorization: Bearer SECRET`; `/healthz` and `/readyz` need none. Read at the start and at a reload. "
             "The unix socket of `sluice ctl` needs none: the kernel says who asks (`ctl_allow`)."},
    {ADMIN(admin_anonymous), .type = SETTING_BOOL, .key = "anonymous", .def = "no",
     .text = "Lets the admin listener stand on an address that other machines can reach without a token: who reaches "
             "it can do everything."},

    {LOG(level), .type = SETTING_WORD, .key = "level", .words = level_words, .def = "info",
     .text = "The least important line that is logged: `error`, `warn`, `info`, `debug`."},
    {LOG(ring_bytes), .type = SETTING_BYTES64, .key = "ring", .min = LIMIT_LOG_RING_BYTES_MIN,
     .max = LIMIT_LOG_RING_BYTES_MAX, .flags = SETTING_POWER_OF_TWO, .def = "8m",
     .text = "Memory between the workers and the log's writer; a power of two. When a sink is "
             "slower than the lines for so long that it fills, lines are dropped and counted; "
             "workers never wait. Takes effect at start."},
    {LOG(to_stderr), .type = SETTING_BOOL, .key = "stderr", .def = "yes",
     .text = "Logs to standard error."},
    {LOG(file), TEXT_OF(config, log.file), .key = "file", .check = text_check_optional_path,
     .def = "", .text = "Logs to this file. Empty: no file. SIGHUP and SIGUSR1 open it anew."},
    {LOG(file_bytes_max), .type = SETTING_BYTES64, .key = "file_max", .min = 64 * KIB,
     .max = 1024 * GIB, .zero = "never", .def = "16m",
     .text = "The file is rotated when it would grow beyond this size. `never` when logrotate does it."},
    {LOG(file_keep), .type = SETTING_COUNT, .key = "file_keep", .max = 1000, .def = "4",
     .text = "Rotated files that are kept: FILE.1 is the newest."},
    {LOG(syslog), TEXT_OF(config, log.syslog), .key = "syslog", .check = text_check_syslog, .def = "",
     .text = "Logs to a syslog server (RFC 5424): `unix:/dev/log`, or `udp:ADDRESS:PORT` with an "
             "IP address. Empty: none."},
    {LOG(connections), .type = SETTING_BOOL, .key = "connections", .def = "no",
     .text = "A line for each connect and each close with its reason. Of use for small fleets and "
             "for finding a fault; the metrics count the same by reason."},

    {UPDATE(confirm), .type = SETTING_WORD, .key = "confirm", .words = confirm_words, .def = "auto",
     .text = "Who says that a new system is good. `auto`: init, when the gateway has been ready for `after` "
             "without a break, the admin port answers, and `reach` is reached. `operator`: only "
             "`sluice ctl update confirm`."},
    {UPDATE(after_ms), .type = SETTING_MS64, .key = "after", .max = 1 * MS_D, .def = "60s",
     .text = "How long the gateway of a new system has to be ready."},
    {UPDATE(within_ms), .type = SETTING_MS64, .key = "within", .min = 10 * MS_S, .max = 7 * MS_D, .def = "10m",
     .text = "A new system that is not good by then restarts into the old one. Counted from its start."},
    {UPDATE(reach), TEXT_OF(config, update.reach), .key = "reach", .check = text_check_reach, .def = "",
     .text = "`HOST:PORT` that a new system has to be able to connect to, over TCP: a server without which it "
             "would be of no use. Empty: none."},
    {UPDATE(keys), TEXT_OF(config, update.keys), .key = "keys", .check = text_check_keys, .def = "",
     .text = "Public keys that updates are accepted from, besides those that the image was built with: 130 "
             "hexadecimal digits each, separated by blanks (`image/update_file.py key FILE` prints them)."},

    {LISTENER(protocol), .type = SETTING_WORD, .key = "protocol", .words = protocol_words,
     .flags = SETTING_REQUIRED,
     .text = "What is spoken: `frame` is a 4-byte big-endian length and then so many bytes; `mqtt` "
             "is MQTT 3.1, 3.1.1 and 5.0, told apart by the client's CONNECT."},
    {LISTENER(bind), .type = SETTING_BIND, .key = "bind", .flags = SETTING_REQUIRED,
     .text = "The address to listen on: `0.0.0.0:7000`, `[::]:7000` (IPv6 and IPv4), or "
             "`unix:/path`. Port 0 takes a free port, which `sluice ctl status` shows. Host names "
             "are not looked up."},
    {LISTENER(mode), .type = SETTING_WORD, .key = "mode", .words = mode_words, .def = "ack",
     .flags = SETTING_FRAME_ONLY,
     .text = "`echo` sends each frame back. `ack` answers each with its number on the connection. "
             "`publish` wants a hello with the device's id first and then publishes frames under `up_topic`."},
    {LISTENER(max_frame), .type = SETTING_BYTES32, .key = "max_frame", .min = 1,
     .max = LIMIT_PACKET_BYTES_MAX, .def = "64k", .flags = SETTING_FRAME_ONLY,
     .text = "The largest payload. A longer frame ends the connection with `frame_too_large` "
             "before its payload is read."},
    {LISTENER(rcvbuf), .type = SETTING_BYTES32, .key = "rcvbuf", .min = 2 * KIB, .max = 64 * MIB,
     .zero = "auto", .def = "32k",
     .text = "The kernel's receive buffer of a connection. Small keeps the memory of many devices "
             "small; `auto` lets the kernel size it, for few clients that send fast."},
    {LISTENER(sndbuf), .type = SETTING_BYTES32, .key = "sndbuf", .min = 2 * KIB, .max = 64 * MIB,
     .zero = "auto", .def = "auto",
     .text = "The kernel's send buffer of a connection. `auto` lets the kernel size it."},
    {LISTENER(idle_timeout_ms), .type = SETTING_MS64, .key = "idle_timeout", .min = 100,
     .max = 365 * MS_D, .zero = "never", .def = "60s", .flags = SETTING_FRAME_ONLY,
     .text = "A connection that sends nothing, not even a heartbeat, for so long is closed "
             "(`idle_timeout`). Two to three times the devices' heartbeat."},
    {LISTENER(packet_timeout_ms), .type = SETTING_MS64, .key = "packet_timeout", .min = 100,
     .max = 1 * MS_D, .zero = "never", .def = "30s",
     .text = "A frame that has begun must be complete after this time, or the connection is closed "
             "(`packet_timeout`). Raise it for large frames on slow lines."},
    {LISTENER(hello_timeout_ms), .type = SETTING_MS64, .key = "hello_timeout", .min = 100,
     .max = 1 * MS_H, .def = "10s",
     .text = "`publish` and `mqtt`: a client must have sent its hello or CONNECT after this time, or "
             "it is closed (`hello_timeout`)."},
    {LISTENER(send_timeout_ms), .type = SETTING_MS64, .key = "send_timeout", .min = 100,
     .max = 1 * MS_D, .zero = "never", .def = "60s",
     .text = "A client that has so much output waiting that nothing more is read from it (`out_high`), or "
             "whose last output waits to be sent before it is closed, and that takes none of it for so "
             "long is closed (`slow_consumer`)."},
    {LISTENER(keepalive_s), .type = SETTING_S32, .key = "keepalive", .min = 1, .max = 32767,
     .zero = "off", .def = "60s",
     .text = "TCP keepalive: first probe after so long without traffic, then 3 probes at a third "
             "of it. Finds peers that vanished; of use where `idle_timeout` is long or off."},
    {LISTENER(user_timeout_ms), .type = SETTING_MS32, .key = "user_timeout", .min = 1 * MS_S,
     .max = 1 * MS_D, .zero = "auto", .def = "60s",
     .text = "TCP_USER_TIMEOUT: sent data that the peer does not acknowledge for so long ends the "
             "connection. `auto` leaves it to the kernel (about 15 minutes)."},
    {LISTENER(backlog), .type = SETTING_COUNT, .key = "backlog", .min = 1, .max = 65535, .def = "4096",
     .text = "Connections the kernel holds ready until they are accepted. The kernel cuts it to "
             "net.core.somaxconn. It is what a reconnect storm waits in."},
    {LISTENER(steer), .type = SETTING_WORD, .key = "steer", .words = steer_words, .def = "hash",
     .text = "Which worker a new connection goes to: `hash` spreads by the addresses, `cpu` takes "
             "the worker on the CPU that received it (with receive queues and interrupts laid out for it)."},
    {LISTENER(defer_accept), .type = SETTING_BOOL, .key = "defer_accept", .def = "no",
     .text = "TCP_DEFER_ACCEPT: a connection is accepted when its first bytes are there. Saves a "
             "wake-up for each connection where the client speaks first at once."},
    {LISTENER(max_conns), .type = SETTING_COUNT, .key = "max_conns", .max = 1u << 24,
     .zero = "unlimited", .def = "unlimited",
     .text = "Connections of this listener, all workers together, below the process's own limit. "
             "Beyond it a connection is refused (`conn_limit`)."},
    {LISTENER(max_conns_per_address), .type = SETTING_COUNT, .key = "max_conns_per_address",
     .max = 1u << 24, .zero = "unlimited", .def = "unlimited",
     .text = "Connections from one IP address (IPv6: from one /64). Beyond it a connection is refused "
             "(`address_limit`). Mind fleets behind one NAT address."},
    {LISTENER(connect_rate_per_address), .type = SETTING_COUNT, .key = "connect_rate_per_address",
     .max = 10000000, .zero = "unlimited", .def = "unlimited",
     .text = "New connections per second from one IP address (IPv6: from one /64). Beyond it a connection is refused "
             "(`connect_rate`). Mind fleets behind one NAT address."},
    {LISTENER(accept_rate), .type = SETTING_COUNT, .key = "accept_rate", .max = 10000000,
     .zero = "unlimited", .def = "unlimited",
     .text = "New connections per second, all workers together. Those above it are not refused: they wait in the "
             "kernel's queue (`backlog`)."},
    {LISTENER(out_bytes_max), .type = SETTING_BYTES32, .key = "out_max", .min = 1 * KIB,
     .max = 1 * GIB, .zero = "auto", .def = "auto",
     .text = "Output that may wait for one connection. `auto` is 256k, and more where `max_frame` "
             "or `max_packet` needs it. In `echo` and `publish` a frame of `max_frame` bytes, and in "
             "`mqtt` a packet of `max_packet` bytes, must fit above `out_high`."},
    {LISTENER(out_bytes_high), .type = SETTING_BYTES32, .key = "out_high", .min = 1, .max = 1 * GIB,
     .zero = "auto", .def = "auto",
     .text = "While more output than this waits, nothing is read from the connection. `auto` is "
             "64k, or less where `out_max` leaves less."},
    {LISTENER(up_topic), TEXT_OF(listener_config, up_topic), .key = "up_topic",
     .flags = SETTING_PUBLISH_ONLY | SETTING_FRAME_ONLY, .check = text_check_up_topic, .def = "devices/%i/up",
     .text = "`publish`: the topic of a device's frames. `%i` is its id."},
    {LISTENER(down_topic), TEXT_OF(listener_config, down_topic), .key = "down_topic",
     .flags = SETTING_PUBLISH_ONLY | SETTING_FRAME_ONLY, .check = text_check_down_topic, .def = "devices/%i/down",
     .text = "`publish`: the topic filter whose messages are sent to the device; `+` and `#` are "
             "allowed. `%i` is its id."},
    {LISTENER(token), TEXT_OF(listener_config, token), .key = "token",
     .flags = SETTING_PUBLISH_ONLY | SETTING_SECRET, .def = "",
     .text = "`publish`: the hello must carry this token; another ends the connection with "
             "`auth_failed`. `mqtt`: the password of a CONNECT must be equal to it, with any user "
             "name; another is refused. It is not shown by `sluice check --print`. Keep the file readable by "
             "the gateway's user only."},
    {LISTENER(anonymous), .type = SETTING_BOOL, .key = "anonymous", .flags = SETTING_PUBLISH_ONLY,
     .def_note = "`yes` on loopback and unix binds without `token`, else `no`",
     .text = "`publish` and `mqtt`: clients are let in without a token. A listener that others can "
             "reach must have `token`, `password_file`, `jwt_key_file` or `anonymous = yes`. With one of the files and "
             "`anonymous = yes`, a client that brings no credentials is let in without a name, and one that brings "
             "some must be right."},
    {LISTENER(password_file), TEXT_OF(listener_config, password_file), .key = "password_file",
     .check = text_check_optional_path, .flags = SETTING_PUBLISH_ONLY, .def = "",
     .text = "Accounts: a password file as Mosquitto has it, with SCRAM verifiers for MQTT 5's enhanced authentication "
             "(docs/authentication.md); `sluice passwd` writes it. A framed device's user name is its id, its password "
             "the token of its hello. This and the other files are read at the start and at a reload."},
    {LISTENER(acl_file), TEXT_OF(listener_config, acl_file), .key = "acl_file", .check = text_check_optional_path,
     .flags = SETTING_PUBLISH_ONLY, .def = "",
     .text = "Rights on topics: an ACL file as Mosquitto has it (`user`, `topic`, `pattern`). With one, what it does "
             "not allow is refused."},
    {LISTENER(jwt_key_file), TEXT_OF(listener_config, jwt_key_file), .key = "jwt_key_file",
     .check = text_check_optional_path, .flags = SETTING_PUBLISH_ONLY, .def = "",
     .text = "Accepts JSON web tokens as passwords (`publish`: as the hello's token) that are signed with a key of "
             "this file: PEM public keys (ES256, RS256), or one secret of at least 32 bytes (HS256)."},
    {LISTENER(jwt_issuer), TEXT_OF(listener_config, jwt_issuer), .key = "jwt_issuer", .flags = SETTING_PUBLISH_ONLY,
     .def = "", .text = "The `iss` that a token must have. Empty: any."},
    {LISTENER(jwt_audience), TEXT_OF(listener_config, jwt_audience), .key = "jwt_audience",
     .flags = SETTING_PUBLISH_ONLY, .def = "", .text = "What a token's `aud` must hold. Empty: anything."},
    {LISTENER(jwt_leeway_s), .type = SETTING_S32, .key = "jwt_leeway", .max = 86400, .flags = SETTING_PUBLISH_ONLY,
     .def = "30s", .text = "How far clocks may differ when a token's times are checked."},
    {LISTENER(auth_delay_ms), .type = SETTING_MS64, .key = "auth_delay", .max = 60 * MS_S,
     .flags = SETTING_PUBLISH_ONLY, .def = "500ms",
     .text = "A client with wrong credentials is told so only after this time."},
    {LISTENER(auth_failures), .type = SETTING_COUNT, .key = "auth_failures", .max = 1000000, .zero = "unlimited",
     .flags = SETTING_PUBLISH_ONLY, .def = "60",
     .text = "Wrong credentials from one address (IPv6: from one /64) in a minute. Beyond it its clients are refused "
             "without a look at their password, until the rate has fallen, by all listeners that have a limit. Mind "
             "fleets behind one NAT address."},
    {LISTENER(message_rate), .type = SETTING_COUNT, .key = "message_rate", .max = 1000000000, .zero = "unlimited",
     .flags = SETTING_PUBLISH_ONLY, .def = "unlimited",
     .text = "Messages that one client may publish in a second; a second's worth may be saved up."},
    {LISTENER(byte_rate), .type = SETTING_BYTES64, .key = "byte_rate", .min = 1, .max = 1024 * GIB, .zero = "unlimited",
     .flags = SETTING_PUBLISH_ONLY, .def = "unlimited",
     .text = "The same for the bytes of their payload. A message that is longer than a second's worth is let through "
             "when a whole second has been saved up, and paid for afterwards."},
    {LISTENER(rate_policy), .type = SETTING_WORD, .key = "rate_policy", .words = rate_words,
     .flags = SETTING_PUBLISH_ONLY, .def = "pause",
     .text = "What happens to a client that sends faster: nothing more is read from it until its rate allows it "
             "(`pause`), or it is closed with `message_rate` (`disconnect`)."},
    {LISTENER(message_rate_per_address), .type = SETTING_COUNT, .key = "message_rate_per_address", .max = 1000000000,
     .zero = "unlimited", .flags = SETTING_PUBLISH_ONLY, .def = "unlimited",
     .text = "Messages that all clients of one address (IPv6: of one /64) may publish on this listener in a second. "
             "Those above it wait. Mind fleets behind one NAT address."},
    {LISTENER(byte_rate_per_address), .type = SETTING_BYTES64, .key = "byte_rate_per_address", .min = 1,
     .max = 1024 * GIB, .zero = "unlimited", .flags = SETTING_PUBLISH_ONLY, .def = "unlimited",
     .text = "The same for the bytes of their payload."},
    {LISTENER(message_rate_all), .type = SETTING_COUNT, .key = "message_rate_all", .max = 1000000000,
     .zero = "unlimited", .flags = SETTING_PUBLISH_ONLY, .def = "unlimited",
     .text = "Messages that all clients of this listener together may publish in a second, whichever workers they are "
             "on. Those above it wait."},
    {LISTENER(byte_rate_all), .type = SETTING_BYTES64, .key = "byte_rate_all", .min = 1, .max = 1024 * GIB,
     .zero = "unlimited", .flags = SETTING_PUBLISH_ONLY, .def = "unlimited",
     .text = "The same for the bytes of their payload."},
    {LISTENER(proxy_protocol), .type = SETTING_BOOL, .key = "proxy_protocol", .def = "no",
     .text = "Each connection begins with a PROXY header, version 1 or 2, which names the client's address: "
             "a load balancer stands before this listener. Only addresses in `proxy_from` may connect."},
    {LISTENER(proxy_from), CAPACITY_OF(listener_config, proxy_from), .type = SETTING_LIST, .key = "proxy_from",
     .check = text_check_range, .def = "",
     .text = "The addresses that PROXY headers are believed from, `[\"192.0.2.0/24\", \"2001:db8::1\"]`. Others "
             "are refused (`proxy_source`). Needed with `proxy_protocol`, except on a unix socket."},
    {MQTT_ROW(transport), .type = SETTING_WORD, .key = "transport", .words = transport_words, .def = "tcp",
     .text = "`mqtt`: what carries the packets: the connection itself, or `websocket` on it (RFC 6455), which "
             "is what browsers can speak."},
    {WS_ROW(ws_path), TEXT_OF(listener_config, ws_path), .key = "ws_path", .check = text_check_ws_path,
     .def = "/mqtt",
     .text = "`websocket`: the path that clients name; another is answered with 404. What follows a `?` is "
             "not looked at. `*` takes every path."},
    {WS_ROW(ws_origins), CAPACITY_OF(listener_config, ws_origins), .type = SETTING_LIST, .key = "ws_origins",
     .check = text_check_origin, .def = "",
     .text = "`websocket`: the pages that may connect, by their origin, `[\"https://app.example\"]`, or "
             "`[\"*\"]` for all. Empty: pages of the same host. Programs that are no browser send no origin "
             "and are not asked."},
    {WS_ROW(ws_max_frame), .type = SETTING_BYTES32, .key = "ws_max_frame", .min = 1 * KIB, .max = 1 * GIB,
     .def = "16m",
     .text = "`websocket`: the largest frame. It costs no memory, since its bytes are taken as they come; "
             "`max_packet` bounds what does."},
    {MQTT_ROW(max_packet), .type = SETTING_BYTES32, .key = "max_packet", .min = 256,
     .max = LIMIT_PACKET_BYTES_MAX, .def = "1m",
     .text = "`mqtt`: the largest packet, header included. A longer one ends the connection before "
             "its body is read. Clients of 5.0 are told."},
    {MQTT_ROW(receive_max), .type = SETTING_COUNT, .key = "receive_max", .min = 1, .max = 65535, .def = "64",
     .text = "`mqtt`: QoS 2 messages that a client of 5.0 may have sent and not released. It is told; one "
             "that sends more is disconnected (0x93). 3.x knows no such limit."},
    {MQTT_ROW(inflight_max), .type = SETTING_COUNT, .key = "inflight_max", .min = 1, .max = 32768, .def = "256",
     .text = "`mqtt`: QoS 1 and 2 messages that may be on their way to a client at once; what the "
             "client itself allows (5.0: receive maximum) may be less. Others wait in its queue."},
    {MQTT_ROW(topic_alias_max), .type = SETTING_COUNT, .key = "topic_alias_max", .max = 65535,
     .zero = "none", .def = "32",
     .text = "`mqtt`: topic aliases a client of 5.0 may use, and the most that are used towards it. "
             "Each costs memory for a topic while the connection lasts."},
    {MQTT_ROW(server_keepalive_s), .type = SETTING_S32, .key = "server_keepalive", .min = 1,
     .max = 65535, .zero = "off", .def = "off",
     .text = "`mqtt`: clients of 5.0 are told to use this keep alive instead of their own. 3.x has "
             "no way to tell them: their own counts."},
    {MQTT_ROW(max_keepalive_s), .type = SETTING_S32, .key = "max_keepalive", .min = 1,
     .max = 65535, .zero = "unlimited", .def = "unlimited",
     .text = "`mqtt`: clients of 5.0 that ask for a longer keep alive, or for none, are told to use "
             "this one. Clients of 3.x keep theirs; TCP `keepalive` finds those that vanished."},
    {MQTT_ROW(session_expiry_max_s), .type = SETTING_S32, .key = "session_expiry_max", .min = 1,
     .max = 4294967294u, .zero = "unlimited", .def = "7d",
     .text = "`mqtt`: the longest time that a session is kept for a client that is not connected. A "
             "client of 5.0 that asks for more is told; a session of 3.x without clean session lasts so long."},
    {MQTT_ROW(max_qos), .type = SETTING_COUNT, .key = "max_qos", .max = 2, .def = "2",
     .text = "`mqtt`: the highest QoS. Subscriptions are granted at most this; a PUBLISH above it is refused."},
    {MQTT_ROW(retain_available), .type = SETTING_BOOL, .key = "retain_available", .def = "yes",
     .text = "`mqtt`: whether retained messages may be published."},
    {MQTT_ROW(wildcard_available), .type = SETTING_BOOL, .key = "wildcard_available", .def = "yes",
     .text = "`mqtt`: whether filters may have wildcards."},
    {MQTT_ROW(shared_available), .type = SETTING_BOOL, .key = "shared_available", .def = "yes",
     .text = "`mqtt`: whether there are shared subscriptions (`$share/NAME/FILTER`)."},
    {MQTT_ROW(subscription_ids_available), .type = SETTING_BOOL, .key = "subscription_ids_available", .def = "yes",
     .text = "`mqtt`: whether subscriptions of 5.0 may have identifiers."},
    {MQTT_ROW(check_payload_format), .type = SETTING_BOOL, .key = "check_payload_format", .def = "no",
     .text = "`mqtt`: a payload that is said to be UTF-8 (payload format indicator) and is not is "
             "refused (0x99). Costs a pass over each such payload."},
    {MQTT_ROW(max_subscriptions), .type = SETTING_COUNT, .key = "max_subscriptions", .min = 1,
     .max = 1u << 20, .def = "10000",
     .text = "`mqtt`: subscriptions of one client. Beyond it a filter is answered with quota exceeded (0x97)."},
    {MQTT_ROW(max_topic_levels), .type = SETTING_COUNT, .key = "max_topic_levels",
     .max = LIMIT_TOPIC_LEVELS, .zero = "unlimited", .def = "unlimited",
     .text = "`mqtt`: levels of a topic or filter, below the gateway's own limit of 128. A message on a deeper topic "
             "goes nowhere (0x90), a deeper filter is refused (0x8F)."},
    {MQTT_ROW(max_queued_bytes), .type = SETTING_BYTES32, .key = "max_queued_bytes", .min = 1 * KIB,
     .max = 1 * GIB, .def = "1m",
     .text = "`mqtt`: bytes of messages that wait for one client: QoS 1 and 2 while it is away or "
             "its window is full, QoS 0 while it reads slowly."},
    {MQTT_ROW(max_queued_messages), .type = SETTING_COUNT, .key = "max_queued_messages", .min = 1,
     .max = 1u << 24, .def = "1000",
     .text = "`mqtt`: the same as a number of messages."},
    {MQTT_ROW(queue_policy), .type = SETTING_WORD, .key = "queue_policy", .words = policy_words, .def = "newest",
     .text = "`mqtt`: what gives way when that queue is full: the `newest` message, the `oldest` "
             "ones, the client: `disconnect` (of a client that is away the newest message), or the "
             "publisher: `reject`, whose QoS 1 or 2 message is refused (0x97; 3.x is closed) before anybody gets it. "
             "Counted by reason in each case."},
    {MQTT_ROW(response_info), TEXT_OF(listener_config, response_info), .key = "response_info", .def = "",
     .text = "`mqtt`: what clients of 5.0 get that ask for response information, by custom the start of "
             "the topics they may have responses sent to: `responses/%i`. `%i` is the client id. Empty: "
             "they get none."},
    {MQTT_ROW(deny_subscribe), CAPACITY_OF(listener_config, deny_subscribe), .type = SETTING_FILTERS,
     .key = "deny_subscribe", .def = "",
     .text = "`mqtt`: a list of topic filters, `[\"a/#\", \"b/+/c\"]`. A subscription that could "
             "receive a topic under one of them is refused (0x87)."},
    {MQTT_ROW(deny_publish), CAPACITY_OF(listener_config, deny_publish), .type = SETTING_FILTERS,
     .key = "deny_publish", .def = "",
     .text = "`mqtt`: a list of topic filters. What is published on a topic under one of them is "
             "refused (0x87) and goes nowhere; a will on one refuses the connection."},

#include "conf/schema_uplink.h"

    {PATHS(cert), .key = "cert", .def = "",
     .text = "TLS: the certificate, in PEM, followed by those that lead to the authority clients know. A list of files "
             "when there are several: the one for the name that a client asks for (SNI) is used, ECDSA before RSA, "
             "and the first one for other names."},
    {PATHS(key), .key = "key", .def = "",
     .text = "TLS: the private key of each certificate, in PEM, in the same order. For what is missing here the key is "
             "taken from the certificate's own file. ECDSA P-256 is much faster than RSA. Keep the file readable "
             "by the gateway's user only."},
    {PATHS(client_ca), .key = "client_ca", .def = "",
     .text = "TLS: certificates, in PEM, of the authorities that clients' certificates come from."},
    {TLS(client_auth), .type = SETTING_WORD, .key = "client_auth", .words = client_auth_words,
     .def_note = "`required` with `client_ca`, else `none`",
     .text = "TLS: whether a client must show a certificate. With `optional` a client may have none, but one that it "
             "shows must be valid."},
    {TLS(identity), .type = SETTING_WORD, .key = "identity", .words = identity_words, .def = "cn",
     .text = "TLS: which part of a client's certificate is its name: the common name, or a name of that kind from "
             "the subject alternative names."},
    {PATHS(deny), .key = "deny", .def = "",
     .text = "TLS: files of client certificates that are refused although they are valid: revocation lists (CRL, in "
             "PEM, signed by a certificate in `client_ca`), or lines with the SHA-256 of a certificate, hexadecimal."},
    {TLS(alpn), TEXT_OF(listener_config, tls.alpn), .key = "alpn", .def = "mqtt",
     .text = "TLS: names for application protocol negotiation (ALPN), separated by blanks, the preferred one first. A "
             "client that offers none of them is let in without. Empty: none is negotiated."},
    {TLS(sessions), .type = SETTING_BOOL, .key = "sessions", .def = "yes",
     .text = "TLS: a client that comes back may resume its session, which saves both sides the public key operations. "
             "All workers know all sessions; a change of `client_ca` or `deny` ends them."},
    {TLS(handshake_timeout_ms), .type = SETTING_MS64, .key = "handshake_timeout", .min = 1 * MS_S,
     .max = 10 * 60 * MS_S, .def = "20s",
     .text = "TLS: a handshake must be done so long after the connection began, the time it waited for its turn "
             "included, or it is closed (`tls_handshake_timeout`)."},
    {TLS(handshakes_per_address), .type = SETTING_COUNT, .key = "handshakes_per_address", .min = 1,
     .max = LIMIT_TLS_HANDSHAKES, .def = "64",
     .text = "TLS: handshakes of one IP address at once on one worker. Others of it wait their turn, behind those of "
             "other addresses. Raise it for a fleet behind one NAT address."},

#include "conf/schema_network.h"

    {STREAM(topics), CAPACITY_OF(stream_config, topics), .type = SETTING_FILTERS, .key = "topics",
     .flags = SETTING_REQUIRED,
     .text = "A list of topic filters, `[\"sensors/#\", \"devices/+/up\"]`. Every message published on a "
             "topic under one of them, with any QoS, is kept, once."},
    {STREAM(max_bytes), .type = SETTING_BYTES64, .key = "max_bytes", .min = 64 * KIB, .max = 1024 * 1024 * GIB,
     .zero = "unlimited", .def = "1g",
     .text = "Stream: bytes kept, all workers together, each with its share. Beyond it the oldest messages go, or "
             "new ones are refused (`discard`). `unlimited` leaves the bound to the disk: the log refuses what has no "
             "room."},
    {STREAM(discard), .type = SETTING_WORD, .key = "discard", .words = discard_words, .def = "old",
     .text = "Stream: what gives way at `max_bytes`. `old`: the oldest messages, whether they were sent or not, so "
             "that devices are always served and the newest is kept. `new`: only what every uplink of the stream has "
             "sent and every named consumer has acknowledged; when that does not do, new messages of QoS 1 and 2 are "
             "refused as with a full disk, those of QoS 0 are delivered and not kept, until there is room again. "
             "Without uplink and consumer nothing goes for its size. `max_age` holds with both."},
    {STREAM(max_age_ms), .type = SETTING_MS64, .key = "max_age", .min = 1 * MS_S, .max = 36500 * MS_D,
     .zero = "unlimited", .def = "7d",
     .text = "Stream: messages older than this go. After a step of the clock of more than a minute nothing "
             "goes for its age for an hour, so that a wrong clock does not empty a stream."},
    {STREAM(sync), .type = SETTING_WORD, .key = "sync", .words = sync_words, .def = "commit",
     .text = "Stream: when a publisher of QoS 1 or 2 is answered: when its message is on disk (`commit`), or "
             "at once, and the message is on disk with the log's next commit, a moment later (`interval`; a "
             "power cut in between loses it). Whoever waits for the message otherwise still has it first on disk."},
};
const u32 schema_setting_count = ARRAY_LEN(schema_settings);
_Static_assert(ARRAY_LEN(schema_settings) <= SCHEMA_SETTINGS_MAX, "a parse keeps a line for each");
