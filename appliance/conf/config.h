// SPDX-License-Identifier: Apache-2.0
// config.h: the configuration as the program sees it: parsed, checked, complete. One table in
// conf/schema.c gives every key its type, default, bounds and text (the same table makes
// docs/configuration.md); a mistake is reported with file, line, what is wrong and what is allowed.
// A key in the file has its field's name without the unit: idle_timeout_ms is idle_timeout,
// out_bytes_max is out_max, log.ring_bytes is log { ring }, admin_bind is admin { bind }.
#ifndef SLUICE_CONF_CONFIG_H
#define SLUICE_CONF_CONFIG_H

#include <sys/socket.h>

#include "base/base.h"
#include "base/log.h"
#include "io/io.h"
#include "limits.h"
#include "uplink/endpoint.h"

typedef enum listener_protocol { PROTOCOL_FRAME, PROTOCOL_HTTP, PROTOCOL_MQTT } listener_protocol;
typedef enum frame_mode { FRAME_ECHO, FRAME_ACK, FRAME_PUBLISH } frame_mode;
typedef enum steer_mode { STEER_HASH, STEER_CPU } steer_mode;
typedef enum listener_transport { TRANSPORT_TCP, TRANSPORT_WEBSOCKET } listener_transport;
typedef enum sandbox_mode { SANDBOX_ON, SANDBOX_OFF, SANDBOX_DEBUG } sandbox_mode;
// Which member of a shared subscription gets a message.
typedef enum shared_strategy {
    SHARED_ROUND_ROBIN,
    SHARED_STICKY,
    SHARED_LEAST_IN_FLIGHT,
} shared_strategy;
// What gives way when a client's queue is full.
typedef enum queue_policy { QUEUE_NEWEST, QUEUE_OLDEST, QUEUE_DISCONNECT, QUEUE_REJECT } queue_policy;
// Whether clients must show a certificate (listener { tls { client_auth } }).
typedef enum tls_client_auth { TLS_CLIENT_NONE, TLS_CLIENT_OPTIONAL, TLS_CLIENT_REQUIRED } tls_client_auth;
// Which part of a client's certificate is its name.
typedef enum tls_identity { TLS_ID_CN, TLS_ID_DNS, TLS_ID_EMAIL, TLS_ID_URI } tls_identity;
// Who says that a system on trial is good.
typedef enum update_confirm { UPDATE_CONFIRM_AUTO, UPDATE_CONFIRM_OPERATOR } update_confirm;
// What happens to a client that sends more than its rates.
typedef enum rate_policy { RATE_PAUSE, RATE_DISCONNECT } rate_policy;
struct auth_policy;
#define CONFIG_FILTERS_BYTES 1024u // a list of topic filters, each ended by a newline
#define CONFIG_LIST_BYTES 1024u    // a list of other texts, the same way

typedef struct bind_address {
    struct sockaddr_storage addr; // AF_INET, AF_INET6 or AF_UNIX ("unix:/path")
    socklen_t addr_len;
    char text[128];               // as printed: "0.0.0.0:7000", "[::]:7000", "unix:/run/x"
} bind_address;

