// SPDX-License-Identifier: Apache-2.0
// test_frame.c: the three modes of the frame protocol on fake connections: exact bytes in and out,
// split at every byte and coalesced, sessions that move, take over, wait, and slow devices.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "broker/clients.h"
#include "fake_net.h"
#include "proto/frame.h"

#define MEMORY (8ull << 20)
#define HEARTBEAT "\0\0\0\0"

// What came out since the last call, compared with what should have.
static void expect_bytes(fake_conn *f, const void *bytes, u32 len) {
    assert_int_equal(f->out_len - f->out_taken, len);
    if (len > 0) assert_memory_equal(f->out + f->out_taken, bytes, len);
    f->out_taken = f->out_len;
}
#define expect(f, literal) expect_bytes(f, literal, sizeof(literal) - 1)

static void expect_ack(fake_conn *f, u8 number) {
    const u8 ack[FRAME_ACK_BYTES] = {0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, number};
    expect_bytes(f, ack, sizeof(ack));
}

#define receive(f, literal) fake_receive(f, literal, sizeof(literal) - 1)

static void receive_frame(fake_conn *f, const void *payload, u32 len) {
    u8 head[FRAME_HEADER_BYTES];
    frame_length_write(head, len);
    fake_receive(f, head, sizeof(head));
    fake_receive(f, payload, len);
}

static void receive_hello(fake_conn *f, const char *id, const char *token) {
    char text[2048];
    int len = snprintf(text, sizeof(text), "{\"id\": \"%s\", \"token\": \"%s\"}", id, token);
    receive_frame(f, text, (u32)len);
}

static void open_device(fake_conn *f, u32 worker_index, const char *id) {
    fake_open(f, &proto_frame_publish, worker_index);
    receive_hello(f, id, "");
    net_pump();
    expect_ack(f, 0);
}

static u64 start(u32 workers) {
    net_start(workers, MEMORY, 7);
    return broker_usage_get(net.workers[0].broker).memory_bytes;
}

static void stop(u64 empty_bytes) {
    net_pump();
    for (u32 i = 0; i < net.gw.worker_count; i++) {
        broker_usage usage = broker_usage_get(net.workers[i].broker);
        assert_int_equal(usage.subscriptions, 0);
        assert_int_equal(usage.remote_filters, 0);
        assert_int_equal(usage.memory_bytes, empty_bytes);
        assert_int_equal(client_count(net.workers[i].broker), 0);
    }
    net_stop();
}

static void test_length_field(void **state) {
    (void)state;
    const u32 values[] = {0, 1, 255, 256, 65536, 0x01020304, UINT32_MAX};
    for (u32 i = 0; i < ARRAY_LEN(values); i++) {
        u8 head[4];
        frame_length_write(head, values[i]);
        assert_int_equal(frame_length_read(head), values[i]);
    }
    const u8 head[4] = {1, 2, 3, 4};
    assert_int_equal(frame_length_read(head), 0x01020304);
}

static void test_echo(void **state) {
    (void)state;
    u64 empty = start(1);
    fake_conn f;
    fake_open(&f, &proto_frame_echo, 0);
    receive(&f, "\0\0\0\3abc");
    expect(&f, "\0\0\0\3abc");
    receive(&f, HEARTBEAT);
    expect(&f, HEARTBEAT);
    receive(&f, "\0\0\0\1x" HEARTBEAT "\0\0\0\2yz");
    expect(&f, "\0\0\0\1x" HEARTBEAT "\0\0\0\2yz");
    assert_int_equal(f.in_place_bytes, f.out_len); // nothing was copied
    assert_int_equal(counter_get(&net.workers[0].metrics.heartbeats), 2);
    fake_close(&f);
    stop(empty);
}

static void test_ack(void **state) {
    (void)state;
    u64 empty = start(1);
    fake_conn f;
    fake_open(&f, &proto_frame_ack, 0);
    receive(&f, "\0\0\0\3abc");
    expect_ack(&f, 1);
    receive(&f, HEARTBEAT HEARTBEAT); // have no number
    expect(&f, HEARTBEAT HEARTBEAT);
    receive(&f, "\0\0\0\1x\0\0\0\1y");
    expect(&f, "\0\0\0\10\0\0\0\0\0\0\0\2\0\0\0\10\0\0\0\0\0\0\0\3");
    f.c.frames_taken = 0x01020304050607fe;
    receive(&f, "\0\0\0\1x");
    expect(&f, "\0\0\0\10\1\2\3\4\5\6\7\377");
    fake_close(&f);
    stop(empty);
}

