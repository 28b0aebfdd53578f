// SPDX-License-Identifier: Apache-2.0
// update_header.c: see update_header.h. The signature is looked at before anything but the magic, the
// format and the key's id; with those a clear message can be given, and nothing else is done with them.
#include "init/update_header.h"

#include <bearssl.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/cursor.h"
#include "version.h"

#define MAGIC "SLUICEUP"
#define MAGIC_BYTES 8u
#define FORMAT 1u
#define KEY_ID_BYTES 8u
#define KEY_ID_AT 136u
#define RESERVED_AT 144u
#define SIGNATURE_AT 448u
#define SIGNATURE_BYTES 64u // r and s, 32 bytes each, big-endian

_Static_assert(SIGNATURE_AT + SIGNATURE_BYTES == UPDATE_HEADER_BYTES, "the signature is the header's end");
_Static_assert(KEY_ID_AT + KEY_ID_BYTES == RESERVED_AT, "the key's id ends the fields");

static void sha256(const void *data, size_t len, u8 out[UPDATE_HASH_BYTES]) {
    br_sha256_context h;
    br_sha256_init(&h);
    br_sha256_update(&h, data, len);
    br_sha256_out(&h, out);
}

// The key whose id the header names; NULL when there is none.
static const u8 *find_key(const u8 *bytes, const update_keys *keys) {
    for (u32 i = 0; i < keys->count; i++) {
        u8 id[UPDATE_HASH_BYTES];
        sha256(keys->points[i], UPDATE_KEY_BYTES, id);
        if (memcmp(id, bytes + KEY_ID_AT, KEY_ID_BYTES) == 0) return keys->points[i];
    }
    return NULL;
}

static bool signature_holds(const u8 *bytes, const u8 *point) {
    u8 hash[UPDATE_HASH_BYTES], copy[UPDATE_KEY_BYTES];
    sha256(bytes, SIGNATURE_AT, hash);
    memcpy(copy, point, sizeof(copy));
    br_ec_public_key key = {.curve = BR_EC_secp256r1, .q = copy, .qlen = sizeof(copy)};
    return br_ecdsa_i31_vrfy_raw(&br_ec_p256_m31, hash, sizeof(hash), &key, bytes + SIGNATURE_AT,
                                 SIGNATURE_BYTES) == 1;
}

static u64 read_u64(cursor *c) {
    u64 high = cursor_u32(c);
    return high << 32 | cursor_u32(c);
}

static bool all_zero(const u8 *p, size_t len) {
    u8 any = 0;
    for (size_t i = 0; i < len; i++) any |= p[i];
    return any == 0;
}

// The text is printable up to its first NUL, and nothing follows that.
static bool text_is_clean(const char *text) {
    size_t len = strnlen(text, UPDATE_VERSION_BYTES);
    if (len == 0 || len == UPDATE_VERSION_BYTES) return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~' || text[i] == '"' || text[i] == '\\') return false;
    }
    return all_zero((const u8 *)text + len, UPDATE_VERSION_BYTES - len);
}

static update_verdict take_apart(const u8 *bytes, update_header *out) {
    cursor c = cursor_of(bytes + MAGIC_BYTES, UPDATE_HEADER_BYTES - MAGIC_BYTES);
    cursor_u16(&c); // the format
    u16 header_bytes = cursor_u16(&c);
    out->arch = cursor_u16(&c);
    u16 flags = cursor_u16(&c);
    out->version = read_u64(&c);
    out->build_s = read_u64(&c);
    out->image_bytes = read_u64(&c);
    memcpy(out->image_sha256, cursor_take(&c, UPDATE_HASH_BYTES), UPDATE_HASH_BYTES);
    memcpy(out->version_text, cursor_take(&c, UPDATE_VERSION_BYTES), UPDATE_VERSION_BYTES);
    if (header_bytes != UPDATE_HEADER_BYTES || flags != 0) return UPDATE_MALFORMED;
    if (out->image_bytes == 0 || out->image_bytes > LIMIT_UPDATE_IMAGE_BYTES) return UPDATE_MALFORMED;
    if (!text_is_clean(out->version_text)) return UPDATE_MALFORMED;
    if (!all_zero(bytes + RESERVED_AT, SIGNATURE_AT - RESERVED_AT)) return UPDATE_MALFORMED;
    return UPDATE_FINE;
}