typedef struct listener_config {
    char name[LIMIT_NAME_BYTES];
    listener_protocol protocol;
    bind_address bind;
    frame_mode mode;          // echo | ack | publish; default ack
    u32 max_frame;            // bytes of payload, default 64k, 1 .. LIMIT_PACKET_BYTES_MAX
    u32 rcvbuf, sndbuf;       // SO_RCVBUF, SO_SNDBUF bytes; 0 = auto. Defaults 32k and auto
    u64 idle_timeout_ms;      // default 60s; 0 = never
    u64 packet_timeout_ms;    // a started frame must be complete; default 30s; 0 = never
    u64 hello_timeout_ms;     // default 10s
    u64 send_timeout_ms;      // peer took nothing for so long while output waits; default 60s
    u32 keepalive_s;          // TCP_KEEPIDLE; 0 = off; default 60 (interval /3, 3 probes)
    u32 user_timeout_ms;      // TCP_USER_TIMEOUT; default 60s; 0 = kernel's
    u32 backlog;              // default 4096
    bool bind_everybody;      // a unix socket that every user may connect to: the protocol asks who it is
    steer_mode steer;         // default hash
    bool defer_accept;        // TCP_DEFER_ACCEPT, default off
    u32 max_conns;            // whole process; 0 = what descriptors and memory allow
    u32 max_conns_per_address; // 0 = no limit
    u32 accept_rate;          // per second, whole process; 0 = no limit
    u32 out_bytes_max;        // output budget of one connection; default 256k, more for max_frame
    u32 out_bytes_high;       // reading pauses above; default 64k; the largest reply fits above it
    char up_topic[256];       // default "devices/%i/up"; %i = device id
    char down_topic[256];     // default "devices/%i/down"; a filter, wildcards allowed
    char token[256];          // "" = none asked for; else hello's token must equal it
    bool anonymous;           // default: true on local binds without token; in publish: no token
    bool proxy_protocol;      // each connection begins with a PROXY header; default no
    char proxy_from[CONFIG_LIST_BYTES]; // address ranges of the proxies, each ended by a newline
    // publish and mqtt: accounts and limits (auth/)
    char password_file[256], acl_file[256], jwt_key_file[256]; // "" = none
    char jwt_issuer[256], jwt_audience[256];                   // "" = any
    u32 jwt_leeway_s;         // default 30s
    u64 auth_delay_ms;        // before a wrong credential is answered; default 500ms
    u32 auth_failures;        // of an address, per minute; default 60; 0 = no limit
    u32 message_rate;         // messages of a client, per second; 0 = no limit
    u64 byte_rate;            // bytes of their payload, per second; 0 = no limit
    rate_policy rate_policy;  // of message_rate and byte_rate; default pause
    u32 message_rate_per_address, message_rate_all; // all clients of an address, of the listener; 0 = no limit
    u64 byte_rate_per_address, byte_rate_all;
    u32 connect_rate_per_address; // connections of an address, per second; 0 = no limit
    struct auth_policy *auth; // what the files say; NULL = no files. Set by auth_policies_load
    // protocol = mqtt
    u32 max_topic_levels;     // 0 = LIMIT_TOPIC_LEVELS
    u32 max_packet;           // bytes of a whole packet, default 1m
    u32 receive_max;          // QoS 2 messages a client may have open, default 64
    u32 inflight_max;         // QoS 1 and 2 messages on their way to a client, default 256
    u32 topic_alias_max;      // aliases in each direction, default 32; 0 = none
    u32 server_keepalive_s;   // put in place of what clients ask for; 0 = off
    u32 max_keepalive_s;      // 0 = no limit
    u32 session_expiry_max_s; // default 7d; 0 = no limit
    u32 max_qos;              // default 2
    bool retain_available, wildcard_available, shared_available, subscription_ids_available;
    bool check_payload_format;
    u32 max_subscriptions;    // of one client, default 10000
    u32 max_queued_bytes;     // of one client, default 1m
    u32 max_queued_messages;  // of one client, default 1000
    queue_policy queue_policy; // default newest
    char response_info[256];  // 5.0 response information; %i = client id; "" = none
    char deny_subscribe[CONFIG_FILTERS_BYTES]; // topic filters, each ended by a newline
    char deny_publish[CONFIG_FILTERS_BYTES];
    listener_transport transport; // default tcp
    char ws_path[256];        // default "/mqtt"; "*" = every path
    char ws_origins[CONFIG_LIST_BYTES]; // allowed origins, each ended by a newline; "" = the same host
    u32 ws_max_frame;         // bytes of a frame's payload, default 16m
    struct {                  // tls { ... }: on when cert is given
        char cert[CONFIG_LIST_BYTES]; // chains, one file a name or kind of key
        char key[CONFIG_LIST_BYTES];  // their keys; fewer than certs: the rest lie in the cert's file
        char client_ca[CONFIG_LIST_BYTES];
        tls_client_auth client_auth;   // default: required with client_ca
        tls_identity identity;
        char deny[CONFIG_LIST_BYTES];
        char alpn[128];                // names separated by blanks
        bool sessions;
        u64 handshake_timeout_ms;      // default 20s
        u32 handshakes_per_address;    // at once, on one worker; default 64
    } tls;
} listener_config;