// The same bytes in two pieces, cut at every place, in all modes: the answer is the same.
static void test_split_at_every_byte(void **state) {
    (void)state;
    static const char stream[] =
        "\0\0\0\14{\"id\":\"dev\"}" HEARTBEAT "\0\0\0\5hello\0\0\0\1x" HEARTBEAT;
    static const proto *const modes[] = {&proto_frame_echo, &proto_frame_ack, &proto_frame_publish};
    const u32 len = sizeof(stream) - 1;
    for (u32 mode = 0; mode < ARRAY_LEN(modes); mode++) {
        u8 *whole = NULL;
        u32 whole_len = 0;
        for (u32 cut = 0; cut <= len; cut++) {
            u64 empty = start(1);
            fake_conn f;
            fake_open(&f, modes[mode], 0);
            fake_receive(&f, stream, cut);
            fake_receive(&f, stream + cut, len - cut);
            assert_int_equal(f.in_len, 0);
            if (cut == 0) {
                whole_len = f.out_len;
                whole = malloc(whole_len);
                assert_non_null(whole);
                memcpy(whole, f.out, whole_len);
            }
            assert_int_equal(f.out_len, whole_len);
            assert_memory_equal(f.out, whole, whole_len);
            fake_close(&f);
            stop(empty);
        }
        assert_int_equal(whole_len, mode == 0 ? len : 3 * FRAME_ACK_BYTES + 8);
        free(whole);
    }
}

static void test_too_large(void **state) {
    (void)state;
    static const proto *const modes[] = {&proto_frame_echo, &proto_frame_ack, &proto_frame_publish};
    for (u32 mode = 0; mode < ARRAY_LEN(modes); mode++) {
        u64 empty = start(1);
        net.listeners[0].conf.max_frame = 1000;
        fake_conn f;
        fake_open(&f, modes[mode], 0);
        if (mode == 2) receive_hello(&f, "dev", "");
        u8 payload[1000] = {'x'};
        receive_frame(&f, payload, 1000);
        assert_int_equal(f.c.reason, CLOSE_NONE);
        receive(&f, "\0\0\3\351"); // 1001: closed by its header alone
        assert_int_equal(f.c.reason, CLOSE_FRAME_TOO_LARGE);
        fake_close(&f);
        fake_open(&f, modes[mode], 0);
        receive(&f, "\377\377\377\377");
        assert_int_equal(f.c.reason, CLOSE_FRAME_TOO_LARGE);
        fake_close(&f);
        stop(empty);
    }
}

// Before its hello a peer can not make the gateway hold more than a hello.
static void test_hello_too_large(void **state) {
    (void)state;
    u64 empty = start(1);
    fake_conn f;
    fake_open(&f, &proto_frame_publish, 0);
    receive(&f, "\0\0\20\1");
    assert_int_equal(f.c.reason, CLOSE_BAD_HELLO);
    fake_close(&f);
    open_device(&f, 0, "dev");
    u8 payload[4097] = {'x'};
    receive_frame(&f, payload, sizeof(payload)); // fine afterwards
    expect_ack(&f, 1);
    fake_close(&f);
    stop(empty);
}

static void test_bad_hello(void **state) {
    (void)state;
    static const char *const hellos[] = {"x", "{}", "{\"id\":\"\"}", "{\"id\":\"a/b\"}",
                                         "{\"id\":\"x\"}}"};
    u64 empty = start(2);
    for (u32 i = 0; i < ARRAY_LEN(hellos); i++) {
        fake_conn f;
        fake_open(&f, &proto_frame_publish, 0);
        receive(&f, HEARTBEAT); // answered before the hello too
        expect(&f, HEARTBEAT);
        assert_null(f.c.proto_state);
        receive_frame(&f, hellos[i], (u32)strlen(hellos[i]));
        assert_int_equal(f.c.reason, CLOSE_BAD_HELLO);
        expect(&f, "");
        fake_close(&f);
    }
    stop(empty);
}

