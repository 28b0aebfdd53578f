// SPDX-License-Identifier: Apache-2.0
// address_rate.c: see address_rate.h. A bucket is kept as the time up to which it is used, so a row that says nothing
// any more is one whose times have passed; such rows are taken for other addresses. As with address_limit.c, one
// table behind a mutex held for a few probes: opening a connection is not the data path.
#include "net/address_rate.h"

#include <pthread.h>
#include <string.h>

#include "base/siphash.h"

#define TABLE_SLOTS (1u << 14)
#define PROBES_MAX 32u
#define MINUTE_NS (60 * NS_PER_S)

typedef struct rate_row {
    u8 key[16];
    u64 connect_ns; // used up to there
    u64 failure_ns;
} rate_row;

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static rate_row table[TABLE_SLOTS]; // zero pages until used
static u64 overflows;

void address_rate_key(const u8 addr[16], u8 key[16]) {
    static const u8 mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    memcpy(key, addr, 16);
    if (memcmp(addr, mapped, sizeof(mapped)) != 0) memset(key + 8, 0, 8);
}

static bool is_vacant(const rate_row *row, u64 now_ns) {
    return row->connect_ns <= now_ns && row->failure_ns <= now_ns;
}

// The row of an address; with create one that says nothing any more; NULL when there is none. The whole probe
// distance is searched first, so an address never has two rows.
static rate_row *row_find(const u8 addr[16], bool create, u64 now_ns) {
    u8 key[16];
    rate_row *vacant = NULL;
    address_rate_key(addr, key);
    u64 hash = siphash24(siphash_process_key(), key, sizeof(key));
    for (u32 i = 0; i < PROBES_MAX; i++) {
        rate_row *row = &table[(hash + i) & (TABLE_SLOTS - 1)];
        if (memcmp(row->key, key, sizeof(key)) == 0) return row;
        if (vacant == NULL && is_vacant(row, now_ns)) vacant = row;
    }
    if (!create) return NULL;
    if (vacant == NULL) {
        overflows++;
        return NULL;
    }
    *vacant = (rate_row){0};
    memcpy(vacant->key, key, sizeof(key));
    return vacant;
}

// Uses one of count things that may happen in a period, all at once at most. False: none is left.
static bool bucket_take(u64 *used_ns, u32 count, u64 period_ns, u64 now_ns) {
    u64 after = MAX(*used_ns, now_ns) + period_ns / count;
    if (after > now_ns + period_ns) return false;
    *used_ns = after;
    return true;
}

bool address_rate_connect(const u8 addr[16], u32 per_second, u64 now_ns) {
    pthread_mutex_lock(&table_lock);
    rate_row *row = row_find(addr, true, now_ns);
    bool within = row == NULL || bucket_take(&row->connect_ns, per_second, NS_PER_S, now_ns);
    pthread_mutex_unlock(&table_lock);
    return within;
}

void address_rate_failed(const u8 addr[16], u32 per_minute, u64 now_ns) {
    pthread_mutex_lock(&table_lock);
    rate_row *row = row_find(addr, true, now_ns);
    // The last one that is allowed leaves the bucket full, and so do all behind it.
    if (row != NULL && !bucket_take(&row->failure_ns, per_minute, MINUTE_NS, now_ns)) {
        row->failure_ns = now_ns + MINUTE_NS;
    }
    pthread_mutex_unlock(&table_lock);
}

bool address_rate_is_failing(const u8 addr[16], u32 per_minute, u64 now_ns) {
    pthread_mutex_lock(&table_lock);
    const rate_row *row = row_find(addr, false, now_ns);
    u64 used_ns = row != NULL ? row->failure_ns : 0;
    bool failing = row != NULL && !bucket_take(&used_ns, per_minute, MINUTE_NS, now_ns);
    pthread_mutex_unlock(&table_lock);
    return failing;
}

u64 address_rate_overflows(void) {
    pthread_mutex_lock(&table_lock);
    u64 count = overflows;
    pthread_mutex_unlock(&table_lock);
    return count;
}