// When a publisher whose message belongs to a stream is answered.
typedef enum stream_sync { STREAM_SYNC_COMMIT, STREAM_SYNC_INTERVAL } stream_sync;
// What gives way when a stream is at its bound of bytes: its oldest messages, or the new one.
typedef enum stream_discard { STREAM_DISCARD_OLD, STREAM_DISCARD_NEW } stream_discard;

// Messages that are kept to be read again (store/streams.h).
typedef struct stream_config {
    char name[LIMIT_NAME_BYTES];
    char topics[CONFIG_FILTERS_BYTES]; // topic filters, each ended by a newline
    u64 max_bytes;            // of the whole process; 0 = no bound of its own; default 1g
    u64 max_age_ms;           // 0 = never too old; default 7d
    stream_sync sync;         // default commit
    stream_discard discard;   // default old
} stream_config;

typedef enum network_dhcp6 { NETWORK_DHCP6_AUTO, NETWORK_DHCP6_ON, NETWORK_DHCP6_OFF } network_dhcp6;

// One block of the appliance's network; init reads it, `sluice run` only checks it.
typedef struct network_config {
    char name[LIMIT_NAME_BYTES];
    char match[256];          // "any", "name:", "mac:", "driver:" (conf/network.h)
    bool dhcp4;
    bool slaac;
    network_dhcp6 dhcp6;      // auto: when the router's advertisement says so
    char address[512];        // static, with prefix lengths
    char gateway[256];
    char routes[512];
    char dns[256];
    char ntp[256];
    u32 vlan;                 // 0 = none
    u32 mtu;                  // 0 = auto
    u32 queues;               // 0 = auto
} network_config;

typedef enum uplink_version { UPLINK_MQTT_5, UPLINK_MQTT_3_1_1 } uplink_version;
typedef enum uplink_order { UPLINK_OLDEST, UPLINK_NEWEST } uplink_order;
// Where an uplink begins that the log does not know yet.
typedef enum uplink_from { UPLINK_FROM_NEW, UPLINK_FROM_EARLIEST } uplink_from;
#define UPLINK_URLS_MAX 8u
#define UPLINK_STREAMS_MAX 16u

typedef struct uplink_config {
    char name[LIMIT_NAME_BYTES];
    uplink_kind kind;
    uplink_version version;    // mqtt: default 5
    char url[CONFIG_FILTERS_BYTES];     // lists: each ended by a newline
    char streams[CONFIG_FILTERS_BYTES];
    char remap[CONFIG_FILTERS_BYTES];   // rules of uplink/map.h
    char down[CONFIG_FILTERS_BYTES];
    char prefix[128];
    char client_id[128];       // %h = host name, %n = name
    char user[128], password[256], token[256];
    char status_topic[256];    // "" = none
    char nkey[256], credentials[256]; // files, for kind = nats; "" = none
    char tls_ca[256], tls_cert[256], tls_key[256]; // files, for mqtts:// and tls:// URLs; "" = none
    uplink_order order;        // default oldest
    uplink_from from;          // default new
    bool qos0_buffer;          // default yes
    u32 inflight;              // default 256
    u32 rate;                  // messages a second; 0 = no limit
    u64 rate_bytes;            // bytes a second; 0 = no limit
    u32 keepalive_s;           // default 10s
    u64 ping_timeout_ms;       // default 5s
    u64 connect_timeout_ms;    // default 10s
    u64 ack_timeout_ms;        // default 30s
    u64 backoff_min_ms, backoff_max_ms; // default 500ms, 60s
    u32 session_expiry_s;      // default 1d
    u32 max_packet;            // from the remote, default 1m
} uplink_config;

