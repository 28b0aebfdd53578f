// SPDX-License-Identifier: Apache-2.0
// address_limit.c: connections per peer address, for listeners that set max_conns_per_address. Accepting
// is not the data path, and a connection may end on another worker than it began on: one table for the
// process, behind a mutex held for a few probes. IPv6 addresses count by their /64, as in address_rate.h: whoever has
// one has all its addresses.
#include <pthread.h>
#include <string.h>

#include "base/siphash.h"
#include "net/address_rate.h"
#include "net/listener.h"

#define TABLE_SLOTS (1u << 16)
#define PROBES_MAX 64u

typedef struct address_row {
    u8 addr[16];
    u32 conns; // 0 = free
} address_row;

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static address_row table[TABLE_SLOTS]; // zero pages until used
static u64 overflows;

// The row of an address, or with create the first free one on its way; NULL when there is neither. The
// whole probe distance is searched before a free row is taken, so an address never has two rows.
static address_row *row_find(const u8 addr[16], bool create) {
    u64 hash = siphash24(siphash_process_key(), addr, 16);
    address_row *vacant = NULL;
    for (u32 i = 0; i < PROBES_MAX; i++) {
        address_row *row = &table[(hash + i) & (TABLE_SLOTS - 1)];
        if (row->conns > 0 && memcmp(row->addr, addr, 16) == 0) return row;
        if (row->conns == 0 && vacant == NULL) vacant = row;
    }
    if (!create || vacant == NULL) return NULL;
    memcpy(vacant->addr, addr, 16);
    return vacant;
}

int address_limit_take(const u8 addr[16], u32 max) {
    u8 key[16];
    address_rate_key(addr, key);
    pthread_mutex_lock(&table_lock);
    address_row *row = row_find(key, true);
    int result = 0;
    if (row == NULL) {
        __atomic_fetch_add(&overflows, 1, __ATOMIC_RELAXED);
        result = ADDRESS_NOT_COUNTED;
    } else if (row->conns >= max) {
        result = ADDRESS_REFUSED;
    } else {
        row->conns++;
    }
    pthread_mutex_unlock(&table_lock);
    return result;
}

void address_limit_give(const u8 addr[16]) {
    u8 key[16];
    address_rate_key(addr, key);
    pthread_mutex_lock(&table_lock);
    address_row *row = row_find(key, false);
    ASSERT(row != NULL);
    row->conns--;
    pthread_mutex_unlock(&table_lock);
}

u64 address_limit_overflows(void) {
    return __atomic_load_n(&overflows, __ATOMIC_RELAXED);
}
