// SPDX-License-Identifier: Apache-2.0
// limits.h: every queue, table, loop and packet has its named maximum here, with the relations between
// them asserted at compile time. Defaults that an operator may change are in conf/config.h; these are
// the bounds those settings may not leave.
#ifndef SLUICE_LIMITS_H
#define SLUICE_LIMITS_H

#include "base/base.h"

// --- workers ---
#define LIMIT_WORKERS_MAX 64        // one bit each in a route's worker mask (u64)
#define LIMIT_LISTENERS_MAX 64      // configured listeners
#define LIMIT_CONNS_PER_WORKER (1u << 20) // connection slots of one worker

#define LIMIT_STALL_MS 1000u               // a loop later than that stood still: machine paused, or its CPU taken
#define LIMIT_GOODBYE_MS 100u              // after its last word a peer has so long to close by itself
#define LIMIT_STALL_GRACE_MS 1000u         // timeouts rest so long after it: what has come meanwhile is read first

// --- receive path ---
#define LIMIT_RECV_BUF_BYTES 4096u         // one provided buffer of the uring engine
#define LIMIT_RECV_BUFS_MAX 32768u         // kernel's bound for one buffer ring
#define LIMIT_RECV_SCRATCH_BYTES 16384u    // one worker's buffer of the readiness engines
#define LIMIT_RECV_TURN_BYTES 16384u       // received from one connection in a row before others get a turn
#define LIMIT_PACKET_HEAD_BYTES 8u         // longest header needed to know a packet's size
#define LIMIT_PACKET_BYTES_MAX (256u << 20) // MQTT's remaining length bound; a listener sets less
#define LIMIT_TAIL_SLAB_BYTES 16384u       // larger packet assembly buffers are mapped for themselves

// --- send path ---
#define LIMIT_OUT_SEGMENT_MIN_BYTES 256u
#define LIMIT_OUT_SEGMENT_MAX_BYTES 16384u
#define LIMIT_OUT_IOVECS 64u               // pieces gathered into one send
#define LIMIT_OUT_SHARED_MIN_BYTES 512u    // from here on payloads are sent by reference

// --- between workers ---
#define LIMIT_RING_SLOTS 4096u             // messages of one worker-to-worker ring
#define LIMIT_RING_OVERFLOW 65536u         // messages waiting behind a full ring before publishers pause

// --- accept ---
#define LIMIT_ACCEPT_BACKLOG 4096
#define LIMIT_ACCEPT_TURNS 64u             // accepts in a row before connections get a turn
#define LIMIT_RATE_LOG_S 10u               // a listener says so seldom that messages wait for a rate
#define LIMIT_UNKNOWN_BUFFER_BYTES 4096u   // first buffer of a packet whose sender has not said who it is
#define LIMIT_ACCEPT_BACKOFF_MS 50u        // pause after EMFILE, ENFILE, ENOBUFS or ENOMEM

// --- WebSocket ---
#define LIMIT_WS_REQUEST_BYTES 8192u       // the handshake's request; more is answered 431
#define LIMIT_WS_HEADERS 64u               // header fields of it; more is answered 431

// --- identity ---
#define LIMIT_CLIENT_ID_BYTES 256u         // hello "id" of a framed device, UTF-8
#define LIMIT_TOKEN_BYTES 1024u            // hello "token"
#define LIMIT_HELLO_BYTES 4096u            // whole hello frame
#define LIMIT_TOPIC_BYTES 65535u           // MQTT 5.0 section 1.5.4: a UTF-8 string's length is 16 bits
#define LIMIT_TOPIC_LEVELS 128u
#define LIMIT_MQTT_SUBSCRIBES_OPEN 256u    // SUBSCRIBEs of a client whose retained messages are not all sent
#define LIMIT_OWED_MAX 4096u               // acknowledgements of a connection that wait for the disk
#define LIMIT_WILL_RESTART_S 10u           // wills of clients connected at the gateway's end wait so long
#define LIMIT_MQTT_CONNACK_BYTES 2048u     // properties of a CONNACK
#define LIMIT_NAME_BYTES 64u               // names of listeners, streams, uplinks

