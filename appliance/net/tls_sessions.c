// SPDX-License-Identifier: Apache-2.0
// tls_sessions.c: the table. Each place has a sequence number: odd while it is written. Readers copy and look at the
// number again; the words are atomic, so that a copy taken at a bad moment is only wrong, which the number tells.
#include "net/tls_sessions.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define WAYS 4u
#define WORDS (sizeof(tls_session) / sizeof(u64))

typedef struct place {
    u64 sequence;
    u64 words[WORDS];
} place;

static place *table;

int tls_sessions_init(void) {
    if (table != NULL) return 0;
    void *memory = mmap(NULL, sizeof(place) * LIMIT_TLS_SESSIONS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                        -1, 0); // pages cost memory when they are used
    if (memory == MAP_FAILED) return -ENOMEM;
    madvise(memory, sizeof(place) * LIMIT_TLS_SESSIONS, MADV_DONTDUMP);
    table = memory;
    return 0;
}

void tls_sessions_free(void) {
    if (table == NULL) return;
    munmap(table, sizeof(place) * LIMIT_TLS_SESSIONS);
    table = NULL;
}

static place *set_of(const u8 id[TLS_SESSION_ID_BYTES]) {
    u64 hash; // ids are random numbers of our own
    memcpy(&hash, id, sizeof(hash));
    return &table[(hash & (LIMIT_TLS_SESSIONS / WAYS - 1)) * WAYS];
}

static bool read_place(place *p, tls_session *out) {
    u64 words[WORDS];
    u64 before = __atomic_load_n(&p->sequence, __ATOMIC_ACQUIRE);
    if (before & 1) return false;
    for (u32 i = 0; i < WORDS; i++) words[i] = __atomic_load_n(&p->words[i], __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    bool whole = __atomic_load_n(&p->sequence, __ATOMIC_RELAXED) == before;
    if (whole) memcpy(out, words, sizeof(*out));
    explicit_bzero(words, sizeof(words));
    return whole;
}

static void write_place(place *p, const tls_session *session) {
    u64 words[WORDS];
    u64 before = __atomic_load_n(&p->sequence, __ATOMIC_RELAXED);
    if (before & 1) return;
    bool ours = __atomic_compare_exchange_n(&p->sequence, &before, before + 1, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_RELAXED);
    if (!ours) return;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    memcpy(words, session, sizeof(words));
    for (u32 i = 0; i < WORDS; i++) __atomic_store_n(&p->words[i], words[i], __ATOMIC_RELAXED);
    __atomic_store_n(&p->sequence, before + 2, __ATOMIC_RELEASE);
    explicit_bzero(words, sizeof(words));
}

void tls_sessions_put(const tls_session *session, u64 now_ns) {
    if (table == NULL) return;
    place *set = set_of(session->id), *victim = NULL;
    u64 first_end_ns = UINT64_MAX;
    for (u32 i = 0; i < WAYS; i++) {
        tls_session there;
        if (!read_place(&set[i], &there)) continue;
        bool same = memcmp(there.id, session->id, sizeof(there.id)) == 0;
        u64 ends_ns = same || there.ends_ns <= now_ns ? 0 : there.ends_ns;
        explicit_bzero(&there, sizeof(there));
        if (ends_ns >= first_end_ns) continue;
        first_end_ns = ends_ns;
        victim = &set[i];
    }
    if (victim != NULL) write_place(victim, session);
}

bool tls_sessions_get(const u8 id[TLS_SESSION_ID_BYTES], u64 scope, u64 now_ns, tls_session *out) {
    if (table == NULL) return false;
    place *set = set_of(id);
    for (u32 i = 0; i < WAYS; i++) {
        if (!read_place(&set[i], out)) continue;
        if (memcmp(out->id, id, sizeof(out->id)) == 0) return out->ends_ns > now_ns && out->scope == scope;
    }
    return false;
}