update_verdict update_header_read(const u8 *bytes, const update_keys *keys, update_header *out) {
    if (memcmp(bytes, MAGIC, MAGIC_BYTES) != 0) return UPDATE_NOT_ONE;
    if (bytes[MAGIC_BYTES] != 0 || bytes[MAGIC_BYTES + 1] != FORMAT) return UPDATE_OTHER_FORMAT;
    if (keys->count == 0) return UPDATE_NO_KEY;
    const u8 *key = find_key(bytes, keys);
    if (key == NULL) return UPDATE_UNKNOWN_KEY;
    if (!signature_holds(bytes, key)) return UPDATE_BAD_SIGNATURE;
    return take_apart(bytes, out);
}

update_verdict update_header_fits(const update_header *h, u16 arch, u64 version, u64 build_s,
                                  bool allow_downgrade) {
    if (h->arch != arch) return UPDATE_OTHER_ARCH;
    bool older = h->version < version || (h->version == version && h->build_s < build_s);
    return older && !allow_downgrade ? UPDATE_OLDER : UPDATE_FINE;
}

const char *update_verdict_text(update_verdict v) {
    static const char *const texts[UPDATE_VERDICTS] = {
        [UPDATE_FINE] = "fine",
        [UPDATE_NOT_ONE] = "this is no update file",
        [UPDATE_OTHER_FORMAT] = "the update file has a format that this system does not know",
        [UPDATE_NO_KEY] = "this system was built without an update key and takes no updates",
        [UPDATE_UNKNOWN_KEY] = "the update is signed with a key that this system does not have",
        [UPDATE_BAD_SIGNATURE] = "the update's signature is wrong",
        [UPDATE_MALFORMED] = "the update's header makes no sense",
        [UPDATE_OTHER_ARCH] = "the update is for another architecture",
        [UPDATE_OLDER] = "the update is older than the running system (allow_downgrade permits it)",
    };
    return v < UPDATE_VERDICTS ? texts[v] : "unknown";
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static bool key_line(const char *line, size_t len, u8 *out) {
    if (len != 2 * (size_t)UPDATE_KEY_BYTES) return false;
    for (size_t i = 0; i < UPDATE_KEY_BYTES; i++) {
        int high = hex_digit(line[2 * i]), low = hex_digit(line[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        out[i] = (u8)(high << 4 | low);
    }
    return out[0] == 4;
}

int update_keys_read(const char *text, size_t len, update_keys *out) {
    const char *end = text + len;
    out->count = 0;
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *stop = newline == NULL ? end : newline;
        size_t line = (size_t)(stop - text);
        while (line > 0 && (text[line - 1] == ' ' || text[line - 1] == '\r')) line--;
        if (line > 0 && text[0] != '#') {
            if (out->count == LIMIT_UPDATE_KEYS) return -EINVAL;
            if (!key_line(text, line, out->points[out->count])) return -EINVAL;
            out->count++;
        }
        text = newline == NULL ? end : newline + 1;
    }
    return 0;
}

u64 update_version_number(const char *text) {
    u64 number = 0;
    for (u32 part = 0; part < 3; part++) {
        u32 value = 0, digits = 0;
        for (; *text >= '0' && *text <= '9'; text++, digits++) {
            value = value * 10 + (u32)(*text - '0');
            if (value > UINT16_MAX) return 0;
        }
        if (digits == 0) return 0;
        number = number << 16 | value;
        if (part < 2 && *text++ != '.') return 0;
    }
    return number << 16;
}

u16 update_own_arch(void) {
#if defined(__x86_64__)
    return UPDATE_ARCH_X86_64;
#elif defined(__aarch64__)
    return UPDATE_ARCH_AARCH64;
#else
    return 0;
#endif
}

u64 update_own_version(void) {
    return update_version_number(SLUICE_VERSION);
}

u64 update_own_build_s(void) {
    struct tm tm = {0};
    if (strptime(SLUICE_BUILD_DATE, "%Y-%m-%dT%H:%M:%SZ", &tm) == NULL) return 0;
    time_t s = timegm(&tm);
    return s > 0 ? (u64)s : 0;
}