typedef struct config {
    u32 workers;              // 0 = auto: one per online CPU allowed to us
    bool engine_auto;
    io_kind engine;           // when not auto
    bool pin;                 // pin workers to CPUs, default true
    u32 recv_bufs;            // uring provided buffers of a worker; 0 = auto
    u32 min_wait_us;          // uring batching bound; default in schema
    bool sqpoll;
    u32 max_conns;            // whole process; 0 = from RLIMIT_NOFILE
    u64 memory_max;           // bytes for buffers, all workers; 0 = a quarter of RAM
    u64 drain_timeout_ms;     // SIGTERM: default 10s
    shared_strategy shared_strategy; // default round_robin
    u32 retained_messages_max; // whole process; 0 = no limit; default 1000000
    u64 retained_bytes_max;    // whole process; 0 = no limit; default 256m
    u32 max_sessions;         // MQTT sessions of the process; 0 = what memory allows
    u32 sys_interval_s;       // $SYS topics; default 10s; 0 = off
    bool events;              // $events topics; default off
    char data_dir[256];
    bool durable;             // default yes
    u64 log_max_bytes;        // of the durable logs, all workers; 0 = auto
    u32 commit_delay_us;      // default 0
    char ctl_socket[108];     // unix socket of sluice ctl; default data_dir/ctl.sock
    char ctl_allow[CONFIG_LIST_BYTES]; // "uid:N" or "gid:N", each ended by a newline: who else may use it
    char user[64];            // "" = stay who it is; a name, UID or UID:GID
    sandbox_mode sandbox;     // default on
    bool admin_enabled;
    bind_address admin_bind;  // default 127.0.0.1:9600
    char admin_token_file[256]; // "" = none is asked for
    char admin_token[LIMIT_ADMIN_TOKEN_BYTES + 1]; // what it holds. Set by auth_policies_load
    bool admin_anonymous;     // a bind that others can reach needs no token
    struct {
        log_level level;
        u64 ring_bytes;
        bool to_stderr;
        char file[256];
        u64 file_bytes_max;
        u32 file_keep;
        char syslog[128];
        bool connections;     // a line per connect and close; default false
    } log;
    struct {
        update_confirm confirm;   // default auto
        u64 after_ms;             // default 60s
        u64 within_ms;            // default 10m
        char reach[256];          // HOST:PORT, or empty
        char keys[640];           // public keys, in hexadecimal, separated by blanks
    } update;                     // read by init; `sluice run` only checks it
    u32 listener_count;
    listener_config listeners[LIMIT_LISTENERS_MAX];
    u32 uplink_count;
    uplink_config uplinks[LIMIT_UPLINKS_MAX];
    u32 network_count;
    network_config networks[LIMIT_NETWORKS_MAX];
    u32 stream_count;
    stream_config streams[LIMIT_STREAMS_MAX];
    char source[256];         // file name, or "(defaults)"
} config;

typedef struct config_error {
    char text[4096];          // a line each, no final newline: "file:line: key: what; allowed: ..."
} config_error;

// Fills in the defaults used with no file: an mqtt listener on 127.0.0.1:1883, a frame listener on
// 127.0.0.1:7000 and admin on loopback.
void config_defaults(config *out);
// Reads and checks a file. Returns 0, or -EINVAL / -errno with error->text set (every mistake
// found, up to the buffer). Never leaves *out half filled: on error its content is undefined and
// must not be used.
int config_load(const char *path, config *out, config_error *error);
// The same from memory (fuzzing, tests); name is used in messages. Touches no file. text needs no
// terminator.
int config_parse(const char *name, const char *text, size_t bytes, config *out,
                 config_error *error);
// Writes the effective configuration in the file's own syntax; it reads back as the same
// configuration, except that tokens are not shown. CONFIG_PRINT_BYTES is room enough for any.
// Returns bytes without
// the terminator, which is always there, or -ENOSPC.
#define CONFIG_PRINT_BYTES (256u << 10)
ssize_t config_print(const config *c, char *out, size_t out_bytes);
// Pure, any thread. "64k", "2g" -> bytes; "250ms", "7d" -> milliseconds; host:port, [v6]:port,
// unix:/path. Return 0 or -EINVAL / -ERANGE.
int config_parse_bytes(const char *text, u64 *bytes);
int config_parse_duration_ms(const char *text, u64 *ms);
int config_parse_bind(const char *text, bind_address *out);
// Prints the reference of all keys as Markdown to stdout (docs/configuration.md is made by it).
void config_print_reference(void);

#endif
