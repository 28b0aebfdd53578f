// SPDX-License-Identifier: Apache-2.0
// address_share.c: see address_share.h. A row keeps its rate for whoever has the row next; nothing is freed.
#include "net/address_share.h"

#include <pthread.h>
#include <string.h>

#include "base/siphash.h"
#include "net/address_rate.h"

#define TABLE_SLOTS (1u << 16)
#define PROBES_MAX 32u

struct address_share {
    u8 key[16];
    const void *of;    // NULL: never used
    u64 full_ns;       // refs 0: until then it is remembered
    shared_rate *rate; // NULL: never used
    u32 refs;
};

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static address_share table[TABLE_SLOTS]; // zero pages until used
static u64 overflows;

static address_share *row_find(const u8 key[16], const void *of, u64 now_ns) {
    struct {
        u8 key[16];
        u64 of;
    } name = {.of = (u64)(uintptr_t)of};
    memcpy(name.key, key, sizeof(name.key));
    u64 hash = siphash24(siphash_process_key(), &name, sizeof(name));
    address_share *vacant = NULL;
    for (u32 i = 0; i < PROBES_MAX; i++) {
        address_share *row = &table[(hash + i) & (TABLE_SLOTS - 1)];
        if (row->of == of && memcmp(row->key, key, 16) == 0) return row;
        if (vacant == NULL && row->refs == 0 && row->full_ns <= now_ns) vacant = row;
    }
    return vacant;
}

address_share *address_share_take(const u8 addr[16], const void *of, u32 workers, u64 now_ns) {
    u8 key[16];
    address_rate_key(addr, key);
    pthread_mutex_lock(&table_lock);
    address_share *row = row_find(key, of, now_ns);
    if (row != NULL && row->rate == NULL) row->rate = shared_rate_create(workers);
    if (row == NULL || row->rate == NULL) {
        overflows++;
        row = NULL;
    } else {
        memcpy(row->key, key, sizeof(key));
        row->of = of;
        row->refs++;
    }
    pthread_mutex_unlock(&table_lock);
    return row;
}

void address_share_give(address_share *a, u32 worker) {
    u64 full_ns = shared_rate_full_ns(a->rate, worker);
    pthread_mutex_lock(&table_lock);
    ASSERT(a->refs > 0);
    a->refs--;
    if (a->full_ns < full_ns) a->full_ns = full_ns;
    pthread_mutex_unlock(&table_lock);
}

shared_rate *address_share_rate(address_share *a) {
    return a->rate;
}

u64 address_share_overflows(void) {
    pthread_mutex_lock(&table_lock);
    u64 count = overflows;
    pthread_mutex_unlock(&table_lock);
    return count;
}
