// SPDX-License-Identifier: Apache-2.0
// crc32c.c: CRC-32C by instruction or by table. The table takes 8 bytes a step ("slicing"): about 1.5 GB/s
// where the instruction gives 8 and more, which matters on old processors only.
#include "store/crc32c.h"

#include <pthread.h>
#include <string.h>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#define POLYNOMIAL 0x82f63b78u // reflected 0x1edc6f41

static u32 tables[8][256];
static u32 (*chosen)(u32 crc, const void *data, size_t bytes);
static const char *chosen_name;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void tables_make(void) {
    for (u32 i = 0; i < 256; i++) {
        u32 crc = i;
        for (u32 bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ ((crc & 1) != 0 ? POLYNOMIAL : 0);
        tables[0][i] = crc;
    }
    for (u32 i = 0; i < 256; i++) {
        for (u32 k = 1; k < 8; k++) tables[k][i] = (tables[k - 1][i] >> 8) ^ tables[0][tables[k - 1][i] & 0xff];
    }
}

static inline u64 load64(const u8 *p) {
    u64 v;
    memcpy(&v, p, sizeof(v));
    return v; // both architectures are little-endian
}

static u32 by_table(u32 crc, const void *data, size_t bytes) {
    const u8 *p = data;
    crc = ~crc;
    for (; bytes >= 8; bytes -= 8, p += 8) {
        u64 v = load64(p) ^ crc;
        crc = tables[7][v & 0xff] ^ tables[6][(v >> 8) & 0xff] ^ tables[5][(v >> 16) & 0xff] ^
              tables[4][(v >> 24) & 0xff] ^ tables[3][(v >> 32) & 0xff] ^ tables[2][(v >> 40) & 0xff] ^
              tables[1][(v >> 48) & 0xff] ^ tables[0][v >> 56];
    }
    for (; bytes > 0; bytes--, p++) crc = (crc >> 8) ^ tables[0][(crc ^ *p) & 0xff];
    return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static u32 by_instruction(u32 crc, const void *data, size_t bytes) {
    const u8 *p = data;
    u64 c = (u32)~crc;
    for (; bytes >= 8; bytes -= 8, p += 8) c = __builtin_ia32_crc32di(c, load64(p));
    u32 low = (u32)c;
    for (; bytes > 0; bytes--, p++) low = __builtin_ia32_crc32qi(low, *p);
    return ~low;
}

static bool has_instruction(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2");
}
#define INSTRUCTION_NAME "sse4.2"
#elif defined(__aarch64__)
#define HWCAP_CRC32_BIT (1ul << 7) // asm/hwcap.h
// The instructions by name: compilers do not agree on the intrinsics' header under a target attribute.
static u32 by_instruction(u32 crc, const void *data, size_t bytes) {
    const u8 *p = data;
    u32 c = ~crc;
    for (; bytes >= 8; bytes -= 8, p += 8) {
        __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(c) : "r"(load64(p)));
    }
    for (; bytes > 0; bytes--, p++) __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(c) : "r"((u32)*p));
    return ~c;
}

static bool has_instruction(void) {
    return (getauxval(AT_HWCAP) & HWCAP_CRC32_BIT) != 0;
}
#define INSTRUCTION_NAME "armv8"
#else
#error "an architecture without a CRC-32C instruction: give by_instruction and has_instruction"
#endif

static void choose(void) {
    tables_make();
    bool instruction = has_instruction();
    chosen = instruction ? by_instruction : by_table;
    chosen_name = instruction ? INSTRUCTION_NAME : "table";
}

u32 crc32c(u32 crc, const void *data, size_t bytes) {
    pthread_once(&once, choose);
    return chosen(crc, data, bytes);
}

u32 crc32c_table(u32 crc, const void *data, size_t bytes) {
    pthread_once(&once, choose);
    return by_table(crc, data, bytes);
}

const char *crc32c_variant(void) {
    pthread_once(&once, choose);
    return chosen_name;
}