// --- TLS ---
#define LIMIT_TLS_CERTS 16u                // certificates of one listener
#define LIMIT_TLS_CHAIN 8u                 // certificates in a chain of our own
#define LIMIT_TLS_ALPN 4u                  // protocol names of one listener
#define LIMIT_TLS_FILE_BYTES (8u << 20)    // of a certificate, key, CA or deny file
#define LIMIT_TLS_PEM_OBJECTS 512u         // certificates and the like in one file
#define LIMIT_TLS_DENIED 262144u           // certificates that a listener refuses by name
#define LIMIT_TLS_IDENTITY_BYTES 128u      // of a name taken from a client's certificate
#define LIMIT_TLS_HANDSHAKES 256u          // of one worker at once; others wait
#define LIMIT_TLS_TURN_US 500u             // handshake work of one turn of the loop, once others wait
#define LIMIT_TLS_SLOW_MS 3000u            // without progress so long: gives way when others wait
#define LIMIT_TLS_FLIGHT_BYTES 65536u      // a peer's bytes that wait for their turn in its handshake
#define LIMIT_TLS_CLIENT_MS 20000u         // a handshake with a server must be done by then
#define LIMIT_TLS_ALERTS 16u               // warnings of a peer in one connection
#define LIMIT_TLS_SESSIONS 16384u          // sessions that can be resumed, whole process, power of two
#define LIMIT_TLS_SESSION_S 86400u         // and for how long
#define LIMIT_TLS_EXPIRY_WARN_S (30u * 86400u) // a certificate of ours that ends within it is warned of

// --- who may do what ---
#define LIMIT_USER_BYTES 256u              // a user's name
#define LIMIT_ADMIN_TOKEN_BYTES 200u       // the secret of the admin listener
#define LIMIT_CLOCK_BEHIND_S 86400u        // a clock so long before the build is wrong: no token is judged
#define LIMIT_AUTH_FILE_BYTES (64u << 20)  // password, ACL and key files
#define LIMIT_AUTH_ITERATIONS_MAX 10000000u // of PBKDF2, in a password file's line
#define LIMIT_AUTH_SLICE_ITERATIONS 128u   // of them in one turn of a worker's loop: about 0.1 ms
#define LIMIT_AUTH_ATTEMPTS 8192u          // clients of a worker whose credentials are being judged
#define LIMIT_AUTH_LOG_PER_S 10u           // lines of a worker about clients that were refused
#define LIMIT_AUTH_RECHECKS 256u           // connections looked at in one turn after a reload
#define LIMIT_ACL_FILTER_BYTES 1024u       // a filter of an ACL or token
#define LIMIT_ACL_SUBSTITUTES 8u           // %u and %c in one of them
#define LIMIT_JWT_BYTES 8192u              // a JSON web token
#define LIMIT_JWT_KEYS 4u                  // public keys in one key file

// --- routing ---
#define LIMIT_MATCH_CACHE 4096u            // topics of a worker whose matching filters are remembered
#define LIMIT_INSPECT_PLACES 1024u         // places of a table one message for operators looks at
#define LIMIT_INSPECT_BYTES (8u << 20)     // rows of one list of subscriptions or retained messages
#define LIMIT_SHARED_TRIES 64u             // members of a shared subscription a worker offers a message to
#define LIMIT_SHARED_WAITING 1024u         // messages that wait for the members of one, when all are full
#define LIMIT_RETAINED_TURN 4096u          // nodes of the retained store looked at in one turn of the loop
#define LIMIT_RETAINED_SWEEP 4096u         // the same, a second, for expired messages
#define LIMIT_RETAINED_PAGE_MESSAGES 64u   // retained messages sent to another worker at once
#define LIMIT_RETAINED_PAGE_BYTES (64u << 10) // and their bytes; a single larger one goes alone

