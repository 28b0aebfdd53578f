// SPDX-License-Identifier: Apache-2.0
// schema_uplink.h: the rows of `uplink NAME { ... }` in the table of schema.c, which includes it in their place:
// the table would be too long for one file otherwise. Not for anybody else.
    {UPLINK(kind), .type = SETTING_WORD, .key = "kind", .words = uplink_kind_words, .flags = SETTING_REQUIRED,
     .text = "What the remote is: an MQTT broker (`mqtt`), or NATS with JetStream (`nats`)."},
    {UPLINK(url), LIST_OF(uplink_config, url), .key = "url", .check = endpoint_check, .flags = SETTING_REQUIRED,
     .list_note = "one URL or a list, \"mqtt://HOST[:PORT]\" or [\"nats://a:4222\", \"nats://b:4222\"], at most 8",
     .text = "Uplink: where to. With several, the first is used while it works, and the others in turn. Names "
             "are looked up "
             "again for each attempt, and all their addresses are tried. User and password have settings of "
             "their own."},
    {UPLINK(streams), LIST_OF(uplink_config, streams), .key = "streams", .check = text_check_name,
     .flags = SETTING_REQUIRED, .list_note = "a list of names of streams, [\"telemetry\"], at most 16",
     .text = "Uplink: the streams whose messages are sent. A message of several of them is sent once. How much "
             "waits at "
             "most, and how long, is set with the streams."},
    {UPLINK(version), .type = SETTING_WORD, .key = "version", .flags = SETTING_MQTT_ONLY,
     .words = uplink_version_words, .def = "5",
     .text = "Uplink, `kind = mqtt`: the protocol's version. 3.1.1 carries no properties."},
    {UPLINK(client_id), TEXT_OF(uplink_config, client_id), .key = "client_id", .check = text_check_client_id,
     .def = "sluice-%h-%n",
     .text = "Uplink: the client id (MQTT), the connection's name (NATS), and the mark against loops. `%h` is "
             "the host's "
             "name, `%n` the uplink's; each worker appends its number. No two gateways may have the same."},
    {UPLINK(user), TEXT_OF(uplink_config, user), .key = "user", .def = "", .text = "Uplink: the user name. "
                                                                                   "Empty: none."},
    {UPLINK(password), TEXT_OF(uplink_config, password), .key = "password", .def = "", .flags = SETTING_SECRET,
     .text = "Uplink: the password that goes with `user`."},
    {UPLINK(token), TEXT_OF(uplink_config, token), .key = "token", .def = "", .flags = SETTING_SECRET,
     .text = "Uplink, `kind = nats`: the token, in place of user and password."},
    {UPLINK(nkey), TEXT_OF(uplink_config, nkey), .key = "nkey", .check = text_check_optional_path, .def = "",
     .text = "Uplink, `kind = nats`: a file with the seed of a user's nkey (`SU...`), which signs what the server "
             "asks."},
    {UPLINK(credentials), TEXT_OF(uplink_config, credentials), .key = "credentials", .check = text_check_optional_path,
     .def = "", .text = "Uplink, `kind = nats`: a credentials file (`.creds`): a user's JWT and the seed that "
                        "belongs to it."},
    {UPLINK(tls_ca), TEXT_OF(uplink_config, tls_ca), .key = "tls_ca", .check = text_check_optional_path, .def = "",
     .text = "Uplink, `mqtts://` and `tls://`: certificates, in PEM, of the authorities that the remote's "
             "certificate may come from. Needed: a remote that anybody could be is no remote."},
    {UPLINK(tls_cert), TEXT_OF(uplink_config, tls_cert), .key = "tls_cert", .check = text_check_optional_path,
     .def = "", .text = "Uplink, `mqtts://` and `tls://`: the own certificate, in PEM, for remotes that ask for one."},
    {UPLINK(tls_key), TEXT_OF(uplink_config, tls_key), .key = "tls_key", .check = text_check_optional_path, .def = "",
     .text = "Uplink, `mqtts://` and `tls://`: its private key. Empty: it is in `tls_cert`."},
    {UPLINK(prefix), TEXT_OF(uplink_config, prefix), .key = "prefix", .check = text_check_prefix, .def = "",
     .text = "Uplink: put before the topic of each message, `\"site7/\"`. It ends with `/`."},
    {UPLINK(remap), LIST_OF(uplink_config, remap), .key = "remap", .check = map_rule_check, .def = "",
     .list_note = "a list of rules \"FILTER -> TOPIC\", [\"sensors/+/# -> plant/+/#\"], at most 32",
     .text = "Uplink: other topics for the remote. In TOPIC a `+` stands for what the `+` of the same number "
             "matched, a "
             "last `#` for what `#` did. The first rule that matches counts; without one the topic stays. `prefix` "
             "comes before either."},
    {UPLINK(down), LIST_OF(uplink_config, down), .key = "down", .check = map_rule_check, .def = "",
     .list_note = "a list of rules \"FILTER\" or \"FILTER -> TOPIC\", [\"site7/cmd/# -> devices/#\"], at most 32",
     .text = "Uplink: what is subscribed to at the remote and published here, under TOPIC if there is one, as "
             "in `remap`. "
             "Over MQTT it waits at the remote while the uplink is down (`session_expiry`); over NATS it does not."},
    {UPLINK(status_topic), TEXT_OF(uplink_config, status_topic), .key = "status_topic", .flags = SETTING_MQTT_ONLY,
     .check = text_check_status_topic,
     .def = "", .text = "Uplink, `kind = mqtt`: `online` is published there, retained, and `offline` at the "
                        "end, by the "
                        "broker itself if the gateway vanishes. Empty: none."},
    {UPLINK(order), .type = SETTING_WORD, .key = "order", .words = uplink_order_words, .def = "oldest",
     .text = "Uplink: after an outage the backlog goes first, in its order (`oldest`), or new messages do and "
             "the backlog "
             "beside them, its last minute first, then what is up to 10 minutes old, an hour, 6 hours, a day "
             "(`newest`)."},
    {UPLINK(from), .type = SETTING_WORD, .key = "from", .words = uplink_from_words, .def = "new",
     .text = "Uplink: where one begins that was not there before: with what comes from now on (`new`), or with "
             "the oldest "
             "that the streams still hold (`earliest`)."},
    {UPLINK(qos0_buffer), .type = SETTING_BOOL, .key = "qos0_buffer", .def = "yes",
     .text = "Uplink: whether messages published with QoS 0 during an outage are sent after it. `no` leaves "
             "them out, and "
             "counts them."},
    {UPLINK(inflight), .type = SETTING_COUNT, .key = "inflight", .min = 1, .max = 65000, .def = "1024",
     .text = "Uplink: messages sent and not acknowledged yet, for each worker. More of them fill a line with a "
             "long way "
             "better; the remote's own limit (receive maximum) holds as well."},
    {UPLINK(rate), .type = SETTING_COUNT, .key = "rate", .max = 1u << 30, .zero = "unlimited", .def = "unlimited",
     .text = "Uplink: messages a second at most, for each worker: so that a backlog does not take the whole line."},
    {UPLINK(rate_bytes), .type = SETTING_BYTES64, .key = "rate_bytes", .min = 1, .max = 1024 * GIB, .zero = "unlimited",
     .def = "unlimited", .text = "Uplink: payload bytes a second at most, for each worker."},
    {UPLINK(keepalive_s), .type = SETTING_S32, .key = "keepalive", .min = 1, .max = 3600, .def = "10s",
     .text = "Uplink: a remote from which nothing has come for so long is asked (ping)."},
    {UPLINK(ping_timeout_ms), .type = SETTING_MS64, .key = "ping_timeout", .min = 100, .max = 60 * MS_S, .def = "5s",
     .text = "Uplink: a remote that does not answer the ping for so long is given up (`silent`)."},
    {UPLINK(connect_timeout_ms), .type = SETTING_MS64, .key = "connect_timeout", .min = 100, .max = 120 * MS_S,
     .def = "10s", .text = "Uplink: the most that each of these may take: the look-up of a name, a connection to one "
                           "address, the remote's greeting."},
    {UPLINK(ack_timeout_ms), .type = SETTING_MS64, .key = "ack_timeout", .min = 100, .max = 1 * MS_H, .def = "30s",
     .text = "Uplink: a message that is not acknowledged for so long ends the connection (`ack_timeout`); it is "
             "sent again "
             "over the next."},
    {UPLINK(backoff_min_ms), .type = SETTING_MS64, .key = "backoff_min", .min = 10, .max = 1 * MS_H, .def = "500ms",
     .text = "Uplink: the wait after all URLs have failed once. It doubles with each further round; half of it "
             "is random."},
    {UPLINK(backoff_max_ms), .type = SETTING_MS64, .key = "backoff_max", .min = 10, .max = 24 * MS_H, .def = "60s",
     .text = "Uplink: the longest such wait."},
    {UPLINK(session_expiry_s), .type = SETTING_S32, .key = "session_expiry", .flags = SETTING_MQTT_ONLY,
     .max = UINT32_MAX - 1, .def = "1d",
     .text = "Uplink, `kind = mqtt`, version 5: how long the remote keeps what `down` asks for while the uplink "
             "is away."},
    {UPLINK(max_packet), .type = SETTING_BYTES32, .key = "max_packet", .min = 1 * KIB, .max = LIMIT_PACKET_BYTES_MAX,
     .def = "1m", .text = "Uplink: the largest packet or message that is taken from the remote."},
