// SPDX-License-Identifier: Apache-2.0
// cursor.h: the bounded reader for everything that comes from outside: network packets and records
// read back from disk. Parsers advance by these functions only and do no pointer arithmetic.
//
// The first read beyond the end sets `overrun` and moves to the end; that read and all later ones
// give zeros (or NULL) and touch no memory. A parser may therefore read a whole group of fields and
// look at `overrun` once, as long as nothing irreversible happens in between.
//
// Integers are big-endian, as in MQTT and the framed protocol. What is taken points into the
// caller's memory. No allocation; any thread; one cursor, one thread.
#ifndef SLUICE_BASE_CURSOR_H
#define SLUICE_BASE_CURSOR_H

#include "base/base.h"

typedef struct cursor {
    const u8 *at;
    const u8 *end;
    bool overrun;
} cursor;

// data may be NULL when len is 0.
static inline cursor cursor_of(const u8 *data, size_t len) {
    return (cursor){.at = data, .end = len == 0 ? data : data + len};
}

// Bytes not read yet.
static inline u32 cursor_left(const cursor *c) {
    return (u32)(c->end - c->at);
}

// Takes len bytes in place. NULL after an overrun; not NULL for len 0 of memory that is not NULL.
static inline const u8 *cursor_take(cursor *c, u32 len) {
    if (UNLIKELY(c->overrun || cursor_left(c) < len)) {
        c->overrun = true;
        c->at = c->end;
        return NULL;
    }
    const u8 *taken = c->at;
    if (len > 0) c->at += len;
    return taken;
}

static inline u8 cursor_u8(cursor *c) {
    const u8 *p = cursor_take(c, 1);
    return p == NULL ? 0 : p[0];
}

static inline u16 cursor_u16(cursor *c) {
    const u8 *p = cursor_take(c, 2);
    return p == NULL ? 0 : (u16)(p[0] << 8 | p[1]);
}

static inline u32 cursor_u32(cursor *c) {
    const u8 *p = cursor_take(c, 4);
    return p == NULL ? 0 : (u32)p[0] << 24 | (u32)p[1] << 16 | (u32)p[2] << 8 | p[3];
}

// Takes len bytes as a cursor of their own: what is read from it can not leave that part. After an
// overrun the part is empty and overrun too.
static inline cursor cursor_part(cursor *c, u32 len) {
    const u8 *taken = cursor_take(c, len);
    cursor part = cursor_of(taken, taken == NULL ? 0 : len);
    part.overrun = c->overrun;
    return part;
}

#endif