// --- streams ---
#define LIMIT_STREAMS_KEPT 1024u           // partitions in a worker's log, of streams no longer configured too
#define LIMIT_STREAM_REFS LIMIT_STREAMS_MAX // streams that one message can belong to
#define LIMIT_STREAM_MARKS 2048u           // places of a partition that are remembered, however long it is
#define LIMIT_STREAM_CONSUMERS 1024u       // named consumers of a stream
#define LIMIT_STREAM_RANGES 64u            // ranges of a consumer that wait to be read by another member
#define LIMIT_STREAM_PAGE_BYTES (64u << 10) // messages read at once; a single larger one goes alone
#define LIMIT_STREAM_PAGE_MESSAGES 256u
#define LIMIT_STREAM_READS_TURN 512u       // records a worker looks at for readers in one turn
#define LIMIT_STREAM_FEEDS_TURN 64u        // readers served in one turn
#define LIMIT_STREAM_SUBSCRIPTIONS 16u     // $stream subscriptions of a client
#define LIMIT_STREAM_ASKS 2048u            // readings under way for one worker's clients, one a partition
#define LIMIT_STREAM_FETCH_MESSAGES 10000u // messages of one HTTP answer
#define LIMIT_STREAM_WAIT_MS 300000u       // an HTTP request waits so long at most
#define LIMIT_STREAM_FROM_BYTES 2048u      // of a `from`
#define LIMIT_STREAM_CLOCK_STEP_MS 60000u  // a larger step of the clock makes retention by age rest
#define LIMIT_STREAM_CLOCK_REST_MS 3600000u // so long
#define LIMIT_STREAM_CLOCK_WRONG_MS (30ull * 86400000) // after a larger one ages are counted anew

// --- configuration ---
#define LIMIT_CONFIG_BYTES (1u << 20)      // a longer file is refused
#define LIMIT_UPLINKS_MAX 16u          // `uplink NAME { ... }` blocks
#define LIMIT_NETWORKS_MAX 16          // `network NAME { ... }` blocks
#define LIMIT_NET_IFACES 32            // interfaces of an appliance; more are left down, and it is said
#define LIMIT_NET_ADDRESSES 16         // addresses remembered of one interface
#define LIMIT_STREAMS_MAX 32              // `stream NAME { ... }` blocks
#define LIMIT_CONFIG_DEPTH 8u              // blocks and lists inside each other

// --- the durable log ---
#define LIMIT_STORE_RECORD_BYTES (8u << 20)    // one record; a larger message is refused by name
#define LIMIT_STORE_BUFFER_BYTES (4u << 20)    // one commit gathers so much; then appending gives -EAGAIN
#define LIMIT_STORE_BUFFERS 3u                 // one is being written, one waits, one fills
#define LIMIT_STORE_SEGMENT_MIN_BYTES (16u << 20) // holds the largest record
#define LIMIT_STORE_SEGMENT_BYTES (1u << 30)
#define LIMIT_STORE_SEGMENTS_MIN 6u            // of a log: one in use, two of reserve, and room to copy
#define LIMIT_STORE_RESERVE_SEGMENTS 2u        // kept for what frees space when the disk or the budget is full
#define LIMIT_STORE_INDEX_STEP (64u << 10)     // bytes of log for one entry of an index
#define LIMIT_STORE_INDEX_KEPT 64u             // of a segment that is full: memory does not follow the log
#define LIMIT_STORE_SLICE_BYTES (64u << 10)    // of a checkpoint or of reclaim, in one turn of the loop
#define LIMIT_STORE_READ_BYTES (128u << 10)    // read ahead at once
#define LIMIT_STORE_FETCHES 1024u              // single records being read at once
#define LIMIT_STORE_CHECKPOINT_BYTES (32u << 20) // appended since the last checkpoint: begin the next
#define LIMIT_STORE_RETRY_MS 1000u             // a full or failed disk is tried again
#define LIMIT_STORE_QUARANTINE_BYTES (64u << 20) // of damaged log set aside, in all

// --- observation ---
#define LIMIT_RECORDER_EVENTS 4096u        // flight recorder records of one worker
#define LIMIT_LOG_LINE_BYTES 1024u         // longer log lines are cut and marked
#define LIMIT_LOG_RING_BYTES_MIN (64u << 10)
#define LIMIT_LOG_RING_BYTES_MAX (256u << 20)

