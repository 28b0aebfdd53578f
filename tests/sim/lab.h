// SPDX-License-Identifier: Apache-2.0
// lab.h: one bench for every engine. A lab has two engines of one kind, a listener on the first, and
// connections whose far ends belong to the test: loopback TCP for the real engines, simulated peers for
// `sim`. Cases written against it run on all of them, and what they see is written into a transcript
// that has to be the same everywhere.
//
// Checked for every case without its doing: no callback inside a starting call, only on_closed after
// io_close and nothing after that, no completion of a reused slot, all buffers back at the end.
#ifndef SLUICE_TESTS_LAB_H
#define SLUICE_TESTS_LAB_H

#include "io/io.h"
#include "io/sim.h"

#define LAB_NEARS_MAX 64u

typedef struct lab lab;

// The engine's end of a connection.
typedef struct near_end {
    io_handle io;
    lab *lab;
    u32 engine;             // 0 or 1
    bool attached, closing, closed;
    u8 *data;               // everything received
    size_t data_len, data_size;
    u32 recv_calls;         // on_recv with data
    u32 recv_ends;          // on_recv with 0 or an error
    int recv_end;           // that result
    u32 send_calls;
    int send_result;        // of the last on_send
    int connect_result;     // 1 = none yet
    bool lend;              // echo through io_send_lent
    int lent_result;        // what io_send_lent said last; IO_PENDING until on_send
    size_t lent_sent;
    bool stop_in_recv;      // call io_recv_stop inside on_recv
    struct near_end *close_in_recv; // close that one inside on_recv
    struct iovec iov[4];    // of the send in flight
} near_end;

// The test's end.
typedef struct far_end {
    int fd;
    sim_peer *peer;
} far_end;

struct lab {
    io_kind kind;
    sim *world;             // NULL on the real engines
    io_engine *engines[2];
    u64 now_ns[2];
    recorder recorders[2];
    io_handle listener;
    int listen_fd;
    struct sockaddr_storage addr;
    socklen_t addr_len;
    bool starting;          // a starting call runs
    bool listener_closing;  // io_close was called: on_closed is all that may come
    bool stop_in_accept;    // call io_accept_stop inside on_accept
    int accept_error;       // last error of on_accept, 0 = none
    int accepted[LAB_NEARS_MAX]; // descriptors that no near end has taken yet
    u32 accepted_count;
    void *memory[16];       // of the case
    u32 memory_count;
    near_end *nears[LAB_NEARS_MAX];
    u32 near_count;
    char transcript[65536];
    size_t transcript_len;
    char failure[512];      // first check that failed
};

typedef struct lab_setup {
    io_kind kind;
    u32 recv_bufs;          // 0 = default
    sim_config sim;         // for IO_SIM
} lab_setup;

// Returns 0, or -errno with the step: the engine is not available here.
int lab_open(lab *l, const lab_setup *setup, const char **step);
void lab_close(lab *l);

// A line of the transcript.
void lab_say(lab *l, const char *format, ...) PRINTF_LIKE(2, 3);
void lab_fail(lab *l, const char *file, int line, const char *what);
#define LAB_CHECK(l, cond) \
    do { \
        if (!(cond)) { \
            lab_fail((l), __FILE__, __LINE__, #cond); \
            return; \
        } \
    } while (0)

// One turn of both engines; time goes on a little.
void lab_turn(lab *l);
// Until nothing happens any more.
void lab_settle(lab *l);
// Turns until the condition holds; fails the case after some seconds.
#define LAB_UNTIL(l, cond) \
    do { \
        u64 lab_deadline = lab_patience(l); \
        while (!(cond) && lab_is_patient((l), lab_deadline)) lab_turn(l); \
        LAB_CHECK((l), cond); \
    } while (0)
u64 lab_now(const lab *l); // the clock that deadlines are given in
u64 lab_patience(const lab *l);
bool lab_is_patient(const lab *l, u64 deadline);

// Closes the listener; far ends that were not accepted see the end of their connection.
void lab_close_listener(lab *l);
// A connection: far end connected, near end accepted and attached to the first engine. NULL on failure.
near_end *lab_connect(lab *l, far_end *far);
// A near end around a descriptor, attached to an engine.
near_end *lab_near(lab *l, u32 engine, int fd);
// A stream socket that is not connected, for near_connect.
int lab_socket(lab *l);

void near_recv(near_end *n, bool multishot);
void near_recv_stop(near_end *n);
// Result of io_send; the memory must stay. Two pieces when len is above 1.
int near_send(near_end *n, const u8 *data, size_t len);
// Sends all, turning the engines; returns bytes sent, or the error.
ssize_t near_send_all(near_end *n, const u8 *data, size_t len);
void near_close(near_end *n, bool reset);
// Moves it to the other engine.
void near_move(near_end *n);
void near_connect(near_end *n, const struct sockaddr *addr, socklen_t addr_len);

ssize_t far_write(far_end *f, const void *data, size_t len); // as sim_peer_write
ssize_t far_read(far_end *f, void *out, size_t len);         // as sim_peer_read
void far_write_all(lab *l, far_end *f, const u8 *data, size_t len);
// Reads until the end, an error, or len bytes; returns bytes, *end = 1 when len was reached, else the end.
size_t far_read_all(lab *l, far_end *f, u8 *out, size_t len, int *end);
void far_shutdown(far_end *f);
void far_reset(far_end *f);
void far_close(far_end *f);
far_end far_connect(lab *l);
// Takes a connection that near_connect made to fd (a listening socket outside the engines).
far_end far_accept(lab *l, int fd);
int far_listen(lab *l, struct sockaddr_storage *addr, socklen_t *addr_len);
void far_listen_close(lab *l, int fd);

// Memory of the case, freed by lab_close.
void *lab_alloc(lab *l, size_t bytes);
// Whether the program may have more descriptors.
void lab_limit_descriptors(lab *l, bool limited);

#endif