static int close_reason_with(const char *token, bool anonymous, const char *given) {
    fake_conn f;
    for (u32 i = 0; i < net.gw.worker_count; i++) {
        snprintf(net.listeners[i].conf.token, sizeof(net.listeners[i].conf.token), "%s", token);
        net.listeners[i].conf.anonymous = anonymous;
    }
    fake_open(&f, &proto_frame_publish, 0);
    receive_hello(&f, "dev", given);
    net_pump();
    int reason = f.c.reason;
    fake_close(&f);
    return reason;
}

static void test_token(void **state) {
    (void)state;
    u64 empty = start(2);
    char longest[256], longer[1025];
    memset(longest, 't', 255);
    longest[255] = 0;
    memset(longer, 't', 1024);
    longer[1024] = 0;
    assert_int_equal(close_reason_with("", true, ""), 0);
    assert_int_equal(close_reason_with("", true, "any"), 0);
    assert_int_equal(close_reason_with("", false, ""), CLOSE_AUTH_FAILED);
    assert_int_equal(close_reason_with("", false, "any"), CLOSE_AUTH_FAILED);
    for (u32 anonymous = 0; anonymous < 2; anonymous++) { // a configured token is always asked for
        assert_int_equal(close_reason_with("s3cret", anonymous, "s3cret"), 0);
        assert_int_equal(close_reason_with("s3cret", anonymous, ""), CLOSE_AUTH_FAILED);
        assert_int_equal(close_reason_with("s3cret", anonymous, "s3cre"), CLOSE_AUTH_FAILED);
        assert_int_equal(close_reason_with("s3cret", anonymous, "s3cret2"), CLOSE_AUTH_FAILED);
        assert_int_equal(close_reason_with("s3cret", anonymous, "S3cret"), CLOSE_AUTH_FAILED);
        assert_int_equal(close_reason_with(longest, anonymous, longest), 0);
        assert_int_equal(close_reason_with(longest, anonymous, longer), CLOSE_AUTH_FAILED);
        assert_int_equal(close_reason_with(longest, anonymous, "t"), CLOSE_AUTH_FAILED);
    }
    stop(empty);
}

// A device publishes, another receives: on the same worker and on different ones.
static void test_publish_to_another(void **state) {
    (void)state;
    for (u32 workers = 1; workers <= 3; workers++) {
        u64 empty = start(workers);
        for (u32 i = 0; i < workers; i++) strcpy(net.listeners[i].conf.down_topic, "devices/+/up");
        fake_conn a, b;
        open_device(&a, 0, "0-a");
        open_device(&b, 0, "1-b");
        assert_int_equal(b.c.owner->index, 1 % workers);
        assert_int_equal(b.c.moved_from, workers > 1);
        receive(&a, "\0\0\0\5hello");
        net_pump();
        // Its own down topic matches too, and comes before the acknowledgement.
        expect(&a, "\0\0\0\5hello\0\0\0\10\0\0\0\0\0\0\0\1");
        expect(&b, "\0\0\0\5hello");
        receive(&b, "\0\0\0\1x" HEARTBEAT "\0\0\0\1y");
        net_pump();
        expect(&a, "\0\0\0\1x\0\0\0\1y");
        expect(&b, "\0\0\0\1x\0\0\0\10\0\0\0\0\0\0\0\1" HEARTBEAT
                   "\0\0\0\1y\0\0\0\10\0\0\0\0\0\0\0\2");
        fake_close(&a);
        fake_close(&b);
        stop(empty);
    }
}