// --- operations: admin HTTP, sluice ctl ---
#define LIMIT_HTTP_URL_BYTES 2048u         // request target; longer is answered 414
#define LIMIT_HTTP_HEADER_BYTES 8192u      // all header fields of a request; more is answered 431
#define LIMIT_HTTP_HEADERS 64u             // header fields of a request; more is answered 431
#define LIMIT_HTTP_HOST_BYTES 255u         // Host field; RFC 1035 section 2.3.4
#define LIMIT_HTTP_BODY_BYTES (256u << 10) // request body; more is answered 413
#define LIMIT_HTTP_PIPELINE_BYTES 16384u   // requests waiting behind one that is being answered
#define LIMIT_HTTP_CONNS 128u              // connections of one admin listener
#define LIMIT_HTTP_FOLLOWERS 16u           // answers that follow (trace, log) at once
#define LIMIT_HTTP_PAGE_BYTES 32768u       // one page of an answer
#define LIMIT_HTTP_OUT_HIGH_BYTES 65536u   // no further page is made while more than this waits
#define LIMIT_HTTP_OUT_BYTES (256u << 10)  // output budget of an admin connection
#define LIMIT_HTTP_REQUEST_MS 10000u       // a started request must be complete; a body that comes has longer:
#define LIMIT_HTTP_BODY_RATE 300u          // bytes of it a second are enough (a modem of 9.6 kbit/s gives 1,000)
#define LIMIT_HTTP_IDLE_MS 60000u          // keep-alive connection without a request
#define LIMIT_HTTP_SEND_MS 10000u          // a client that takes nothing for so long is cut off
#define LIMIT_OPS_REQUESTS 64u             // requests to workers outstanding at once
#define LIMIT_OPS_REPLY_MS 5000u           // a worker that has not answered by then is reported
#define LIMIT_OPS_APPLIANCE_MS 120000u      // an answer of init's: an update is checked within it
#define LIMIT_OPS_HEARTBEAT_MS 5000u       // older: the worker is asked before it counts as alive
#define LIMIT_OPS_CONNS_PER_MESSAGE 256u   // connections looked at by one message to a worker
#define LIMIT_OPS_SESSIONS_PER_MESSAGE 128u // MQTT sessions looked at by one message to a worker
#define LIMIT_OPS_CONNS_ROWS 10000u        // offset + limit of a connection list
#define LIMIT_OPS_POLL_MS 50u              // flight recorders and log are read so often for followers
#define LIMIT_OPS_TRACE_CONNS 65536u       // connections a trace remembers by name, power of two
#define LIMIT_OPS_CONN_EVENTS 32u          // last events shown with one connection

// --- sluice init (PID 1) ---
#define LIMIT_CMDLINE_BYTES 4096u          // the kernel's command line; 2048 on arm64 and x86
#define LIMIT_INIT_NOFILE 1048576u         // descriptors; the kernel's fs.nr_open allows no more by default
#define LIMIT_INIT_WATCHES 64u             // descriptors of init's loop
#define LIMIT_INIT_CHILDREN 32u            // children with an owner at once
#define LIMIT_INIT_TURN_MS 500u            // a longer callback of init's loop is logged
#define LIMIT_INIT_REQUESTS 32u            // kinds of requests
#define LIMIT_INIT_CLIENTS 8u              // connections of init's request socket at once
#define LIMIT_INIT_LINE_BYTES (LIMIT_HTTP_BODY_BYTES + 4096u) // a request's line
#define LIMIT_INIT_ANSWER_BYTES (1u << 20) // an answer's line
#define LIMIT_INIT_LOG_BYTES (128u << 10)  // last lines of init and of the gateway's stderr
#define LIMIT_INIT_CONSOLES 8u             // consoles that get a copy
#define LIMIT_INIT_CONSOLE_BACKLOG 16384u  // bytes that wait for a slow console
#define LIMIT_INIT_UEVENTS 64u             // of the kernel, read in one turn
#define LIMIT_INIT_BUTTONS 16u             // input devices with a power key
#define LIMIT_STATE_DELAY_MS 2000u         // changes of the state record are gathered so long
#define LIMIT_STATE_ENTRIES 64u            // values in the state record
#define LIMIT_DATA_MS 900000u              // check, repair and mount of the data partition; then without it
#define LIMIT_DISK_WAIT_MS 5000u           // the disk we were started from may appear so late
#define LIMIT_STATE_RETRY_MS 60000u        // a failed write of the state record is tried again after this
#define LIMIT_PSTORE_RECORDS 32u           // crash records of the kernel taken at boot
#define LIMIT_PSTORE_BYTES (512u << 10)    // all of them
#define LIMIT_PSTORE_RECORD_BYTES (128u << 10) // one of them
#define LIMIT_PSTORE_KEEP 16u              // files of them kept on the data partition
#define LIMIT_CLOCK_AHEAD_S (20ull * 365 * 86400) // a clock so far beyond the build is taken for damaged
#define LIMIT_CLOCK_SAVE_MS 3600000u       // saved time: 24 writes of 8 KiB a day are no wear
#define LIMIT_CLOCK_FIRST_SAVE_MS 300000u
#define LIMIT_RTC_WRITE_MS 39600000u       // the hardware clock is written every 11 hours
#define LIMIT_NTP_SERVERS 8u               // names of time servers
#define LIMIT_NTP_NAME_BYTES 128u
#define LIMIT_NTP_FALLBACK 4u              // public servers, used when fewer than three are known
#define LIMIT_NTP_ADDRESSES 12u            // addresses asked
#define LIMIT_NTP_ADDRESSES_PER_NAME 2u
#define LIMIT_NTP_RESOLVE_MS 15000u
#define LIMIT_NTP_ANSWER_MS 2000u
#define LIMIT_NTP_FIRST_MS 100u            // from the network's being up to the first round
#define LIMIT_NTP_RETRY_MS 2000u           // first retry; doubles
#define LIMIT_NTP_HOLD_MS 3600000u         // a server that said RATE is left alone so long
#define LIMIT_NTP_POLL_MIN_S 64u
#define LIMIT_NTP_POLL_MAX_S 1024u
#define LIMIT_NTP_STRATUM 15u              // RFC 5905 section 7.3: 16 is unsynchronised
#define LIMIT_NTP_DISTANCE_NS 1500000000ull // RFC 5905 section 11.2.1, MAXDIST
#define LIMIT_NTP_AGREE_NS 100000000ull    // offsets this near agree, beyond what the paths explain
#define LIMIT_NTP_GOOD_NS 20000000ll       // so little off: ask less often
#define LIMIT_NTP_STEP_NS 250000000ll      // more is stepped, less is slewed; the kernel slews up to 500 ms
#define LIMIT_NTP_STEP_ROUNDS 3u           // a later large difference must stay the same for so many rounds
#define LIMIT_NTP_SINGLE_ROUNDS 3u         // so often must the only server say the same
#define LIMIT_CRASHES_MAX 5u               // ends of the gateway in LIMIT_CRASH_WINDOW_MS: more is a crash loop
#define LIMIT_CRASH_WINDOW_MS 60000u
#define LIMIT_CRASH_BACKOFF_MS 8000u       // longest pause before a restart
#define LIMIT_CRASH_REBOOTS 3u             // boots in a row that ended in a crash loop; then init stays up, status mode
#define LIMIT_SETTLED_MS 10000u            // served so long: the next crash is not "in a row" with the last
#define LIMIT_STATUS_RETRY_MS 60000u       // status mode: between tries of the gateway
#define LIMIT_ABORT_MS 3000u               // a stuck gateway has so long to write its flight recorders
#define LIMIT_INIT_LATE_MS 4000u           // init's own tick came later: heartbeats can not be judged for a while
#define LIMIT_FEED_BEAT_MS 5000u           // an older heartbeat keeps the hardware watchdog from being fed
#define LIMIT_STABLE_MS 600000u            // the gateway served so long: the boot was good, counters go to 0
#define LIMIT_HEARTBEAT_MS 15000u          // a gateway thread that stands still for longer is stuck
#define LIMIT_GATEWAY_START_MS 60000u      // from start to ready; more is a hang
#define LIMIT_WATCHDOGS 4u                 // devices looked at for one that is hardware
#define LIMIT_WATCHDOG_S 60u               // hardware watchdog's timeout
#define LIMIT_SHUTDOWN_MS 20000u           // the ordered shutdown, all of it
#define LIMIT_DRAIN_MS 10000u              // of which the gateway's drain