static void test_topics_of_the_template(void **state) {
    (void)state;
    u64 empty = start(1);
    fake_conn a, b;
    strcpy(net.listeners[0].conf.up_topic, "%i/%i/100%/%x/%%i");
    strcpy(net.listeners[0].conf.down_topic, "#");
    open_device(&a, 0, "b");
    strcpy(net.listeners[0].conf.up_topic, "x");
    strcpy(net.listeners[0].conf.down_topic, "b/b/100%/%x/%%i");
    open_device(&b, 0, "%i");
    receive(&b, "\0\0\0\1x"); // to a, as everything
    expect_ack(&b, 1);
    expect(&a, "\0\0\0\1x");
    receive(&a, "\0\0\0\1y");
    expect(&b, ""); // %%i is a '%' and the id
    fake_close(&b);
    strcpy(net.listeners[0].conf.down_topic, "b/b/100%/%x/%b");
    open_device(&b, 0, "other");
    a.out_taken = a.out_len;
    receive(&a, "\0\0\0\1y");
    expect(&b, "\0\0\0\1y");
    fake_close(&a);
    fake_close(&b);
    stop(empty);
}

static void test_ids_that_make_no_topics(void **state) {
    (void)state;
    static const struct {
        const char *up, *down, *id;
        int reason;
    } cases[] = {
        {"devices/#", "x", "dev", CLOSE_BAD_HELLO},
        {"devices/%i", "+x", "dev", CLOSE_BAD_HELLO},
        {"%i/up", "x", "$SYS", CLOSE_BAD_HELLO}, // the broker's own topics
        {"x", "%i/#", "$SYS", CLOSE_BAD_HELLO},
        {"x/%i", "x/%i/#", "$SYS", 0},
    };
    u64 empty = start(1);
    for (u32 i = 0; i < ARRAY_LEN(cases); i++) {
        fake_conn f;
        strcpy(net.listeners[0].conf.up_topic, cases[i].up);
        strcpy(net.listeners[0].conf.down_topic, cases[i].down);
        fake_open(&f, &proto_frame_publish, 0);
        receive_hello(&f, cases[i].id, "");
        assert_int_equal(f.c.reason, cases[i].reason);
        fake_close(&f);
    }
    stop(empty);
}

// Frames sent with the hello wait until the subscription is in force, then are taken in order.
static void test_frames_behind_the_hello(void **state) {
    (void)state;
    u64 empty = start(2);
    fake_conn f;
    fake_open(&f, &proto_frame_publish, 1);
    receive(&f, "\0\0\0\14{\"id\":\"dev\"}" HEARTBEAT "\0\0\0\1x\0\0\0\1y");
    assert_int_equal(f.c.owner->index, 0);
    expect(&f, HEARTBEAT); // not yet acknowledged
    assert_true(f.c.flags & CONN_BLOCKED);
    net_pump();
    expect(&f, "\0\0\0\10\0\0\0\0\0\0\0\0\0\0\0\10\0\0\0\0\0\0\0\1\0\0\0\10\0\0\0\0\0\0\0\2");
    assert_int_equal(f.in_len, 0);
    fake_close(&f);
    stop(empty);
}

static void test_closed_while_waiting(void **state) {
    (void)state;
    u64 empty = start(2);
    fake_conn f;
    fake_open(&f, &proto_frame_publish, 0);
    receive_hello(&f, "dev", "");
    expect(&f, "");
    fake_close(&f);
    stop(empty);
}

static void test_take_over(void **state) {
    (void)state;
    for (u32 workers = 1; workers <= 2; workers++) {
        u64 empty = start(workers);
        fake_conn old, fresh, publisher;
        strcpy(net.listeners[0].conf.up_topic, "devices/dev/down");
        open_device(&publisher, 0, "publisher");
        open_device(&old, 0, "dev");
        u64 posts = net.posts;
        fake_open(&fresh, &proto_frame_publish, workers - 1);
        receive_hello(&fresh, "dev", "");
        expect_ack(&fresh, 0); // at once: every worker knows the filter already
        assert_int_equal(net.posts, posts);
        assert_int_equal(old.c.reason, CLOSE_TAKEN_OVER);
        expect(&old, "");
        receive(&publisher, "\0\0\0\1x");
        net_pump();
        expect(&fresh, "\0\0\0\1x");
        expect(&old, "");
        assert_int_equal(client_count(net.workers[0].broker), 2);
        fake_close(&old);
        assert_int_equal(client_count(net.workers[0].broker), 2);
        fake_close(&fresh);
        fake_close(&publisher);
        stop(empty);
    }
}

// Taken over while its subscription is still not in force.
static void test_take_over_while_waiting(void **state) {
    (void)state;
    u64 empty = start(2);
    fake_conn old, fresh;
    fake_open(&old, &proto_frame_publish, 0);
    receive_hello(&old, "dev", "");
    fake_open(&fresh, &proto_frame_publish, 0);
    receive_hello(&fresh, "dev", "");
    assert_int_equal(old.c.reason, CLOSE_TAKEN_OVER);
    net_pump();
    expect(&old, "");
    expect_ack(&fresh, 0);
    fake_close(&old);
    fake_close(&fresh);
    stop(empty);
}

static void test_congestion_blocks(void **state) {
    (void)state;
    u64 empty = start(2);
    fake_conn a, b;
    strcpy(net.listeners[1].conf.down_topic, "devices/#");
    open_device(&b, 1, "1-b");
    open_device(&a, 0, "0-a");
    net.congested[0] = true;
    receive(&a, "\0\0\0\1x\0\0\0\1y");
    net_pump();
    assert_true(a.c.flags & CONN_BLOCKED);
    expect(&a, "");
    expect(&b, "");
    conn_unblock(&a.c); // too early
    assert_true(a.c.flags & CONN_BLOCKED);
    net.congested[0] = false;
    conn_unblock(&a.c);
    net_pump();
    expect(&a, "\0\0\0\10\0\0\0\0\0\0\0\1\0\0\0\10\0\0\0\0\0\0\0\2");
    expect(&b, "\0\0\0\1x\0\0\0\1y");
    fake_close(&a);
    fake_close(&b);
    stop(empty);
}

static void test_slow_subscriber_drops_newest(void **state) {
    (void)state;
    u64 empty = start(1);
    fake_conn a, b;
    const counter *dropped = &net.workers[0].metrics.delivery_dropped;
    strcpy(net.listeners[0].conf.up_topic, "all");
    open_device(&a, 0, "a");
    strcpy(net.listeners[0].conf.down_topic, "all");
    open_device(&b, 0, "b");
    net.listeners[0].conf.out_bytes_max = 40;
    for (u32 i = 0; i < 5; i++) {
        receive(&a, "\0\0\0\14twelve bytes");
        expect_ack(&a, (u8)(i + 1));
    }
    assert_int_equal(counter_get(dropped), 3);
    assert_int_equal(b.c.reason, CLOSE_NONE);
    expect(&b, "\0\0\0\14twelve bytes\0\0\0\14twelve bytes"); // it reads
    receive(&a, "\0\0\0\14twelve BYTES");
    expect(&b, "\0\0\0\14twelve BYTES");
    fake_close(&a);
    fake_close(&b);
    stop(empty);
}

static void test_frame_too_large_for_the_subscriber(void **state) {
    (void)state;
    u64 empty = start(2);
    fake_conn a, b;
    strcpy(net.listeners[1].conf.down_topic, "devices/#");
    open_device(&a, 0, "0-a");
    open_device(&b, 0, "1-b");
    net.listeners[1].conf.max_frame = 4;
    receive(&a, "\0\0\0\5fiver\0\0\0\4four");
    net_pump();
    expect(&b, "\0\0\0\4four");
    assert_int_equal(counter_get(&net.workers[1].metrics.delivery_dropped), 1);
    // An empty message would be a heartbeat.
    publication heartbeat = {.topic = "devices/x", .topic_len = 9};
    assert_int_equal(broker_publish(net.workers[1].broker, &heartbeat, NULL), 0);
    expect(&b, "");
    assert_int_equal(counter_get(&net.workers[1].metrics.delivery_dropped), 2);
    fake_close(&a);
    fake_close(&b);
    stop(empty);
}

// A connection that is told to finish its output gets nothing more.
static void test_no_delivery_to_a_finishing_connection(void **state) {
    (void)state;
    u64 empty = start(1);
    fake_conn a, b;
    open_device(&a, 0, "a");
    strcpy(net.listeners[0].conf.down_topic, "devices/a/up");
    open_device(&b, 0, "b");
    b.c.flags |= CONN_CLOSE_AFTER_FLUSH;
    b.c.reason = CLOSE_DRAIN;
    receive(&a, "\0\0\0\1x");
    expect_ack(&a, 1);
    expect(&b, "");
    assert_int_equal(counter_get(&net.workers[0].metrics.delivery_dropped), 1);
    fake_close(&a);
    fake_close(&b);
    stop(empty);
}