// --- updates ---
#define LIMIT_UPDATE_IMAGE_BYTES (8u << 20) // a slot, and so the system in it
#define LIMIT_UPDATE_KEYS 4u                // public keys an image can have
#define LIMIT_UPDATE_EXTENTS 64u            // pieces of a slot's file on the ESP
#define LIMIT_UPDATE_PART_BYTES (128u << 10) // one part of an update that is sent over the admin port
#define LIMIT_UPDATE_IDLE_MS 600000u        // an update ends that got no byte for so long, over whatever connections
#define LIMIT_UPDATE_STALL_MS 60000u        // a URL's server that sends nothing for so long is asked anew
#define LIMIT_UPDATE_CONNECT_MS 30000u
#define LIMIT_UPDATE_RETRY_MS 15000u        // longest pause before an update's next connection
#define LIMIT_UPDATE_REDIRECTS 3u           // of an update's URL
#define LIMIT_UPDATE_REBOOT_MS 2000u        // from the answer to the reboot
#define LIMIT_UPDATE_TRIAL_MS 600000u      // of a trial whose configuration is not known yet

_Static_assert(IS_POWER_OF_TWO(LIMIT_RING_SLOTS), "ring index is masked");
_Static_assert(IS_POWER_OF_TWO(LIMIT_RECORDER_EVENTS), "recorder index is masked");
_Static_assert(IS_POWER_OF_TWO(LIMIT_RECV_BUFS_MAX), "buffer ring size is a power of two");
_Static_assert(LIMIT_RECV_BUF_BYTES <= LIMIT_RECV_SCRATCH_BYTES, "both feed the same parsers");
_Static_assert(LIMIT_HELLO_BYTES >= LIMIT_CLIENT_ID_BYTES + LIMIT_TOKEN_BYTES, "hello holds both");
_Static_assert(LIMIT_OUT_SEGMENT_MIN_BYTES <= LIMIT_OUT_SEGMENT_MAX_BYTES, "segment sizes");
_Static_assert(LIMIT_FEED_BEAT_MS < LIMIT_HEARTBEAT_MS &&
                   LIMIT_HEARTBEAT_MS + LIMIT_ABORT_MS < 1000u * LIMIT_WATCHDOG_S / 2,
               "a stuck gateway is killed well before the machine is reset");
_Static_assert(LIMIT_UPDATE_PART_BYTES * 4 / 3 / LIMIT_HTTP_BODY_RATE * 1000 + LIMIT_HTTP_REQUEST_MS <
                   LIMIT_UPDATE_IDLE_MS,
               "a whole part that comes as slowly as the admin port allows is no pause");
_Static_assert(LIMIT_DRAIN_MS < LIMIT_SHUTDOWN_MS, "the drain is a part of the shutdown");
_Static_assert(LIMIT_WORKERS_MAX <= 64, "worker masks are u64");
_Static_assert(LIMIT_HTTP_OUT_HIGH_BYTES + 2 * LIMIT_HTTP_PAGE_BYTES < LIMIT_HTTP_OUT_BYTES,
               "a page made at the high-water mark fits the output budget");
_Static_assert(IS_POWER_OF_TWO(LIMIT_OPS_TRACE_CONNS), "hash table is masked");
_Static_assert(LIMIT_STORE_RECORD_BYTES + (64u << 10) < LIMIT_STORE_SEGMENT_MIN_BYTES, "a record fits a segment");

#endif