static void test_memory_short_while_sending(void **state) {
    (void)state;
    u64 empty = start(1);
    fake_conn a, b;
    strcpy(net.listeners[0].conf.up_topic, "all");
    open_device(&a, 0, "a");
    strcpy(net.listeners[0].conf.down_topic, "all");
    open_device(&b, 0, "b");
    for (u32 part = 1; part <= 2; part++) { // header or payload: the message is dropped whole
        b.sends_until_failure = part;
        receive(&a, "\0\0\0\1x");
        expect_ack(&a, part);
        assert_int_equal(b.c.reason, CLOSE_NONE);
        expect(&b, "");
    }
    b.sends_until_failure = 0;
    receive(&a, "\0\0\0\1x");
    expect_ack(&a, 3);
    expect(&b, "\0\0\0\1x");
    assert_int_equal(counter_get(&net.workers[0].metrics.delivery_dropped), 2);
    fake_close(&a);
    fake_close(&b);
    stop(empty);
}

// A hello that the broker has no memory for, here or on another worker, has a name.
static void test_no_memory_for_a_session(void **state) {
    (void)state;
    for (u32 full = 0; full < 2; full++) {
        u64 empty = start(2);
        pool *memory = broker_pool(net.workers[full].broker);
        size_t rest_bytes = MEMORY - pool_used_bytes(memory) - 1024;
        void *rest = pool_alloc(memory, rest_bytes), *small[64];
        u32 count = 0;
        assert_non_null(rest);
        while ((small[count] = pool_alloc(memory, 32)) != NULL) count++;
        fake_conn f;
        fake_open(&f, &proto_frame_publish, 0);
        receive_hello(&f, "dev", "");
        net_pump();
        assert_int_equal(f.c.reason, CLOSE_NO_MEMORY);
        expect(&f, "");
        fake_close(&f);
        for (u32 i = 0; i < count; i++) pool_free(memory, small[i], 32);
        pool_free(memory, rest, rest_bytes);
        stop(empty);
    }
}

static void test_message_over_the_budget(void **state) {
    (void)state;
    u64 empty = start(2);
    fake_conn a, b;
    net.listeners[0].conf.max_frame = net.listeners[1].conf.max_frame = 16 << 20;
    strcpy(net.listeners[1].conf.down_topic, "devices/#");
    open_device(&b, 1, "1-b");
    open_device(&a, 0, "0-a");
    u8 *payload = calloc(1, MEMORY);
    assert_non_null(payload);
    receive_frame(&a, payload, MEMORY);
    assert_int_equal(a.c.reason, CLOSE_NO_MEMORY);
    free(payload);
    fake_close(&a);
    fake_close(&b);
    stop(empty);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_length_field),
        cmocka_unit_test(test_echo),
        cmocka_unit_test(test_ack),
        cmocka_unit_test(test_split_at_every_byte),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_hello_too_large),
        cmocka_unit_test(test_bad_hello),
        cmocka_unit_test(test_token),
        cmocka_unit_test(test_publish_to_another),
        cmocka_unit_test(test_topics_of_the_template),
        cmocka_unit_test(test_ids_that_make_no_topics),
        cmocka_unit_test(test_frames_behind_the_hello),
        cmocka_unit_test(test_closed_while_waiting),
        cmocka_unit_test(test_take_over),
        cmocka_unit_test(test_take_over_while_waiting),
        cmocka_unit_test(test_congestion_blocks),
        cmocka_unit_test(test_slow_subscriber_drops_newest),
        cmocka_unit_test(test_frame_too_large_for_the_subscriber),
        cmocka_unit_test(test_no_delivery_to_a_finishing_connection),
        cmocka_unit_test(test_memory_short_while_sending),
        cmocka_unit_test(test_no_memory_for_a_session),
        cmocka_unit_test(test_message_over_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
